"""Figures of several runs side by side: the sink's correlations, separability above chance,
coverage. Runs are their letters, beside the ends of their curves.

Source: arXiv 2602.01893, §4.1 and Figures 5 and 6. Each function draws on given axes and returns
them; it neither shows nor saves. Names of models are foreign text and stay out of figures. Imports
matplotlib, never pyplot.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from reports.comparison.labels import label_ends
from reports.comparison.shared import STATISTICS, key_of, letters, reported_by_paper
from reports.figures import style
from reports.figures.captions.caption import Caption
from reports.figures.every import Plan
from reports.run import NULLS
from reports.statistics import flat

COLOURS: Final = (
    style.BLUE,
    style.VERMILLION,
    style.GREEN,
    style.PURPLE,
    style.ORANGE,
    style.BLACK,
)
DASHES: Final[tuple[Any, ...]] = ("-", (0, (5, 1.5)), (0, (3, 1.2, 1, 1.2)), (0, (1, 1)))
"""Beside its colour a run has its dashes; further runs take both up again, in another
combination.
"""


def _look(index: int) -> tuple[str, Any]:
    return COLOURS[index % len(COLOURS)], DASHES[(index + index // len(COLOURS)) % len(DASHES)]


def _curves(
    axes: Axes, data: xr.Dataset, name: str, limits: tuple[float, float], title: str, label: str
) -> None:
    """Draw a curve with its band for each run against N, its letter at its end."""
    ends = []
    for index, letter in enumerate(letters(data)):
        at = data.isel(run=index)
        n, level = at["n"].values.astype(float), at[name].values
        known = np.isfinite(level)
        if not known.any():
            continue
        colour, dashes = _look(index)
        axes.plot(n[known], level[known], color=colour, linestyle=dashes, linewidth=1.4)
        low, high = (at[f"{name}_{side}"].values for side in ("lower", "upper"))
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
    """Limits of an axis that shows these curves with their bands and zero, from −1.03 to 1.03 at
    most.
    """
    known = np.concatenate(
        [
            [0.0],
            *(flat(data[f"{name}{part}"]) for name in names for part in ("", "_lower", "_upper")),
        ]
    )
    room = 0.06 * max(float(np.ptp(known)), 0.1)
    return max(float(known.min()) - room, -1.03), min(
        max(float(known.max()) + room, least_top), 1.03
    )


def figure_sink(axes: Sequence[Axes], data: xr.Dataset) -> Sequence[Axes]:
    """Draw correlations of Recall with ρ₀ against N, as measured and free of noise, a band a
    run, on two axes; what the paper reports as open marks.
    """
    titles = {"correlation": "As measured", "unattenuated": "Free of the documents’ noise"}
    marks = [
        (float(mark["n"]), float(mark["value"]))
        for row in reported_by_paper(data)
        for mark in row.get("marks", [])
    ]
    limits = _range(data, list(titles), max((value + 0.06 for _, value in marks), default=0.0))
    for axis, (name, title) in zip(axes, titles.items(), strict=True):
        _curves(axis, data, name, limits, title, r"correlation of $R$ with $\rho_0$")
    if marks:
        axes[0].plot(
            *zip(*marks, strict=True),
            linestyle="none",
            marker="D",
            markerfacecolor="white",
            markeredgecolor=style.GREY,
            markersize=6,
            label="reported by the paper for other models",
            zorder=5,
        )
        style.legend_below(axes[0], columns=1)
    return axes


def nulls(data: xr.Dataset) -> list[str]:
    """Nulls that some run measured, the trivial floor aside."""
    return [
        str(name)
        for name in data["null"].values
        if str(name) != "floor" and np.isfinite(data["recall_gain"].sel(null=name).values).any()
    ]


def figure_separable(axes: np.ndarray, data: xr.Dataset) -> np.ndarray:
    """Draw Precision and Recall above each null against N, a band a run, on axes (null,
    statistic).
    """
    limits = _range(data.sel(null=nulls(data)), [f"{statistic}_gain" for statistic in STATISTICS])
    for row, null in zip(np.atleast_2d(axes), nulls(data), strict=True):
        for axis, (statistic, word) in zip(row, STATISTICS.items(), strict=True):
            _curves(
                axis,
                data.sel(null=null),
                f"{statistic}_gain",
                limits,
                f"{word} − {NULLS.get(null, 'a null')}",
                "measured − null",
            )
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
    """Draw the share of cells within bounds with its interval, a row for each bound and run,
    Precision and Recall on two axes.
    """
    rows = [
        (edition, gram, index)
        for edition, gram in bounds(data)
        for index in range(data.sizes["run"])
    ]
    step = data.sizes["run"] + 0.8
    heights = np.array(
        [-(row // data.sizes["run"]) * step - row % data.sizes["run"] for row in range(len(rows))],
        dtype=float,
    )
    for axis, (statistic, word) in zip(axes, STATISTICS.items(), strict=True):
        for (edition, gram, index), height in zip(rows, heights, strict=True):
            at = data.sel(quantity=f"{statistic}_inside_{edition}_{gram}").isel(run=index)
            value, low, high = (
                float(at[name]) for name in ("estimate", "estimate_lower", "estimate_upper")
            )
            colour, _ = _look(index)
            if np.isfinite(low):
                axis.plot(
                    [max(low, 0), min(high, 1)],
                    [height, height],
                    color=colour,
                    linewidth=2.2,
                    alpha=0.45,
                    solid_capstyle="butt",
                )
            axis.plot([value], [height], marker="o", markersize=4.5, color=colour)
        axis.set(
            xlim=(-0.02, 1.02),
            ylim=(heights.min() - 0.8, heights.max() + 0.8),
            xlabel="share of (head, $N$) cells within",
            title=word,
        )
        axis.set_yticks(heights, [])
        axis.tick_params(axis="y", length=0)
    names = letters(data)
    axes[0].set_yticklabels(
        [
            f"{edition}, {gram}   {names[index]}" if index == 0 else names[index]
            for edition, gram, index in rows
        ]
    )
    return axes


CAPTIONS: Final = {
    "sink": (
        "Correlation over heads of Recall with the sink’s similarity ρ₀ at each N. Bands: 95%"
        " document jackknife, of each N by itself. Free of noise: from products of different"
        " documents, so that few documents do not pull it towards 0; runs of unequal numbers of"
        " documents are compared here. Open marks: what the paper reports for other models; no"
        " measurement of geostat."
    ),
    "separable": (
        "Measured minus what the same measurement gives by chance, mean over heads. Bands: 95% over"
        " documents, of each N by itself. The paper calls N in [1, 4] best, without a null."
    ),
    "coverage": (
        "Share of cells of one head and one N in which the measured curve lies within its bounds,"
        " with its 95% document interval. Wide bounds hold cheaply: the widths are in the table."
    ),
}
"""What stands under each figure, behind the key of letters."""


def _caption(name: str, data: xr.Dataset) -> Caption:
    return Caption(f"{key_of(data)}. {CAPTIONS[name]}")


def plans(data: xr.Dataset) -> list[Plan]:
    """The figures that a comparison can have."""
    rows, pairs, runs = len(nulls(data)), len(bounds(data)), data.sizes["run"]
    high, low = 0.6 + 2.5 * rows, 1.0 + 0.17 * (runs + 0.8) * pairs
    sink, separable, coverage = (partial(_caption, name) for name in CAPTIONS)
    made = [
        Plan(
            "comparison_sink",
            "The sink’s similarity and Recall",
            "Figure 6",
            (1, 2),
            3.6,
            figure_sink,
            sink,
        ),
        Plan(
            "comparison_separable",
            "More separable than chance?",
            "Figure 5",
            (rows, 2),
            high,
            figure_separable,
            separable,
        ),
        Plan(
            "comparison_coverage", "Do the bounds hold?", "", (1, 2), low, figure_coverage, coverage
        ),
    ]
    return [plan for plan, there in zip(made, (True, rows, pairs), strict=True) if there]
