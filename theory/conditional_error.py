"""Error of an average by quadrature, from the spread of independently shifted or scrambled copies of one rule.

The copies are independent and each is right in the mean, so that the mean of R of them is off by Student's quantile times its standard error,
but for one case in 1/`CONFIDENCE`, if what is averaged varies at the nodes; what none of them saw is allowed for apart (`unseen`). A sum of
such means over tokens has as many degrees of freedom as its parts allow (Satterthwaite 1946: all parts alike, the sum of theirs; one that
outweighs the rest, its own). Shifts come from a fixed seed: equal heads have equal bounds. Unitless. Imports numpy and scipy.special.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import stdtrit

from theory.arrays import FloatArray, IntArray

CONFIDENCE = 1e-4
"""Probability with which an average is off by more than is said, on one side."""

FLOOR = 1e-4
"""By which every average may be off at least: tables and quantiles are interpolated, and what is rarer still may lie between all nodes."""

TOLERANCE = 0.003
"""Nodes are doubled until no average may be off by more, while there are nodes left."""

WITHIN = 0.01
"""An average that may be off by more is left out: few and uneven parts do not tell their error well."""


def off_by(variance: FloatArray, freedom: FloatArray | float) -> FloatArray:
    """Return by how much averages of this sampling variance may be off, with its degrees of freedom."""
    return np.asarray(-stdtrit(freedom, CONFIDENCE) * np.sqrt(variance) + FLOOR)


def sums_off_by(variances: FloatArray, freedom: int) -> FloatArray:
    """Return by how much sums over rows of independent averages may be off; variances (rows, sums), each of `freedom` degrees."""
    total, squares = variances.sum(axis=0), (variances**2).sum(axis=0)
    degrees = np.divide(freedom * total**2, squares, out=np.full_like(total, freedom), where=squares > 0)
    return off_by(total, np.maximum(degrees, freedom))


def unseen(nodes: int) -> float:
    """Return the probability that an event may have although none of so many independent nodes saw it.

    Over rows of n_i nodes the sum of weights times such probabilities p_i is at most that of one node times the largest weight over n_i: Σ n_i p_i
    is what is bounded.
    """
    return -math.log(CONFIDENCE) / nodes


def spread_of(parts: FloatArray, axis: int) -> FloatArray:
    """Return the sampling variance of the mean of independent parts along an axis."""
    return np.asarray(parts.var(axis=axis, ddof=1) / parts.shape[axis])


def controlled(total: FloatArray, size: IntArray, count: FloatArray) -> FloatArray:
    """Return each part's means (n, parts, k), freed of what they share with κ, whose exact mean is `count` (n,).

    total (n, parts, 2k + 2): sums over `size` (n,) nodes of k values, κ, κ² and the values times κ. The slope on κ is that of the other parts'
    nodes: it does not depend on the part that it corrects, whose mean stays right.
    """
    values = total.shape[2] // 2 - 1
    means = total / size[:, None, None]
    others = (total.sum(axis=1, keepdims=True) - total) / (size * (total.shape[1] - 1))[:, None, None]
    value, kappa, square, product = (
        others[..., :values],
        others[..., values, None],
        others[..., values + 1, None],
        others[..., values + 2 :],
    )
    spread = square - kappa**2
    slope = np.divide(product - value * kappa, spread, out=np.zeros_like(value), where=spread > FLOOR**2)
    return np.asarray(means[..., :values] - slope * (means[..., values, None] - count[:, None, None]))
