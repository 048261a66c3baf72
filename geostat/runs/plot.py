"""Plots of a run, `geostat.plot`: one function for each figure of the report.

A function draws on `ax` in the report's colours and the current fonts; it neither shows nor saves.
Without `ax` it creates a figure in the report's style: `axes.figure` shows it in a notebook and
`axes.figure.savefig` writes it. Imports matplotlib, never pyplot.

>>> import geostat as gs
>>> from matplotlib.figure import Figure
>>> run = gs.open("report")
>>> figure = Figure(layout="constrained")
>>> precision, recall = gs.plot.separability(run, ax=figure.subplots(1, 2))
>>> precision.get_xlabel()
'selected tokens $N$ (log)'
>>> gs.plot.claims(run).get_xlabel()
'layer'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geostat.display.tree import with_display
from geostat.errors import InputError, one_error, shown_whole
from geostat.runs.groups import group_of
from reports.figures.plan import Plan, draw, readable
from reports.run import Run, parts
from reports.topics.listed import FIGURES
from reports.what_if import draw_study, figure_study

Drawn = Any
"""Axes, or an array of axes."""

_ARGUMENTS: Final = """

    Args:
        run: a confronted run.
        ax: {wanted}; None creates a figure.
        tokens: number T of tokens that the drawn layers see, if it differs between layers; the
            largest by default.

    Returns:
        The axes, in the shape of `ax`.

    Raises:
        InputError: for the wrong number of axes, or a run without the results to draw.
    """


def _run_of(tree: xr.DataTree, tokens: int | None) -> Run:
    """Return the run to draw: its layers that see `tokens` tokens."""
    group_of(tree, "capture")
    runs = [Run.of(part) for part in parts(with_display(tree)).values()]
    by_tokens = {run.tokens: run for run in runs}
    if tokens is not None and tokens not in by_tokens:
        raise InputError(
            f"tokens={tokens}: no layer sees that number of tokens, expected one of"
            f" {', '.join(map(str, by_tokens))}. Use one of those, or leave it out."
        )
    return by_tokens[max(by_tokens) if tokens is None else tokens]


def _laid_out(plan: Plan, ax: Any, wanted: str) -> Any:
    """Return axes in the shape that `Figure.subplots` returns."""
    rows, columns = plan.grid
    axes = np.asarray(ax, dtype=object)
    if axes.size != rows * columns or not all(isinstance(axis, Axes) for axis in axes.flat):
        seen = f"{axes.size} × {type(axes.flat[0]).__name__}" if axes.size else "none"
        raise InputError(
            f"ax of {plan.name}: {seen}, expected {wanted}. Make them with"
            f" figure.subplots({rows}, {columns}), or leave ax out."
        )
    if rows * columns == 1:
        return axes.item()
    return axes.reshape(rows, columns) if min(rows, columns) > 1 else axes.ravel()


def _on_axes(plan: Plan) -> Callable[..., Drawn]:
    """Return the function that draws a figure."""
    rows, columns = plan.grid
    wanted = "axes" if rows * columns == 1 else f"{rows} × {columns} axes"

    def plot(run: xr.DataTree, ax: Any = None, *, tokens: int | None = None) -> Drawn:
        with shown_whole("the run"):
            if ax is None:
                figure = draw(plan, _run_of(run, tokens))
                return _laid_out(plan, figure.axes[: rows * columns], wanted)
            axes = _laid_out(plan, ax, wanted)
            plan.draw(axes, _run_of(run, tokens))
            for axis in np.ravel(np.asarray(axes, dtype=object)):
                readable(axis)
            return ax

    plot.__name__ = plot.__qualname__ = plan.name
    plot.__doc__ = (plan.draw.__doc__ or "").rstrip() + _ARGUMENTS.format(wanted=wanted)
    return one_error(plot)


@one_error
def whatif(study: xr.Dataset, ax: Axes | None = None, *, bound: str | None = None) -> Drawn:
    """Draw a what-if study: lines along one axis, or a map over two axes with the contour Δ = 0.

    Args:
        study: result of `geostat.whatif`; with `ax` it may vary along one or two parameters.
        ax: axes; None creates a figure.
        bound: bound that a map shows, such as "recall_lower"; the first by default.

    Returns:
        The axes, or an array of axes for small multiples.

    Raises:
        InputError: for a study that varies along no parameter or too many, or lacks the bound.
    """
    if ax is not None:
        return figure_study(ax, study, bound)
    figure: Figure = draw_study(study, bound)
    axes = [axis for axis in figure.axes if axis.get_label() != "<colorbar>"]
    return axes[0] if len(axes) == 1 else np.array(axes, dtype=object)


__all__ = [*(plan.name for plan in FIGURES), "whatif"]
globals().update({plan.name: _on_axes(plan) for plan in FIGURES})

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., Drawn]: ...
