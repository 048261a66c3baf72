"""Table of every verdict, head by head: the estimate, interval, tolerance and p-values behind each
answer; and how /verdicts is read.

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
from markupsafe import Markup

from reports.run import Run, column, words_of
from reports.tables.cells import Cell, header, missing, number, p_value, text
from reports.tables.table import Table
from reports.tables.verdicts_on_paper import every_head, tolerance
from reports.text.number import MISSING, count, percent, rounded

ESTIMATE = ("estimate", "se", "skew", "lower", "upper")
P_VALUES = ("p_holds", "p_fails", "p_holds_adjusted", "p_fails_adjusted")
CELL = ("cell_bound", "cell_n", "cell_count", "cell_p_holds", "cell_p_fails")
NUMBERS = (*ESTIMATE, *P_VALUES, *CELL)
"""What /verdicts keeps of each head and claim beside the answer; of the bound that decided."""

DETAILS = "verdict_heads"
"""Name of the table of every head's verdicts, to which the others lead."""


def every_verdict(run: Run, data: xr.Dataset, claims: list[dict[str, Any]]) -> Table:
    """One row a head and claim: the answer and everything it rests on."""
    words, bounds = words_of(data), json.loads(str(data.attrs.get("bounds", "{}")))
    rows = []
    for claim in claims:
        parts = {name: column(data, claim, name) for name in ("answer", *NUMBERS)}
        letter = "V" if claim["of"] == "kv_head" else "H"
        layers, heads = data["layer"].values, data[claim["of"]].values
        for i, j in np.ndindex(parts["answer"].shape):
            at = {name: float(values[i, j]) for name, values in parts.items()}
            bound = bounds.get(f"{at['cell_bound']:.0f}", "")
            name, answer = f"L{layers[i]}{letter}{heads[j]}", words[int(at["answer"])]
            rows.append([_named(claim), text(name), text(answer), *_rests_on(claim, at, bound)])
    judged = ("claim", "head", "verdict", "estimate", "95% interval", "skewness", "tolerance")
    p = ("p (holds)", "p (fails)", "adjusted p (holds)", "adjusted p (fails)")
    return Table(
        DETAILS,
        "Every verdict",
        _how_to_read(run, data),
        header(*judged, *p, "estimate from"),
        rows,
        "lllrrrrrrrrl",
        narrow=every_head(run, data, claims),
    )


def _named(claim: Mapping[str, Any]) -> Cell:
    """A claim in a few words on the page, where its name still finds it, and by its name in
    files.
    """
    cell, words = text(claim["key"]), text(claim.get("short") or claim["key"])
    html = Markup('<span data-name="{}">{}</span>').format(cell.plain, words.html)
    return replace(cell, html=html)


def _rests_on(claim: Mapping[str, Any], at: Mapping[str, float], bound: str) -> list[Cell]:
    """What an answer rests on: of a claim on bounds, the p-values are those of the bound that
    decided.
    """
    p = [at[f"cell_p_{answer}" if bound else f"p_{answer}"] for answer in ("holds", "fails")]
    limits = (
        f"{rounded(at['lower']).plain} to {rounded(at['upper']).plain}"
        if np.isfinite(at["se"])
        else MISSING
    )
    return [
        number(at["estimate"], at["se"]),
        text(limits),
        _skewness(at["skew"]),
        text(tolerance(claim)),
        *map(p_value, (*p, at["p_holds_adjusted"], at["p_fails_adjusted"])),
        text(_source(claim, at, bound)),
    ]


def _how_to_read(run: Run, data: xr.Dataset) -> str:
    """Which p-value is which, and over how many documents."""
    rate = percent(float(data.attrs["false_discovery_rate"]), 0)
    errors = f"± over {run.counted('document')}" if run.documents > 1 else "One document: no ±"
    return (
        "What each verdict rests on. L5V2: value head 2 of layer 5; L5H3: head 3. A claim holds"
        " where the interval lies within the tolerance, and fails where it lies outside; then p"
        " (holds), or p (fails), is at most 5%: 1 less the level of the widest such interval."
        " Errors (±), skewness of documents and intervals are moderated over the heads of the"
        " claim. Adjusted: over those heads (Benjamini–Hochberg); where that p is at most"
        f" {rate}, the answer is among those left at that false-discovery rate. Where"
        " the last column names a second p-value, p (holds) is the larger of both tests. A"
        " claim on bounds joins many, upper and lower, on Precision and Recall, at each N;"
        " shown are the estimate, interval and p of the one that decided: where the claim"
        " fails, of the smallest p (fails), which is multiplied by their number; elsewhere of"
        " the largest p (holds). The adjusted p rest on the largest and the smallest of all."
        f" Intervals are not adjusted. {errors}."
    )


def _skewness(value: float) -> Cell:
    """A skewness to two decimals."""
    return (
        replace(text(f"{value:z.2f}".replace("-", "−")), sort=value)
        if np.isfinite(value)
        else missing()
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
