"""Predicted against measured curves: all (head, N) cells, for each source of ingredients.

Each function draws on given axes and returns them; it neither shows nor saves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap

from reports.figures import style
from reports.run import Run

PANELS = {
    "exponential": "Exponential fit",
    "offset": "Offset fit",
    "all but weights": "Weights fitted",
    "measured": "All measured",
}
CURVES = {"precision": ("Precision $P$", style.BLUE), "recall": ("Recall $R$", style.VERMILLION)}
BINS = 25
"""Bins of either axis from 0 to 1."""


def figure_predictive(axes: Any, run: Run) -> Any:
    """Draw measured against predicted values of all (head, N) cells, for P and R and each source of
    ingredients, on 2 × 4 axes.
    """
    data = run.needed("predictive")
    sources = [source for source in PANELS if source in data["source"].values]
    for row, (name, (title, colour)) in zip(axes, CURVES.items(), strict=True):
        for axis, source in zip(row, sources, strict=False):
            _panel(axis, data.sel(source=source), name, colour)
            axis.set(title=PANELS[source], xlabel="predicted", ylabel=f"measured {title}")
            axis.label_outer()
        for axis in row[len(sources) :]:
            axis.set_visible(False)
    handles, labels = axes[0][0].get_legend_handles_labels()
    axes[0][0].figure.legend(
        handles, labels, loc="outside lower center", ncols=3, columnspacing=1.6
    )
    return axes


def _panel(axis: Axes, data: xr.Dataset, name: str, colour: str) -> None:
    """One panel: how many cells lie where, the line on which both are equal, and medians of
    measured by predicted.
    """
    dims = ("layer", "head", "n_predicted")
    predicted, measured = (
        data[key].transpose(*dims).values.ravel() for key in (f"{name}_predicted", name)
    )
    known = np.isfinite(predicted) & np.isfinite(measured)
    cells, edges, _ = np.histogram2d(
        predicted[known], measured[known], bins=BINS, range=[[0, 1], [0, 1]]
    )
    squares = [
        [
            (edges[i], edges[j]),
            (edges[i + 1], edges[j]),
            (edges[i + 1], edges[j + 1]),
            (edges[i], edges[j + 1]),
        ]
        for i, j in np.argwhere(cells > 0)
    ]
    shades = LinearSegmentedColormap.from_list("cells", ["#ebebeb", "#8c8c8c"])
    crowd = PolyCollection(
        squares, array=np.log(cells[cells > 0]), cmap=shades, edgecolors="none", zorder=1
    )
    axis.add_collection(crowd)
    axis.plot(
        [0, 1],
        [0, 1],
        color=style.BLACK,
        linewidth=0.9,
        linestyle=(0, (4, 2)),
        label="predicted = measured",
        zorder=2,
    )
    binned = data[[f"{name}_predicted_median", f"{name}_measured_quartile"]].dropna("bin")
    middle = binned[f"{name}_predicted_median"].values
    low, median, high = binned[f"{name}_measured_quartile"].transpose("quartile", "bin").values
    axis.fill_between(middle, low, high, color=colour, alpha=0.28, linewidth=0, zorder=3)
    axis.plot(middle, median, color=colour, linewidth=1.8, marker="o", markersize=3.2, zorder=4)
    axis.plot(
        [],
        [],
        color=style.GREY,
        linewidth=1.8,
        marker="o",
        markersize=3.2,
        label="median of measured, band: quartiles",
    )
    axis.fill_between([], [], [], color="#b9b9b9", linewidth=0, label="cells (darker: more)")
    axis.set(
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
        xticks=[0, 0.5, 1],
        yticks=[0, 0.5, 1],
        aspect="equal",
    )
