"""Plots of a run: each figure of its report as a function that draws on given axes, `geostat.plot`.

A function draws on `ax` in the colours of the report and the type that is set there; it neither
shows nor saves. Without `ax` it makes a figure of its own in the report's type, which nothing else
keeps: `axes.figure` shows it in a notebook, `axes.figure.savefig` writes it. Imports matplotlib,
never pyplot.

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
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geostat.display.tree import with_display
from geostat.errors import InputError, one_error, shown_whole
from geostat.runs.groups import group_of
from reports.figures.every import draw
from reports.figures.listed import FIGURES, Plan
from reports.figures.readable import readable
from reports.run import Run, parts
from reports.what_if.figure import draw_study, figure_study

Drawn = Any
"""Axes, or an array of them."""

_WORDS: Final = """

    Args:
        run: a confronted run.
        ax: {wanted}; a figure of its own when left out.
        tokens: of a run whose layers see different numbers T of tokens, the T of those to be drawn;
            the largest when left out.

    Returns:
        What was drawn on, as it was given.

    Raises:
        InputError: for other axes, or a run that lacks what is drawn.
    """


def _run_of(tree: xr.DataTree, tokens: int | None) -> Run:
    """What is shown of a run, or of its layers that see so many tokens."""
    group_of(tree, "capture")
    runs = [Run.of(part) for part in parts(with_display(tree)).values()]
    seen = {run.tokens: run for run in runs}
    if tokens is not None and tokens not in seen:
        raise InputError(
            f"tokens={tokens}: no layer sees so many, expected one of"
            f" {', '.join(map(str, seen))}. Name one of those, or leave it out."
        )
    return seen[max(seen) if tokens is None else tokens]


def _wanted(plan: Plan) -> str:
    """The axes that a figure is drawn on, in words."""
    rows, columns = plan.grid
    return "axes" if rows * columns == 1 else f"{rows} × {columns} axes"


def _laid_out(plan: Plan, ax: Any) -> Any:
    """Given axes in the shape that `Figure.subplots` would have given them."""
    rows, columns = plan.grid
    given = np.asarray(ax, dtype=object)
    if given.size != rows * columns or not all(isinstance(one, Axes) for one in given.flat):
        seen = f"{given.size} × {type(given.flat[0]).__name__}" if given.size else "none"
        raise InputError(
            f"ax of {plan.name}: {seen}, expected {_wanted(plan)}. Make them with"
            f" figure.subplots({rows}, {columns}), or leave ax out."
        )
    if rows * columns == 1:
        return given.item()
    return given.reshape(rows, columns) if min(rows, columns) > 1 else given.ravel()


def _on_axes(name: str) -> Callable[..., Drawn]:
    """Return the function that draws one of `FIGURES`."""
    plan = next(plan for plan in FIGURES if plan.name == name)

    def drawn(run: xr.DataTree, ax: Any = None, *, tokens: int | None = None) -> Drawn:
        with shown_whole("the run"):
            if ax is None:
                shown = draw(plan, _run_of(run, tokens))
                own = np.array(shown.axes[: plan.grid[0] * plan.grid[1]], dtype=object)
                return _laid_out(plan, own)
            axes = _laid_out(plan, ax)
            plan.draw(axes, _run_of(run, tokens))
            for one in np.ravel(np.asarray(axes, dtype=object)):
                readable(one)
            return ax

    drawn.__name__ = drawn.__qualname__ = name
    drawn.__doc__ = (plan.draw.__doc__ or "").rstrip() + _WORDS.format(wanted=_wanted(plan))
    return one_error(drawn)


idea = _on_axes("idea")
claims = _on_axes("claims")
norms = _on_axes("norms")
similarity = _on_axes("similarity")
weights = _on_axes("weights")
rivals = _on_axes("rivals")
separability = _on_axes("separability")
sphere = _on_axes("sphere")
coverage = _on_axes("coverage")
costs = _on_axes("costs")
heads = _on_axes("heads")
sink = _on_axes("sink")
regimes = _on_axes("regimes")
contributions = _on_axes("contributions")
regime_depth = _on_axes("regime_depth")
regime_curves = _on_axes("regime_curves")
effective = _on_axes("effective")
effective_layers = _on_axes("effective_layers")
ablation = _on_axes("ablation")
normaliser = _on_axes("normaliser")
predictive = _on_axes("predictive")
ladder = _on_axes("ladder")


@one_error
def whatif(study: xr.Dataset, ax: Axes | None = None, *, bound: str | None = None) -> Drawn:
    """Draw a what-if study: lines along one axis, or a map over two with the contour Δ = 0.

    Args:
        study: what `geostat.whatif` returned; on given axes it varies along one or two.
        ax: axes; a figure of its own when left out.
        bound: which a map shows, such as "recall_lower"; the first when left out.

    Returns:
        The axes, or of small multiples an array of them.

    Raises:
        InputError: for a study that varies along none or too many axes, or lacks the bound.
    """
    if ax is not None:
        return figure_study(ax, study, bound)
    figure: Figure = draw_study(study, bound)
    axes = [one for one in figure.axes if one.get_label() != "<colorbar>"]
    return axes[0] if len(axes) == 1 else np.array(axes, dtype=object)


__all__ = [*(plan.name for plan in FIGURES), "whatif"]
