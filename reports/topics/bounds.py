"""Bounds on Precision and Recall: coverage, and the cost of each assumption.

Source: arXiv 2602.01893, Theorems 1-2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from markupsafe import Markup
from matplotlib.axes import Axes

from reports.figures import style
from reports.figures.plan import Caption, Numbers, planned
from reports.figures.shapes import COMPARED, cells, line, rungs
from reports.run import SCORES, SYMBOLS, Run, each, measured_gram_note, with_limits
from reports.tables.table import (
    Cell,
    Column,
    Table,
    estimate,
    labels,
    missing,
    mixed,
    numbers,
    percentages,
    share,
    text,
)
from reports.text.number import MISSING, count, percent, rounded
from reports.topics.entry import Entry


def _in_percent(value: float, _: object) -> str:
    return f"{100 * value:.0f}%"


def figure_coverage(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw, for P and R on two axes, the share of heads inside their bounds by edition and Gram
    (rows) and N (columns).
    """
    pairs = run.bounds
    for axis, (statistic, title) in zip(axes, SCORES.items(), strict=True):
        inside = run.envelope[f"{statistic}_inside_by_size"]
        rows = np.array([inside.sel(edition=edition, gram=gram).values for edition, gram in pairs])
        known = np.isfinite(rows).any(axis=0)
        sizes = inside["n_envelope"].values[known]
        image = cells(axis, rows[:, known], 1.0)
        axis.invert_yaxis()
        names = [f"{edition}, {gram} Gram" for edition, gram in pairs]
        axis.set_yticks(np.arange(len(pairs)) + 0.5, names)
        step = 2 if style.narrow(axis) else 1
        written = [f"{size:,}" for size in sizes[::step]]
        axis.set_xticks(np.arange(0, len(sizes), step) + 0.5, written, rotation=90)
        axis.set_title(f"{title}: heads inside")
    scale: style.Kwargs = {
        "format": _in_percent,
        "ticks": [0, 0.5, 1],
        "pad": 0.015,
        "fraction": 0.03,
    }
    axes[0].figure.colorbar(image, ax=list(axes), **scale)
    axes[-1].set_xlabel("selected tokens $N$")
    return axes


@planned(
    figure_coverage,
    "Where do the bounds hold, head by head?",
    lambda run: 1.7 + 0.36 * len(run.bounds),
    grid=(2, 1),
)
def caption_coverage(run: Run) -> Caption:
    """Return the caption of the coverage map."""
    description = (
        f"Share of {run.counted('head')} whose measured curve (mean over {run.counted('document')})"
        " lies within the bounds of the head, at each N between 1 and T. Rows: edition of the"
        " theory (printed: the paper’s formulas as printed; sharp: pairwise bounds under"
        " Model G, our random model) and Gram matrix, the matrix of cosines: fitted exponential,"
        " fitted form with an offset, or measured in the head. The bounds hold for expectations,"
        f" so a single head may lie outside.{measured_gram_note(run)} Look for: rows near 100%."
    )
    say = Numbers()
    fitted = [pair for pair in run.bounds if pair[1] != "measured"] or run.bounds
    parts = [_inside_in_words(run, say, *pair) for pair in fitted]
    expected = " (in brackets: expected if the fitted assumptions hold)"
    finding = (
        f"Share of cells (head, N) inside{expected * any('(' in part for part in parts)}:"
        f" {'; '.join(parts)}."
    )
    for edition, gram in fitted:
        inside = run.envelope["recall_inside_by_size"].sel(edition=edition, gram=gram)
        if edition == "printed" or not np.isfinite(inside.values).any():
            continue
        lowest, where = float(inside.min()), f"{edition}, {gram}"
        size = int(inside["n_envelope"].values[int(np.nanargmin(inside.values))])
        if lowest < 1:
            finding += (
                f" For {edition} bounds and the {gram} Gram, Recall lies outside most often at N ="
                f" {say.whole(f'N of most misses, {where}', size)}: in"
                f" {say.percent(f'heads missed there, {where}', 1 - lowest, 0)} of heads."
            )
    return Caption(description, finding, say.all)


def _inside_in_words(run: Run, say: Numbers, edition: str, gram: str) -> str:
    """Return measured and expected shares inside the bounds of an edition and Gram, in words."""
    selected, scores = run.summary.sel(edition=edition, gram=gram), []
    for name in SCORES:
        where = f"{name}_inside, {edition}, {gram}"
        words = f"{name.capitalize()} {say.percent(where, float(selected[f'{name}_inside']))}"
        drawn = float(selected.get(f"{name}_drawn_inside", np.nan))
        if np.isfinite(drawn):
            words += f" ({say.percent(f'{where}, expected', drawn)})"
        scores.append(words)
    return f"{edition} bounds, {gram} Gram: {', '.join(scores)}"


def _coverage(run: Run) -> Table:
    """Return the table of coverage by edition, Gram and score."""
    names = [name for name in SYMBOLS if f"{name}_inside" in run.summary]
    outside = [name for name in SCORES if f"{name}_outside" in run.summary]
    simulated = [name for name in outside if f"{name}_drawn_inside" in run.summary]
    widths = [name for name in SCORES if f"{name}_width" in run.summary]
    kinds: tuple[tuple[list[str], str, str, Callable[[str, str], Column]], ...] = (
        (names, "inside", "inside", _inside),
        (simulated, "simulated inside", "drawn_inside", _simulated),
        (outside, "clearly outside", "outside", percentages),
        (simulated, "simulated outside", "drawn_outside", _simulated),
        (widths, "width", "width", partial(numbers, digits=2)),
    )
    columns = [labels("edition", "edition"), labels("Gram", "gram")]
    for scores, words, variable, column in kinds:
        columns += [column(f"{SYMBOLS[name]} {words}", f"{name}_{variable}") for name in scores]
    rows = [run.summary.sel(edition=edition, gram=gram) for edition, gram in run.bounds]
    table = Table.of("coverage", "Do the bounds hold?", "", columns, rows)
    void = any(cell.plain == VOID for row in table.rows for cell in row)
    return replace(table, caption=_coverage_caption(run, bool(simulated), void))


def _coverage_caption(run: Run, simulated: bool, void: bool) -> str:
    """Return the caption of the table; the flags say whether it has simulated and void cells."""
    caption = (
        f"Share of (head, N) cells, {run.counted('head')}, 1 < N < T, in which the measured curve"
        f" (mean over {run.counted('document')}) lies within its bounds; in brackets: mean distance"
        " of the other cells from their bounds. Clearly outside: by more than the 95% document"
        " interval of the gap between curve and bound; for P, which lies near its floor in most"
        " texts, also after allowing for unsampled kinds of text. Width: mean distance between the"
        " bounds, clipped to [0, 1]; wide bounds hold trivially. Shares, no unit. The bounds hold"
        f" for expectations, so a single head may lie outside.{measured_gram_note(run)}"
    )
    if simulated:
        caption += (
            " Simulated: the same share for heads drawn from Model G, our random model, with"
            " the same weights and fits, ± one standard error over KV heads; the share expected if"
            " the fitted assumptions hold."
        )
    if void:
        caption += (
            f" {VOID}: the printed lower bound on F at the inner radius is 2x/(1+x), with x the"
            " lower bound on Recall. Here x is negative, and the expression has a pole at x = −1,"
            " so the bound carries no information."
        )
    return caption


def _simulated(header: str, name: str) -> Column:
    """Return a column of shares of heads simulated under Model G, with standard errors if known."""

    def cell(point: xr.Dataset) -> Cell:
        value, error = (float(point[f"{name}{end}"]) for end in ("", "_se"))
        if not math.isfinite(value):
            return missing()
        return share(value, percent(value) + (f" ± {percent(error)}" if error > 0 else ""))

    return Column(header, cell)


VOID = f"{MISSING} (erratum 18)"
"""Cell of a bound that erratum 18 makes void."""


def _inside(header: str, name: str) -> Column:
    """Return a column of shares inside with the mean distance of other cells, or the erratum of a
    void bound.
    """

    def cell(point: xr.Dataset) -> Cell:
        part = float(point[name])
        distance = rounded(float(point[name.replace("_inside", "_excess")]), digits=2).plain
        if math.isfinite(part):
            return share(part, percent(part) + (f" ({distance})" if part < 1 else ""))
        if (str(point["edition"].item()), name) != ("printed", "f_inner_inside"):
            return missing()
        html = '<span class="whole">{}</span> <span class="whole">(erratum 18)</span>'
        return replace(text(VOID), html=Markup(html).format(MISSING), sort="")

    return Column(header, cell)


FITTED_IN: Final = {
    "all but norms": "norms",
    "all but similarity": "similarity",
    "all but weights": "weights",
    "none": "all three",
}
"""Fitted ingredient of each swap; the others are measured."""

WORDS = {"recall": "Recall", "precision": "Precision"}

FITTED = {"weights": "fitted weights", "norms": "constant norms", "similarity": "fitted similarity"}


def figure_costs(axes: Axes, run: Run) -> Axes:
    """Draw the cost of each fitted ingredient, the loss of coverage of the sharp bounds."""
    rungs(axes, run.needed("ingredients"), "swap", FITTED_IN, "cost")
    axes.xaxis.set_major_formatter(_in_percent)
    axes.set_xlabel("values that leave the sharp bounds (percentage points)")
    axes.set_title("Fitted instead of measured")
    return axes


@planned(
    figure_costs, "Which assumption costs the bounds most?", 2.9, grid=(1, 1), group="ingredients"
)
def caption_costs(run: Run) -> Caption:
    """Return the caption of the costs of assumptions."""
    data = run.needed("ingredients")
    interval = "; bars: 95% over documents, fits held" if run.documents > 1 else ""
    description = (
        "Cost: share of values (head, N) inside the sharp bounds with measured weights, norms and"
        f" similarity, minus the share with one of them, or all, fitted; {run.counted('head')},"
        f" {run.counted('document')}, N ="
        f" {', '.join(map(str, data['n_envelope'].values))}{interval}. Measured norms and cosines"
        " are means over documents, by position and by lag; this is not the measured Gram of the"
        " coverage, which tests nothing. Fitted weights are one profile for all documents, so their"
        " cost includes differences between documents. Costs do not add up, because the effects of"
        " two fits can cancel. A negative cost means that more values lie inside with the fit. Look"
        " for: marks right of 0."
    )
    say, sentences = Numbers(), []
    fitted = {
        swap: words
        for swap, words in FITTED_IN.items()
        if swap in data["swap"].values and swap != "none"
    }
    for score, word in WORDS.items():
        inside = float(data[f"{score}_inside"].sel(swap="all"))
        whole = say.percent(f"{score}, all measured", inside)
        parts = [
            f"{words} {_cost(say, data.sel(swap=swap), score, words)}"
            for swap, words in fitted.items()
        ]
        sentences.append(
            f"{word}: {whole} of values lie inside with all measured. Cost in percentage points of"
            f" fitted {', '.join(parts)}."
        )
    return Caption(description, " ".join(sentences), say.all)


def _cost(say: Numbers, data: xr.Dataset, score: str, fitted: str) -> str:
    """Return a cost with its interval if known, in words."""
    (value, low, high), name = with_limits(data, f"{score}_cost"), f"{score}, cost of {fitted}"
    limits = ""
    if np.isfinite(low):
        ends = say.percent(f"{name}, lower", low), say.percent(f"{name}, upper", high)
        limits = f" ({' to '.join(ends)})"
    return f"{say.percent(name, value)}{limits}"


def _ingredients(run: Run) -> list[Table]:
    """Return the table of costs; none without swaps in the current format."""
    data = swaps(run)
    if data is None:
        return []
    columns = [Column("ingredients", _swapped, "l")]
    for short, score in zip("PR", SCORES, strict=True):
        columns += [
            percentages(f"${short}$ inside", f"{score}_inside"),
            Column(f"${short}$ cost", partial(_cost_of_swap, name=f"{score}_cost")),
            numbers(f"${short}$ width", f"{score}_width", digits=2),
        ]
    moved = int((data["moved"] > 0).sum())
    nearest = (
        f", projected to the nearest positive semidefinite Gram matrix in {count(moved, 'KV head')}"
        if moved
        else ""
    )
    errors = f"± over {run.counted('document')}" if run.documents > 1 else "one document: no ±"
    caption = (
        "Sharp bounds from measured weights, norms and similarity, with one of them replaced by its"
        f" fit in turn: weights (Assumption 3), norms (1), {data.attrs['gram']} similarity (2)."
        f" Inside: share of (head, N) cells, {run.counted('head')}, N = {_sizes(data)}, whose"
        " measured mean lies within the bounds. Cost: the share inside with all three measured"
        f" minus this share ({errors}, fits held fixed). Width: mean distance between the bounds."
        " Measured weights are those of each document and fitted weights are one profile for all"
        " documents, so the cost of weights includes differences between documents. Measured norms"
        f" and cosines are document means by position and by lag{nearest}. {' '.join(costs(run))}"
    )
    title = "Which assumption costs the bounds most?"
    return [Table.of("ingredients", title, caption, columns, each(data, "swap"))]


def _swapped(point: xr.Dataset) -> Cell:
    swap = point["swap"].item()
    return mixed("all three measured" if swap == "all" else f"{FITTED_IN[swap]} fitted")


def _cost_of_swap(point: xr.Dataset, name: str) -> Cell:
    return missing() if point["swap"].item() == "all" else estimate(point, name)


def _sizes(data: xr.Dataset) -> str:
    """Return the N at which bounds were evaluated, in words."""
    return ", ".join(f"{n:,}" for n in data["n_envelope"].values)


def swaps(run: Run) -> xr.Dataset | None:
    """Return /ingredients; None if it is missing or in the format of an earlier geostat."""
    data = run.ingredients
    return data if data is not None and "recall_cost" in data and data.sizes["n_envelope"] else None


def costs(run: Run) -> list[str]:
    """Return sentences on the assumption with the highest cost, if it is clear, for Recall and for
    Precision.
    """
    data, sentences = swaps(run), []
    if data is None:
        return []
    for score, word in WORDS.items():
        names, cost = costliest(data, score), data[f"{score}_cost"]
        points = [f"{100 * float(cost.sel(swap=f'all but {name}')):.1f}" for name in names]
        if not names:
            sentences.append(f"No assumption has a clearly highest cost for {word}.")
            continue
        most = (
            f"{word} loses most by {FITTED[names[0]]}: {points[0]} percentage points of the cells"
        )
        following = f"; next by {FITTED[names[1]]}: {points[1]}" if names[1:] else ""
        sentences.append(f"{most}{following}.")
    return sentences


def costliest(data: xr.Dataset, statistic: str) -> list[str]:
    """Return the fitted ingredient with the highest cost, if its cost and its lead over the next
    are significant, followed by the next if its cost is significant as well.
    """
    cost_of = {
        name: float(data[f"{statistic}_cost"].sel(swap=f"all but {name}")) for name in FITTED
    }
    first, second = sorted(cost_of, key=lambda name: -cost_of[name])[:2]
    lower = data[f"{statistic}_cost_lower"].sel(swap=[f"all but {first}", f"all but {second}"])
    clear = data[f"{statistic}_lead_lower"] > 0 and data[f"{statistic}_lead_se"] > 0
    if not (clear and float(lower[0]) > 0):  # a standard error of 0 comes from too few cells
        return []
    return [first, second] if float(lower[1]) > 0 else [first]


def with_offset(run: Run) -> list[str]:
    """Return a sentence: coverage and width of the sharp bounds with an offset in the similarity,
    compared with exponential decay, and the expected coverage; empty without both Grams.
    """
    grams = ("exponential", "offset")
    needed = {f"{score}_{name}" for score in WORDS for name in ("inside", "width")}
    if not ({("sharp", gram) for gram in grams} <= set(run.bounds) and needed <= set(run.summary)):
        return []
    parts = []
    for score, word in WORDS.items():
        shares, widths, expected = [], [], []
        for gram in grams:
            bounds = run.summary.sel(edition="sharp", gram=gram)
            shares.append(float(bounds[f"{score}_inside"]))
            widths.append(float(bounds[f"{score}_width"]))
            drawn = float(bounds.get(f"{score}_drawn_inside", np.nan))
            expected.append(f" (expected {percent(drawn, 0)})" if math.isfinite(drawn) else "")
        if not np.isfinite(shares + widths).all():
            return []
        parts.append(
            f"{percent(shares[1], 0)} of {word} values{expected[1]} lie inside, instead of"
            f" {percent(shares[0], 0)}{expected[0]}, width {widths[1]:.2f} instead of"
            f" {widths[0]:.2f}"
        )
    return [f"With similarity that decays to an offset instead of 0: {'; '.join(parts)}."]


def every_cost(run: Run) -> list[str]:
    """Return a sentence with the costs of fitted ingredients for Recall; empty if unknown."""
    data, known = swaps(run), _costs(run)
    if data is None or not known:
        return []
    parts = []
    for name, (value, limits) in known.items():
        # fitted weights are one profile for all documents
        scope = "includes differences between documents" if name == "weights" else ""
        brackets = "; ".join(filter(None, (limits, scope)))
        parts.append(f"{FITTED[name]} {_points(value)}{f' ({brackets})' if brackets else ''}")
    measured = percent(float(data["recall_inside"].sel(swap="all")))
    return [
        f"With all ingredients measured, {measured} lie inside (N = {_sizes(data)}). Cost of one"
        f" fitted ingredient, in percentage points: {', '.join(parts)}. Costs do not add up."
    ]


def cost_in_short(run: Run, name: str) -> str:
    """Return the cost of one fitted ingredient for its card; empty if unknown."""
    value, limits = _costs(run).get(name, (None, ""))
    if value is None:
        return ""
    scope = " (with differences between documents)" if name == "weights" else ""
    brackets = f" ({limits})" if limits else ""
    return f"Cost to bounds{scope}: {_points(value)}{brackets}"


def _costs(run: Run) -> dict[str, tuple[float, str]]:
    """Return the cost of each fitted ingredient in points of Recall, with 95% limits in words, the
    highest first.
    """
    data = swaps(run)
    if data is None or not bool(np.isfinite(data["recall_cost"]).all()):
        return {}
    cost_of = {}
    for name in FITTED:
        selected = data.sel(swap=f"all but {name}")
        value, low, high = (100 * limit for limit in with_limits(selected, "recall_cost"))
        interval = f"{_points(low)} to {_points(high)}" if math.isfinite(low) else ""
        cost_of[name] = (value, interval)
    return dict(sorted(cost_of.items(), key=lambda cost: (-cost[1][0], FITTED[cost[0]])))


def _points(value: float) -> str:
    return f"{value:.1f}".replace("-", "−")


def remarks(run: Run) -> list[str]:
    """Return sentences: coverage with an offset, costs of assumptions, and the highest cost."""
    most = costs(run)
    if any(FITTED["weights"] in sentence for sentence in most):
        most.append(
            "Fitted weights are one profile for all documents, so their cost includes differences"
            " between documents, even if the four phases are true."
        )
    return with_offset(run) + every_cost(run) + most


def curve_bounds(axes: Axes, run: Run) -> None:
    """Draw Recall by N, with sharp bounds."""
    line(axes, run.summary["n"].values, run.summary["recall_mean"].values)
    if "sharp" in run.summary["edition"].values:
        sharp = run.summary.sel(edition="sharp", gram="exponential")
        for side in ("lower", "upper"):
            line(axes, sharp["n_envelope"].values, sharp[f"recall_{side}"].values, **COMPARED)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)


def tables(run: Run) -> list[Table]:
    """Return the tables of coverage and, if the run has them, of costs of assumptions."""
    return [_coverage(run), *_ingredients(run)]


ENTRIES: Final = (
    Entry(
        key="bounds",
        short="Bounds",
        question="Do the bounds hold, and which assumption costs them most?",
        figures=("coverage", "costs", "predictive", "ladder"),
        tables=("coverage", "ingredients", "predictive"),
        rows=("envelopes",),
        remarks=remarks,
        card="Bounds",
        curve=curve_bounds,
        curve_words="Recall by N; dashed: bounds",
    ),
)
