"""Effective attention set sizes: loss increase when queries of all layers, or of one, keep N
tokens, and the number of tokens they need.

Source: arXiv 2609.37879.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reports.figures import style
from reports.figures.plan import Caption, Numbers, planned
from reports.figures.shapes import marks
from reports.run import SCORES, SYMBOLS, Run, documents_of, each, with_limits
from reports.tables.table import (
    Cell,
    Column,
    Table,
    estimates,
    intervals,
    labels,
    missing,
    mixed,
    number,
    share,
    text,
    whole,
    whole_with_limits,
    wholes,
)
from reports.text.number import count, percent
from reports.topics.entry import Entry

EXPECTED: Final = "effective set sizes. Measure them with `geostat effective`."
EXPECTED_LAYERS: Final = (
    "effective set sizes of single layers. Measure them with `geostat effective --each layer`."
)
"""Content of a group, and the remedy if it is missing."""

FLOOR: Final = 1e-3
"""Smallest relative loss increase drawn; smaller ones are drawn at it."""

APART: Final = 1.09
"""Ratio of heights at which N* of successive rules are drawn, against overlap."""

HIGHEST: Final = 1.3
"""Largest ratio of that height to τ."""

COLOURS: Final = {
    "attention": (style.BLUE, "weight $\\alpha$"),
    "contribution": (style.ORANGE, "contribution $\\alpha\\|v\\|$"),
    "recent": (style.GREY, "most recent"),
    "sink-recent": (style.GREEN, "sink, then most recent"),
    "sink-orthogonal": (style.PURPLE, "orthogonal to the sink"),
    "random": (style.BLACK, "random"),
    "greedy": (style.SKY, "greedy (oracle)"),
}
"""Colour and label of each rule."""

MODES: Final = {
    "deletion": "Unselected weights deleted",
    "renormalisation": "Deleted, selected weights rescaled",
}


TAUS: Final = (style.VERMILLION, style.BLUE, style.GREEN, style.ORANGE, style.PURPLE)

SPACING: Final = 0.2
"""Horizontal distance between N* of successive τ, in layers."""


def shown_scope(data: xr.Dataset) -> str:
    """Return the scope that is drawn: all layers and heads, or the first scope measured."""
    scopes = [str(name) for name in data["scope"].values]
    return "all" if "all" in scopes else scopes[0]


def figure_effective(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw the relative loss increase against N by rule, and N* with its 95% interval, one axis per
    mode.
    """
    data = run.needed("effective", EXPECTED)
    for axis, (mode, title) in zip(axes, MODES.items(), strict=True):
        if "loss" in data and mode in data["mode"].values:
            by_rule = data.sel(scope=shown_scope(data), mode=mode)
            rules = by_rule["rule"].values
            for index, rule in enumerate(rules):
                height = min(APART, HIGHEST ** (1 / max(len(rules) - 1, 1))) ** index
                _curve(axis, by_rule.sel(rule=rule), *COLOURS[str(rule)], height)
        elif "loss" in data:
            axis.set_title(title)
            style.nothing(axis, "not measured")
            continue
        _shares(axis, data, run.display.attrs["paper_effective"], mode)
        style.size_axis(axis, float(data.attrs["tokens"]), "selected tokens $N$ (log)")
        axis.set(yscale="log", ylabel="relative loss increase (log)", title=title)
    drawn = [axis for axis in axes if axis.get_legend_handles_labels()[1]]
    top = max(axis.get_ylim()[1] for axis in drawn)
    for axis in drawn:
        axis.set_ylim(FLOOR / 1.4, top)
    style.legend_shared(drawn)
    return axes


def _curve(axes: Axes, curve: xr.Dataset, colour: str, label: str, height: float) -> None:
    known = np.isfinite(curve["loss_rise"].values)
    if not known.any():
        return
    n, rise = (curve[name].values[known] for name in ("n", "loss_rise"))
    axes.plot(n, np.maximum(rise, FLOOR), color=colour, label=label)
    heights = curve["tau"].values * height
    marks(axes, curve, "n_star", heights, across=True, color=colour, capsize=2.5)


def _shares(axes: Axes, data: xr.Dataset, paper: dict[str, Any], mode: str) -> None:
    """Draw each τ, and N* as reported by the authors."""
    taus = data["tau"].values.tolist()
    label = f"$\\tau$ = {', '.join(f'{tau:.3g}' for tau in taus)}"
    dashed: style.Kwargs = {"color": style.GREY, "linewidth": 0.8, "linestyle": style.DASHED}
    for tau in taus:
        axes.axhline(tau, label=label if tau == taus[0] else "_", zorder=0.9, **dashed)
    if shown_scope(data) != "all" or paper[mode] > data.attrs["tokens"]:
        return  # reported for all layers only, or beyond the axis; the caption gives it
    diamond: style.Kwargs = {"marker": "D", "markersize": 6, "markerfacecolor": "none"}
    diamond |= {"color": style.VERMILLION, "linestyle": "none"}
    label = f"{paper['model']} in {paper['source']}"
    axes.plot([paper[mode]], [paper["tau"]], label=label, **diamond)


@planned(figure_effective, "How many tokens does a query need?", 4.2, group="effective")
def caption_effective(run: Run) -> Caption:
    """Return the caption of the losses by N, and of N*."""
    data, paper = run.needed("effective", EXPECTED), run.display.attrs["paper_effective"]
    scope = shown_scope(data)
    where = "in all layers and heads at once" if scope == "all" else f"in {scope} alone"
    description = (
        f"Every query keeps N tokens, {where}. The weights of the unselected tokens are set"
        " to 0 (left); the selected weights are also rescaled to the original sum (right). Lines:"
        f" relative increase of the mean loss of {count(int(data.attrs['targets']), 'next token')}"
        f" per document, mean over {documents_of(data)}. Circles: N*, the"
        " smallest measured N from which the loss increase stays within τ (drawn slightly above τ"
        " for further rules); bars: 95% intervals over documents. Diamond (if all layers are"
        f" ablated and the axis reaches it): N* reported by the authors for {paper['model']} at"
        f" {paper['tau']:.0%}: {paper['deletion']} and {paper['renormalisation']} tokens. Increases"
        " below 0.1% are drawn at 0.1%. Look for: lines that fall at small N."
    )
    say = Numbers()
    return Caption(description, _finding(data, say), say.all)


def _finding(data: xr.Dataset, say: Numbers) -> str:
    """Return a sentence: tokens that suffice by weight, at the determined τ nearest to 5%."""
    if not ("n_star" in data and "all" in data["scope"] and "attention" in data["rule"]):
        return ""
    parts = []
    for mode, words in (
        ("deletion", "if the other tokens are deleted"),
        ("renormalisation", "if the selected weights are rescaled"),
    ):
        if mode not in data["mode"].values:
            continue
        stars = data["n_star"].sel(scope="all", rule="attention", mode=mode)
        known = np.flatnonzero(np.isfinite(stars.values))
        if not known.size:
            continue
        index = known[np.argmin(np.abs(data["tau"].values[known] - 0.05))]
        star, tau = float(stars[index]), float(data["tau"].values[index])
        tokens = say.counted(f"N* at {tau:g}, {mode}", int(star), "token")
        increase = say.percent(f"tau, {mode}", tau, 0)
        parts.append(
            f"{tokens} per query keep{'s' * (star == 1)} the loss increase within {increase}"
            f" {words}"
        )
    return f"Selected by weight, {', and '.join(parts)}." if parts else ""


def figure_effective_layers(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw N* of single layers, with all other layers unchanged, one axis per mode."""
    data = run.needed("effective_layers", EXPECTED_LAYERS)
    first, last = (int(data["layer"][end]) for end in (0, -1))
    data = data.reindex(layer=range(first, last + 1))  # no line across unmeasured layers
    for axis, mode in zip(axes, MODES, strict=True):
        axis.set_title(mode.capitalize())
        axis.set(xlabel="layer", ylabel="tokens needed $N^*$ (log)")
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter("{x:.0f}")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        known = mode in data["mode"].values and data["n_star"].sel(mode=mode).notnull()
        if not np.any(known):
            axis.set_yscale("linear")
            style.nothing(axis, "not measured")
            continue
        taus = data["tau"].values
        for index, (tau, colour) in enumerate(zip(taus, cycle(TAUS), strict=False)):
            at = data["layer"].values + SPACING * (index - (len(taus) - 1) / 2)
            look: style.Kwargs = {"color": colour, "markersize": 4, "elinewidth": 0.8}
            look["label"] = rf"$\tau$ = {100 * tau:.3g}%"
            marks(axis, data.sel(mode=mode, tau=tau), "n_star", at, **look)
    style.legends_once(axes, columns=3)
    return axes


@planned(figure_effective_layers, "Which layers need many tokens?", 3.6, group="effective_layers")
def caption_effective_layers(run: Run) -> Caption:
    """Return the caption of N* of single layers, with the layer of the largest N* at the smallest
    τ.
    """
    data, say = run.needed("effective_layers", EXPECTED_LAYERS), Numbers()
    description = (
        "Queries of one layer keep the N tokens of largest weight; all other layers are unchanged."
        " Marks: N*, the smallest measured N from which the loss increase stays within τ; bars: 95%"
        f" intervals over {documents_of(data)}. Look for: layers that need many tokens."
    )
    star = data["n_star"].isel(tau=0, mode=0)
    if not np.isfinite(star.values).any():
        return Caption(description)
    most = int(np.nanargmax(star.values))
    tokens = say.counted("largest N* of a layer", int(star[most]), "token")
    tau = say.percent("tau", float(data["tau"][0]), 1)
    _, low, high = with_limits(data.isel(layer=most, mode=0, tau=0), "n_star")
    interval = ""
    if np.isfinite([low, high]).all():
        interval = f" ({say.whole('its limit', low)} to {say.whole('its limit', high)})"
    finding = (
        f"Under {data['mode'].values[0]} at τ = {tau}, layer {int(data['layer'][most])} has the"
        f" largest N*: {tokens}{interval}."
    )
    return Caption(description, finding, say.all)


def tables(run: Run) -> list[Table]:
    """Return the tables with data in the run."""
    data = run.group("effective")
    return [] if data is None else [make(run, data) for name, make in TABLES if name in data]


def _stars(run: Run, data: xr.Dataset) -> Table:
    """Return the table of N*: one row per scope, rule and mode with a determined N*."""
    paper, taus = run.display.attrs["paper_effective"], data["tau"].values
    columns = [labels(name, name) for name in ("scope", "rule", "mode")]
    columns += [Column(f"$N^*$, $\\tau = {tau:.3g}$", partial(_star, tau=tau)) for tau in taus]
    columns.append(Column("steps up", _steps_up))
    last = f"the last {count(int(data.attrs['targets']), 'token')}"
    targets = "all tokens but the first" if data.attrs["target"] == "all" else last
    caption = (
        "Effective attention set size N*: the smallest measured N from which the relative increase"
        f" of the mean loss of {targets} of a window of {int(data.attrs['tokens'])} stays"
        " within τ. Measured N: powers of two, then bisection down to the integer. In brackets 95%"
        f" intervals: jackknife over {documents_of(data)} of the N at which the mean increase"
        " crosses τ, on the scale of log N. Steps up: pairs of successive measured N between which"
        " the loss rises with N, and the largest such rise."
    )
    same_tau = np.isclose(taus, paper["tau"])
    if same_tau.any():
        caption += f" Last rows: values reported in the authors’ later paper ({paper['source']})."
    rows = each(data, "scope", "rule", "mode", known="n_star")
    title = "Effective attention set sizes"
    table = Table.of("effective", title, caption, columns, rows)
    reported = [
        [
            *map(text, (paper["model"], "attention", mode)),
            *(whole(paper[mode]) if same else missing() for same in same_tau),
            missing(),
        ]
        for mode in (MODES if same_tau.any() else ())
    ]
    return replace(table, rows=[*table.rows, *reported])


def _star(row: xr.Dataset, tau: float) -> Cell:
    return whole_with_limits(row.sel(tau=tau), "n_star")


def _steps_up(cell: xr.Dataset) -> Cell:
    steps, largest = int(cell["steps_up"]), float(cell["largest_step_up"])
    return whole(0) if not steps else share(float(steps), f"{steps} ({percent(largest, 2)})")


def _sets(run: Run, data: xr.Dataset) -> Table:
    """Return the table of sparse sets: one row per scope, rule and mode."""
    columns = (
        labels("scope", "scope"),
        labels("set", "set_rule"),
        labels("mode", "mode"),
        Column("selected tokens", lambda row: number(float(row["set_size"].mean()))),
        estimates("loss increase", "set_loss_rise"),
        intervals("95%", "set_loss_rise"),
    )
    caption = (
        "Every query keeps the tokens with non-zero weight under sparsemax or 1.5-entmax of the"
        " same logits, with their softmax weights. Selected tokens: mean over queries, heads,"
        f" layers and {documents_of(data)}. Loss increase: relative, ± standard error over"
        " documents, with its 95% interval."
    )
    title = "Sets selected by sparse alternatives to softmax"
    rows = each(data, "scope", "set_rule", "mode", known="set_loss_rise")
    return Table.of("effective_sets", title, caption, columns, rows)


def _over_sizes(run: Run, data: xr.Dataset) -> Table:
    """Return the table of rank correlations over N: one row per mode, score and range of N."""
    paper = run.display.attrs["paper_effective"]
    columns = (
        labels("mode", "mode"),
        Column("separability", lambda row: mixed((SYMBOLS | SCORES)[row["statistic"].item()]), "l"),
        labels("N", "range"),
        wholes("sizes", "sizes"),
        estimates("rank correlation", "rank_correlation"),
    )
    caption = (
        "Does separability fall with N as the loss does, if every query keeps the N tokens of"
        " largest weight? Spearman correlation over N (powers of two) of the two curves, each a"
        f" mean over {documents_of(data)}, separability also over {run.counted('head')}; ± standard"
        " error over documents (jackknife; 0 if no replicate changes the order). Two curves that"
        " both fall with N have a correlation of 1 for that reason alone: the value describes the"
        " shape of the curves, not prediction. The authors’ later paper reports"
        f" {paper['rank_correlation']:.2f} ({paper['rank_correlation_said']})."
    )
    rows = each(data, "mode", "statistic", "range", known="rank_correlation")
    title = "Separability and loss over N"
    return Table.of("effective_curves", title, caption, columns, rows)


TABLES: Final = (
    ("n_star", _stars),
    ("set_loss", _sets),
    ("rank_correlation", _over_sizes),
)
"""Variable that each table needs, and its function."""


ENTRIES: Final = (
    Entry(
        key="effective",
        short="Tokens needed",
        question="How many tokens does a query need?",
        figures=("effective", "effective_layers", "ablation"),
        tables=(
            *("effective", "effective_curves", "effective_sets"),
            *("head_prediction", "head_function", "head_needs"),
            *("budgets", "regime_cuts", "contexts"),
        ),
    ),
)
