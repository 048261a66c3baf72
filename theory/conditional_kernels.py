"""Compiled inner loop of the conditional edition. Imported lazily by `theory.conditional_rows`: importing it loads numba.

For nodes (‖s‖, z, τ) and tokens j: the probability that token j lies no farther from s than token i does, by bicubic lookup.
Imports numpy and numba.
"""

from __future__ import annotations

from math import erf

import numba
import numpy as np
import numpy.typing as npt

from theory.arrays import FloatArray
from theory.conditional_law import SCORE_CELLS, SCORE_REACH, SHARE_CELLS

SQRT_HALF = float(np.sqrt(0.5))


@numba.njit(nogil=True, cache=True, inline="always")
def cubic(f: float, before: float, here: float, there: float, after: float) -> float:
    """Return the cubic through four values at −1, 0, 1, 2, at f."""
    third = (after - before) / 6 + (here - there) / 2
    second = (before + there) / 2 - here
    first = there - before / 3 - here / 2 - after / 6
    return here + f * (first + f * (second + f * third))


@numba.njit(nogil=True, cache=True, inline="always")
def chance_within(table: FloatArray, dimension: int, v: float, offset: float, far: float) -> float:
    """Return P{(v/d)·χ'²_d(d·offset/v) ≤ far²}, v > 0."""
    if dimension == 1:
        scale, mean = SQRT_HALF / np.sqrt(v), np.sqrt(offset)
        return 0.5 * (erf((far - mean) * scale) + erf((far + mean) * scale))
    rows, columns = table.shape
    whole = v + offset
    q = v / whole
    centre = np.sqrt(whole - (1 - q / 2) * v / dimension)
    w = (far - centre) * np.sqrt(2 * dimension * whole / (v * (whole + offset)))
    if w <= -SCORE_REACH:
        return 0.0
    if w >= SCORE_REACH:
        return 1.0
    x = (w + SCORE_REACH) * SCORE_CELLS
    y = np.sqrt(q) * SHARE_CELLS
    c = min(max(int(x), 1), columns - 3)
    r = min(max(int(y), 1), rows - 3)
    x -= c
    y -= r
    p = cubic(
        y,
        cubic(x, table[r - 1, c - 1], table[r - 1, c], table[r - 1, c + 1], table[r - 1, c + 2]),
        cubic(x, table[r, c - 1], table[r, c], table[r, c + 1], table[r, c + 2]),
        cubic(x, table[r + 1, c - 1], table[r + 1, c], table[r + 1, c + 1], table[r + 1, c + 2]),
        cubic(x, table[r + 2, c - 1], table[r + 2, c], table[r + 2, c + 1], table[r + 2, c + 2]),
    )
    return min(max(p, 0.0), 1.0)


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def distance_rows(
    table: FloatArray,
    dimension: int,
    variance: FloatArray,
    along: FloatArray,
    slope: FloatArray,
    radius: FloatArray,
    z: FloatArray,
    tau: FloatArray,
    distance: FloatArray,
    out: FloatArray,
    sums: FloatArray,
) -> None:
    """Write F_kj = P{D_j ≤ distance_k | node k} to out (K, M), and Σ_j F, Σ_j F² and max_j F of each node to sums (3, K).

    Args:
        table: `conditional_law.distance_table`.
        dimension: d.
        variance: (M,) v_{j|i}; 0: D_j is known; negative: a tie, written as 0.
        along: (M,) 1 − b_j.
        slope: (M,) g_j.
        radius: (K,) √t.
        z: (K,) component of y_i − b_i s along s.
        tau: (K,) squared length of its other components.
        distance: (K,) D_i.
        out, sums: (K, M), (3, K).
    """
    for k in range(radius.shape[0]):
        far = np.sqrt(distance[k])
        total, square, largest = 0.0, 0.0, 0.0
        for j in range(variance.shape[0]):
            first = along[j] * radius[k] - slope[j] * z[k]
            offset = first * first + slope[j] * slope[j] * tau[k]
            p = 1.0 if variance[j] == 0 and offset <= distance[k] else 0.0
            if variance[j] > 0:
                p = chance_within(table, dimension, variance[j], offset, far)
            out[k, j] = p
            total += p
            square += p * p
            largest = max(largest, p)
        sums[0, k], sums[1, k], sums[2, k] = total, square, largest


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def correlations_left(outside: FloatArray, slope: FloatArray, row: FloatArray, scale: FloatArray, out: npt.NDArray[np.float32]) -> None:
    """Write min(1, |C̃_jk − g_j C̃_ik| scale_j scale_k) to out (M, M)."""
    for j in range(outside.shape[0]):
        for k in range(outside.shape[0]):
            out[j, k] = min(1.0, abs(outside[j, k] - slope[j] * row[k]) * scale[j] * scale[k])
