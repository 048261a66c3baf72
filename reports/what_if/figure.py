"""Figures of a what-if study: lines for one axis (or one and a few values of another), a heat map
with the contour Δ = 0 for two, small multiples for three.

Source: arXiv 2602.01893, eq. (8), (12)-(17). Points whose Gram no vectors have are left white and
hatched. Imports matplotlib and xarray.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from reports.errors import InputError
from reports.figures import style
from reports.figures.readable import readable

MOST_PANELS: Final = 9
"""Panels of small multiples; a longer third axis is thinned evenly."""
FEW: Final = 4
"""Values of an axis that are drawn as lines, where a map would have bands."""
FLAT: Final = 0.02
"""A map whose largest value is below this looks empty, and says so."""
TITLE: Final = 80
"""Characters of a title that fit on one line of a figure."""
LINES: Final = {
    "precision": (style.BLUE, "-"),
    "recall": (style.VERMILLION, "-"),
    "f_outer": (style.SKY, (0, (4, 1.5))),
    "f_inner": (style.ORANGE, (0, (4, 1.5))),
}


def study_axes(dataset: xr.Dataset) -> list[str]:
    """Return the axes along which a study varies, longest first but for the order of equals."""
    return [str(name) for name in dataset.dims if dataset.sizes[name] > 1]


def draw_study(dataset: xr.Dataset, bound: str | None = None) -> Figure:
    """Draw what `geostat.whatif` returned, varying along one, two or three axes; a heat map shows
    `bound`, else the first one.

    Raises:
        InputError: if it varies along none or more than three axes, or has no such bound.
    """
    varying, shown, flat = _asked(dataset, bound, 3)
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
    """Draw a study of one or two axes on given ones, as `draw_study` does, and return these."""
    varying, shown, flat = _asked(dataset, bound, 2)
    if len(varying) == 1:
        _lines(axes, flat, varying[0], bounds_of(dataset))
    elif _few(dataset, varying):
        _few_lines(axes, flat, varying, shown)
    else:
        mesh = _heat(axes, flat, varying, shown)
        axes.figure.colorbar(mesh, ax=axes, label=_label(flat[shown]))
    readable(axes)
    return axes


def _asked(dataset: xr.Dataset, bound: str | None, most: int) -> tuple[list[str], str, xr.Dataset]:
    """The axes of a study, at most so many; the bound that is shown; the study along these axes."""
    varying, bounds = study_axes(dataset), bounds_of(dataset)
    shown = bounds[0] if bound is None else bound
    if shown not in bounds:
        raise InputError(
            f"{shown}: the study holds no such bound, expected one of {', '.join(bounds)}."
        )
    if not 1 <= len(varying) <= most:
        raise InputError(
            f"the study varies along {len(varying)} axes, expected one to"
            f" {('two', 'three')[most - 2]} to draw. Fix some of the parameters."
        )
    return varying, shown, dataset.isel({name: 0 for name in dataset.dims if name not in varying})


def _few(dataset: xr.Dataset, varying: Sequence[str]) -> bool:
    """Whether one of two axes has so few values that each is a line."""
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
        width, marker = 1.6 if side == "lower" else 0.9, "o" if x.size < 12 else ""
        axes.plot(
            x,
            _shown(dataset, name).values,
            color=colour,
            linestyle=dashes,
            linewidth=width,
            label=label,
            marker=marker,
        )
    _scale(axes, "x", x)
    axes.set(xlabel=_name(dataset[along]), ylabel="bound, cut to [0, 1]", ylim=(-0.03, 1.03))
    hidden, across = (
        ~_over(dataset["feasible"], dataset[along]).astype(bool),
        axes.get_xaxis_transform(),
    )
    if hidden.any():
        axes.fill_between(
            x,
            0,
            1,
            where=hidden,
            transform=across,
            color=style.PALE,
            linewidth=0,
            label="no such vectors exist",
        )
    axes.set_title(_title_of_lines(dataset, bounds))
    style.legend_below(axes, columns=3)


def _few_lines(axes: Axes, dataset: xr.Dataset, varying: list[str], bound: str) -> None:
    """One line for each value of the shorter axis."""
    few, along = sorted(varying, key=lambda name: dataset.sizes[name])
    x, colours = dataset[along].values, (style.BLUE, style.VERMILLION, style.GREEN, style.PURPLE)
    for index, colour in zip(range(dataset.sizes[few]), colours, strict=False):
        part = dataset.isel({few: index})
        label = f"${dataset[few].attrs['symbol']} = {_number(float(part[few]))}$"
        axes.plot(
            x,
            _shown(part, bound).values,
            color=colour,
            linewidth=1.6,
            label=label,
            marker="o" if x.size < 12 else "",
        )
    _scale(axes, "x", x)
    axes.set(xlabel=_name(dataset[along]), ylabel=_label(dataset[bound]), ylim=(-0.03, 1.03))
    axes.set_title(_title_of_lines(dataset, [bound]))
    style.legend_below(axes, columns=4)


def _heat(axes: Axes, dataset: xr.Dataset, along: Sequence[str], bound: str) -> QuadMesh:
    """One map over the first two of `along`."""
    x, y = (dataset[name].values for name in along[:2])
    shown = _shown(dataset, bound).transpose(along[1], along[0])
    mesh = axes.pcolormesh(
        x,
        y,
        np.ma.masked_invalid(shown.values),
        vmin=0,
        vmax=1,
        cmap="viridis",
        shading="nearest",
        rasterized=True,
    )
    hidden = ~_over(dataset["feasible"], shown).astype(bool)
    if hidden.any():
        axes.contourf(
            x, y, hidden.astype(float), levels=[0.5, 1.5], colors="none", hatches=["////"]
        )
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
    kept = evenly(dataset.sizes[third], MOST_PANELS)
    columns = min(3, len(kept))
    rows = -(-len(kept) // columns)
    figure = Figure(figsize=(style.WIDTH, 2.5 * rows + 0.6), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axis, index in zip(grid.flat, kept, strict=False):
        part = dataset.isel({third: index})
        mesh = _heat(axis, part, varying, bound)
        axis.set_title(f"${dataset[third].attrs['symbol']} = {_number(float(part[third]))}$")
        axis.label_outer()
    for axis in grid.flat[len(kept) :]:
        axis.remove()
    figure.colorbar(
        mesh, ax=grid.flat[: len(kept)].tolist(), label=_label(dataset[bound]), shrink=0.8
    )
    figure.suptitle(_map_title(dataset, bound), fontsize=9.5, fontweight="bold", x=0.02, ha="left")
    return figure


def evenly(size: int, most: int) -> list[int]:
    """At most so many indices of an axis, evenly spaced, its ends among them."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int)).tolist()


def unreadable(bound: xr.DataArray) -> np.ndarray:
    """Where a bound lies outside its readable_range, if it has one: it says nothing there
    (erratum 18).
    """
    low, high = bound.attrs.get("readable_range", (-np.inf, np.inf))
    return np.asarray((bound.values < low) | (bound.values > high))


def gram_of(dataset: xr.Dataset) -> str:
    """The name of a study's Gram, and whether it was moved to one that some vectors have."""
    moved = dataset.attrs.get("projection", "none") != "none"
    return f"{dataset.attrs['gram']}, projected" if moved else str(dataset.attrs["gram"])


def _shown(dataset: xr.Dataset, bound: str) -> xr.DataArray:
    """A bound cut to [0, 1], left out where it says nothing."""
    values = dataset[bound]
    return values.where(~unreadable(values)).clip(0, 1)


def _over(array: xr.DataArray, shown: xr.DataArray) -> np.ndarray:
    """The values of an array over the dimensions of what is shown, repeated along those it does
    not depend on.
    """
    return np.asarray(array.broadcast_like(shown).transpose(*shown.dims).values)


def _scale(axes: Axes, which: str, values: np.ndarray) -> None:
    """A logarithmic axis where the values were spaced so."""
    if values.size > 2 and (values > 0).all():
        steps, ratios = np.diff(values.astype(float)), np.diff(np.log(values.astype(float)))
        if np.ptp(ratios) / ratios.mean() < np.ptp(steps) / steps.mean() - 1e-9:
            axes.set(**{f"{which}scale": "log"})
            axis = axes.xaxis if which == "x" else axes.yaxis
            few = values.max() < 30 * values.min()
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("{x:g}" if few else NullFormatter())


def _name(coordinate: xr.DataArray) -> str:
    units = coordinate.attrs["units"]
    return f"{coordinate.attrs['long_name']}  ${coordinate.attrs['symbol']}$" + (
        "" if units == "1" else f"  ({units})"
    )


def _label(variable: xr.DataArray) -> str:
    return f"{variable.attrs['side']} bound on ${variable.attrs['symbol']}$, cut to [0, 1]"


def _title_of_lines(dataset: xr.Dataset, bounds: list[str]) -> str:
    """The title of lines, which says where one is left out (erratum 18)."""
    silent = r"no line for $F(r_{\min})$: n/a where the bound on $R$ is negative"
    return _title(
        dataset, [silent] if any(unreadable(dataset[name]).any() for name in bounds) else []
    )


def _map_title(dataset: xr.Dataset, bound: str) -> str:
    """The title of a heat map, with what the colours alone do not tell."""
    notes = [r"line: $\Delta=0$"] if "margin" in dataset else []
    if not dataset["feasible"].all():
        notes.append("hatched: no vectors have this Gram")
    if unreadable(dataset[bound]).any():
        notes.append("white: n/a, the bound on $R$ is negative")
    values = _shown(dataset, bound).values
    values = values[np.isfinite(values)]
    if values.size and values.max() < FLAT:
        notes.append(f"at most {max(values.max(), 0):.2g} anywhere: vacuous")
    return _title(dataset, notes)


def _title(dataset: xr.Dataset, notes: list[str]) -> str:
    """Edition, Gram and notes, on as many lines as the figure's width asks for."""
    lines = [f"{dataset.attrs['edition']} edition, {gram_of(dataset)} Gram"]
    for note in notes:
        longer = f"{lines[-1]}; {note}"
        lines[-1:] = [longer] if len(longer.replace("$", "")) <= TITLE else [lines[-1], note]
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:.3g}"
