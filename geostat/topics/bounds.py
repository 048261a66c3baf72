"""Bounds on Precision and Recall (Theorems 1-2): claims, key result, sentence, and statements of
the paper.

Source: arXiv 2602.01893, §4, Figure 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.separability import RANGES
from geostat.datasets.variable import known
from geostat.topics.records import (
    Claim,
    Counts,
    Finding,
    KeyResult,
    Number,
    Settled,
    Tolerance,
    median,
    statement,
    two_decimals,
    unmeasured,
)
from reports.text.number import percent, rounded

EXPECTATION: Final = "a bound on an expectation holds or fails; 0.01 allows for rounding"
CLAIMS: Final = tuple(
    Claim(
        f"bounds.{key}",
        f"Precision and Recall lie within the {bounds} at every N",
        "precision",
        select={"edition": key.partition("_")[0], "gram": gram},
        short=f"P, R within {short}",
        tolerance=Tolerance(0.01, EXPECTATION),
    )
    for key, gram, bounds, short in (
        ("printed", "exponential", "printed bounds", "printed bounds"),
        ("sharp", "exponential", "sharp bounds for the printed decay", "sharp bounds"),
        ("sharp_offset", "offset", "sharp bounds for decay with an offset", "sharp bounds, offset"),
        (
            "sharp_rank",
            "rank",
            "sharp bounds for cosines by rank of the weight",
            "sharp bounds, rank",
        ),
    )
)
"""Claims about bounds, each tested in every query head."""

ALIKE: Final = 0.10
"""Tolerance of the expected minus the measured share inside, chosen by us."""


def key_result(tree: xr.DataTree) -> KeyResult:
    """Return the key result on bounds, from Recall and the sharp bounds of the printed decay.

    In each range of N, the paper's working sizes first, the share of values inside is compared with
    that of heads drawn from Model G, our random model; KV heads are the sampling unit. The result
    *holds* if all ranges hold, *fails* if one fails and none holds, and is *mixed* if one fails and
    another holds. The limits of the ranges are simultaneous.
    """
    data = tree["summary"].to_dataset()
    if "sharp" not in data["edition"].values or not float(
        data["recall_cells"].sel(edition="sharp", gram="exponential")
    ):
        return unmeasured("bounds", "The sharp bounds of these assumptions were not evaluated.")
    sharp = data.sel(edition="sharp", gram="exponential")
    known_ranges = sharp["recall_by_range"].sel(measure="inside").notnull()
    labels = [str(label) for label in sharp["size_range"].values[known_ranges.values]]
    several = tree["capture"].sizes["document"] > 1
    answers = [_answer(sharp, label) if several else "undetermined" for label in labels]
    answer: Settled = "undetermined"
    if "fails" in answers:
        answer = "mixed" if "holds" in answers else "fails"
    elif set(answers) == {"holds"}:
        answer = "holds"
    verdicts = {
        "holds": "Recall lies inside the sharp bounds about as often as expected, or more often.",
        "fails": "Recall lies outside the sharp bounds more often than the assumptions predict.",
        "mixed": "The share of Recall inside the sharp bounds is as expected at only some N.",
        "undetermined": "Whether Recall lies inside the sharp bounds as often as expected is"
        " undetermined.",
    }
    if set(answers) != {"fails"}:
        verdicts["fails"] = (
            "Recall lies outside the sharp bounds more often than expected at some N."
        )
    if answers[0] == "holds" and set(answers[1:]) == {"fails"}:
        verdicts["mixed"] = (
            f"Mean shares inside are at most {100 * ALIKE:g} points below expected at {labels[0]}"
            " only."
        )
    number, *also = (_number(sharp, label, several=several) for label in labels)
    excess = tree["envelope"].to_dataset().sel(edition="sharp", gram="exponential")["recall_excess"]
    first, last = RANGES[labels[0]]
    sizes = excess["n_envelope"]
    tokens = tree["capture"]["tokens"]
    counted = excess.notnull() & (sizes >= first) & (sizes <= last) & (sizes < tokens)
    cells = int(counted.sum())
    inside, outside = (
        float(sharp["recall_by_range"].sel(measure=name, size_range=labels[0]))
        for name in ("inside", "outside")
    )
    holds, fails = round(inside * cells), round(outside * cells) if several else 0
    counts = Counts(
        of=f"values of heads at {labels[0]}",
        holds=holds,
        fails=fails,
        undetermined=cells - holds - fails,
    )
    number = replace(number, of=f"Recall inside sharp bounds at {number.of}")
    return KeyResult("bounds", answer, verdicts[answer], number, counts, also=tuple(also))


def _answer(sharp: xr.Dataset, label: str) -> Settled:
    """Return whether Recall lies inside about as often as expected in a range of N."""
    lower, upper = (
        known(_in_range(sharp, "drawn_gap", label, side)) for side in ("_lower", "_upper")
    )
    if lower is not None and lower > ALIKE:
        return "fails"
    return "holds" if upper is not None and upper < ALIKE else "undetermined"


def _number(sharp: xr.Dataset, label: str, *, several: bool) -> Number:
    """Return the share of Recall inside in a range of N; no limits with a single document."""
    value, lower, upper = (
        known(_in_range(sharp, "inside", label, end)) for end in ("", "_lower", "_upper")
    )
    return Number(
        of=label,
        value=value,
        lower=lower if several else None,
        upper=upper if several else None,
        expected=known(_in_range(sharp, "drawn_inside", label)),
    )


def _in_range(bounds: xr.Dataset, measure: str, label: str, end: str = "") -> float:
    """Return a mean of Recall over a range of N; NaN if it was not measured."""
    by_range = bounds[f"recall_by_range{end}"].sel(size_range=label)
    return float(by_range.reindex(measure=[measure]).item())


BOUNDS: Final = (
    ("printed", "exponential", "The printed bounds"),
    ("sharp", "exponential", "The sharp bounds (pairwise bounds under Model G, our random model)"),
    ("sharp", "offset", "The sharp bounds for decay to a constant"),
    ("sharp", "rank", "The sharp bounds for cosines by rank of the weight"),
)
"""Bounds named in the paragraph: edition, Gram, name. Bounds at each head's measured cosines are
left out, since they test nothing (docs/studies/bounds.md).
"""


def sentence(tree: xr.DataTree, summary: xr.Dataset, tolerances: Mapping[str, Tolerance]) -> str:
    """Return the paragraph of a report on bounds by range of N, with interval scores, since wide
    bounds hold trivially.
    """
    editions, grams = ([str(name) for name in summary[axis].values] for axis in ("edition", "gram"))
    parts = []
    for edition, gram, label in BOUNDS:
        if edition not in editions or gram not in grams:
            continue
        selected = summary.sel(edition=edition, gram=gram)
        if not float(selected["recall_cells"]):
            continue
        inside = _each_range(selected, "inside", "drawn_inside", partial(percent, digits=0))
        scores = _each_range(selected, "score", "drawn_score", two_decimals)
        parts.append(f" {label} contain {inside}; the interval score is {scores}.")
    notes = (
        " The interval score is the width, on a scale from 0 to 1, plus 40 times the distance of a"
        " value outside (level 95%); lower is better."
        + " Expected numbers are those of heads simulated from Model G at these fits, as if the"
        " assumptions were true as fitted." * ("drawn_inside" in summary["measure"].values)
    )
    return (
        "Bounds on expected Recall are compared with"
        f" {int(summary['recall_cells'].max()):,} measured values, one for each head and selection"
        f" size N at the last query.{''.join(parts) or ' No bounds could be evaluated.'}{notes}"
    )


def _each_range(bounds: xr.Dataset, measure: str, drawn: str, show: Callable[[float], str]) -> str:
    """Return a mean of Recall in each range of N, with that of drawn heads if known, in words."""
    parts = []
    for label in RANGES:
        value, expected = (_in_range(bounds, name, label) for name in (measure, drawn))
        if np.isfinite(value):
            brackets = f" (expected {show(expected)})" if np.isfinite(expected) else ""
            parts.append(f"{show(value)}{brackets} at {label}")
    return ", ".join(parts)


@statement(
    "the mean curves of Precision and Recall lie within the printed bounds",
    "abstract, §4, Figure 5",
    "they do",
    "never tested: the paper gives no κ, and the bounds depend on κC² (erratum 13). The counts are"
    " sizes 1 < N < T with the mean curve inside at κ = 1/8, our constant, proven for C ≤ 1 only",
    null="none without κ",
)
def envelopes(tree: xr.DataTree) -> Finding:
    """Count the sizes at which the mean curves lie within the printed bounds at our κ."""
    summary = tree["summary"].to_dataset()
    if "printed" not in summary["edition"].values or "exponential" not in summary["gram"].values:
        return Finding("not testable here", "the printed bounds were not evaluated")
    summary = summary.sel(edition="printed", gram="exponential")
    inside, counted = (
        [int(summary[f"{name}_means_{part}"]) for name in ("precision", "recall")]
        for part in ("inside", "counted")
    )
    widths = [
        rounded(float(summary[f"{name}_width"]), digits=2).plain for name in ("precision", "recall")
    ]
    norm = rounded(median(tree["norms"].to_dataset()["C"]), digits=2).plain
    return Finding(
        "not testable here",
        f"at κ = 1/8, Precision at {inside[0]} of {counted[0]}, Recall at {inside[1]} of"
        f" {counted[1]} sizes N",
        f"The paper gives no κ; κ = 1/8 is ours, proven for norms C ≤ 1, and here the median C is"
        f" {norm}. With it the bounds have mean width {widths[0]} (Precision) and {widths[1]}"
        " (Recall) on a scale from 0 to 1, so containment is weak evidence; they contain"
        f" {percent(float(summary['recall_inside']), 0)} of the Recall values of single heads.",
    )
