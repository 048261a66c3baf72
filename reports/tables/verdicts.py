"""Tables of verdicts: each claim over all heads, by layer, and head by head with the estimate,
interval, tolerance and p-values behind each answer.

Imports this room's cells, numbers and run. What is printed travels in /verdicts and its
attributes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from markupsafe import Markup, escape

from reports.run import Run
from reports.tables.cells import Cell, header, missing, mixed, number, p_value, share, text, whole
from reports.tables.table import Table
from reports.text.latex import text_latex
from reports.text.number import MISSING, count, percent, rounded

SIDES = {"at_most": "≤", "at_least": "≥", "within": "|·| ≤"}
HEADS = {"kv_head": "value head", "head": "head"}
HEADERS = (
    "claim",
    "tolerance; its source",
    "holds",
    "fails",
    "undetermined",
    "true of",
    "estimate within",
)
SIDE_BY_SIDE = 5
"""Claims that paper has room for beside the layer."""

NUMBERS = (
    "estimate",
    "se",
    "skew",
    "lower",
    "upper",
    "p_holds",
    "p_fails",
    "p_holds_adjusted",
    "p_fails_adjusted",
    "cell_bound",
    "cell_n",
    "cell_count",
    "cell_p_holds",
    "cell_p_fails",
)
"""What /verdicts keeps of each head and claim beside the answer."""

DETAILS = "verdict_heads"
"""Name of the table of every head's verdicts, to which the others lead."""


def verdict_tables(run: Run) -> list[Table]:
    """All verdicts over the model, by layer, and by head; none where the run holds no verdicts."""
    if run.verdicts is None:
        return []
    claims = list(json.loads(str(run.verdicts.attrs["claims"])))
    return [
        _overall(run, run.verdicts, claims),
        _by_layer(run.verdicts, claims),
        _details(run, run.verdicts, claims),
    ]


def _words(data: xr.Dataset) -> dict[int, str]:
    """What the codes of answers stand for."""
    return {int(code): word for code, word in json.loads(str(data.attrs["answers"])).items()}


def _column(data: xr.Dataset, claim: Mapping[str, Any], name: str = "answer") -> np.ndarray:
    """Codes of answers, or one of NUMBERS, of one claim, (layer, head); NaN where the run does
    not keep it.
    """
    of = claim["of"]
    answer = data[f"answer_{of}"]
    values = data.get(f"{name}_{of}", np.nan * answer)
    return values.sel({f"claim_{of}": claim["key"]}).transpose("layer", of).values


def _linked(cell: Cell, claim: str) -> Cell:
    """A cell that leads to the verdicts of one claim, head by head."""
    return replace(
        cell,
        html=Markup('<a href="#table-{}" data-show="{}">{}</a>').format(DETAILS, claim, cell.html),
    )


def _tolerance(claim: Mapping[str, Any]) -> str:
    return f"{SIDES[claim['side']]} {claim['tolerance']:g}"


def _overall(run: Run, data: xr.Dataset, claims: list[dict[str, Any]]) -> Table:
    """One row a claim: how many heads it holds and fails of, and of what share of heads it is
    true.
    """
    rows, codes = [], {word: code for code, word in _words(data).items()}
    for claim in claims:
        at = data.sel(claim=claim["key"])
        without = int((_column(data, claim) == codes["no estimate"]).sum())
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
                mixed(f"{_tolerance(claim)}; {claim['source']}"),
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
    return Table(
        name="verdicts",
        title="Verdicts",
        headers=header(*HEADERS),
        rows=rows,
        align="pprrrrr",
        widths={0: "2.9cm", 1: "2.7cm", 5: "1.9cm"},
        paper_rows=9,
        caption=settled,
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


def _skewness(value: float) -> Cell:
    """A skewness to two decimals."""
    return (
        replace(text(f"{value:z.2f}".replace("-", "−")), sort=value)
        if np.isfinite(value)
        else missing()
    )


def _by_layer(data: xr.Dataset, claims: list[dict[str, Any]]) -> Table:
    """Counts of holds / fails by layer."""
    rows, codes = [], {word: code for code, word in _words(data).items()}
    answers = [_column(data, claim) for claim in claims]
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
    return Table(
        name="verdict_layers",
        title="Verdicts by layer",
        headers=headers,
        rows=rows,
        align="r" * len(headers),
        caption=(
            "Heads of which a claim holds / fails, by layer; the others are undetermined. Claims by"
            " their short names; a column sorts by the difference."
        ),
        on_paper=groups,
    )


def _name(key: str) -> Cell:
    """The short name of a claim, which paper sets on two lines."""
    group, _, rest = key.partition(".")
    return replace(text(key), latex=rf"\shortstack[r]{{{text_latex(group)}.\\ {text_latex(rest)}}}")


def _details(run: Run, data: xr.Dataset, claims: list[dict[str, Any]]) -> Table:
    """One row a head and claim: the answer and everything it rests on."""
    words, bounds, rows = _words(data), json.loads(str(data.attrs.get("bounds", "{}"))), []
    for claim in claims:
        of = claim["of"]
        parts = {name: _column(data, claim, name) for name in ("answer", *NUMBERS)}
        for i, j in np.ndindex(parts["answer"].shape):
            at = {name: float(values[i, j]) for name, values in parts.items()}
            bound = bounds.get(f"{at['cell_bound']:.0f}", "")
            p = [
                at[f"cell_p_{answer}" if bound else f"p_{answer}"] for answer in ("holds", "fails")
            ]
            name = (
                f"L{data['layer'].values[i]}{'V' if of == 'kv_head' else 'H'}{data[of].values[j]}"
            )
            limits = (
                f"{rounded(at['lower']).plain} to {rounded(at['upper']).plain}"
                if np.isfinite(at["se"])
                else MISSING
            )
            rows.append(
                [
                    text(claim["key"]),
                    text(name),
                    text(words[int(at["answer"])]),
                    number(at["estimate"], at["se"]),
                    text(limits),
                    _skewness(at["skew"]),
                    text(_tolerance(claim)),
                    *map(p_value, (*p, at["p_holds_adjusted"], at["p_fails_adjusted"])),
                    text(_source(claim, at, bound)),
                ]
            )
    headers = [
        "claim",
        "head",
        "verdict",
        "estimate",
        "95% interval",
        "skewness",
        "tolerance",
        "p (holds)",
        "p (fails)",
        "adjusted p (holds)",
        "adjusted p (fails)",
        "estimate from",
    ]
    rate = percent(float(data.attrs["false_discovery_rate"]), 0)
    worse = (
        f" and one up to {data.attrs['skewness_reach']:g} standard errors worse"
        if "skewness_reach" in data.attrs
        else ""
    )
    errors = f"± over {run.counted('document')}" if run.documents > 1 else "One document: no ±"
    return Table(
        name=DETAILS,
        title="Every verdict",
        headers=header(*headers),
        rows=rows,
        align="lllrrrrrrrrl",
        only_page=True,
        caption=(
            "What each verdict rests on. L5V2: value head 2 of layer 5; L5H3: head 3. p (holds):"
            " against the claim's failing, p (fails): against its holding; each the largest of"
            f" Student's t and of Hall's transformation of it with the documents' skewness{worse};"
            " so skewed documents may leave a head undetermined whose interval, which is that of t"
            " alone, lies clear of the tolerance. Adjusted: over the heads of the claim"
            f" (Benjamini–Hochberg); a claim holds, or fails, where that p is at most {rate}. Where"
            " the last column names a second p-value, p (holds) is the larger of both tests. A"
            " claim on bounds joins many, upper and lower, on Precision and Recall, at each N;"
            " shown are the estimate, interval and p of the one that decided: where the claim"
            " fails, of the smallest p (fails), which is multiplied by their number; elsewhere of"
            " the largest p (holds). The adjusted p rest on the largest and the smallest of all."
            f" Intervals are not adjusted. {errors}."
        ),
    )


def _source(claim: Mapping[str, Any], at: Mapping[str, float], bound: str) -> str:
    """Where an estimate stands in the run: of a claim on bounds, as curve and bound, the lesser
    last.
    """
    where = str(claim["estimate"])
    if bound:
        statistic, _, side = bound.partition("_")
        above, below = (bound, statistic) if side == "lower" else (statistic, bound)
        where += f"/{above} − {below} at N = {at['cell_n']:.0f}"
    where += "".join(f", {name} {value}" for name, value in claim.get("select", {}).items())
    if bound:
        where += f"; one of {count(int(at['cell_count']), 'bound')}"
    return where + (f"; and {claim['second_test']}" if "second_test" in claim else "")
