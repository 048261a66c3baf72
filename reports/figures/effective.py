"""The loss that is left when every query keeps N tokens, and the effective attention set sizes.

Source: arXiv 2609.37879. Draws on given axes and returns them; it neither shows nor saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from reports.figures import style
from reports.run import Run

FLOOR: Final = 1e-3
"""Relative rises of the loss below it are drawn there."""
APART: Final = 1.09
"""N* of a rule are drawn so many times as high as the former's: beside one another."""
HIGHEST: Final = 1.3
"""How many times τ they are drawn at most."""
COLOURS: Final = {
    "attention": (style.BLUE, "weight $\\alpha$"),
    "contribution": (style.ORANGE, "contribution $\\alpha\\|v\\|$"),
    "recent": (style.GREY, "most recent"),
    "sink-recent": (style.GREEN, "sink, then most recent"),
    "sink-orthogonal": (style.PURPLE, "orthogonal to the sink"),
    "random": (style.BLACK, "random"),
    "greedy": (style.SKY, "greedy (oracle)"),
}
"""Of each rule its colour, and what it is called."""
MODES: Final = {
    "deletion": "Others deleted",
    "renormalisation": "Others deleted, kept ones rescaled",
}


def shown_scope(data: xr.Dataset) -> str:
    """Which layers and heads are drawn: all of them, or, where that was not measured, the first
    that were.
    """
    scopes = [str(name) for name in data["scope"].values]
    return "all" if "all" in scopes else scopes[0]


def figure_effective(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw the relative rise of the loss against N by rule, and N* with its 95% interval, on an
    axis for each mode.
    """
    data = run.needed("effective")
    for axis, (mode, title) in zip(axes, MODES.items(), strict=True):
        if "loss" in data and mode in data["mode"].values:
            here = data.sel(scope=shown_scope(data), mode=mode)
            rules = here["rule"].values
            for place, rule in enumerate(rules):
                height = min(APART, HIGHEST ** (1 / max(len(rules) - 1, 1))) ** place
                _curve(axis, here.sel(rule=rule), *COLOURS[str(rule)], height)
        elif "loss" in data:
            axis.set_title(title)
            style.nothing(axis, "not measured")
            continue
        _shares(axis, data, run.display.attrs["paper_effective"], mode)
        style.size_axis(axis, float(data.attrs["tokens"]), "tokens kept $N$ (log)")
        axis.set(yscale="log", ylabel="relative rise of the loss (log)", title=title)
    drawn = [axis for axis in axes if axis.get_legend_handles_labels()[1]]
    top = max(axis.get_ylim()[1] for axis in drawn)
    for axis in drawn:
        axis.set_ylim(FLOOR / 1.4, top)
    style.legend_shared(drawn)
    return axes


def _curve(axes: Axes, curve: xr.Dataset, colour: str, label: str, height: float) -> None:
    known = np.isfinite(curve["loss_rise"].values)
    if not known.any():
        return
    n, rise = (curve[name].values[known] for name in ("n", "loss_rise"))
    axes.plot(n, np.maximum(rise, FLOOR), color=colour, label=label)
    stars, taus = curve["n_star"].values, curve["tau"].values
    limits = [curve[f"n_star_{side}"].values for side in ("lower", "upper")]
    arms = np.nan_to_num(np.abs(np.stack(limits) - stars))
    axes.errorbar(
        stars,
        taus * height,
        xerr=arms,
        color=colour,
        marker="o",
        markersize=5,
        linestyle="none",
        elinewidth=1.2,
        capsize=2.5,
    )


def _shares(axes: Axes, data: xr.Dataset, paper: dict[str, Any], mode: str) -> None:
    """Draw each τ, and the authors' N*."""
    taus = [float(tau) for tau in data["tau"].values]
    label = f"$\\tau$ = {', '.join(f'{tau:.3g}' for tau in taus)}"
    for tau in taus:
        axes.axhline(
            tau, color=style.GREY, linewidth=0.8, linestyle=style.DASHED, label=label, zorder=0.9
        )
        label = "_"
    if shown_scope(data) != "all" or paper[mode] > data.attrs["tokens"]:
        return  # of all layers; beyond the axis: the caption has it
    axes.plot(
        [paper[mode]],
        [paper["tau"]],
        color=style.VERMILLION,
        linestyle="none",
        marker="D",
        markersize=6,
        markerfacecolor="none",
        label=f"{paper['model']} in {paper['source']}",
    )
