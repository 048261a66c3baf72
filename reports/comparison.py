"""Comparison of runs: figures, tables, and a self-contained page that opens offline.

Figures: the sink's correlations, separability above null baselines, coverage. Letters to the right
of the curves name the runs, without overlap. Figures contain no model names, which are foreign
text. Tables: runs, numbers and differences, distributions over heads, and values reported in the
paper, which have separate, labelled columns. Source: arXiv 2602.01893, §4.1 and Figures 5 and 6.
Imports matplotlib, never pyplot, and scipy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr
from markupsafe import Markup
from matplotlib.axes import Axes
from scipy.optimize import isotonic_regression

from reports.figures import style
from reports.figures.plan import Caption, Plan, draw
from reports.files import replaced
from reports.page.header import entries
from reports.page.page import template, write_figures_and_tables
from reports.page.svg import shown
from reports.run import NULLS, claims_of, each, listed, with_limits
from reports.statistics import flat
from reports.tables.table import (
    Cell,
    Table,
    between,
    header,
    limits,
    missing,
    mixed,
    number,
    p_value,
    share,
    symbol,
    text,
    whole,
)
from reports.text.number import MISSING, count, percent, rounded

STATISTICS = {"precision": "Precision", "recall": "Recall"}
REPORTED = "reported in the paper"
"""Header of columns with values of the paper."""
Row = list[Cell]
"""Leading cells, one cell per run, and values of the paper if the table has that column."""


def letters(data: xr.Dataset) -> list[str]:
    """Return the letters of runs in headers and figures."""
    return listed(data.attrs, "letters")


def reported_by_paper(data: xr.Dataset) -> list[dict[str, Any]]:
    """Return the values reported in the paper, from the attributes of a comparison."""
    return list(json.loads(str(data.attrs["reported"])))


def across_runs(data: xr.Dataset, key: str) -> Cell:
    """Return the paper's values of a quantity with models and source, or a dash."""
    lines = [
        f"reported: {row['says']} ({row['models'].split(' (')[0].split(';')[0]}; {row['source']})"
        for row in reported_by_paper(data)
        if key in row["beside"]
    ]
    return mixed("; ".join(lines)) if lines else text("–")


def key_of(data: xr.Dataset) -> str:
    """Return the key of letters and run names (foreign text)."""
    return "; ".join(
        f"{letter}: {name}" for letter, name in zip(letters(data), data["run"].values, strict=True)
    )


def each_run(data: xr.Dataset, cell: Callable[[xr.Dataset], Cell]) -> list[Cell]:
    """Return one cell per run."""
    return [cell(data.isel(run=index)) for index in range(data.sizes["run"])]


def known(data: xr.Dataset, rows: list[Row]) -> list[Row]:
    """Return the rows, with one leading cell, that have a value in at least one run."""
    runs = slice(1, 1 + data.sizes["run"])
    return [row for row in rows if any(cell.plain != MISSING for cell in row[runs])]


def wide(
    data: xr.Dataset,
    name: str,
    title: str,
    caption: str,
    lead: Sequence[str],
    rows: Sequence[Row],
    *,
    reported: bool = False,
) -> Table:
    """Return a table with leading columns, one column per run, and one for values of the paper."""
    names = letters(data)
    last = header(REPORTED) if reported else []
    return Table(
        f"comparison_{name}",
        title,
        f"{key_of(data)}. {caption}",
        [*header(*lead), *map(text, names), *last],
        rows,
        "p" + "l" * (len(lead) - 1) + "r" * len(names) + "p" * len(last),
    )


def comparison_tables(data: xr.Dataset) -> dict[str, Table]:
    """Return the non-empty tables of a comparison by name, in the page's order."""
    tables = [_runs(data), _numbers(data), _differences(data), _best(data)]
    tables += [_spreads(data), _verdicts(data), _coverage(data), _regimes(data), *_forms(data)]
    return {table.name: table for table in [*tables, _reported(data)] if table.rows}


def _runs(data: xr.Dataset) -> Table:
    rows = []
    for index, letter in enumerate(letters(data)):
        run = data.isel(run=index)
        sizes = [
            float(run["documents"]),
            float(run["tokens"]),
            *(float(run["layers"] * run[name]) for name in ("heads_a_layer", "kv_heads_a_layer")),
        ]
        words = [text(letter), *(text(run[name].item()) for name in ("run", "text"))]
        rows.append([*words, *map(whole, sizes), text(run["convention"].item())])
    headers = header("", "run", "text", "documents", "tokens", "heads", "KV heads", "convention")
    caption = (
        "Runs by letter. Tokens: per document. KV heads: sets of value vectors that heads may"
        " share."
    )
    return Table("comparison_runs", "Runs", caption, headers, rows, "lpprrrrl")


def _numbers(data: xr.Dataset) -> Table:
    rows = []
    for key in data["quantity"].values:
        selected = data.sel(quantity=key)
        words, over, equation = (
            selected[name].item() for name in ("long_name", "over", "equation")
        )
        lead = mixed(f"{words} ({over}; {equation})")
        rows.append([lead, *each_run(selected, _estimate), across_runs(data, str(key))])
    needs = any("all heads at once" in str(over) for over in data["over"].values)
    caption = (
        "Mean over heads ± one standard error over documents"
        f" (jackknife){'; N* is one number for all heads at once' * needs}. In brackets: the N of a"
        " largest value, selected after inspection. Shares, correlations and ratios have no unit."
        " The last column gives values of the paper for other models and texts, not measured by"
        " geostat; the last table describes them."
    )
    header = ["mean over heads of"]
    return wide(data, "numbers", "Means over heads", caption, header, rows, reported=True)


def _estimate(selected: xr.Dataset) -> Cell:
    """Return an estimate with its error, and its N if it is a largest value."""
    value, n = float(selected["estimate"]), float(selected["at_n"])
    if not np.isfinite(value):
        return missing()
    cell = number(value, float(selected["estimate_se"]))
    return _with_n(cell, n) if np.isfinite(n) else cell


def _with_n(cell: Cell, n: float) -> Cell:
    """Return a cell with the N of its value, which may wrap to a second line."""
    words = f"(N = {int(n)})"
    html = Markup('<span class="whole">{}</span> <span class="whole">{}</span>').format(
        cell.html, words
    )
    return replace(
        cell,
        plain=f"{cell.plain} {words}",
        html=html,
        latex=f"{cell.latex} {words}",
        after=f" {words}",
    )


def _differences(data: xr.Dataset) -> Table:
    topics, level = json.loads(str(data.attrs["topics"])), float(data.attrs["significance"])
    rows = []
    for selected in each(data, "pair", "quantity"):
        value, p = float(selected["difference"]), float(selected["p_holm"])
        if not np.isfinite(value):
            continue
        answer = MISSING if not np.isfinite(p) else "yes" if p <= level else "no"
        settings = str(selected["differing_settings"].item()).split()
        rows.append(
            [
                text(selected["pair"].item()),
                mixed(selected["long_name"].item()),
                number(value, float(selected["difference_se"])),
                limits(selected, "difference"),
                p_value(p),
                text(answer),
                mixed(", ".join(topics[topic] for topic in settings) or "–"),
            ]
        )
    pairs = zip(data["pair"].values, data["pairing"].values, strict=True)
    pairings = "; ".join(f"{pair}: {pairing}" for pair, pairing in pairs)
    caption = (
        f"{key_of(data)}. First minus second, ± one standard error; 95% interval, Student’s t, not"
        f" adjusted. Standard errors: {pairings}; the jackknife deletes a document shared by both"
        " runs from both at once. p: two-sided, Holm over all differences of this table."
        f" Significant: p is at most {level:g}. Settings: those that differ between the runs and"
        " affect the quantity."
    )
    headers = header(
        "pair", "quantity", "difference", "95% interval", "p (Holm)", "significant", "settings"
    )
    return Table("comparison_differences", "Differences", caption, headers, rows, "lprrrlp")


def _best(data: xr.Dataset) -> Table:
    """Return the table of largest gains over null baselines, with their N."""
    rows = []
    nulls = [str(name) for name in data["null"].values if str(name) != "floor"]
    for (statistic, word), null in product(STATISTICS.items(), nulls):
        baseline = NULLS.get(null, null.replace("_", " "))
        lead = mixed(f"{word} minus that of {baseline}: largest gain")
        curves = data[[f"{statistic}_gain", f"{statistic}_gain_se"]].sel(null=null)
        rows.append([lead, *each_run(curves, _largest), across_runs(data, "separability")])
    caption = (
        "Largest difference between the mean over heads and its null baseline, ± one standard error"
        " over documents, with its N between 1 and T, selected after inspection. The paper has no"
        " null baseline: its N is that of the largest Precision and Recall."
    )
    title = "Largest gain over null baselines"
    return wide(data, "best", title, caption, ["curve"], known(data, rows), reported=True)


def _largest(curves: xr.Dataset) -> Cell:
    """Return the largest value of the first curve, with its error (the second curve) and its N."""
    values, errors = (curve.values for curve in curves.data_vars.values())
    if not np.isfinite(values).any():
        return missing()
    index = int(np.nanargmax(values))
    cell = number(float(values[index]), float(errors[index]))
    return _with_n(cell, float(curves["n"].values[index]))


def _reported(data: xr.Dataset) -> Table:
    rows = [
        header(
            row["quantity"],
            f"reported: {row['says']}",
            *(row[key] for key in ("models", "source", "kind")),
        )
        for row in reported_by_paper(data)
    ]
    headers = header("quantity", REPORTED, "models", "where", "kind of number")
    caption = (
        f"Values reported in arXiv 2602.01893 for {count(len(rows), 'quantity', 'quantities')}, not"
        " measured by geostat."
    )
    return Table("comparison_reported", "What the paper reports", caption, headers, rows, "ppppp")


def _spreads(data: xr.Dataset) -> Table:
    rows = []
    for selected in each(data, "parameter"):
        words, unit, latex = (
            str(selected[f"parameter_{name}"].item()) for name in ("long_name", "units", "symbol")
        )
        words += "" if unit in ("1", "") else f" ({unit})"
        rows.append([mixed(words), symbol(latex), *each_run(selected, _quartiles)])
    caption = (
        "Median over heads, with quartiles in brackets. The dataset has the number of heads with an"
        " estimate."
    )
    lead = ["parameter", "symbol"]
    return wide(data, "spreads", "Distributions over heads", caption, lead, rows)


def _quartiles(selected: xr.Dataset) -> Cell:
    low, middle, high = (float(value) for value in selected["spread"].values)
    return between(middle, low, high)


def _verdicts(data: xr.Dataset) -> Table:
    says = {claim["key"]: claim["says"] for claim in claims_of(data)}
    rows = [
        [mixed(says[str(selected["claim"].item())]), *each_run(selected, _answers)]
        for selected in each(data, "claim")
    ]
    caption = (
        "Estimated share of heads for which each claim is true, with its 95% interval over"
        " documents (n/a for bounds); in brackets the heads in which it holds / holds trivially (a"
        " flat form predicts as well) / fails / is undetermined."
    )
    return wide(data, "verdicts", "Claims", caption, ["claim"], rows)


def _answers(selected: xr.Dataset) -> Cell:
    tested = float(selected["claim_tested"])
    if not np.isfinite(tested) or not tested:
        return missing()
    answers = ("holds", "holds_trivially", "fails", "undetermined")
    numbers = (float(selected.get(f"claim_{name}", np.nan)) for name in answers)
    counts = " / ".join(MISSING if np.isnan(number) else f"{number:.0f}" for number in numbers)
    value, low, high = with_limits(selected, "true_share")
    limits = f", {percent(low, 0)} to {percent(high, 0)}" if np.isfinite(low) else ""
    shown = f"{percent(value, 0)}{limits}" if np.isfinite(value) else MISSING
    return share(value, f"{shown} ({counts})")


def _coverage(data: xr.Dataset) -> Table:
    rows = []
    for selected, (name, word) in product(each(data, "edition", "gram"), STATISTICS.items()):
        lead = mixed(f"{word}, {selected['edition'].item()}, {selected['gram'].item()} Gram")
        shares = selected[[f"{name}_{part}" for part in ("inside", "outside", "width")]]
        rows.append([lead, *each_run(shares, _inside)])
    caption = (
        "Share of (head, N) cells, 1 < N < T, in which the measured curve lies within its bounds;"
        " in brackets the share that lies outside by more than its 95% document interval, and the"
        " width of the bounds. Wide bounds hold trivially."
    )
    return wide(data, "coverage", "Bounds", caption, ["bounds"], known(data, rows))


def _inside(selected: xr.Dataset) -> Cell:
    """Return the share inside bounds, and in brackets the share clearly outside and the width."""
    inside, outside, width = (float(value) for value in selected.data_vars.values())
    return (
        share(inside, f"{percent(inside)} ({percent(outside)}; {rounded(width, digits=2).plain})")
        if np.isfinite(inside)
        else missing()
    )


def _regimes(data: xr.Dataset) -> Table:
    words = {"size": "by sizes", "alignment": "by alignment", "both": "both agree"}
    rows = []
    for criterion, regime in product(data["criterion"].values, data["regime"].values):
        heads = data["regime_heads"].sel(criterion=criterion)
        lead = text(f"{regime}, {words.get(str(criterion), str(criterion))}")
        rows.append([lead, *_counts(heads.sel(regime=regime), heads.sum("regime"))])
    caption = (
        "Heads of each regime and their share, by the paper’s two descriptions (section 4.2) and by"
        " agreement of both."
    )
    return wide(data, "regimes", "Regimes", caption, ["regime"], rows)


def _counts(values: xr.DataArray, totals: xr.DataArray) -> list[Cell]:
    """Return a count and its share for each run."""
    pairs = zip(values.values.astype(float), totals.values.astype(float), strict=True)
    return [
        share(float(value / total), f"{int(value)} ({percent(float(value / total), 0)})")
        if np.isfinite(value) and total
        else missing()
        for value, total in pairs
    ]


def _forms(data: xr.Dataset) -> list[Table]:
    tables = []
    kinds = (("form", "cosines by lag", "KV heads"), ("rival", "log weights", "heads"))
    for dim, what, heads in kinds:
        values = data[f"{dim}_heads"]
        rows = [
            [text(str(part[dim].item()).replace("_", " ")), *_counts(part, values.sum(dim))]
            for part in values.transpose(dim, ...)
            if float(part.sum()) > 0
        ]
        caption = (
            f"Number of {heads} that prefer each form of {what}: the simplest form within one"
            " standard error of the lowest held-out loss. Forms that no head prefers are omitted."
        )
        title = f"Preferred forms of {what}"
        tables.append(wide(data, f"{dim}s", title, caption, ["form"], rows))
    return tables


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


PAGE_NAME = "comparison.html"
FIRST = ("comparison_runs", "comparison_numbers", "comparison_differences", "comparison_reported")
"""Tables with a separate section."""


def write_comparison(data: xr.Dataset, out: Path) -> Path:
    """Write comparison.html, figures/*.pdf and *.png, and tables/*.tex and *.md, as `write_page`
    does, and return the page's path.

    Raises:
        InputError: if the folder cannot be written.
    """
    drawn, tables = {plan: draw(plan, data) for plan in plans(data)}, comparison_tables(data)
    write_figures_and_tables(drawn, tables, out)
    names = [str(name) for name in data["run"].values]
    page = template("comparison.html").render(
        names=names,
        facts=[(f"Run {letter}", name) for letter, name in zip(letters(data), names, strict=True)],
        notes=listed(data.attrs, "notes"),
        sentences=listed(data.attrs, "sentences"),
        figures=shown(drawn, data, "{plan.title}. {caption.text}"),
        first={name.removeprefix("comparison_"): tables.get(name) for name in FIRST},
        tables=[table for name, table in tables.items() if name not in FIRST],
        provenance=list(
            zip(
                letters(data),
                names,
                map(entries, json.loads(str(data.attrs["provenance"]))),
                strict=True,
            )
        ),
    )
    return replaced(out / PAGE_NAME, page)
