"""Cosine similarity (Assumption 2): claims, key result, sentence, and statements of the paper.

Source: arXiv 2602.01893, §3.2, Figure 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from geostat import paper
from geostat.datasets.variable import known, why
from geostat.statistics.jackknife import SIGNIFICANCE, jackknife
from geostat.statistics.multiple_testing import FALSE_DISCOVERIES, adjusted
from geostat.topics.records import (
    Claim,
    Finding,
    KeyResult,
    Number,
    Tolerance,
    by_verdict,
    counts_of,
    exact,
    in_percent,
    median,
    of_assumption,
    sees_sink,
    spread,
    statement,
    two_decimals,
)
from reports.text.number import count, rounded

CLAIMS: Final = (
    Claim(
        "similarity.exponential",
        "mean cosines decay as e^(−βk)",
        "mae_by_lag",
        select={"gram": "exponential"},
        flat="gain_over_constant_p",
        short="cosines decay to 0",
        tolerance=Tolerance(0.1, "§3.2: most heads have a mean absolute error of 0.05 to 0.10"),
    ),
    Claim(
        "similarity.offset",
        "mean cosines decay as c + (1−c)e^(−βk)",
        "mae_by_lag",
        select={"gram": "offset"},
        flat="gain_over_constant_p",
        short="cosines decay to a constant",
        tolerance=Tolerance(0.1, "the error of §3.2, for a rival form"),
    ),
    Claim(
        "similarity.offset_power",
        "mean cosines decay as c + (1−c)(1+k)^(−β)",
        "mae_by_lag",
        select={"gram": "offset_power"},
        flat="gain_over_constant_p",
        short="cosines decay to a constant (power law)",
        tolerance=Tolerance(0.1, "the error of §3.2, for a rival form"),
    ),
    Claim(
        "similarity.stationary",
        "the mean cosine at a given lag is the same early and late in a document",
        "drift_slope",
        "within",
        short="no drift of cosines",
        tolerance=Tolerance(0.1, "the error of §3.2, as the drift over a document"),
    ),
    Claim(
        "similarity.sink",
        "the sink's cosine is the same with early and late tokens",
        "sink_slope",
        "within",
        short="no drift of the sink's cosine",
        tolerance=Tolerance(0.1, "the error of §3.2, as the drift of Assumption 2.2"),
    ),
)
"""Claims about cosine similarity, each tested in every KV head."""


def key_result(tree: xr.DataTree) -> KeyResult:
    """Return the key result on similarity, from the verdicts on the printed decay."""
    claim = "similarity.exponential"
    verdicts = {
        "holds": "In most heads mean similarity is close to an exponential decay to 0 with lag.",
        "holds trivially": "In most heads exponential decay is close, trivial ones included.",
        "fails": "In most heads similarity does not decay exponentially to 0 with lag.",
        "mixed": "Similarity decays exponentially to 0 in some heads, not in others.",
        "undetermined": "Whether similarity decays exponentially to 0 is undetermined.",
    }
    exponential, offset = counts_of(tree, claim), counts_of(tree, "similarity.offset")
    # the smallest number of heads in which both can be the case
    if 2 * (exponential.fails + offset.holds - exponential.total) > exponential.total:
        verdicts["fails"] = "In most heads similarity decays to a constant, not exponentially to 0."
    return of_assumption(tree, "similarity", claim, verdicts, _mean_error(tree, claim))


def _mean_error(tree: xr.DataTree, claim: str) -> Number:
    """Return the mean over KV heads of the exponential's mean absolute error, as the paper does."""
    data = tree["similarity"].to_dataset().sel(gram="exponential")
    value = data["mae_by_lag"].values.ravel()
    without = data["mae_by_lag_without"].transpose("document", ...).values
    without = without.reshape(len(without), -1)
    found = Number(
        of="Mean absolute error, mean over KV heads",
        value=None,
        tolerated=known(tree["verdicts"].to_dataset()["tolerance"].sel(claim=claim)),
    )
    if not (sound := np.isfinite(value)).any():
        return found
    mean = jackknife(value[sound].mean(), without[:, sound].mean(axis=1))
    lower = known(np.maximum(mean.lower, 0.0))
    return replace(found, value=known(mean.value), lower=lower, upper=known(mean.upper))


def sentence(tree: xr.DataTree, summary: xr.Dataset, tolerances: Mapping[str, Tolerance]) -> str:
    """Return the paragraph of a report on similarity."""
    similarity = tree["similarity"].to_dataset()
    tolerance = tolerances["similarity.exponential"].value
    exponential, offset = (
        similarity.sel(gram=name)["mae_by_lag"] for name in ("exponential", "offset")
    )
    heads = int(exponential.notnull().sum())
    within = int((exponential <= tolerance).sum())
    known = similarity["beta"].sel(gram="exponential").notnull() & similarity["rho0"].notnull()
    infeasible = int((~similarity["feasible"].sel(gram="exponential").astype(bool) & known).sum())
    reason = why(similarity, "flags")
    error = spread(exponential, two_decimals, over=f" over {heads} KV heads", reason=reason)
    rival = spread(offset, lambda value: rounded(value, digits=2).plain, reason=reason)
    negative = in_percent(float(similarity["negative_fraction"].mean()))
    text = (
        "Assumption 2 (the mean cosine of two value vectors decays with their lag k as e^(−βk)):"
        f" the mean absolute error of the fitted curve has median {error}, compared with an average"
        f" of {paper.MAE:g} in the paper, and is at most {exact(tolerance)} in {within} of them."
        f" Decay to a constant, with one more parameter, has median error {rival}."
        f"{_against_constant(similarity)}{_rank_or_lag(tree)} {negative} of all cosines are"
        " negative."
    )
    if not bool(known.any()) and not sees_sink(similarity):
        return text + " No KV head has both a fitted decay and a visible sink."
    if not bool(known.any()):
        missing = why(similarity, "head_flags", ["no_data", "no_sink_cosine"]) or reason
        missing = f" ({missing})" if missing else ""
        return f"{text} No KV head has both a fitted decay and a cosine with the sink{missing}."
    return (
        f"{text} In {infeasible} of {int(known.sum())} KV heads the Gram matrix of the fitted"
        " exponential and the sink's cosine is not positive semidefinite."
    )


def _against_constant(similarity: xr.Dataset) -> str:
    """Say in how many KV heads each decay predicts held-out documents better than a constant; ""
    without the test.
    """
    if "gain_over_constant_p" not in similarity:
        return ""
    p = similarity["gain_over_constant_p"].sel(gram=["exponential", "offset"])
    if not p.notnull().any():
        return ""
    better = (p <= SIGNIFICANCE).sum(("layer", "kv_head"))
    exponential, offset = map(int, better.values)
    return (
        " On held-out documents exponential decay predicts cosines better than a constant does in"
        f" {exponential} KV heads, and decay to a constant in {offset} (paired tests at 95%)."
    )


def _rank_or_lag(tree: xr.DataTree) -> str:
    """Say whether cosines depend on the lag or on the rank of the weight; "" without the test."""
    if "amended" not in tree.children:
        return ""
    none, rank, lag, both = dependence(tree["amended"].to_dataset()).tolist()
    if not (heads := none + rank + lag + both):
        return ""
    control = tree["control"].to_dataset() if "control" in tree.children else xr.Dataset()
    untrained = ""
    if "dependence" in control:
        other_none, other_rank, other_lag, other = control["dependence"].values.tolist()
        untrained = (
            f"; untrained model, {count(control.attrs['documents'], 'document')}:"
            f" {other_rank + other}, {other_lag + other} and {other} of"
            f" {other_none + other_rank + other_lag + other}"
        )
    amended = tree["amended"].to_dataset()
    documents = count(amended.attrs["documents"], "document")
    rank_adjusted, lag_adjusted = (
        int(
            (
                adjusted(amended[f"{name}_added_p"].values.ravel(), "fdr_bh") <= FALSE_DISCOVERIES
            ).sum()
        )
        for name in ("rank", "lag")
    )
    return (
        " In predicting cosines of held-out documents the rank of the attention weight adds to the"
        f" lag in {rank + both} of {heads} heads, the lag to the rank in {lag + both}, both in"
        f" {both} (paired tests at 95% over {documents}{untrained}). At a false-discovery rate of"
        f" {FALSE_DISCOVERIES:.0%} the first two counts are {rank_adjusted} and {lag_adjusted}."
    )


def dependence(amended: xr.Dataset) -> NDArray[np.int64]:
    """Return the number of heads whose cosines are shown to depend on neither, on the rank, on the
    lag and on both, (4,).
    """
    codes = amended["depends_on"].values.ravel().astype(np.int64)
    return np.bincount(codes[codes >= 0], minlength=4)


@statement(
    "similarity decays exponentially with distance",
    "abstract, §3.2, Figure 3",
    "mean absolute error 0.09 on average",
    "similarity.exponential holds (fails) in more than half of the KV heads",
    null="a constant cosine; an error beyond the tolerance",
)
def decay_exponential(tree: xr.DataTree) -> Finding:
    """Test whether similarity decays exponentially, by the verdicts on its error."""
    mae = tree["similarity"]["mae_by_lag"]
    printed, offset = (
        rounded(float(mae.sel(gram=name).mean()), digits=2).plain
        for name in ("exponential", "offset")
    )
    return by_verdict(
        tree,
        "similarity.exponential",
        f"mean error {printed}",
        f"With an offset, which is one parameter more, the mean error is {offset}.",
    )


@statement(
    "the sink's mean cosine is the same with early and late tokens",
    "§3.2, Assumption 2",
    "no number",
    "similarity.sink holds (fails) in more than half of the KV heads. Holds trivially if the"
    " tolerance exceeds |ρ₀| in more than half: a cosine near 0 has little room to change",
    null="a trend beyond the tolerance; cosines of random directions, near 0",
)
def sink_one_cosine(tree: xr.DataTree) -> Finding:
    """Test whether the sink's cosine is constant along a document, by the verdicts on its slope."""
    similarity = tree["similarity"].to_dataset()
    limit = float(tree["verdicts"].to_dataset()["tolerance"].sel(claim="similarity.sink"))
    change, level = (
        rounded(median(abs(similarity[name])), digits=2).plain for name in ("sink_slope", "rho0")
    )
    small, known_heads = int((abs(similarity["rho0"]) < limit).sum()), similarity["rho0"].notnull()
    finding = by_verdict(
        tree,
        "similarity.sink",
        f"median change {change}, median |ρ₀| {level}",
        "Tested effect: the change of the cosine along the document. The tolerance,"
        f" {exact(limit)}, exceeds |ρ₀| in {small} of {int(known_heads.sum())} KV heads.",
    )
    trivial = finding.answer == "confirmed" and 2 * small > int(known_heads.sum())
    return replace(finding, answer="holds trivially") if trivial else finding
