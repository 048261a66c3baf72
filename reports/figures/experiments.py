"""Counterparts of the paper's Figures 6, 7, 8 and 11: the sink's similarity, and the regimes of
heads.

Source: arXiv 2602.01893, §4.1, §4.2, A.4. Each function draws on given axes and returns them; it
neither shows nor saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reports.figures import style
from reports.run import Run
from reports.statistics import flat

REGIMES = {
    "retriever": ("Retriever", style.BLUE, "-"),
    "mixer": ("Mixer", style.ORANGE, style.DASHED),
    "reset": ("Reset", style.VERMILLION, style.DASH_DOTTED),
    "unclassified": ("unclassified", style.GREY, (0, (1, 1))),
}
"""Regimes as figures name and colour them, in the order of a legend."""
CRITERIA = {"size": "By sizes alone", "alignment": "By alignment alone", "both": "Both agree"}


def figure_sink(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw the correlation of Recall with ρ₀ against N, plain and with the sink's weight and the
    layer known, on two axes (Figure 6).
    """
    data = run.needed("sink")
    plain, partial = axes
    _correlation(
        plain,
        data,
        "pearson",
        "unattenuated",
        style.GREEN,
        "Pearson, free of document noise",
        style.DASHED,
    )
    _correlation(plain, data, "pearson", "correlation", style.BLUE, "measured: Pearson")
    _correlation(
        plain,
        data,
        "spearman",
        "correlation",
        style.ORANGE,
        "measured: Spearman",
        style.DASH_DOTTED,
    )
    _bootstrap(plain, data)
    plain.set_title("Sink’s similarity and Recall")
    for measure, label, colour in (
        ("given_weight", "given the sink’s weight", style.PURPLE),
        ("given_weight_and_layer", "given weight and layer", style.VERMILLION),
    ):
        _correlation(
            partial, data, measure, "unattenuated", colour, f"{label}, free of noise", style.DASHED
        )
        _correlation(partial, data, measure, "correlation", colour, f"measured: {label}")
    partial.set_title("The same, other things equal")
    drawn = np.concatenate(
        [[0.0, 0.3], *(flat(data[name]) for name in ("correlation", "unattenuated"))]
    )
    low, high = drawn.min() - 0.2, drawn.max() + 0.2
    for axis in axes:
        axis.axhline(0, color=style.GREY, linewidth=0.8)
        axis.set(
            ylim=(max(-1.03, low), min(1.03, high)),
            ylabel=r"correlation of $R$ with $\rho_0$ over heads",
        )
        style.size_axis(axis, float(data["n"].max()), "selected tokens $N$ (log)")
        style.legend_below(axis, columns=1)
    return axes


def _correlation(
    axes: Axes,
    data: xr.Dataset,
    measure: str,
    name: str,
    colour: str,
    label: str,
    dashes: Any = "-",
) -> None:
    """One coefficient against N; with its band where it is freed of noise."""
    at = data.sel(measure=measure)
    n, level, low, high = (
        at[part].values for part in ("n", name, f"{name}_lower", f"{name}_upper")
    )
    if not np.isfinite(level).any():
        return
    axes.plot(n, level, color=colour, linestyle=dashes, linewidth=1.5, label=label)
    if name == "unattenuated" and np.isfinite(low).any():
        axes.fill_between(n, low, high, color=colour, alpha=0.18, linewidth=0)


def _bootstrap(axes: Axes, data: xr.Dataset) -> None:
    """Percentiles of resampled documents, of both coefficients in their colours."""
    for measure, colour, label in (
        ("pearson", style.BLUE, "resampled documents, 95% (too low)"),
        ("spearman", style.ORANGE, None),
    ):
        at = data.sel(measure=measure)
        n, low, high = (
            at[name].values for name in ("n", "correlation_boot_lower", "correlation_boot_upper")
        )
        if np.isfinite(low).any():
            axes.plot(n, low, color=colour, linestyle=":", linewidth=0.9, label=label)
            axes.plot(n, high, color=colour, linestyle=":", linewidth=0.9)


NORMS = (
    ("representative_norm", style.PALE, "norm of all of $s(N)$", "-", 4.0),
    (
        "representative_norm_without_sink",
        style.VERMILLION,
        "without the sink",
        style.DASH_DOTTED,
        1.4,
    ),
    ("representative_norm_without_last", style.BLUE, "without the last token", style.DASHED, 1.4),
)
COSINES = (
    ("cosine_to_sink", style.VERMILLION, "cosine with $v_0$", "-", 1.4),
    ("cosine_to_last", style.BLUE, "cosine with $v_L$", style.DASHED, 1.4),
)
"""Curves of a head: variable, colour, label, dashes, width."""


def figure_regimes(axes: Any, run: Run) -> Any:
    """Draw norms of s(N) with and without sink and last token, and cosines with v₀ and v_L, of
    one head a regime, on 2 × 3 axes, with bands over documents (Figure 7).
    """
    data = run.needed("regimes")
    n = run.capture["n"].values
    lowest = 0.0
    for name, above, below in zip(("retriever", "mixer", "reset"), *axes, strict=True):
        at = data.sel(regime=name)
        layer, head = int(at["typical_layer"]), int(at["typical_head"])
        if layer < 0:
            above.set_title(f"{REGIMES[name][0]}: none")
            for axis in (above, below):
                style.nothing(axis, "no head of this regime")
            continue
        above.set_title(f"{REGIMES[name][0]}: {run.name_of(layer, head)}")
        for axis, curves in ((above, NORMS), (below, COSINES)):
            for variable, colour, label, dashes, width in curves:
                level, low, high = (
                    at[f"typical_{variable}{part}"].values for part in ("", "_lower", "_upper")
                )
                lowest = float(np.nanmin([lowest, *level, *low])) if axis is below else lowest
                axis.plot(n, level, color=colour, linestyle=dashes, linewidth=width, label=label)
                if colour != style.PALE and np.isfinite(low).any():  # that one covers others
                    axis.fill_between(n, low, high, color=colour, alpha=0.2, linewidth=0)
            style.size_axis(axis, float(data["n"].max()), "")
            axis.set_xticks(
                [power for power in (1, 8, 64, 512, 4096) if power <= float(data["n"].max())]
            )
            axis.set_xticks([], minor=True)
            axis.xaxis.set_major_formatter("{x:,.0f}")
        above.set_ylim(bottom=0)
        above.set_xticklabels([])
        below.axhline(0, color=style.GREY, linewidth=0.8)
        below.set_xlabel("selected tokens $N$ (log)")
    for axis in axes[1]:
        if axis.lines:
            axis.set_ylim(max(-1.05, lowest - 0.12), 1.05)
    axes[0][0].set_ylabel(r"norm of $s(N)$")
    axes[1][0].set_ylabel("cosine of $s(N)$")
    _legend_of_rows(axes)
    return axes


def _legend_of_rows(axes: Any) -> None:
    """One legend for all panels, below them: the entries of each row come in one line."""
    rows: list[Any] = [
        next(
            (entries for axis in row if (entries := axis.get_legend_handles_labels())[0]), ([], [])
        )
        for row in axes
    ]
    pairs = [list(zip(*row, strict=True)) for row in rows]
    columns = max(len(row) for row in pairs)
    if columns:
        ordered = [
            row[at] for at in range(columns) for row in pairs if at < len(row)
        ]  # matplotlib fills columns first
        axes[0][0].figure.legend(
            *zip(*ordered, strict=True),
            loc="outside lower center",
            ncols=2 if style.narrow(axes[0][0]) else columns,
            columnspacing=1.4,
        )


def figure_regime_depth(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw how many heads of each layer are of which regime, by sizes, by alignment and by both,
    on three axes (Figure 8).
    """
    data = run.needed("regimes")
    layers = data["layer"].values
    across = np.arange(layers.size)
    for axis, (criterion, title) in zip(axes, CRITERIA.items(), strict=True):
        floor = np.zeros(layers.size)
        for name, (label, colour, _) in REGIMES.items():
            heights = data["count"].sel(criterion=criterion, regime=name).values.astype(np.float64)
            shade = style.PALE if name == "unclassified" else colour
            axis.bar(across, heights, bottom=floor, color=shade, width=0.82, label=label)
            floor += heights
        step = max(1, -(-layers.size // 16))
        axis.set_xticks(across[::step], [str(layer) for layer in layers[::step]])
        axis.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
        axis.grid(False, axis="x")
        axis.set(
            xlim=(-0.7, layers.size - 0.3),
            ylim=(0, run.capture.sizes["head"]),
            ylabel="heads",
            title=title,
        )
    axes[-1].set_xlabel("layer")
    style.legend_below(axes[-1], columns=4)
    return axes


def figure_regime_curves(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw Precision and Recall of each regime's heads against N with document bands, on two
    axes (Figure 11).
    """
    data = run.needed("regimes").sel(criterion="both")
    for axis, (statistic, title) in zip(
        axes, (("precision", "Precision $P$"), ("recall", "Recall $R$")), strict=True
    ):
        for name, (label, colour, dashes) in REGIMES.items():
            at = data.sel(regime=name)
            level = at[statistic].values
            if not np.isfinite(level).any():
                continue
            n, heads = at["n"].values, int(at["heads"])
            axis.plot(
                n,
                level,
                color=colour,
                linestyle=dashes,
                linewidth=1.6,
                label=f"{label} ({heads} {'head' if heads == 1 else 'heads'})",
            )
            low, high = (
                np.clip(at[f"{statistic}_{side}"].values, 0, 1) for side in ("lower", "upper")
            )
            if np.isfinite(low).any():
                axis.fill_between(n, low, high, color=colour, alpha=0.15, linewidth=0)
        style.size_axis(axis, float(data["n"].max()), "selected tokens $N$ (log)")
        axis.set(ylim=(-0.02, 1.03), ylabel="mean over heads and documents", title=title)
    style.legend_shared(axes)
    return axes
