"""Sink similarity and its correlation with Recall; regimes of heads.

Source: arXiv 2602.01893, §4.1, §4.2, A.4, Figures 6, 7, 8 and 11.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reports.figures import style
from reports.figures.plan import Caption, Numbers, planned
from reports.figures.shapes import curve
from reports.run import SCORES, Run, at_size, each, notes, with_limits
from reports.statistics import flat
from reports.tables.table import (
    Cell,
    Column,
    Table,
    estimate,
    estimates,
    intervals,
    labels,
    limits,
    numbers,
    share,
    text,
    whole,
    wholes,
)
from reports.text.number import count, percent, rounded
from reports.topics.entry import Entry

PLAIN: Final = (
    ("pearson", "unattenuated", style.GREEN, style.DASHED, "Pearson, disattenuated"),
    ("pearson", "correlation", style.BLUE, "-", "measured: Pearson"),
    ("spearman", "correlation", style.ORANGE, style.DASH_DOTTED, "measured: Spearman"),
)
PARTIAL: Final = tuple(
    curve
    for measure, colour, words in (
        ("given_weight", style.PURPLE, "controlling for sink weight"),
        ("given_weight_and_layer", style.VERMILLION, "controlling for weight and layer"),
    )
    for curve in (
        (measure, "unattenuated", colour, style.DASHED, f"{words}, disattenuated"),
        (measure, "correlation", colour, "-", f"measured: {words}"),
    )
)
"""Curves of each panel: measure, coefficient, colour, dashes and label."""


def figure_sink(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw the correlation of Recall with ρ₀ against N, plain and controlling for sink weight and
    layer, on two axes (Figure 6).
    """
    data = run.needed("sink")
    titles = ("Sink’s similarity and Recall", "Partial correlation")
    coefficients = [flat(data[name]) for name in ("correlation", "unattenuated")]
    drawn = np.concatenate([[0.0, 0.3], *coefficients])
    limits = max(-1.03, drawn.min() - 0.2), min(1.03, drawn.max() + 0.2)
    for axis, curves, title in zip(axes, (PLAIN, PARTIAL), titles, strict=True):
        for measure, name, colour, dashes, label in curves:
            look: style.Kwargs = {"color": colour, "linestyle": dashes, "label": label}
            shade = 0.18 if name == "unattenuated" else 0
            curve(axis, data.sel(measure=measure), name, shade, linewidth=1.5, **look)
        if curves is PLAIN:
            _bootstrap(axis, data)
        axis.axhline(0, color=style.GREY, linewidth=0.8)
        axis.set(ylim=limits, ylabel=r"correlation of $R$ with $\rho_0$ over heads", title=title)
        style.size_axis(axis, float(data["n"].max()), "selected tokens $N$ (log)")
        style.legend_below(axis, columns=1)
    return axes


def _bootstrap(axes: Axes, data: xr.Dataset) -> None:
    """Draw bootstrap intervals over documents of both coefficients."""
    for measure, colour, label in (
        ("pearson", style.BLUE, "bootstrap over documents, 95% (biased low)"),
        ("spearman", style.ORANGE, None),
    ):
        selected = data.sel(measure=measure)
        n, low, high = (
            selected[name].values
            for name in ("n", "correlation_boot_lower", "correlation_boot_upper")
        )
        if np.isfinite(low).any():
            look: style.Kwargs = {"color": colour, "linestyle": ":", "linewidth": 0.9}
            axes.plot(n, low, **look, label=label)
            axes.plot(n, high, **look)


@planned(figure_sink, "Does the sink’s similarity matter?", 4.2, paper="Figure 6", group="sink")
def caption_sink(run: Run) -> Caption:
    """Return the caption of the counterpart of Figure 6."""
    data, pearson = run.needed("sink"), run.needed("sink").sel(measure="pearson")
    heads, distinct = int(data.attrs["heads"]), int(data.attrs["distinct"])
    bands = (
        f"Bands: 95% jackknife over {run.counted('document')}, t with {run.documents - 1} degrees"
        " of freedom, on Fisher’s z. Document noise attenuates a correlation; the dashed lines are"
        " disattenuated by products of different documents. Dotted, in the colour of the"
        f" coefficient: bootstrap interval over documents ({data.attrs['resamples']:,} resamples),"
        " biased low, shown for comparison. "
        if run.documents > 1
        else ""
    )
    description = (
        "Correlation of Recall with ρ₀, the mean cosine between the sink’s value and all other"
        f" values of a head, over {count(heads, 'head')} that see the sink, against the number N of"
        f" selected tokens. Heads with the same KV head share ρ₀, so there are {distinct} distinct"
        f" values. {bands}Right: partial correlation, controlling for sink weight, and for sink"
        " weight and layer. Look for: the paper’s peaks,"
        f" {run.display.attrs['paper_correlations']}."
    )
    sizes = run.display.attrs["paper_correlation_sizes"]
    say, parts = Numbers(), []
    for size in sizes:
        measured = at_size(pearson["correlation"], size)
        if np.isfinite(measured):
            part = f"at N = {say.whole('N', size)},"
            part += f" {say.figures(f'correlation at N = {size}', measured)} as measured"
            limits = _unattenuated(pearson, size)
            if np.isfinite(limits[0]):
                words = _limits(say, f"unattenuated at N = {size}", *limits)
                part += f" and {words} disattenuated"
            parts.append(part)
    if not parts:
        return Caption(description, notes(data))
    peak = int(pearson["peak_n"])
    top = at_size(pearson["correlation"], peak)
    finding = (
        f"{_direction(pearson, sizes)}: {'; '.join(parts)}; the largest measured value is"
        f" {say.figures('largest correlation', top)} at N = {say.whole('N of the largest', peak)}."
        f" {_partial_in_words(data, sizes[0], say)}{notes(data)}"
    )
    return Caption(description, finding.strip(), say.all)


def _unattenuated(selected: xr.Dataset, size: int) -> tuple[float, float, float]:
    """Return a disattenuated coefficient and its 95% limits at a size; NaN if unknown."""
    return with_limits(selected.reindex(n=[size]).squeeze("n"), "unattenuated")


def _limits(say: Numbers, name: str, value: float, low: float, high: float) -> str:
    """Return a value with its 95% limits, in words."""
    shown = say.figures(name, value)
    if not np.isfinite(low):
        return shown
    ends = (say.figures(f"{name}, {side}", end) for side, end in (("lower", low), ("upper", high)))
    return f"{shown} (95%: {' to '.join(ends)})"


def _direction(pearson: xr.Dataset, sizes: Sequence[int]) -> str:
    """Return the direction of the correlation at the paper's first size in the run, in words."""
    size = next(size for size in sizes if np.isfinite(at_size(pearson["correlation"], size)))
    sign = at_size(pearson["unattenuated_sign"], size)
    if not np.isfinite(sign):  # too noisy to disattenuate
        sign = at_size(pearson["correlation_sign"], size)
    if not np.isfinite(sign):
        return "Correlation of Recall with the sink’s similarity"
    if not sign:
        return "The correlation of Recall with the sink’s similarity is undetermined"
    return (
        f"Heads with a sink more similar to other tokens have {'higher' if sign > 0 else 'lower'}"
        " Recall"
    )


def _partial_in_words(data: xr.Dataset, size: int, say: Numbers) -> str:
    """Return a sentence: partial correlation at the paper's first size."""
    selected = data.sel(measure="given_weight_and_layer")
    value, low, high = _unattenuated(selected, size)
    if not np.isfinite(low):
        return ""
    limits = _limits(say, "given weight and layer", value, low, high)
    return (
        f"Controlling for sink weight and layer, it is {limits} at N ="
        f" {say.whole('N, given weight and layer', size)} (the null is no correlation, not permuted"
        " values). "
    )


MEASURES = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "kv_heads": "Pearson over KV heads",
    "given_weight": "controlling for sink weight",
    "given_weight_and_layer": "controlling for weight and layer",
}


def _sink(run: Run, data: xr.Dataset) -> Table:
    """Return the table of correlations: one row per coefficient, and per N of the paper or of the
    largest coefficient.
    """
    columns = (
        Column("coefficient", lambda row: text(MEASURES[row["measure"].item()]), "l"),
        Column("N", _size, "l"),
        estimates("as measured", "correlation"),
        intervals("95% interval", "correlation"),
        intervals("bootstrap", "correlation_boot"),
        Column("disattenuated", partial(_corrected, cell=estimate, name="unattenuated")),
        Column("95% interval", partial(_corrected, cell=limits, name="unattenuated")),
        Column("slope", partial(_corrected, cell=estimate, name="slope")),
    )
    rows: list[xr.Dataset] = []
    for measure in MEASURES:
        selected = data.sel(measure=measure)
        peak = int(selected["peak_n"])
        sizes = [*run.display.attrs["paper_correlation_sizes"], *([peak] if peak else [])]
        known = [n for n in dict.fromkeys(sizes) if n in data["n"].values]
        rows += each(selected.sel(n=known), "n")
    title = "The sink's similarity and Recall (the paper’s Figure 6)"
    caption = f"{_how_correlated(run, data)} {notes(data)}".strip()
    return Table.of("sink", title, caption, columns, rows)


def _size(row: xr.Dataset) -> Cell:
    """Return N, marked if the coefficient is largest there."""
    n = int(row["n"])
    if n != int(row["peak_n"]):
        return whole(n)
    return replace(text(f"{n} (largest)"), latex=f"${n}$ (largest)", sort=float(n))


def _corrected(row: xr.Dataset, cell: Callable[[xr.Dataset, str], Cell], name: str) -> Cell:
    """Return the cell of a disattenuated variable; Spearman's is not disattenuated."""
    return text("–") if row["measure"].item() == "spearman" else cell(row, name)


def _how_correlated(run: Run, data: xr.Dataset) -> str:
    """Return the caption of the table of correlations, without notes."""
    over = f"Over {count(int(data.attrs['heads']), 'head')} with {int(data.attrs['distinct'])}"
    if run.documents < 2:
        return f"{over} distinct ρ₀."
    return (
        f"{over} distinct ρ₀, {run.counted('document')}. As measured: correlation of means over"
        " documents, as in the paper. Disattenuated: from products of different documents only, so"
        " document noise does not bias it towards 0. 95% intervals: jackknife over documents with"
        f" t({run.documents - 1}) on Fisher’s z; bootstrap: percentiles of"
        f" {int(data.attrs['resamples']):,} resamples (seed {int(data.attrs['seed'])}), biased low,"
        " for comparison only. Slope: disattenuated change of Recall per unit of ρ₀. Layer enters"
        " as a factor. The N of the largest correlation is selected after inspection."
    )


REGIMES = {
    "retriever": ("Retriever", style.BLUE, "-"),
    "mixer": ("Mixer", style.ORANGE, style.DASHED),
    "reset": ("Reset", style.VERMILLION, style.DASH_DOTTED),
    "unclassified": ("unclassified", style.GREY, (0, (1, 1))),
}
"""Label, colour and dashes of each regime, in the order of a legend."""


NOUNS: dict[str, Any] = {"retriever": "Retrievers", "mixer": "Mixers", "reset": "Resets"}


NORM = "representative_norm"
NORMS = (
    (NORM, style.PALE, "norm of $s(N)$", "-", 4.0),
    (f"{NORM}_without_sink", style.VERMILLION, "without the sink", style.DASH_DOTTED, 1.4),
    (f"{NORM}_without_last", style.BLUE, "without the last token", style.DASHED, 1.4),
)

COSINES = (
    ("cosine_to_sink", style.VERMILLION, "cosine with $v_0$", "-", 1.4),
    ("cosine_to_last", style.BLUE, "cosine with $v_L$", style.DASHED, 1.4),
)
"""Curves of a head: variable, colour, label, dashes, width."""


def typical_head(axes: Sequence[Axes], run: Run, regime: str) -> bool:
    """Write the regime and its typical head above panels; return whether there is such a head."""
    selected, words = run.needed("regimes").sel(regime=regime), REGIMES[regime][0]
    layer, head = int(selected["typical_layer"]), int(selected["typical_head"])
    axes[0].set_title(f"{words}: {run.name_of(layer, head) if layer >= 0 else 'none'}")
    for axis in axes if layer < 0 else ():
        style.nothing(axis, "no head of this regime")
    return layer >= 0


def figure_regimes(axes: Any, run: Run) -> Any:
    """Draw norms of s(N) with and without sink and last token, and cosines with v₀ and v_L, for one
    head per regime, on 2 × 3 axes, with bands over documents (Figure 7).
    """
    data = run.needed("regimes")
    for name, above, below in zip(NOUNS, *axes, strict=True):
        selected = data.sel(regime=name)
        if not typical_head((above, below), run, name):
            continue
        for axis, curves in ((above, NORMS), (below, COSINES)):
            for variable, colour, label, dashes, width in curves:
                look: style.Kwargs = {"color": colour, "linestyle": dashes, "label": label}
                shade = 0 if colour == style.PALE else 0.2  # a pale band would hide other lines
                curve(axis, selected, f"typical_{variable}", shade, linewidth=width, **look)
            style.size_axis(axis, float(data["n"].max()), "", few=True)
        above.set_ylim(bottom=0)
        above.set_xticklabels([])
        below.axhline(0, color=style.GREY, linewidth=0.8)
        below.set_xlabel("selected tokens $N$ (log)")
    drawn = [axis for axis in axes[1] if axis.lines]
    lowest = min((axis.dataLim.ymin for axis in drawn), default=0.0)
    for axis in drawn:
        axis.set_ylim(max(-1.05, lowest - 0.12), 1.05)
    axes[0][0].set_ylabel(r"norm of $s(N)$")
    axes[1][0].set_ylabel("cosine of $s(N)$")
    _legend_of_rows(axes)
    return axes


def _legend_of_rows(axes: Any) -> None:
    """Add one legend below all panels, with one line per row of panels."""
    rows = [style.entries_of(*row) for row in axes]
    columns = max(len(row) for row in rows)
    if columns:
        # matplotlib fills columns first
        ordered = [row[index] for index in range(columns) for row in rows if index < len(row)]
        axes[0][0].figure.legend(
            *zip(*ordered, strict=True),
            loc="outside lower center",
            ncols=2 if style.narrow(axes[0][0]) else columns,
            columnspacing=1.4,
        )


@planned(
    figure_regimes,
    "Which regimes do heads follow?",
    4.9,
    paper="Figure 7",
    grid=(2, 3),
    group="regimes",
)
def caption_regimes(run: Run) -> Caption:
    """Return the caption of the counterpart of Figure 7."""
    data = run.needed("regimes")
    thresholds = {key: float(value) for key, value in dict(data.attrs["thresholds"]).items()}
    bands = " with 95% bands for all but the grey line" if run.documents > 1 else ""
    description = (
        "One typical head of each regime: the head with the median alignment score of its rule."
        " Top: norm of the representative s(N), and without the sink or the last token. Bottom:"
        " cosine of s(N) with the values of the sink, v₀, and of the last token, v_L. Mean over"
        f" {run.counted('document')}{bands}, at the last query. Two criteria classify a head. By"
        " sizes: the last token’s contribution ‖α_L v_L‖, compared with the sink’s and the sum of"
        " all others, is the largest for a Retriever, intermediate for a Mixer, and the smallest"
        f" for a Reset. By alignment, up to N = {thresholds['large']:g} T: s(N) is strongly aligned"
        f" with v_L at all N (cosine above {thresholds['strong']:g}) for a Retriever; it moves from"
        f" v₀ at N ≤ {thresholds['small']:g} towards v_L for a Mixer; it stays nearer to v₀, with"
        " weak alignment to v_L, for a Reset. Sizes must differ by a factor"
        f" {thresholds['factor']:g}, cosines by {thresholds['margin']:g}; heads on which the two"
        " criteria do not agree are unclassified. The paper gives no thresholds; these are"
        " geostat’s and are not tuned."
    )
    heads = data["heads"].sel(criterion="both")
    total = int(heads.sum())
    if not total:
        return Caption(description, notes(data))
    say = Numbers()
    all_heads = say.counted("heads", total, "head")
    known = ", ".join(
        f"{say.whole(name, int(heads.sel(regime=name)))} {noun}"
        for name, noun in {**NOUNS, "unclassified": "unclassified"}.items()
    )
    finding = f"Of {all_heads}: {known}. {_agreement(data, say)}{notes(data)}"
    return Caption(description, finding.strip(), say.all)


CHANCE = {
    0: ", not distinguishable from chance",
    1: ", more often than chance",
    -1: ", less often than chance",
}
"""Comparison with chance by the sign of Cohen's κ and its interval."""


def _agreement(data: xr.Dataset, say: Numbers) -> str:
    """Return a sentence: agreement of both criteria, with Cohen's κ."""
    if not int(data["classified"]):
        return ""
    value, low, high = with_limits(data, "kappa")
    sentence = (
        "Sizes and alignment both classify"
        f" {say.whole('heads classified by both', int(data['classified']))} heads, and agree on"
        f" {say.whole('heads named alike', int(data['agreed']))}"
    )
    if not np.isfinite(value):
        return f"{sentence}. "
    sign = float(data["kappa_sign"])
    return (
        f"{sentence}{CHANCE[int(sign)] if np.isfinite(sign) else ''}: Cohen’s κ is"
        f" {_limits(say, 'kappa', value, low, high)}. "
    )


def figure_regime_depth(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw the number of heads of each regime by layer, classified by sizes, by alignment and by
    both, on three axes (Figure 8).
    """
    data = run.needed("regimes")
    layers = data["layer"].values
    across, step = np.arange(layers.size), max(1, -(-layers.size // 16))
    titles = {"size": "By sizes alone", "alignment": "By alignment alone", "both": "Both agree"}
    for axis, (criterion, title) in zip(axes, titles.items(), strict=True):
        floor = np.zeros(layers.size)
        for name, (label, colour, _) in REGIMES.items():
            heights = data["count"].sel(criterion=criterion, regime=name).values.astype(np.float64)
            shade = style.PALE if name == "unclassified" else colour
            axis.bar(across, heights, bottom=floor, color=shade, width=0.82, label=label)
            floor += heights
        axis.set_xticks(across[::step], [str(layer) for layer in layers[::step]])
        axis.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
        axis.grid(False, axis="x")
        axis.set(xlim=(-0.7, layers.size - 0.3), ylim=(0, run.capture.sizes["head"]))
        axis.set(ylabel="heads", title=title)
    axes[-1].set_xlabel("layer")
    style.legend_below(axes[-1], columns=4)
    return axes


@planned(
    figure_regime_depth,
    "How are regimes distributed over depth?",
    5.6,
    paper="Figure 8",
    grid=(3, 1),
    group="regimes",
)
def caption_regime_depth(run: Run) -> Caption:
    """Return the caption of the counterpart of Figure 8."""
    data = run.needed("regimes")
    description = (
        f"Heads of each regime by layer, of {run.counted('head')}: classified by sizes alone, by"
        " alignment alone, and by agreement of both (the previous caption gives the rules). Look"
        " for: the paper’s order for Llama-2-7B, with Retrievers in the first two layers, Resets in"
        " the next few, and Mixers from the lower middle on."
    )
    say = Numbers()
    depths = [
        f"{noun} {say.figures(f'mean depth, {name}', depth)}"
        for name, noun in NOUNS.items()
        if np.isfinite(depth := float(data["mean_depth"].sel(regime=name)))
    ]
    finding = (
        f"Mean depth (layers from 0 to {say.whole('last layer', data.sizes['layer'] - 1)}) of heads"
        f" on which both criteria agree: {', '.join(depths)}. "
        if depths
        else ""
    )
    if labelled := int(data["labelled"]):
        stable = say.counted("heads that keep it", int(data["kept"]), "head")
        total = say.whole("heads of a regime", labelled)
        resamples = say.counted("resamples", int(data.attrs["resamples"]), "resample")
        finding += (
            f"Of these {total}, {stable} keep their regime in 95% of {resamples} of the documents."
        )
    finding = finding.strip() + (f" {notes(data)}" if notes(data) else "")
    return Caption(description, finding.strip(), say.all)


def figure_regime_curves(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw Precision and Recall against N by regime, with bands over documents, on two axes
    (Figure 11).
    """
    data = run.needed("regimes").sel(criterion="both")
    for axis, (statistic, title) in zip(axes, SCORES.items(), strict=True):
        for name, (regime, colour, dashes) in REGIMES.items():
            selected = data.sel(regime=name)
            label = f"{regime} ({count(int(selected['heads']), 'head')})"
            look: style.Kwargs = {"color": colour, "linestyle": dashes, "label": label}
            curve(axis, selected, statistic, 0.15, clip=True, linewidth=1.6, **look)
        style.size_axis(axis, float(data["n"].max()), "selected tokens $N$ (log)")
        axis.set(ylim=(-0.02, 1.03), ylabel="mean over heads and documents", title=title)
    style.legend_shared(axes)
    return axes


@planned(
    figure_regime_curves,
    "Do regimes differ in separability?",
    3.9,
    paper="Figure 11",
    group="regimes",
)
def caption_regime_curves(run: Run) -> Caption:
    """Return the caption of the counterpart of Figure 11."""
    data = run.needed("regimes")
    band = (
        f"; bands: 95% over {run.counted('document')}, t with {run.documents - 1} degrees of"
        " freedom"
        if run.documents > 1
        else ""
    )
    description = (
        "Precision and Recall against the number N of selected tokens, mean over the heads of a"
        f" regime (both criteria){band}. Look for: the paper’s findings, higher Recall but lower"
        " Precision at large N for Retrievers, and scores of Resets that rise again."
    )
    both = data.sel(criterion="both")
    say, parts = Numbers(), []
    for size in sorted({run.small_size, int(data["large_size"])}):
        by_regime = []
        for name, noun in NOUNS.items():
            values = {score: at_size(both[score].sel(regime=name), size) for score in SCORES}
            if np.isfinite(values["precision"]):
                shown = (
                    say.figures(f"{score} of {name} at N = {size}", value)
                    for score, value in values.items()
                )
                by_regime.append(f"{noun} {' and '.join(shown)}")
        if by_regime:
            size_words = say.whole("N", size)
            parts.append(f"At N = {size_words}, Precision and Recall are: {', '.join(by_regime)}")
    return Caption(description, ". ".join(parts) + "." if parts else notes(data), say.all)


CRITERIA = {"size": "sizes", "alignment": "alignment", "both": "both agree"}


def _regimes(run: Run, data: xr.Dataset) -> Table:
    """Return the table of regimes: heads, stability and contributions by criterion and regime."""
    stability = ("leave one out", "resampled", "other thresholds")
    sizes = (r"$\|\alpha_0 v_0\|$", r"$\|\alpha_L v_L\|$", "rest")
    columns = (
        Column("classified by", lambda row: text(CRITERIA[row["criterion"].item()]), "l"),
        labels("regime", "regime"),
        wholes("heads", "heads"),
        *(Column(words, partial(_stable, index=index)) for index, words in enumerate(stability)),
        *(
            numbers(words, "contribution", part=part)
            for part, words in zip(data["part"].values, sizes, strict=True)
        ),
    )
    kappa = rounded(float(data["kappa"]), float(data["kappa_se"])).plain
    draws = (
        f"{int(data.attrs['resamples']):,} resamples (seed {int(data.attrs['seed'])})"
        if run.documents > 1
        else "no resamples"
    )
    caption = (
        "Heads of each regime, and the share of replicates in which they keep it: leave-one-out"
        f" over {run.counted('document')}, {draws}, other thresholds (table below). Contributions:"
        " median over the regime’s heads, value norm. Sizes and alignment are the paper’s two"
        f" descriptions (section 4.2). Both classify {int(data['classified'])} heads, and agree on"
        f" {int(data['agreed'])} (Cohen’s κ {kappa}; 0 is chance). {notes(data)}"
    )
    title = "Regimes of heads (the paper’s Figures 8 and 10)"
    by_regime = data.sel(criterion=list(CRITERIA), regime=_unclassified_last(data))
    rows = each(by_regime, "criterion", "regime")
    return Table.of("regimes", title, caption.strip(), columns, rows)


def _stable(row: xr.Dataset, index: int) -> Cell:
    return share(float("nan"), percent(float(row["stability"][index]), 0))


def _unclassified_last(data: xr.Dataset) -> list[str]:
    first, *others = map(str, data["regime"].values)
    return [*others, first]


def _sweep(run: Run, data: xr.Dataset) -> Table:
    """Return the table of other thresholds: counts by alignment and by both criteria."""
    thresholds = dict(data.attrs["thresholds"])
    columns = [labels("thresholds", "sweep")]
    columns += [
        wholes(f"{regime}, {CRITERIA[criterion]}", "heads", criterion=criterion, regime=regime)
        for criterion in ("both", "alignment")
        for regime in _unclassified_last(data)
    ]
    caption = (
        f"As used: strong alignment means a cosine above {thresholds['strong']:g}; cosines must"
        f" differ by {thresholds['margin']:g}, sizes by a factor {thresholds['factor']:g}; N is"
        f" small up to {int(thresholds['small'])} and very large above {thresholds['large']:g} T;"
        " the size of the other tokens is the norm of their sum. Each other row changes one of"
        " these."
    )
    as_used = data[["heads"]].assign_coords(sweep="as used")
    rows = [as_used, *each(data[["sweep_heads"]].rename(sweep_heads="heads"), "sweep")]
    return Table.of("regime_sweep", "Regimes under other thresholds", caption, columns, rows)


def tables(run: Run) -> list[Table]:
    """Return the tables of the sink's correlations and of regimes, if the run has them."""
    of_sink = [] if run.sink is None else [_sink(run, run.sink)]
    data = run.regimes
    return of_sink if data is None else [*of_sink, _regimes(run, data), _sweep(run, data)]


ENTRIES: Final = (
    Entry(
        key="sink",
        short="Sink",
        question="Does the sink’s similarity predict Recall?",
        figures=("sink", "sphere"),
        tables=("sink",),
        rows=("sink_correlates", "sink_precision", "sink_predicted"),
    ),
    Entry(
        key="regimes",
        short="Regimes",
        question="Which regime is each head: Retriever, Mixer or Reset?",
        figures=("regimes", "contributions", "regime_depth", "regime_curves"),
        tables=("regimes", "regime_sweep"),
        rows=("regimes", "regimes_norms", "regimes_sizes", "regimes_depth", "regimes_curves"),
    ),
)
