"""Equivalence tests: an effect's 95% interval against a tolerance, p-values of both sides, and
answers.

One rule serves test and interval: a claim *holds* where the interval lies within the tolerance,
*fails* where it lies outside, and is *undetermined* where a limit lies between. The p-value of
either is 1 minus the level of the widest interval for which that is so, twice a one-sided one.
Sources: Schuirmann (1987), two one-sided tests; Berger (1982), intersection-union tests; Benjamini
& Hochberg (1995). Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import SIGNIFICANCE
from geostat.statistics.moderation import Errors
from geostat.statistics.multiple_testing import adjusted

Side = Literal["at_most", "at_least", "within"]
HOLDS, UNDETERMINED, FAILS, NO_ESTIMATE = 1, 0, -1, -2
ANSWERS: Final = {
    HOLDS: "holds",
    FAILS: "fails",
    UNDETERMINED: "undetermined",
    NO_ESTIMATE: "no estimate",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PValues:
    """Evidence for *holds* (against the effect lying beyond the tolerance) and for *fails*
    (against its lying within), same shape.
    """

    holds: FloatArray
    fails: FloatArray

    def adjusted(self) -> PValues:
        """Return p-values adjusted over heads (Benjamini & Hochberg): of the heads whose own is at
        most q, a share of at most q is false in expectation; NaN where p is.
        """
        return PValues(
            **{
                name: adjusted(p.ravel(), "fdr_bh").reshape(p.shape)
                for name, p in (("holds", self.holds), ("fails", self.fails))
            }
        )


def against(
    estimate: FloatArray, errors: Errors, tolerance: float | FloatArray, side: Side
) -> PValues:
    """Return the p-values of an effect against its tolerance: at most 0.05 where its 95% interval
    (`Errors.limits`) lies within, or outside.

    Args:
        estimate: effects, any shape; NaN where unknown, and so are the p-values.
        errors: theirs.
        tolerance: τ ≥ 0, units of the effect.
        side: "at_most" (holds if effect ≤ τ), "at_least" (effect ≥ τ), "within" (|effect| ≤ τ).

    >>> errors = Errors(
    ...     se=np.full(2, 0.01), degrees=np.full(2, 7), skew=np.zeros(2), documents=np.full(2, 8)
    ... )
    >>> against(np.array([0.02, 0.2]), errors, 0.1, "at_most").holds.round(4).tolist()
    [0.0001, 1.0]
    """
    below, above = errors.tails(estimate - tolerance)
    if side == "at_most":
        holds, fails = below, above
    elif side == "at_least":
        holds, fails = above, below
    else:
        far_below, far_above = errors.tails(estimate + tolerance)
        holds, fails = np.maximum(below, far_above), np.minimum(above, far_below)
    return PValues(holds=np.minimum(1.0, 2 * holds), fails=np.minimum(1.0, 2 * fails))


def mean_of_equals(
    value: FloatArray, limit: FloatArray, count: FloatArray | float, side: Side
) -> PValues:
    """Return the p-values of a mean against a limit where every document has the same value of a
    statistic in [0, 1], as curves at small N often do; `side` is "at_most" (mean ≤ limit) or
    "at_least".

    Such documents have no spread, yet do not tell the mean exactly: another text may differ. By
    Markov's inequality a document lies at `value` or above with probability mean/value at most, and
    at `value` or below with (1 − mean)/(1 − value) at most; all of them do with its power. Where
    `value` is the mean of documents that differ, it is the probability of K documents without any
    text of a kind that takes the mean to its limit: a share q of texts at 0, or at 1, would, and
    (1 − q)^K is that of meeting none.

    >>> mean_of_equals(np.array([0.2]), np.array([0.5]), 8, "at_most").holds.round(3).tolist()
    [0.023]
    """
    value, limit = np.broadcast_arrays(
        np.asarray(value, dtype=np.float64), np.clip(limit, 0.0, 1.0)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        # Were the mean at most the limit, and were it at least the limit.
        above = np.where(value > limit, limit / value, 1.0) ** count
        beyond = np.where(limit >= 1, 0.0, 1.0)
        below = np.where(value < limit, (1 - limit) / (1 - value), beyond) ** count
        above = np.where((value <= limit) & (limit <= 0), 0.0, above)
    holds, fails = (below, above) if side == "at_most" else (above, below)
    return PValues(holds=holds, fails=fails)


def intersection_union(parts: PValues) -> PValues:
    """Join p-values along the last axis: a claim holds if each part does, and fails if any does.

    *Holds* takes the largest p-value (intersection-union: no correction is needed), *fails* the
    smallest times their number (Bonferroni). Parts that are NaN are left out; NaN where all are.

    >>> p = intersection_union(PValues(holds=np.array([0.01, 0.04]), fails=np.array([0.9, 0.02])))
    >>> float(p.holds), float(p.fails)
    (0.04, 0.04)
    """
    known = np.isfinite(parts.holds) & np.isfinite(parts.fails)
    some = known.any(axis=-1)
    largest = np.where(known, parts.holds, -np.inf).max(axis=-1, initial=-np.inf)
    smallest = np.where(known, parts.fails, np.inf).min(axis=-1, initial=np.inf)
    with np.errstate(invalid="ignore"):
        return PValues(
            holds=np.where(some, largest, np.nan),
            fails=np.where(some, np.minimum(1.0, smallest * known.sum(axis=-1)), np.nan),
        )


def with_presence(p: PValues, absent: FloatArray, known: NDArray[np.bool_]) -> PValues:
    """Ask of *holds* that the effect be there at all, too, and let heads in which it was not found
    count among those tested.

    An effect that is looked for is found in noise as well, and largest where noise is largest: its
    estimate's own test would hold then. So *holds* takes the larger of its p-value and of that of
    the search in noise, `absent`, NaN where none was made (intersection-union), adjusted over all
    heads that were searched (Benjamini & Hochberg), lest the few that noise has favoured be all
    that is seen. A head without an estimate, not `known`, has p = 1 of either.
    """
    looked = np.isfinite(absent) & ~known
    present = adjusted(absent.ravel(), "fdr_bh").reshape(absent.shape)
    holds = np.where(looked, 1.0, np.fmax(p.holds, present))
    return PValues(
        holds=np.where(np.isnan(p.holds) & known, np.nan, holds),
        fails=np.where(looked, 1.0, p.fails),
    )


def answers(p: PValues, known: NDArray[np.bool_], level: float = SIGNIFICANCE) -> NDArray[np.int8]:
    """Return one answer for each head, judged alone: the one whose p-value is at most `level`.

    `p` is that of one claim over all heads, NaN where a test could not be made; `known` tells which
    heads have an estimate at all. HOLDS, FAILS, UNDETERMINED (neither; or an estimate without
    standard error) or NO_ESTIMATE. Both at once cannot happen.

    >>> p = PValues(holds=np.array([0.01, 1.0, 0.3]), fails=np.array([1.0, 0.01, 0.9]))
    >>> answers(p, np.full(3, True)).tolist()
    [1, -1, 0]
    """
    result = np.where(known, UNDETERMINED, NO_ESTIMATE).astype(np.int8)
    for values, answer in ((p.holds, HOLDS), (p.fails, FAILS)):
        result[(values <= level) & known] = answer
    return result
