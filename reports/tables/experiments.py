"""Tables of the paper's experiments: the sink's correlations, the regimes and their stability,
separability against its nulls.

Imports this room's cells, numbers and run. A group that the run lacks has no table.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr

from reports.run import NULLS, Run, at_size, notes
from reports.tables.cells import (
    header,
    interval,
    mixed,
    number,
    p_value,
    share,
    stacked,
    text,
    whole,
)
from reports.tables.table import Table
from reports.text.number import count, percent, rounded

SIZES = (2, 3, 4, 6, 8, 16, 64, 256, 1024, 4096)
"""Sizes N of the tables, of which a run shows those it holds below its T."""
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
    makers = {"sink": [_sink], "regimes": [_regimes, _sweep], "separable": [_separable]}
    return [
        make(run, data)
        for name, makes in makers.items()
        if (data := getattr(run, name)) is not None
        for make in makes
    ]


def _sink(run: Run, data: xr.Dataset) -> Table:
    """One row a measure and size."""
    rows = []
    for measure, words in MEASURES.items():
        at = data.sel(measure=measure)
        peak = int(at["peak_n"])
        for n in dict.fromkeys(
            [*run.display.attrs["paper_correlation_sizes"], *([peak] if peak else [])]
        ):
            if n not in data["n"].values:
                continue
            value = {name: at_size(at[name], n) for name in at.data_vars if at[name].dims == ("n",)}
            size = (
                replace(text(f"{n} (largest)"), latex=f"${n}$ (largest)", sort=float(n))
                if n == peak
                else whole(n)
            )
            rows.append(
                [
                    text(words),
                    size,
                    number(value["correlation"], value["correlation_se"]),
                    interval(value["correlation_lower"], value["correlation_upper"]),
                    interval(value["correlation_boot_lower"], value["correlation_boot_upper"]),
                    *(
                        [text("–")] * 3
                        if measure == "spearman"
                        else [
                            number(value["unattenuated"], value["unattenuated_se"]),
                            interval(value["unattenuated_lower"], value["unattenuated_upper"]),
                            number(value["slope"], value["slope_se"]),
                        ]
                    ),
                ]
            )
    caption = (
        f"Over {count(int(data.attrs['heads']), 'head')} with {int(data.attrs['distinct'])}"
        f" distinct ρ₀, {run.counted('document')}. As measured: means over documents correlated, as"
        " the paper does. Free of noise: the same from products of different documents only, which"
        " the noise of few documents does not pull towards 0. 95% intervals: jackknife over"
        f" documents with t({run.documents - 1}) on Fisher's z; bootstrap: percentiles of"
        f" {int(data.attrs['resamples']):,} resamples (seed {int(data.attrs['seed'])}), for"
        " comparison only: they lie too low. Slope: change of Recall per unit of ρ₀, free of"
        " noise. Layer is a factor. The N of the largest correlation was chosen by looking."
        if run.documents > 1
        else (
            f"Over {count(int(data.attrs['heads']), 'head')} with {int(data.attrs['distinct'])}"
            " distinct ρ₀."
        )
    )
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
        name="sink",
        title="The sink's similarity and Recall (Figure 6)",
        headers=header(*headers),
        rows=rows,
        align="llrrrrrr",
        on_paper=[range(5), [0, 1, 5, 6, 7]],
        caption=f"{caption} {notes(data)}".strip(),
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
    headers = [
        *header("told by", "regime", "heads"),
        stacked("leave", "one out"),
        mixed("resampled"),
        stacked("other", "thresholds"),
    ]
    headers += header(r"$\|\alpha_0 v_0\|$", r"$\|\alpha_L v_L\|$", "rest")
    title = "Regimes of heads (Figures 8 and 10)"
    return Table(
        name="regimes",
        title=title,
        headers=headers,
        rows=rows,
        align="llrrrrrrr",
        caption=caption.strip(),
    )


def _sweep(run: Run, data: xr.Dataset) -> Table:
    """One row a setting: counts by alignment and by both."""
    at = dict(data.attrs["thresholds"])
    names = [str(name) for name in data["regime"].values]
    order = (*names[1:], names[0])
    rows = []
    for setting in (None, *data["sweep"].values):
        counts = data["heads"] if setting is None else data["sweep_heads"].sel(sweep=setting)
        cells = [
            whole(float(counts.sel(criterion=criterion, regime=name)))
            for criterion in ("both", "alignment")
            for name in order
        ]
        rows.append([text("as used" if setting is None else setting), *cells])
    headers = [
        mixed("thresholds"),
        *(
            stacked(f"{name},", CRITERIA[criterion])
            for criterion in ("both", "alignment")
            for name in order
        ),
    ]
    return Table(
        name="regime_sweep",
        title="Regimes under other thresholds",
        headers=headers,
        rows=rows,
        align="l" + "r" * 8,
        on_paper=[range(5), [0, *range(5, 9)]],
        caption=(
            f"As used: alignment strong from a cosine of {at['strong']:g}; cosines must differ by"
            f" {at['margin']:g}, sizes by a factor {at['factor']:g}; small N up to"
            f" {int(at['small'])}, very large beyond {at['large']:g} T; the rest by the norm of its"
            " sum. Each other row changes one of these."
        ),
    )


def _separable(run: Run, data: xr.Dataset) -> Table:
    """One row a statistic, null and size."""
    rows = []
    for statistic in ("precision", "recall"):
        for null in (str(name) for name in data["null"].values):
            at = data.sel(null=null)
            if not np.isfinite(at[f"{statistic}_gain"].values).any():
                continue
            for n in (n for n in SIZES if n in data["n"].values and n < run.positions):
                value = {name: at_size(at[f"{statistic}_{name}"], n) for name in PARTS}
                rows.append(
                    [
                        text(statistic.capitalize()),
                        mixed(NULLS.get(null, null.replace("_", " "))),
                        whole(n),
                        number(value["gain"], value["gain_se"]),
                        interval(value["gain_band_lower"], value["gain_band_upper"]),
                        p_value(value["p_holm"]),
                        *(whole(value[name]) for name in ("above", "more", "less", "heads")),
                    ]
                )
    rate = f"{float(data.attrs['false_discovery_rate']):g}"
    caption = (
        f"Measured minus null, mean over heads ± standard error over {run.counted('document')}."
        f" Interval: 95% for all N of one null at once (Bonferroni), t({run.documents - 1}). p:"
        " two-sided, Holm over all 1 < N < T, which tells more than the interval. Heads above:"
        " those whose mean is higher, tested or not. More, less: heads told apart from chance one"
        " by one (exact sign-flip test over documents, Benjamini-Hochberg over heads at each N, q"
        f" = {rate}). "
        if run.documents > 1
        else "Measured minus null, mean over heads. "
    )
    headers = [
        "statistic",
        "null",
        "N",
        "measured − null",
        "95%, all N",
        "p",
        "heads above",
        "more",
        "less",
        "of",
    ]
    return Table(
        name="separable",
        title="More separable than chance?",
        headers=header(*headers),
        rows=rows,
        align="llrrrrrrrr",
        on_paper=[range(6), [0, 1, 2, 6, 7, 8, 9]],
        caption=(caption + beyond_nulls(data) + " " + notes(data)).strip(),
    )


PARTS = (
    "gain",
    "gain_se",
    "gain_band_lower",
    "gain_band_upper",
    "p_holm",
    "above",
    "more",
    "less",
    "heads",
)


def beyond_nulls(data: xr.Dataset) -> str:
    """At which sizes the measured mean lies beyond each null, all N taken together; empty
    without tests.
    """
    lines = []
    n = data["n"].values
    for statistic in ("precision", "recall"):
        for null in (str(name) for name in data["null"].values if str(name) != "floor"):
            side = data[f"{statistic}_side"].sel(null=null).values
            tested = n[np.isfinite(side)]
            if not tested.size:
                continue
            parts = [
                f"{word} it at N = {_runs(n[side == sign], tested)}"
                for word, sign in (("above", 1), ("below", -1))
                if (side == sign).any()
            ]
            words = " and ".join(parts) or "not told apart from it at any N"
            lines.append(f"{statistic.capitalize()} against {NULLS.get(null, null)}: {words}.")
    return " ".join(lines)


def _runs(chosen: np.ndarray, tested: np.ndarray) -> str:
    """Sizes as stretches of neighbours among those tested: `2 to 3, 5 to 995`."""
    kept = np.isin(tested, chosen)
    stretches = np.split(tested, np.flatnonzero(np.diff(kept)) + 1)
    return ", ".join(
        str(part[0]) if part.size == 1 else f"{part[0]} to {part[-1]}"
        for part in stretches
        if part[0] in chosen
    )
