"""Does geometry tell which heads the model needs: rank correlations over heads, and budgets of
tokens by how they are shared out; and N* of single layers.

Draws on given axes and returns them; it neither shows nor saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reports.figures import style
from reports.figures.effective import FLOOR, MODES
from reports.run import Run

TAUS: Final = (style.VERMILLION, style.BLUE, style.GREEN, style.ORANGE, style.PURPLE)
KNOWN: Final = {
    "precision": "Precision",
    "recall": "Recall",
    "f_outer": r"$F(r_{\max})$",
    "f_inner": r"$F(r_{\min})$",
    "sharp_f_lower": r"sharp bound on $F$",
    "sharp_f_margin": r"$F$ less that bound",
    "lam": r"$\lambda$",
    "rho0": r"$\rho_0$",
    "retriever": "is a Retriever",
    "mixer": "is a Mixer",
    "reset": "is a Reset",
    "kept_mass": "kept mass",
    "entropy": "entropy",
}
BESIDE: Final = 0.2
"""Layers by which N* of another share stands beside."""
GIVEN: Final = {
    "nothing": ("by itself", style.GREY, "none"),
    "weights": ("given kept mass and entropy", style.BLUE, style.BLUE),
}
WAYS: Final = {
    "uniform": (style.GREY, "all heads alike"),
    "mass": (style.BLUE, "equal kept mass"),
    "entropy": (style.SKY, "by entropy"),
    "geometry": (style.VERMILLION, "by $1-F$"),
    "geometry reversed": (style.ORANGE, "by $F$"),
    "greedy": (style.GREEN, "by measured losses"),
}
"""Of each way to share a budget its colour, and what it is called."""


def figure_ablation(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw rank correlations with what the model loses by a head, and budgets by how they are
    shared out.
    """
    data = run.needed("heads_cut")
    _correlations(axes[0], data)
    _budgets(axes[1], data)
    return axes


def _correlations(axes: Axes, data: xr.Dataset) -> None:
    axes.set_title("Over heads")
    if "rank_correlation" not in data:
        style.nothing(axes, "no head was cut alone")
        return
    primary = str(data.attrs["primary"])
    here = data.sel(mode=data.attrs["shown"]["head_rise"], outcome=primary)
    rows = [str(name) for name in here["known"].values]
    for place, (given, (label, colour, face)) in enumerate(GIVEN.items()):
        at = here.sel(given=given)
        value = at["rank_correlation"].values
        arms = np.abs(
            np.stack([at[f"rank_correlation_{side}"].values for side in ("lower", "upper")]) - value
        )
        axes.errorbar(
            value,
            np.arange(len(rows)) + 0.32 * place - 0.16,
            xerr=np.nan_to_num(arms),
            color=colour,
            marker="o",
            markersize=5,
            markerfacecolor=face,
            linestyle="none",
            elinewidth=1.2,
            capsize=2.0,
            label=label,
        )
    axes.axvline(0, color=style.BLACK, linewidth=0.8)
    axes.set_yticks(np.arange(len(rows)), [KNOWN[name] for name in rows])
    axes.set(xlim=(-1.05, 1.05), xlabel="rank correlation with the loss")
    axes.invert_yaxis()
    style.legend_below(axes, columns=1)


def _budgets(axes: Axes, data: xr.Dataset) -> None:
    axes.set_title("Over budgets")
    if "budget_rise" not in data:
        style.nothing(axes, "no budget was shared out")
        return
    here = data.sel(mode=data.attrs["shown"]["budget_rise"])
    budgets = here["budget"].values.astype(float)
    for place, (way, (colour, label)) in enumerate(WAYS.items()):
        at = here.sel(way=way)
        rise = at["budget_rise"].values
        if not np.isfinite(rise).any():
            continue
        limits = np.stack([at[f"budget_rise_{side}"].values for side in ("lower", "upper")])
        drawn = np.maximum(rise, FLOOR)
        arms = np.nan_to_num(np.abs(np.maximum(limits, FLOOR) - drawn))
        axes.errorbar(
            budgets * 1.035 ** (place - 2.5),  # beside one another
            drawn,
            yerr=arms,
            color=colour,
            marker="o",
            markersize=4,
            elinewidth=1.0,
            label=label,
        )
    axes.set(xscale="log", yscale="log", xlabel="tokens a head keeps, mean (log)")
    axes.set_ylabel("relative rise of the loss (log)")
    axes.set_xticks(budgets, [f"{budget:.0f}" for budget in budgets], minor=False)
    axes.set_xticks([], minor=True)
    style.legend_below(axes, columns=2)


def figure_effective_layers(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw N* of single layers, the others as they are, on an axis for each mode."""
    data = run.needed("effective_layers")
    first, last = (int(data["layer"][end]) for end in (0, -1))
    data = data.reindex(layer=range(first, last + 1))  # no line over layers that were not cut
    layers = data["layer"].values
    for axis, mode in zip(axes, MODES, strict=True):
        axis.set_title(mode.capitalize())
        axis.set(xlabel="layer", ylabel="tokens needed $N^*$ (log)")
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter("{x:.0f}")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        known = mode in data["mode"].values and data["n_star"].sel(mode=mode).notnull()
        if not np.any(known):
            axis.set_yscale("linear")
            style.nothing(axis, "not measured")
            continue
        taus = data["tau"].values
        for place, (tau, colour) in enumerate(zip(taus, cycle(TAUS), strict=False)):
            at = data.sel(mode=mode, tau=tau)
            star = at["n_star"].values
            limits = np.stack([at[f"n_star_{side}"].values for side in ("lower", "upper")])
            axis.errorbar(
                layers + BESIDE * (place - (len(taus) - 1) / 2),
                star,
                yerr=np.nan_to_num(np.abs(limits - star)),
                color=colour,
                marker="o",
                markersize=4,
                elinewidth=0.8,
                label=rf"$\tau$ = {100 * tau:.3g}%",
            )
    style.legends_once(axes, columns=3)
    return axes
