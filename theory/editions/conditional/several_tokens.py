r"""Bounds of E P from several selected tokens jointly: those with the most expected intruders.

Let A ⊆ I, Z = (s, y_i : i ∈ A), R = max_{i∈A} D_i, K = #{j∈J : D_j ≤ R}. Given Z, R is known and
the D_j are noncentral chi-square: e_j is regressed on the e_i of A (slopes g_jk, residual variance
v_{j|A}), D_j = ‖(1−b_j)s − Σ_k g_jk e_k − r_j‖². With F_j = P{D_j ≤ R | Z}, κ = Σ_j F_j and V by
the correlations of the r_j, as in `theory.editions.conditional.conditional_edition`, and K_i = #{j
: D_j ≤ D_i}, P = f(max_{i∈I} K_i) ≤ f(K) and 1 − P ≤ (1 − f(K)) + Σ_{i∈I∖A} (1 − f(K_i)), so that

    E P ≤ E min(1 − Σ_m δ_m F_(m), N/(N+κ) + V/(N+κ)²)
    E P ≥ E f_int(κ) − Σ_{i∈I∖A} E[1 − f_int(κ_i)]

F(r_max): 2N for N. The Gram of (s, e_A) is Wishart: T Tᵀ, T triangular with χ_{d−k}/√d on the
diagonal and normals below (Bartlett 1933). The average over T is taken by scrambled Sobol points,
in `REPLICATES` independent parts whose spread estimates the error. Unit-free. Imports numpy and
scipy.special; scipy.stats and numba on first use.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from theory.arrays import FloatArray, IntArray
from theory.editions.conditional.conditioning import GivenSum
from theory.editions.conditional.count_bounds import (
    absolute_correlation,
    comonotone,
    interpolated,
    quadratic,
)
from theory.editions.conditional.distance_distribution import distance_table, radius_quantiles
from theory.editions.conditional.quadrature_error import (
    TOLERANCE,
    error_of_mean,
    missed_probability,
    variance_of_mean,
)
from theory.editions.sharp.sharp_law import SUM_ROUNDING

MOST_TOKENS = 8
"""Largest number of tokens in A."""

REPLICATES = 16
"""Number of independent parts of the nodes."""

FIRST, MOST = 2**5, 2**9
"""Initial and largest number of nodes of each part."""

MOST_NUMBERS = 3 * 2**19
"""Largest number of probabilities computed in total; limits the cost of long heads."""

BLOCK_NUMBERS = 2**18
"""Number of probabilities in memory at once: 2 MB."""

SORTING_PAYS = 5e-4
"""Smallest gain of the comonotone bound over the first nodes that justifies its sort."""

SEED = 20_260_201
"""Seed of the scrambling."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Crowd:
    """Law given the m tokens of A, in units of σ_ss. The e_A are combinations of r ≤ m independent
    unit directions u.

    pull (m,): b_i. factor (m, r): e_A = factor u. known_part (1 + r + r(r+1)/2, M): coefficients of
    t, √t⟨s/‖s‖, u_k⟩ and ⟨u_k, u_l⟩, k ≥ l, in the squared length of the known part of s − y_j,
    minus t. variance (M,): v_{j|A}; 0: D_j is known, −1: tied with a token of A. correlation (M,
    M): |ρ̃| of the residuals of J; None without the variance of the count.
    """

    pull: FloatArray
    factor: FloatArray
    known_part: FloatArray
    variance: FloatArray
    correlation: FloatArray | None


def crowd_bounds(selection: GivenSum, chosen: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return E f_int(κ) and the upper bound of E P, then both for F(r_max), shape (4,), and the
    error of each, (4,).

    The error of an average is the spread of its parts, or its last change if larger, plus an
    allowance for an event that the nodes missed (no token of J nearer, or all). Nodes are doubled
    until all errors are within `TOLERANCE`, or up to `MOST`. If A is all of I, E f_int(κ) is a
    lower bound of E P.
    """
    crowd = given_crowd(selection, chosen)
    most = min(MOST, max(2 * FIRST, MOST_NUMBERS // (REPLICATES * len(crowd.variance))))
    total, start, stop, before = np.zeros((REPLICATES, 4)), 0, FIRST, None
    sorting = crowd.correlation is None or _sorting_pays(selection, crowd)
    sizes = np.array([selection.n, 2 * selection.n])
    least = sizes / (sizes + len(crowd.variance))
    while True:
        for part, draws in enumerate(_draws(selection.dimension, crowd.factor.shape[1])):
            total[part] += _sums(selection, crowd, draws.subset(start, stop), sorting=sorting)
        # error of the mean: spread of the parts, last change, and events that the nodes missed
        parts = total / stop
        mean = parts.mean(axis=0)
        error = error_of_mean(variance_of_mean(parts, axis=0), REPLICATES - 1)
        if before is not None:
            error = np.maximum(error, np.abs(mean - before))
        farthest = np.stack([mean[::2] - least, 1 - mean[1::2]], axis=1).ravel()
        error += missed_probability(REPLICATES * stop) * farthest
        if error.max() <= TOLERANCE or 2 * stop > most:
            return mean, error
        start, stop, before = stop, 2 * stop, mean


def given_crowd(selection: GivenSum, chosen: IntArray) -> Crowd:
    """Return the selection given s and the chosen ranks < n."""
    n, residuals, floors = selection.n, selection.residual[chosen], selection.floor[chosen]
    scale = np.sqrt(residuals)
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    # independent directions of the e_A; directions within rounding of zero are dropped
    inner = selection.rows[np.ix_(chosen, chosen)]
    values, vectors = np.linalg.eigh(inner * inverse[:, None] * inverse)
    rounding = np.divide(floors, residuals, out=np.zeros_like(scale), where=scale > 0)
    significant = values > len(chosen) * max(float(rounding.max()), SUM_ROUNDING)
    values, vectors = values[significant], vectors[:, significant]
    # a sign that does not depend on rounding
    turned = np.cos(np.arange(1.0, len(chosen) + 1)) @ vectors < 0
    vectors = vectors * np.where(turned, -1.0, 1.0)
    # the e_j along these directions, and their residuals
    along = (vectors / np.sqrt(values)).T @ (selection.rows[chosen, n:] * inverse[:, None])
    residual = selection.residual[n:] - (along**2).sum(axis=0)
    regression = np.abs(inverse[:, None] * (vectors / np.sqrt(values)) @ along)
    floor = (np.sqrt(selection.floor[n:]) + np.sqrt(floors) @ regression) ** 2
    variance = np.where(residual > floor, residual, 0.0)
    k, other = np.tril_indices(len(values))
    pulls = selection.pull[n:]
    products = np.where(k == other, 1.0, 2.0)[:, None] * along[k] * along[other]
    known = [-(pulls * (2 - pulls))[None], -2 * (1 - pulls) * along, products]
    correlation = None
    if selection.outside is not None:
        correlation = absolute_correlation(selection.outside - along.T @ along, variance)
    return Crowd(
        pull=selection.pull[chosen],
        factor=scale[:, None] * vectors * np.sqrt(values),
        known_part=np.concatenate(known),
        variance=np.where(selection.ties[chosen].any(axis=0), -1.0, variance),
        correlation=correlation,
    )


class Draws(NamedTuple):
    """Nodes of (s, u) for unit directions u. They depend only on the dimension, not on the head.

    radius (K,): ‖s‖. u (K, rank, 1 + rank): parts along s and in the directions after it. inner
    (K, rank(rank+1)/2): ⟨u_k, u_l⟩, k ≥ l.
    """

    radius: FloatArray
    u: FloatArray
    inner: FloatArray

    def subset(self, start: int, stop: int) -> Draws:
        """Return nodes start..stop−1."""
        return Draws(*(array[start:stop] for array in self))


@lru_cache(maxsize=16)
def _draws(dimension: int, rank: int) -> tuple[Draws, ...]:
    """Return all nodes, one entry for each part."""
    from scipy.stats import qmc

    # normal scores of t, along s, on the diagonal of T and below it
    numbers, result = 1 + rank + rank * (rank + 1) // 2, []
    for part in range(REPLICATES):
        points = qmc.Sobol(numbers, rng=np.random.default_rng(SEED + part)).random(MOST)
        scores = ndtri(np.clip(points, 1e-12, 1 - 1e-12))
        result.append(_from_scores(dimension, rank, scores))
    return tuple(result)


def _from_scores(dimension: int, rank: int, scores: FloatArray) -> Draws:
    """Return the nodes of one part."""
    unit = 1 / np.sqrt(dimension)
    triangles = np.zeros((len(scores), rank, 1 + rank))
    triangles[:, :, 0] = unit * scores[:, 1 : 1 + rank]
    for k in range(rank):
        freedom = max(dimension - 1 - k, 0)
        triangles[:, k, 1 + k] = (
            unit * np.sqrt(freedom) * np.interp(scores[:, 1 + rank + k], *radius_quantiles(freedom))
        )
    below = np.tril_indices(rank, -1)
    triangles[:, below[0], 1 + below[1]] = unit * scores[:, 1 + 2 * rank :]
    rows, columns = np.tril_indices(rank)
    inner = (triangles @ triangles.transpose(0, 2, 1))[:, rows, columns]
    return Draws(np.interp(scores[:, 0], *radius_quantiles(dimension)), triangles, inner)


def _chances(selection: GivenSum, crowd: Crowd, draws: Draws) -> FloatArray:
    """Return F_j at each node, (K, M). Distances are minus t, as in `conditioning`."""
    from theory.editions.conditional.kernels import chances_of_known

    radius, u, inner = draws
    e, t = crowd.factor @ u, radius**2
    excess = (
        (e**2).sum(axis=2)
        - 2 * (1 - crowd.pull) * radius[:, None] * e[:, :, 0]
        - crowd.pull * (2 - crowd.pull) * t[:, None]
    )
    lengths = np.concatenate([t[:, None], radius[:, None] * u[:, :, 0], inner], axis=1)
    chance, d = lengths @ crowd.known_part, selection.dimension
    chances_of_known(distance_table(d), d, crowd.variance, t, excess.max(axis=1), chance)
    return np.asarray(chance)


def _sums(selection: GivenSum, crowd: Crowd, draws: Draws, *, sorting: bool) -> FloatArray:
    """Return sums over nodes of f_int(κ) and the upper bound, for P, then F(r_max), (4,)."""
    result, step = np.zeros(4), max(1, BLOCK_NUMBERS // len(crowd.variance))
    for start in range(0, len(draws.radius), step):
        chance = _chances(selection, crowd, draws.subset(start, start + step))
        count = chance.sum(axis=1)
        spread = np.inf if crowd.correlation is None else quadratic(chance, crowd.correlation)
        rising = np.sort(chance, axis=1) if sorting else chance
        for k, size in enumerate((selection.n, 2 * selection.n)):
            high = np.minimum(size / (size + count) + spread / (size + count) ** 2, 1.0)
            if sorting:
                high = np.minimum(high, comonotone(rising, size))
            result[2 * k : 2 * k + 2] += interpolated(count, size).sum(), high.sum()
    return result


def _sorting_pays(selection: GivenSum, crowd: Crowd) -> bool:
    """Return whether the gain of the comonotone bound over the first nodes justifies its sort."""
    first = _draws(selection.dimension, crowd.factor.shape[1])[0].subset(0, FIRST)
    plain, sorted_out = (
        _sums(selection, crowd, first, sorting=sorting)[1::2] for sorting in (False, True)
    )
    return bool(((plain - sorted_out) / FIRST).max() > SORTING_PAYS)
