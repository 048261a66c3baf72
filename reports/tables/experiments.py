"""Tables of the paper's experiments: the sink's correlations, the regimes and their stability.

Imports this room's cells, numbers and run, and the table of separability against chance. A group
that the run lacks has no table.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import xarray as xr

from reports.run import Run, at_size, notes
from reports.tables.cells import (
    Cell,
    header,
    interval,
    number,
    share,
    text,
    whole,
)
from reports.tables.separability import against_chance
from reports.tables.table import Table
from reports.text.number import count, percent, rounded

MEASURES = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "value_heads": "Pearson over value heads",
    "given_weight": "given the sink's weight",
    "given_weight_and_layer": "given weight and layer",
}
CRITERIA = {"size": "sizes", "alignment": "alignment", "both": "both agree"}


def experiment_tables(run: Run) -> list[Table]:
    """All tables of the experiments that the run holds."""
    makers = {"sink": [_sink], "regimes": [_regimes, _sweep], "separable": [against_chance]}
    return [
        make(run, data)
        for name, makes in makers.items()
        if (data := getattr(run, name)) is not None
        for make in makes
    ]


def _sink(run: Run, data: xr.Dataset) -> Table:
    """One row a measure and size."""
    rows = []
    for measure in MEASURES:
        peak = int(data["peak_n"].sel(measure=measure))
        sizes = [*run.display.attrs["paper_correlation_sizes"], *([peak] if peak else [])]
        rows += [
            _coefficient(data, measure, n, largest=n == peak)
            for n in dict.fromkeys(sizes)
            if n in data["n"].values
        ]
    headers = [
        "coefficient",
        "N",
        "as measured",
        "95% interval",
        "bootstrap",
        "free of noise",
        "95% interval",
        "slope",
    ]
    return Table(
        "sink",
        "The sink's similarity and Recall (the paper’s Figure 6)",
        f"{_how_correlated(run, data)} {notes(data)}".strip(),
        header(*headers),
        rows,
        "llrrrrrr",
        keys=2,
    )


def _coefficient(data: xr.Dataset, measure: str, n: int, *, largest: bool) -> list[Cell]:
    """One coefficient at one size, with its intervals; Spearman's is not freed of noise."""
    at = data.sel(measure=measure)
    value = {name: at_size(at[name], n) for name in at.data_vars if at[name].dims == ("n",)}
    size = (
        replace(text(f"{n} (largest)"), latex=f"${n}$ (largest)", sort=float(n))
        if largest
        else whole(n)
    )
    freed = (
        [text("–")] * 3
        if measure == "spearman"
        else [
            number(value["unattenuated"], value["unattenuated_se"]),
            interval(value["unattenuated_lower"], value["unattenuated_upper"]),
            number(value["slope"], value["slope_se"]),
        ]
    )
    return [
        text(MEASURES[measure]),
        size,
        number(value["correlation"], value["correlation_se"]),
        interval(value["correlation_lower"], value["correlation_upper"]),
        interval(value["correlation_boot_lower"], value["correlation_boot_upper"]),
        *freed,
    ]


def _how_correlated(run: Run, data: xr.Dataset) -> str:
    """Over which heads and documents, and what each column of the sink's table is."""
    over = f"Over {count(int(data.attrs['heads']), 'head')} with {int(data.attrs['distinct'])}"
    if run.documents < 2:
        return f"{over} distinct ρ₀."
    return (
        f"{over} distinct ρ₀, {run.counted('document')}. As measured: means over documents"
        " correlated, as the paper does. Free of noise: the same from products of different"
        " documents only, which the noise of few documents does not pull towards 0. 95% intervals:"
        f" jackknife over documents with t({run.documents - 1}) on Fisher's z; bootstrap:"
        f" percentiles of {int(data.attrs['resamples']):,} resamples (seed"
        f" {int(data.attrs['seed'])}), for comparison only: they lie too low. Slope: change of"
        " Recall per unit of ρ₀, free of noise. Layer is a factor. The N of the largest correlation"
        " was chosen by looking."
    )


def _regimes(run: Run, data: xr.Dataset) -> Table:
    """One row a criterion and regime: heads, stability, contributions."""
    rows = []
    names = [str(name) for name in data["regime"].values]
    for criterion, words in CRITERIA.items():
        for name in (*names[1:], names[0]):
            at = data.sel(criterion=criterion, regime=name)
            rows.append(
                [
                    text(words),
                    text(name),
                    whole(float(at["heads"])),
                    *(share(float("nan"), percent(float(value), 0)) for value in at["stability"]),
                    *(number(float(value)) for value in at["contribution"]),
                ]
            )
    kappa = rounded(float(data["kappa"]), float(data["kappa_se"])).plain
    draws = (
        f"{int(data.attrs['resamples']):,} resamples (seed {int(data.attrs['seed'])})"
        if run.documents > 1
        else "no resamples"
    )
    caption = (
        "A regime's heads, and in which share of replicates they keep it:"
        f" {run.counted('document')} left out one by one, {draws}, other thresholds (table below)."
        " Contributions: median over the regime's heads, value norm. Sizes and alignment are the"
        f" paper's two descriptions (section 4.2); they both name a regime in {int(data['told'])}"
        f" heads and the same one in {int(data['agreed'])} (Cohen's κ {kappa}; 0 is chance)."
        f" {notes(data)}"
    )
    kept = "leave one out", "resampled", "other thresholds"
    sizes = r"$\|\alpha_0 v_0\|$", r"$\|\alpha_L v_L\|$", "rest"
    headers = header("told by", "regime", "heads", *kept, *sizes)
    title = "Regimes of heads (the paper’s Figures 8 and 10)"
    return Table("regimes", title, caption.strip(), headers, rows, "llrrrrrrr", keys=2)


def _sweep(run: Run, data: xr.Dataset) -> Table:
    """One row a setting: counts by alignment and by both."""
    at = dict(data.attrs["thresholds"])
    names = [str(name) for name in data["regime"].values]
    columns = list(product(("both", "alignment"), (*names[1:], names[0])))
    rows = []
    for setting in (None, *data["sweep"].values):
        counts = data["heads"] if setting is None else data["sweep_heads"].sel(sweep=setting)
        cells = [whole(float(counts.sel(criterion=told, regime=name))) for told, name in columns]
        rows.append([text("as used" if setting is None else setting), *cells])
    headers = header("thresholds", *(f"{name}, {CRITERIA[told]}" for told, name in columns))
    caption = (
        f"As used: alignment strong from a cosine of {at['strong']:g}; cosines must differ by"
        f" {at['margin']:g}, sizes by a factor {at['factor']:g}; small N up to"
        f" {int(at['small'])}, very large beyond {at['large']:g} T; the rest by the norm of its"
        " sum. Each other row changes one of these."
    )
    return Table(
        "regime_sweep",
        "Regimes under other thresholds",
        caption,
        headers,
        rows,
        "l" + "r" * 8,
    )
