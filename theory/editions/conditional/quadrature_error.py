"""Error of an average by quadrature, from the spread of independently shifted or scrambled copies
of one rule.

The copies are independent and each is right in the mean, so that the mean of R of them is off by
Student's quantile times its standard error, but for one case in 1/`CONFIDENCE`, if what is averaged
varies at the nodes; what none of them saw is allowed for apart (`unseen`). A sum of such means over
tokens has as many degrees of freedom as its parts allow (Satterthwaite 1946: all parts alike, the
sum of theirs; one that outweighs the rest, its own). Shifts come from a fixed seed: equal heads
have equal bounds. Unitless. Imports numpy and scipy.special.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import stdtrit

from theory.arrays import BoolArray, FloatArray, IntArray

CONFIDENCE = 1e-4
"""Probability with which an average is off by more than is said, on one side."""

FLOOR = 1e-4
"""By which every average may be off at least: tables and quantiles are interpolated, and what is
rarer still may lie between all nodes.
"""

TOLERANCE = 0.003
"""Nodes are doubled until no average may be off by more, while there are nodes left."""

WITHIN = 0.01
"""An average that may be off by more is left out: few, uneven parts tell their error badly."""


def off_by(variance: FloatArray, freedom: FloatArray | float) -> FloatArray:
    """Return by how much averages of this sampling variance may be off, with its degrees of
    freedom.
    """
    return np.asarray(-stdtrit(freedom, CONFIDENCE) * np.sqrt(variance) + FLOOR)


def sums_off_by(variances: FloatArray, freedom: int) -> FloatArray:
    """Return by how much sums over rows of independent averages may be off; variances (rows,
    sums), each of `freedom` degrees.
    """
    total, squares = variances.sum(axis=0), (variances**2).sum(axis=0)
    degrees = np.divide(
        freedom * total**2, squares, out=np.full_like(total, freedom), where=squares > 0
    )
    return off_by(total, np.maximum(degrees, freedom))


def unseen(nodes: FloatArray | float) -> FloatArray:
    """Return the probability that an event may have although none of so many independent nodes saw
    it.

    Over rows of n_i nodes the sum of weights times such probabilities p_i is at most that of one
    node times the largest weight over n_i: Σ n_i p_i is what is bounded. Where nodes are evenly
    spaced and weighted, an event near the centre meets as few as a quarter of its share of them,
    and may be four times as probable.
    """
    return np.asarray(-math.log(CONFIDENCE) / np.asarray(nodes))


def spread_of(parts: FloatArray, axis: int) -> FloatArray:
    """Return the sampling variance of the mean of independent parts along an axis."""
    return np.asarray(parts.var(axis=axis, ddof=1) / parts.shape[axis])


def moved_outwards(
    values: FloatArray, off: FloatArray, known: FloatArray, upper: BoolArray
) -> FloatArray:
    """Return bounds moved outwards by what they may be off and intersected with `known`; `known`
    itself where that is more than `WITHIN`. upper: which are upper bounds.
    """
    result = np.where(upper, np.minimum(values + off, known), np.maximum(values - off, known))
    return np.where(off <= WITHIN, result, known)


def controlled(
    total: FloatArray,
    size: IntArray,
    count: FloatArray,
    beyond: Callable[[FloatArray, FloatArray], FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Return each part's means (n, parts, k), freed of what they share with κ where that pays, and
    what an event that no node saw may add (n, k).

    total (n, parts, 2k + 2): sums over `size` (n,) nodes of k values, κ, κ² and the values times
    κ. The exact mean of κ is `count` (n,). The slope on κ is that of the other parts' nodes: it
    does not depend on the part that it corrects, whose mean stays right. beyond(level, slope), (n,
    k): how far a value may lie from such a line: far, for a steep line through few κ where many
    tokens may come at once. It does not pay there. What pays is told by the spread, which shifts a
    mean by less than a tenth of its error.
    """
    values, parts = total.shape[2] // 2 - 1, total.shape[1]
    means, pooled = total / size[:, None, None], total.sum(axis=1) / (size * parts)[:, None]
    others = (total.sum(axis=1, keepdims=True) - total) / (size * (parts - 1))[:, None, None]
    plain, slope = means[..., :values], _slope(pooled, values)
    freed = plain - _slope(others, values) * (means[..., values, None] - count[:, None, None])
    level, nodes = pooled[:, :values], (parts * size)[:, None]
    reach = (
        beyond(level - slope * pooled[:, values, None], slope),
        beyond(level, np.zeros_like(slope)),
    )
    cost = [
        -stdtrit(np.inf, CONFIDENCE) * np.sqrt(len(total) * spread_of(each, axis=1))
        + unseen(nodes) * far
        for each, far in zip((freed, plain), reach, strict=True)
    ]
    pays = cost[0] <= cost[1]
    return np.where(pays[:, None], freed, plain), np.where(pays, *reach)


def _slope(means: FloatArray, values: int) -> FloatArray:
    """Return the slope of each of the values on κ, from means of the values, κ, κ² and products,
    last axis.
    """
    value, kappa, square, product = (
        means[..., :values],
        means[..., values, None],
        means[..., values + 1, None],
        means[..., values + 2 :],
    )
    spread = square - kappa**2
    return np.divide(
        product - value * kappa, spread, out=np.zeros_like(value), where=spread > FLOOR**2
    )
