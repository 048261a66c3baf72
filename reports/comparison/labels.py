"""Labels at the ends of curves: each as near as its neighbours allow, so that none touch.

Imports matplotlib (never pyplot) and scipy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from scipy.optimize import isotonic_regression

LABEL_HEIGHT: Final = 0.19
"""Inches from one label to the next, of axes that the layout has yet to make somewhat lower."""


def spaced(wanted: Sequence[float], gap: float, low: float, high: float) -> np.ndarray:
    """Move labels from where each would best stand apart along a line from `low` to `high`, in
    their order, each as little as its neighbours allow.

    gap: least distance of two; made smaller where they do not all fit.
    """
    wish = np.asarray(wanted, dtype=np.float64)
    gap = min(gap, (high - low) / max(wish.size - 1, 1))
    order, steps = np.argsort(wish, kind="stable"), gap * np.arange(wish.size)
    level = isotonic_regression(
        wish[order] - steps
    ).x  # neighbours that would come too near share one mean
    out = np.empty(wish.size)
    out[order] = np.clip(level, low, high - gap * (wish.size - 1)) + steps
    return out


def label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write each curve's letter right of the axes, at the height of its end, joined to it by a
    thin line.
    """
    if not ends:
        return
    bottom, top = axes.get_ylim()
    inches = axes.get_window_extent().height / axes.figure.dpi
    gap = LABEL_HEIGHT / max(inches, 1e-6)
    heights = spaced([(y - bottom) / (top - bottom) for _, y, *_ in ends], gap, 0.02, 0.98)
    for (x, y, letter, colour), height in zip(ends, heights, strict=True):
        axes.annotate(
            letter,
            xy=(x, y),
            xycoords="data",
            xytext=(1.035, float(height)),
            textcoords="axes fraction",
            color=colour,
            fontsize=9,
            fontweight="bold",
            va="center",
            ha="left",
            annotation_clip=False,
            parse_math=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.6,
                "shrinkA": 1,
                "shrinkB": 0,
            },
        )
