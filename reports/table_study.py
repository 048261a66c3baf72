"""The table of a what-if study: every point of it, or of a thinned grid where there are more than a page holds. Imports xarray."""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np
import xarray as xr

from reports.cells import Cell, Table, missing, number, symbol, text, whole
from reports.draw_study import bounds_of

__all__ = ["table_of_study"]

MOST_ROWS: Final = 40


def table_of_study(dataset: xr.Dataset, name: str = "whatif") -> Table:
    """Make the table of a study: one row a point, its parameters, its bounds, and whether vectors with its Gram exist.

    Axes are thinned evenly, the longest first, until at most `MOST_ROWS` points are left; the caption says so.
    """
    axes = [str(axis) for axis in dataset.dims]
    kept = _thinned({axis: dataset.sizes[axis] for axis in axes})
    bounds = bounds_of(dataset)
    full = dataset[[*bounds, "feasible"]].isel(kept)
    rows = []
    for place in product(*(range(len(kept[axis])) for axis in axes)):
        point = full.isel(dict(zip(axes, place, strict=True)))
        labels = [whole(int(point[axis])) if point[axis].dtype.kind == "i" else number(float(point[axis])) for axis in axes]
        rows.append([*labels, *(_cell(bound, float(point[bound])) for bound in bounds), text("yes" if bool(point["feasible"]) else "no")])
    points = int(np.prod([dataset.sizes[axis] for axis in axes]))
    headers = [symbol(str(dataset[axis].attrs["symbol"])) for axis in axes]
    headers += [symbol(_bound(dataset[bound])) for bound in bounds]
    return Table(
        name=name,
        title="What-if study",
        caption=_caption(dataset, len(rows), points),
        headers=[*headers, text("feasible")],
        rows=rows,
        align="r" * (len(axes) + len(bounds)) + "l",
    )


def _thinned(sizes: dict[str, int]) -> dict[str, list[int]]:
    counts = dict(sizes)
    while np.prod(list(counts.values())) > MOST_ROWS:
        longest = max(counts, key=lambda axis: counts[axis])
        if counts[longest] <= 2:
            break
        counts[longest] -= 1
    return {axis: np.unique(np.linspace(0, sizes[axis] - 1, counts[axis]).round().astype(int)).tolist() for axis in sizes}


def _cell(bound: str, value: float) -> Cell:
    """A bound; one on F(r_min) that follows from a negative one on R says nothing (erratum 18)."""
    return missing() if bound == "f_inner_lower" and not 0 <= value <= 1 else number(value)


def _bound(variable: xr.DataArray) -> str:
    relation = r"\ge" if variable.attrs["side"] == "lower" else r"\le"
    return f"{variable.attrs['symbol']} {relation}"


def _caption(dataset: xr.Dataset, shown: int, points: int) -> str:
    fixed = ", ".join(f"{key.removeprefix('fixed_')} = {value:.4g}" for key, value in dataset.attrs.items() if key.startswith("fixed_"))
    words = f"Bounds of the {dataset.attrs['edition']} edition under the {dataset.attrs['gram']} Gram ({dataset.attrs['kind']})."
    part = f" {shown} of {points:,} points, evenly spaced." if shown < points else ""
    return f"{words} Fixed: {fixed}.{part} Not available where no vectors with that Gram exist, and on F(r_min) where the bound on R(r_min) is negative."
