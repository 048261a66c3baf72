"""Tables of a comparison: runs, numbers and differences, distributions over heads, and values
reported in the paper.

All text travels in the dataset of a comparison and its attributes. Values reported in the paper
have separate, labelled columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import xarray as xr
from markupsafe import Markup

from reports.run import NULLS, claims_of, each, listed, with_limits
from reports.tables.cells import (
    Cell,
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
from reports.tables.table import Table
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
        keys=len(lead),
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
    return Table("comparison_differences", "Differences", caption, headers, rows, "lprrrlp", keys=2)


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
        " documents (n/a for bounds); in brackets the heads in which it holds / fails / is"
        " undetermined."
    )
    return wide(data, "verdicts", "Claims", caption, ["claim"], rows)


def _answers(selected: xr.Dataset) -> Cell:
    tested = float(selected["claim_tested"])
    if not np.isfinite(tested) or not tested:
        return missing()
    counts = " / ".join(
        str(int(selected[f"claim_{name}"])) for name in ("holds", "fails", "undetermined")
    )
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
