"""Equivalence tests: two one-sided p-values of an effect against a tolerance, and answers under a
false-discovery rate.

Sources: Schuirmann (1987), two one-sided tests; Hall (1992), "On the removal of skewness by
transformation", JRSS B 54; Cramér (1946), the error of a skewness; Berger (1982),
intersection-union tests; Benjamini & Hochberg (1995). Imports numpy and scipy.special.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from geostat.statistics.arrays import FloatArray
from geostat.statistics.multiple_testing import FALSE_DISCOVERIES, adjusted

REACH: Final = 0.75
"""How many standard errors a skewness may differ from its estimate, to the worse: the smallest step
of a grid at which no kind of planted heads is answered falsely in more than 5% at its tolerance;
`python -m studies.verdicts --claim norms similarity --calibrate` finds it.
"""

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
        """Return p-values adjusted over heads (Benjamini & Hochberg): an answer is given where its
        own is at most q; NaN where p is.
        """
        return PValues(
            **{
                name: adjusted(p.ravel(), "fdr_bh").reshape(p.shape)
                for name, p in (("holds", self.holds), ("fails", self.fails))
            }
        )


def one_sided(
    estimate: FloatArray,
    se: FloatArray,
    degrees: FloatArray | float,
    tolerance: float | FloatArray,
    side: Side,
    skew: FloatArray | None = None,
    reach: float = REACH,
) -> PValues:
    """Return the p-values of an effect against its tolerance.

    Where documents are skewed, an estimate on the thin side of the truth comes with a small
    standard error, and Student's t answers falsely too often. Hall's transformation takes most of
    the skewness out of t; a few documents hardly tell it, so an answer must pass with the estimated
    skewness, with one that is worse by up to `reach` of its standard errors, and by t itself: the
    largest p-value counts. The correction is that of a mean, to second order; for other effects it
    is an approximation.

    Args:
        estimate: effects, any shape; NaN where unknown, and so are the p-values.
        se: their standard errors; 0 stands for an effect known exactly.
        degrees: degrees of freedom of Student's t, such as documents − 1.
        tolerance: τ ≥ 0, units of the effect.
        side: "at_most" (holds if effect ≤ τ), "at_least" (effect ≥ τ), "within" (|effect| ≤ τ:
            *holds* is the larger of two p-values, *fails* by t alone is exact at |effect| = τ).
        skew: skewness of single documents (`jackknife.skewness`); Student's t alone where NaN.
        reach: how far the skewness may be worse than estimated, in its standard errors.

    >>> p = one_sided(np.array([0.02, 0.2]), np.array([0.01, 0.01]), 7, 0.1, "at_most")
    >>> p.holds.round(4).tolist()
    [0.0, 1.0]
    """
    estimate, se = np.asarray(estimate, dtype=np.float64), np.asarray(se, dtype=np.float64)
    below = partial(_below, se=se, degrees=degrees, reach=reach)
    skew = np.full(estimate.shape, np.nan) if skew is None else skew
    if side != "within":
        away, tilt = estimate - tolerance, skew
        if side == "at_least":
            away, tilt = -away, -tilt
        return PValues(holds=below(away, tilt), fails=below(-away, -tilt))
    size, outward = np.abs(estimate), np.where(estimate < 0, -skew, skew)
    return PValues(
        holds=np.maximum(below(estimate - tolerance, skew), below(-tolerance - estimate, -skew)),
        fails=np.minimum(
            1.0, below(tolerance - size, -outward) + below(-tolerance - size, -outward)
        ),
    )


def _below(
    distance: FloatArray,
    skew: FloatArray,
    *,
    se: FloatArray,
    degrees: FloatArray | float,
    reach: float,
) -> FloatArray:
    """P(T ≤ distance / se): small where the effect is surely below."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(se > 0, distance / se, np.where(se == 0, np.sign(distance) * np.inf, np.nan))
    t = np.where((se == 0) & (distance == 0), 0.0, t)
    return np.where(np.isnan(t), np.nan, stdtr(degrees, without_skew(t, skew, degrees, reach)))


def without_skew(
    t: FloatArray, skew: FloatArray, degrees: FloatArray | float, reach: float = REACH
) -> FloatArray:
    """Return Student's t or what Hall's transformation makes of it, whichever is larger; t where
    the skewness is unknown, NaN.

    With u = t/√K, K = degrees + 1 ≥ 3, and a skewness g of single documents it is √K (u + g
    u²/3 + g² u³/27 + g/(6K)), increasing in t at any g; g is that one which makes it largest
    between the estimate `skew` and `reach` standard errors √(6K(K−1)/((K−2)(K+1)(K+3))) above it.

    >>> without_skew(np.array([-2.0]), np.array([0.5]), 7.0).round(3).tolist()
    [-1.478]
    """
    known = np.isfinite(t) & np.isfinite(skew)
    number = np.maximum(np.asarray(degrees, dtype=np.float64) + 1, 3)
    u, least = np.where(known, t, 0.0) / np.sqrt(number), np.where(known, skew, 0.0)
    most = least + reach * np.sqrt(
        6 * number * (number - 1) / ((number - 2) * (number + 1) * (number + 3))
    )

    def hall(g: FloatArray) -> FloatArray:
        return np.asarray(
            np.sqrt(number) * (u + g * u**2 / 3 + g**2 * u**3 / 27 + g / (6 * number))
        )

    # A parabola in g that opens downwards where u is below 0; its summit lies within reach only
    # where u is large.
    summit = np.divide(
        13.5 * (u**2 / 3 + 1 / (6 * number)), -(u**3), out=np.copy(least), where=u < -1e-6
    )
    worst = np.maximum(np.maximum(hall(least), hall(most)), hall(np.clip(summit, least, most)))
    return np.where(known, np.maximum(t, worst), t)


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
    the search in noise, `absent`, NaN where none was made (intersection-union), and a head without
    an estimate, not `known`, has p = 1 of either, lest the procedure over heads see only those
    that passed.
    """
    looked = np.isfinite(absent) & ~known
    holds = np.where(looked, 1.0, np.maximum(p.holds, absent))
    return PValues(holds=holds, fails=np.where(looked, 1.0, p.fails))


def answers(
    p: PValues, known: NDArray[np.bool_], level: float = FALSE_DISCOVERIES
) -> NDArray[np.int8]:
    """Return one answer for each head, by Benjamini and Hochberg's procedure at the rate `level`,
    for *holds* and *fails* apart.

    `p` is that of one claim over all heads, NaN where a test could not be made; `known` tells which
    heads have an estimate at all. HOLDS, FAILS, UNDETERMINED (neither; or an estimate without
    standard error) or NO_ESTIMATE. Both at once cannot happen for q < 1/2.

    >>> p = one_sided(np.array([0.02, 0.2]), np.array([0.01, 0.01]), 7, 0.1, "at_most")
    >>> answers(p, np.array([True, True])).tolist()
    [1, -1]
    """
    result, over_heads = np.where(known, UNDETERMINED, NO_ESTIMATE).astype(np.int8), p.adjusted()
    for values, answer in ((over_heads.holds, HOLDS), (over_heads.fails, FAILS)):
        result[(values <= level) & known] = answer
    return result
