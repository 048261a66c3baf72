r"""Largest of many correlated normals by Clark's recursion, compiled: the first half of
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
"""Groups of like spread that are kept apart; the last one takes all smaller spreads."""

LEADING_NODES = 24
"""Values at which chances to lead are summed."""

SAME = 1e-12
"""Relative variance of a difference below which two normals are one."""


class Law(NamedTuple):
    """Joint normal law of T variables by rank, covariances computed where they are used.

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
    """Maxima Y_p of G groups of variables, themselves taken as jointly normal.

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
    """Return Φ(x) to 1e-10 by Taylor's series at the nearest point of a table, a tenth of the
    work: where thousands of them are summed.
    """
    if not abs(x) < REACHED:
        return 0.0 if x < 0 else 1.0
    k = int((x + REACHED) * STEPS + 0.5)
    at = k / STEPS - REACHED
    d = x - at
    return CDF[k] + DENSITY[k] * d * (1 - 0.5 * d * (at - (at * at - 1) * d / 3))


@compiled(inline="always")
def normal_density(x: float) -> float:
    """Return φ(x)."""
    return 0.3989422804014327 * math.exp(-0.5 * x * x)


@compiled(error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def covariances(law: Law, k: int, low: int, out: FloatArray) -> None:
    """Write Cov(X_k, X_l) for the ranks l = low, low + 1, … into `out`."""
    cosines, a, along, away, slope = (
        law.cosines[k, low:],
        law.a[low:],
        law.along[low:],
        law.away[low:],
        law.slope[low:],
    )
    own, mine, twice = law.a[k], law.along[k], 2 * law.t * law.away[k]
    scale = 2 * law.slope[k] / law.dimension
    for m in range(out.shape[0]):
        e = own * a[m] * (cosines[m] - mine * along[m])
        out[m] = scale * slope[m] * e * (e + twice * away[m])


@compiled(error_model="numpy")
def larger_of_two(
    rise: float, variance: float, other: float, covariance: float
) -> tuple[float, float, float, float]:
    """Return Clark's moments of max(X, Z), E X − E Z = `rise`: its mean less E Z, its variance,
    P{X > Z}, P{Z > X}.
    """
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
def merge_rows(one: FloatArray, other: FloatArray, kept: float, new: float) -> None:
    """Write kept·one + new·other into `one`."""
    for m in range(one.shape[0]):
        one[m] = kept * one[m] + new * other[m]


@compiled(error_model="numpy")
def largest(
    law: Law, members: IntArray, load: FloatArray, share: FloatArray
) -> tuple[float, float]:
    """Return mean and variance of Y = max over `members`, neighbours merged first: a tree, whose
    rounds merge maxima of like many tokens.

    Fills load (log2(members) + 2, T), its first row Cov(Y, X_l), the others scratch, and share:
    Cov(Y, Z) = Σ_m share_m Cov(X_m, Z) for any Z. A branch is merged as soon as its two halves are
    there, which is the same tree in little memory.
    """
    mean, variance = np.empty(len(load)), np.empty(len(load))
    first, depth = np.zeros(len(load), dtype=np.int64), 0
    share[:] = 1.0
    for at in range(len(members)):
        # a leaf of the tree: one token, with its covariances
        covariances(law, members[at], 0, load[depth])
        mean[depth], variance[depth], first[depth] = (
            law.mean[members[at]],
            law.variance[members[at]],
            at,
        )
        depth, halves = depth + 1, at + 1
        # merge as long as both halves of a branch are there
        while depth > 1 and (halves % 2 == 0 or at == len(members) - 1):
            start, middle, both = first[depth - 2], first[depth - 1], 0.0
            # covariance of the two maxima, from that of the left one with the members of the right
            for m in range(middle, at + 1):
                both += share[m] * load[depth - 2, members[m]]
            rise = mean[depth - 2] - mean[depth - 1]
            above, spread, kept, new = larger_of_two(
                rise, variance[depth - 2], variance[depth - 1], both
            )
            # covariances and shares follow Clark's weights P{X > Z}, P{Z > X}
            merge_rows(load[depth - 2], load[depth - 1], kept, new)
            share[start:middle] *= kept
            share[middle : at + 1] *= new
            mean[depth - 2], variance[depth - 2] = mean[depth - 1] + above, spread
            depth, halves = depth - 1, halves // 2
    return mean[0], variance[0]


@compiled(error_model="numpy")
def chances_to_lead(mean: FloatArray, deviation: FloatArray) -> FloatArray:
    """Return how likely each of these normals would be the largest if they were independent,
    roughly; it only says where to cut.
    """
    # midpoint rule over where the largest can lie: density of one times distribution functions of
    # the others
    low, high = (mean - 3 * deviation).max(), (mean + 3 * deviation).max()
    result, logs, step = np.zeros(len(mean)), np.zeros(len(mean)), (high - low) / LEADING_NODES
    for q in range(LEADING_NODES):
        y, total = low + (q + 0.5) * step, 0.0
        for m in range(len(mean)):
            logs[m] = 0.0
            if y < mean[m] + 4 * deviation[m]:
                logs[m] = math.log(
                    max(
                        tabled_cdf((y - mean[m]) / deviation[m]) if deviation[m] > 0 else 0.0,
                        1e-300,
                    )
                )
                total += logs[m]
        for m in range(len(mean)):
            if deviation[m] > 0 and y < mean[m] + 4 * deviation[m]:
                result[m] += (
                    math.exp(total - logs[m])
                    * normal_density((y - mean[m]) / deviation[m])
                    / deviation[m]
                )
    total = result.sum()
    return result / total if total > 0 else np.full(len(mean), 1 / len(mean))


@compiled(error_model="numpy")
def by_spread(
    law: Law, start: int, stop: int, ratio: float, order: FloatArray
) -> tuple[IntArray, IntArray]:
    """Return the contenders by falling spread, in groups whose spreads differ by `ratio` at
    most, and where these begin; inside by `order`.
    """
    # contenders: what can be the largest
    spread = np.sqrt(law.variance[start:stop])
    bar = (law.mean[start:stop] - 3 * spread).max()
    members = np.flatnonzero(law.mean[start:stop] + 6 * spread >= bar) + start
    members = members[np.argsort(-law.variance[members], kind="mergesort")]
    first, groups, at = np.zeros(MOST_GROUPS + 1, dtype=np.int64), 0, 0
    while at < len(members):
        begun, widest = at, law.variance[members[at]]
        while at < len(members) and (
            groups == MOST_GROUPS - 1 or law.variance[members[at]] * ratio * ratio >= widest
        ):
            at += 1
        members[begun:at] = members[begun:at][
            np.argsort(order[members[begun:at]], kind="mergesort")
        ]
        groups += 1
        first[groups] = at
    return members, first[: groups + 1]


@compiled(error_model="numpy")
def in_runs(law: Law, members: IntArray, first: IntArray, count: int) -> IntArray:
    """Return where groups begin, once those of `first` are cut into runs alike in their chance
    to lead, each with about 1/`count` of it.
    """
    chance = chances_to_lead(law.mean[members], np.sqrt(law.variance[members]))
    begins, groups = np.zeros(len(first) + count, dtype=np.int64), 0
    for p in range(len(first) - 1):
        at, stop = first[p], first[p + 1]
        left = chance[at:stop].sum()
        runs = max(1, round(count * left))
        while at < stop:
            begun, held, part = at, 0.0, left / max(runs, 1)
            while at < stop and (runs <= 1 or at == begun or held + 0.5 * chance[at] <= part):
                held += chance[at]
                at += 1
            runs, left, groups = runs - 1, left - held, groups + 1
            begins[groups] = at
    return begins[: groups + 1]


@compiled(error_model="numpy")
def group_maxima(law: Law, members: IntArray, first: IntArray) -> Groups:
    """Return the maxima of groups of ranks: `members` first[p]..first[p+1]−1 are group p."""
    tokens, groups = len(law.a), len(first) - 1
    mean, variance, load = np.empty(groups), np.empty(groups), np.empty((groups, tokens))
    share, scratch = (
        np.empty(len(members)),
        np.empty((math.ceil(math.log2(len(members))) + 2, tokens)),
    )
    for p in range(groups):
        own = slice(first[p], first[p + 1])
        mean[p], variance[p] = largest(law, members[own], scratch, share[own])
        load[p] = scratch[0]
    # covariance of two maxima: the shares of one over the covariances of the other, made symmetric
    between = np.zeros((groups, groups))
    for p in range(groups):
        for q in range(groups):
            for m in range(first[q], first[q + 1]):
                between[p, q] += share[m] * load[p, members[m]]
    # a group too low to lead is left out of the integrals
    live = mean + 5 * np.sqrt(variance) >= (mean - 3 * np.sqrt(variance)).max()
    return Groups(mean, variance, load, 0.5 * (between + between.T), live)
