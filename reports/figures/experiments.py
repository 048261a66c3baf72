"""Counterparts of the paper's Figures 6, 7, 8 and 11: the sink's similarity and the regimes of heads.

Source: arXiv 2602.01893, §4.1, §4.2, A.4. Each function draws on given axes and returns them; it neither shows nor saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reports.errors import InputError
from reports.figures import style
from reports.run import Run

REGIMES = {
    "retriever": ("Retriever", style.BLUE, "-"),
    "mixer": ("Mixer", style.ORANGE, (0, (5, 1.5))),
    "reset": ("Reset", style.VERMILLION, (0, (3, 1.2, 1, 1.2))),
    "unclassified": ("unclassified", style.GREY, (0, (1, 1))),
}
"""Regimes as figures name and colour them, in the order of a legend."""
CRITERIA = {"size": "By sizes alone", "alignment": "By alignment alone", "both": "Both agree"}


def group_of(run: Run, name: str) -> xr.Dataset:
    """A group of experiments.

    Raises:
        InputError: if the run lacks it.
    """
    data: xr.Dataset | None = getattr(run, name)
    if data is None:
        raise InputError(
            f"the run holds no /{'heads' if name == 'regimes' else name}; expected the paper's experiments. Confront it again."
        )
    return data


def figure_sink(axes: Sequence[Axes], tree: xr.DataTree) -> Sequence[Axes]:
    """Draw the correlation of Recall with ρ₀ against N, plain and with the sink's weight and the layer known, on two axes (Figure 6)."""
    run = Run.of(tree)
    data = group_of(run, "sink")
    plain, partial = axes
    _correlation(plain, data, "pearson", "unattenuated", style.GREEN, "Pearson, free of document noise", band=True, dashes=(0, (5, 1.5)))
    _correlation(plain, data, "pearson", "correlation", style.BLUE, "measured: Pearson", band=False)
    _correlation(plain, data, "spearman", "correlation", style.ORANGE, "measured: Spearman", band=False, dashes=(0, (3, 1.2, 1, 1.2)))
    _bootstrap(plain, data)
    plain.set_title("Sink’s similarity and Recall")
    given = {
        "given_weight": ("given the sink’s weight", style.PURPLE),
        "given_weight_and_layer": ("given weight and layer", style.VERMILLION),
    }
    for measure, (label, colour) in given.items():
        _correlation(partial, data, measure, "unattenuated", colour, f"{label}, free of noise", band=True, dashes=(0, (5, 1.5)))
        _correlation(partial, data, measure, "correlation", colour, f"measured: {label}", band=False)
    partial.set_title("The same, other things equal")
    low, high = _limits(data)
    for axis in axes:
        axis.axhline(0, color=style.GREY, linewidth=0.8)
        axis.set_ylim(low, high)
        axis.set_ylabel(r"correlation of $R$ with $\rho_0$ over heads")
        style.size_axis(axis, float(data["n"].max()), "selected tokens $N$ (log)")
        style.legend_below(axis, columns=1)
    return axes


def _limits(data: xr.Dataset) -> tuple[float, float]:
    """Range of the axis: what is drawn, zero, and a little room."""
    parts = [data[name].values for name in ("correlation", "unattenuated")]
    known = np.concatenate([part[np.isfinite(part)] for part in parts] + [np.array([0.0, 0.3])])
    return max(-1.03, float(known.min()) - 0.2), min(1.03, float(known.max()) + 0.2)


def _correlation(axes: Axes, data: xr.Dataset, measure: str, name: str, colour: str, label: str, *, band: bool, dashes: Any = "-") -> None:
    at = data.sel(measure=measure)
    n, level = at["n"].values, at[name].values
    if not np.isfinite(level).any():
        return
    axes.plot(n, level, color=colour, linestyle=dashes, linewidth=1.5, label=label)
    low, high = at[f"{name}_lower"].values, at[f"{name}_upper"].values
    if band and np.isfinite(low).any():
        axes.fill_between(n, low, high, color=colour, alpha=0.18, linewidth=0)


def _bootstrap(axes: Axes, data: xr.Dataset) -> None:
    """Percentiles of resampled documents, of both coefficients in their colours."""
    for measure, colour, label in (("pearson", style.BLUE, "resampled documents, 95% (too low)"), ("spearman", style.ORANGE, None)):
        at = data.sel(measure=measure)
        n, low, high = (at[name].values for name in ("n", "correlation_boot_lower", "correlation_boot_upper"))
        if np.isfinite(low).any():
            axes.plot(n, low, color=colour, linestyle=":", linewidth=0.9, label=label)
            axes.plot(n, high, color=colour, linestyle=":", linewidth=0.9)


def figure_regimes(axes: Any, tree: xr.DataTree) -> Any:
    """Draw norms of s(N) with and without sink and last token, and cosines with v₀ and v_L, of one head a regime, on 2 × 3 axes (Figure 7)."""
    run = Run.of(tree)
    data = group_of(run, "regimes")
    lowest = _lowest(run, data)
    for column, name in enumerate(("retriever", "mixer", "reset")):
        at = data.sel(regime=name)
        layer, head = int(at["typical_layer"]), int(at["typical_head"])
        above, below = axes[0][column], axes[1][column]
        if layer < 0:
            above.set_title(f"{REGIMES[name][0]}: none")
            for axis in (above, below):
                _empty(axis, "no head of this regime")
            continue
        above.set_title(f"{REGIMES[name][0]}: {run.name_of(layer, head)}")
        _curve(above, run, "representative_norm", layer, head, style.PALE, "norm of all of $s(N)$", width=4.0)
        _curve(above, run, "representative_norm_without_sink", layer, head, style.VERMILLION, "without the sink", (0, (3, 1.2, 1, 1.2)))
        _curve(above, run, "representative_norm_without_last", layer, head, style.BLUE, "without the last token", (0, (5, 1.5)))
        above.set_ylim(bottom=0)
        _curve(below, run, "cosine_to_sink", layer, head, style.VERMILLION, "cosine with $v_0$")
        _curve(below, run, "cosine_to_last", layer, head, style.BLUE, "cosine with $v_L$", (0, (5, 1.5)))
        below.axhline(0, color=style.GREY, linewidth=0.8)
        below.set_ylim(lowest, 1.05)
        for axis in (above, below):
            style.size_axis(axis, float(data["n"].max()), "")
            axis.set_xticks([power for power in (1, 8, 64, 512, 4096) if power <= float(data["n"].max())])
            axis.set_xticks([], minor=True)
            axis.xaxis.set_major_formatter("{x:,.0f}")
        above.set_xticklabels([])
        below.set_xlabel("selected tokens $N$ (log)")
    axes[0][0].set_ylabel(r"norm of $s(N)$")
    axes[1][0].set_ylabel("cosine of $s(N)$")
    _legend_of_rows(axes)
    return axes


def _lowest(run: Run, data: xr.Dataset) -> float:
    """Where the axes of cosines begin: below the smallest one that is drawn."""
    heads = [(int(i), int(j)) for i, j in zip(data["typical_layer"].values, data["typical_head"].values, strict=True) if i >= 0]
    drawn = [curve_of(run, name, *head) for head in heads for name in ("cosine_to_sink", "cosine_to_last")]
    known = np.concatenate([[0.0], *drawn])
    return max(-1.05, float(np.nanmin(known)) - 0.12)


def curve_of(run: Run, name: str, layer: int, head: int) -> np.ndarray:
    """A head's curve over n, mean over documents."""
    chosen = run.capture[name].isel(layer=layer, head=head).transpose("document", "n")
    return np.asarray(chosen.astype(np.float64).mean("document").values)


def _curve(
    axes: Axes, run: Run, name: str, layer: int, head: int, colour: str, label: str, dashes: Any = "-", *, width: float = 1.4
) -> None:
    axes.plot(run.capture["n"].values, curve_of(run, name, layer, head), color=colour, linestyle=dashes, linewidth=width, label=label)


def _empty(axes: Axes, words: str) -> None:
    axes.set(xticks=[], yticks=[])
    axes.text(0.5, 0.5, words, ha="center", va="center", color=style.GREY, transform=axes.transAxes)


def _legend_of_rows(axes: Any) -> None:
    """One legend for all panels, below them: the entries of each row come in one line."""
    rows: list[Any] = [next((entries for axis in row if (entries := axis.get_legend_handles_labels())[0]), ([], [])) for row in axes]
    pairs = [list(zip(*row, strict=True)) for row in rows]
    columns = max(len(row) for row in pairs)
    if columns:
        ordered = [row[at] for at in range(columns) for row in pairs if at < len(row)]  # matplotlib fills columns first
        axes[0][0].figure.legend(*zip(*ordered, strict=True), loc="outside lower center", ncols=columns, columnspacing=1.4)


def figure_regime_depth(axes: Sequence[Axes], tree: xr.DataTree) -> Sequence[Axes]:
    """Draw how many heads of each layer are of which regime, by sizes, by alignment and by both, on three axes (Figure 8)."""
    run = Run.of(tree)
    data = group_of(run, "regimes")
    layers = data["layer"].values
    place = np.arange(layers.size)
    for axis, (criterion, title) in zip(axes, CRITERIA.items(), strict=True):
        floor = np.zeros(layers.size)
        for name, (label, colour, _) in REGIMES.items():
            heights = data["count"].sel(criterion=criterion, regime=name).values.astype(np.float64)
            shade = style.PALE if name == "unclassified" else colour
            axis.bar(place, heights, bottom=floor, color=shade, width=0.82, label=label)
            floor += heights
        step = max(1, -(-layers.size // 16))
        axis.set_xticks(place[::step], [str(layer) for layer in layers[::step]])
        axis.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
        axis.grid(False, axis="x")
        axis.set(xlim=(-0.7, layers.size - 0.3), ylim=(0, run.capture.sizes["head"]), ylabel="heads")
        axis.set_title(title)
    axes[-1].set_xlabel("layer")
    style.legend_below(axes[-1], columns=4)
    return axes


def figure_regime_curves(axes: Sequence[Axes], tree: xr.DataTree) -> Sequence[Axes]:
    """Draw Precision and Recall of each regime's heads against N with document bands, on two axes (Figure 11)."""
    run = Run.of(tree)
    data = group_of(run, "regimes").sel(criterion="both")
    for axis, (statistic, title) in zip(axes, (("precision", "Precision $P$"), ("recall", "Recall $R$")), strict=True):
        for name, (label, colour, dashes) in REGIMES.items():
            at = data.sel(regime=name)
            level = at[statistic].values
            if not np.isfinite(level).any():
                continue
            n, heads = at["n"].values, int(at["heads"])
            axis.plot(
                n, level, color=colour, linestyle=dashes, linewidth=1.6, label=f"{label} ({heads} {'head' if heads == 1 else 'heads'})"
            )
            low, high = (np.clip(at[f"{statistic}_{side}"].values, 0, 1) for side in ("lower", "upper"))
            if np.isfinite(low).any():
                axis.fill_between(n, low, high, color=colour, alpha=0.15, linewidth=0)
        style.size_axis(axis, float(data["n"].max()), "selected tokens $N$ (log)")
        axis.set(ylim=(-0.02, 1.03), ylabel="mean over heads and documents")
        axis.set_title(title)
        style.legend_below(axis, columns=2)
    return axes
