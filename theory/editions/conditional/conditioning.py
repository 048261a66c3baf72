"""What is known of every distance once s, or s and one selected token, are known, under Model G;
and the nodes to average over.

With b_l = σ_ls/σ_ss and C̃ = C − σσᵀ/σ_ss: y_l = b_l s + e_l, e_l independent of s with
covariance C̃/d a coordinate. With v_i = C̃_ii and g_l = C̃_il/v_i: e_l = g_l e_i + r_l, r_l
independent of (s, e_i) with variance v_{l|i} = C̃_ll − g_l C̃_il. Split e_i along s (z) and across
(τ):

    ‖s‖² = t = (σ_ss/d)χ²_d,  z = N(0, v_i/d),  τ = (v_i/d)χ²_{d−1},  independent
    D_i = ((1−b_i)√t − z)² + τ
    D_l = ‖(1−b_l)s − g_l e_i − r_l‖² = (v_{l|i}/d)·χ'²_d(d δ_l/v_{l|i})
    δ_l = ((1−b_l)√t − g_l z)² + g_l² τ

All is in units of σ_ss here: t has mean 1. Distances are held less t, D_i − t = −b_i(2−b_i)t −
2(1−b_i)√t z + z² + τ and alike, so that tokens of tiny weight, whose distances are all but t,
keep their digits. Imports numpy and scipy.special; numba through the compiled kernel.
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
from theory.editions.conditional.distance_distribution import distance_table, radius_quantiles
from theory.editions.sharp.sharp_law import SUM_ROUNDING, PairwiseLaw
from theory.head.ranked import Ranked, Summary

LATTICE = np.array([1, 364981, 245389])
"""Generating vector of an embedded lattice in base 2, in the manner of Cools, Kuo and Nuyens
(2006): any first 2^m points fill the cube evenly. With 2^12 of them the average of the pairwise law
is 1e-4 off at d = 16.
"""

SCORE_REACH = 5.0
"""Normal scores along the main direction lie within ±5: 6e-7 of the probability is beyond."""

TINIEST = 1e-100
"""Keeps a division by the spread of a token of no weight finite."""

LATTICE_BITS, MOST_PARTS = 18, 16
"""The lattice's first 2^18 points at most, and 16 independently shifted copies for a token."""

SEED = 20_260_202
"""Of the shifts."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GivenSum:
    """One selection given s, in units of σ_ss. Ranks 0..n-1 are I, the rest J.

    pull (T,): b_l. rows (n, T): C̃ of I with all tokens. own (T,): C̃_ll, 0 where within rounding
    of it. floor (T,): that rounding. outside (M, M): C̃ of J, None where the variance of the count
    is not asked for. ties (n, M): D_i = D_j always.
    """

    n: int
    dimension: int
    pull: FloatArray
    rows: FloatArray
    own: FloatArray
    floor: FloatArray
    outside: FloatArray | None
    ties: BoolArray


def given_sum(
    head: Ranked, summary: Summary, at: int, dimension: int, law: PairwiseLaw, *, variance: bool
) -> GivenSum | None:
    """Return the selection `summary.n[at]` given s, or None where s is 0 with certainty (up to
    rounding).
    """
    n, a, total = int(summary.n[at]), head.a, float(summary.sigma_ss[at])
    if total <= SUM_ROUNDING * float(a[:n].sum()) ** 2:
        return None
    b, unit = summary.sigma[at] / total, a / np.sqrt(total)
    floor = SUM_ROUNDING * (unit**2 + b**2)
    own = unit**2 - b**2
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
        own=np.where(own > floor, own, 0.0),
        floor=floor,
        outside=outside,
        ties=law.closed > law.strict,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GivenToken:
    """One selection given s and the token of rank i, in units of σ_ss.

    slope (M,): g_j. variance (M,): v_{j|i}; 0: D_j is known, −1: tied with D_i. ties: how many of J
    are tied. rotation (3, 3): of the normal scores of (t, z, τ), its first row the main direction.
    """

    i: int
    slope: FloatArray
    variance: FloatArray
    ties: int
    rotation: FloatArray


def given_token(given: GivenSum, i: int, chance: FloatArray) -> GivenToken:
    """Return the selection given s and the token of rank i < n; `chance` (M,) is P{D_j ≤ D_i},
    which only chooses the nodes.
    """
    n, spread = given.n, float(given.own[i])
    row = given.rows[i, n:]
    slope = row / spread if spread > 0 else np.zeros_like(row)
    left = given.own[n:] - slope * row
    rounding = (np.sqrt(given.floor[n:]) + np.abs(slope) * np.sqrt(given.floor[i])) ** 2
    variance = np.where(left > rounding, left, 0.0)
    tied = given.ties[i]
    return GivenToken(
        i=i,
        slope=slope,
        variance=np.where(tied, -1.0, variance),
        ties=int(tied.sum()),
        rotation=_main_direction(given, i, slope, variance, chance),
    )


def _main_direction(
    given: GivenSum, i: int, slope: FloatArray, variance: FloatArray, chance: FloatArray
) -> FloatArray:
    """Return a rotation (3, 3) of the normal scores of (t, z, τ); its first row is the direction
    in which D_i gains most on the D_j.

    It is the gradient of D_i − E[D_j | Z_i], relative to the spread of D_j, at the centre,
    averaged over j with weights `chance` (M,). Any rotation gives the same averages; this one lets
    one coordinate bear most of the variation.
    """
    v, pull, pulls = float(given.own[i]), float(given.pull[i]), given.pull[given.n :]
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
    # Householder's reflection that takes the first axis to the gradient
    length = float(np.linalg.norm(gradient))
    first = gradient / length if np.isfinite(length) and length > 0 else np.array([1.0, 0.0, 0.0])
    mirror = first - np.array([-np.copysign(1.0, first[0]), 0.0, 0.0])
    turned = np.eye(3) - 2 * np.outer(mirror, mirror) / (mirror @ mirror)
    return np.asarray(turned * -np.copysign(1.0, first[0]))


def residual_correlation(given: GivenSum, token: GivenToken) -> npt.NDArray[np.float32]:
    """Return |ρ̃_jk|, the correlation of r_j and r_k (both of J) given s and y_i, shape (M, M);
    0 where a token is known.
    """
    from theory.editions.conditional.kernels import correlations_left

    assert given.outside is not None
    known = token.variance <= 0
    scale = np.where(known, 0.0, 1 / np.sqrt(np.where(known, 1.0, token.variance)))
    result = np.empty(given.outside.shape, dtype=np.float32)
    correlations_left(given.outside, token.slope, given.rows[token.i, given.n :], scale, result)
    return result


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nodes:
    """Values of (√t, z, τ) and excess = D_i − t, in units of σ_ss, and their weights, of mean 1
    over a whole rule; each (tokens, K).
    """

    radius: FloatArray
    z: FloatArray
    tau: FloatArray
    excess: FloatArray
    weight: FloatArray

    def part(self, columns: slice) -> Nodes:
        """Return some nodes of each token."""
        return Nodes(
            **{
                name: getattr(self, name)[:, columns]
                for name in ("radius", "z", "tau", "excess", "weight")
            }
        )


@lru_cache(maxsize=1)
def _bit_reversed() -> FloatArray:
    """Return 0, 1/2, 1/4, 3/4, 1/8, …: the order in which the lattice's points come."""
    k: IntArray = np.arange(2**LATTICE_BITS)
    result = np.zeros(k.size)
    for bit in range(LATTICE_BITS):
        result += ((k >> bit) & 1) * 0.5 ** (bit + 1)
    return result


@lru_cache(maxsize=8)
def _shifts(rows: int) -> FloatArray:
    """Return independent shifts of each part of each row, (3, rows, MOST_PARTS); those of a row
    do not depend on how many there are.
    """
    result = np.random.default_rng(SEED).random((rows, MOST_PARTS, 3)).transpose(2, 0, 1)
    result.flags.writeable = False
    return result


def lattice_points(start: int, stop: int, row: IntArray, parts: int) -> FloatArray:
    """Return points start..stop−1 of each of the shifted lattices of each row in the unit cube,
    shape (3, rows, parts·K), part by part.
    """
    shifts = _shifts(2 ** int(row.max()).bit_length())[:, row, :parts]
    points = (LATTICE[:, None] * _bit_reversed()[start:stop])[:, None, None] + shifts[..., None]
    points %= 1.0
    return np.asarray(points.reshape(3, len(row), -1))


def token_nodes(
    given: GivenSum, tokens: list[GivenToken], start: int, stop: int, parts: int = 1
) -> Nodes:
    """Return nodes start..stop−1 of the average over (t, z, τ) of each token, shape (tokens,
    parts·K), from the token's own lattices.

    Along the main direction they are evenly spaced and weighted by the normal density, so that rare
    values are seen too; across it they are normal quantiles, folded so that the lattice has no
    edge.
    """
    d = given.dimension
    ranks = np.array([token.i for token in tokens])
    points = lattice_points(start, stop, ranks, parts)
    scores = np.empty_like(points)
    # along the main direction even steps with normal weights, across it folded normal quantiles
    scores[0] = SCORE_REACH * (2 * points[0] - 1)
    scores[1:] = ndtri(np.clip(1 - np.abs(2 * points[1:] - 1), 1e-15, 1 - 1e-15))
    weight = np.exp(-(scores[0] ** 2) / 2) * (2 * SCORE_REACH / np.sqrt(2 * np.pi))
    by_t, by_z, by_tau = np.einsum(
        "tab,atk->btk", np.stack([token.rotation for token in tokens]), scores
    )
    spread, pull = given.own[ranks, None], given.pull[ranks, None]
    # back from normal scores to √t, z and τ, and D_i − t from them
    radius = np.interp(by_t, *radius_quantiles(d))
    z = np.sqrt(spread / d) * by_z
    tau = spread * (d - 1) / d * np.interp(by_tau, *radius_quantiles(d - 1)) ** 2
    excess = z**2 + tau - 2 * (1 - pull) * radius * z - pull * (2 - pull) * radius**2
    return Nodes(radius=radius, z=z, tau=tau, excess=excess, weight=weight)


def nearer_outside(given: GivenSum, tokens: Sequence[GivenToken], nodes: Nodes) -> Chances:
    """Return F_j = P{D_j ≤ D_i | s, y_i} at each node of each token, (tokens, K, M); a tie is
    written as 0.
    """
    variance, slope = (
        np.stack([getattr(token, name) for token in tokens]) for name in ("variance", "slope")
    )
    return within(given.dimension, variance, given.pull[given.n :], slope, nodes)


def within(
    dimension: int, variance: FloatArray, pull: FloatArray, slope: FloatArray, nodes: Nodes
) -> Chances:
    """Return P{D_l ≤ t + excess | node}, (tokens, K, M), with these v and g (tokens, M) and b
    (M,); v = 0: D_l is known, −1: written as 0.
    """
    from theory.editions.conditional.kernels import Columns, Residuals, distances_of_each

    each, sums = (
        np.empty((*nodes.radius.shape, len(pull))),
        np.empty((len(variance), 3, nodes.radius.shape[1])),
    )
    table = distance_table(dimension)
    columns = Columns(
        *(np.ascontiguousarray(part) for part in (nodes.radius, nodes.z, nodes.tau, nodes.excess))
    )
    distances_of_each(table, dimension, Residuals(variance, pull, slope), columns, each, sums)
    return Chances(each=each, expected=sums[:, 0], squares=sums[:, 1], largest=sums[:, 2])
