"""Tables of bounds: how often they hold, which assumption breaks them, how well the theory
predicts a head's curve.

Imports this room's cells, numbers and run.
"""

from __future__ import annotations

import math
from dataclasses import replace

import xarray as xr
from markupsafe import Markup

from reports.run import Run, own_cosines
from reports.tables.cells import (
    Cell,
    missing,
    mixed,
    number,
    percentage,
    share,
    stacked,
    text,
)
from reports.tables.table import Table
from reports.text.number import MISSING, count, percent, rounded


def coverage(run: Run) -> Table:
    """How often bounds hold, by edition, Gram and statistic."""
    words = {
        "precision": r"$P$",
        "recall": r"$R$",
        "f_outer": r"$F(r_{\max})$",
        "f_inner": r"$F(r_{\min})$",
    }
    names = [name for name in words if f"{name}_inside" in run.summary]
    beyond = [name for name in ("precision", "recall") if f"{name}_outside" in run.summary]
    wide = [name for name in ("precision", "recall") if f"{name}_width" in run.summary]
    headers = [mixed("edition"), mixed("Gram"), *(stacked(words[name], "inside") for name in names)]
    headers += [
        *(stacked(words[name], "clearly outside") for name in beyond),
        *(stacked(words[name], "width") for name in wide),
    ]
    rows = []
    for edition, gram in run.bounds:
        point = run.summary.sel(edition=edition, gram=gram)
        clearly = [float(point[f"{name}_outside"]) for name in beyond]
        inside = [_inside(point, name, edition) for name in names]
        widths = [number(float(point[f"{name}_width"]), digits=2) for name in wide]
        rows.append(
            [text(edition), text(gram), *inside, *(share(x, percent(x)) for x in clearly), *widths]
        )
    caption = (
        f"Share of (head, N) cells, {run.counted('head')}, 1 < N < T, in which the measured curve"
        f" (mean over {run.counted('document')}) lies within its bounds; in brackets the mean"
        " distance from them where it does not. Clearly outside: by more than the 95% document"
        " interval of the gap between curve and bound; for P, near its floor in most texts, chance"
        " must not explain either that no other kind of text was met. Width: mean distance of the"
        " bounds, cut to 0 to 1; wide bounds hold cheaply. Shares, no unit. Bounds on an"
        f" expectation may miss a single head.{own_cosines(run)}"
    )
    if any(cell.plain == VOID for row in rows for cell in row):
        caption += (
            f" {VOID}: the printed lower bound of F at the inner radius is 2x/(1+x) of a lower"
            " bound x of Recall; x is negative here, where that has a pole at x = −1, and nothing"
            " can be read from it."
        )
    align = "ll" + "r" * (len(headers) - 2)
    first = 2 + len(names)
    return Table(
        name="coverage",
        title="Do the bounds hold?",
        headers=headers,
        rows=rows,
        align=align,
        caption=caption,
        on_paper=[range(first), [0, 1, *range(first, len(headers))]],
    )


VOID = f"{MISSING} (erratum 18)"
"""What stands for a bound that erratum 18 makes void."""


def _inside(point: xr.Dataset, name: str, edition: str) -> Cell:
    """A share inside, with the mean distance of the rest in brackets; a printed bound of
    F(r_min) that is nowhere readable is void.
    """
    part, distance = float(point[f"{name}_inside"]), float(point[f"{name}_excess"])
    if math.isfinite(part):
        return share(
            part,
            f"{percent(part)} ({rounded(distance, digits=2).plain})" if part < 1 else percent(part),
        )
    if (edition, name) != ("printed", "f_inner"):
        return missing()
    return replace(
        text(VOID),
        html=Markup(
            f'<span class="whole">{MISSING}</span> <span class="whole">(erratum 18)</span>'
        ),
        sort="",
    )


SWAPS = {
    "none": "all three fitted",
    "weights": "weights measured",
    "norms": "norms measured",
    "similarity": "similarity measured",
    "all but weights": "only weights fitted",
    "all but norms": "only norms fitted",
    "all but similarity": "only similarity fitted",
    "all": "all three measured",
}
"""What a swap is called."""


def ingredient_tables(run: Run) -> list[Table]:
    """The table; none where the run holds no swaps."""
    data = run.ingredients
    if data is None:
        return []
    rows = []
    for swap in data["swap"].values:
        at = data.sel(swap=swap)
        row: list[Cell] = [mixed(SWAPS.get(str(swap), str(swap)))]
        for statistic in ("precision", "recall"):
            row += [
                percentage(float(at[f"{statistic}_inside"])),
                missing() if swap == "none" else percentage(float(at[f"{statistic}_regained"])),
                number(float(at[f"{statistic}_width"]), digits=2),
            ]
        rows.append(row)
    headers = [mixed("ingredients of the sharp bound")]
    headers += [
        stacked(f"${short}$", word) for short in "PR" for word in ("inside", "regained", "width")
    ]
    lost = " and ".join(
        f"{int(data[f'{name}_lost']):,} of {short}"
        for name, short in (("precision", "P"), ("recall", "R"))
    )
    moved = int((data["moved"] > 0).sum())
    nearest = (
        f", moved to the nearest that vectors can have in {count(moved, 'value head')}"
        if moved
        else ""
    )
    caption = (
        "Sharp bounds from fitted weights (Assumption 3), norms (Assumption 1) and"
        f" {data.attrs['gram']} similarity (Assumption 2), with some measured instead. Inside:"
        f" share of (head, N) cells, {run.counted('head')}, 1 < N < T, whose measured mean lies"
        f" within. Regained: of the cells that are outside with all three fitted ({lost}), the"
        " share inside. Width: mean distance of the bounds. Measured weights: each document's own;"
        f" measured norms and cosines: document means by position and by lag{nearest}."
    )
    title = "Which assumption breaks the bounds?"
    return [
        Table(
            name="ingredients",
            title=title,
            headers=headers,
            rows=rows,
            align="l" + "r" * 6,
            caption=caption,
        )
    ]


SOURCES = {
    "exponential": "all fitted, exponential",
    "offset": "all fitted, offset",
    "all but weights": "only weights fitted",
    "measured": "all measured",
    "heads": "other heads’ mean",
    "floor": "$N/T$",
}
"""What a source of predictions is called."""

ROUNDING = 1e-12
"""Below this a score is rounding."""

STATISTICS = {"precision": "$P$", "recall": "$R$"}
_SPLIT = (0, 1, 2, 3, 4, 5), (0, 1, 6, 7, 8, 9)


def predictive_tables(run: Run) -> list[Table]:
    """Both tables; none where the run holds no predictions."""
    return [] if run.predictive is None else [_scores(run, run.predictive), _check(run.predictive)]


def _scores(run: Run, data: xr.Dataset) -> Table:
    rows = []
    for name, short in STATISTICS.items():
        for source in data["source"].values:
            at = data.sel(source=source)
            row: list[Cell] = [
                mixed(short),
                mixed(SOURCES.get(str(source), str(source))),
                number(float(at[f"{name}_r2_median"]), digits=2),
            ]
            row += [
                number(*_estimate(at, f"{name}_{key}")) for key in ("pooled_mae", "pooled_bias")
            ]
            row += [percentage(float(at[f"{name}_better"]))]
            row += [number(*_estimate(at, f"{name}_{key}")) for key in ("slope", "intercept")]
            row += [percentage(float(at[f"{name}_within"])), percentage(float(at["flagged_share"]))]
            rows.append(row)
    headers = [
        mixed("curve"),
        mixed("predicted from"),
        stacked("median $R^2$", "of a head"),
        stacked("mean", "distance"),
        mixed("bias"),
        stacked("nearer than", "other heads"),
        mixed("slope"),
        mixed("intercept"),
        stacked("within", "95%"),
        mixed("flagged"),
    ]
    heads = {name: int(data[f"{name}_settled"].sum()) for name in STATISTICS}
    sizes = data["n_predicted"].values
    caption = (
        f"Curves of {run.counted('head')} at {count(len(sizes), 'size')} N from {sizes[0]} to"
        f" {sizes[-1]}, predicted under Model G, against the means of {run.counted('document')}. R²"
        f" counts in heads whose variance over N is at most a quarter noise ({heads['precision']:,}"
        f" for P, {heads['recall']:,} for R); it falls below 0 where a flat line would do better."
        " Distance and bias: of predicted less measured. Slope and intercept: of measured on"
        " predicted, over all (head, N) cells; 1 and 0 if the prediction is calibrated. Nearer:"
        " heads whose prediction is nearer than the mean of the other heads. Within: share of"
        " cells whose prediction lies in the 95% document interval of the measured mean. Errors:"
        " document jackknife, fitted ingredients held. The last two lines of each curve know"
        " nothing of the head. Flagged: the approximation itself says that it may be far off."
    )
    return Table(
        name="predictive",
        title="How well does the theory predict a head’s curve?",
        headers=headers,
        rows=rows,
        align="ll" + "r" * 8,
        caption=caption,
        on_paper=_SPLIT,
    )


def _check(data: xr.Dataset) -> Table:
    cells = data.sizes["check"]
    rows = []
    for name, short in STATISTICS.items():
        row: list[Cell] = [mixed(short)]
        row += [
            number(float(data[f"{name}_check_{key}"]), digits=2)
            for key in ("median", "ninety", "worst", "noise")
        ]
        row += [
            number(float(data[f"{name}_check_{key}"])) for key in ("far", "surely_far", "caught")
        ]
        rows.append(row)
    headers = [
        mixed("curve"),
        mixed("median"),
        mixed("90%"),
        mixed("largest"),
        stacked("simulation’s", "standard error"),
        stacked("beyond", f"{float(data['far']):g}"),
        stacked("surely", "beyond"),
        stacked("of these", "flagged"),
    ]
    flagged = int(data["check_flagged"].sum())
    caption = (
        f"The approximation judged by simulation: {count(cells, '(head, N) cell')}, spread evenly"
        f" over layers, sizes and ingredients, drawn {int(data.attrs['draws']):,} times from Model"
        " G at the parameters predicted from. Distance of predicted from simulated means, the"
        " simulation's noise in it. Surely beyond: by two standard errors."
        f" {count(flagged, 'cell')} {'is' if flagged == 1 else 'are'} flagged."
    )
    return Table(
        name="predictive_check",
        title="Is the prediction what Model G expects?",
        headers=headers,
        rows=rows if cells else [],
        align="l" + "r" * 7,
        caption=caption,
    )


def _estimate(data: xr.Dataset, name: str) -> tuple[float, float | None]:
    """A score and its error; exactly 0 without one where it is 0 by construction, as the bias of
    a mean over heads.
    """
    value, error = float(data[name]), float(data[f"{name}_se"])
    return (0.0, None) if max(abs(value), error) < ROUNDING else (value, error)
