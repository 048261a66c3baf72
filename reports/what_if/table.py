"""The tables of a what-if study: every point of it, or of a thinned grid where there are more than
a page holds; the elasticities of one point.

Imports numpy and xarray.
"""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np
import xarray as xr

from reports.tables.cells import missing, number, symbol, text, whole
from reports.tables.table import Table
from reports.what_if.figure import bounds_of, evenly, gram_of, unreadable

MOST_ROWS: Final = 40


def table_of_study(dataset: xr.Dataset, name: str = "whatif") -> Table:
    """Make the table of a study: one row a point, its parameters, its bounds, and whether vectors
    with its Gram exist.

    Axes are thinned evenly, the longest first, until at most `MOST_ROWS` points are left; the
    caption says so.
    """
    axes = [str(axis) for axis in dataset.dims]
    kept = _thinned({axis: dataset.sizes[axis] for axis in axes})
    bounds = bounds_of(dataset)
    full = dataset[[*bounds, "feasible"]].isel(kept)
    rows = []
    for index in product(*(range(len(kept[axis])) for axis in axes)):
        point = full.isel(dict(zip(axes, index, strict=True)))
        labels = [
            whole(int(point[axis])) if point[axis].dtype.kind == "i" else number(float(point[axis]))
            for axis in axes
        ]
        cells = [
            missing() if unreadable(point[bound]) else number(float(point[bound]))
            for bound in bounds
        ]
        rows.append([*labels, *cells, text("yes" if bool(point["feasible"]) else "no")])
    points = int(np.prod([dataset.sizes[axis] for axis in axes]))
    headers = [symbol(str(dataset[axis].attrs["symbol"])) for axis in axes]
    headers += [symbol(f"{dataset[bound].attrs['symbol']} {_relation(bound)}") for bound in bounds]
    return Table(
        name,
        "What-if study",
        _caption(dataset, len(rows), points),
        [*headers, text("feasible")],
        rows,
        "r" * len(headers) + "l",
    )


def _thinned(sizes: dict[str, int]) -> dict[str, list[int]]:
    counts = dict(sizes)
    while np.prod(list(counts.values())) > MOST_ROWS:
        longest = max(counts, key=lambda axis: counts[axis])
        if counts[longest] <= 2:
            break
        counts[longest] -= 1
    return {axis: evenly(size, counts[axis]) for axis, size in sizes.items()}


def table_of_elasticities(dataset: xr.Dataset, name: str = "elasticity") -> Table:
    """Make the table of the elasticities of one point: one row a parameter, one column a bound,
    the bounds themselves in the first row.
    """
    bounds = [str(bound) for bound in dataset["bound"].values]
    headers = [
        symbol(f"{one} {_relation(bound)}")
        for one, bound in zip(dataset["bound_symbol"].values.astype(str), bounds, strict=True)
    ]
    rows = [
        [
            text("the bound"),
            text(""),
            *(number(float(value)) for value in dataset["at"].values),
            text(""),
        ]
    ]
    for index, one in enumerate(dataset["parameter_symbol"].values.astype(str)):
        row = dataset.isel(parameter=index)
        cells = [number(float(value)) for value in (row["value"], *row["elasticity"].values)]
        rows.append([symbol(one), *cells, text(str(row["step"].values))])
    return Table(
        name,
        "Elasticities",
        _caption_of_elasticities(dataset),
        [text("parameter"), text("value"), *headers, text("from")],
        rows,
        "lr" + "r" * len(bounds) + "l",
    )


def _caption_of_elasticities(dataset: xr.Dataset) -> str:
    words = (
        f"Per cent by which a bound of the {dataset.attrs['edition']} edition under the"
        f" {gram_of(dataset)} Gram moves when one parameter grows by one per cent"
        f" ({dataset.attrs['kind']}). At {_fixed(dataset)}. Whole numbers: difference between"
        " neighbours."
    )
    reasons = sorted(set(dataset["reason"].values.astype(str).flat) - {""})
    return f"{words} Not available: {'; '.join(reasons)}." if reasons else words


def _relation(bound: str) -> str:
    return r"\ge" if bound.endswith("_lower") else r"\le"


def _fixed(dataset: xr.Dataset) -> str:
    """What stood still: numbers, or shares of L such as 0.5L."""
    fixed = {
        key.removeprefix("fixed_"): value
        for key, value in dataset.attrs.items()
        if key.startswith("fixed_")
    }
    return ", ".join(
        f"{name} = {value if isinstance(value, str) else format(value, '.4g')}"
        for name, value in fixed.items()
    )


def _caption(dataset: xr.Dataset, shown: int, points: int) -> str:
    words = (
        f"Bounds of the {dataset.attrs['edition']} edition under the {gram_of(dataset)} Gram"
        f" ({dataset.attrs['kind']}). Fixed: {_fixed(dataset)}."
    )
    if dataset.attrs.get("projection", "none") != "none":
        words += (
            " No vectors have that Gram: it was moved to the nearest that some have, by"
            f" {dataset.attrs['projection_distance']:.4g}."
        )
    if shown < points:
        words += f" {shown} of {points:,} points, evenly spaced."
    absent = [] if dataset["feasible"].all() else ["where no vectors with that Gram exist"]
    if any(unreadable(dataset[bound]).any() for bound in bounds_of(dataset)):
        absent.append("on F(r_min) where the bound on R(r_min) is negative")
    return f"{words} Not available {', and '.join(absent)}." if absent else words
