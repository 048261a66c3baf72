"""The normaliser's statements beside a model's heads: weights over lengths, separability over N.

Source: arXiv 2508.17821. Draws on given axes and returns them; it neither shows nor saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from reports.figures import style
from reports.run import Run


def figure_normaliser(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw the largest weight against L beside a fall as 1/L, and the share of the selected within
    the radius against N with its bounds and what chance gives.
    """
    data = run.needed("normaliser")
    _weights(axes[0], data)
    _shares(axes[1], data, run.display.attrs["paper_normaliser"])
    style.legends_once(axes)
    return axes


def _weights(axes: Axes, data: xr.Dataset) -> None:
    length = data["length"].values.astype(float)
    log = data["log_largest"].values
    _line(
        axes,
        data,
        "log_largest",
        length,
        style.BLUE,
        "measured weight, geometric mean",
        exponential=True,
    )
    axes.plot(
        length,
        np.exp(log[0]) * length[0] / length,
        color=style.GREY,
        linestyle=style.DASHED,
        label="falling as $1/L$",
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="tokens $L$ (log)",
        ylabel=r"largest weight $\alpha_{\max}$ (log)",
        title="Do weights fall as 1/L?",
    )
    axes.set_xticks(length, [f"{tokens:,.0f}" for tokens in length])
    axes.set_xticks([], minor=True)


def _shares(axes: Axes, data: xr.Dataset, paper: dict[str, Any]) -> None:
    n = data["n"].values
    low, high = (data[f"within_sharp_{side}"].values for side in ("lower", "upper"))
    axes.fill_between(
        n,
        low,
        high,
        color=style.ORANGE,
        alpha=0.2,
        linewidth=0,
        label="its sharp bounds at the measured ‖s‖",
    )
    _line(axes, data, "within", n, style.BLUE, "measured share")
    _line(axes, data, "within_chance", n, style.GREEN, "random directions")
    axes.plot(
        n,
        data["within_flat"].values,
        color=style.BLACK,
        linestyle=style.DASHED,
        label="random directions, flat weights",
    )
    for edge in paper["within"]:
        label = f"{paper['model']} in {paper['source']}" if edge == paper["within"][0] else "_"
        axes.axhline(edge, color=style.VERMILLION, linewidth=0.8, linestyle=":", label=label)
    style.size_axis(axes, float(data.attrs["tokens"]), "tokens selected $N$ (log)")
    axes.set(
        ylim=(0, 1.03), ylabel="share within ‖s‖, $N_s/N$", title="Do selected tokens lie near?"
    )


def _line(
    axes: Axes,
    data: xr.Dataset,
    name: str,
    x: np.ndarray,
    colour: str,
    label: str,
    *,
    exponential: bool = False,
) -> None:
    """Draw a mean with its standard error over documents as bars."""
    value, error = data[name].values, np.nan_to_num(data[f"{name}_se"].values)
    low, high = value - error, value + error
    if exponential:
        value, low, high = np.exp(value), np.exp(low), np.exp(high)
    arms = np.maximum(np.stack([value - low, high - value]), 0)
    axes.errorbar(
        x, value, yerr=arms, color=colour, marker="o", markersize=3, elinewidth=1.0, label=label
    )
