r"""Number of correlated normals below the maximum of another set, compiled: the second half of
`theory.editions.predicted.predict`.

Law of the maximum: the maximum Y_p of one group is the overall maximum if every rival Y_q is below
it. Given Y_p the rivals are normal with their residual correlation; the probability that all are
below is that of Mendell and Elston (Biometrics 30, 1974). This event also shifts the counted
variables, which are correlated with the rivals.

Law of the count: given Y = y a variable X_j of the other set is normal; κ = Σ_j Φ(h_j) is the mean
count and its variance is V = Σ_jk Cov(1{X_j ≤ y}, 1{X_k ≤ y}), by the tetrachoric series
φ(h_j)φ(h_k)[R + h_j h_k R²/2 + (h_j²−1)(h_k²−1)R³/6 + …], cut after the third power of the
correlation R. Imports numpy and numba; import it lazily.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.compiled import compiled
from theory.editions.predicted.clark import (
    SAME,
    Groups,
    Law,
    covariances,
    normal_cdf,
    normal_density,
    tabled_cdf,
)

REACH = 4.5
"""Half-width of the integral over Y, in standard deviations."""

CELLS = 16
"""Number of even cells of that range, before cells at the jumps of the integrand are added."""

PLACES = 100
"""Number of counted variables, evenly spaced, that locate the fine cells."""

NARROW = 0.03
"""Smallest cell width in standard deviations of Y; the integrand may jump within a cell."""

SURELY = 3.7
"""Standard deviations from which a rival maximum counts as below with certainty (error 1e-4)."""

FAINT_CELL = 3e-5
"""Probability below which a cell is skipped."""

FAINT_SHIFT = 0.05
"""Shift of a rival, in standard deviations, from which the counted variables are shifted too."""

SETTLED = 8.0
"""Standard deviations beyond which a counted variable stays on its side."""


class Counted(NamedTuple):
    """Counted variables of ranks start, start + 1, …, regressed on Y_p.

    centre, deviation: mean and standard deviation of Y_p. load, rest (size,): covariance with Y_p
    in units of its standard deviation, and residual deviation. always (size,): variables below Y
    with certainty. ties_below: whether X_j = Y counts.
    """

    start: int
    centre: float
    deviation: float
    load: FloatArray
    rest: FloatArray
    always: BoolArray
    ties_below: bool


@compiled(error_model="numpy")
def most_cells(groups: int) -> int:
    """Return the largest number of edges of `cells`."""
    return CELLS + 1 + 3 * groups + 14


@compiled(error_model="numpy")
def cells(groups: Groups, p: int, counted: Counted, mean: FloatArray) -> FloatArray:
    """Return ascending cell edges in deviations of Y_p, fine near other maxima and the counted."""
    deviation, load, rest = counted.deviation, counted.load, counted.rest
    if deviation == 0:
        return np.array([-2 * REACH, 2 * REACH])
    edges, n = np.empty(most_cells(len(groups.mean))), 0
    # even cells over the whole range
    for q in range(CELLS + 1):
        edges[n] = REACH * (2 * q / CELLS - 1)
        n += 1
    # finer where a rival maximum crosses Y_p
    for other in range(len(groups.mean)):
        follows = groups.between[p, other] / deviation
        if other == p or not groups.live[other] or follows >= deviation:
            continue
        width = math.sqrt(max(groups.variance[other] - follows**2, 0.0)) / (deviation - follows)
        if width < 1:
            for step in (-1.8, 0.0, 1.8):
                edges[n] = (groups.mean[other] - groups.mean[p]) / (
                    deviation - follows
                ) + width * step
                n += 1
    # finer where the counted variables cross it: quantiles of the crossings, and the middle of a
    # narrow cluster
    crossing, width, result = np.empty(len(mean)), 0.0, 0
    for m in range(0, len(mean), max(1, len(mean) // PLACES)):
        pace = deviation - load[m]
        if abs(pace) > SAME * (deviation + abs(load[m])):
            crossing[result] = (mean[m] - groups.mean[p]) / pace
            width += rest[m] / abs(pace)
            result += 1
    if result > 0:
        crossing, width = np.sort(crossing[:result]), width / result
        for share in (0.02, 0.15, 0.35, 0.5, 0.65, 0.85, 0.98):
            edges[n] = crossing[int(share * (result - 1))]
            n += 1
        if width < 0.6:
            for step in range(-3, 4):
                edges[n] = crossing[result // 2] + 0.8 * width * step
                n += 1
    # ascending, within reach, no cell narrower than `NARROW`
    edges, count = np.sort(np.minimum(np.maximum(edges[:n], -REACH), REACH)), 1
    for q in range(1, n):
        if edges[q] - edges[count - 1] >= NARROW:
            edges[count] = edges[q]
            count += 1
    edges[count - 1] = max(edges[count - 1], REACH)
    return edges[:count]


@compiled(error_model="numpy")
def weigh(
    law: Law, groups: Groups, p: int, counted: Counted, edges: FloatArray, near: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the cell midpoints z, the probability that Y_p lies in the cell and is the largest,
    and the heights of the counted variables.

    Height (cell, size): P{X_m ≤ Y_p | Y_p in the cell and the largest} = Φ(height). Cells without
    weight are skipped.
    """
    start, deviation, load, rest = counted.start, counted.deviation, counted.load, counted.rest
    z, mass, n, size = np.empty(len(edges)), np.empty(len(edges)), 0, len(groups.mean)
    heights = np.empty((len(edges), len(load)))
    height, rival = np.empty(size), np.empty(size, dtype=np.int64)
    correlation = np.empty((size, size))
    follows, residual, shared = given_maximum(groups, p, counted)
    for q in range(len(edges) - 1):
        middle = 0.5 * (edges[q] + edges[q + 1])
        weight, rivals = normal_cdf(edges[q + 1]) - normal_cdf(edges[q]), 0
        for other in range(size):
            if other == p or not groups.live[other]:
                continue
            above = groups.mean[p] - groups.mean[other] + (deviation - follows[other]) * middle
            if residual[other] > SAME * groups.variance[other]:
                h = above / math.sqrt(residual[other])
                if h < near:
                    height[rivals], rival[rivals] = h, other
                    rivals += 1
                elif h < SURELY:
                    weight *= normal_cdf(h)
            elif above < 0 or (above == 0 and other < p):
                weight = 0.0
        # skip a cell that one rival already makes negligible
        least = height[:rivals].min() if rivals > 0 else SURELY
        if weight * normal_cdf(least) <= FAINT_CELL:
            continue
        for m in range(len(load)):
            heights[n, m] = (
                (groups.mean[p] - law.mean[start + m] + (deviation - load[m]) * middle) / rest[m]
                if rest[m] > 0
                else 0.0
            )
        correlations_left(groups, rival[:rivals], follows, residual, correlation)
        weight *= all_below(height[:rivals], correlation, heights[n], shared[rival[:rivals]])
        if weight > FAINT_CELL:
            z[n], mass[n] = middle, weight
            n += 1
    return z[:n], mass[:n], heights[:n]


@compiled(error_model="numpy")
def given_maximum(
    groups: Groups, p: int, counted: Counted
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the law of the rivals given Y_p: covariances with Y_p in units of its standard
    deviation and residual variances, (groups,), and residual correlations with the counted
    variables, (groups, size).
    """
    group_count, deviation = len(groups.mean), counted.deviation
    start, load, rest = counted.start, counted.load, counted.rest
    follows = np.zeros(group_count)
    residual = np.empty(group_count)
    shared = np.zeros((group_count, len(load)))
    for other in range(group_count):
        if deviation > 0:
            follows[other] = groups.between[p, other] / deviation
        residual[other] = max(groups.variance[other] - follows[other] ** 2, 0.0)
        if other != p and residual[other] > SAME * groups.variance[other]:
            spread = math.sqrt(residual[other])
            for m in range(len(load)):
                if rest[m] > 0:
                    shared[other, m] = (
                        groups.load[other, start + m] - load[m] * follows[other]
                    ) / (rest[m] * spread)
    return follows, residual, shared


@compiled(error_model="numpy")
def correlations_left(
    groups: Groups, rival: IntArray, follows: FloatArray, residual: FloatArray, out: FloatArray
) -> None:
    """Write the residual correlations of the rivals given Y_p into the off-diagonal of out."""
    for x in range(len(rival)):
        for y in range(x):
            k, m = rival[x], rival[y]
            result = (groups.between[k, m] - follows[k] * follows[m]) / math.sqrt(
                residual[k] * residual[m]
            )
            out[x, y] = out[y, x] = min(max(result, -1.0), 1.0)


@compiled(error_model="numpy")
def all_below(
    height: FloatArray, correlation: FloatArray, counted: FloatArray, shared: FloatArray
) -> float:
    """Return the approximate P{X_k ≤ height_k for all k} of correlated standard normals (Mendell
    and Elston 1974); changes its arguments.

    Conditions on one variable after another being below; the others are approximated as normal with
    their conditional moments. The same holds for `counted`, which end as heights given that all are
    below. shared (k, counted): correlations with the X_k.
    """
    chance, size = 1.0, len(height)
    inverse = np.empty(size)
    for k in range(size):
        below = normal_cdf(height[k])
        chance *= below
        if chance < 1e-7:
            return 0.0
        # loss in mean and variance of X_k given that it is below; correlated variables lose a share
        shift = normal_density(height[k]) / below
        lost = shift * (shift + height[k])
        for x in range(k + 1, size):
            rest = math.sqrt(max(1 - correlation[k, x] ** 2 * lost, 1e-6))
            height[x] = (height[x] + correlation[k, x] * shift) / rest
            for y in range(k + 1, x):
                other = math.sqrt(max(1 - correlation[k, y] ** 2 * lost, 1e-6))
                result = (correlation[x, y] - correlation[k, x] * correlation[k, y] * lost) / (
                    rest * other
                )
                correlation[x, y] = correlation[y, x] = min(max(result, -1.0), 1.0)
        if shift < FAINT_SHIFT:
            continue
        for y in range(k + 1, size):
            inverse[y] = 1 / math.sqrt(max(1 - correlation[k, y] ** 2 * lost, 1e-6))
        for m in range(len(counted)):
            if abs(counted[m]) > SETTLED:
                continue
            follow = min(max(shared[k, m], -1.0), 1.0)
            rest = 1 / math.sqrt(max(1 - follow * follow * lost, 1e-6))
            counted[m] = (counted[m] + follow * shift) * rest
            lost_along = follow * lost
            for y in range(k + 1, size):
                shared[y, m] = (shared[y, m] - lost_along * correlation[k, y]) * (rest * inverse[y])
    return chance


FAINT = 1e-5
"""Value of φ(h) below which a variable is settled."""


@compiled(error_model="numpy")
def waves_at(heights: FloatArray, rest: FloatArray, always: BoolArray, out: FloatArray) -> None:
    """Write φ(h)·(1, h/√2, (h²−1)/√6) and Φ(h) to out (4, size); 0 for fixed variables."""
    for m in range(len(heights)):
        if always[m] or rest[m] == 0:
            out[:, m] = 0.0
            continue
        h = heights[m]
        density = normal_density(h)
        out[0, m], out[1, m] = density, density * h * 0.7071067811865476
        out[2, m], out[3, m] = density * (h * h - 1) * 0.408248290463863, tabled_cdf(h)


@compiled(error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})
def shared_variance(
    law: Law, start: int, load: FloatArray, rest: FloatArray, first: IntArray, waves: FloatArray
) -> FloatArray:
    """Return Σ_{j≠k} Cov(1{X_j ≤ y}, 1{X_k ≤ y}) at each node, to the digits of `waves`.

    load, rest (groups, size): covariance of X_j with each Y_p in units of its standard deviation,
    and residual deviation. The nodes of Y_p are first[p]..first[p + 1]−1. waves (nodes, 4, size) of
    `waves_at`, in single precision: sums over pairs of their products dominate the cost of a
    prediction. The remainder of the series at R = 1, where the covariance is min(Φ_j, Φ_k) − Φ_j
    Φ_k, enters with R⁴ for R > 0.
    """
    several, size = load.shape
    row = np.empty(size)
    result = np.zeros(len(waves))
    loudest = np.zeros((several, size))
    inverse = np.zeros((several, size))
    # largest amplitude of each variable over the nodes; pairs of faint variables are skipped
    powers = np.empty((4, size), dtype=waves.dtype)
    for p in range(several):
        for m in range(size):
            inverse[p, m] = 1 / rest[p, m] if rest[p, m] > 0 else 0.0
            for x in range(first[p], first[p + 1]):
                loudest[p, m] = max(loudest[p, m], waves[x, 0, m])
    for j in range(1, size):
        if loudest[:, j].max() < FAINT:
            continue
        covariances(law, start + j, start, row[:j])
        for p in range(several):
            if loudest[p, j] >= FAINT:
                correlation_powers(row[:j], load[p, j], load[p], inverse[p, j], inverse[p], powers)
                for x in range(first[p], first[p + 1]):
                    result[x] += 2 * pairs_with(powers, waves[x], j)
    return result


@compiled(error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def correlation_powers(
    row: FloatArray,
    load_j: FloatArray,
    load: FloatArray,
    inverse_j: float,
    inverse: FloatArray,
    out: FloatArray,
) -> None:
    """Write R − R⁴₊, R² − R⁴₊, R³ − R⁴₊ and R⁴₊, R of X_j and X_k given Y, to out (4, size)."""
    for k in range(len(row)):
        r = out.dtype.type(
            min(1.0, max(-1.0, (row[k] - load_j * load[k]) * inverse_j * inverse[k]))
        )
        square = r * r
        last = square * square if r > 0 else out.dtype.type(0.0)
        out[0, k] = r - last
        out[1, k] = square - last
        out[2, k] = r * square - last
        out[3, k] = last


@compiled(error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})
def pairs_with(powers: FloatArray, waves: FloatArray, j: int) -> float:
    """Return Σ_{k<j} Cov(1{X_j ≤ y}, 1{X_k ≤ y}) at one node."""
    linear, square, cube, fourth_power = powers[0], powers[1], powers[2], powers[3]
    flat, tilted, bent, below = waves[0], waves[1], waves[2], waves[3]
    zero = waves.dtype.type(0.0)
    first, second, third, fourth, p = zero, zero, zero, zero, below[j]
    for k in range(j):
        first += linear[k] * flat[k]
        second += square[k] * tilted[k]
        third += cube[k] * bent[k]
        fourth += fourth_power[k] * (min(p, below[k]) - p * below[k])
    return float(first * flat[j] + second * tilted[j] + third * bent[j] + fourth)


VARIANCE_NODES = 6
"""Number of values of y at which the variance of the count is summed over pairs; its ratio to the
variance under independence is interpolated.
"""

LIGHT = 0.02
"""Probability of being the largest below which the counts of a maximum are independent."""

NEAR_INNER, NEAR_OUTER = 2.0, 1.3
"""Deviations up to which a rival below the largest shifts the counted: inner and outer radius."""

FAR = 5.5
"""Standard deviations from which a variable lies on its side of Y with certainty (error 2e-8)."""


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

    always: variables below Y with certainty. ties_below: whether X_j = Y counts.

    E h(K) = Σ_p ∫ E[h(K) | Y_p = y, Y_q ≤ y for q ≠ p] P{Y_q ≤ y for q ≠ p | Y_p = y} dP{Y_p ≤ y}.
    """
    several, most = len(groups.mean), most_cells(len(groups.mean))
    load, rest = np.zeros((several, stop - start)), np.zeros((several, stop - start))
    filled, first = np.zeros(several, dtype=np.int64), np.zeros(several + 1, dtype=np.int64)
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
        heights, by_cell = where_largest(law, groups, p, counted, near)
        n = filled[p] = by_cell.shape[1]
        if n == 0:
            continue
        table[:, p, :n] = by_cell
        # nodes of equal mass at which the pairs are summed
        chosen = spread_over(by_cell[1])
        first[p + 1] = first[p] + len(chosen)
        nodes[first[p] : first[p + 1]] = chosen
        for x in range(len(chosen)):
            waves_at(heights[chosen[x]], rest[p], always, waves[first[p] + x])
    shared = shared_variance(law, start, load, rest, first, waves[: first[-1]])
    return over_cells(table, filled, first, nodes, shared, stop - start, size, inner)


@compiled(error_model="numpy")
def where_largest(
    law: Law, groups: Groups, p: int, counted: Counted, near: float
) -> tuple[FloatArray, FloatArray]:
    """Return the heights of the counted variables in the cells where Y_p is the largest, and for
    each cell (4, cells): midpoint, probability, mean of the count, its variance under independence.

    Writes the regression of the counted on Y_p into their load and rest.
    """
    start, deviation, load, rest = counted.start, counted.deviation, counted.load, counted.rest
    for m in range(len(load)):
        load[m] = groups.load[p, start + m] / deviation if deviation > 0 else 0.0
        left = law.variance[start + m] - load[m] ** 2
        rest[m] = math.sqrt(left) if left > 100 * SAME * law.variance[start + m] else 0.0
    edges = cells(groups, p, counted, law.mean[start : start + len(load)])
    z, mass, heights = weigh(law, groups, p, counted, edges, near)
    mean, alone = independent_counts(law, counted, z, heights)
    return heights, np.stack((z, mass, mean, alone))


@compiled(error_model="numpy")
def over_cells(
    table: FloatArray,
    filled: IntArray,
    first: IntArray,
    nodes: IntArray,
    shared: FloatArray,
    most: int,
    size: int,
    inner: bool,
) -> tuple[float, float]:
    """Return the means of the two functions of `of_count` over the cells of all groups.

    table (4, groups, cells): output of `where_largest` for the first `filled` cells of each group.
    The variance of the count is the variance under independence times a ratio, interpolated between
    the nodes of the group, nodes[first[p]..first[p + 1]−1], where `shared` gives it.
    """
    z, mass, mean, alone = table[0], table[1], table[2], table[3]
    total, first_sum, second_sum = 0.0, 0.0, 0.0
    for p in range(len(filled)):
        n, group_nodes = filled[p], nodes[first[p] : first[p + 1]]
        variance_ratio = np.ones(max(len(group_nodes), 1))
        for x in range(len(group_nodes)):
            independent = alone[p, group_nodes[x]]
            variance_ratio[x] = (
                max(1 + shared[first[p] + x] / independent, 0.0) if independent > 1e-9 else 1.0
            )
        ratio = (
            np.interp(z[p, :n], z[p, :n][group_nodes], variance_ratio)
            if len(group_nodes) > 0
            else np.ones(n)
        )
        for q in range(n):
            first_value, second_value = of_count(
                mean[p, q], alone[p, q] * ratio[q], most, size, inner
            )
            total, first_sum, second_sum = (
                total + mass[p, q],
                first_sum + mass[p, q] * first_value,
                second_sum + mass[p, q] * second_value,
            )
    return first_sum / total, second_sum / total


@compiled(error_model="numpy")
def independent_counts(
    law: Law, counted: Counted, z: FloatArray, heights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mean of the count and its variance under independence at each y = centre +
    deviation·z, from P{X_j ≤ y} = Φ(height).

    X_j is regressed on Y; without a residual X_j lies below Y or not.
    """
    start, centre, deviation, load, rest, always, ties_below = counted
    mean, alone = np.zeros(len(z)), np.zeros(len(z))
    for m in range(len(load)):
        if always[m]:
            mean += 1.0
        elif rest[m] == 0:
            rounding = SAME * (abs(centre) + abs(law.mean[start + m]))
            for q in range(len(z)):
                above = centre - law.mean[start + m] + (deviation - load[m]) * z[q]
                if above > rounding or (ties_below and above >= -rounding):
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
    """Return indices that divide the mass evenly: VARIANCE_NODES for mass 1, 0 below LIGHT."""
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
    these moments (a binomial on fewer tokens if the variance is too small), since K is often all or
    nothing. If that law underflows, and for the inner radius (K of the selected lie outside): 1 −
    K/N and 2(N−K)/(2N−K), to second order, e.g. N/(N+κ) + V N/(N+κ)³.
    """
    mean = min(max(mean, 0.0), float(most))
    variance = min(max(variance, 0.0), mean * (most - mean))
    if inner:
        return 1 - mean / size, max(
            2 * (size - mean) / (2 * size - mean) - 2 * size * variance / (2 * size - mean) ** 3,
            0.0,
        )
    # beta-binomial law with these moments, on fewer trials if the variance is below a binomial's
    trials = most
    if variance < mean * (1 - mean / most):
        trials = max(1, min(most, math.ceil(mean * mean / (mean - variance) - 1e-9)))
    p = min(mean / trials, 1.0)
    single = trials * p * (1 - p)
    within = (variance / single - 1) / (trials - 1) if trials > 1 and single > 0 else 0.0
    within = min(max(within, 1e-7), 1 - 1e-9)
    # its two parameters, and the probability of no hit by log-gamma functions
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
    # sum by recursion of its probabilities until the remainder is negligible
    chance, total, first_sum, second_sum = math.exp(start), 0.0, 0.0, 0.0
    for k in range(trials + 1):
        total += chance
        first_sum += chance * size / (size + k)
        second_sum += chance * 2 * size / (2 * size + k)
        if k > mean and 1 - total < 1e-7:
            break
        chance *= (trials - k) / (k + 1.0) * (hits + k) / (misses + trials - k - 1)
    return first_sum / total, second_sum / total


@compiled(error_model="numpy")
def twins(cosines: FloatArray, a: FloatArray, n: int) -> BoolArray:
    """Return which ranks, (T,), equal a contribution across rank n: ‖y_i − y_j‖² = 0."""
    result = np.zeros(len(a), dtype=np.bool_)
    for i in range(n):
        for j in range(n, len(a)):
            both = a[i] * a[i] + a[j] * a[j]
            if both - 2 * a[i] * a[j] * cosines[i, j] <= SAME * both:
                result[i] = result[j] = True
    return result
