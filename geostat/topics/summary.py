"""Summary of a run: five paragraphs, six key results, the scoreboard of the paper's statements, and
errata relevant to readers of a report.

It is computed from the fits and the confrontation. Each paragraph can be quoted by itself: a
median or mean has its spread and its count. Source: arXiv 2602.01893.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

import xarray as xr

from geostat.bounds.overall import overall
from geostat.datasets.parts import PART
from geostat.topics import bounds, norms, regimes, separability, similarity, sink, weights
from geostat.topics.claims import read_tolerances
from geostat.topics.control import untrained_results, with_untrained
from geostat.topics.records import (
    ANSWER_CODES,
    Finding,
    KeyResult,
    Statement,
    Tolerance,
    part_in_words,
    statement,
)
from reports.text.key_result import numbers_in_words, states, untrained_in_words

READING: Final[Mapping[int, str]] = {
    1: (
        "The printed bounds change when all value vectors are multiplied by a constant, so their"
        " position relative to the measured curves depends on units."
    ),
    4: (
        "The printed margins omit the sink's terms; with a strong sink the printed upper bounds are"
        " too low."
    ),
    6: (
        "The printed margin requires cosines of one sign; Assumption 2 reports the share of"
        " negative cosines."
    ),
    8: "The printed lower bound of F at the inner radius is false; the sharp bound is valid.",
    9: "Some fitted Gram matrices are not positive semidefinite, and are marked as projected.",
    12: (
        "At N = 1 Precision and Recall are 1 for any selection; N = 1 is not counted as"
        " separability."
    ),
    13: "The paper gives no κ; printed bounds use κ = 1/8, and sharp bounds need no κ.",
    16: "If Δ₀ is negative, the printed lower bound is near 1 for an invalid reason.",
    17: (
        "At N = L the printed lower bound is exactly 1; of L + 1 tokens, as counted here, that"
        " exceeds the true value."
    ),
    18: (
        "The printed bound of F has a pole if the lower bound of Recall is negative; printed bounds"
        " of F at the inner radius are not interpreted."
    ),
    30: (
        "The printed lower bound of Recall does not contain ρ₀ if the sink is selected; a measured"
        " correlation with ρ₀ confirms the paper's measurement, not its theorem."
    ),
    31: (
        "Printed lower bounds of Recall lie below 0 unless κC² is large; the erratum gives the κC²"
        " required for the paper's levels."
    ),
    35: "The error of the cosines is absolute; 0.09 is not 9% of a cosine.",
    41: "The selection depends on the weights alone; ρ₀ cannot change it.",
}
"""Consequence of each erratum for readers of a report."""


def paper_for_readers() -> dict[str, str]:
    """Return the parts of a summary that depend on no run, as JSON: `errata` and `paper_tables`."""
    from theory.paper_tables.table_1 import corrected_tables  # sympy loads slowly
    from theory.statements import catalogue

    errata = []
    for number, reading in READING.items():
        entry = catalogue.find_erratum(number)
        texts = {name: getattr(entry, name) for name in ("title", "printed", "true")}
        errata.append({"number": number, **texts, "reading": reading})
    records = {"errata": errata, "paper_tables": corrected_tables()}
    return {name: json.dumps(rows, ensure_ascii=False) for name, rows in records.items()}


KEY_RESULTS: Final[tuple[Callable[[xr.DataTree], KeyResult], ...]] = (
    norms.key_result,
    similarity.key_result,
    weights.key_result,
    separability.key_result,
    bounds.key_result,
    separability.geometry,
)
"""Functions of the six key results, in the order of the terminal and the page."""


@statement(
    "the same regularities recur across model families",
    "abstract, §5",
    "LLaMA-2-7B, Gemma-7B, Mistral-7B",
    "not testable in one run; `geostat compare` compares several",
    null="none",
)
def families(tree: xr.DataTree) -> Finding:
    """Return that one run, with one model, cannot test recurrence across families."""
    return Finding("not testable here", "one model")


STATEMENTS: Final[tuple[Statement, ...]] = (
    norms.norms_stable,
    norms.sink_compressed,
    similarity.decay_exponential,
    similarity.sink_one_cosine,
    weights.sink_weight,
    weights.phases,
    weights.oscillation,
    weights.recency,
    weights.recency_exponential,
    bounds.envelopes,
    separability.lowest_between,
    separability.best_small,
    sink.sink_correlates,
    sink.sink_precision,
    sink.sink_predicted,
    regimes.regimes,
    regimes.regimes_norms,
    regimes.regimes_sizes,
    regimes.regimes_depth,
    regimes.regimes_curves,
    families,
)
"""Statements of the paper that a run can test, by topic."""


SENTENCES: Final = {
    "separability": separability.sentence,
    "norms": norms.sentence,
    "similarity": similarity.sentence,
    "weights": weights.sentence,
    "bounds": bounds.sentence,
}
"""Functions of the five paragraphs, by the key result that the control adds to them."""


def summarise(tree: xr.DataTree, tolerances: Mapping[str, Tolerance] | None = None) -> xr.Dataset:
    """Return /summary: overall curves and coverage, with the texts of a report as attributes.

    Args:
        tree: a run with /capture, fits, /envelope, experiments and /verdicts.
        tolerances: tolerances by claim that replace the built-in ones.

    Returns:
        The dataset of `geostat.bounds.overall.overall` with attributes `sentences` (five),
        `key_results` (six, JSON), `scoreboard`, `errata` and `paper_tables` (JSON).
    """
    result, by_claim = overall(tree), {**read_tolerances(), **(tolerances or {})}
    whole = tree.assign({"summary": xr.DataTree(result)})
    result.attrs["scoreboard"] = json.dumps(scoreboard(whole), ensure_ascii=False)
    result.attrs["key_results"] = key_results(whole)
    by_key = {answer["key"]: answer for answer in map(json.loads, result.attrs["key_results"])}
    result.attrs["sentences"] = [
        f"{part_in_words(tree)}{sentence(tree, result, by_claim)}{untrained_in_words(by_key[key])}"
        for key, sentence in SENTENCES.items()
    ]
    result.attrs |= paper_for_readers()
    return result


def key_results(tree: xr.DataTree) -> list[str]:
    """Return the six key results of a run with /verdicts and /summary, each as a line of JSON."""
    tokens, untrained = tree.attrs.get(PART, {}).get("tokens"), untrained_results(tree)
    results = []
    for key_result in KEY_RESULTS:
        result = asdict(key_result(tree)) | {"tokens": tokens}
        of_key = [untrained.get((result["key"], size)) for size in (tokens, None)]
        result["untrained"] = next((found for found in of_key if found), None)
        results.append(json.dumps(result, ensure_ascii=False, allow_nan=False))
    return results


def scoreboard(tree: xr.DataTree) -> list[dict[str, str]]:
    """Return STATEMENTS as rows: their fields, those of the Finding, and `untrained`.

    `tree` is a run with /capture, the fits, /envelope, /verdicts, /summary, /sink, /heads and
    /separable.
    """
    names = ("key", "claim", "where", "paper", "rule", "null")
    rows = [
        {name: getattr(entry, name) for name in names} | asdict(entry(tree)) for entry in STATEMENTS
    ]
    return with_untrained(rows, tree)


def as_line(result: Mapping[str, Any]) -> str:
    """Return a key result as one line for the terminal.

    >>> number = {"of": "CV", "value": 0.2168, "lower": 0.209, "upper": 0.225}
    >>> number |= {"expected": None, "tolerated": None}
    >>> counts = {"of": "heads", "holds": 0, "fails": 9, "undetermined": 1, "no_estimate": 0}
    >>> result = {"key": "norms", "answer": "fails", "verdict": "They vary.", "tokens": None}
    >>> as_line(result | {"number": number, "counts": counts})
    'norms         fails         They vary. CV: 0.217 (0.209 to 0.225); of 10 heads 0 hold, 9 fail'
    """
    counts = result["counts"]
    total = sum(counts.get(name, 0) for name in ANSWER_CODES)
    where = f"T = {result['tokens']:,}: " if result["tokens"] else ""
    line = f"{result['key']:13} {result['answer']:12}  {where}{result['verdict']}"
    line += f" {numbers_in_words(result)}"
    if total:
        words = states(counts["of"])
        line += f"; of {total:,} {counts['of']}" + ",".join(
            f" {counts[name]:,} {words[name]}"
            for name in ("holds", "holds_trivially", "fails")
            if name != "holds_trivially" or counts.get(name)
        )
    if result.get("untrained"):
        line += f"; untrained model: {result['untrained']['answer']}"
    return line
