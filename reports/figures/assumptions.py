"""Counterparts of the paper's Figures 2, 3 and 4: the three assumptions laid over what was
measured.

Source: arXiv 2602.01893, §3.1-3.3. Each function draws on given axes and returns them; it neither
shows nor saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reports.figures import style
from reports.run import Run
from reports.statistics import FloatArray, flat, median

FORM_WORDS = {
    "exponential": ("exponential $e^{-\\beta k}$ (Assumption 2)", style.VERMILLION),
    "offset": ("with an offset, $c+(1-c)e^{-\\beta k}$", style.GREEN),
}
SINK: dict[str, Any] = {"marker": "o", "markersize": 5, "linestyle": "none"}
"""How the sink is marked."""
NULL: dict[str, Any] = {"color": style.PURPLE, "linestyle": ":", "linewidth": 1.3}
"""How the line of a null baseline is drawn."""


def figure_norms(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw ‖v_i‖/C over position, and the histograms of both coefficients of variation, on two
    axes (Figure 2).
    """
    _length(axes[0], run)
    _spread_of_length(axes[1], run)
    return axes


def _positions(run: Run) -> tuple[float, float]:
    """Limits of an axis over the positions that the last query sees."""
    return run.positions - 1.03 * run.tokens, run.positions + 0.01 * run.tokens


def _length(axes: Axes, run: Run) -> None:
    level, low, high = (run.display[name].values for name in ("norm", "norm_low", "norm_high"))
    sink = np.asarray(run.norms["sink_visible"].values, dtype=bool).any()
    first = 1 if sink else 0
    content = np.arange(first, run.positions)
    axes.fill_between(
        content,
        low[first:],
        high[first:],
        color=style.SKY,
        alpha=0.35,
        linewidth=0,
        label="middle 80% of value heads",
    )
    axes.plot(
        content, level[first:], color=style.BLUE, linewidth=0.7, label="mean over value heads"
    )
    axes.axhline(
        1.0,
        color=style.VERMILLION,
        linestyle=(0, (4, 2)),
        linewidth=1.1,
        label="Assumption 1: $\\Vert v_i\\Vert = C$",
    )
    if sink and np.isfinite(level[0]):
        error = np.array([[level[0] - low[0]], [high[0] - level[0]]]).clip(min=0)
        axes.errorbar(
            [0],
            level[:1],
            yerr=error,
            color=style.BLACK,
            capsize=2.5,
            linewidth=1.0,
            label="sink (position 0)",
            **SINK,
        )
    top = np.nanmax(high) if np.isfinite(high).any() else 1.0
    axes.set(xlim=_positions(run), ylim=(0, max(1.25, 1.08 * top)))
    axes.set(xlabel="position $i$", ylabel="$\\Vert v_i\\Vert\\,/\\,C$")
    axes.set_title("Length of the value vectors")
    style.legend_below(axes)


def _spread_of_length(axes: Axes, run: Run) -> None:
    token, averaged = (flat(run.norms[name]) for name in ("cv_token", "cv_profile"))
    least, most = run.display.attrs["paper_cv_range"]
    every = np.concatenate([token[token > 0], averaged[averaged > 0], [least, most]])
    edges = np.geomspace(every.min() / 1.1, every.max() * 1.1, 33)
    axes.axvspan(
        least,
        most,
        color=style.PALE,
        linewidth=0,
        label=f"most heads in the paper, {least:g}–{most:g}",
    )
    samples = [
        ("within a document, token by token", style.BLUE, token),
        ("of the profile averaged over documents", style.ORANGE, averaged),
    ]
    _histograms(axes, samples, edges)
    _log_ticks(axes, edges[0], edges[-1])
    axes.set(xlabel="coefficient of variation (log)", ylabel="value heads")
    axes.set_title("Spread of the length, by head")
    style.legend_below(axes, columns=1)


def figure_similarity(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw the misfit of both forms by head, and the mean cosine by lag of the median head with
    both fits, on two axes (Figure 3).
    """
    forms = {
        form: words for form, words in FORM_WORDS.items() if form in run.similarity["gram"].values
    }
    _misfit(axes[0], run, forms)
    _cosine_by_lag(axes[1], run, forms)
    style.legends_once(axes)
    return axes


def _misfit(axes: Axes, run: Run, forms: dict[str, tuple[str, str]]) -> None:
    paper = run.display.attrs["paper_mae"]
    misfits = [
        (*words, flat(run.similarity["mae_by_lag"].sel(gram=form))) for form, words in forms.items()
    ]
    most = max([values.max() for *_, values in misfits if values.size] + [1.2 * paper])
    _histograms(axes, misfits, np.linspace(0, 1.02 * most, 37))
    axes.axvline(
        paper,
        color=style.BLACK,
        linewidth=1.1,
        linestyle=(0, (4, 2)),
        label=f"the paper's average, {paper:g}",
    )
    floor = median(run.similarity["chance_by_lag"]) if "chance_by_lag" in run.similarity else np.nan
    if np.isfinite(floor):
        axes.axvline(floor, label=f"null: noise alone, {floor:.2g}", **NULL)
    axes.set(xlim=(0, 1.02 * most), xlabel="mean absolute error over lags", ylabel="value heads")
    axes.set_title("Misfit of the two forms, by head")


def _cosine_by_lag(axes: Axes, run: Run, forms: dict[str, tuple[str, str]]) -> None:
    lag, shown = run.capture["lag"].values.astype(np.float64), run.display
    axes.fill_between(
        lag,
        shown["cosine_low"],
        shown["cosine_high"],
        color=style.PALE,
        alpha=0.7,
        linewidth=0,
        label="middle 80% of value heads",
    )
    axes.axhline(0, color=style.GREY, linewidth=0.8)
    if (head := shown.attrs["similarity_head"]) is not None:
        layer, kv_head = (
            run.capture[dim].values[at] for dim, at in zip(("layer", "kv_head"), head, strict=True)
        )
        label = f"measured (layer {layer}, value head {kv_head})"
        axes.plot(lag, shown["cosine"], color=style.BLACK, linewidth=1.2, label=label)
        for form, (label, colour) in forms.items():
            dashes = (0, (4, 2)) if form == "exponential" else "-."
            axes.plot(
                lag,
                shown["cosine_fitted"].sel(form=form),
                color=colour,
                linestyle=dashes,
                label=label,
            )
    style.size_axis(
        axes, max(float(lag.max()) if lag.size else 2.0, 2.0), "lag $k=|i-j|$ in tokens (log)"
    )
    axes.set(ylabel="mean cosine of value vectors", title="Similarity by distance")


def figure_weights(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw mean attention weights over position, and Assumption 3's phases fitted to one head,
    on two axes (Figure 4).
    """
    for axis, draw in zip(axes, (_weight_profile, _phases), strict=True):
        axis.set_yscale("log")
        axis.set_ylabel("attention weight $\\alpha_i$ (log)")
        draw(axis, run)
    style.legends_once(axes, columns=2)
    return axes


def _weight_profile(axes: Axes, run: Run) -> None:
    position = np.arange(run.positions)
    sink = bool(np.asarray(run.weights["sink_visible"].values).any())
    first = 1 if sink else 0
    for kind, colour in (("arithmetic", style.ORANGE), ("geometric", style.BLUE)):
        values = run.display[f"weight_{kind}"].values
        axes.plot(
            position[first:], values[first:], color=colour, linewidth=0.9, label=f"{kind} mean"
        )
        if sink:
            axes.plot([0], values[:1], color=colour, clip_on=False, zorder=5, **SINK)
    axes.axhline(float(run.display["uniform"]), label="null: uniform weight $1/T$", **NULL)
    axes.set(
        xlim=_positions(run),
        xlabel="position $i$ (circles: sink, position 0)",
        title="All heads and documents",
    )


def _phases(axes: Axes, run: Run) -> None:
    axes.set_xlabel("position $i$")
    if (chosen := run.display.attrs["weights_head"]) is None:
        axes.set_title("No head could be fitted")
        return
    layer, head = chosen
    position = np.arange(run.positions)
    axes.plot(
        position,
        run.display["weight"],
        color=style.BLUE,
        linewidth=0.6,
        alpha=0.75,
        label="measured (geometric mean)",
    )
    axes.plot(
        position,
        run.display["weight_fitted"],
        color=style.BLACK,
        linewidth=1.3,
        label="Assumption 3, fitted",
    )
    p_sink = float(run.weights["p_sink"].transpose("layer", "head").values[chosen])
    if np.isfinite(p_sink) and p_sink > 0:
        axes.plot(
            [0],
            [p_sink],
            color=style.BLACK,
            clip_on=False,
            zorder=5,
            label="$p_\\mathrm{sink}$",
            **SINK,
        )
    axes.axhline(float(run.display["uniform"]), label="null: uniform weight $1/T$", **NULL)
    axes.set_xlim(_positions(run))
    _mark_phases(axes, run)
    axes.set_title(
        f"Head of median misfit: layer {run.capture['layer'].values[layer]}, head"
        f" {run.capture['head'].values[head]}"
    )


def _mark_phases(axes: Axes, run: Run) -> None:
    """Draw T₁ and T₂ as vertical lines, labelled at the top edge: side by side, or with one
    label where they would meet.
    """
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.12)
    (t1, t2), positions = run.display["phase_starts"].values.tolist(), run.positions
    if not (np.isfinite([t1, t2]).all() and 0 <= t1 <= t2 < positions):
        return
    marks = [(t1, "$T_1$"), (t2, "$T_2$")]
    for start, _ in marks:
        axes.axvline(start, color=style.GREY, linewidth=0.9, linestyle=(0, (2, 2)))
    if t2 - t1 < 0.12 * positions:
        marks = [(t1 if t2 > positions / 2 else t2, "$T_1=T_2$" if t1 == t2 else "$T_1,\\,T_2$")]
    for start, label in marks:
        side, shift = ("right", -3) if start > positions / 2 else ("left", 3)
        axes.annotate(
            label,
            (start, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(shift, -3),
            textcoords="offset points",
            ha=side,
            va="top",
            fontsize=rcParams["ytick.labelsize"],
        )


def _histograms(
    axes: Axes, samples: Sequence[tuple[str, str, FloatArray]], edges: FloatArray
) -> None:
    for label, colour, values in samples:
        counts, _ = np.histogram(values, bins=edges)
        axes.stairs(counts, edges, fill=True, color=colour, alpha=0.35)
        axes.stairs(counts, edges, color=colour, linewidth=1.2, label=label)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def _log_ticks(axes: Axes, low: float, high: float) -> None:
    """Make x logarithmic, labelled with 1-2-5 numbers, as many as fit."""
    axes.set_xscale("log")
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    steps = (1, 2, 5) if high / low < 300 else (1,)
    ticks = [step * 10.0**k for k in decades for step in steps if low <= step * 10.0**k <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(low, high)
