"""Counterpart of the paper's Figure 5, where its bounds hold, which heads do what, and a picture of
what is measured.

Source: arXiv 2602.01893, Definitions 1-2, Theorems 1-2, Figures 1 and 5. Each function draws on
given axes and returns them; it neither shows nor saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.patches import Circle

from reports.figures import style
from reports.run import Run

NULL_WORDS = {
    "random_selection": ("null: random selection", style.GREY, style.DASHED),
    "random_directions": ("null: random directions", style.PURPLE, (0, (1, 1))),
}
BOUND_COLOURS = {"printed": style.VERMILLION, "sharp": style.GREEN}
WORDS = {"precision": "Precision $P$", "recall": "Recall $R$"}


def bound_label(edition: str, gram: str) -> str:
    """How an envelope is called in legends and tables."""
    return f"{edition}, {gram} Gram"


def figure_separability(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw Precision and Recall against N with document bands, null baselines, the floor N/T and
    mean bounds, on two axes (Figure 5).
    """
    for axis, (statistic, title) in zip(axes, WORDS.items(), strict=True):
        _bounds(axis, run, statistic)
        _nulls(axis, run.summary, statistic)
        n, level = run.summary["n"].values, run.summary[f"{statistic}_mean"].values
        axis.plot(
            n,
            level,
            color=style.BLUE,
            linewidth=2.0,
            label="measured" if run.documents < 2 else "measured, 95% document band",
        )
        if run.documents > 1:
            low, high = _cut(run.summary, f"{statistic}_band")
            axis.fill_between(n, low, high, color=style.BLUE, alpha=0.25, linewidth=0)
        style.size_axis(axis, float(run.summary["n"].max()), "selected tokens $N$ (log)")
        axis.set(ylim=(-0.02, 1.03), ylabel="mean over heads and documents", title=title)
    style.legend_shared(axes)
    return axes


def _cut(data: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Both limits of a band, cut to [0, 1]: what lies beyond says nothing about a share."""
    low, high = (np.clip(data[f"{name}_{side}"].values, 0, 1) for side in ("lower", "upper"))
    return low, high


def _bounds(axes: Axes, run: Run, statistic: str) -> None:
    """Mean envelopes, with a mark at each N of the bounds where these are few. Between the last N
    below T and T itself, where both scores are 1 by definition, nothing was evaluated: no line. Nor
    at N = 1, where they are, too.
    """
    n = run.summary["n_envelope"].values
    every = len(n) > 2 and (np.diff(n) == 1).all()
    drawn = (n > 1) & (n < run.tokens if not every else n <= run.tokens)
    for edition, gram in run.drawn_bounds:
        low, high = _cut(run.summary.sel(edition=edition, gram=gram), statistic)
        line: dict[str, Any] = (
            {"linewidth": 1.0}
            if edition == "sharp"
            else {"linewidth": 1.2, "linestyle": (0, (4, 2))}
        )
        line["color"] = BOUND_COLOURS.get(edition, style.SKY)
        if not every:
            line |= {"marker": ".", "markersize": 3.5}
        if edition == "sharp":
            axes.fill_between(
                n[drawn], low[drawn], high[drawn], color=line["color"], alpha=0.16, linewidth=0
            )
        axes.plot(n[drawn], low[drawn], **line)
        axes.plot(n[drawn], high[drawn], **line, label=f"bounds: {bound_label(edition, gram)}")


def _nulls(axes: Axes, summary: xr.Dataset, statistic: str) -> None:
    for null in summary["null"].values if f"{statistic}_null" in summary else ():
        label, colour, dashes = NULL_WORDS.get(
            str(null), (f"null: {str(null).replace('_', ' ')}", style.GREY, ":")
        )
        axes.plot(
            summary["n"],
            summary[f"{statistic}_null"].sel(null=null),
            color=colour,
            linestyle=dashes,
            linewidth=1.3,
            label=label,
        )
    if statistic == "precision":
        label = "floor $N/T$: no choice can be worse"
        axes.plot(
            summary["n"],
            summary["floor"],
            color=style.BLACK,
            linestyle=":",
            linewidth=1.0,
            label=label,
        )


def figure_coverage(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw, for P and R on two axes, the share of heads inside their bounds by edition and Gram
    (rows) and N (columns).
    """
    pairs = run.bounds
    for axis, (statistic, title) in zip(axes, WORDS.items(), strict=True):
        share = run.envelope[f"{statistic}_inside_by_size"]
        rows = np.array([share.sel(edition=edition, gram=gram).values for edition, gram in pairs])
        known = np.isfinite(rows).any(axis=0)
        sizes = share["n_envelope"].values[known]
        image = _cells(axis, rows[:, known], 1.0)
        axis.invert_yaxis()
        axis.set_yticks(np.arange(len(pairs)) + 0.5, [bound_label(*pair) for pair in pairs])
        step = 2 if style.narrow(axis) else 1
        labels = [f"{size:,}" for size in sizes[::step]]
        axis.set_xticks(np.arange(0, len(sizes), step) + 0.5, labels, rotation=90)
        axis.set_title(f"{title}: heads inside")
    axes[0].figure.colorbar(
        image,
        ax=list(axes),
        format=lambda value, _: f"{100 * value:.0f}%",
        ticks=[0, 0.5, 1],
        pad=0.015,
        fraction=0.03,
    )
    axes[-1].set_xlabel("selected tokens $N$")
    return axes


def figure_heads(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw P and R at N = 4 and the misfit of the exponential similarity as maps of heads by
    layer, on three axes.
    """
    for axis, (statistic, title) in zip(axes, WORDS.items(), strict=False):
        values = run.display[f"{statistic}_of_head"].values.astype(np.float64)
        _map(axis, run, values, "head", f"{title} at $N={run.small_size}$", 1.0)
    misfit = run.similarity["mae_by_lag"]
    form = "exponential" if "exponential" in misfit["gram"].values else misfit["gram"].values[0]
    values = misfit.sel(gram=form).transpose("layer", "kv_head").values
    largest = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
    _map(
        axes[2],
        run,
        values,
        "kv_head",
        f"Misfit of the {form} similarity",
        largest,
    )
    axes[2].set_xlabel("layer")
    return axes


def _map(axes: Axes, run: Run, values: np.ndarray, dim: str, title: str, largest: float) -> None:
    image = _cells(axes, values.T, largest)
    for axis, labels, most in (
        (axes.xaxis, run.capture["layer"].values, 16),
        (axes.yaxis, run.capture[dim].values, style.labels_that_fit(axes)),
    ):
        step = max(1, -(-labels.size // most))
        axis.set_ticks(
            np.arange(0, labels.size, step) + 0.5, [str(label) for label in labels[::step]]
        )
    axes.set(ylabel="head" if dim == "head" else "value head", title=title)
    axes.figure.colorbar(image, ax=axes, pad=0.015, fraction=0.03)


def _cells(axes: Axes, values: np.ndarray, largest: float) -> QuadMesh:
    """Draw a matrix as vector cells with white joints, cell (i, j) over (j, i) to (j+1, i+1);
    what is not known stays grey.
    """
    axes.set_facecolor("#e4e4e4")
    mesh = axes.pcolormesh(
        np.ma.masked_invalid(values),
        cmap="cividis",
        vmin=0.0,
        vmax=largest,
        edgecolors="white",
        linewidth=0.4,
    )
    axes.tick_params(length=0)
    axes.grid(False)
    return mesh


def figure_idea(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw made-up contributions in a plane, their representative and the two balls, and beside
    it what they tell (in the manner of Figure 1).
    """
    picture, words = axes
    _contributions(picture, run.example)
    _balls_told(words, run.example)
    words.legend(
        *picture.get_legend_handles_labels(),
        loc="lower left",
        bbox_to_anchor=(0.0, 0.0),
        borderaxespad=0.0,
        fontsize=rcParams["font.size"],
    )
    return axes


def _contributions(picture: Axes, example: xr.Dataset) -> None:
    """Draw each token's contribution as a mark, the selected ones as arms from the origin, their
    sum, and both balls about it.
    """
    selected = example["selected"].values
    y, s, n = example["contribution"].values, example["representative"].values, int(selected.sum())
    outer, inner = float(example["outer_radius"]), float(example["inner_radius"])
    picture.add_patch(Circle(tuple(s), outer, facecolor=style.SKY, alpha=0.15, edgecolor="none"))
    picture.add_patch(Circle(tuple(s), outer, fill=False, edgecolor=style.BLUE, linewidth=1.3))
    picture.add_patch(
        Circle(
            tuple(s),
            inner,
            fill=False,
            edgecolor=style.VERMILLION,
            linewidth=1.3,
            linestyle=(0, (4, 2)),
        )
    )
    for point in y[selected]:
        picture.plot([0, point[0]], [0, point[1]], color=style.BLUE, linewidth=0.7, alpha=0.6)
    picture.plot([0], [0], "+", color=style.GREY, markersize=9, linestyle="none", label="origin")
    picture.plot(
        *y[~selected].T, "o", color=style.GREY, markersize=5, linestyle="none", label="other tokens"
    )
    picture.plot(
        *y[selected].T,
        "*",
        color=style.BLUE,
        markersize=11,
        linestyle="none",
        label=f"the N = {n} selected tokens",
    )
    picture.plot(
        *s,
        "X",
        color=style.BLACK,
        markersize=8,
        linestyle="none",
        label="representative s, their sum",
    )
    picture.set_aspect("equal")
    low, high = np.minimum(y.min(axis=0), s - outer), np.maximum(y.max(axis=0), s + outer)
    picture.set(xlim=(low[0] - 0.2, high[0] + 0.2), ylim=(low[1] - 0.2, high[1] + 0.2))
    picture.set_axis_off()


def _balls_told(words: Axes, example: xr.Dataset) -> None:
    """Write what each ball reaches, and the score that follows."""
    n = int(example["selected"].sum())
    reached, kept = int(example["inside_outer"]), int(example["inside_inner"])
    outer_words = (
        f"ends at the farthest selected token,\nreaches {reached} tokens, {n} of them"
        f" selected:\nPrecision = {n}/{reached}"
    )
    inner_words = (
        f"ends at the nearest other token,\nkeeps {kept} of the {n} selected:\nRecall = {kept}/{n}"
    )
    balls = (
        (0.97, style.BLUE, "Outer ball about s", outer_words),
        (0.62, style.VERMILLION, "Inner ball about s (dashed)", inner_words),
    )
    for height, colour, head, text in balls:
        words.text(
            0.02, height, head, color=colour, weight="bold", va="top", transform=words.transAxes
        )
        words.text(
            0.02,
            height - 0.065,
            text,
            color=colour,
            va="top",
            linespacing=1.35,
            transform=words.transAxes,
        )
    words.set_axis_off()
