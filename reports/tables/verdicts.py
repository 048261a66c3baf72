"""Tables of verdicts: each claim over all heads, and by layer; head by head they stand in
`verdict_heads`.

Imports this room's cells, numbers and run. What is printed travels in /verdicts and its
attributes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from markupsafe import Markup

from reports.run import Run, column, words_of
from reports.tables.cells import Cell, header, missing, mixed, share, text, whole
from reports.tables.table import Table
from reports.tables.verdict_heads import DETAILS, every_verdict
from reports.tables.verdicts_on_paper import narrow_verdicts, numbered, tolerance
from reports.text.number import MISSING, count, percent

HEADS = {"kv_head": "value head", "head": "head"}


def verdict_tables(run: Run) -> list[Table]:
    """All verdicts over the model, by layer, and by head; none where the run holds no verdicts."""
    if run.verdicts is None:
        return []
    claims = list(json.loads(str(run.verdicts.attrs["claims"])))
    return [
        _overall(run, run.verdicts, claims),
        _by_layer(run.verdicts, claims),
        every_verdict(run, run.verdicts, claims),
    ]


def _linked(cell: Cell, claim: str) -> Cell:
    """A cell that leads to the verdicts of one claim, head by head."""
    link = Markup('<a href="#table-{}" data-show="{}">{}</a>')
    return replace(cell, html=link.format(DETAILS, text(claim).plain, cell.html))


def _overall(run: Run, data: xr.Dataset, claims: list[dict[str, Any]]) -> Table:
    """One row a claim: how many heads it holds and fails of, and of what share of heads it is
    true.
    """
    rows, codes = [], {word: code for code, word in words_of(data).items()}
    for claim in claims:
        at = data.sel(claim=claim["key"])
        without = int((column(data, claim) == codes["no estimate"]).sum())
        more = f"; {without:,} more without an estimate" if without else ""
        of = f"{count(int(at['tested']), HEADS[claim['of']])}{more}"
        rows.append(
            [
                _linked(mixed(claim["says"]), claim["key"]),
                mixed(f"{tolerance(claim)}; {claim['source']}"),
                *(_settled(at, name) for name in ("holds", "fails")),
                whole(float(at["undetermined"])),
                _true_of(at, of),
                _within(at),
            ]
        )
    rate = percent(float(data.attrs["false_discovery_rate"]), 0)
    settled = (
        "Holds: the 95% interval of a head's effect lies within the tolerance; fails: outside;"
        f" undetermined: neither, {run.counted('document')} do not settle it. Errors and skewness"
        " of documents are moderated over the heads of a claim. Heads are judged one by one: of"
        " heads just at the tolerance 2.5% hold and 2.5% fail by luck. In brackets how many"
        f" answers are left if at most {rate} of those of a claim are to be false in expectation"
        " (Benjamini–Hochberg). No estimate: what the claim is about was not found in the head, or"
        " could not be fitted; such heads are neither. True of: estimated share of heads of which"
        " the claim is true (a mixture over heads, which allows for noise that moves estimates"
        " across the tolerance), with its 95% interval over documents; n/a of bounds. Estimate"
        " within: the plain share of heads whose estimate is within the tolerance, however sure. A"
        " claim on bounds holds where each bound on Precision and Recall does at every N, and"
        " fails where one does not (tested by t: the gap of curve and bound; beside it, that texts"
        " unlike all of these would have been met); bounds on an expectation may miss a single"
        " head."
        if run.documents > 1
        else "One document gives no standard errors: nothing is settled."
    )
    answers = ("holds", "fails", "undetermined")
    headers = header("claim", "tolerance; its source", *answers, "true of", "estimate within")
    return Table(
        "verdicts",
        "Verdicts",
        settled,
        headers,
        rows,
        "pprrrrr",
        narrow=narrow_verdicts(run, data, claims),
    )


def _settled(at: xr.Dataset, name: str) -> Cell:
    """How many heads have an answer, and in brackets those left at the false-discovery rate."""
    number = float(at[name])
    left = f"{name}_adjusted"
    return share(number, f"{number:,.0f} ({float(at[left]):,.0f})") if left in at else whole(number)


def _true_of(at: xr.Dataset, of: str) -> Cell:
    """The estimated share of heads of which a claim is true, with its interval."""
    values = [float(at.get(f"true_share{end}", np.nan)) for end in ("", "_lower", "_upper")]
    if not np.isfinite(values[0]):
        return text(f"{MISSING}; {of}")
    value, low, high = (percent(one, 0) for one in values)
    limits = f" ({low} to {high})" if np.isfinite(values[1]) else ""
    return share(values[0], f"{value}{limits} of {of}")


def _within(at: xr.Dataset) -> Cell:
    """The share of heads whose estimate is within the tolerance; n/a where there is none."""
    value = float(at.get("within", np.nan))
    return share(value, percent(value)) if np.isfinite(value) else missing()


def _by_layer(data: xr.Dataset, claims: list[dict[str, Any]]) -> Table:
    """Counts of holds / fails by layer."""
    rows, codes = [], {word: code for code, word in words_of(data).items()}
    answers = [column(data, claim) for claim in claims]
    for index, layer in enumerate(data["layer"].values):
        counts = [
            [int((answer[index] == codes[word]).sum()) for word in ("holds", "fails")]
            for answer in answers
        ]
        rows.append(
            [
                whole(float(layer)),
                *(share(holds - fails, f"{holds} / {fails}") for holds, fails in counts),
            ]
        )
    headers = [mixed("layer"), *(_name(claim) for claim in claims)]
    caption = (
        "Heads of which a claim holds / fails, by layer; the others are undetermined. A column"
        " sorts by the difference."
    )
    return Table(
        "verdict_layers",
        "Verdicts by layer",
        caption,
        headers,
        rows,
        "r" * len(headers),
        narrow=numbered(
            "layer",
            claims,
            [[row[0], *(text(cell.plain.replace(" ", "")) for cell in row[1:])] for row in rows],
            "Heads of which a claim holds/fails, by layer; the others are undetermined.",
        ),
    )


def _name(claim: dict[str, Any]) -> Cell:
    """A claim in a few words on the page, and by its name in files."""
    return replace(text(claim["key"]), html=text(claim.get("short") or claim["key"]).html)
