"""Figures of a comparison: the sink's correlations, separability above null baselines, coverage.
Letters to the right of the curves name the runs, without overlap.

Source: arXiv 2602.01893, §4.1 and Figures 5 and 6. Each function draws on given axes and returns
them; it neither shows nor saves. Figures contain no model names, which are foreign text. Imports
matplotlib, never pyplot, and scipy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy.optimize import isotonic_regression

from reports.comparison.tables import STATISTICS, key_of, letters, reported_by_paper
from reports.figures import style
from reports.figures.caption import Caption
from reports.figures.plan import Plan
from reports.run import NULLS
from reports.statistics import flat

LABEL_HEIGHT: Final = 0.19
"""Distance of labels in inches; the layout reduces the height of axes afterwards."""


def spaced(wanted: Sequence[float], gap: float, low: float, high: float) -> np.ndarray:
    """Move labels apart along a line from `low` to `high`, in order, each as little as possible.

    gap: smallest distance of two labels; reduced if they do not all fit.
    """
    wish = np.asarray(wanted, dtype=np.float64)
    gap = min(gap, (high - low) / max(wish.size - 1, 1))
    order, steps = np.argsort(wish, kind="stable"), gap * np.arange(wish.size)
    level = isotonic_regression(wish[order] - steps).x  # labels that are too near share one mean
    out = np.empty(wish.size)
    out[order] = np.clip(level, low, high - gap * (wish.size - 1)) + steps
    return out


def label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write the letter of each curve to the right of the axes, joined to its end by a thin line."""
    if not ends:
        return
    bottom, top = axes.get_ylim()
    inches = axes.get_window_extent().height / axes.figure.dpi
    gap = LABEL_HEIGHT / max(inches, 1e-6)
    heights = spaced([(y - bottom) / (top - bottom) for _, y, *_ in ends], gap, 0.02, 0.98)
    letter_style: dict[str, Any] = {
        "fontsize": 9,
        "fontweight": "bold",
        "va": "center",
        "ha": "left",
    }
    line_style: dict[str, Any] = {"arrowstyle": "-", "linewidth": 0.6, "shrinkA": 1, "shrinkB": 0}
    for (x, y, letter, colour), height in zip(ends, heights, strict=True):
        axes.annotate(
            letter,
            xy=(x, y),
            xycoords="data",
            xytext=(1.035, float(height)),
            textcoords="axes fraction",
            color=colour,
            annotation_clip=False,
            parse_math=False,
            arrowprops=line_style | {"color": colour},
            **letter_style,
        )


COLOURS: Final = (
    style.BLUE,
    style.VERMILLION,
    style.GREEN,
    style.PURPLE,
    style.ORANGE,
    style.BLACK,
)
DASHES: Final[tuple[Any, ...]] = ("-", (0, (5, 1.5)), (0, (3, 1.2, 1, 1.2)), (0, (1, 1)))
"""Dashes of the runs; further runs reuse colours and dashes in other combinations."""


def _look(index: int) -> tuple[str, Any]:
    return COLOURS[index % len(COLOURS)], DASHES[(index + index // len(COLOURS)) % len(DASHES)]


def _curves(
    axes: Axes, data: xr.Dataset, name: str, limits: tuple[float, float], title: str, label: str
) -> None:
    """Draw one curve per run against N, with its band and its letter."""
    ends = []
    for index, letter in enumerate(letters(data)):
        selected = data.isel(run=index)
        n, level = selected["n"].values.astype(float), selected[name].values
        known = np.isfinite(level)
        if not known.any():
            continue
        colour, dashes = _look(index)
        axes.plot(n[known], level[known], color=colour, linestyle=dashes, linewidth=1.4)
        low, high = (selected[f"{name}_{side}"].values for side in ("lower", "upper"))
        band = known & np.isfinite(low) & np.isfinite(high)
        if band.any():
            axes.fill_between(n[band], low[band], high[band], color=colour, alpha=0.13, linewidth=0)
        last = int(np.flatnonzero(known)[-1])
        ends.append((float(n[last]), float(level[last]), letter, colour))
    axes.axhline(0, color=style.GREY, linewidth=0.8)
    axes.set_ylim(*limits)
    style.size_axis(axes, float(data["n"].max()), "selected tokens $N$ (log)")
    axes.set(ylabel=label, title=title)
    label_ends(axes, ends)


def _range(data: xr.Dataset, names: Sequence[str], least_top: float = 0.0) -> tuple[float, float]:
    """Return axis limits that contain the curves with bands and zero, within −1.03 to 1.03."""
    curves = [flat(data[f"{name}{part}"]) for name in names for part in ("", "_lower", "_upper")]
    known = np.concatenate([[0.0], *curves])
    room = 0.06 * max(float(np.ptp(known)), 0.1)
    top = max(float(known.max()) + room, least_top)
    return max(float(known.min()) - room, -1.03), min(top, 1.03)


def figure_sink(axes: Sequence[Axes], data: xr.Dataset) -> Sequence[Axes]:
    """Draw correlations of Recall with ρ₀ against N, as measured and disattenuated, with bands, on
    two axes; open marks show values reported in the paper.
    """
    titles = {"correlation": "As measured", "unattenuated": "Disattenuated"}
    marks = [
        (float(mark["n"]), float(mark["value"]))
        for row in reported_by_paper(data)
        for mark in row.get("marks", [])
    ]
    limits = _range(data, list(titles), max((value + 0.06 for _, value in marks), default=0.0))
    for axis, (name, title) in zip(axes, titles.items(), strict=True):
        _curves(axis, data, name, limits, title, r"correlation of $R$ with $\rho_0$")
    if marks:
        open_marks: dict[str, Any] = {
            "marker": "D",
            "markerfacecolor": "white",
            "markeredgecolor": style.GREY,
        }
        label = "reported by the paper for other models"
        n, values = zip(*marks, strict=True)
        axes[0].plot(n, values, linestyle="none", markersize=6, label=label, zorder=5, **open_marks)
        style.legend_below(axes[0], columns=1)
    return axes


def nulls(data: xr.Dataset) -> list[str]:
    """Return the null baselines measured in at least one run, without the floor."""
    return [
        str(name)
        for name in data["null"].values
        if str(name) != "floor" and np.isfinite(data["recall_gain"].sel(null=name).values).any()
    ]


def figure_separable(axes: np.ndarray, data: xr.Dataset) -> np.ndarray:
    """Draw Precision and Recall minus each null baseline against N, on axes (null, score)."""
    limits = _range(data.sel(null=nulls(data)), [f"{statistic}_gain" for statistic in STATISTICS])
    for row, null in zip(np.atleast_2d(axes), nulls(data), strict=True):
        for axis, (statistic, word) in zip(row, STATISTICS.items(), strict=True):
            title = f"{word} − {NULLS.get(null, 'a null')}"
            selected = data.sel(null=null)
            _curves(axis, selected, f"{statistic}_gain", limits, title, "measured − null")
    return axes


def bounds(data: xr.Dataset) -> list[tuple[str, str]]:
    """Return the pairs of edition and Gram with bounds in at least one run."""
    return [
        (str(edition), str(gram))
        for edition in data["edition"].values
        for gram in data["gram"].values
        if np.isfinite(data["recall_inside"].sel(edition=edition, gram=gram).values).any()
    ]


def figure_coverage(axes: Sequence[Axes], data: xr.Dataset) -> Sequence[Axes]:
    """Draw the share of cells within bounds, one row per bound and run, on two axes."""
    runs = data.sizes["run"]
    rows = [(*pair, index) for pair in bounds(data) for index in range(runs)]
    pair, run = np.divmod(np.arange(len(rows)), runs)
    heights = -pair * (runs + 0.8) - run
    for axis, (statistic, word) in zip(axes, STATISTICS.items(), strict=True):
        for (edition, gram, index), height in zip(rows, heights, strict=True):
            selected = data.sel(quantity=f"{statistic}_inside_{edition}_{gram}").isel(run=index)
            value, low, high = (
                float(selected[name]) for name in ("estimate", "estimate_lower", "estimate_upper")
            )
            colour, _ = _look(index)
            if np.isfinite(low):
                ends = [max(low, 0), min(high, 1)]
                bar: dict[str, Any] = {"linewidth": 2.2, "alpha": 0.45, "solid_capstyle": "butt"}
                axis.plot(ends, [height, height], color=colour, **bar)
            axis.plot([value], [height], marker="o", markersize=4.5, color=colour)
        axis.set(xlim=(-0.02, 1.02), ylim=(heights.min() - 0.8, heights.max() + 0.8))
        axis.set(xlabel="share of (head, $N$) cells within", title=word)
        axis.set_yticks(heights, [])
        axis.tick_params(axis="y", length=0)
    names = letters(data)
    first = (f"{edition}, {gram}   " if index == 0 else "" for edition, gram, index in rows)
    axes[0].set_yticklabels([lead + names[row[2]] for lead, row in zip(first, rows, strict=True)])
    return axes


CAPTIONS: Final = {
    "sink": (
        "Correlation over heads of Recall with the sink’s similarity ρ₀ at each N. Bands: pointwise"
        " 95% document jackknife. Disattenuated: from products of different documents, so few"
        " documents do not bias it towards 0; compare runs with unequal numbers of documents here."
        " Open marks: values reported in the paper for other models, not measured by geostat."
    ),
    "separable": (
        "Measured minus null baseline, mean over heads. Bands: pointwise 95% intervals over"
        " documents. The paper recommends N in [1, 4], without a null baseline."
    ),
    "coverage": (
        "Share of cells of one head and one N in which the measured curve lies within its bounds,"
        " with its 95% document interval. Wide bounds hold trivially; the table gives the widths."
    ),
}
"""Caption of each figure, after the key of letters."""


def _plan(
    name: str,
    title: str,
    paper: str,
    grid: tuple[int, int],
    height: float,
    draw: Callable[[Any, Any], object],
) -> Plan:
    """Return a figure's plan; its caption starts with the key of letters."""

    def caption(data: xr.Dataset) -> Caption:
        return Caption(f"{key_of(data)}. {CAPTIONS[name]}")

    return Plan(f"comparison_{name}", title, paper, grid, height, draw, caption)


def plans(data: xr.Dataset) -> list[Plan]:
    """Return the figures with data in a comparison."""
    rows, pairs = len(nulls(data)), len(bounds(data))
    high, low = 0.6 + 2.5 * rows, 1.0 + 0.17 * (data.sizes["run"] + 0.8) * pairs
    sink, gain = "The sink’s similarity and Recall", "Separability above null baselines"
    found = [_plan("sink", sink, "Figure 6", (1, 2), 3.6, figure_sink)]
    if rows:
        found.append(_plan("separable", gain, "Figure 5", (rows, 2), high, figure_separable))
    if pairs:
        found.append(_plan("coverage", "Do the bounds hold?", "", (1, 2), low, figure_coverage))
    return found
