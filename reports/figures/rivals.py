"""Figures of rivals: which form fits each assumption best, what each assumption costs the bounds,
and how far predictions from ever more of what was measured are off.

Source: arXiv 2602.01893, Assumptions 1-3. Each function draws on given axes and returns them; it
neither shows nor saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reports.figures import style
from reports.figures.captions.rivals import FORMS, LADDER, SWAPS, best_counts
from reports.run import Run

RULES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "simplest": (
        "simplest within 1 SE",
        {"marker": "D", "color": style.BLACK, "markersize": 4.5},
    ),
    "lowest_bic": (
        "lowest BIC",
        {
            "marker": "o",
            "markerfacecolor": "white",
            "markeredgecolor": style.VERMILLION,
            "markersize": 5.5,
        },
    ),
}
"""Rules that are marks: words, mark."""


def figure_rivals(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw in how many heads each form of similarity and of weights is the best, by each rule, on
    two axes.
    """
    panels = (
        (run.needed("similarity"), "gram", "Similarity", "value heads"),
        (run.needed("weights"), "rival", "Weights", "heads"),
    )
    for axis, (data, dim, title, of) in zip(axes, panels, strict=True):
        counts = best_counts(data, dim)
        forms = [str(form) for form in data[dim].values] if dim in data.dims else []
        rows = np.arange(len(forms))
        for name, label, colour, height in (
            ("lowest_loss", "lowest loss left out", style.SKY, 0.7),
            ("clearly_lowest", "clearly lowest", style.BLUE, 0.36),
        ):
            if name in counts:
                axis.barh(rows, counts[name].values, height, color=colour, label=label)
        for name, (label, mark) in RULES.items():
            if name in counts:
                axis.plot(counts[name].values, rows, linestyle="none", label=label, **mark)
        axis.set_yticks(rows, [FORMS[dim].get(form, form) for form in forms])
        axis.invert_yaxis()
        axis.set_xlim(left=0)
        axis.margins(x=0.08)
        axis.xaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
        axis.grid(False, axis="y")
        axis.set(title=title, xlabel=of)
    style.legend_shared(axes)
    return axes


CURVES: Final = {
    "recall": ("Recall", style.VERMILLION, "s"),
    "precision": ("Precision", style.BLUE, "o"),
}


def _rungs(axes: Axes, data: xr.Dataset, dim: str, words: dict[str, str], name: str) -> None:
    """Draw x_name of both scores, with intervals, a row for each label along `dim`."""
    rows = [label for label in words if label in data[dim].values]
    at = data.sel({dim: rows})
    for place, (score, (word, colour, marker)) in enumerate(CURVES.items()):
        level = at[f"{score}_{name}"].values.astype(np.float64)
        limits = [
            at[f"{score}_{name}_{side}"].values if f"{score}_{name}_{side}" in at else level
            for side in ("lower", "upper")
        ]
        axes.errorbar(
            level,
            np.arange(len(rows)) + 0.24 * (place - 0.5),
            xerr=np.nan_to_num(np.abs(np.stack(limits) - level)),
            color=colour,
            marker=marker,
            markersize=5,
            linestyle="none",
            linewidth=1.2,
            capsize=2.5,
            label=word,
        )
    axes.axvline(0, color=style.GREY, linewidth=0.8)
    axes.set_yticks(np.arange(len(rows)), [words[row] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(False, axis="y")


def figure_costs(axes: Axes, run: Run) -> Axes:
    """Draw by how much fewer values lie inside sharp bounds when an ingredient is fitted, not
    measured, with intervals.
    """
    _rungs(axes, run.needed("ingredients"), "swap", SWAPS, "cost")
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    axes.set_xlabel("fewer values inside sharp bounds, of all")
    axes.set_title("Fitted in place of measured")
    style.legend_below(axes)
    return axes


def figure_ladder(axes: Axes, run: Run) -> Axes:
    """Draw the mean distance of predicted from measured curves by what they are predicted from,
    with intervals.
    """
    _rungs(axes, run.needed("predictive"), "source", LADDER, "pooled_mae")
    axes.set_xlabel("mean distance of predicted from measured")
    axes.set_title("Predicted from")
    style.legend_below(axes)
    return axes
