"""What-if studies: figures and tables of the bounds over a grid, and of elasticities at one point.

Figures: lines for one axis (or two, one with few values), a heat map with the contour Δ = 0 for
two, small multiples for three. Points whose Gram is not positive semidefinite (not PSD) are
hatched. Source: arXiv 2602.01893, eq. (8), (12)-(17). Imports matplotlib and xarray.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from reports.errors import InputError
from reports.figures import style
from reports.figures.plan import readable
from reports.run import each
from reports.tables.table import Table, missing, number, symbol, text, whole

MOST_PANELS: Final = 9
"""Most panels of small multiples; a longer third axis is thinned evenly."""
FEW: Final = 4
"""Largest size of an axis whose values are drawn as lines instead of a map."""
FLAT: Final = 0.02
"""A map with all values below this states in its title that it is vacuous."""
TITLE: Final = 80
"""Characters of a title per line."""
LINES: Final = {
    "precision": (style.BLUE, "-"),
    "recall": (style.VERMILLION, "-"),
    "f_outer": (style.SKY, (0, (4, 1.5))),
    "f_inner": (style.ORANGE, (0, (4, 1.5))),
}


def study_axes(dataset: xr.Dataset) -> list[str]:
    """Return the axes along which a study varies, in the order of its dimensions."""
    return [str(name) for name in dataset.dims if dataset.sizes[name] > 1]


def draw_study(dataset: xr.Dataset, bound: str | None = None) -> Figure:
    """Draw the result of `geostat.whatif`, which varies along one, two or three axes; a heat map
    shows `bound`, or the first bound.

    Raises:
        InputError: if it varies along none or more than three axes, or lacks the bound.
    """
    varying, shown, flat = _selected(dataset, bound, 3)
    with style.context():
        if len(varying) == 3:
            figure = _multiples(flat, varying, shown)
        else:
            lines = _few(dataset, varying) or len(varying) == 1
            figure = Figure(figsize=(style.WIDTH, 3.3 if lines else 4.4), layout="constrained")
            figure_study(figure.add_subplot(), dataset, shown)
        readable(figure)
    return figure


def figure_study(axes: Axes, dataset: xr.Dataset, bound: str | None = None) -> Axes:
    """Draw a study of one or two axes on matplotlib axes, as `draw_study` does; return them."""
    varying, shown, flat = _selected(dataset, bound, 2)
    if len(varying) == 1:
        _lines(axes, flat, varying[0], bounds_of(dataset))
    elif _few(dataset, varying):
        _few_lines(axes, flat, varying, shown)
    else:
        mesh = _heat(axes, flat, varying, shown)
        axes.figure.colorbar(mesh, ax=axes, label=_label(flat[shown]))
    readable(axes)
    return axes


def _selected(
    dataset: xr.Dataset, bound: str | None, most: int
) -> tuple[list[str], str, xr.Dataset]:
    """Return the varying axes (at most `most`), the bound to show, and the reduced study."""
    varying, bounds = study_axes(dataset), bounds_of(dataset)
    shown = bounds[0] if bound is None else bound
    if shown not in bounds:
        raise InputError(
            f"{shown}: the study has no such bound, expected one of {', '.join(bounds)}. Choose one"
            " of these."
        )
    if not 1 <= len(varying) <= most:
        raise InputError(
            f"the study varies along {len(varying)} axes, expected one to"
            f" {('two', 'three')[most - 2]} to draw. Fix some of the parameters."
        )
    return varying, shown, dataset.isel({name: 0 for name in dataset.dims if name not in varying})


def _few(dataset: xr.Dataset, varying: Sequence[str]) -> bool:
    """Return whether one of two axes has few enough values to be drawn as lines."""
    return len(varying) == 2 and min(dataset.sizes[name] for name in varying) <= FEW


def bounds_of(dataset: xr.Dataset) -> list[str]:
    """Return the names of a study's bounds."""
    return [str(name) for name in dataset.data_vars if str(name).endswith(("_lower", "_upper"))]


def _lines(axes: Axes, dataset: xr.Dataset, along: str, bounds: list[str]) -> None:
    x = dataset[along].values
    for name in bounds:
        quantity, side = name.rsplit("_", 1)
        colour, dashes = LINES[quantity]
        label = f"${dataset[name].attrs['symbol']}$, {side}"
        line = {"color": colour, "linestyle": dashes, "linewidth": 1.6 if side == "lower" else 0.9}
        _line(axes, x, _shown(dataset, name).values, label, **line)
    hidden = ~_over(dataset["feasible"], dataset[along]).astype(bool)
    if hidden.any():
        look: dict[str, Any] = {"color": style.PALE, "linewidth": 0, "label": "Gram not PSD"}
        across = axes.get_xaxis_transform()
        axes.fill_between(x, 0, 1, where=hidden, transform=across, **look)
    _finish_lines(axes, dataset, along, bounds, "bound, clipped to [0, 1]", columns=3)


def _few_lines(axes: Axes, dataset: xr.Dataset, varying: list[str], bound: str) -> None:
    """Draw one line per value of the shorter axis."""
    short, along = sorted(varying, key=lambda name: dataset.sizes[name])
    x, colours = dataset[along].values, (style.BLUE, style.VERMILLION, style.GREEN, style.PURPLE)
    for index, colour in zip(range(dataset.sizes[short]), colours, strict=False):
        part = dataset.isel({short: index})
        label = f"${dataset[short].attrs['symbol']} = {_number(float(part[short]))}$"
        _line(axes, x, _shown(part, bound).values, label, color=colour, linewidth=1.6)
    _finish_lines(axes, dataset, along, [bound], _label(dataset[bound]), columns=4)


def _line(axes: Axes, x: np.ndarray, y: np.ndarray, label: str, **look: Any) -> None:
    """Draw a line, with a mark at each of a few points."""
    axes.plot(x, y, label=label, marker="o" if x.size < 12 else "", **look)


def _finish_lines(
    axes: Axes, dataset: xr.Dataset, along: str, bounds: list[str], label: str, columns: int
) -> None:
    """Set scale, labels, title and legend; the title notes omitted lines (erratum 18)."""
    omitted = r"no line for $F(r_{\min})$: n/a where the bound on $R$ is negative"
    hidden = any(unreadable(dataset[name]).any() for name in bounds)
    _scale(axes, "x", dataset[along].values)
    axes.set(xlabel=_name(dataset[along]), ylabel=label, ylim=(-0.03, 1.03))
    axes.set_title(_title(dataset, [omitted] if hidden else []))
    style.legend_below(axes, columns=columns)


def _heat(axes: Axes, dataset: xr.Dataset, along: Sequence[str], bound: str) -> QuadMesh:
    """Draw a heat map over the first two axes of `along`."""
    x, y = (dataset[name].values for name in along[:2])
    shown = _shown(dataset, bound).transpose(along[1], along[0])
    look: dict[str, Any] = {"cmap": "viridis", "shading": "nearest"}
    values = np.ma.masked_invalid(shown.values)
    mesh = axes.pcolormesh(x, y, values, vmin=0, vmax=1, rasterized=True, **look)
    hidden = ~_over(dataset["feasible"], shown).astype(bool)
    if hidden.any():
        levels: dict[str, Any] = {"levels": [0.5, 1.5], "colors": "none", "hatches": ["////"]}
        axes.contourf(x, y, hidden.astype(float), **levels)
    if "margin" in dataset:
        margin = _over(dataset["margin"], shown)
        known = np.isfinite(margin)
        if (margin[known] > 0).any() and (margin[known] < 0).any():
            axes.contour(x, y, margin, levels=[0.0], colors=[style.VERMILLION], linewidths=1.4)
    axes.grid(False)
    _scale(axes, "x", x)
    _scale(axes, "y", y)
    axes.set(xlabel=_name(dataset[along[0]]), ylabel=_name(dataset[along[1]]))
    axes.set_title(_map_title(dataset, bound))
    return mesh


def _multiples(dataset: xr.Dataset, varying: list[str], bound: str) -> Figure:
    third = varying[2]
    indices = evenly(dataset.sizes[third], MOST_PANELS)
    columns = min(3, len(indices))
    rows = -(-len(indices) // columns)
    figure = Figure(figsize=(style.WIDTH, 2.5 * rows + 0.6), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axis, index in zip(grid.flat, indices, strict=False):
        part = dataset.isel({third: index})
        mesh = _heat(axis, part, varying, bound)
        axis.set_title(f"${dataset[third].attrs['symbol']} = {_number(float(part[third]))}$")
        axis.label_outer()
    for axis in grid.flat[len(indices) :]:
        axis.remove()
    drawn = grid.flat[: len(indices)].tolist()
    figure.colorbar(mesh, ax=drawn, label=_label(dataset[bound]), shrink=0.8)
    figure.suptitle(_map_title(dataset, bound), fontsize=9.5, fontweight="bold", x=0.02, ha="left")
    return figure


def evenly(size: int, most: int) -> list[int]:
    """Return at most `most` evenly spaced indices of an axis, with both ends."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int)).tolist()


def unreadable(bound: xr.DataArray) -> np.ndarray:
    """Return where a bound lies outside its readable_range and is void (erratum 18)."""
    low, high = bound.attrs.get("readable_range", (-np.inf, np.inf))
    return np.asarray((bound.values < low) | (bound.values > high))


def gram_of(dataset: xr.Dataset) -> str:
    """Return the name of a study's Gram, with "projected" if it was projected to a PSD matrix."""
    projected = dataset.attrs.get("projection", "none") != "none"
    return f"{dataset.attrs['gram']}, projected" if projected else str(dataset.attrs["gram"])


def _shown(dataset: xr.Dataset, bound: str) -> xr.DataArray:
    """Return a bound clipped to [0, 1], NaN where it carries no information."""
    values = dataset[bound]
    return values.where(~unreadable(values)).clip(0, 1)


def _over(array: xr.DataArray, shown: xr.DataArray) -> np.ndarray:
    """Return the values of an array broadcast to the dimensions of `shown`."""
    return np.asarray(array.broadcast_like(shown).transpose(*shown.dims).values)


def _scale(axes: Axes, which: str, values: np.ndarray) -> None:
    """Make an axis logarithmic if its values are spaced logarithmically."""
    if values.size > 2 and (values > 0).all():
        steps, ratios = np.diff(values.astype(float)), np.diff(np.log(values.astype(float)))
        if np.ptp(ratios) / ratios.mean() < np.ptp(steps) / steps.mean() - 1e-9:
            axes.set(**{f"{which}scale": "log"})
            axis = axes.xaxis if which == "x" else axes.yaxis
            short_range = values.max() < 30 * values.min()
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("{x:g}" if short_range else NullFormatter())


def _name(coordinate: xr.DataArray) -> str:
    units = coordinate.attrs["units"]
    return f"{coordinate.attrs['long_name']}  ${coordinate.attrs['symbol']}$" + (
        "" if units == "1" else f"  ({units})"
    )


def _label(variable: xr.DataArray) -> str:
    return f"{variable.attrs['side']} bound on ${variable.attrs['symbol']}$, clipped to [0, 1]"


def _map_title(dataset: xr.Dataset, bound: str) -> str:
    """Return the title of a heat map, with notes on contour, hatching and missing values."""
    notes = [r"line: $\Delta=0$"] if "margin" in dataset else []
    if not dataset["feasible"].all():
        notes.append("hatched: Gram not PSD")
    if unreadable(dataset[bound]).any():
        notes.append("white: n/a, the bound on $R$ is negative")
    values = _shown(dataset, bound).values
    values = values[np.isfinite(values)]
    if values.size and values.max() < FLAT:
        notes.append(f"at most {max(values.max(), 0):.2g} anywhere: vacuous")
    return _title(dataset, notes)


def _title(dataset: xr.Dataset, notes: list[str]) -> str:
    """Return edition, Gram and notes, wrapped to the figure's width."""
    lines = [f"{dataset.attrs['edition']} edition, {gram_of(dataset)} Gram"]
    for note in notes:
        longer = f"{lines[-1]}; {note}"
        lines[-1:] = [longer] if len(longer.replace("$", "")) <= TITLE else [lines[-1], note]
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:.3g}"


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
