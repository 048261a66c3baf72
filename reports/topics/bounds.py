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
from reports.figures.shapes import COMPARED, band, line, marks
from reports.run import SCORES, SYMBOLS, Run, each, measured_gram_note, with_limits
from reports.tables.table import (
    Cell,
    Column,
    Table,
    estimate,
    labels,
    missing,
    mixed,
    number,
    numbers,
    percentages,
    share,
    text,
    whole,
)
from reports.text.number import MISSING, count, percent, rounded
from reports.topics.entry import Entry


def _in_percent(value: float, _: object) -> str:
    return f"{100 * value:.0f}%"


COLUMNS: Final = {
    "exponential": "exponential decay",
    "offset": "decay to an offset",
    "rank": "by rank of the weight",
}
"""Words for the fitted Grams, the columns of the figure."""


def figure_coverage(axes: np.ndarray, run: Run) -> np.ndarray:
    """Draw the share of heads inside their bounds against N, measured and expected: P and R in
    rows, fitted Grams in columns.
    """
    for row, (statistic, title) in zip(axes, SCORES.items(), strict=True):
        for axis, (gram, words) in zip(row, COLUMNS.items(), strict=True):
            pairs = [pair for pair in run.bounds if pair[1] == gram]
            if not pairs:
                axis.set_visible(False)
                continue
            for edition in (edition for edition, _ in pairs):
                _curves_inside(axis, run, statistic, edition, gram)
            style.size_axis(axis, float(run.tokens), "selected tokens $N$ (log)", few=True)
            axis.set_ylim(-0.02, 1.03)
            axis.yaxis.set_major_formatter(_in_percent)
            axis.set_title(f"{title}, {words}")
    style.legend_shared(axes[-1][:2])
    return axes


def _curves_inside(axis: Axes, run: Run, statistic: str, edition: str, gram: str) -> None:
    """Draw measured and expected shares inside the bounds; printed bounds without a band."""
    sharp = edition == "sharp"
    inside = run.envelope[f"{statistic}_inside_by_size"].sel(edition=edition, gram=gram)
    known = np.isfinite(inside.values)
    n = inside["n_envelope"].values[known]
    look: style.Kwargs = {"color": style.BLUE, "marker": ".", "linewidth": 1.6}
    if not sharp:
        look = {"color": style.ORANGE, "linestyle": style.DASH_DOTTED, "linewidth": 1.2}
    axis.plot(n, inside.values[known], label=f"measured, {edition} bounds", **look)
    name = f"{statistic}_by_n"
    if not sharp or name not in run.summary:
        return
    by_n = run.summary.sel(edition=edition, gram=gram).sel(n_envelope=n)
    for measure, colour, shade in (
        ("inside", style.BLUE, 0.18),
        ("drawn_inside", style.BLACK, 0.12),
    ):
        if measure not in by_n["measure"].values:
            continue
        of = by_n.sel(measure=measure)
        if measure == "drawn_inside":
            label = "expected, sharp bounds"
            axis.plot(n, of[name], color=colour, linestyle=style.DASHED, linewidth=1.2, label=label)
        band(axis, n, of[f"{name}_lower"].values, of[f"{name}_upper"].values, colour, shade)


@planned(figure_coverage, "At which N do the bounds hold?", 5.0, grid=(2, 3))
def caption_coverage(run: Run) -> Caption:
    """Return the caption of the curves of coverage."""
    bands = "recall_by_n" in run.summary
    description = (
        f"Share of {run.counted('head')} whose measured curve (mean over {run.counted('document')})"
        " lies within the bounds of the head, at each N between 1 and T. Editions of the theory:"
        " printed, the paper’s formulas as printed; sharp, pairwise bounds under Model G, our"
        " random model. Columns: fitted form of similarity; by rank, also the effective dimension."
        " The bounds hold for expectations, so a single head may lie outside."
        + " Expected: heads simulated from Model G at the same fits. Bands: 95%, simultaneous over"
        " N, clustered by KV head."
        * bands
        + f"{measured_gram_note(run)} Look for: a measured curve that leaves the expected one."
    )
    say = Numbers()
    fitted = [pair for pair in run.bounds if pair[1] != "measured"] or run.bounds
    parts = [_inside_in_words(run, say, *pair) for pair in fitted]
    expected = " (in brackets: expected if the fitted assumptions hold)"
    finding = (
        f"Share of heads inside{expected * any('(' in part for part in parts)}: {'; '.join(parts)}."
    )
    return Caption(description, finding, say.all)


def _inside_in_words(run: Run, say: Numbers, edition: str, gram: str) -> str:
    """Return measured and expected shares of Recall inside the bounds of an edition and Gram, by
    range of N, in words; over all N for runs of an earlier geostat.
    """
    selected, parts = run.summary.sel(edition=edition, gram=gram), []
    if "recall_by_range" not in selected:
        words = say.percent(f"inside, {edition}, {gram}", float(selected["recall_inside"]), 0)
        return f"{edition} bounds, {gram} Gram: Recall {words}"
    for label in selected["size_range"].values:
        means = selected["recall_by_range"].sel(size_range=label)
        shares = [
            float(means.reindex(measure=[name]).item()) for name in ("inside", "drawn_inside")
        ]
        if not np.isfinite(shares[0]):
            continue
        where = f"inside, {edition}, {gram}, {label}"
        words = say.percent(where, shares[0], 0)
        if np.isfinite(shares[1]):
            words += f" ({say.percent(f'{where}, expected', shares[1], 0)})"
        parts.append(f"{words} at {label}")
    return f"{edition} bounds, {gram} Gram: Recall {', '.join(parts)}"


def _ranges(run: Run) -> list[Table]:
    """Return the table of coverage by range of N; none for runs of an earlier geostat."""
    if "recall_by_range" not in run.summary:
        return []
    rows = [
        run.summary.sel(edition=edition, gram=gram, size_range=label)
        .assign_coords(score=symbol)
        .assign(
            {
                f"by_range{end}": run.summary[f"{name}_by_range{end}"].sel(
                    edition=edition, gram=gram, size_range=label
                )
                for end in ("", "_lower", "_upper")
            }
        )
        for name, symbol in (("recall", "$R$"), ("precision", "$P$"))
        for edition, gram in run.bounds
        if gram != "measured"
        for label in run.summary["size_range"].values
    ]
    rows = [row for row in rows if np.isfinite(row["by_range"].sel(measure="inside"))]
    columns = [
        Column("score", lambda row: mixed(row["score"].item()), "l"),
        labels("edition", "edition"),
        labels("Gram", "gram"),
        Column("N", lambda row: mixed(row["size_range"].item()), "l"),
        Column("inside", partial(_of_range, measure="inside", show=_share_of)),
        Column("expected", partial(_of_range, measure="drawn_inside", show=_share_of)),
        Column("expected − inside (95%)", partial(_gap_of_range, measure="drawn_gap")),
        Column("width", partial(_of_range, measure="width", show=partial(number, digits=2))),
        Column(
            "interval score", partial(_of_range, measure="score", show=partial(number, digits=2))
        ),
        Column("score − expected (95%)", partial(_gap_of_range, measure="score_gap")),
    ]
    caption = (
        f"Share of {run.counted('head')} inside their bounds, mean over the sizes N of a range;"
        " expected: heads simulated from Model G at the same fits. In"
        " brackets: 95% interval over KV heads, simultaneous over the ranges. N ≤ 4: the paper’s"
        " working sizes, without the trivial N = 1. Width: distance between the bounds, clipped to"
        " [0, 1]. Interval score (Gneiting & Raftery 2007): width plus 40 times the distance of a"
        " value outside, for a level of 95%; lower is better, so narrow bounds do not lose by being"
        f" narrow alone.{_without_bounds(run)}"
    )
    title = "At which N do the bounds hold?"
    return [Table.of("coverage_by_range", title, caption, columns, rows)]


def _share_of(value: float) -> Cell:
    return share(value, percent(value))


def _of_range(row: xr.Dataset, measure: str, show: Callable[[float], Cell]) -> Cell:
    value = float(row["by_range"].reindex(measure=[measure]).item())
    return show(value) if math.isfinite(value) else missing()


def _gap_of_range(row: xr.Dataset, measure: str) -> Cell:
    """Return a difference from simulated heads; that of a share in percentage points."""
    gap, low, high = (
        float(row[f"by_range{end}"].reindex(measure=[measure]).item())
        for end in ("", "_lower", "_upper")
    )
    if not math.isfinite(gap):
        return missing()

    def words(value: float) -> str:
        return _points(100 * value) if measure == "drawn_gap" else f"{value:.2f}".replace("-", "−")

    limits = f" ({words(low)} to {words(high)})" if math.isfinite(low) else ""
    return mixed(f"{words(gap)}{limits}")


def _without_bounds(run: Run) -> str:
    """Name the Gram matrices for which not all heads have bounds; "" if there are none."""
    cells = run.summary["recall_cells"].max("edition")
    fewer = cells.where(cells < cells.max(), drop=True)
    if not fewer.size:
        return ""
    counts = "; ".join(f"{gram}: {int(cells.sel(gram=gram)):,}" for gram in fewer["gram"].values)
    return f" Of {int(cells.max()):,} (head, N) cells fewer have bounds under {counts}."


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


COST_LINES: Final[dict[str, tuple[str, str]]] = {
    "all but norms": (style.GREY, "^"),
    "all but similarity": (style.VERMILLION, "s"),
    "all but weights": (style.BLUE, "o"),
    "none": (style.BLACK, "D"),
}
"""Colour and marker of each swap."""


def figure_costs(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw the cost of each fitted ingredient, the loss of coverage of the sharp bounds, against N:
    P and R on two axes.
    """
    data = run.needed("costs_by_n")
    n = data["n_envelope"].values.astype(np.float64)
    for axis, (score, title) in zip(axes, SCORES.items(), strict=True):
        for index, (swap, (colour, marker)) in enumerate(COST_LINES.items()):
            look: style.Kwargs = {"color": colour, "marker": marker, "capsize": 2.5}
            at = n * 1.09 ** (index - 1.5)  # side by side
            marks(
                axis,
                data.sel(swap=swap),
                f"{score}_cost_by_n",
                at,
                **look,
                label=f"{FITTED_IN[swap]} fitted",
                linewidth=0.9,
            )
        axis.axhline(0, color=style.GREY, linewidth=0.8)
        axis.set_xscale("log")
        axis.set_xticks(n, [f"{int(size):,}" for size in n])
        axis.set_xticks([], minor=True)
        axis.yaxis.set_major_formatter(_in_percent)
        axis.set(xlabel="selected tokens $N$ (log)", title=title)
    axes[0].set_ylabel("values that leave the sharp bounds")
    style.legend_shared(axes)
    return axes


@planned(figure_costs, "Which assumption costs the bounds most?", 3.4, group="costs_by_n")
def caption_costs(run: Run) -> Caption:
    """Return the caption of the costs of assumptions."""
    data = run.needed("costs_by_n")
    interval = "; bars: 95% over documents, simultaneous over N" if run.documents > 1 else ""
    description = (
        "Cost: share of heads inside the sharp bounds at N with measured weights, norms and"
        f" similarity, minus the share with one of them, or all, fitted; {run.counted('head')},"
        f" {run.counted('document')}, N = {_sizes(data)}{interval}. Measured norms and cosines"
        " are means over documents, by position and by lag; this is not the measured Gram of the"
        " coverage, which tests nothing. Fitted weights are one profile for all documents, so their"
        " cost includes differences between documents. Costs do not add up, because the effects of"
        " two fits can cancel. A negative cost means that more values lie inside with the fit. Look"
        " for: marks above 0."
    )
    say, sentences = Numbers(), []
    for score, word in WORDS.items():
        parts = []
        for size, of_size in costs_at(data).items():
            costs_of = [
                f"{words} {_cost(say, of_size.sel(swap=swap), score, f'{words}, N = {size}')}"
                for swap, words in FITTED_IN.items()
                if swap != "none"
            ]
            parts.append(f"N = {say.whole(f'N of the cost, {score}', size)}: {', '.join(costs_of)}")
        sentences.append(f"Cost for {word} in percentage points, {'; '.join(parts)}.")
    return Caption(description, " ".join(sentences), say.all)


def costs_at(data: xr.Dataset) -> dict[int, xr.Dataset]:
    """Return the costs at each N of /ingredients, named as those over all N."""
    names = {str(name): str(name).replace("_by_n", "") for name in data if "_by_n" in str(name)}
    by_n = data[list(names)].rename(names)
    return {int(size): by_n.sel(n_envelope=size) for size in data["n_envelope"].values}


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
    if run.costs_by_n is not None:
        return [_highest_by_n(run.costs_by_n, score, word) for score, word in WORDS.items()]
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


def _highest_by_n(data: xr.Dataset, score: str, word: str) -> str:
    """Return a sentence: the assumption with the highest cost at each N."""
    parts = []
    for size, of_size in costs_at(data).items():
        name = next(iter(costliest(of_size, score)), None)
        if name is None:
            parts.append(f"no assumption clearly at N = {size:,}")
        else:
            cost = 100 * float(of_size[f"{score}_cost"].sel(swap=f"all but {name}"))
            parts.append(f"{FITTED[name]} at N = {size:,} ({_points(cost)} percentage points)")
    return f"Highest cost for {word}: {', '.join(parts)}."


def _costs_table(run: Run) -> list[Table]:
    """Return the table of costs at each N; none for runs of an earlier geostat."""
    data = run.costs_by_n
    if data is None:
        return []
    rows = [
        of_size.rename(
            {name: str(name).removeprefix(f"{score}_") for name in of_size if score in str(name)}
        ).assign_coords(score=symbol)
        for score, symbol in (("recall", "$R$"), ("precision", "$P$"))
        for of_size in costs_at(data).values()
    ]
    columns = [
        Column("score", lambda row: mixed(row["score"].item()), "l"),
        Column("N", lambda row: whole(float(row["n_envelope"]))),
        Column("all measured: inside", lambda row: _share_of(float(row["inside"].sel(swap="all")))),
        *(
            Column(
                f"cost of {words} fitted",
                lambda row, swap=swap: estimate(row.sel(swap=swap), "cost"),  # type: ignore[misc]
            )
            for swap, words in FITTED_IN.items()
        ),
    ]
    caption = (
        f"Cost of fitted ingredients at each N: share of {run.counted('head')} inside the sharp"
        " bounds with all ingredients measured, minus the share with this ingredient, or all three,"
        f" fitted (± one standard error over documents, fits held fixed). {' '.join(costs(run))}"
    )
    return [
        Table.of("costs_by_n", "Which assumption costs most at each N?", caption, columns, rows)
    ]


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
    together = _points(100 * float(data["recall_cost"].sel(swap="none")))
    return [
        f"With all ingredients measured, {measured} lie inside (mean over N = {_sizes(data)}). Cost"
        f" of one fitted ingredient, in percentage points: {', '.join(parts)}; of all three"
        f" together {together}. Costs do not add up."
    ]


def cost_in_short(run: Run, name: str) -> str:
    """Return the cost of one fitted ingredient for its card, at each N if stored; "" if unknown."""
    value, limits = _costs(run).get(name, (None, ""))
    if value is None:
        return ""
    scope = " (with differences between documents)" if name == "weights" else ""
    if run.costs_by_n is not None:
        by_n = run.costs_by_n["recall_cost_by_n"].sel(swap=f"all but {name}")
        points = ", ".join(_points(100 * cost) for cost in by_n.values.tolist())
        return f"Cost to bounds{scope} at N = {_sizes(run.costs_by_n)}: {points}"
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
    """Return sentences: costs of assumptions, and the highest cost."""
    most = costs(run)
    if any(FITTED["weights"] in sentence for sentence in most):
        most.append(
            "Fitted weights are one profile for all documents, so their cost includes differences"
            " between documents, even if the four phases are true."
        )
    return every_cost(run) + most


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
    return [_coverage(run), *_ranges(run), *_ingredients(run), *_costs_table(run)]


ENTRIES: Final = (
    Entry(
        key="bounds",
        short="Bounds",
        question="Do the bounds hold, and which assumption costs them most?",
        figures=("coverage", "costs", "predictive", "ladder"),
        tables=(
            "coverage_by_range",
            "coverage",
            "costs_by_n",
            "ingredients",
            "predictive",
            "amended_prediction",
            "weight_forms",
        ),
        rows=("envelopes",),
        remarks=remarks,
        card="Bounds",
        curve=curve_bounds,
        curve_words="Recall by N; dashed: bounds",
    ),
)
