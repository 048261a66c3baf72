"""Value norms (Assumption 1): claims, key result, sentence, and statements of the paper.

Source: arXiv 2602.01893, §3.1, Figure 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import xarray as xr

from geostat import paper
from geostat.datasets.variable import why
from geostat.topics.records import (
    Claim,
    Finding,
    KeyResult,
    Tolerance,
    by_verdict,
    counts_of,
    functional_sinks,
    in_percent,
    median,
    of_assumption,
    pooled,
    quartiles,
    sink_missing,
    spread,
    statement,
    two_decimals,
)
from reports.text.number import rounded

CLAIMS: Final = (
    Claim(
        "norms.cv",
        "value norms are constant within each document (sink excluded)",
        "cv_token",
        short="constant norms: within a document",
        tolerance=Tolerance(0.05, "§3.1: only a small fraction of CVs exceeds 0.05"),
    ),
    Claim(
        "norms.cv_profile",
        "value norms averaged over these documents are constant (sink excluded)",
        "cv_profile",
        short="constant norms: mean of documents",
        tolerance=Tolerance(0.05, "§3.1 and Figure 2, where norms are averaged over texts first"),
    ),
    Claim(
        "norms.cv_position",
        "value norms averaged over infinitely many documents are constant (sink excluded)",
        "cv_position",
        short="constant norms: limit of the mean",
        tolerance=Tolerance(
            0.05,
            "§3.1 and Figure 2, without the document noise that remains in the mean",
        ),
    ),
    Claim(
        "norms.trend",
        "value norms have no trend along a document",
        "trend",
        "within",
        short="no trend in norms",
        tolerance=Tolerance(
            0.1, "twice the CV of §3.1, as the change from the first token to the last"
        ),
    ),
    Claim(
        "norms.sink",
        "the sink's norm is much smaller than the norms of other tokens",
        "lam",
        short="small sink norm",
        tolerance=Tolerance(0.5, "Assumption 1.2 requires λ ≪ 1; 0.5 is the weakest reading"),
    ),
)
"""Claims about value norms, each tested in every KV head."""


def key_result(tree: xr.DataTree) -> KeyResult:
    """Return the key result on value norms, from the verdicts on the CV within a document."""
    return of_assumption(
        tree,
        "norms",
        "norms.cv",
        {
            "holds": "In most heads value norms are nearly constant within a document.",
            "fails": "In most heads value norms vary within a document.",
            "mixed": "Value norms are nearly constant in some heads, not in others.",
            "undetermined": "Whether value norms are constant within a document is undetermined.",
        },
        pooled(
            tree, "whole", "Pooled CV within a document", claim="norms.cv", parameter="cv_token"
        ),
    )


def sentence(tree: xr.DataTree, summary: xr.Dataset, tolerances: Mapping[str, Tolerance]) -> str:
    """Return the paragraph of a report on value norms."""
    norms = tree["norms"].to_dataset()
    tolerance, largest_sink = (tolerances[f"norms.{claim}"].value for claim in ("cv", "sink"))
    heads = quartiles(norms["cv_token"])[3]
    within = int((norms["cv_token"] <= tolerance).sum())
    reason = why(norms, "flags", ["no_norms", "zero_norms"])
    token, profile, limit = (
        spread(norms[name], in_percent, reason=reason)
        for name in ("cv_token", "cv_profile", "cv_position")
    )
    text = (
        "Assumption 1 (value norms are constant, except for a smaller norm of the sink, the first"
        f" token): within a document, the median coefficient of variation (CV) over {heads} KV"
        f" heads is {token}, and the CV is at most {100 * tolerance:g}% in {within} of them. The"
        f" paper reports {paper.CV_RANGE[0]:.0%} to {paper.CV_RANGE[1]:.0%} for norms averaged over"
        f" documents first; here this median CV is {profile}, and {limit} in the limit of"
        " infinitely many documents."
    )
    sinks = quartiles(norms["lam"])[3]
    if not sinks:
        missing = sink_missing(norms, "λ", reason or why(norms, "flags", ["no_sink"]))
        return f"{text} {missing}.{functional_sinks(tree)}"
    compressed = int((norms["lam"] <= largest_sink).sum())
    ratio = spread(norms["lam"], two_decimals, over=f" over {sinks} KV heads")
    return (
        f"{text} The ratio λ of the sink's norm to the mean norm of the other tokens has median"
        f" {ratio}; λ ≤ {largest_sink:g} in {compressed} of"
        f" them.{functional_sinks(tree)}"
    )


@statement(
    "value norms are nearly constant, except for the sink's",
    "abstract, §3.1, Figure 2",
    "CV 0.02 to 0.03 in most heads",
    "norms.cv holds (fails) in more than half of the KV heads",
    null="a CV beyond the tolerance",
)
def norms_stable(tree: xr.DataTree) -> Finding:
    """Test whether norms are nearly constant, by the verdicts on the CV within a document."""
    norms = tree["norms"].to_dataset()
    within, averaged, limit = (
        rounded(median(norms[name]), digits=2).plain
        for name in ("cv_token", "cv_profile", "cv_position")
    )
    of_means, of_limits = counts_of(tree, "norms.cv_profile"), counts_of(tree, "norms.cv_position")
    return by_verdict(
        tree,
        "norms.cv",
        f"median CV {within} within a document",
        "Averaged over these documents first, as in the paper's figure, the median CV is"
        f" {averaged} (holds in {of_means.holds}, fails in {of_means.fails}), in the limit of many"
        f" documents {limit} (holds in {of_limits.holds}, fails in {of_limits.fails}): averaging"
        " removes differences between the tokens at a position.",
    )


@statement(
    "the sink's value norm is much smaller than the others",
    "abstract, §3.1, Figure 2",
    "markedly smaller, λ ≪ 1",
    "norms.sink holds (fails) in more than half of the KV heads",
    null="a sink norm beyond the tolerance",
)
def sink_compressed(tree: xr.DataTree) -> Finding:
    """Test whether the sink's value norm is much smaller, by the verdicts on λ."""
    lam = rounded(median(tree["norms"].to_dataset()["lam"]), digits=2).plain
    return by_verdict(tree, "norms.sink", f"median λ = {lam}")
