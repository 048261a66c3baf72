"""Tables of a what-if study: bounds at every point of a grid, thinned if it is long, and
elasticities at one point.

Imports numpy and xarray.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr

from reports.run import each
from reports.tables.cells import missing, number, symbol, text, whole
from reports.tables.table import Table
from reports.what_if.figure import bounds_of, evenly, gram_of, unreadable

MOST_ROWS: Final = 40


def table_of_study(dataset: xr.Dataset, name: str = "whatif") -> Table:
    """Return the table of a study: one row per point, with parameters, bounds, and whether its Gram
    is positive semidefinite.

    Axes are thinned evenly, the longest first, to at most `MOST_ROWS` points; the caption states
    it.
    """
    axes, bounds = [str(axis) for axis in dataset.dims], bounds_of(dataset)
    thinned = dataset[[*bounds, "feasible"]].isel(_thinned(dataset))
    rows = []
    for point in each(thinned, *axes):
        labels = [
            whole(int(point[axis])) if point[axis].dtype.kind == "i" else number(float(point[axis]))
            for axis in axes
        ]
        cells = [
            missing() if unreadable(point[bound]) else number(float(point[bound]))
            for bound in bounds
        ]
        rows.append([*labels, *cells, text("yes" if bool(point["feasible"]) else "no")])
    headers = [symbol(str(dataset[axis].attrs["symbol"])) for axis in axes]
    headers += [symbol(f"{dataset[bound].attrs['symbol']} {_relation(bound)}") for bound in bounds]
    caption = _caption(dataset, len(rows), int(np.prod(list(dataset.sizes.values()))))
    align = "r" * len(headers) + "l"
    return Table(name, "What-if study", caption, [*headers, text("feasible")], rows, align)


def _thinned(dataset: xr.Dataset) -> dict[str, list[int]]:
    sizes = {str(axis): size for axis, size in dataset.sizes.items()}
    counts = dict(sizes)
    while np.prod(list(counts.values())) > MOST_ROWS:
        longest = max(counts, key=lambda axis: counts[axis])
        if counts[longest] <= 2:
            break
        counts[longest] -= 1
    return {axis: evenly(size, counts[axis]) for axis, size in sizes.items()}


def table_of_elasticities(dataset: xr.Dataset, name: str = "elasticity") -> Table:
    """Return the elasticities at one point, by parameter and bound, below the bounds themselves."""
    bounds = [str(bound) for bound in dataset["bound"].values]
    headers = [
        symbol(f"{latex} {_relation(bound)}")
        for latex, bound in zip(dataset["bound_symbol"].values.astype(str), bounds, strict=True)
    ]
    here = [number(float(value)) for value in dataset["at"].values]
    rows = [[text("the bound"), text(""), *here, text("")]]
    for row in each(dataset, "parameter"):
        cells = [number(float(value)) for value in (row["value"], *row["elasticity"].values)]
        latex, step = (str(row[name].item()) for name in ("parameter_symbol", "step"))
        rows.append([symbol(latex), *cells, text(step)])
    headers = [text("parameter"), text("value"), *headers, text("from")]
    align, caption = "lr" + "r" * len(bounds) + "l", _caption_of_point(dataset)
    return Table(name, "Elasticities", caption, headers, rows, align)


def _caption_of_point(dataset: xr.Dataset) -> str:
    words = (
        f"Elasticity: percent change of a bound of the {dataset.attrs['edition']} edition under the"
        f" {gram_of(dataset)} Gram per percent change of one parameter ({dataset.attrs['kind']})."
        f" At {_fixed(dataset)}. For integer parameters: difference between neighbouring values."
    )
    reasons = sorted(set(dataset["reason"].values.astype(str).flat) - {""})
    return f"{words} Not available: {'; '.join(reasons)}." if reasons else words


def _relation(bound: str) -> str:
    return r"\ge" if bound.endswith("_lower") else r"\le"


def _fixed(dataset: xr.Dataset) -> str:
    """Return the fixed parameters: numbers, or shares of L such as 0.5L."""
    return ", ".join(
        f"{name.removeprefix('fixed_')} = {value if isinstance(value, str) else f'{value:.4g}'}"
        for name, value in dataset.attrs.items()
        if name.startswith("fixed_")
    )


def _caption(dataset: xr.Dataset, shown: int, points: int) -> str:
    words = (
        f"Bounds of the {dataset.attrs['edition']} edition under the {gram_of(dataset)} Gram"
        f" ({dataset.attrs['kind']}). Fixed: {_fixed(dataset)}."
    )
    if dataset.attrs.get("projection", "none") != "none":
        words += (
            " The Gram matrix is not positive semidefinite; it was projected to the nearest PSD"
            f" matrix, at distance {dataset.attrs['projection_distance']:.4g}."
        )
    if shown < points:
        words += f" {shown} of {points:,} points, evenly spaced."
    absent = ["where the Gram matrix is not positive semidefinite"]
    if dataset["feasible"].all():
        absent = []
    if any(unreadable(dataset[bound]).any() for bound in bounds_of(dataset)):
        absent.append("on F(r_min) where the bound on R(r_min) is negative")
    return f"{words} Not available {', and '.join(absent)}." if absent else words
