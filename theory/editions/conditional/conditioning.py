"""Conditional law of every distance given s, or s and one selected token, under Model G; and
quadrature nodes for its averages.

With b_l = σ_ls/σ_ss and C̃ = C − σσᵀ/σ_ss: y_l = b_l s + e_l, e_l independent of s with
covariance C̃/d a coordinate. With v_i = C̃_ii and g_l = C̃_il/v_i: e_l = g_l e_i + r_l, r_l
independent of (s, e_i) with variance v_{l|i} = C̃_ll − g_l C̃_il. Split e_i along s (z) and across
(τ):

    ‖s‖² = t = (σ_ss/d)χ²_d,  z = N(0, v_i/d),  τ = (v_i/d)χ²_{d−1},  independent
    D_i = ((1−b_i)√t − z)² + τ
    D_l = ‖(1−b_l)s − g_l e_i − r_l‖² = (v_{l|i}/d)·χ'²_d(d δ_l/v_{l|i})
    δ_l = ((1−b_l)√t − g_l z)² + g_l² τ

Everything is in units of σ_ss: t has mean 1. Distances are stored minus t, D_i − t = −b_i(2−b_i)t −
2(1−b_i)√t z + z² + τ and likewise for D_l: distances of tokens of tiny weight nearly equal t and
keep their digits this way. Imports numpy and scipy.special; numba through the compiled kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.editions.conditional.count_bounds import Chances
from theory.editions.conditional.distance_distribution import (
    Nodes,
    distance_table,
    radius_quantiles,
)
from theory.editions.sharp.sharp_law import SUM_ROUNDING, PairwiseLaw
from theory.head.ranked import Ranked, Summary

LATTICE = np.array([1, 364981, 245389])
"""Generating vector of an embedded lattice in base 2, as in Cools, Kuo and Nuyens (2006): the first
2^m points fill the cube evenly for every m. With 2^12 points the error of the averaged pairwise law
is 1e-4 at d = 16.
"""

SCORE_REACH = 5.0
"""Largest normal score along the main direction; probability 6e-7 lies beyond ±5."""

TINIEST = 1e-100
"""Keeps a division by the spread of a zero-weight token finite."""

LATTICE_BITS, MOST_PARTS = 18, 16
"""At most the first 2^18 lattice points, and 16 independently shifted copies for each token."""

SEED = 20_260_202
"""Seed of the lattice shifts."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GivenSum:
    """One selection given s, in units of σ_ss. Ranks 0..n-1 are I, the rest J.

    pull (T,): b_l. rows (n, T): C̃ of I with all tokens. residual (T,): C̃_ll, 0 where below
    rounding. floor (T,): that rounding. outside (M, M): C̃ of J, None without the variance of the
    count. ties (n, M): D_i = D_j with certainty.
    """

    n: int
    dimension: int
    pull: FloatArray
    rows: FloatArray
    residual: FloatArray
    floor: FloatArray
    outside: FloatArray | None
    ties: BoolArray


def given_sum(
    head: Ranked, summary: Summary, index: int, dimension: int, law: PairwiseLaw, *, variance: bool
) -> GivenSum | None:
    """Return the selection `summary.n[index]` given s, or None where s = 0 up to rounding."""
    n, a, sigma_ss = int(summary.n[index]), head.a, float(summary.sigma_ss[index])
    if sigma_ss <= SUM_ROUNDING * float(a[:n].sum()) ** 2:
        return None
    b, unit = summary.sigma[index] / sigma_ss, a / np.sqrt(sigma_ss)
    floor = SUM_ROUNDING * (unit**2 + b**2)
    residual = unit**2 - b**2
    outside = (
        unit[n:, None] * unit[None, n:] * head.cosines[n:, n:] - np.outer(b[n:], b[n:])
        if variance
        else None
    )
    return GivenSum(
        n=n,
        dimension=dimension,
        pull=b,
        rows=unit[:n, None] * unit[None] * head.cosines[:n] - np.outer(b[:n], b),
        residual=np.where(residual > floor, residual, 0.0),
        floor=floor,
        outside=outside,
        ties=law.closed > law.strict,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GivenToken:
    """One selection given s and the token of rank i, in units of σ_ss.

    slope (M,): g_j. variance (M,): v_{j|i}; 0: D_j is known, −1: tied with D_i. ties: number of
    tied tokens in J. rotation (3, 3): rotation of the normal scores of (t, z, τ); its first row is
    the main direction.
    """

    i: int
    slope: FloatArray
    variance: FloatArray
    ties: int
    rotation: FloatArray


def given_token(selection: GivenSum, i: int, chance: FloatArray) -> GivenToken:
    """Return the law given s and rank i < n. `chance` (M,), P{D_j ≤ D_i}, only chooses nodes."""
    n, spread = selection.n, float(selection.residual[i])
    row = selection.rows[i, n:]
    slope = row / spread if spread > 0 else np.zeros_like(row)
    residual = selection.residual[n:] - slope * row
    rounding = (np.sqrt(selection.floor[n:]) + np.abs(slope) * np.sqrt(selection.floor[i])) ** 2
    variance = np.where(residual > rounding, residual, 0.0)
    tied = selection.ties[i]
    return GivenToken(
        i=i,
        slope=slope,
        variance=np.where(tied, -1.0, variance),
        ties=int(tied.sum()),
        rotation=_main_direction(selection, i, slope, variance, chance),
    )


def _main_direction(
    selection: GivenSum, i: int, slope: FloatArray, variance: FloatArray, chance: FloatArray
) -> FloatArray:
    """Return a rotation (3, 3) of the normal scores of (t, z, τ); its first row is the direction
    in which D_i gains most on the D_j.

    It is the gradient of D_i − E[D_j | Z_i], relative to the spread of D_j, at the centre, averaged
    over j with weights `chance` (M,). Every rotation gives the same averages; this one puts most of
    the variation on one coordinate.
    """
    v = float(selection.residual[i])
    pull = float(selection.pull[i])
    pulls = selection.pull[selection.n :]
    known = (1 - pulls) ** 2 + slope**2 * v
    weight = chance / (
        np.sqrt(2 * variance * (variance + 2 * known)) + np.sqrt(np.finfo(float).eps * v) + TINIEST
    )
    gains = (
        (pulls - pull) * (2 - pull - pulls),
        -np.sqrt(2 * v) * (1 - pull - (1 - pulls) * slope),
        v * (1 - slope**2),
    )
    gradient = np.array([float(gain @ weight) for gain in gains])
    # Householder reflection of the first axis onto the gradient
    length = float(np.linalg.norm(gradient))
    first = gradient / length if np.isfinite(length) and length > 0 else np.array([1.0, 0.0, 0.0])
    mirror = first - np.array([-np.copysign(1.0, first[0]), 0.0, 0.0])
    turned = np.eye(3) - 2 * np.outer(mirror, mirror) / (mirror @ mirror)
    return np.asarray(turned * -np.copysign(1.0, first[0]))


def residual_correlation(selection: GivenSum, token: GivenToken) -> npt.NDArray[np.float32]:
    """Return |ρ̃_jk| of r_j and r_k given s and y_i, (M, M); 0 where a token is known."""
    from theory.editions.conditional.kernels import correlations_left

    assert selection.outside is not None
    known = token.variance <= 0
    scale = np.where(known, 0.0, 1 / np.sqrt(np.where(known, 1.0, token.variance)))
    result = np.empty(selection.outside.shape, dtype=np.float32)
    correlations_left(
        selection.outside, token.slope, selection.rows[token.i, selection.n :], scale, result
    )
    return result


@lru_cache(maxsize=1)
def _bit_reversed() -> FloatArray:
    """Return 0, 1/2, 1/4, 3/4, 1/8, …: the bit-reversed order of the lattice points."""
    k: IntArray = np.arange(2**LATTICE_BITS)
    result = np.zeros(k.size)
    for bit in range(LATTICE_BITS):
        result += ((k >> bit) & 1) * 0.5 ** (bit + 1)
    return result


@lru_cache(maxsize=8)
def _shifts(rows: int) -> FloatArray:
    """Return shifts (3, rows, MOST_PARTS); those of a row do not depend on the number of rows."""
    result = np.random.default_rng(SEED).random((rows, MOST_PARTS, 3)).transpose(2, 0, 1)
    result.flags.writeable = False
    return result


def lattice_points(start: int, stop: int, row: IntArray, parts: int) -> FloatArray:
    """Return points start..stop−1 of each shifted lattice of each row, (3, rows, parts·K)."""
    shifts = _shifts(2 ** int(row.max()).bit_length())[:, row, :parts]
    points = (LATTICE[:, None] * _bit_reversed()[start:stop])[:, None, None] + shifts[..., None]
    points %= 1.0
    return np.asarray(points.reshape(3, len(row), -1))


def token_nodes(
    selection: GivenSum, tokens: list[GivenToken], start: int, stop: int, parts: int = 1
) -> Nodes:
    """Return nodes start..stop−1 of the average over (t, z, τ) for each token, shape (tokens,
    parts·K), from the lattices of that token.

    Along the main direction nodes are evenly spaced and weighted by the normal density, which
    covers rare values. Across it they are normal quantiles, folded to make the lattice periodic.
    """
    d = selection.dimension
    ranks = np.array([token.i for token in tokens])
    points = lattice_points(start, stop, ranks, parts)
    scores = np.empty_like(points)
    # main direction: even steps with normal weights; across it: folded normal quantiles
    scores[0] = SCORE_REACH * (2 * points[0] - 1)
    scores[1:] = ndtri(np.clip(1 - np.abs(2 * points[1:] - 1), 1e-15, 1 - 1e-15))
    weight = np.exp(-(scores[0] ** 2) / 2) * (2 * SCORE_REACH / np.sqrt(2 * np.pi))
    by_t, by_z, by_tau = np.einsum(
        "tab,atk->btk", np.stack([token.rotation for token in tokens]), scores
    )
    spread, pull = selection.residual[ranks, None], selection.pull[ranks, None]
    # normal scores to √t, z and τ, then D_i − t
    radius = np.interp(by_t, *radius_quantiles(d))
    z = np.sqrt(spread / d) * by_z
    tau = spread * (d - 1) / d * np.interp(by_tau, *radius_quantiles(d - 1)) ** 2
    excess = z**2 + tau - 2 * (1 - pull) * radius * z - pull * (2 - pull) * radius**2
    return Nodes(radius=radius, z=z, tau=tau, excess=excess, weight=weight)


def nearer_outside(selection: GivenSum, tokens: Sequence[GivenToken], nodes: Nodes) -> Chances:
    """Return F_j = P{D_j ≤ D_i | s, y_i} at each node of each token, (tokens, K, M); 0 for ties."""
    variance, slope = (
        np.stack([getattr(token, name) for token in tokens]) for name in ("variance", "slope")
    )
    return within(selection.dimension, variance, selection.pull[selection.n :], slope, nodes)


def within(
    dimension: int, variance: FloatArray, pull: FloatArray, slope: FloatArray, nodes: Nodes
) -> Chances:
    """Return P{D_l ≤ t + excess | node}, (tokens, K, M), for v and g (tokens, M) and b (M,). v = 0:
    D_l is known; v = −1: result 0.
    """
    from theory.editions.conditional.kernels import Residuals, distances_of_each

    probability = np.empty((*nodes.radius.shape, len(pull)))
    sums = np.empty((len(variance), 3, nodes.radius.shape[1]))
    table = distance_table(dimension)
    residuals, columns = Residuals(variance, pull, slope), Nodes(*map(np.ascontiguousarray, nodes))
    distances_of_each(table, dimension, residuals, columns, probability, sums)
    return Chances(
        probability=probability, expected=sums[:, 0], squares=sums[:, 1], largest=sums[:, 2]
    )
