"""Error of an average by quadrature, from the spread of independently shifted or scrambled copies
of one rule.

The copies are independent and unbiased. If the integrand varies at the nodes, the error of the mean
of R copies is at most Student's quantile times its standard error, except in one case of
1/`CONFIDENCE`. `missed_probability` allows for events that the nodes missed. A sum of such means
over tokens has effective degrees of freedom by Satterthwaite (1946): the sum over equal parts, down
to those of a single dominant part. Shifts come from a fixed seed: equal heads have equal bounds.
Unitless. Imports numpy and scipy.special.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import stdtrit

from theory.arrays import BoolArray, FloatArray, IntArray

CONFIDENCE = 1e-4
"""One-sided probability that the error of an average exceeds its estimate."""

FLOOR = 1e-4
"""Least error of an average: tables are interpolated, and rarer events may lie between nodes."""

TOLERANCE = 0.003
"""Error of an average below which no nodes are added."""

WITHIN = 0.01
"""Largest error of an average in use: a larger one, from few uneven parts, is poorly estimated."""


def error_of_mean(variance: FloatArray, freedom: FloatArray | float) -> FloatArray:
    """Return the error of averages with this sampling variance and its degrees of freedom."""
    return np.asarray(-stdtrit(freedom, CONFIDENCE) * np.sqrt(variance) + FLOOR)


def error_of_sums(variances: FloatArray, freedom: int) -> FloatArray:
    """Return the errors of sums over rows of averages, from their variances (rows, sums)."""
    total, squares = variances.sum(axis=0), (variances**2).sum(axis=0)
    degrees = np.divide(
        freedom * total**2, squares, out=np.full_like(total, freedom), where=squares > 0
    )
    return error_of_mean(total, np.maximum(degrees, freedom))


def missed_probability(nodes: FloatArray | float) -> FloatArray:
    """Return the largest probability of an event that all of `nodes` independent nodes missed.

    Over rows of n_i nodes Σ n_i p_i is bounded; the weighted sum of the p_i is at most the value
    for one node times the largest weight/n_i. With evenly spaced, weighted nodes an event near the
    centre meets as few as a quarter of its share of nodes and may be four times as probable.
    """
    return np.asarray(-math.log(CONFIDENCE) / np.asarray(nodes))


def variance_of_mean(parts: FloatArray, axis: int) -> FloatArray:
    """Return the sampling variance of the mean of independent parts along an axis."""
    return np.asarray(parts.var(axis=axis, ddof=1) / parts.shape[axis])


def moved_outwards(
    values: FloatArray, error: FloatArray, known: FloatArray, upper: BoolArray
) -> FloatArray:
    """Return bounds moved outwards by their errors and intersected with `known`; `known` itself
    where the error exceeds `WITHIN`. upper: mask of the upper bounds.
    """
    result = np.where(upper, np.minimum(values + error, known), np.maximum(values - error, known))
    return np.where(error <= WITHIN, result, known)


def with_control_variate(
    total: FloatArray,
    size: IntArray,
    count: FloatArray,
    beyond: Callable[[FloatArray, FloatArray], FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Return the means of each part (n, parts, k), with κ as control variate where it helps, and
    the largest effect of an event that the nodes missed (n, k).

    total (n, parts, 2k + 2): sums over `size` (n,) nodes of k values, κ, κ² and the values times κ.
    The exact mean of κ is `count` (n,). The slope on κ comes from the nodes of the other parts and
    leaves the mean of the corrected part unbiased. beyond(level, slope), (n, k): largest distance
    of a value from that line. It is large for a steep line through few κ where many tokens may come
    at once; the control variate is not used there. The choice by spread shifts a mean by less than
    a tenth of its error.
    """
    values, parts = total.shape[2] // 2 - 1, total.shape[1]
    means, pooled = total / size[:, None, None], total.sum(axis=1) / (size * parts)[:, None]
    others = (total.sum(axis=1, keepdims=True) - total) / (size * (parts - 1))[:, None, None]
    plain, slope = means[..., :values], _slope(pooled, values)
    corrected = plain - _slope(others, values) * (means[..., values, None] - count[:, None, None])
    level, nodes = pooled[:, :values], (parts * size)[:, None]
    reach = (
        beyond(level - slope * pooled[:, values, None], slope),
        beyond(level, np.zeros_like(slope)),
    )
    cost = [
        -stdtrit(np.inf, CONFIDENCE) * np.sqrt(len(total) * variance_of_mean(part_means, axis=1))
        + missed_probability(nodes) * missed
        for part_means, missed in zip((corrected, plain), reach, strict=True)
    ]
    helps = cost[0] <= cost[1]
    return np.where(helps[:, None], corrected, plain), np.where(helps, *reach)


def _slope(means: FloatArray, values: int) -> FloatArray:
    """Return the slope on κ from means of the values, κ, κ² and products, last axis."""
    value = means[..., :values]
    kappa = means[..., values, None]
    square = means[..., values + 1, None]
    product = means[..., values + 2 :]
    spread = square - kappa**2
    return np.divide(
        product - value * kappa, spread, out=np.zeros_like(value), where=spread > FLOOR**2
    )
