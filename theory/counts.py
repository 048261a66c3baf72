r"""How many of a set of correlated normals stay below the largest of another set, compiled: the second half of `theory.predicted`.

Given Y = y a variable X_j of the other set is normal; κ = Σ_j Φ(h_j) is the mean count and its variance V = Σ_jk Cov(1{X_j ≤ y}, 1{X_k ≤ y})
comes from the tetrachoric series Cov = φ(h_j)φ(h_k)[R + h_j h_k R²/2 + (h_j²−1)(h_k²−1)R³/6 + …], cut after the third power of the
correlation R. Imports numpy and numba; import it lazily.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.clark import SAME, Groups, Law, covariances, normal_cdf, normal_density
from theory.rivals import cells, weigh

VARIANCE_NODES = 6
"""Values of y at which the variance of the count is summed over pairs; its ratio to the independent one is interpolated between them."""

LIGHT = 0.02
"""Probability of a group's maximum to be the largest below which its counts are taken as independent."""

NEAR_INNER, NEAR_OUTER = 2.0, 1.3
"""Standard deviations up to which a group's maximum that stays below the largest tells of the counted: fewer where there are many of them."""

FAINT = 1e-5
"""Largest φ(h) of a variable that is settled at every node."""


@numba.njit(nogil=True, cache=True, error_model="numpy")
def expected_counts(
    law: Law, groups: Groups, start: int, stop: int, size: int, inner: bool, always: BoolArray, ties_below: bool
) -> tuple[float, float]:
    """Return E h(K) for the two functions h of `of_count`, K = #{j in start..stop−1 : X_j ≤ Y}, Y the largest of the groups' maxima.

    always: which j are below Y surely. ties_below: whether X_j = Y counts.

    E h(K) = Σ_p ∫ E[h(K) | Y_p = y, Y_q ≤ y for q ≠ p] P{Y_q ≤ y for q ≠ p | Y_p = y} dP{Y_p ≤ y}.
    """
    total, one, two = 0.0, 0.0, 0.0
    load, rest = np.zeros(stop - start), np.zeros(stop - start)
    for p in range(len(groups.mean)):
        if not groups.live[p]:
            continue
        deviation = math.sqrt(groups.variance[p])
        for m in range(stop - start):
            load[m] = groups.load[p, start + m] / deviation if deviation > 0 else 0.0
            left = law.variance[start + m] - load[m] ** 2
            rest[m] = math.sqrt(left) if left > 100 * SAME * law.variance[start + m] else 0.0
        edges = cells(groups, p, deviation, law.mean[start:stop], load, rest)
        z, mass, heights = weigh(law, groups, p, deviation, edges, start, load, rest, NEAR_INNER if inner else NEAR_OUTER)
        if len(z) == 0:
            continue
        mean, variance = counts(law, groups.mean[p], deviation, z, mass, heights, start, load, rest, always, ties_below)
        for q in range(len(z)):
            first, second = of_count(mean[q], variance[q], stop - start, size, inner)
            total, one, two = total + mass[q], one + mass[q] * first, two + mass[q] * second
    return one / total, two / total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def counts(
    law: Law,
    centre: float,
    deviation: float,
    z: FloatArray,
    mass: FloatArray,
    heights: FloatArray,
    start: int,
    load: FloatArray,
    rest: FloatArray,
    always: BoolArray,
    ties_below: bool,
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the count at each y = centre + deviation·z, from P{X_j ≤ y} = Φ(height).

    Correlations are those of the regression of X_j on Y (`load`, `rest`); where nothing is left of X_j it lies below or not.
    """
    mean, alone = np.zeros(len(z)), np.zeros(len(z))
    nodes = spread_over(mass)
    waves = np.zeros((len(nodes), 4, len(load)))
    for m in range(len(load)):
        base, pace = centre - law.mean[start + m], deviation - load[m]
        if always[m]:
            mean += 1.0
            continue
        if rest[m] == 0:
            rounding = SAME * (abs(centre) + abs(law.mean[start + m]))
            for q in range(len(z)):
                over = base + pace * z[q]
                if over > rounding or (ties_below and over >= -rounding):
                    mean[q] += 1.0
            continue
        for q in range(len(z)):
            h = heights[q, m]
            if h > 7:
                mean[q] += 1.0
            elif h > -7:
                p = normal_cdf(h)
                mean[q] += p
                alone[q] += p * (1 - p)
        for x in range(len(nodes)):
            h = heights[nodes[x], m]
            density = normal_density(h)
            waves[x, 0, m] = density
            waves[x, 1, m] = density * h * 0.7071067811865476
            waves[x, 2, m] = density * (h * h - 1) * 0.408248290463863
            waves[x, 3, m] = normal_cdf(h)
    if len(nodes) == 0:
        return mean, alone
    shared = shared_variance(law, start, load, rest, waves)
    over = np.empty(len(nodes))
    for x in range(len(nodes)):
        own = alone[nodes[x]]
        over[x] = max(1 + shared[x] / own, 0.0) if own > 1e-9 else 1.0
    return mean, alone * np.interp(z, z[nodes], over)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def spread_over(mass: FloatArray) -> IntArray:
    """Return rising indices that share out the mass evenly: VARIANCE_NODES for a mass of 1, fewer for less, none below LIGHT."""
    run = np.cumsum(mass)
    n = math.ceil(VARIANCE_NODES * min(run[-1], 1.0)) if run[-1] > LIGHT else 0
    middles = run[-1] * (np.arange(n) + 0.5) / max(n, 1)
    return np.unique(np.searchsorted(run, middles))


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})
def shared_variance(law: Law, start: int, load: FloatArray, rest: FloatArray, waves: FloatArray) -> FloatArray:
    """Return Σ_{j≠k} Cov(1{X_j ≤ y}, 1{X_k ≤ y}) at each node.

    Args:
        law, start: of the variables.
        load, rest: (size,) of X_j on Y: covariance with Y in its standard deviations, and the deviation left.
        waves: (nodes, 4, size) φ(h)·(1, h/√2, (h²−1)/√6) and Φ(h).

    What is left of the series at R = 1, where the covariance is min(Φ_j, Φ_k) − Φ_j Φ_k, enters with R⁴ for R > 0.
    """
    size = len(load)
    row, loudest, inverse, found = np.empty(size), np.zeros(size), np.zeros(size), np.zeros(len(waves))
    one, two, three, late = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    for m in range(size):
        loudest[m] = waves[:, 0, m].max()
        inverse[m] = 1 / rest[m] if rest[m] > 0 else 0.0
    for j in range(1, size):
        if loudest[j] < FAINT:
            continue
        covariances(law, start + j, start, row[:j])
        for k in range(j):
            r = min(1.0, max(-1.0, (row[k] - load[j] * load[k]) * inverse[j] * inverse[k]))
            square = r * r
            last = square * square if r > 0 else 0.0
            one[k], two[k], three[k], late[k] = r - last, square - last, r * square - last, last
        for x in range(len(waves)):
            first, second, third, fourth, p = 0.0, 0.0, 0.0, 0.0, waves[x, 3, j]
            for k in range(j):
                first += one[k] * waves[x, 0, k]
                second += two[k] * waves[x, 1, k]
                third += three[k] * waves[x, 2, k]
                fourth += late[k] * (min(p, waves[x, 3, k]) - p * waves[x, 3, k])
            found[x] += 2 * (first * waves[x, 0, j] + second * waves[x, 1, j] + third * waves[x, 2, j] + fourth)
    return found


@numba.njit(nogil=True, cache=True, error_model="numpy")
def of_count(mean: float, variance: float, most: int, size: int, inner: bool) -> tuple[float, float]:
    """Return E of two functions of a count K on 0..most with this mean and variance; `size` is N.

    Outer (K of the unselected lie inside): N/(N+K) and 2N/(2N+K), from the beta-binomial law with these moments (a binomial on fewer
    tokens where the variance is too small for one), since K is often all or nothing. Where that law underflows, and for the inner
    radius (K of the selected lie outside): 1 − K/N and 2(N−K)/(2N−K), to second order, e.g. N/(N+κ) + V N/(N+κ)³.
    """
    mean = min(max(mean, 0.0), float(most))
    variance = min(max(variance, 0.0), mean * (most - mean))
    if inner:
        return 1 - mean / size, max(2 * (size - mean) / (2 * size - mean) - 2 * size * variance / (2 * size - mean) ** 3, 0.0)
    trials = most
    if variance < mean * (1 - mean / most):
        trials = max(1, min(most, math.ceil(mean * mean / (mean - variance) - 1e-9)))
    p = min(mean / trials, 1.0)
    single = trials * p * (1 - p)
    within = (variance / single - 1) / (trials - 1) if trials > 1 and single > 0 else 0.0
    within = min(max(within, 1e-7), 1 - 1e-9)
    hits, misses = p * (1 - within) / within, (1 - p) * (1 - within) / within
    start = -math.inf
    if 1e-12 < p < 1 - 1e-9:
        start = math.lgamma(misses + trials) + math.lgamma(hits + misses) - math.lgamma(misses) - math.lgamma(hits + misses + trials)
    if start < -600:
        return size / (size + mean) + variance * size / (size + mean) ** 3, 2 * size * (
            1 / (2 * size + mean) + variance / (2 * size + mean) ** 3
        )
    chance, total, one, two = math.exp(start), 0.0, 0.0, 0.0
    for k in range(trials + 1):
        total += chance
        one += chance * size / (size + k)
        two += chance * 2 * size / (2 * size + k)
        if k > mean and 1 - total < 1e-7:
            break
        chance *= (trials - k) / (k + 1.0) * (hits + k) / (misses + trials - k - 1)
    return one / total, two / total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def twins(cosines: FloatArray, a: FloatArray, n: int) -> BoolArray:
    """Return which ranks have an equal contribution on the other side of the cut after n, shape (T,): ‖y_i − y_j‖² = 0."""
    found = np.zeros(len(a), dtype=np.bool_)
    for i in range(n):
        for j in range(n, len(a)):
            both = a[i] * a[i] + a[j] * a[j]
            if both - 2 * a[i] * a[j] * cosines[i, j] <= SAME * both:
                found[i] = found[j] = True
    return found
