"""Tables of bounds: how often they hold, which assumption breaks them, how well the theory
predicts a head's curve.

Imports this room's cells, numbers and run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

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
    drawn = [name for name in beyond if f"{name}_drawn_inside" in run.summary]
    columns: list[tuple[str, str, Callable[[xr.Dataset], Cell]]] = [
        *((name, "inside", partial(_inside, name=name)) for name in names),
        *((name, "drawn inside", partial(_drawn, name=f"{name}_drawn_inside")) for name in drawn),
        *((name, "clearly outside", partial(_share, name=f"{name}_outside")) for name in beyond),
        *((name, "drawn outside", partial(_drawn, name=f"{name}_drawn_outside")) for name in drawn),
        *((name, "width", partial(_width, name=f"{name}_width")) for name in wide),
    ]
    headers = [mixed("edition"), mixed("Gram")]
    headers += [mixed(f"{words[name]} {says}") for name, says, _ in columns]
    rows = []
    for edition, gram in run.bounds:
        point = run.summary.sel(edition=edition, gram=gram)
        rows.append([text(edition), text(gram), *(cell(point) for *_, cell in columns)])
    void = any(cell.plain == VOID for row in rows for cell in row)
    align = "ll" + "r" * (len(headers) - 2)
    return Table(
        name="coverage",
        title="Do the bounds hold?",
        headers=headers,
        rows=rows,
        align=align,
        caption=_coverage_caption(run, bool(drawn), void),
        keys=2,
    )


def _coverage_caption(run: Run, drawn: bool, void: bool) -> str:
    """What the columns are; `drawn` and `void` tell whether the table has such cells."""
    caption = (
        f"Share of (head, N) cells, {run.counted('head')}, 1 < N < T, in which the measured curve"
        f" (mean over {run.counted('document')}) lies within its bounds; in brackets the mean"
        " distance from them where it does not. Clearly outside: by more than the 95% document"
        " interval of the gap between curve and bound; for P, near its floor in most texts, chance"
        " must not explain either that no other kind of text was met. Width: mean distance of the"
        " bounds, cut to 0 to 1; wide bounds hold cheaply. Shares, no unit. Bounds on an"
        f" expectation may miss a single head.{own_cosines(run)}"
    )
    if drawn:
        caption += (
            " Drawn: the same of heads drawn from the bounds' own random model at the same"
            " weights and the fits above, ± one standard error over value heads: what a share would"
            " be if the assumptions were true as fitted."
        )
    if void:
        caption += (
            f" {VOID}: the printed lower bound of F at the inner radius is 2x/(1+x) of a lower"
            " bound x of Recall; x is negative here, where that has a pole at x = −1, and nothing"
            " can be read from it."
        )
    return caption


def _share(point: xr.Dataset, name: str) -> Cell:
    value = float(point[name])
    return share(value, percent(value))


def _width(point: xr.Dataset, name: str) -> Cell:
    return number(float(point[name]), digits=2)


def _drawn(point: xr.Dataset, name: str) -> Cell:
    """The share of heads drawn from Model G, with its error where it has one."""
    value, error = (float(point[f"{name}{end}"]) for end in ("", "_se"))
    if not math.isfinite(value):
        return missing()
    return share(value, f"{percent(value)} ± {percent(error)}" if error > 0 else percent(value))


VOID = f"{MISSING} (erratum 18)"
"""What stands for a bound that erratum 18 makes void."""


def _inside(point: xr.Dataset, name: str) -> Cell:
    """A share inside, with the mean distance of the rest in brackets; a printed bound of
    F(r_min) that is nowhere readable is void.
    """
    part, distance = float(point[f"{name}_inside"]), float(point[f"{name}_excess"])
    if math.isfinite(part):
        return share(
            part,
            f"{percent(part)} ({rounded(distance, digits=2).plain})" if part < 1 else percent(part),
        )
    if (str(point["edition"].item()), name) != ("printed", "f_inner"):
        return missing()
    return replace(
        text(VOID),
        html=Markup(
            f'<span class="whole">{MISSING}</span> <span class="whole">(erratum 18)</span>'
        ),
        sort="",
    )


SWAPS = {
    "all": "all three measured",
    "all but weights": "weights fitted",
    "all but norms": "norms fitted",
    "all but similarity": "similarity fitted",
    "none": "all three fitted",
}
"""What a swap is called."""
SCORES = {"recall": "Recall", "precision": "Precision"}
FITTED = {"weights": "fitted weights", "norms": "constant norms", "similarity": "fitted similarity"}


def ingredient_tables(run: Run) -> list[Table]:
    """The table; none where the run holds no swaps, or those of an earlier geostat."""
    data = swaps(run)
    if data is None:
        return []
    rows = []
    for swap in data["swap"].values:
        at = data.sel(swap=swap)
        row: list[Cell] = [mixed(SWAPS.get(str(swap), str(swap)))]
        for statistic in ("precision", "recall"):
            cost = number(float(at[f"{statistic}_cost"]), float(at[f"{statistic}_cost_se"]))
            row += [
                percentage(float(at[f"{statistic}_inside"])),
                missing() if swap == "all" else cost,
                number(float(at[f"{statistic}_width"]), digits=2),
            ]
        rows.append(row)
    headers = [mixed("ingredients")]
    headers += [
        mixed(f"${short}$ {word}") for short in "PR" for word in ("inside", "cost", "width")
    ]
    moved = int((data["moved"] > 0).sum())
    nearest = (
        f", moved to the nearest that vectors can have in {count(moved, 'value head')}"
        if moved
        else ""
    )
    sizes = ", ".join(f"{n:,}" for n in data["n_envelope"].values)
    errors = f"± over {run.counted('document')}" if run.documents > 1 else "one document: no ±"
    caption = (
        "Sharp bounds from measured weights, norms and similarity, with the fit of one assumption"
        " in place of each in turn: weights (Assumption 3), norms (1),"
        f" {data.attrs['gram']} similarity (2). Inside: share of (head, N) cells,"
        f" {run.counted('head')}, N = {sizes}, whose measured mean lies within. Cost: the share"
        f" inside with all three measured, less that share ({errors}, fits held). Width: mean"
        " distance of the bounds. Measured weights are each document's own, and fitted ones one"
        " profile for all documents, so that what a document has of its own counts as cost;"
        f" measured norms and cosines are document means by position and by lag{nearest}."
        f" {' '.join(costs(run))}"
    )
    return [
        Table(
            name="ingredients",
            title="Which assumption costs the bounds most?",
            headers=headers,
            rows=rows,
            align="l" + "r" * 6,
            caption=caption,
        )
    ]


def swaps(run: Run) -> xr.Dataset | None:
    """/ingredients; None where the run holds none, or those of an earlier geostat."""
    data = run.ingredients
    return data if data is not None and "recall_cost" in data and data.sizes["n_envelope"] else None


def costs(run: Run) -> list[str]:
    """Which assumption costs Recall, and which Precision, most; nothing where it is not known."""
    data = swaps(run)
    return [] if data is None else [_costs_most(data, name) for name in SCORES]


def costliest(data: xr.Dataset, statistic: str) -> list[str]:
    """The fitted ingredient that costs a score most, where its cost and its lead over the next are
    clear, and behind it that one, where its own cost is.
    """
    costs = {name: float(data[f"{statistic}_cost"].sel(swap=f"all but {name}")) for name in FITTED}
    first, second = sorted(costs, key=lambda name: -costs[name])[:2]
    lower = data[f"{statistic}_cost_lower"].sel(swap=[f"all but {first}", f"all but {second}"])
    clear = data[f"{statistic}_lead_lower"] > 0 and data[f"{statistic}_lead_se"] > 0
    if not (clear and float(lower[0]) > 0):  # an error of 0 is that of a few cells
        return []
    return [first, second] if float(lower[1]) > 0 else [first]


def _costs_most(data: xr.Dataset, statistic: str) -> str:
    """One sentence: what costs a score most, where that is clear."""
    names = costliest(data, statistic)
    if not names:
        return f"{SCORES[statistic]} loses clearly most to no one of them."
    points = [
        f"{100 * float(data[f'{statistic}_cost'].sel(swap=f'all but {name}')):.1f}"
        for name in names
    ]
    told = (
        f"{SCORES[statistic]} loses most to {FITTED[names[0]]}, {points[0]} percentage points of"
        " the cells"
    )
    if names[1:]:
        told += f"; next, to {FITTED[names[1]]}, {points[1]}"
    return f"{told}."
