"""Figures of several runs side by side: the sink's correlations, separability above chance, coverage. Runs are their letters, beside the ends of their curves.

Source: arXiv 2602.01893, §4.1 and Figures 5 and 6. Each function draws on given axes and returns them; it neither shows nor saves. Names of models are foreign
text and stay out of figures. Imports matplotlib, never pyplot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.comparison.shared import key_of, letters, said_by_paper
from reports.figures import style
from reports.run import NULLS

COLOURS: Final = (style.BLUE, style.VERMILLION, style.GREEN, style.PURPLE, style.ORANGE, style.BLACK)
DASHES: Final[tuple[Any, ...]] = ("-", (0, (5, 1.5)), (0, (3, 1.2, 1, 1.2)), (0, (1, 1)))
"""Beside its colour a run has its dashes; further runs take both up again, in another combination."""
LABEL_HEIGHT: Final = 0.19
"""Inches from one label to the next, of axes that the layout has yet to make somewhat lower."""
STATISTICS: Final = {"precision": "Precision", "recall": "Recall"}


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of a comparison: how it is called, laid out, drawn, and captioned."""

    name: str
    title: str
    paper: str
    grid: Callable[[xr.Dataset], tuple[int, int]]
    """Rows and columns of axes."""
    height: Callable[[xr.Dataset], float]
    draw: Callable[[Any, xr.Dataset], object]
    caption: Callable[[xr.Dataset], str]


def spaced(wanted: Sequence[float], gap: float, low: float, high: float) -> np.ndarray:
    """Move labels apart along a line, each as little as its neighbours allow, in their order.

    Args:
        wanted: where each would best stand.
        gap: least distance of two; made smaller where they do not all fit.
        low: end of the line.
        high: other end.

    Returns:
        Places, in the order of `wanted`.
    """
    wish = np.asarray(wanted, dtype=np.float64)
    gap = min(gap, (high - low) / max(wish.size - 1, 1))
    order = np.argsort(wish, kind="stable")
    shifted = wish[order] - gap * np.arange(wish.size)
    blocks: list[tuple[float, int]] = []  # neighbours that would come too near share one mean
    for value in shifted:
        mean, size = float(value), 1
        while blocks and blocks[-1][0] > mean:
            before, number = blocks.pop()
            mean, size = (before * number + mean * size) / (number + size), number + size
        blocks.append((mean, size))
    level = np.repeat([mean for mean, _ in blocks], [size for _, size in blocks])
    places = np.clip(level, low, high - gap * (wish.size - 1)) + gap * np.arange(wish.size)
    out = np.empty(wish.size)
    out[order] = places
    return out


def _label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write each curve's letter right of the axes, at the height of its end, joined to it by a thin line."""
    if not ends:
        return
    bottom, top = axes.get_ylim()
    height = axes.get_window_extent().height / axes.figure.dpi
    gap = LABEL_HEIGHT / max(height, 1e-6)
    places = spaced([(y - bottom) / (top - bottom) for _, y, *_ in ends], gap, 0.02, 0.98)
    for (x, y, letter, colour), place in zip(ends, places, strict=True):
        axes.annotate(
            letter, xy=(x, y), xycoords="data", xytext=(1.035, float(place)), textcoords="axes fraction", color=colour, fontsize=9, fontweight="bold",
            va="center", ha="left", annotation_clip=False, parse_math=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 0},
        )  # fmt: skip


def _look(place: int) -> tuple[str, Any]:
    return COLOURS[place % len(COLOURS)], DASHES[(place + place // len(COLOURS)) % len(DASHES)]


def _curves(axes: Axes, data: xr.Dataset, name: str, limits: tuple[str, str]) -> list[tuple[float, float, str, str]]:
    """Draw a curve with its band for each run; returns where each ends."""
    ends = []
    for place, letter in enumerate(letters(data)):
        at = data.isel(run=place)
        n, level = at["n"].values.astype(float), at[name].values
        known = np.isfinite(level)
        if not known.any():
            continue
        colour, dashes = _look(place)
        axes.plot(n[known], level[known], color=colour, linestyle=dashes, linewidth=1.4)
        low, high = (at[limit].values for limit in limits)
        band = known & np.isfinite(low) & np.isfinite(high)
        if band.any():
            axes.fill_between(n[band], low[band], high[band], color=colour, alpha=0.13, linewidth=0)
        last = int(np.flatnonzero(known)[-1])
        ends.append((float(n[last]), float(level[last]), letter, colour))
    return ends


def _range(data: xr.Dataset, names: Sequence[str]) -> tuple[float, float]:
    """Limits of an axis that shows these and zero."""
    known = np.concatenate([[0.0], *(data[name].values[np.isfinite(data[name].values)] for name in names)])
    room = 0.06 * max(float(np.ptp(known)), 0.1)
    return float(known.min()) - room, float(known.max()) + room


def figure_sink(axes: Sequence[Axes], data: xr.Dataset) -> Sequence[Axes]:
    """Draw correlations of Recall with ρ₀ against N, as measured and free of noise, a band a run, on two axes; what the paper reports as open marks."""
    titles = {"correlation": "As measured", "unattenuated": "Free of the documents’ noise"}
    marks = [(float(mark["n"]), float(mark["value"])) for row in said_by_paper(data) for mark in row.get("marks", [])]
    bands = [f"{name}{part}" for name in titles for part in ("", "_lower", "_upper")]
    low, high = _range(data, bands)
    high = max([high, *(value + 0.06 for _, value in marks)])
    for axis, (name, title) in zip(axes, titles.items(), strict=True):
        ends = _curves(axis, data, name, (f"{name}_lower", f"{name}_upper"))
        if name == "correlation" and marks:
            axis.plot(*zip(*marks, strict=True), linestyle="none", marker="D", markerfacecolor="white", markeredgecolor=style.GREY, markersize=6,
                      label="reported by the paper for other models", zorder=5)  # fmt: skip
            style.legend_below(axis, columns=1)
        _finish(axis, data, (max(low, -1.03), min(high, 1.03)), title, r"correlation of $R$ with $\rho_0$")
        _label_ends(axis, ends)
    return axes


def _finish(axes: Axes, data: xr.Dataset, limits: tuple[float, float], title: str, label: str) -> None:
    axes.axhline(0, color=style.GREY, linewidth=0.8)
    axes.set_ylim(*limits)
    style.size_axis(axes, float(data["n"].max()), "selected tokens $N$ (log)")
    axes.set_ylabel(label)
    axes.set_title(title)


def nulls(data: xr.Dataset) -> list[str]:
    """Nulls that some run measured, the trivial floor aside."""
    return [
        str(name) for name in data["null"].values if str(name) != "floor" and np.isfinite(data["recall_gain"].sel(null=name).values).any()
    ]


def figure_separable(axes: np.ndarray, data: xr.Dataset) -> np.ndarray:
    """Draw Precision and Recall above each null against N, a band a run, on axes (null, statistic)."""
    names = [f"{statistic}_gain{part}" for statistic in STATISTICS for part in ("", "_lower", "_upper")]
    low, high = _range(data.sel(null=nulls(data)), names)
    limits = (max(low, -1.03), min(high, 1.03))
    for row, null in zip(np.atleast_2d(axes), nulls(data), strict=True):
        for axis, (statistic, word) in zip(row, STATISTICS.items(), strict=True):
            name = f"{statistic}_gain"
            ends = _curves(axis, data.sel(null=null), name, (f"{name}_lower", f"{name}_upper"))
            _finish(axis, data, limits, f"{word} − {NULLS.get(null, 'a null')}", "measured − null")
            _label_ends(axis, ends)
    return axes


def bounds(data: xr.Dataset) -> list[tuple[str, str]]:
    """Editions and Grams that some run has bounds of."""
    return [
        (str(e), str(g))
        for e in data["edition"].values
        for g in data["gram"].values
        if np.isfinite(data["recall_inside"].sel(edition=e, gram=g).values).any()
    ]


def figure_coverage(axes: Sequence[Axes], data: xr.Dataset) -> Sequence[Axes]:
    """Draw the share of cells within bounds with its interval, a row for each bound and run, Precision and Recall on two axes."""
    rows = [(edition, gram, place) for edition, gram in bounds(data) for place in range(data.sizes["run"])]
    step = data.sizes["run"] + 0.8
    heights = np.array([-(row // data.sizes["run"]) * step - row % data.sizes["run"] for row in range(len(rows))], dtype=float)
    for axis, (statistic, word) in zip(axes, STATISTICS.items(), strict=True):
        for (edition, gram, place), height in zip(rows, heights, strict=True):
            at = data.sel(quantity=f"{statistic}_inside_{edition}_{gram}").isel(run=place)
            value, low, high = (float(at[name]) for name in ("estimate", "estimate_lower", "estimate_upper"))
            colour, _ = _look(place)
            if np.isfinite(low):
                axis.plot([max(low, 0), min(high, 1)], [height, height], color=colour, linewidth=2.2, alpha=0.45, solid_capstyle="butt")
            axis.plot([value], [height], marker="o", markersize=4.5, color=colour)
        axis.set(xlim=(-0.02, 1.02), ylim=(heights.min() - 0.8, heights.max() + 0.8), xlabel="share of (head, $N$) cells within")
        axis.set_title(word)
        axis.set_yticks(heights, [])
        axis.tick_params(axis="y", length=0)
    names = letters(data)
    axes[0].set_yticklabels([f"{edition}, {gram}   {names[place]}" if place == 0 else names[place] for edition, gram, place in rows])
    return axes


def _caption_sink(data: xr.Dataset) -> str:
    return (
        f"{key_of(data)}. Correlation over heads of Recall with the sink’s similarity ρ₀ at each N. Bands: 95% document jackknife, of each N by itself. Free "
        "of noise: from products of different documents, so that few documents do not pull it towards 0; runs of unequal numbers of documents are compared "
        "here. Open marks: what the paper reports for other models; no measurement of geostat."
    )


def _caption_separable(data: xr.Dataset) -> str:
    return (
        f"{key_of(data)}. Measured minus what the same measurement gives by chance, mean over heads. Bands: 95% over documents, of each N by itself. The paper "
        "calls N in [1, 4] best, without a null."
    )


def _caption_coverage(data: xr.Dataset) -> str:
    return (
        f"{key_of(data)}. Share of cells of one head and one N in which the measured curve lies within its bounds, with its 95% document interval. Wide "
        "bounds hold cheaply: the widths are in the table."
    )


FIGURES: Final = (
    Compared(
        "comparison_sink", "The sink’s similarity and Recall", "Figure 6", lambda data: (1, 2), lambda data: 3.6, figure_sink, _caption_sink
    ),
    Compared(
        "comparison_separable", "More separable than chance?", "Figure 5", lambda data: (len(nulls(data)), 2), lambda data: 0.6 + 2.5 * len(nulls(data)),
        figure_separable, _caption_separable,
    ),
    Compared(
        "comparison_coverage", "Do the bounds hold?", "", lambda data: (1, 2), lambda data: 1.0 + 0.17 * (data.sizes["run"] + 0.8) * len(bounds(data)),
        figure_coverage, _caption_coverage,
    ),
)  # fmt: skip


def plans(data: xr.Dataset) -> list[Compared]:
    """The figures that a comparison can have."""
    held = {"comparison_separable": bool(nulls(data)), "comparison_coverage": bool(bounds(data))}
    return [plan for plan in FIGURES if held.get(plan.name, True)]


def draw(plan: Compared, data: xr.Dataset) -> Figure:
    """Draw one figure on a canvas of its own. Labels go where the laid-out axes leave room, so it is laid out first."""
    with style.context():
        figure = Figure(figsize=(style.WIDTH, plan.height(data)), layout="constrained")
        axes = figure.subplots(*plan.grid(data))
        plan.draw(axes, data)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure
