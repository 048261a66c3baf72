"""Shares with Wilson's interval, by statsmodels: of counts, and means of values in [0, 1].

Precision and Recall of a head lie near 1 at small N, where the documents of a sample often agree:
Student's t then gives an interval of width 0. A mean p of values in [0, 1] has the variance
φ p(1 − p)/K, φ ≤ 1 (quasi-likelihood, Wedderburn 1974); with φ estimated over all heads, Wilson's
interval with K/φ trials has nearly its level (studies/shares.py). Source: Wilson (1927), Journal of
the American Statistical Association 22.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import LEVEL, Estimate
from geostat.statistics.losses import mean_over_documents


def wilson(successes: NDArray[Any], trials: NDArray[Any]) -> Estimate:
    """Return a share with Wilson's 95% interval; NaN without trials.

    The standard error is half the interval's width over the normal quantile, and never 0.
    `successes` and `trials` have one shape and need not be integers.

    >>> share = wilson(np.array([7]), np.array([8]))
    >>> print(f"{share.value[0]:.3f}, {share.lower[0]:.3f} to {share.upper[0]:.3f}")
    0.875, 0.529 to 0.978
    """
    from statsmodels.stats.proportion import proportion_confint

    n = np.where(trials > 0, trials, np.nan).astype(np.float64)
    lower, upper = proportion_confint(successes, n, alpha=1.0 - LEVEL, method="wilson")
    z = float(ndtri(0.5 + LEVEL / 2))
    return Estimate(value=successes / n, se=(upper - lower) / (2.0 * z), lower=lower, upper=upper)


def share_over_documents(values: FloatArray) -> Estimate:
    """Return means over documents of values in [0, 1], with Wilson's interval.

    The trials are K/φ. φ is pooled over all heads at the same N: Σ s² over the sum of p̂(1 − p̂) +
    s²/K, which has the expectation of p(1 − p). Where no two documents differ in any head, the
    limits are the mean.

    Args:
        values: (document, ..., n), NaN where a document does not carry the value.

    Returns:
        Means with limits, (..., n); the limits are NaN with fewer than two documents.

    >>> head = share_over_documents(np.array([[[1.0], [0.5]], [[1.0], [0.0]], [[1.0], [1.0]]]))
    >>> print(f"{head.value[0, 0]:.0f}, {head.lower[0, 0]:.2f} to {head.upper[0, 0]:.2f}")
    1, 0.51 to 1.00
    """
    known = np.isfinite(values)
    count, mean = known.sum(axis=0), np.clip(mean_over_documents(values), 0.0, 1.0)
    variance = ratio((np.where(known, values - mean, 0.0) ** 2).sum(axis=0), count - 1.0)
    sampled = np.isfinite(variance)
    heads = tuple(range(mean.ndim - 1))
    binomial = mean * (1.0 - mean) + ratio(variance, count)
    totals = (np.where(sampled, part, 0.0).sum(axis=heads) for part in (variance, binomial))
    dispersion = np.minimum(ratio(*totals), 1.0)
    trials = np.where(sampled, ratio(count, np.broadcast_to(dispersion, mean.shape)), np.nan)
    share = wilson(mean * trials, trials)
    constant = sampled & ~(dispersion > 0)
    return Estimate(
        value=np.where(count > 0, mean, np.nan),
        se=np.where(constant, 0.0, share.se),
        lower=np.where(constant, mean, share.lower),
        upper=np.where(constant, mean, share.upper),
    )
