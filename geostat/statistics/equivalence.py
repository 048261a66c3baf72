"""Equivalence tests: the 95% interval of an effect against a tolerance, p-values of both sides, and
answers.

Test and interval agree: a claim *holds* where the interval lies within the tolerance, *fails* where
it lies outside, and is *undetermined* where the interval crosses a limit. Either p-value is twice
the one-sided one: 1 minus the level of the widest interval with that answer. A claim on a form that
must also beat a flat form *holds trivially* where only the tolerance is met (`beyond_flat`).
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
HOLDS_TRIVIALLY, HOLDS, UNDETERMINED, FAILS, NO_ESTIMATE = 2, 1, 0, -1, -2
ANSWERS: Final = {
    HOLDS: "holds",
    HOLDS_TRIVIALLY: "holds trivially",
    FAILS: "fails",
    UNDETERMINED: "undetermined",
    NO_ESTIMATE: "no estimate",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PValues:
    """P-values of *holds* and *fails*, arrays of one shape.

    The null hypothesis of *holds* is an effect beyond the tolerance; that of *fails* is an effect
    within it.
    """

    holds: FloatArray
    fails: FloatArray

    def adjusted(self) -> PValues:
        """Return p-values adjusted over heads by Benjamini & Hochberg; NaN where p is NaN.

        Among the heads with an adjusted p-value of at most q, the expected share of false answers
        is at most q.
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
    """Return the p-values of an effect against its tolerance τ ≥ 0, in units of the effect.

    A p-value is at most 0.05 where the 95% interval (`Errors.limits`) lies within the tolerance, or
    outside; NaN for an unknown effect. `side` is "at_most" (holds if effect ≤ τ), "at_least"
    (effect ≥ τ) or "within" (|effect| ≤ τ).

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
    """Return the p-values of a mean against a limit where all documents share one value in [0, 1].

    Curves at small N often give such documents. They have no spread, yet other texts may differ. By
    Markov's inequality a document lies at `value` or above with probability at most mean/value, and
    at `value` or below with probability at most (1 − mean)/(1 − value). All K documents do with the
    K-th power of that probability.

    If `value` is the mean of documents that differ, the p-value is the probability that K documents
    miss a kind of text that moves the mean to its limit. A share q of texts at 0, or at 1, does so;
    K documents miss them with probability (1 − q)^K. `side` is "at_most" (mean ≤ limit) or
    "at_least".

    >>> mean_of_equals(np.array([0.2]), np.array([0.5]), 8, "at_most").holds.round(3).tolist()
    [0.023]
    """
    value, limit = np.broadcast_arrays(
        np.asarray(value, dtype=np.float64), np.clip(limit, 0.0, 1.0)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        # `above` assumes a mean of at most the limit, `below` a mean of at least the limit.
        above = np.where(value > limit, limit / value, 1.0) ** count
        at_or_above = np.where(limit >= 1, 0.0, 1.0)
        below = np.where(value < limit, (1 - limit) / (1 - value), at_or_above) ** count
        above = np.where((value <= limit) & (limit <= 0), 0.0, above)
    holds, fails = (below, above) if side == "at_most" else (above, below)
    return PValues(holds=holds, fails=fails)


def intersection_union(parts: PValues) -> PValues:
    """Combine the p-values of the parts of a claim along the last axis.

    A claim holds if every part holds: the largest p-value (intersection-union, without correction).
    It fails if any part fails: the smallest p-value times the number of parts (Bonferroni). NaN
    parts are ignored; NaN where all are NaN.

    >>> p = intersection_union(PValues(holds=np.array([0.01, 0.04]), fails=np.array([0.9, 0.02])))
    >>> float(p.holds), float(p.fails)
    (0.04, 0.04)
    """
    known = np.isfinite(parts.holds) & np.isfinite(parts.fails)
    any_known = known.any(axis=-1)
    largest = np.where(known, parts.holds, -np.inf).max(axis=-1, initial=-np.inf)
    smallest = np.where(known, parts.fails, np.inf).min(axis=-1, initial=np.inf)
    with np.errstate(invalid="ignore"):
        return PValues(
            holds=np.where(any_known, largest, np.nan),
            fails=np.where(any_known, np.minimum(1.0, smallest * known.sum(axis=-1)), np.nan),
        )


def with_presence(p: PValues, absent: FloatArray, known: NDArray[np.bool_]) -> PValues:
    """Require for *holds* that the effect is present, and count heads where the search found none.

    A search finds effects in noise too, and the largest where noise is largest; the test of such an
    estimate would hold. *Holds* therefore takes the larger of its p-value and of `absent`, the
    p-value of the search in noise, adjusted over all searched heads (intersection-union; Benjamini
    & Hochberg). `absent` is NaN where no search was made. A searched head without an estimate (not
    `known`) gets p = 1 for both answers.
    """
    searched_only = np.isfinite(absent) & ~known
    present = adjusted(absent.ravel(), "fdr_bh").reshape(absent.shape)
    holds = np.where(searched_only, 1.0, np.fmax(p.holds, present))
    return PValues(
        holds=np.where(np.isnan(p.holds) & known, np.nan, holds),
        fails=np.where(searched_only, 1.0, p.fails),
    )


def beyond_flat(p: PValues, flat: FloatArray) -> PValues:
    """Require for *holds* that a form predicts better than a flat one.

    `flat` is the p-value of a held-out loss that is not below the flat form's
    (`one_standard_error.gain_over`). *Holds* takes the larger p-value (intersection-union). Without
    a test (NaN: fewer than two documents) nothing shows that the form beats the flat one: p = 1.

    >>> p = PValues(holds=np.array([0.01, 0.01]), fails=np.ones(2))
    >>> beyond_flat(p, np.array([0.03, np.nan])).holds.tolist()
    [0.03, 1.0]
    """
    untested = np.where(np.isnan(flat), 1.0, flat)
    return PValues(holds=np.maximum(p.holds, untested), fails=p.fails)


def answers(
    p: PValues,
    known: NDArray[np.bool_],
    within: FloatArray | None = None,
    level: float = SIGNIFICANCE,
) -> NDArray[np.int8]:
    """Return one answer for each head: the answer whose p-value is at most `level`.

    `p` holds the p-values of one claim over all heads, NaN where a test could not be made. `known`
    marks heads with an estimate. `within` is the p-value of *holds* before `beyond_flat`. Answers
    are HOLDS, FAILS, HOLDS_TRIVIALLY (only `within` is at most `level`), UNDETERMINED (none, or an
    estimate without standard error) or NO_ESTIMATE. HOLDS and FAILS exclude each other.

    >>> p = PValues(holds=np.array([0.01, 1.0, 0.3]), fails=np.array([1.0, 0.01, 0.9]))
    >>> answers(p, np.full(3, True)).tolist()
    [1, -1, 0]
    """
    result = np.where(known, UNDETERMINED, NO_ESTIMATE).astype(np.int8)
    of_tolerance = p.holds if within is None else within
    for values, answer in (
        (of_tolerance, HOLDS_TRIVIALLY),
        (p.holds, HOLDS),
        (p.fails, FAILS),
    ):
        result[(values <= level) & known] = answer
    return result
