"""Ablation of heads: prediction of the loss increase from geometry, and allocation of a token
budget over heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from reports.figures import style
from reports.figures.plan import Caption, Numbers, planned
from reports.figures.shapes import marks
from reports.run import Run, documents_of, each
from reports.tables.table import (
    Column,
    Table,
    estimates,
    interval,
    intervals,
    labels,
    mixed,
    number,
    numbers,
    text,
    whole_with_limits,
    wholes,
)
from reports.text.number import count
from reports.topics.effective import FLOOR

EXPECTED: Final = "losses under ablation of heads. Measure them with `geostat ablate`."
"""Content of the group, and the remedy if it is missing."""

FEATURES_OF_HEADS: Final = {
    "precision": ("Precision", "Precision $P$ at $N$"),
    "recall": ("Recall", "Recall $R$ at $N$"),
    "f_outer": (r"$F(r_{\max})$", r"$F(r_{\max})$ at $N$"),
    "f_inner": (r"$F(r_{\min})$", r"$F(r_{\min})$ at $N$"),
    "sharp_f_lower": ("sharp bound on $F$", r"sharp lower bound on $F(r_{\max})$"),
    "sharp_f_margin": ("$F$ minus that bound", r"$F(r_{\max})$ minus that bound"),
    "lam": (r"$\lambda$", r"$\lambda$"),
    "rho0": (r"$\rho_0$", r"$\rho_0$"),
    "retriever": ("is a Retriever", "is a Retriever head"),
    "mixer": ("is a Mixer", "is a Mixer head"),
    "reset": ("is a Reset", "is a Reset head"),
    "selected_mass": ("selected mass", "selected mass at $N$"),
    "entropy": ("entropy", "entropy of the weights"),
}
"""Features of a head: names in the figure and in the table."""


CONTROLS: Final = {
    "nothing": ("no controls", style.GREY, "none"),
    "weights": ("given mass and entropy", style.BLUE, style.BLUE),
}

ALLOCATIONS: Final = {
    "uniform": (style.GREY, "equal for all heads", "equal for all heads"),
    "mass": (style.BLUE, "equal mass", "equal selected mass"),
    "entropy": (style.SKY, "by entropy", "by entropy"),
    "geometry": (style.VERMILLION, "by $1-F$", r"by $1-F(r_{\max})$"),
    "geometry reversed": (style.ORANGE, "by $F$", r"by $F(r_{\max})$"),
    "greedy": (style.GREEN, "by measured losses", "by measured losses"),
}
"""Colour and names, in figure and table, of each allocation of a budget."""


MODE: Final = labels("mode", "mode")


def figure_ablation(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw rank correlations of features with the loss increase from ablating a head, and the loss
    increase by budget and allocation.
    """
    data = run.needed("heads_cut", EXPECTED)
    _correlations(axes[0], data)
    _budget_rises(axes[1], data)
    return axes


def _correlations(axes: Axes, data: xr.Dataset) -> None:
    axes.set_title("Over heads")
    if "rank_correlation" not in data:
        style.nothing(axes, "no single head was ablated")
        return
    primary = str(data.attrs["primary"])
    by_controls = data.sel(mode=data.attrs["shown"]["head_rise"], outcome=primary)
    rows = [str(name) for name in by_controls["feature"].values]
    heights = np.arange(len(rows))
    for index, (controls, (label, colour, face)) in enumerate(CONTROLS.items()):
        selected, at = by_controls.sel(controls=controls), heights + 0.32 * index - 0.16
        look: style.Kwargs = {"color": colour, "markerfacecolor": face, "label": label}
        marks(axes, selected, "rank_correlation", at, across=True, capsize=2.0, **look)
    axes.axvline(0, color=style.BLACK, linewidth=0.8)
    axes.set_yticks(heights, [FEATURES_OF_HEADS[name][0] for name in rows])
    axes.set(xlim=(-1.05, 1.05), xlabel="rank correlation with the loss increase")
    axes.invert_yaxis()
    style.legend_below(axes, columns=1)


def _budget_rises(axes: Axes, data: xr.Dataset) -> None:
    axes.set_title("Over budgets")
    if "budget_rise" not in data:
        style.nothing(axes, "no budget was measured")
        return
    by_allocation = data.sel(mode=data.attrs["shown"]["budget_rise"])
    budgets = by_allocation["budget"].values.astype(float)
    for index, (way, (colour, label, _)) in enumerate(ALLOCATIONS.items()):
        selected = by_allocation.sel(way=way)
        if selected["budget_rise"].isnull().all():
            continue
        at = budgets * 1.035 ** (index - 2.5)  # offset horizontally against overlap
        look: style.Kwargs = {"color": colour, "markersize": 4, "elinewidth": 1.0, "label": label}
        drawn = selected[["budget_rise", "budget_rise_lower", "budget_rise_upper"]].clip(FLOOR)
        marks(axes, drawn, "budget_rise", at, **look)
    axes.set(xscale="log", yscale="log", xlabel="mean tokens per head (log)")
    axes.set_ylabel("relative loss increase (log)")
    axes.set_xticks(budgets, [f"{budget:.0f}" for budget in budgets], minor=False)
    axes.set_xticks([], minor=True)
    style.legend_below(axes, columns=2)


@planned(
    figure_ablation, "Does geometry predict which heads the model needs?", 5.2, group="heads_cut"
)
def caption_ablation(run: Run) -> Caption:
    """Return the caption of rank correlations over heads, and of budgets."""
    data = run.needed("heads_cut", EXPECTED)
    documents = documents_of(data)
    left = right = ""
    if "r2_held_out_layers" in data:
        size = str(data.attrs["primary"]).rpartition("= ")[2]
        left = (
            f" Left: one head at a time keeps N = {size} tokens per query"
            f" ({data.attrs['shown']['head_rise']}); all other heads are unchanged. Rank"
            " correlation over heads of a feature with the relative loss increase, without controls"
            " and controlling for selected mass and entropy of the weights; bars: 95% intervals"
            f" over {documents} and layers. Look for: filled marks away from 0."
        )
    if "budget_rise" in data:
        source = "estimated on the other documents"
        if data.sizes["document"] == 1:
            source = "estimated on the same document"
        right = (
            " Right: all heads at once keep a budget of tokens, given as the mean per head"
            f" ({data.attrs['shown']['budget_rise']}), under six allocations {source}; bars: 95%"
            f" intervals over {documents}. Increases below 0.1% are drawn at 0.1%. Look for: lines"
            " of geometry below that of selected mass; the table of budgets gives paired"
            " differences."
        )
    return Caption((left + right).strip(), " ".join(data.attrs["answers"]), Numbers().all)


def tables(run: Run) -> list[Table]:
    """Return the tables with data in the run."""
    data = run.group("ablation")
    return [] if data is None else [make(run, data) for name, make in TABLES if name in data]


def _function(run: Run, data: xr.Dataset) -> Table:
    """Return the table of rank correlations: one row per mode and feature."""
    primary = str(data.attrs["primary"])
    columns = [
        MODE,
        Column("feature", lambda row: mixed(FEATURES_OF_HEADS[row["feature"].item()][1]), "l"),
    ]
    headers = ("no controls", "controlling for weights", "and the layer")
    columns += [
        estimates(header, "rank_correlation", controls=controls)
        for header, controls in zip(headers, data["controls"].values, strict=True)
    ]
    caption = (
        "Spearman correlation over heads of a feature with the relative loss increase if that head"
        f" alone keeps N = {primary.rpartition('= ')[2]} tokens per query: without controls;"
        " controlling for selected mass and entropy of the weights (a feature is not its own"
        f" control); and controlling for the layer as well. Over {run.counted('head')}, ± standard"
        f" error over {documents_of(data)} and over layers (jackknives). λ, ρ₀, the sharp bound and"
        " regimes are estimated on all documents together; the bound is interpolated linearly in"
        " log N."
    )
    rows = each(data.sel(outcome=primary), "mode", "feature", known="rank_correlation")
    title = "Features of a head and the loss increase from ablating it"
    return Table.of("head_function", title, caption, columns, rows)


def _prediction(run: Run, data: xr.Dataset) -> Table:
    """Return the table of R² on held-out layers: one row per mode and outcome."""
    columns = [MODE, labels("loss", "outcome"), wholes("heads", "r2_heads")]
    headers = ("weights", "geometry", "both", "geometry adds")
    columns += [
        estimates(header, "r2_held_out_layers", predictor=predictor)
        for header, predictor in zip(headers, data["predictor"].values, strict=True)
    ]
    columns.append(intervals("95%", "r2_held_out_layers", predictor="geometry adds"))
    caption = (
        "R² of the ranks of the loss increase from ablating a head, on held-out layers, each"
        " predicted from the other layers by least squares on ranks and their squares. Predictors:"
        " selected mass at each measured N and entropy (weights); P, R, F, the sharp bound on F, λ,"
        " ρ₀ and regime (geometry); both; and the gain in R² from geometry, with its 95% interval."
        " R² below 0: worse than the mean of the other layers. N*: the smallest measured N from"
        f" which the loss increase stays within {_share(data)}, before rounding up. Over heads with"
        f" all features, of {run.counted('head')}; ± standard error over {documents_of(data)} and"
        " over layers (jackknives)."
    )
    title = "Does geometry add to weights in predicting the loss increase?"
    rows = each(data, "mode", "outcome", known="r2_held_out_layers")
    return Table.of("head_prediction", title, caption, columns, rows)


def _needs(run: Run, data: xr.Dataset) -> Table:
    """Return the table of N* of single heads: one row per mode and group with complete searches."""
    columns = (
        MODE,
        Column("group", lambda row: text(row["group"].item().capitalize()), "l"),
        wholes("heads", "group_heads"),
        estimates("$N^*=1$", "head_share_of_one"),
        intervals("95%", "head_share_of_one"),
        Column("median $N^*$", lambda row: whole_with_limits(row.isel(quantile=0), "head_needed")),
        Column(
            "90th percentile", lambda row: whole_with_limits(row.isel(quantile=1), "head_needed")
        ),
    )
    caption = (
        "N* of a head: the smallest measured number of tokens per query from which the mean loss"
        f" increase stays within {_share(data)} if only that head is restricted. Columns: share of"
        " heads that need one token, ± standard error, with its 95% interval; median and 90th"
        f" percentile of N* over heads, with 95% intervals. Errors over {documents_of(data)}"
        " (jackknives; for N* on the scale of log N), with heads fixed. Regimes are classified by"
        " sizes."
    )
    rows = each(data, "mode", "group", known="head_share_of_one")
    title = "Tokens needed by single heads"
    return Table.of("head_needs", title, caption, columns, rows)


def _share(data: xr.Dataset) -> str:
    return f"{100 * float(data.attrs['tau']):.3g}%"


def _budgets(run: Run, data: xr.Dataset) -> Table:
    """Return the table of budgets: one row per mode, budget and allocation."""
    difference = "budget_less_mass"  # undefined for the allocation by equal mass itself
    data = data.assign(
        {name: data[name].where(data["way"] != "mass") for name in data if difference in str(name)}
    )
    columns = (
        MODE,
        wholes("budget", "budget"),
        Column("allocation", lambda row: mixed(ALLOCATIONS[row["way"].item()][2]), "l"),
        estimates("loss increase", "budget_rise"),
        estimates("minus equal mass", difference),
        intervals("95%", difference),
    )
    caption = (
        "All heads keep a budget of tokens per query, given as the mean over heads, under several"
        " allocations: relative increase of the mean loss, and its difference from the allocation"
        f" by equal selected mass, paired over {documents_of(data)}, ± standard error, with its 95%"
        " interval. The allocation for a document is estimated on the other documents. By measured"
        f" losses: losses of heads ablated one by one at N = {data.attrs['greedy_sizes']}."
    )
    rows = each(data, "mode", "budget", "way", known="budget_rise")
    title = "Loss increase by token budget and allocation"
    return Table.of("budgets", title, caption, columns, rows)


def _regimes(run: Run, data: xr.Dataset) -> Table:
    """Return the table of ablated regimes: one row per regime and ablation."""
    rows = [
        row
        for row in each(data, "regime", "cut", known="regime_rise")
        if row["drawn_rise"].notnull().any()
    ]
    counts = sorted({int(row["drawn_rise"].count()) for row in rows})
    columns = (
        Column("regime", lambda row: text(row["regime"].item().capitalize()), "l"),
        wholes("heads", "regime_heads"),
        labels("ablation", "cut"),
        estimates("loss increase", "regime_rise"),
        Column("random heads", lambda row: number(float(row["drawn_rise"].median()))),
        Column(
            "range",
            lambda row: interval(float(row["drawn_rise"].min()), float(row["drawn_rise"].max())),
        ),
        numbers("p", "drawn_p"),
    )
    caption = (
        "All heads of one regime (by sizes) keep N tokens per query, or are removed; all other"
        " heads are unchanged. Relative increase of the mean loss, ± standard error over"
        f" {documents_of(data)}. Null baseline: equally many heads drawn at random from all heads;"
        f" median and range of {' or '.join(map(str, counts))} draws, and the two-sided p of the"
        " regime (twice the share of draws on its side, the regime included)."
    )
    title = "Ablation of a regime, and of equally many random heads"
    return Table.of("regime_cuts", title, caption, columns, rows)


def _contexts(run: Run, data: xr.Dataset) -> Table:
    """Return the table of N* by context: one row per mode and context length."""
    columns = (
        MODE,
        wholes("$L$", "context"),
        Column("loss", lambda row: number(float(row["context_loss"].mean()))),
        wholes("$N^*$", "context_n_star"),
        intervals("95%", "context_n_star"),
        estimates(r"power $\gamma$", "context_power"),
    )
    caption = (
        "The context is the last L tokens of the window, with the same"
        f" {count(int(data.attrs['targets']), 'target')}. Loss: mean loss of the unablated model,"
        " in nats. N*: the number of tokens per query from which the loss increase stays within"
        f" {float(data.attrs['context_tau']):.0%}, with its 95% interval. γ: exponent of N* ∝ L^γ,"
        f" by least squares on logarithms. Over {documents_of(data)}, ± standard error (jackknife)."
        " A first token shared by all windows stays first in every context."
    )
    rows = each(data, "mode", "context", known="context_n_star")
    title = "Tokens needed, by context length"
    return Table.of("contexts", title, caption, columns, rows)


TABLES: Final = (
    ("rank_correlation", _function),
    ("r2_held_out_layers", _prediction),
    ("head_share_of_one", _needs),
    ("budget_rise", _budgets),
    ("regime_rise", _regimes),
    ("context_n_star", _contexts),
)
"""Variable that each table needs, and its function."""
