"""Functional sinks, found by norm and weight, compared with the token at position 0."""

from __future__ import annotations

from collections.abc import Callable

import xarray as xr

from reports.run import Run, each
from reports.tables.table import (
    Cell,
    Column,
    Table,
    estimate,
    missing,
    numbers,
    percentages,
    text,
    whole,
    wholes,
)

ROWS = {
    "position 0 visible": "position 0, visible: the paper’s sink",
    "acts at position 0": "strongest at position 0",
    "acts elsewhere": "strongest elsewhere",
    "none acts": "none",
}
"""Label of each case."""

MEANS = ("sinks", "weight", "norm_ratio", "cosine", "precision", "recall")


def tables(run: Run) -> list[Table]:
    """Return the tables of cases and of sink tokens; none without /sinks_found."""
    data = run.sinks_found
    if data is None:
        return []
    return [_cases(run, data), *([_tokens(run, data)] if "token_cases" in data else [])]


def definition(data: xr.Dataset) -> str:
    """Return the definition of a functional sink, as a sentence."""
    return (
        "A token is a functional sink of a head if its value norm is at most"
        f" {data.attrs['compressed']:g} times the document’s median content norm and its weight,"
        f" averaged over the analysed queries, is at least {data.attrs['much']:g}/T."
    )


def _cases(run: Run, data: xr.Dataset) -> Table:
    """Return the table with one row per case; a case without heads has no means."""
    headers = ("sinks", "weight", "norm", "cosine", "$P$", "$R$")
    columns = (
        Column("the head’s sink", lambda row: text(ROWS[row["case"].item()]), "l"),
        percentages("share", "share"),
        Column("heads", lambda row: whole(float(row["heads"]) if row["share"] else 0)),
        *(Column(*column) for column in zip(headers, map(_mean, MEANS), strict=True)),
    )
    caption = (
        f"{definition(data)} Share: of heads, mean over documents. Heads: those with such a sink in"
        f" at least half of {run.counted('document')}. The other columns are means over the heads"
        " of a case in a document, ± standard error over documents: number of functional sinks;"
        " weight, norm over the median content norm, and mean cosine with other tokens, of the"
        f" strongest sink or of position 0; Precision and Recall at N = {data.attrs['n']} over all"
        " selected tokens, including sinks. Heads with different sinks also differ in other ways."
    )
    rows = each(data.sel(case=list(ROWS)), "case")
    return Table.of("sinks", "Functional sinks", caption, columns, rows)


def _mean(name: str) -> Callable[[xr.Dataset], Cell]:
    """Return the function for the cell of a mean."""
    return lambda row: estimate(row, name) if row["share"] else missing()


def _tokens(run: Run, data: xr.Dataset) -> Table:
    """Return the table with one row per token."""
    columns = (
        Column("token", _quoted, "l"),
        wholes("id", "token_id"),
        wholes("cases", "token_cases"),
        wholes("heads", "token_heads"),
        wholes("documents", "token_documents"),
        Column("positions", _positions),
        numbers("weight", "token_weight", digits=2),
        numbers("norm", "token_norm_ratio", digits=2),
    )
    caption = (
        f"Tokens that are most often the strongest functional sink, over {run.counted('document')}"
        f" and {run.counted('head')}. {definition(data)} Cases: pairs of head and document. Weight"
        " and norm (over the median content norm) are means over these cases."
    )
    # A run in parts pads shorter lists with zero counts.
    rows = (row for row in each(data, "sink_token") if row["token_cases"] > 0)
    return Table.of("sink_tokens", "Tokens that are functional sinks", caption, columns, rows)


def _quoted(row: xr.Dataset) -> Cell:
    written = str(row["token_text"].item())
    return text(f"“{repr(written)[1:-1]}”") if written else missing()


def _positions(row: xr.Dataset) -> Cell:
    first, last = int(row["token_first"]), int(row["token_last"])
    return text(f"{first}" if first == last else f"{first} to {last}")
