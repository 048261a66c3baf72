"""Tables of several runs side by side: what they are, their numbers and differences, and what the
paper reports; what their heads do stands in `heads`.

Imports this room's cells and numbers. What is printed travels in the dataset of a comparison and
its attributes.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import xarray as xr
from markupsafe import Markup

from reports.comparison.shared import (
    REPORTED,
    STATISTICS,
    Row,
    beside,
    each_run,
    key_of,
    known,
    letters,
    reported_by_paper,
    wide,
)
from reports.comparison.tables_heads import head_tables
from reports.run import NULLS
from reports.tables.cells import (
    Cell,
    header,
    interval,
    missing,
    mixed,
    number,
    p_value,
    text,
    whole,
)
from reports.tables.table import Table
from reports.text.number import MISSING, count


def comparison_tables(data: xr.Dataset) -> dict[str, Table]:
    """Every table of a comparison, by name, in the page's order; those without rows are left
    out.
    """
    made = [
        _runs(data),
        _numbers(data),
        _differences(data),
        _best(data),
        *head_tables(data),
        _reported(data),
    ]
    return {table.name: table for table in made if table.rows}


def _runs(data: xr.Dataset) -> Table:
    rows = []
    for index, letter in enumerate(letters(data)):
        run = data.isel(run=index)
        layers, heads, value_heads = (
            int(run[name]) for name in ("layers", "heads_a_layer", "value_heads_a_layer")
        )
        rows.append(
            [
                text(letter),
                text(run["run"].item()),
                text(run["text"].item()),
                whole(float(run["documents"])),
                whole(float(run["tokens"])),
                whole(layers * heads),
                whole(layers * value_heads),
                text(run["convention"].item()),
            ]
        )
    headers = header("", "run", "text", "documents", "tokens", "heads", "value heads", "convention")
    caption = (
        "What each letter stands for. Tokens: of a document. Value heads: sets of value"
        " vectors, which heads may share."
    )
    return Table(
        "comparison_runs",
        "The runs",
        caption,
        headers,
        rows,
        "lpprrrrl",
    )


def _numbers(data: xr.Dataset) -> Table:
    rows: list[Row] = []
    for key in data["quantity"].values:
        at = data.sel(quantity=key)
        words = f"{at['long_name'].item()} ({at['over'].item()}; {at['equation'].item()})"
        rows.append(([mixed(words)], each_run(at, _estimate), [beside(data, str(key))]))
    needs = any("all heads at once" in str(over) for over in data["over"].values)
    caption = (
        "Mean over heads ± one standard error over documents (jackknife)"
        f"{'; of N* the one number of all heads at once' * needs}. N of a largest value in"
        " brackets, chosen by looking. Shares, correlations and ratios have no unit. The last"
        " column is the paper’s, of other models and texts, and no measurement of geostat; the"
        " table at the end says what kind of number each is."
    )
    return wide(
        data, "numbers", "Means over heads", caption, ["mean over heads of"], rows, [REPORTED]
    )


def _estimate(at: xr.Dataset) -> Cell:
    """An estimate with its error, and its N where it is a largest value."""
    value, n = float(at["estimate"]), float(at["at_n"])
    if not np.isfinite(value):
        return missing()
    cell = number(value, float(at["estimate_se"]))
    return _found_at(cell, n) if np.isfinite(n) else cell


def _found_at(cell: Cell, n: float) -> Cell:
    """A cell with the N at which its value was found, which may stand on a line of its own."""
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
    for index, pair in enumerate(data["pair"].values):
        for key in data["quantity"].values:
            at = data.isel(pair=index).sel(quantity=key)
            value, p = float(at["difference"]), float(at["p_holm"])
            if not np.isfinite(value):
                continue
            answer = MISSING if not np.isfinite(p) else "yes" if p <= level else "not told apart"
            minds = ", ".join(topics[topic] for topic in str(at["minds"].item()).split())
            rows.append(
                [
                    text(pair),
                    mixed(at["long_name"].item()),
                    number(value, float(at["difference_se"])),
                    interval(float(at["difference_lower"]), float(at["difference_upper"])),
                    p_value(p),
                    text(answer),
                    mixed(minds or "–"),
                ]
            )
    made = "; ".join(
        f"{pair}: {data['pairing'].values[index]}" for index, pair in enumerate(data["pair"].values)
    )
    caption = (
        f"{key_of(data)}. First minus second, ± one standard error; 95% interval, Student’s t, not"
        f" adjusted. Standard errors: {made}; a document that both runs hold is left out of both at"
        " once. p: two-sided, Holm over all differences of this table; a difference is told from"
        f" noise where p is at most {level:g}. Mind: settings that differ between the runs and bear"
        " on the quantity."
    )
    headers = header(
        "pair", "quantity", "difference", "95% interval", "p (Holm)", "beyond noise", "mind"
    )
    return Table(
        "comparison_differences",
        "Differences",
        caption,
        headers,
        rows,
        "lprrrlp",
        keys=2,
    )


def _best(data: xr.Dataset) -> Table:
    """Where curves over N are largest."""
    rows: list[Row] = []
    for statistic in STATISTICS:
        for null in (str(name) for name in data["null"].values if str(name) != "floor"):
            words = (
                f"{statistic.capitalize()} minus that of {NULLS.get(null, null.replace('_', ' '))}:"
                " largest gain"
            )
            curves = data[[f"{statistic}_gain", f"{statistic}_gain_se"]].sel(null=null)
            rows.append(
                ([mixed(words)], each_run(curves, _largest), [beside(data, "separability")])
            )
    caption = (
        "The N between 1 and T at which the mean over heads is farthest above its null, and by how"
        " much, ± one standard error over documents; chosen by looking. A null is what the same"
        " measurement gives by chance. The paper has no null: its N is that of the largest"
        " Precision and Recall."
    )
    return wide(
        data,
        "best",
        "Where selected tokens stand apart most",
        caption,
        ["curve"],
        known(rows),
        [REPORTED],
    )


def _largest(curves: xr.Dataset) -> Cell:
    """The largest value of the first of two curves, with its error, the second, and its N."""
    values, errors = (curve.values for curve in curves.data_vars.values())
    if not np.isfinite(values).any():
        return missing()
    index = int(np.nanargmax(values))
    return _found_at(
        number(float(values[index]), float(errors[index])), float(curves["n"].values[index])
    )


def _reported(data: xr.Dataset) -> Table:
    rows = [
        [
            mixed(row["quantity"]),
            *(
                mixed(f"{'reported: ' if key == 'says' else ''}{row[key]}")
                for key in ("says", "models", "source", "kind")
            ),
        ]
        for row in reported_by_paper(data)
    ]
    headers = header("quantity", REPORTED, "models", "where", "what kind of number it is")
    caption = (
        f"Figures of arXiv 2602.01893, of {count(len(rows), 'quantity', 'quantities')}. None"
        " was measured here."
    )
    return Table(
        "comparison_reported",
        "What the paper reports",
        caption,
        headers,
        rows,
        "ppppp",
    )
