r"""Tetrachoric series: covariances of whether correlated normals lie below a value, compiled. Part
of `theory.editions.predicted.counts`.

Cov(1{X_j ≤ y}, 1{X_k ≤ y}) = φ(h_j)φ(h_k)[R + h_j h_k R²/2 + (h_j²−1)(h_k²−1)R³/6 + …], cut after
the third power of the correlation R. Imports numpy and numba; import it lazily.
"""

from __future__ import annotations

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.compiled import compiled
from theory.editions.predicted.clark import Law, covariances, normal_density, tabled_cdf

FAINT = 1e-5
"""Largest φ(h) of a variable that is settled at every node."""


@compiled(error_model="numpy")
def waves_at(heights: FloatArray, rest: FloatArray, always: BoolArray, out: FloatArray) -> None:
    """Write φ(h)·(1, h/√2, (h²−1)/√6) and Φ(h) of each height h into out (4, size); zeros for
    what does not vary.
    """
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

    load, rest (groups, size): of X_j on each Y_p, covariance with Y_p in its standard deviations,
    and the deviation left. The nodes of Y_p are first[p]..first[p + 1]−1. waves (nodes, 4, size)
    of `waves_at`: a prediction keeps them in single precision, for sums over pairs of products of
    them are most of its cost. What is left of the series at R = 1, where the covariance is
    min(Φ_j, Φ_k) − Φ_j Φ_k, enters with R⁴ for R > 0.
    """
    several, size = load.shape
    row, result, loudest, inverse = (
        np.empty(size),
        np.zeros(len(waves)),
        np.zeros((several, size)),
        np.zeros((several, size)),
    )
    # how loud each variable is at its loudest node: a pair of faint ones is skipped
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
    mine: FloatArray,
    load: FloatArray,
    own: float,
    inverse: FloatArray,
    out: FloatArray,
) -> None:
    """Write R − R⁴₊, R² − R⁴₊, R³ − R⁴₊ and R⁴₊ of what is left of X_j and X_k once Y is known
    into out (4, size), for the k of `row`.
    """
    for k in range(len(row)):
        r = out.dtype.type(min(1.0, max(-1.0, (row[k] - mine * load[k]) * own * inverse[k])))
        square = r * r
        last = square * square if r > 0 else out.dtype.type(0.0)
        out[0, k], out[1, k], out[2, k], out[3, k] = (
            r - last,
            square - last,
            r * square - last,
            last,
        )


@compiled(error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})
def pairs_with(powers: FloatArray, waves: FloatArray, j: int) -> float:
    """Return Σ_{k<j} Cov(1{X_j ≤ y}, 1{X_k ≤ y}) at one node."""
    one, two, three, late = powers[0], powers[1], powers[2], powers[3]
    flat, tilted, bent, below = waves[0], waves[1], waves[2], waves[3]
    zero = waves.dtype.type(0.0)
    first, second, third, fourth, p = zero, zero, zero, zero, below[j]
    for k in range(j):
        first += one[k] * flat[k]
        second += two[k] * tilted[k]
        third += three[k] * bent[k]
        fourth += late[k] * (min(p, below[k]) - p * below[k])
    return float(first * flat[j] + second * tilted[j] + third * bent[j] + fourth)
