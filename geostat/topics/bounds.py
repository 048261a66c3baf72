"""Bounds on Precision and Recall (Theorems 1-2): claims, key result, sentence, and statements of
the paper.

Source: arXiv 2602.01893, §4, Figure 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import xarray as xr
from scipy.special import stdtrit

from geostat.datasets.variable import known
from geostat.statistics.jackknife import LEVEL
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
    )
)
"""Claims about bounds, each tested in every query head."""

ALIKE: Final = 0.10
"""Tolerance of the expected minus the measured share inside, chosen by us."""


def key_result(tree: xr.DataTree) -> KeyResult:
    """Return the key result on bounds, from Recall and the sharp bounds of the printed decay.

    The share of values inside is compared with that of heads drawn from Model G, our random model;
    KV heads are the sampling unit.
    """
    data = tree["summary"].to_dataset()
    if "sharp" not in data["edition"].values or not float(
        data["recall_cells"].sel(edition="sharp", gram="exponential")
    ):
        return unmeasured("bounds", "The sharp bounds of these assumptions were not evaluated.")
    sharp = data.sel(edition="sharp", gram="exponential")
    inside, cells = float(sharp["recall_inside"]), int(sharp["recall_cells"])
    outside = known(sharp["recall_outside"]) or 0.0
    error, gap, gap_error, expected = (
        known(sharp[f"recall_{name}"]) if f"recall_{name}" in sharp else None
        for name in ("inside_se", "drawn_gap", "drawn_gap_se", "drawn_inside")
    )
    capture = tree["capture"].sizes
    if capture["document"] < 2:  # no interval, so no value is known to lie outside
        error = gap_error = None
        outside = 0.0
    excess = tree["envelope"].to_dataset().sel(edition="sharp", gram="exponential")["recall_excess"]
    measured = excess.notnull().any("n_envelope").groupby("kv_head_of_head").any()
    clusters = int(measured.sum())  # KV heads with both a measured Recall and a sharp bound
    half = float(stdtrit(max(clusters - 1, 1), 0.5 + LEVEL / 2))
    answer: Settled = "undetermined"
    if gap is not None and gap_error:  # an error of 0 has no information
        if gap - half * gap_error > ALIKE:
            answer = "fails"
        elif gap + half * gap_error < ALIKE:
            answer = "holds"
    verdicts = {
        "holds": "Recall lies inside the sharp bounds about as often as expected, or more often.",
        "fails": "Recall lies outside the sharp bounds more often than the assumptions predict.",
        "undetermined": "Whether Recall lies inside the sharp bounds as often as expected is"
        " undetermined.",
    }
    number = Number(
        of="Recall inside sharp bounds, exponential decay",
        value=inside,
        lower=None if error is None else max(inside - half * error, 0.0),
        upper=None if error is None else min(inside + half * error, 1.0),
        expected=expected,
    )
    holds, fails = round(inside * cells), round(outside * cells)
    undetermined = cells - holds - fails
    counts = Counts(of="values of heads and N", holds=holds, fails=fails, undetermined=undetermined)
    return KeyResult("bounds", answer, verdicts[answer], number, counts)


BOUNDS: Final = (
    ("printed", "exponential", "The printed bounds"),
    ("sharp", "exponential", "The sharp bounds (pairwise bounds under Model G, our random model)"),
    ("sharp", "offset", "The sharp bounds for decay to a constant"),
)
"""Bounds named in the paragraph: edition, Gram, name. Bounds at each head's measured cosines are
left out, since they test nothing (docs/studies/bounds.md).
"""


def sentence(tree: xr.DataTree, summary: xr.Dataset, tolerances: Mapping[str, Tolerance]) -> str:
    """Return the paragraph of a report on bounds, with widths, since wide bounds hold trivially."""
    editions, grams = ([str(name) for name in summary[axis].values] for axis in ("edition", "gram"))
    several, drawn = int(summary.attrs["documents"]) > 1, "recall_drawn_inside" in summary
    parts = []
    for edition, gram, label in BOUNDS:
        if edition not in editions or gram not in grams:
            continue
        selected = summary.sel(edition=edition, gram=gram)
        if not float(selected["recall_cells"]):
            continue
        inside, outside, width = (
            float(selected[f"recall_{name}"]) for name in ("inside", "outside", "width")
        )
        expected_inside, expected_outside = (
            f" (expected {percent(float(selected[f'recall_drawn_{name}']), 0)})" if drawn else ""
            for name in ("inside", "outside")
        )
        clearly = (
            f"; {percent(outside, 0)}{expected_outside} lie clearly outside" if several else ""
        )
        parts.append(
            f" {label} contain {percent(inside, 0)} of these values{expected_inside}{clearly}; the"
            f" mean width is {two_decimals(width)}."
        )
    notes = (
        " Widths are on a scale from 0 to 1."
        + " A value is clearly outside if it lies beyond the bounds by more than the 95% interval"
        " over documents."
        * several
        + " Expected shares are those of heads simulated from Model G at these"
        " fits, as if the assumptions were true as fitted." * drawn
    )
    return (
        "Bounds on expected Recall are compared with"
        f" {int(summary['recall_cells'].max()):,} measured values, one for each head and selection"
        f" size N at the last query.{''.join(parts) or ' No bounds could be evaluated.'}{notes}"
    )


@statement(
    "the mean curves of Precision and Recall lie within the printed bounds",
    "abstract, §4, Figure 5",
    "they do",
    "never tested: the paper gives no κ, and the bounds depend on κC² (erratum 13). The counts are"
    " sizes 1 < N < T with the mean curve inside at κ = 1/8, our constant, proven for C ≤ 1 only",
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
