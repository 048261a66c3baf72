"""Claims of §4.1, Figure 6: what a run says of the sink's similarity. Imports numpy and xarray, and
reports for numbers.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr

from geostat.bounds.sink_cosine import change_with_sink_cosine
from geostat.verdicts.scoreboard.finding import Answer, Finding, by_majority
from geostat.verdicts.words import with_interval
from reports.text.number import rounded

SIZE: Final = 3
"""N near which the paper finds the largest correlation."""
RISE: Final = 0.1
"""Of ρ₀ alone, by which a bound is asked to move."""
MOVES: Final = 0.001
"""Of a bound, from which on it moves."""
UNKNOWN: Final = (
    "no head sees the sink, it does not vary, or the documents are too few, or too noisy, for their"
    " noise to be taken out"
)
"""Why no correlation free of noise is known."""


def sink_correlates(tree: xr.DataTree) -> Finding:
    """Answer whether Recall correlates with ρ₀, free of the documents' noise."""
    at = tree["sink"].to_dataset().sel(measure="pearson")
    if not at["unattenuated"].notnull().any():
        return Finding("not testable here", UNKNOWN)
    three = at.sel(n=SIZE, method="nearest")
    value, low, high = (float(three[f"unattenuated{end}"]) for end in ("", "_lower", "_upper"))
    peak = int(at["n"][int(at["unattenuated"].fillna(-np.inf).argmax("n"))])
    answer: Answer = "confirmed" if low > 0 and peak <= 10 else "undetermined"
    if high < 0:
        answer = "contradicted"
    measured = rounded(float(three["correlation"]), digits=2).plain
    return Finding(
        answer,
        f"{with_interval(value, low, high)} at N = {int(three['n'])}, noise taken out; largest at"
        f" N = {peak}",
        f"As measured, with the documents' noise in it, {measured}. Heads differ in more than ρ₀.",
    )


def sink_precision(tree: xr.DataTree) -> Finding:
    """Answer whether Precision correlates with ρ₀, free of the documents' noise."""
    at = tree["sink"].to_dataset()
    if "precision_unattenuated" not in at or not at["precision_unattenuated"].notnull().any():
        return Finding("not testable here", f"{UNKNOWN}, or the run is older")
    at = at.sel(n=SIZE, method="nearest")
    value, low, high = (
        float(at[f"precision_unattenuated{end}"]) for end in ("", "_lower", "_upper")
    )
    answer: Answer = "confirmed" if low > 0 else "contradicted" if high < 0 else "undetermined"
    measured = rounded(float(at["precision_correlation"]), digits=2).plain
    return Finding(
        answer,
        f"{with_interval(value, low, high)} at N = {int(at['n'])}",
        f"As measured, with the documents' noise in it, {measured}. The claim stands in a sentence;"
        " the figure shows Recall alone.",
    )


def sink_predicted(tree: xr.DataTree) -> Finding:
    """Answer whether the printed bounds of Recall rise with ρ₀, all else as it is."""
    groups = (tree[name].to_dataset() for name in ("capture", "norms", "similarity"))
    lower, upper = change_with_sink_cosine(*groups, size=SIZE, rise=RISE)
    known = np.isfinite(lower + upper)
    heads = int(known.sum())
    if not heads:
        return Finding("not testable here", "no head has fits and sees the sink")
    rises = (np.maximum(lower, upper) > MOVES) & known
    falls = (np.minimum(lower, upper) < -MOVES) & known
    up, neither = int((rises & ~falls).sum()), int((known & ~rises).sum())
    moved = int((np.abs(lower[known]) > MOVES).sum())
    return Finding(
        by_majority(up, neither, heads),
        f"a bound rises and none falls in {up}, none rises in {neither} of {heads} heads; the lower"
        f" bound moves in {moved}",
        f"As ρ₀ alone rises by {RISE}, at N = {SIZE}. That exact means rise with ρ₀ is erratum 30's"
        " own derivation.",
    )
