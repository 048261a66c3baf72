r"""Bounds of E P from several selected tokens at once: those that the most others come near to.

Let A ⊆ I, Z = (s, y_i : i ∈ A), R = max_{i∈A} D_i, K = #{j∈J : D_j ≤ R}. Given Z, R is known and
the D_j are noncentral chi-square: e_j is regressed on the e_i of A (g_jk, what is left has variance
v_{j|A}), D_j = ‖(1−b_j)s − Σ_k g_jk e_k − r_j‖². With F_j = P{D_j ≤ R | Z}, κ = Σ_j F_j and V
by the correlations of the r_j, as in `theory.editions.conditional.conditional_edition`, and K_i =
#{j : D_j ≤ D_i}, P = f(max_{i∈I} K_i) ≤ f(K) and 1 − P ≤ (1 − f(K)) + Σ_{i∈I∖A} (1 − f(K_i)), so
that

    E P ≤ E min(1 − Σ_m δ_m F_(m), N/(N+κ) + V/(N+κ)²)
    E P ≥ E f_int(κ) − Σ_{i∈I∖A} E[1 − f_int(κ_i)]

F(r_max): 2N for N. The Gram of (s, e_A) is Wishart: T Tᵀ, T triangular with χ_{d−k}/√d on the
diagonal and normals below (Bartlett 1933). The average over T is taken by scrambled Sobol points,
in `REPLICATES` independent parts whose spread says how far it may be off (`error`). Unit-free.
Imports numpy and scipy.special; scipy.stats and numba on first use.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

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
from theory.editions.conditional.quadrature_error import TOLERANCE, off_by, spread_of, unseen
from theory.editions.sharp.sharp_law import SUM_ROUNDING

MOST_TOKENS = 8
"""Tokens in A at most."""

REPLICATES = 16
"""Independent parts of the nodes."""

FIRST, MOST = 2**5, 2**9
"""Nodes of each part, at first and at most."""

MOST_NUMBERS = 3 * 2**19
"""Probabilities computed at most, in all: what keeps a long head cheap."""

BLOCK_NUMBERS = 2**18
"""Probabilities held at once: 2 MB."""

SORTING_PAYS = 5e-4
"""Gain of the comonotone bound over the first nodes below which it is left out: it takes a sort."""

SEED = 20_260_201
"""Of the scrambling."""

UPPER = [1, 3]
"""Where the upper bounds stand among lower and upper of P and F(r_max)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Crowd:
    """Given the m tokens of A, in units of σ_ss. The e_A are combinations of r ≤ m independent unit
    directions u.

    pull (m,): b_i. factor (m, r): e_A = factor u. known_part (1 + r + r(r+1)/2, M): what
    multiplies t, √t⟨s/‖s‖, u_k⟩ and ⟨u_k, u_l⟩, k ≥ l, in the squared length of the known part of s
    − y_j, less t. variance (M,): v_{j|A}; 0: D_j is known, −1: tied with one of A. correlation (M,
    M): |ρ̃| of what is left of J; None where the variance of the count is not asked for.
    """

    pull: FloatArray
    factor: FloatArray
    known_part: FloatArray
    variance: FloatArray
    correlation: FloatArray | None


def crowd_bounds(given: GivenSum, chosen: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return E f_int(κ) and the upper bound of E P, then both for F(r_max), shape (4,), and how far
    each may be off (4,).

    An average may be off by what the spread of its parts says, or by its last change if that is
    more, and by an event that no node saw: it would leave no token of J nearer, or all. Nodes are
    doubled until none may be off by more than `TOLERANCE`, or up to `MOST`. Where A is all of I, E
    f_int(κ) is a lower bound of E P.
    """
    crowd = given_crowd(given, chosen)
    most = min(MOST, max(2 * FIRST, MOST_NUMBERS // (REPLICATES * len(crowd.variance))))
    total, start, stop, before = np.zeros((REPLICATES, 4)), 0, FIRST, None
    sorting = crowd.correlation is None or _sorting_pays(given, crowd)
    least = np.array([size / (size + len(crowd.variance)) for size in (given.n, 2 * given.n)])
    while True:
        for part, draws in enumerate(_draws(given.dimension, crowd.factor.shape[1])):
            total[part] += _sums(given, crowd, draws.some(start, stop), sorting=sorting)
        # how far the mean may be off: the spread of the parts, the last change, and what no node
        # saw
        parts = total / stop
        now, off = parts.mean(axis=0), off_by(spread_of(parts, axis=0), REPLICATES - 1)
        if before is not None:
            off = np.maximum(off, np.abs(now - before))
        off += (
            unseen(REPLICATES * stop) * np.stack([now[::2] - least, 1 - now[1::2]], axis=1).ravel()
        )
        if off.max() <= TOLERANCE or 2 * stop > most:
            return now, off
        start, stop, before = stop, 2 * stop, now


def given_crowd(given: GivenSum, chosen: IntArray) -> Crowd:
    """Return the selection given s and the chosen ranks < n."""
    n, scale = given.n, np.sqrt(given.own[chosen])
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    # independent directions behind the e_A; those within rounding of none are dropped
    values, vectors = np.linalg.eigh(
        given.rows[np.ix_(chosen, chosen)] * inverse[:, None] * inverse
    )
    rounding = np.divide(
        given.floor[chosen], given.own[chosen], out=np.zeros_like(scale), where=scale > 0
    )
    kept = values > len(chosen) * max(float(rounding.max()), SUM_ROUNDING)
    values, vectors = values[kept], vectors[:, kept]
    vectors = vectors * np.where(
        np.cos(np.arange(1.0, len(chosen) + 1)) @ vectors < 0, -1.0, 1.0
    )  # a sign that rounding does not decide
    # the e_j along these directions, and what is left of them
    along = (vectors / np.sqrt(values)).T @ (given.rows[chosen, n:] * inverse[:, None])
    left = given.own[n:] - (along**2).sum(axis=0)
    regression = np.abs(inverse[:, None] * (vectors / np.sqrt(values)) @ along)
    floor = (np.sqrt(given.floor[n:]) + np.sqrt(given.floor[chosen]) @ regression) ** 2
    variance = np.where(left > floor, left, 0.0)
    k, other = np.tril_indices(len(values))
    pulls = given.pull[n:]
    products = np.where(k == other, 1.0, 2.0)[:, None] * along[k] * along[other]
    return Crowd(
        pull=given.pull[chosen],
        factor=scale[:, None] * vectors * np.sqrt(values),
        known_part=np.concatenate(
            [-(pulls * (2 - pulls))[None], -2 * (1 - pulls) * along, products]
        ),
        variance=np.where(given.ties[chosen].any(axis=0), -1.0, variance),
        correlation=(
            None
            if given.outside is None
            else absolute_correlation(given.outside - along.T @ along, variance)
        ),
    )


@lru_cache(maxsize=32)
def _scores(rank: int) -> FloatArray:
    """Return the normal scores behind T, (REPLICATES, MOST, 1 + rank + rank(rank+1)/2): t,
    along s, diagonal, below the diagonal.
    """
    from scipy.stats import qmc

    numbers = 1 + rank + rank * (rank + 1) // 2
    scores = np.empty((REPLICATES, MOST, numbers))
    for part in range(REPLICATES):
        points = qmc.Sobol(numbers, rng=np.random.default_rng(SEED + part)).random(MOST)
        scores[part] = ndtri(np.clip(points, 1e-12, 1 - 1e-12))
    scores.flags.writeable = False
    return scores


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draws:
    """Nodes of (s, u) for unit directions u: they depend on the dimension alone, whatever the head.

    radius (K,): ‖s‖. u (K, rank, 1 + rank): parts along s and in the directions after it. inner
    (K, rank(rank+1)/2): ⟨u_k, u_l⟩, k ≥ l.
    """

    radius: FloatArray
    u: FloatArray
    inner: FloatArray

    def some(self, start: int, stop: int) -> Draws:
        """Return nodes start..stop−1."""
        return Draws(
            radius=self.radius[start:stop], u=self.u[start:stop], inner=self.inner[start:stop]
        )


@lru_cache(maxsize=16)
def _draws(dimension: int, rank: int) -> tuple[Draws, ...]:
    """Return all nodes, each part apart."""
    return tuple(_drawn(dimension, rank, scores) for scores in _scores(rank))


def _drawn(dimension: int, rank: int, scores: FloatArray) -> Draws:
    """Return nodes from their normal scores."""
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
    return Draws(
        radius=np.interp(scores[:, 0], *radius_quantiles(dimension)), u=triangles, inner=inner
    )


def _chances(given: GivenSum, crowd: Crowd, draws: Draws) -> FloatArray:
    """Return F_j at each node, (K, M). Distances are held less t = ‖s‖², as in `conditioning`."""
    from theory.editions.conditional.kernels import chances_of_known

    radius, u = draws.radius, draws.u
    e, t = crowd.factor @ u, radius**2
    excess = (
        (e**2).sum(axis=2)
        - 2 * (1 - crowd.pull) * radius[:, None] * e[:, :, 0]
        - crowd.pull * (2 - crowd.pull) * t[:, None]
    )
    chance = (
        np.concatenate([t[:, None], radius[:, None] * u[:, :, 0], draws.inner], axis=1)
        @ crowd.known_part
    )
    chances_of_known(
        distance_table(given.dimension),
        given.dimension,
        crowd.variance,
        t,
        excess.max(axis=1),
        chance,
    )
    return np.asarray(chance)


def _sums(given: GivenSum, crowd: Crowd, draws: Draws, *, sorting: bool) -> FloatArray:
    """Return sums over the nodes of f_int(κ) and of the upper bound, for P and for F(r_max),
    (4,).
    """
    result, step = np.zeros(4), max(1, BLOCK_NUMBERS // len(crowd.variance))
    for start in range(0, len(draws.radius), step):
        chance = _chances(given, crowd, draws.some(start, start + step))
        count = chance.sum(axis=1)
        spread = np.inf if crowd.correlation is None else quadratic(chance, crowd.correlation)
        rising = np.sort(chance, axis=1) if sorting else chance
        for k, size in enumerate((given.n, 2 * given.n)):
            high = np.minimum(size / (size + count) + spread / (size + count) ** 2, 1.0)
            if sorting:
                high = np.minimum(high, comonotone(rising, size))
            result[2 * k : 2 * k + 2] += interpolated(count, size).sum(), high.sum()
    return result


def _sorting_pays(given: GivenSum, crowd: Crowd) -> bool:
    """Return whether the comonotone bound is worth its sort, from the first nodes."""
    first = _draws(given.dimension, crowd.factor.shape[1])[0].some(0, FIRST)
    plain, sorted_out = (
        _sums(given, crowd, first, sorting=sorting)[UPPER] for sorting in (False, True)
    )
    return bool(((plain - sorted_out) / FIRST).max() > SORTING_PAYS)
