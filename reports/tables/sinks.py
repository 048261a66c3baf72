"""Tables of sinks by what they do, beside the token at position 0. Imports this room's cells and
run.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from reports.run import Run
from reports.tables.cells import Cell, header, missing, number, percentage, text, whole
from reports.tables.table import Table

ROWS = {
    "position 0 visible": "position 0, seen: the paper’s sink",
    "acts at position 0": "strongest at position 0",
    "acts elsewhere": "strongest elsewhere",
    "none acts": "none",
}
"""What each case is called."""
MEANS = ("sinks", "weight", "norm_ratio", "cosine", "precision", "recall")


def sink_tables(run: Run) -> list[Table]:
    """Cases and the tokens that act as sinks; none of a run that did not look for them, no tokens
    of one that does not tell which they are.
    """
    data = run.sinks_found
    if data is None:
        return []
    return [_cases(run, data), *([_tokens(run, data)] if "token_cases" in data else [])]


def definition(data: xr.Dataset) -> str:
    """What makes a sink by function, in words."""
    return (
        "A token acts as a sink of a head where its value norm is at most"
        f" {data.attrs['compressed']:g} times the document’s median content norm and its weight,"
        f" averaged over the analysed queries, is at least {data.attrs['much']:g}/T."
    )


def _cases(run: Run, data: xr.Dataset) -> Table:
    rows: list[list[Cell]] = []
    for case, words in ROWS.items():
        at = data.sel(case=case)
        of_heads = percentage(float(at["share"]))
        if not float(at["share"]):
            rows.append([text(words), of_heads, whole(0), *(missing() for _ in MEANS)])
            continue
        of_token = [number(float(at[name]), float(at[f"{name}_se"])) for name in MEANS]
        rows.append([text(words), of_heads, whole(float(at["heads"])), *of_token])
    caption = (
        f"{definition(data)} Share: of heads, mean over documents. Heads: with such a sink in at"
        f" least half of {run.counted('document')}. Then means over these heads of a document, ±"
        " standard error over documents: tokens that act as sinks; of the strongest, or of"
        " position 0, the weight, the norm over the median content norm, and the mean cosine with"
        f" other tokens; Precision and Recall at N = {data.attrs['n']}, in which every selected"
        " token counts alike, sink or not. Heads that differ in their sink differ in more than"
        " their sink."
    )
    headers = header(
        "the head’s sink",
        "share",
        "heads",
        "sinks",
        "weight",
        "norm",
        "cosine",
        "$P$",
        "$R$",
    )
    return Table(
        "sinks",
        "Sinks by what they do",
        caption,
        headers,
        rows,
        "lrrrrrrrr",
    )


def _tokens(run: Run, data: xr.Dataset) -> Table:
    rows = []
    # Of a run in parts, shorter lists are filled up.
    for index in np.flatnonzero(data["token_cases"].values > 0):
        at = {name: data[f"token_{name}"].values[index] for name in COLUMNS}
        stands_for = repr(str(at["text"]))[1:-1] if str(at["text"]) else ""
        first, last = int(at["first"]), int(at["last"])
        rows.append(
            [
                text(f"“{stands_for}”") if stands_for else missing(),
                *(whole(float(at[name])) for name in ("id", "cases", "heads", "documents")),
                text(f"{first}" if first == last else f"{first} to {last}"),
                number(float(at["weight"]), digits=2),
                number(float(at["norm_ratio"]), digits=2),
            ]
        )
    caption = (
        f"Tokens that are the strongest sink of most heads, over {run.counted('document')} and"
        f" {run.counted('head')}. {definition(data)} Cases: heads times documents. Weight and norm"
        " (over the median content norm): means over these cases."
    )
    headers = header("token", "id", "cases", "heads", "documents", "positions", "weight", "norm")
    return Table("sink_tokens", "Tokens that act as sinks", caption, headers, rows, "lrrrrrrr")


COLUMNS = ("text", "id", "cases", "heads", "documents", "first", "last", "weight", "norm_ratio")
"""Of what is called token_… in /sinks_found."""
