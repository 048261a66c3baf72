r"""Largest of many correlated normals by Clark's recursion, compiled: the first half of `theory.predicted`.

Given t = ‖s‖² the squared distances D_l have the moments (THEORY: Model G)

    E D_l = C̃_ll + (1−b_l)² t,    Cov(D_k, D_l) = [2C̃_kl² + 4C̃_kl (1−b_k)(1−b_l) t]/d,

C̃_kl = a_k a_l (ρ_kl − r_k r_l), r_l the correlation of y_l with s. An increasing function of D_l with derivative slope_l at the mean is
taken as normal, with covariance slope_k slope_l Cov(D_k, D_l).
Source: Clark, "The greatest of a finite set of random variables", Operations Research 9 (1961). Imports numpy and numba; import it lazily.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray

MOST_GROUPS = 24
"""Groups of like spread that are kept apart; the last one takes all smaller spreads."""

SAME = 1e-12
"""Relative variance of a difference below which two normals are one."""


class Law(NamedTuple):
    """Joint normal law of T variables by rank, covariances computed where they are used.

    cosines (T, T); a, along (r_l), away (1−b_l), slope, mean, variance (T,); t = ‖s‖² and dimension d.
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

    mean, variance (G,); load (G, T): Cov(Y_p, X_l); between (G, G): Cov(Y_p, Y_q); live (G,): whether Y_p can be the largest.
    """

    mean: FloatArray
    variance: FloatArray
    load: FloatArray
    between: FloatArray
    live: BoolArray


@numba.njit(nogil=True, cache=True, inline="always")
def normal_cdf(x: float) -> float:
    """Return Φ(x)."""
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@numba.njit(nogil=True, cache=True, inline="always")
def normal_density(x: float) -> float:
    """Return φ(x)."""
    return 0.3989422804014327 * math.exp(-0.5 * x * x)


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def covariances(law: Law, k: int, low: int, out: FloatArray) -> None:
    """Write Cov(X_k, X_l) for the ranks l = low, low + 1, … into `out`."""
    cosines, a, along, away, slope = law.cosines[k, low:], law.a[low:], law.along[low:], law.away[low:], law.slope[low:]
    own, mine, twice = law.a[k], law.along[k], 2 * law.t * law.away[k]
    scale = 2 * law.slope[k] / law.dimension
    for m in range(out.shape[0]):
        e = own * a[m] * (cosines[m] - mine * along[m])
        out[m] = scale * slope[m] * e * (e + twice * away[m])


@numba.njit(nogil=True, cache=True, error_model="numpy")
def larger_of_two(rise: float, variance: float, other: float, covariance: float) -> tuple[float, float, float, float]:
    """Return Clark's moments of max(X, Z), E X − E Z = `rise`: its mean less E Z, its variance, P{X > Z}, P{Z > X}."""
    spread = variance + other - 2 * covariance
    if spread <= SAME * (variance + other):
        return (rise, variance, 1.0, 0.0) if rise >= 0 else (0.0, other, 0.0, 1.0)
    spread = math.sqrt(spread)
    ratio = rise / spread
    first, second, density = normal_cdf(ratio), normal_cdf(-ratio), normal_density(ratio)
    mean = rise * first + spread * density
    square = (variance + rise * rise) * first + other * second + rise * spread * density
    return mean, max(square - mean * mean, 0.0), first, second


@numba.njit(nogil=True, cache=True, error_model="numpy")
def largest(law: Law, members: IntArray, load: FloatArray, share: FloatArray) -> tuple[float, float]:
    """Return mean and variance of Y = max over `members`, taken in in that order.

    Fills load (T,), Cov(Y, X_l), and share: Cov(Y, Z) = Σ_m share_m Cov(X_m, Z) for any Z.
    """
    row = np.empty(load.shape[0])
    mean, variance = law.mean[members[0]], law.variance[members[0]]
    covariances(law, members[0], 0, load)
    share[:] = 0.0
    share[0] = 1.0
    for at in range(1, len(members)):
        k = members[at]
        above, spread, kept, new = larger_of_two(mean - law.mean[k], variance, law.variance[k], load[k])
        if new < 1e-14:
            continue
        mean, variance = law.mean[k] + above, spread
        covariances(law, k, 0, row)
        for m in range(load.shape[0]):
            load[m] = load[m] * kept + row[m] * new
        for m in range(at):
            share[m] *= kept
        share[at] = new
    return mean, variance


@numba.njit(nogil=True, cache=True, error_model="numpy")
def contenders(law: Law, start: int, stop: int) -> IntArray:
    """Return the ranks in start..stop−1 that can be the largest, by falling spread."""
    spread = np.sqrt(law.variance[start:stop])
    bar = (law.mean[start:stop] - 3 * spread).max()
    kept = np.flatnonzero(law.mean[start:stop] + 6 * spread >= bar)
    return kept[np.argsort(-spread[kept], kind="mergesort")] + start


@numba.njit(nogil=True, cache=True, error_model="numpy")
def group_maxima(law: Law, start: int, stop: int, ratio: float, place: FloatArray) -> Groups:
    """Return the maxima of the ranks start..stop−1 in groups whose spreads differ by at most `ratio` (inf: one group).

    Inside a group tokens are taken in by rising `place` (T,).
    """
    tokens, members = len(law.a), contenders(law, start, stop)
    mean, variance, load = np.empty(MOST_GROUPS), np.empty(MOST_GROUPS), np.empty((MOST_GROUPS, tokens))
    first, share = np.zeros(MOST_GROUPS + 1, dtype=np.int64), np.empty(len(members))
    groups, at = 0, 0
    while at < len(members):
        end, widest = at + 1, law.variance[members[at]]
        while end < len(members) and (groups == MOST_GROUPS - 1 or law.variance[members[end]] * ratio * ratio >= widest):
            end += 1
        members[at:end] = members[at:end][np.argsort(place[members[at:end]], kind="mergesort")]
        mean[groups], variance[groups] = largest(law, members[at:end], load[groups], share[at:end])
        groups += 1
        first[groups] = at = end
    between = np.zeros((groups, groups))
    for p in range(groups):
        for q in range(groups):
            for m in range(first[q], first[q + 1]):
                between[p, q] += share[m] * load[p, members[m]]
    mean, variance = mean[:groups], variance[:groups]
    live = mean + 5 * np.sqrt(variance) >= (mean - 3 * np.sqrt(variance)).max()
    return Groups(mean, variance, load[:groups], between, live)
