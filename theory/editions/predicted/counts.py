r"""How many of a set of correlated normals stay below the largest of another set, compiled: the
second half of `theory.editions.predicted.predict`.

Given Y = y a variable X_j of the other set is normal; κ = Σ_j Φ(h_j) is the mean count and its
variance V = Σ_jk Cov(1{X_j ≤ y}, 1{X_k ≤ y}) comes from `theory.editions.predicted.tetrachoric`.
Imports numpy and numba; import it lazily.
"""

from __future__ import annotations

import math

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.compiled import compiled
from theory.editions.predicted.clark import SAME, Groups, Law, tabled_cdf
from theory.editions.predicted.largest import Counted, cells, most_cells, weigh
from theory.editions.predicted.tetrachoric import shared_variance, waves_at

VARIANCE_NODES = 6
"""Values of y at which the variance of the count is summed over pairs; its ratio to the independent
one is interpolated between them.
"""

LIGHT = 0.02
"""Probability of a maximum to be the largest below which its counts are taken as independent."""

NEAR_INNER, NEAR_OUTER = 2.0, 1.3
"""Standard deviations up to which a group's maximum that stays below the largest tells of the
counted: fewer where there are many of them.
"""

FAR = 5.5
"""Standard deviations from which a variable is surely below Y, or not (2e-8)."""


@compiled(error_model="numpy")
def expected_counts(
    law: Law,
    groups: Groups,
    start: int,
    stop: int,
    size: int,
    inner: bool,
    always: BoolArray,
    ties_below: bool,
) -> tuple[float, float]:
    """Return E h(K) for the two functions h of `of_count`, K = #{j in start..stop−1 : X_j ≤ Y}, Y
    the largest of the groups' maxima.

    always: which j are below Y surely. ties_below: whether X_j = Y counts.

    E h(K) = Σ_p ∫ E[h(K) | Y_p = y, Y_q ≤ y for q ≠ p] P{Y_q ≤ y for q ≠ p | Y_p = y} dP{Y_p ≤ y}.
    """
    several, most = len(groups.mean), most_cells(len(groups.mean))
    load, rest = np.zeros((several, stop - start)), np.zeros((several, stop - start))
    held, first = np.zeros(several, dtype=np.int64), np.zeros(several + 1, dtype=np.int64)
    table = np.empty((4, several, most))
    nodes = np.empty(several * VARIANCE_NODES, dtype=np.int64)
    waves = np.empty((several * VARIANCE_NODES, 4, stop - start), dtype=np.float32)
    near = NEAR_INNER if inner else NEAR_OUTER
    for p in range(several):
        first[p + 1] = first[p]
        if not groups.live[p]:
            continue
        deviation = math.sqrt(groups.variance[p])
        counted = Counted(start, groups.mean[p], deviation, load[p], rest[p], always, ties_below)
        heights, seen = where_largest(law, groups, p, counted, near)
        n = held[p] = seen.shape[1]
        if n == 0:
            continue
        table[:, p, :n] = seen
        # a few nodes of even mass, at which the pairs are summed
        chosen = spread_over(seen[1])
        first[p + 1] = first[p] + len(chosen)
        nodes[first[p] : first[p + 1]] = chosen
        for x in range(len(chosen)):
            waves_at(heights[chosen[x]], rest[p], always, waves[first[p] + x])
    shared = shared_variance(law, start, load, rest, first, waves[: first[-1]])
    return over_cells(table, held, first, nodes, shared, stop - start, size, inner)


@compiled(error_model="numpy")
def where_largest(
    law: Law, groups: Groups, p: int, counted: Counted, near: float
) -> tuple[FloatArray, FloatArray]:
    """Return the heights of the counted in the cells in which Y_p lies and is the largest, and of
    each cell (4, cells): middle, probability, the count's mean and its variance if the X_j were
    independent.

    Writes the regression of the counted on Y_p into their load and rest.
    """
    start, deviation, load, rest = counted.start, counted.deviation, counted.load, counted.rest
    for m in range(len(load)):
        load[m] = groups.load[p, start + m] / deviation if deviation > 0 else 0.0
        left = law.variance[start + m] - load[m] ** 2
        rest[m] = math.sqrt(left) if left > 100 * SAME * law.variance[start + m] else 0.0
    edges = cells(groups, p, counted, law.mean[start : start + len(load)])
    z, mass, heights = weigh(law, groups, p, counted, edges, near)
    mean, alone = counts_alone(law, counted, z, heights)
    return heights, np.stack((z, mass, mean, alone))


@compiled(error_model="numpy")
def over_cells(
    table: FloatArray,
    held: IntArray,
    first: IntArray,
    nodes: IntArray,
    shared: FloatArray,
    most: int,
    size: int,
    inner: bool,
) -> tuple[float, float]:
    """Return the means of the two functions of `of_count` over the cells of all groups.

    table (4, groups, cells): what `where_largest` says of the first `held` cells of each group. The
    variance of the count is the independent one times a ratio: that at the group's nodes,
    nodes[first[p]..first[p + 1]−1], from what is `shared` there, interpolated between them.
    """
    z, mass, mean, alone = table[0], table[1], table[2], table[3]
    total, one, two = 0.0, 0.0, 0.0
    for p in range(len(held)):
        n, own = held[p], nodes[first[p] : first[p + 1]]
        over = np.ones(max(len(own), 1))
        for x in range(len(own)):
            by_itself = alone[p, own[x]]
            over[x] = max(1 + shared[first[p] + x] / by_itself, 0.0) if by_itself > 1e-9 else 1.0
        ratio = np.interp(z[p, :n], z[p, :n][own], over) if len(own) > 0 else np.ones(n)
        for q in range(n):
            at_one, at_two = of_count(mean[p, q], alone[p, q] * ratio[q], most, size, inner)
            total, one, two = (
                total + mass[p, q],
                one + mass[p, q] * at_one,
                two + mass[p, q] * at_two,
            )
    return one / total, two / total


@compiled(error_model="numpy")
def counts_alone(
    law: Law, counted: Counted, z: FloatArray, heights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the count's mean, and its variance if the X_j were independent, at each y = centre +
    deviation·z, from P{X_j ≤ y} = Φ(height).

    Correlations with Y are those of the regression of X_j on it; where nothing is left of X_j it
    lies below or not.
    """
    start, centre, deviation, load, rest, always, ties_below = counted
    mean, alone = np.zeros(len(z)), np.zeros(len(z))
    for m in range(len(load)):
        if always[m]:
            mean += 1.0
        elif rest[m] == 0:
            rounding = SAME * (abs(centre) + abs(law.mean[start + m]))
            for q in range(len(z)):
                over = centre - law.mean[start + m] + (deviation - load[m]) * z[q]
                if over > rounding or (ties_below and over >= -rounding):
                    mean[q] += 1.0
        else:
            for q in range(len(z)):
                h = heights[q, m]
                if h > FAR:
                    mean[q] += 1.0
                elif h > -FAR:
                    p = tabled_cdf(h)
                    mean[q] += p
                    alone[q] += p * (1 - p)
    return mean, alone


@compiled(error_model="numpy")
def spread_over(mass: FloatArray) -> IntArray:
    """Return rising indices that share out the mass evenly: VARIANCE_NODES for a mass of 1, fewer
    for less, none below LIGHT.
    """
    run = np.cumsum(mass)
    n = math.ceil(VARIANCE_NODES * min(run[-1], 1.0)) if run[-1] > LIGHT else 0
    middles = run[-1] * (np.arange(n) + 0.5) / max(n, 1)
    return np.unique(np.searchsorted(run, middles))


@compiled(error_model="numpy")
def of_count(
    mean: float, variance: float, most: int, size: int, inner: bool
) -> tuple[float, float]:
    """Return E of two functions of a count K on 0..most with this mean and variance; `size` is N.

    Outer (K of the unselected lie inside): N/(N+K) and 2N/(2N+K), from the beta-binomial law with
    these moments (a binomial on fewer tokens where the variance is too small for one), since K is
    often all or nothing. Where that law underflows, and for the inner radius (K of the selected lie
    outside): 1 − K/N and 2(N−K)/(2N−K), to second order, e.g. N/(N+κ) + V N/(N+κ)³.
    """
    mean = min(max(mean, 0.0), float(most))
    variance = min(max(variance, 0.0), mean * (most - mean))
    if inner:
        return 1 - mean / size, max(
            2 * (size - mean) / (2 * size - mean) - 2 * size * variance / (2 * size - mean) ** 3,
            0.0,
        )
    # beta-binomial law with these moments, on fewer trials where its variance would be below a
    # binomial's
    trials = most
    if variance < mean * (1 - mean / most):
        trials = max(1, min(most, math.ceil(mean * mean / (mean - variance) - 1e-9)))
    p = min(mean / trials, 1.0)
    single = trials * p * (1 - p)
    within = (variance / single - 1) / (trials - 1) if trials > 1 and single > 0 else 0.0
    within = min(max(within, 1e-7), 1 - 1e-9)
    # its two parameters, and the chance of no hit by log-gamma functions
    hits, misses = p * (1 - within) / within, (1 - p) * (1 - within) / within
    start = -math.inf
    if 1e-12 < p < 1 - 1e-9:
        start = (
            math.lgamma(misses + trials)
            + math.lgamma(hits + misses)
            - math.lgamma(misses)
            - math.lgamma(hits + misses + trials)
        )
    if start < -600:
        return size / (size + mean) + variance * size / (size + mean) ** 3, 2 * size * (
            1 / (2 * size + mean) + variance / (2 * size + mean) ** 3
        )
    # sum by the recursion of its probabilities, until what is left is negligible
    chance, total, one, two = math.exp(start), 0.0, 0.0, 0.0
    for k in range(trials + 1):
        total += chance
        one += chance * size / (size + k)
        two += chance * 2 * size / (2 * size + k)
        if k > mean and 1 - total < 1e-7:
            break
        chance *= (trials - k) / (k + 1.0) * (hits + k) / (misses + trials - k - 1)
    return one / total, two / total


@compiled(error_model="numpy")
def twins(cosines: FloatArray, a: FloatArray, n: int) -> BoolArray:
    """Return which ranks have an equal contribution on the other side of the cut after n, shape
    (T,): ‖y_i − y_j‖² = 0.
    """
    result = np.zeros(len(a), dtype=np.bool_)
    for i in range(n):
        for j in range(n, len(a)):
            both = a[i] * a[i] + a[j] * a[j]
            if both - 2 * a[i] * a[j] * cosines[i, j] <= SAME * both:
                result[i] = result[j] = True
    return result
