"""Shared shapes: estimates with intervals, bands, a matrix as cells, both scores by row; and the
sparkline of a key result. Imports matplotlib, never pyplot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from reports.figures import style

SCORES: Final = {
    "recall": ("Recall", style.VERMILLION, "s"),
    "precision": ("Precision", style.BLUE, "o"),
}
"""Name, colour and marker of each score."""


def cells(axes: Axes, values: np.ndarray, largest: float) -> QuadMesh:
    """Draw a matrix as vector cells with white edges, cell (i, j) from (j, i) to (j+1, i+1);
    missing entries are grey.
    """
    axes.set_facecolor("#e4e4e4")
    known = np.ma.masked_invalid(values)
    edges: dict[str, Any] = {"edgecolors": "white", "linewidth": 0.4}
    mesh = axes.pcolormesh(known, cmap="cividis", vmin=0.0, vmax=largest, **edges)
    axes.tick_params(length=0)
    axes.grid(False)
    return mesh


def label_cells(axis: Axis, labels: np.ndarray, most: int) -> None:
    """Label cells of size 1 at their centres, at most `most` of them, evenly spaced."""
    step = max(1, -(-labels.size // most))
    axis.set_ticks(np.arange(0, labels.size, step) + 0.5, [str(label) for label in labels[::step]])


def marks(
    axes: Axes, data: xr.Dataset, name: str, at: np.ndarray, *, across: bool = False, **look: Any
) -> None:
    """Draw a variable with its intervals, if known, at positions `at`; `across`: along the
    horizontal axis.
    """
    values = data[name].values.astype(np.float64)
    limits = [data.get(f"{name}_{side}", data[name]).values for side in ("lower", "upper")]
    ends = np.nan_to_num(np.abs(np.stack(limits) - values))
    kwargs: style.Kwargs = {"marker": "o", "markersize": 5, "elinewidth": 1.2, **look}
    if across:
        axes.errorbar(values, at, xerr=ends, linestyle="none", **kwargs)
    else:
        axes.errorbar(at, values, yerr=ends, **kwargs)


def band(
    axes: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, colour: str, alpha: float
) -> None:
    """Shade the area between two curves; draw nothing if all limits are unknown."""
    if np.isfinite(low).any():
        axes.fill_between(x, low, high, color=colour, alpha=alpha, linewidth=0)


def curve(
    axes: Axes, data: xr.Dataset, name: str, shade: float, *, clip: bool = False, **look: Any
) -> None:
    """Draw a variable against n with its interval as a band of opacity `shade`, clipped to [0, 1]
    with `clip`; draw nothing if it is unknown.
    """
    n, level, low, high = (
        data[part].values for part in ("n", name, f"{name}_lower", f"{name}_upper")
    )
    if not np.isfinite(level).any():
        return
    axes.plot(n, level, **look)
    if shade:
        low, high = np.clip([low, high], *((0, 1) if clip else (-np.inf, np.inf)))
        band(axes, n, low, high, look["color"], shade)


def rungs(axes: Axes, data: xr.Dataset, dim: str, words: dict[str, str], name: str) -> None:
    """Draw {score}_{name} of both scores with intervals, one row per label of `dim`."""
    rows = [label for label in words if label in data[dim].values]
    selected, at = data.sel({dim: rows}), np.arange(len(rows))
    for index, (score, (word, colour, marker)) in enumerate(SCORES.items()):
        heights = at + 0.24 * (index - 0.5)
        look: dict[str, Any] = {"color": colour, "marker": marker, "capsize": 2.5, "label": word}
        marks(axes, selected, f"{score}_{name}", heights, across=True, **look)
    axes.axvline(0, color=style.GREY, linewidth=0.8)
    axes.set_yticks(at, [words[row] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(False, axis="y")
    style.legend_below(axes)


SIZE: Final = (2.7, 0.62)
"""Width and height in inches."""
COMPARED: Final[dict[str, Any]] = {
    "color": style.VERMILLION,
    "linestyle": style.DASHED,
    "linewidth": 1.1,
    "label": "",
}
MEASURED: Final = "measured"
MOST: Final = 256
"""Most points drawn of a curve."""


def sparkline(draw: Callable[[Axes], None]) -> Figure | None:
    """Draw a curve by a function; return None if it has no measured points."""
    with style.context():
        figure = Figure(figsize=SIZE)
        figure.patch.set_visible(False)
        axes = figure.add_axes((0.01, 0.04, 0.98, 0.92))
        axes.set_axis_off()
        draw(axes)
    measured = [curve for curve in axes.lines if curve.get_label() == MEASURED]
    return figure if measured and np.size(measured[0].get_xdata()) else None


def line(axes: Axes, x: np.ndarray, y: np.ndarray, **kwargs: Any) -> None:
    """Draw a line through at most `MOST` of the finite points, evenly spaced, always with the first
    three and the last three.
    """
    points = np.flatnonzero(np.isfinite(y))
    if points.size > MOST:
        inner = np.linspace(3, points.size - 4, MOST - 6).round().astype(int)
        points = points[np.concatenate([[0, 1, 2], inner, points.size - np.array([3, 2, 1])])]
    look: dict[str, Any] = {"color": style.BLUE, "linewidth": 1.4, "label": MEASURED, **kwargs}
    axes.plot(x[points], y[points], **look)
