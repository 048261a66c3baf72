r"""Maximum of many correlated normals by Clark's recursion, compiled: the first half of
`theory.editions.predicted.predict`.

Given t = ‖s‖² the squared distances D_l have the moments (THEORY: Model G)

    E D_l = C̃_ll + (1−b_l)² t,    Cov(D_k, D_l) = [2C̃_kl² + 4C̃_kl (1−b_k)(1−b_l) t]/d,

C̃_kl = a_k a_l (ρ_kl − r_k r_l), r_l the correlation of y_l with s. An increasing function of D_l
with derivative slope_l at the mean is taken as normal, with covariance slope_k slope_l Cov(D_k,
D_l). Source: Clark, "The greatest of a finite set of random variables", Operations Research 9
(1961). Imports numpy and numba; import it lazily.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.compiled import compiled

MOST_GROUPS = 24
"""Largest number of groups of similar spread; the last group takes all smaller spreads."""

LEADING_NODES = 24
"""Number of nodes of the integral for the probability of being the largest."""

SAME = 1e-12
"""Relative variance of a difference below which two normals are identical."""


class Law(NamedTuple):
    """Joint normal law of T variables by rank; covariances are computed on demand.

    cosines (T, T); a, along (r_l), away (1−b_l), slope, mean, variance (T,); t = ‖s‖² and
    dimension d.
    """

    cosines: FloatArray
    a: FloatArray
    along: FloatArray
    away: FloatArray
    slope: FloatArray
    mean: FloatArray
    variance: FloatArray
    t: float
    dimension: float


class Groups(NamedTuple):
    """Maxima Y_p of G groups of variables, approximated as jointly normal.

    mean, variance (G,); load (G, T): Cov(Y_p, X_l); between (G, G): Cov(Y_p, Y_q); live (G,):
    whether Y_p can be the largest.
    """

    mean: FloatArray
    variance: FloatArray
    load: FloatArray
    between: FloatArray
    live: BoolArray


@compiled(inline="always")
def normal_cdf(x: float) -> float:
    """Return Φ(x)."""
    return 0.5 * math.erfc(-x * 0.7071067811865476)


STEPS, REACHED = 64, 6
TABLED = np.arange(-REACHED * STEPS, REACHED * STEPS + 1) / STEPS
CDF = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in TABLED])
DENSITY = np.exp(-(TABLED**2) / 2) / math.sqrt(2 * math.pi)


@compiled(inline="always")
def tabled_cdf(x: float) -> float:
    """Return Φ(x) to 1e-10 from a table and a Taylor series, at a tenth of the cost."""
    if not abs(x) < REACHED:
        return 0.0 if x < 0 else 1.0
    k = int((x + REACHED) * STEPS + 0.5)
    node = k / STEPS - REACHED
    d = x - node
    return CDF[k] + DENSITY[k] * d * (1 - 0.5 * d * (node - (node * node - 1) * d / 3))


@compiled(inline="always")
def normal_density(x: float) -> float:
    """Return φ(x)."""
    return 0.3989422804014327 * math.exp(-0.5 * x * x)


@compiled(error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def covariances(law: Law, k: int, low: int, out: FloatArray) -> None:
    """Write Cov(X_k, X_l) for the ranks l = low, low + 1, … into `out`."""
    cosines = law.cosines[k, low:]
    a = law.a[low:]
    along = law.along[low:]
    away = law.away[low:]
    slope = law.slope[low:]
    a_k, along_k, twice = law.a[k], law.along[k], 2 * law.t * law.away[k]
    scale = 2 * law.slope[k] / law.dimension
    for m in range(out.shape[0]):
        e = a_k * a[m] * (cosines[m] - along_k * along[m])
        out[m] = scale * slope[m] * e * (e + twice * away[m])


@compiled(error_model="numpy")
def larger_of_two(
    rise: float, variance: float, other: float, covariance: float
) -> tuple[float, float, float, float]:
    """Return Clark's max(X, Z): mean minus E Z, variance, P{X > Z}, P{Z > X}; rise E X − E Z."""
    spread = variance + other - 2 * covariance
    if spread <= SAME * (variance + other):
        return (rise, variance, 1.0, 0.0) if rise >= 0 else (0.0, other, 0.0, 1.0)
    # Clark (1961): moments of a maximum from the standardised difference
    spread = math.sqrt(spread)
    ratio = rise / spread
    first, second, density = normal_cdf(ratio), normal_cdf(-ratio), normal_density(ratio)
    mean = rise * first + spread * density
    square = (variance + rise * rise) * first + other * second + rise * spread * density
    return mean, max(square - mean * mean, 0.0), first, second


@compiled(error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def merge_rows(row: FloatArray, other: FloatArray, first: float, second: float) -> None:
    """Write first·row + second·other into `row`."""
    for m in range(row.shape[0]):
        row[m] = first * row[m] + second * other[m]


@compiled(error_model="numpy")
def largest(
    law: Law, members: IntArray, load: FloatArray, share: FloatArray
) -> tuple[float, float]:
    """Return mean and variance of Y = max over `members`, merged pairwise as a balanced tree of
    neighbours.

    Fills load (log2(members) + 2, T), whose first row is Cov(Y, X_l) and the others scratch, and
    share: Cov(Y, Z) = Σ_m share_m Cov(X_m, Z) for any Z. A branch is merged as soon as both halves
    exist, which saves memory.
    """
    mean, variance = np.empty(len(load)), np.empty(len(load))
    first, depth = np.zeros(len(load), dtype=np.int64), 0
    share[:] = 1.0
    for index in range(len(members)):
        # leaf of the tree: one token with its covariances
        covariances(law, members[index], 0, load[depth])
        mean[depth] = law.mean[members[index]]
        variance[depth] = law.variance[members[index]]
        first[depth] = index
        depth, halves = depth + 1, index + 1
        # merge while both halves of a branch exist
        while depth > 1 and (halves % 2 == 0 or index == len(members) - 1):
            start, middle, both = first[depth - 2], first[depth - 1], 0.0
            # covariance of the two maxima, from that of the left maximum with the right members
            for m in range(middle, index + 1):
                both += share[m] * load[depth - 2, members[m]]
            rise = mean[depth - 2] - mean[depth - 1]
            above, spread, first_weight, second_weight = larger_of_two(
                rise, variance[depth - 2], variance[depth - 1], both
            )
            # covariances and shares follow Clark's weights P{X > Z}, P{Z > X}
            merge_rows(load[depth - 2], load[depth - 1], first_weight, second_weight)
            share[start:middle] *= first_weight
            share[middle : index + 1] *= second_weight
            mean[depth - 2], variance[depth - 2] = mean[depth - 1] + above, spread
            depth, halves = depth - 1, halves // 2
    return mean[0], variance[0]


@compiled(error_model="numpy")
def leading_probabilities(mean: FloatArray, deviation: FloatArray) -> FloatArray:
    """Return P{largest} of each normal under independence; only decides where groups split."""
    # midpoint rule over the range of the maximum: density of one times the CDFs of the others
    low, high = (mean - 3 * deviation).max(), (mean + 3 * deviation).max()
    result, log_cdf, step = np.zeros(len(mean)), np.zeros(len(mean)), (high - low) / LEADING_NODES
    for q in range(LEADING_NODES):
        y, total = low + (q + 0.5) * step, 0.0
        for m in range(len(mean)):
            log_cdf[m] = 0.0
            if y < mean[m] + 4 * deviation[m]:
                below = tabled_cdf((y - mean[m]) / deviation[m]) if deviation[m] > 0 else 0.0
                log_cdf[m] = math.log(max(below, 1e-300))
                total += log_cdf[m]
        for m in range(len(mean)):
            if deviation[m] > 0 and y < mean[m] + 4 * deviation[m]:
                density = normal_density((y - mean[m]) / deviation[m])
                result[m] += math.exp(total - log_cdf[m]) * density / deviation[m]
    total = result.sum()
    return result / total if total > 0 else np.full(len(mean), 1 / len(mean))


@compiled(error_model="numpy")
def by_spread(
    law: Law, start: int, stop: int, ratio: float, order: FloatArray
) -> tuple[IntArray, IntArray]:
    """Return the candidates for the maximum by descending spread, in groups whose spreads differ by
    at most `ratio`, and the start of each group; within a group by `order`.
    """
    # candidates: variables that can be the largest
    spread = np.sqrt(law.variance[start:stop])
    bar = (law.mean[start:stop] - 3 * spread).max()
    members = np.flatnonzero(law.mean[start:stop] + 6 * spread >= bar) + start
    members = members[np.argsort(-law.variance[members], kind="mergesort")]
    first, groups, position = np.zeros(MOST_GROUPS + 1, dtype=np.int64), 0, 0
    while position < len(members):
        start_of_group, widest = position, law.variance[members[position]]
        while position < len(members) and (
            groups == MOST_GROUPS - 1 or law.variance[members[position]] * ratio * ratio >= widest
        ):
            position += 1
        members[start_of_group:position] = members[start_of_group:position][
            np.argsort(order[members[start_of_group:position]], kind="mergesort")
        ]
        groups += 1
        first[groups] = position
    return members, first[: groups + 1]


@compiled(error_model="numpy")
def in_runs(law: Law, members: IntArray, first: IntArray, count: int) -> IntArray:
    """Return group starts after a split into runs of about 1/`count` of P{largest} each."""
    chance = leading_probabilities(law.mean[members], np.sqrt(law.variance[members]))
    begins, groups = np.zeros(len(first) + count, dtype=np.int64), 0
    for p in range(len(first) - 1):
        position, stop = first[p], first[p + 1]
        remaining = chance[position:stop].sum()
        runs = max(1, round(count * remaining))
        while position < stop:
            run_start, run_chance, target = position, 0.0, remaining / max(runs, 1)
            while position < stop and (
                runs <= 1 or position == run_start or run_chance + 0.5 * chance[position] <= target
            ):
                run_chance += chance[position]
                position += 1
            runs, remaining, groups = runs - 1, remaining - run_chance, groups + 1
            begins[groups] = position
    return begins[: groups + 1]


@compiled(error_model="numpy")
def group_maxima(law: Law, members: IntArray, first: IntArray) -> Groups:
    """Return the maxima of groups of ranks: `members` first[p]..first[p+1]−1 are group p."""
    tokens, groups = len(law.a), len(first) - 1
    mean, variance, load = np.empty(groups), np.empty(groups), np.empty((groups, tokens))
    share = np.empty(len(members))
    scratch = np.empty((math.ceil(math.log2(len(members))) + 2, tokens))
    for p in range(groups):
        group = slice(first[p], first[p + 1])
        mean[p], variance[p] = largest(law, members[group], scratch, share[group])
        load[p] = scratch[0]
    # covariance of two maxima: shares of one with covariances of the other, symmetrised
    between = np.zeros((groups, groups))
    for p in range(groups):
        for q in range(groups):
            for m in range(first[q], first[q + 1]):
                between[p, q] += share[m] * load[p, members[m]]
    # groups too low to be the largest are excluded from the integrals
    live = mean + 5 * np.sqrt(variance) >= (mean - 3 * np.sqrt(variance)).max()
    return Groups(mean, variance, load, 0.5 * (between + between.T), live)
