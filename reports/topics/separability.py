"""Separability: Precision and Recall by N with null baselines and bounds, and a schematic example.

Source: arXiv 2602.01893, Definitions 1-2, Figures 1 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from reports.figures import style
from reports.figures.plan import Caption, Numbers, planned
from reports.figures.shapes import COMPARED, band, line
from reports.run import NULLS, SCORES, Run, at_size, each, notes, of_score
from reports.tables.table import (
    Cell,
    Column,
    Table,
    estimates,
    intervals,
    mixed,
    number,
    numbers,
    p_value,
    text,
    wholes,
)
from reports.text.number import in_runs
from reports.topics.entry import Entry

NULL_LINES: Final[dict[str, tuple[str, Any]]] = {
    "random_selection": (style.GREY, style.DASHED),
    "random_directions": (style.PURPLE, (0, (1, 1))),
    "permuted_values": (style.ORANGE, "-."),
}
"""Colour and dashes of each null baseline that is drawn; the table of tests has all."""
BOUND_COLOURS = {"printed": style.VERMILLION, "sharp": style.GREEN}


def figure_idea(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw a schematic example in a plane: contributions, their representative and both balls, with
    an explanation on the right axes (after Figure 1).
    """
    picture, words = axes
    _contributions(picture, run.example)
    _explanation(words, run.example)
    words.legend(
        *picture.get_legend_handles_labels(),
        loc="lower left",
        bbox_to_anchor=(0.0, 0.0),
        borderaxespad=0.0,
        fontsize=rcParams["font.size"],
    )
    return axes


def _contributions(picture: Axes, example: xr.Dataset) -> None:
    """Draw the contributions, the representative and both balls centred on it."""
    selected = example["selected"].values
    y, s, n = example["contribution"].values, example["representative"].values, int(selected.sum())
    outer, inner = float(example["outer_radius"]), float(example["inner_radius"])
    edge: style.Kwargs = {"fill": False, "linewidth": 1.3}
    for circle in (
        Circle(tuple(s), outer, facecolor=style.SKY, alpha=0.15, edgecolor="none"),
        Circle(tuple(s), outer, edgecolor=style.BLUE, **edge),
        Circle(tuple(s), inner, edgecolor=style.VERMILLION, linestyle=(0, (4, 2)), **edge),
    ):
        picture.add_patch(circle)
    for point in y[selected]:
        picture.plot([0, point[0]], [0, point[1]], color=style.BLUE, linewidth=0.7, alpha=0.6)
    for points, marker, colour, size, label in (
        (np.zeros((1, 2)), "+", style.GREY, 9, "origin"),
        (y[~selected], "o", style.GREY, 5, "unselected tokens"),
        (y[selected], "*", style.BLUE, 11, f"the N = {n} selected tokens"),
        (s[None], "X", style.BLACK, 8, "representative s, their sum"),
    ):
        look: style.Kwargs = {"color": colour, "markersize": size, "label": label}
        picture.plot(*points.T, marker, linestyle="none", **look)
    picture.set_aspect("equal")
    low, high = np.minimum(y.min(axis=0), s - outer), np.maximum(y.max(axis=0), s + outer)
    picture.set(xlim=(low[0] - 0.2, high[0] + 0.2), ylim=(low[1] - 0.2, high[1] + 0.2))
    picture.set_axis_off()


def _explanation(words: Axes, example: xr.Dataset) -> None:
    """Write how many tokens each ball contains, and the resulting score."""
    n = int(example["selected"].sum())
    in_outer, in_inner = int(example["inside_outer"]), int(example["inside_inner"])
    outer_words = (
        f"reaches the farthest selected token,\ncontains {in_outer} tokens, {n} of them"
        f" selected:\nPrecision = {n}/{in_outer}"
    )
    inner_words = (
        f"reaches the nearest unselected token,\ncontains {in_inner} of the {n} selected:\nRecall ="
        f" {in_inner}/{n}"
    )
    for height, colour, head, sentence in (
        (0.97, style.BLUE, "Outer ball about s", outer_words),
        (0.62, style.VERMILLION, "Inner ball about s (dashed)", inner_words),
    ):
        look: style.Kwargs = {"color": colour, "va": "top", "transform": words.transAxes}
        words.text(0.02, height, head, weight="bold", **look)
        words.text(0.02, height - 0.065, sentence, linespacing=1.35, **look)
    words.set_axis_off()


@planned(figure_idea, "What is measured", 3.4, paper="Figure 1")
def caption_idea(run: Run) -> Caption:
    """Return the caption of the schematic example."""
    return Caption(
        "A made-up example in a plane. Each mark is the contribution of one token to the output of"
        " an attention head: its attention weight times its value vector. The N tokens with the"
        " largest weights are selected (stars); the sum of their contributions is the"
        " representative s (cross). Precision: the selected share of all tokens no farther from s"
        " than the farthest selected token. Recall: the share of selected tokens no farther from s"
        " than the nearest unselected token. Both are 1 if the selected tokens are separated from"
        " all others."
    )


def figure_separability(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw Precision and Recall against N with confidence bands, null baselines, the floor N/T and
    mean bounds, on two axes (Figure 5).
    """
    summary, label = run.summary, "measured" + ", 95% document band" * (run.documents > 1)
    n = summary["n"].values
    for axis, (statistic, title) in zip(axes, SCORES.items(), strict=True):
        _bounds(axis, run, statistic)
        _nulls(axis, summary, statistic)
        level = summary[f"{statistic}_mean"].values
        axis.plot(n, level, color=style.BLUE, linewidth=2.0, label=label)
        if run.documents > 1:
            band(axis, n, *_clipped_band(summary, f"{statistic}_band"), style.BLUE, 0.25)
        style.size_axis(axis, float(n.max()), "selected tokens $N$ (log)")
        axis.set(ylim=(-0.02, 1.03), ylabel="mean over heads and documents", title=title)
    style.legend_shared(axes)
    return axes


def _clipped_band(data: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return both limits of a band, clipped to [0, 1]."""
    low, high = (np.clip(data[f"{name}_{side}"].values, 0, 1) for side in ("lower", "upper"))
    return low, high


def _bounds(axes: Axes, run: Run, statistic: str) -> None:
    """Draw mean bounds, with a marker at each N on a sparse grid. N = 1 and N = T are omitted: both
    scores equal 1 there by definition.
    """
    n = run.summary["n_envelope"].values
    dense = len(n) > 2 and (np.diff(n) == 1).all()
    drawn = (n > 1) & (n < run.tokens if not dense else n <= run.tokens)
    for edition, gram in run.drawn_bounds:
        limits = _clipped_band(run.summary.sel(edition=edition, gram=gram), statistic)
        low, high = (limit[drawn] for limit in limits)
        look: style.Kwargs = {"color": BOUND_COLOURS.get(edition, style.SKY), "linewidth": 1.0}
        if edition == "sharp":
            band(axes, n[drawn], low, high, look["color"], 0.16)
        else:
            look |= {"linewidth": 1.2, "linestyle": (0, (4, 2))}
        if not dense:
            look |= {"marker": ".", "markersize": 3.5}
        axes.plot(n[drawn], low, **look)
        axes.plot(n[drawn], high, **look, label=f"bounds: {edition}, {gram} Gram")


def _nulls(axes: Axes, summary: xr.Dataset, statistic: str) -> None:
    """Draw null baselines, and the floor of Precision."""
    n = summary["n"].values
    for null in _null_names(summary, statistic):
        colour, dashes = NULL_LINES[null]
        level = summary[f"{statistic}_null"].sel(null=null).values
        known, label = np.isfinite(level), f"null: {null.replace('_', ' ')}"
        look: style.Kwargs = {"color": colour, "linestyle": dashes, "linewidth": 1.3}
        axes.plot(n[known], level[known], **look, label=label)
    if statistic == "precision":
        label = "floor $N/T$: lowest possible Precision"
        axes.plot(n, summary["floor"], color=style.BLACK, linestyle=":", linewidth=1.0, label=label)


def _null_names(summary: xr.Dataset, statistic: str = "precision") -> list[str]:
    """Return the null baselines of a score that are drawn, of those in the run."""
    known = summary["null"].values if f"{statistic}_null" in summary else ()
    return [null for null in NULL_LINES if null in known]


NULL_WORDS = {
    "random_selection": "a random selection",
    "random_directions": "random directions",
    "permuted_values": "permuted values",
}


@planned(figure_separability, "Are selected tokens separable?", 4.3, paper="Figure 5")
def caption_separability(run: Run) -> Caption:
    """Return the caption of the counterpart of Figure 5."""
    summary, size = run.summary, run.small_size
    band = "with a 95% band over documents" if run.documents > 1 else "(one document: no band)"
    bounds = " and ".join(f"{edition} with the {gram} Gram" for edition, gram in run.drawn_bounds)
    nulls = (
        "random selection draws N tokens at random; random directions keep weights and norms and"
        " rotate every value vector at random; permuted values give each content token the"
        " value of another; "
        if "precision_null" in summary
        else ""
    )
    description = (
        "Precision and Recall against the number N of selected tokens, mean over"
        f" {run.counted('head')} and {run.queries} of {run.counted('document')} {band}. Null"
        f" baselines: {nulls}the floor N/T is the Precision of a ball that contains all tokens."
        f" Bounds: {bounds} (Gram: the matrix of cosines), evaluated at the weights of each"
        " document’s last query, averaged, and clipped to [0, 1]. At N = 1 both scores are 1 for"
        " any selection. Look for: a blue line above the null baselines and between its bounds."
    )
    say = Numbers()

    def at_small_n(name: str, curve: xr.DataArray) -> str:
        return say.figures(name, at_size(curve, size))

    p, r = (at_small_n(f"{name} at small N", summary[f"{name}_mean"]) for name in SCORES)
    finding = f"At N = {say.whole('small N', size)}: Precision {p}, Recall {r}"
    for null in _null_names(summary):
        p, r = (
            at_small_n(f"{name} at small N, {null}", summary[f"{name}_null"].sel(null=null))
            for name in SCORES
        )
        finding += f"; {NULL_WORDS.get(null, null)}: {p} and {r}"
    floor = at_small_n("floor N/T", summary["floor"])
    finding += f"; floor of Precision: {floor}.{_below_null(run, say)}"
    inside = "".join(f" {_means_inside(run, say, *pair)}" for pair in run.drawn_bounds)
    return Caption(description, finding + inside, say.all)


def _below_null(run: Run, say: Numbers) -> str:
    """Return sentences with the N at which a measured mean lies significantly below a null."""
    summary, n = run.summary, run.summary["n"].values
    sentences = ""
    for statistic in SCORES:
        for null in _null_names(summary, statistic):
            below = n[summary[f"{statistic}_below_null"].sel(null=null).values]
            if not below.size:
                continue
            name = f"N of {statistic} below {null}"
            unbroken = int(((n >= below[0]) & (n <= below[-1])).sum()) == below.size
            if unbroken and below.size > 1:
                where = " to ".join(say.whole(name, index) for index in below[[0, -1]])
            else:
                where = ", ".join(say.whole(name, index) for index in below[:4])
                where += " and more" if below.size > 4 else ""
            sentences += (
                f" {statistic.capitalize()} is significantly below {NULL_WORDS.get(null, null)} at"
                f" N = {where}."
            )
    return sentences


def _means_inside(run: Run, say: Numbers, edition: str, gram: str) -> str:
    """Return a sentence: at how many N the mean curves lie within the mean bounds."""
    selected = run.summary.sel(edition=edition, gram=gram)
    curves = []
    for name in SCORES:
        inside, counted = (
            say.whole(
                f"{name}_means_{part}, {edition}, {gram}", int(selected[f"{name}_means_{part}"])
            )
            for part in ("inside", "counted")
        )
        curves.append(f"mean {name.capitalize()} at {inside} of {counted}")
    return f"The {edition} bounds ({gram} Gram) contain {' and '.join(curves)} sizes N."


SIZES = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Sizes N of the table of separability."""

SIZES_AGAINST_NULLS = (2, 3, 4, 6, 8, 16, 64, 256, 1024, 4096)
"""Sizes N of the table of tests against null baselines; a run shows those below its T."""


def _by_size(run: Run) -> Table:
    """Return the table of Precision and Recall at round N, with null baselines."""
    columns = [wholes("N", "n")]
    for short, score in zip("PR", SCORES, strict=True):
        columns.append(Column(f"${short}$ measured", partial(_mean, score=score)))
        columns += [
            numbers(f"${short}$, {null.replace('_', ' ')}", f"{score}_null", digits=2, null=null)
            for null in _null_names(run.summary)
        ]
        if score == "precision":
            columns.append(numbers("floor of $P$, $N/T$", "floor", digits=2))
    words = (
        f"± standard error over {run.counted('document')}"
        if run.documents > 1
        else "one document: no standard error"
    )
    caption = (
        f"Precision P and Recall R (shares, no unit), mean over {run.counted('head')} of each"
        f" document, then over documents; {words}. Random selection, random directions and permuted"
        " values are null baselines."
    )
    known = run.summary.sel(n=[n for n in run.summary["n"].values if n in SIZES])
    title, rows = (
        "Separability by number of selected tokens",
        each(known, "n", known="precision_mean"),
    )
    return Table.of("separability", title, caption, columns, rows)


def _mean(row: xr.Dataset, score: str) -> Cell:
    return number(float(row[f"{score}_mean"]), float(row[f"{score}_se"]))


def _against_nulls(run: Run, data: xr.Dataset) -> Table:
    """Return the table of tests: one row per score, null baseline and N."""
    columns = (
        Column("statistic", lambda row: text(row["score"].item().capitalize()), "l"),
        Column("null", lambda row: mixed(_null_name(row["null"].item())), "l"),
        wholes("N", "n"),
        estimates("measured − null", "gain"),
        intervals("95%, all N", "gain_band"),
        Column("p", lambda row: p_value(float(row["p_holm"]))),
        wholes("heads above", "above"),
        *(wholes(name, name) for name in ("more", "less", "heads")),
    )
    rate = f"{float(data.attrs['false_discovery_rate']):g}"
    caption = (
        f"Measured minus null, mean over heads ± standard error over {run.counted('document')}."
        f" Interval: simultaneous 95% over all N of one null (Bonferroni), t({run.documents - 1})."
        " p: two-sided, Holm over all 1 < N < T, more powerful than the interval. Heads above:"
        " heads with a higher mean, without a test. More, less: heads significantly above or below"
        " the null (exact sign-flip test over documents, Benjamini-Hochberg over heads at each N, q"
        f" = {rate}{fewest(run, data)}). The following sentences are on the mean over heads. "
        if run.documents > 1
        else "Measured minus null, mean over heads. "
    )
    caption = (caption + beyond_nulls(data) + " " + notes(data)).strip()
    sizes = [n for n in SIZES_AGAINST_NULLS if n in data["n"].values and n < run.tokens]
    rows = [
        row
        for score in SCORES
        for of_null in each(of_score(data, score), "null", known="gain")
        for row in each(of_null.sel(n=sizes), "n")
    ]
    title = "Separability above null baselines"
    return Table.of("separable", title, caption, columns, rows)


def _null_name(null: str) -> str:
    return NULLS.get(null, null.replace("_", " "))


def fewest(run: Run, data: xr.Dataset) -> str:
    """Say how many heads the test needs, as p is at least 2^(1−K) with K documents; "" if one is
    enough or all are too few.
    """
    heads = float(data["precision_heads"].max())
    fewest = heads * 2.0 ** (1 - run.documents) / float(data.attrs["false_discovery_rate"])
    if not 1 < fewest <= heads:
        return ""
    return f"; with {run.counted('document')} it finds none in fewer than {math.ceil(fewest)} heads"


def beyond_nulls(data: xr.Dataset) -> str:
    """Return sentences with the N at which the measured mean differs significantly from each null;
    empty without tests.
    """
    sentences = []
    n = data["n"].values
    for statistic in SCORES:
        for null in (str(name) for name in data["null"].values if str(name) != "floor"):
            side = data[f"{statistic}_side"].sel(null=null).values
            tested = n[np.isfinite(side)]
            if not tested.size:
                continue
            parts = [
                f"{word} it at N = {in_runs(tested, np.isin(tested, n[side == sign]))}"
                for word, sign in (("above", 1), ("below", -1))
                if (side == sign).any()
            ]
            words = " and ".join(parts) or "not distinguishable from it at any N"
            sentences.append(f"{statistic.capitalize()} against {NULLS.get(null, null)}: {words}.")
    return " ".join(sentences)


def curve_separability(axes: Axes, run: Run) -> None:
    """Draw Precision by N, with random selection."""
    n = run.summary["n"].values
    line(axes, n, run.summary["precision_mean"].values)
    if "random_selection" in _null_names(run.summary):
        null = run.summary["precision_null"].sel(null="random_selection").values
        line(axes, n, null, **COMPARED)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)


def curve_geometry(axes: Axes, run: Run) -> None:
    """Draw the gain in Precision over permuted values by N."""
    if "permuted_values" not in _null_names(run.summary):
        return
    null = run.summary["precision_null"].sel(null="permuted_values")
    gain = (run.summary["precision_mean"] - null).dropna("n")
    line(axes, gain["n"].values, gain.values)
    axes.axhline(0, **COMPARED)
    axes.set_xscale("log")


def tables(run: Run) -> list[Table]:
    """Return the tables of scores by N and, if the run has them, of tests against nulls."""
    tested = [] if run.separable is None else [_against_nulls(run, run.separable)]
    return [_by_size(run), *tested]


ENTRIES: Final = (
    Entry(
        key="separability",
        short="Separability",
        question="Are selected tokens separable?",
        figures=("separability", "heads"),
        tables=("separability",),
        rows=("lowest_between", "best_small"),
        card="Separability",
        curve=curve_separability,
        curve_words="Precision by N; dashed: random selection",
    ),
    Entry(
        key="geometry",
        short="Value geometry",
        question="Does attention select by value geometry, or would permuted values do as well?",
        tables=("separable",),
        card="Value geometry",
        curve=curve_geometry,
        curve_words="gain in Precision over permuted values by N; dashed: 0",
    ),
)
