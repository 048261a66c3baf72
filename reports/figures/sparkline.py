"""Sparkline of a key result: a small curve without axes.

Blue: measured. Vermilion, dashed: the comparison, such as a fit, a null baseline or bounds. Imports
matplotlib.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.figures import style

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
