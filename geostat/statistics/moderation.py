"""Moderated errors: variance and skewness of an effect's documents, shrunk over heads by empirical
Bayes, and Student's t freed of skewness, for tests and intervals alike.

Eight documents hardly tell a variance, and a skewness not at all; ninety heads do. Sources: Smyth
(2004), "Linear models and empirical Bayes methods", SAGMB 3 (variance); Hall (1992), "On the
removal of skewness by transformation", JRSS B 54; Cramér (1946), the error of a skewness. Imports
numpy and scipy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, polygamma, stdtr, stdtrit

from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import LEVEL, Estimate
from geostat.statistics.t_test import critical_value

HEADS: Final = 10
"""Fewer heads than this tell each other too little: their intervals are Student's t."""
SCALES: Final[dict[str, tuple[Callable[..., FloatArray], Callable[..., FloatArray]]]] = {
    "log": (np.log, np.exp),
    "logit": (logit, expit),
}
"""To and from the scale on which an interval is made, where that is not the estimate's own."""
RANGES: Final = {"positive": (0.0, np.inf), "share": (0.0, 1.0)}
"""Where limits are cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """What an effect's test and interval rest on, arrays of one shape.

    `se` has `degrees` of freedom, of which `documents` − 1 are a head's own; `skew` is the skewness
    of single documents, NaN where it is not known and taken as 0.
    """

    se: FloatArray
    degrees: FloatArray
    skew: FloatArray
    documents: FloatArray

    @classmethod
    def of_t(cls, se: FloatArray, documents: FloatArray | float) -> Errors:
        """Return those of Student's t on K − 1 degrees of freedom, without skewness."""
        # Fewer than two have no error.
        count = np.broadcast_to(np.fmax(np.asarray(documents, dtype=np.float64), 2), se.shape)
        return cls(
            se=se,
            degrees=count - 1,
            skew=np.full(se.shape, np.nan),
            documents=count,
        )

    def _curve(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return c, the shift and √K of `without_skew`."""
        skew = np.nan_to_num(self.skew)
        own = np.divide(
            self.documents - 1, self.degrees, out=np.ones_like(skew), where=self.degrees > 0
        )
        return (3 * own - 1) * skew / 6, skew / (6 * self.documents), np.sqrt(self.documents)

    def without_skew(self, t: FloatArray) -> FloatArray:
        """Return t = (θ̂ − θ)/se freed of skewness to second order, increasing in t.

        With u = t/√K it is √K (u + cu² + c²u³/3 + g/(6K)) with c = (3w − 1)g/6: Hall's for w = 1,
        where the variance is a head's own; w is that share of the degrees of freedom. Where all
        heads have one variance, w = 0, it is the transformation of a mean whose error is known.
        """
        c, shift, root = self._curve()
        u = np.where(np.isfinite(t), t, 0.0) / root
        return np.where(
            np.isfinite(t), root * (u + c * u**2 + c**2 * u**3 / 3 + shift), np.asarray(t)
        )

    def tails(self, distance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities of an estimate as far below, and as far above, the truth as
        `distance` = θ̂ − θ; an error of 0 stands for an effect known exactly.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(distance == 0, 0.0, distance / self.se)
        t = self.without_skew(np.where(np.isfinite(self.se), t, np.nan))
        return stdtr(self.degrees, t), stdtr(self.degrees, -t)

    def limits(self, value: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the 95% interval: the effects that `tails` do not leave below 2.5%."""
        c, shift, root = self._curve()
        quantile = stdtrit(self.degrees, 0.5 + LEVEL / 2)
        bent = np.abs(c) > 1e-9
        ends = []
        for end in (quantile, -quantile):
            level = end / root - shift
            u = np.divide(np.cbrt(1 + 3 * c * level) - 1, c, out=np.copy(level), where=bent)
            ends.append(value - self.se * root * u)
        return ends[0], ends[1]


def moderated(se: FloatArray, skew: FloatArray, documents: FloatArray) -> Errors:
    """Return the errors of one effect in many heads, each moderated by all.

    A head's variance of single documents becomes (d₀s₀² + ds²)/(d₀ + d), d = K − 1, with d₀ + d
    degrees of freedom; s₀² and d₀ are what the logarithms of all variances have for mean and spread
    (Smyth): no spread beyond chance makes d₀ large, heads unlike one another leave each its own.
    A head's skewness moves towards the mean of all by its variance 6K(K−1)/((K−2)(K+1)(K+3)) over
    the sum of that and of the variance between heads.

    Heads without an error, with one of 0 or fewer than three documents stay as they are and without
    skewness, and so do all where there are fewer than `HEADS` others.

    >>> se, skew, documents = np.linspace(0.9, 1.1, 12), np.full(12, 0.5), np.full(12, 8.0)
    >>> errors = moderated(se, skew, documents)
    >>> print(f"{errors.se[0]:.2f} with {errors.degrees[0]:.0f} degrees of freedom")
    1.06 with 84 degrees of freedom
    """
    se, skew, documents = (np.asarray(part, dtype=np.float64) for part in (se, skew, documents))
    own = Errors.of_t(se, documents)
    known = np.isfinite(skew) & (np.where(np.isfinite(se), se, 0.0) > 0) & (documents > 2)
    if known.sum() < HEADS:
        return own
    k, g, variance = documents[known], skew[known], documents[known] * se[known] ** 2
    d = k - 1
    log = np.log(variance) - polygamma(0, d / 2) + np.log(d / 2)
    excess = log.var(ddof=1) - polygamma(1, d / 2).mean()
    most = d.sum()  # Smyth's limit of all degrees of freedom: no more than the heads have
    prior = most if excess <= polygamma(1, most / 2) else _degrees(excess, most)
    common = np.exp(log.mean() + polygamma(0, prior / 2) - np.log(prior / 2))
    degrees = np.minimum(prior + d, most)
    chance = 6 * k * (k - 1) / ((k - 2) * (k + 1) * (k + 3))
    between = max(float(g.var(ddof=1) - chance.mean()), 0.0)
    parts = {name: np.copy(getattr(own, name)) for name in ("se", "degrees", "skew")}
    parts["se"][known] = np.sqrt((prior * common + d * variance) / (prior + d) / k)
    parts["degrees"][known] = degrees
    parts["skew"][known] = g.mean() + between / (between + chance) * (g - g.mean())
    return replace(own, **parts)


def _degrees(excess: float, most: float) -> float:
    """d₀ with ψ′(d₀/2) = `excess`."""
    return float(brentq(lambda d: float(polygamma(1, d / 2)) - excess, 1e-3, most))


def over_heads(estimate: Estimate, axes: Sequence[int]) -> Estimate:
    """Return an estimate whose limits are those of `moderated`, on the scale on which they were
    made.

    `axes` are those of heads; along others, such as forms, each has heads of its own. What has no
    skewness, as it is no jackknife, keeps its limits.
    """
    if estimate.skew is None or estimate.documents is None or not axes:
        return estimate
    there, back = SCALES.get(estimate.scale, (np.asarray, np.asarray))
    with np.errstate(divide="ignore", invalid="ignore"):
        value, low, high = (there(x) for x in (estimate.value, estimate.lower, estimate.upper))
        se = (
            (high - low) / (2 * critical_value(estimate.documents - 1))
            if estimate.scale in SCALES
            else estimate.se
        )
    lower, upper = np.copy(estimate.lower), np.copy(estimate.upper)
    others = [axis for axis in range(se.ndim) if axis not in axes]
    for place in np.ndindex(*(se.shape[axis] for axis in others)):
        at = [slice(None)] * se.ndim
        for axis, index in zip(others, place, strict=True):
            at[axis] = slice(index, index + 1)
        one = tuple(at)
        errors = moderated(se[one], estimate.skew[one], estimate.documents[one])
        new, cut = errors.limits(value[one]), RANGES.get(estimate.scale, (-np.inf, np.inf))
        for limits, ends in ((lower, new[0]), (upper, new[1])):
            limits[one] = np.where(np.isfinite(errors.skew), np.clip(back(ends), *cut), limits[one])
    return replace(estimate, lower=lower, upper=upper)
