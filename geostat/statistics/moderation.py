"""Moderated errors: empirical-Bayes shrinkage of variance and skewness over heads.

Tests and intervals use Student's t corrected for skewness. Eight documents estimate a variance
poorly and a skewness hardly at all; ninety heads together estimate both better. Heads that rise and
fall together over documents count as few independent heads (`effective_heads`). Sources: Smyth
(2004), "Linear models and empirical Bayes methods", SAGMB 3 (variance); Greenhouse & Geisser
(1959), "On methods in the analysis of profile data", Psychometrika 24 (correlated heads); Hall
(1992), "On the removal of skewness by transformation", JRSS B 54; Cramér (1946), standard error of
a skewness. Imports numpy and scipy.
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
"""Minimum number of heads for moderation; with fewer, intervals are Student's t."""
SCALES: Final[dict[str, tuple[Callable[..., FloatArray], Callable[..., FloatArray]]]] = {
    "log": (np.log, np.exp),
    "logit": (logit, expit),
}
"""Transforms to and from the scale of an interval, for scales other than that of the estimate."""
RANGES: Final = {"positive": (0.0, np.inf), "share": (0.0, 1.0)}
"""Ranges to which limits are clipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Standard errors, degrees of freedom and skewness of an effect, arrays of one shape.

    `se` has `degrees` degrees of freedom, of which `documents` − 1 come from the head itself.
    `skew` is the skewness over documents; NaN counts as 0.
    """

    se: FloatArray
    degrees: FloatArray
    skew: FloatArray
    documents: FloatArray

    @classmethod
    def of_t(cls, se: FloatArray, documents: FloatArray | float) -> Errors:
        """Return the errors of Student's t on K − 1 degrees of freedom, without skewness."""
        # With fewer than two documents `se` is NaN; 2 avoids zero degrees of freedom.
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
        share = np.divide(
            self.documents - 1, self.degrees, out=np.ones_like(skew), where=self.degrees > 0
        )
        return (3 * share - 1) * skew / 6, skew / (6 * self.documents), np.sqrt(self.documents)

    def without_skew(self, t: FloatArray) -> FloatArray:
        """Return t = (θ̂ − θ)/se corrected for skewness to second order, increasing in t.

        With u = t/√K the result is √K (u + cu² + c²u³/3 + g/(6K)) with c = (3w − 1)g/6. The weight
        w is the share of the degrees of freedom that come from the head. For w = 1 (the head's
        variance alone) this is Hall's transformation. For w = 0 (one variance for all heads) it is
        the transformation of a mean with known error.
        """
        c, shift, root = self._curve()
        u = np.where(np.isfinite(t), t, 0.0) / root
        return np.where(
            np.isfinite(t), root * (u + c * u**2 + c**2 * u**3 / 3 + shift), np.asarray(t)
        )

    def tails(self, distance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities of an estimate this far below and this far above the truth.

        `distance` is θ̂ − θ. A standard error of 0 means that the effect is known exactly.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(distance == 0, 0.0, distance / self.se)
        t = self.without_skew(np.where(np.isfinite(self.se), t, np.nan))
        return stdtr(self.degrees, t), stdtr(self.degrees, -t)

    def limits(self, value: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the 95% interval: the effects for which neither of `tails` is below 2.5%."""
        c, shift, root = self._curve()
        quantile = stdtrit(self.degrees, 0.5 + LEVEL / 2)
        curved = np.abs(c) > 1e-9
        ends = []
        for end in (quantile, -quantile):
            level = end / root - shift
            u = np.divide(np.cbrt(1 + 3 * c * level) - 1, c, out=np.copy(level), where=curved)
            ends.append(value - self.se * root * u)
        return ends[0], ends[1]


def effective_heads(without: FloatArray) -> float:
    """Return the number of independent heads that H heads are worth, H²/Σr².

    r are the correlations of all pairs of heads over documents, each head with itself included. The
    variances of that many independent heads determine a mean variance equally well (Greenhouse &
    Geisser, from Box 1954). It is 1 for heads that differ by a factor, and at most K − 1, for K
    documents have no more independent directions.

    Args:
        without: leave-one-out estimates, (head, document). Heads whose estimates are equal or not
            finite do not count.

    >>> documents = np.array([1.0, 2.0, 6.0])
    >>> round(effective_heads(np.stack([documents, -2 * documents, documents + 1])), 6)
    1.0
    """
    with np.errstate(invalid="ignore"):
        deviation = without - without.mean(axis=-1, keepdims=True)
    length = np.linalg.norm(deviation, axis=-1, keepdims=True)
    varies = length[:, 0] > 0
    direction = deviation[varies] / length[varies]
    # The Gram matrices of heads and of documents have equal sums of squares.
    return float(len(direction) ** 2 / max(((direction.T @ direction) ** 2).sum(), 1.0))


def moderated(
    se: FloatArray, skew: FloatArray, documents: FloatArray, without: FloatArray | None = None
) -> Errors:
    """Return the errors of one effect in many heads, moderated over all heads.

    The variance of a head's documents becomes (d₀s₀² + ds²)/(d₀ + d), d = K − 1, with d₀ + d
    degrees of freedom. Mean and spread of the log variances give s₀² and d₀ (Smyth): without spread
    beyond chance d₀ is large, and dissimilar heads keep their variances. Neither d₀ nor d₀ + d
    exceeds d times the number H_eff of `effective_heads`. A head's skewness shrinks towards
    (1 − 1/H_eff) times the mean over heads, with weight V/(V + between), V =
    6K(K−1)/((K−2)(K+1)(K+3)), `between` the variance between heads: heads that all rise and fall
    together know as little of a skewness as one head.

    Heads with no error, an error of 0 or fewer than three documents stay unchanged and without
    skewness; so do all heads where fewer than `HEADS` remain.

    Args:
        se, skew, documents: standard error, skewness and number of documents, arrays of one shape.
        without: leave-one-out estimates, documents on the last axis; None for independent heads.

    >>> se, skew, documents = np.linspace(0.9, 1.1, 12), np.full(12, 0.5), np.full(12, 8.0)
    >>> errors = moderated(se, skew, documents)
    >>> print(f"{errors.se[0]:.2f} with {errors.degrees[0]:.0f} degrees of freedom")
    1.06 with 84 degrees of freedom
    """
    se, skew, documents = (np.asarray(part, dtype=np.float64) for part in (se, skew, documents))
    unmoderated = Errors.of_t(se, documents)
    known = np.isfinite(skew) & (np.where(np.isfinite(se), se, 0.0) > 0) & (documents > 2)
    if known.sum() < HEADS:
        return unmoderated
    k, g, variance = documents[known], skew[known], documents[known] * se[known] ** 2
    d = k - 1
    log = np.log(variance) - polygamma(0, d / 2) + np.log(d / 2)
    excess = log.var(ddof=1) - polygamma(1, d / 2).mean()
    # Smyth's limit: no more degrees of freedom than all heads have
    count = len(d) if without is None else effective_heads(without[known])
    largest = max(d.mean() * count, d.max())
    prior = largest if excess <= polygamma(1, largest / 2) else _degrees(excess, largest)
    common = np.exp(log.mean() + polygamma(0, prior / 2) - np.log(prior / 2))
    degrees = np.minimum(prior + d, largest)
    chance = 6 * k * (k - 1) / ((k - 2) * (k + 1) * (k + 3))
    between = max(float(g.var(ddof=1) - chance.mean()), 0.0)
    arrays = {name: np.copy(getattr(unmoderated, name)) for name in ("se", "degrees", "skew")}
    arrays["se"][known] = np.sqrt((prior * common + d * variance) / (prior + d) / k)
    arrays["degrees"][known] = degrees
    mean = (1 - 1 / count) * g.mean()
    arrays["skew"][known] = mean + between / (between + chance) * (g - g.mean())
    return replace(unmoderated, **arrays)


def _degrees(excess: float, largest: float) -> float:
    """Return d₀ with ψ′(d₀/2) = `excess`."""
    return float(brentq(lambda d: float(polygamma(1, d / 2)) - excess, 1e-3, largest))


def over_heads(estimate: Estimate, axes: Sequence[int]) -> Estimate:
    """Return an estimate whose limits are moderated over heads, on the scale of its interval.

    `axes` are the axes of heads; the slices along other axes, such as forms, are moderated
    separately. An estimate without skewness, such as one without jackknife, keeps its limits.
    """
    if estimate.skew is None or estimate.documents is None or not axes:
        return estimate
    forward, inverse = SCALES.get(estimate.scale, (np.asarray, np.asarray))
    with np.errstate(divide="ignore", invalid="ignore"):
        value, low, high = (forward(x) for x in (estimate.value, estimate.lower, estimate.upper))
        without = None if estimate.without is None else forward(estimate.without)
        se = (
            (high - low) / (2 * critical_value(estimate.documents - 1))
            if estimate.scale in SCALES
            else estimate.se
        )
    lower, upper = np.copy(estimate.lower), np.copy(estimate.upper)
    other_axes = [axis for axis in range(se.ndim) if axis not in axes]
    for indices in np.ndindex(*(se.shape[axis] for axis in other_axes)):
        slices = [slice(None)] * se.ndim
        for axis, index in zip(other_axes, indices, strict=True):
            slices[axis] = slice(index, index + 1)
        selected = tuple(slices)
        errors = moderated(
            se[selected],
            estimate.skew[selected],
            estimate.documents[selected],
            None if without is None else without[selected],
        )
        clip_range = RANGES.get(estimate.scale, (-np.inf, np.inf))
        for limits, ends in zip((lower, upper), errors.limits(value[selected]), strict=True):
            limits[selected] = np.where(
                np.isfinite(errors.skew), np.clip(inverse(ends), *clip_range), limits[selected]
            )
    return replace(estimate, lower=lower, upper=upper)
