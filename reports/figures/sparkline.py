"""Sparklines: the curve behind each key result, small and without axes.

Blue: measured. Vermilion, dashed: what it is compared with, a fit, chance or bounds. Imports
matplotlib.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.figures import style
from reports.run import Run
from reports.statistics import most_typical

SIZE: Final = (2.7, 0.62)
"""Inches."""
COMPARED: Final[dict[str, Any]] = {
    "color": style.VERMILLION,
    "linestyle": style.DASHED,
    "linewidth": 1.1,
    "label": "",
}
MEASURED: Final = "measured"
MOST: Final = 256
"""Points of a curve that are drawn."""


def sparkline(key: str, run: Run) -> Figure | None:
    """Draw the curve behind a key result; None for one that has none, or whose numbers the run
    lacks.
    """
    draw = CURVES.get(key)
    if draw is None:
        return None
    with style.context():
        figure, axes = _bare()
        draw(axes, run)
    drawn = [line for line in axes.lines if line.get_label() == MEASURED]
    return figure if drawn and np.size(drawn[0].get_xdata()) else None


def _norms(axes: Axes, run: Run) -> None:
    place = most_typical(run.norms["cv_token"].transpose("layer", "kv_head"))
    if place is None:
        return
    layer, head = place
    norm = run.capture["value_norm"].isel(document=0, layer=layer, kv_head=head).values
    _line(axes, np.arange(norm.size), norm)
    axes.axhline(float(np.nanmedian(norm[1:])), **COMPARED)
    axes.set_ylim(0, None)


def _similarity(axes: Axes, run: Run) -> None:
    lag, cosine = run.display["lag"].values, run.display["cosine"].values
    _line(axes, lag, cosine)
    fitted = run.display["cosine_fitted"].sel(form="exponential").values
    _line(axes, lag, fitted, **COMPARED)
    axes.set_xscale("log")


def _weights(axes: Axes, run: Run) -> None:
    weight = run.display["weight"].values
    _line(axes, np.arange(weight.size), weight)
    _line(axes, np.arange(weight.size), run.display["weight_fitted"].values, **COMPARED)
    axes.set_yscale("log")


def _separability(axes: Axes, run: Run) -> None:
    n = run.summary["n"].values
    _line(axes, n, run.summary["precision_mean"].values)
    if _has_null(run, "random_selection"):
        chance = run.summary["precision_null"].sel(null="random_selection").values
        _line(axes, n, chance, **COMPARED)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)


def _bounds(axes: Axes, run: Run) -> None:
    _line(axes, run.summary["n"].values, run.summary["recall_mean"].values)
    if "sharp" in run.summary["edition"].values:
        sharp = run.summary.sel(edition="sharp", gram="exponential")
        for side in ("lower", "upper"):
            _line(axes, sharp["n_envelope"].values, sharp[f"recall_{side}"].values, **COMPARED)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)


def _directions(axes: Axes, run: Run) -> None:
    if not _has_null(run, "random_directions"):
        return
    chance = run.summary["precision_null"].sel(null="random_directions").values
    _line(axes, run.summary["n"].values, run.summary["precision_mean"].values - chance)
    axes.axhline(0, **COMPARED)
    axes.set_xscale("log")


CURVES: Final[Mapping[str, Callable[[Axes, Run], None]]] = {
    "norms": _norms,
    "similarity": _similarity,
    "weights": _weights,
    "separability": _separability,
    "bounds": _bounds,
    "directions": _directions,
}
"""By key result."""
WORDS: Final[Mapping[str, str]] = {
    "norms": "length by position, one document of the median head; dashed: median",
    "similarity": "cosine by distance, median head; dashed: fit",
    "weights": "weight by position, median head; dashed: fit",
    "separability": "Precision by N; dashed: chance",
    "bounds": "Recall by N; dashed: bounds",
    "directions": "gain in Precision by N; dashed: 0",
}
"""What each shows, as it stands below it and as a screen reader says it."""


MEASURED_CURVES: Final[Mapping[str, tuple[str, str, str]]] = {
    "norms": ("value_norm", "position", "linear"),
    "similarity": ("cosine_mean", "lag", "log"),
    "weights": ("attention_weight", "position", "weights"),
    "precision": ("precision", "n", "log"),
    "recall": ("recall", "n", "log"),
}
"""Variable of /capture, what it lies along, and the axes: log is that of x."""
MEASURED_WORDS: Final[Mapping[str, str]] = {
    "norms": "mean length by position",
    "similarity": "mean cosine by distance",
    "weights": "mean weight by position",
    "precision": "mean Precision by N",
    "recall": "mean Recall by N",
}
"""What each shows: means over documents and all heads."""


def measured_curve(key: str, capture: xr.Dataset) -> Figure | None:
    """Draw one of `MEASURED_CURVES` of a run that is captured only; None where nothing of it was
    measured.
    """
    name, along, scale = MEASURED_CURVES[key]
    if name not in capture:
        return None
    values = capture[name]
    curve = values.mean([dim for dim in values.dims if dim != along])
    with style.context():
        figure, axes = _bare()
        _line(axes, capture[along].values, curve.values.astype(np.float64))
        if scale == "log":
            axes.set_xscale("log")
        elif scale == "weights":
            axes.set_yscale("log")
        if key in ("precision", "recall"):
            axes.set_ylim(0, 1.02)
    return figure if np.isfinite(curve.values).any() else None


def _bare() -> tuple[Figure, Axes]:
    """A small figure of one curve without axes."""
    figure = Figure(figsize=SIZE)
    figure.patch.set_visible(False)
    axes = figure.add_axes((0.01, 0.04, 0.98, 0.92))
    axes.set_axis_off()
    return figure, axes


def _has_null(run: Run, null: str) -> bool:
    return "null" in run.summary.coords and null in run.summary["null"].values


def _line(axes: Axes, x: np.ndarray, y: np.ndarray, **how: Any) -> None:
    """A line through at most `MOST` of the known points, evenly spaced, the first three and the
    last three among them.
    """
    kept = np.flatnonzero(np.isfinite(y))
    if kept.size > MOST:
        inner = np.linspace(3, kept.size - 4, MOST - 6).round().astype(int)
        kept = kept[np.concatenate([[0, 1, 2], inner, kept.size - np.array([3, 2, 1])])]
    drawn: dict[str, Any] = {"color": style.BLUE, "linewidth": 1.4, "label": MEASURED, **how}
    axes.plot(x[kept], y[kept], **drawn)
