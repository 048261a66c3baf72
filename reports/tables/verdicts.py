"""Tables of verdicts: each claim over all heads, and by layer; head by head they stand in
`verdict_heads`.

Imports this room's cells, numbers and run. What is printed travels in /verdicts and its
attributes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import xarray as xr
from markupsafe import Markup, escape

from reports.run import Run
from reports.tables.cells import Cell, header, missing, mixed, share, text, whole
from reports.tables.table import Table
from reports.tables.verdict_heads import DETAILS, column, every_verdict, tolerance, words_of
from reports.text.latex import text_latex
from reports.text.number import MISSING, count, percent, rounded

HEADS = {"kv_head": "value head", "head": "head"}
SIDE_BY_SIDE = 5
"""Claims that paper has room for beside the layer."""


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
    return replace(
        cell,
        html=Markup('<a href="#table-{}" data-show="{}">{}</a>').format(DETAILS, claim, cell.html),
    )


def _overall(run: Run, data: xr.Dataset, claims: list[dict[str, Any]]) -> Table:
    """One row a claim: how many heads it holds and fails of, and of what share of heads it is
    true.
    """
    rows, codes = [], {word: code for code, word in words_of(data).items()}
    for claim in claims:
        at = data.sel(claim=claim["key"])
        without = int((column(data, claim) == codes["no estimate"]).sum())
        low, high = (float(at[name]) for name in ("true_at_least", "true_at_most"))
        more = f"; {without:,} more without an estimate" if without else ""
        true = share(
            0.5 * (low + high),
            f"{percent(low, 0)} to {percent(high, 0)} of"
            f" {count(int(at['tested']), HEADS[claim['of']])}{more}",
        )
        rows.append(
            [
                _linked(mixed(claim["says"]), claim["key"]),
                mixed(f"{tolerance(claim)}; {claim['source']}"),
                *(whole(float(at[name])) for name in ("holds", "fails", "undetermined")),
                true,
                _within(at),
            ]
        )
    rate = percent(float(data.attrs["false_discovery_rate"]), 0)
    settled = (
        "Two one-sided tests of each head's estimate against the tolerance, with its jackknife"
        f" standard error over {run.counted('document')} (Student's t, {run.documents - 1} degrees"
        " of freedom) and by Hall's transformation of it, which allows for documents more skewed"
        f" than they look; of the answers “holds”, and of the answers “fails”, at most {rate} are"
        " false in expectation (Benjamini–Hochberg over heads), unless documents are strongly"
        " skewed. Undetermined: these documents do not settle it. No estimate: what the claim is"
        " about was not found in the head, or could not be fitted; such heads are neither. True"
        " of: the share of heads of which the claim is true, as far as these answers tell."
        " Estimate within: the share of heads with an estimate whose estimate is within the"
        " tolerance, however sure; ± by the document jackknife, n/a where the run does not keep"
        " what that needs, “± <” where no document takes a head across. A claim on bounds holds"
        " where each bound on Precision and Recall does at every N, and fails where one does not"
        " (tested by t: the gap of curve and bound; beside it, that texts unlike all of these"
        " would have been met); bounds on an expectation may miss a single head."
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
        widths={0: "2.9cm", 1: "2.7cm", 5: "1.9cm"},
        paper_rows=9,
        on_paper=[range(6), (0, 6)],
    )


def _within(at: xr.Dataset) -> Cell:
    """The share of heads whose estimate is within the tolerance, as percent; n/a where the run does
    not keep it.

    An error of 0 is too small to see, not none: it reads as less than that of one head which one
    document takes across.
    """
    if "within" not in at:
        return missing()
    value, error = float(at["within"]), float(at["within_se"])
    if error == 0:
        return _unbroken(value, f"{percent(value)} ± < {percent(float(at['within_least_error']))}")
    shown = rounded(100 * value, 100 * error)
    if shown.value is None:
        return missing()
    plain = " ± ".join(
        MISSING if part is None else f"{part}%" for part in (shown.value, shown.error)
    )
    return _unbroken(value, plain)


def _unbroken(value: float, plain: str) -> Cell:
    """A share with its error, which a narrow page sets below it in one piece."""
    head, *error = plain.split(" ", 1)
    return replace(
        share(value, plain),
        html=escape(" ".join([head, *(part.replace(" ", "\N{NO-BREAK SPACE}") for part in error)])),
    )


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
    headers = [mixed("layer"), *(_name(claim["key"]) for claim in claims)]
    groups = [
        [0, *range(first, min(first + SIDE_BY_SIDE, len(headers)))]
        for first in range(1, len(headers), SIDE_BY_SIDE)
    ]
    caption = (
        "Heads of which a claim holds / fails, by layer; the others are undetermined. Claims by"
        " their short names; a column sorts by the difference."
    )
    return Table(
        "verdict_layers",
        "Verdicts by layer",
        caption,
        headers,
        rows,
        "r" * len(headers),
        on_paper=groups,
    )


def _name(key: str) -> Cell:
    """The short name of a claim, which paper sets on two lines."""
    group, _, rest = key.partition(".")
    return replace(text(key), latex=rf"\shortstack[r]{{{text_latex(group)}.\\ {text_latex(rest)}}}")
