"""Compiled inner loops of the conditional edition. Imported lazily by
`theory.editions.conditional.conditioning`: importing it loads numba.

For nodes (‖s‖, z, τ) and tokens j: the probability that token j is at most as far from s as token
i, by table lookup. Imports numpy and numba.
"""

from __future__ import annotations

from math import erf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from theory.arrays import FloatArray
from theory.compiled import compiled
from theory.editions.conditional.distance_distribution import SCORE_CELLS, SCORE_REACH, Nodes

SQRT_HALF = float(np.sqrt(0.5))


class Residuals(NamedTuple):
    """Residuals given s and y_i: v_{j|i} (0: D_j known; negative: a tie), pull b_j, slope g_j."""

    variance: FloatArray
    pull: FloatArray
    slope: FloatArray


@compiled(inline="always")
def cubic(f: float, before: float, left: float, right: float, after: float) -> float:
    """Return the value at f of the cubic through four values at −1, 0, 1, 2."""
    third = (after - before) / 6 + (left - right) / 2
    second = (before + right) / 2 - left
    first = right - before / 3 - left / 2 - after / 6
    return left + f * (first + f * (second + f * third))


@compiled(inline="always")
def looked_up(table: FloatArray, w: float, y: float) -> float:
    """Return the value at score w and row y of √q: cubic in w, linear between rows."""
    if not w > -SCORE_REACH:
        return 0.0
    if w >= SCORE_REACH:
        return 1.0
    rows, columns = table.shape
    x = (w + SCORE_REACH) * SCORE_CELLS
    c = min(max(int(x), 1), columns - 3)
    r = min(int(y), rows - 2)
    y -= r
    value = cubic(
        x - c,
        table[r, c - 1] + y * (table[r + 1, c - 1] - table[r, c - 1]),
        table[r, c] + y * (table[r + 1, c] - table[r, c]),
        table[r, c + 1] + y * (table[r + 1, c + 1] - table[r, c + 1]),
        table[r, c + 2] + y * (table[r + 1, c + 2] - table[r, c + 2]),
    )
    return min(max(value, 0.0), 1.0)


@compiled(error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def chances_within(
    table: FloatArray,
    dimension: int,
    variance: FloatArray,
    scale: FloatArray,
    offset: FloatArray,
    far: float,
    lead: FloatArray,
    out: FloatArray,
) -> None:
    """Write P{(v/d)·χ'²_d(d·offset/v) ≤ far²} of each token to out (M,), where v > 0; lead may be
    out.

    scale is √(2d/v). lead is far² − offset, a separate argument since it may have more digits. The
    first loop has no branches and compiles to vector code; it overwrites offset.
    """
    if dimension == 1:
        for j in range(variance.shape[0]):
            half, mean = SQRT_HALF / np.sqrt(variance[j]), np.sqrt(offset[j])
            nearest = lead[j] / (far + mean) if far + mean > 0 else 0.0
            out[j] = min(max(0.5 * (erf(nearest * half) + erf((far + mean) * half)), 0.0), 1.0)
        return
    inverse, rows = 1.0 / dimension, table.shape[0] - 1.0
    for j in range(variance.shape[0]):
        v, known = variance[j], offset[j]
        q = v / (v + known)
        short = v - v * (inverse - 0.5 * inverse * q)
        out[j] = (lead[j] - short) * scale[j] / ((far + np.sqrt(known + short)) * np.sqrt(2.0 - q))
        offset[j] = np.sqrt(q) * rows
    for j in range(variance.shape[0]):
        out[j] = looked_up(table, out[j], offset[j])


@compiled(error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})
def distance_rows(
    table: FloatArray, d: int, tokens: Residuals, nodes: Nodes, out: FloatArray, sums: FloatArray
) -> None:
    """Write F_kj = P{D_j ≤ t_k + excess_k | node k} to out (K, M); Σ, Σ F² and max to sums."""
    variance, pull, slope = tokens.variance, tokens.pull, tokens.slope
    radius, z, tau, excess = nodes.radius, nodes.z, nodes.tau, nodes.excess
    offset, lead = np.empty(variance.shape[0]), np.empty(variance.shape[0])
    spread = np.where(variance > 0, variance, 1.0)
    scale = np.sqrt(2.0 * d / spread)
    plain = bool((variance > 0).all())
    for k in range(radius.shape[0]):
        # the sphere around s through token i: its radius is √D_i = √(t + excess)
        t, across = radius[k] * radius[k], z[k] * z[k] + tau[k]
        far = np.sqrt(max(t + excess[k], 0.0))
        # the known part of s − y_j: its squared length δ_j, and D_i − δ_j without cancellation
        for j in range(variance.shape[0]):
            away, g = 1 - pull[j], slope[j]
            first = away * radius[k] - g * z[k]
            offset[j] = first * first + g * g * tau[k]
            lead[j] = (
                excess[k]
                + pull[j] * (1 + away) * t
                + g * (2 * away * radius[k] * z[k] - g * across)
            )
        chances_within(table, d, spread, scale, offset, far, lead, out[k])
        # a known token is nearer or not; ties give 0 and are counted separately
        if not plain:
            for j in range(variance.shape[0]):
                if variance[j] <= 0:
                    out[k, j] = 1.0 if variance[j] == 0 and lead[j] >= 0 else 0.0
        total, square, largest = 0.0, 0.0, 0.0
        for j in range(variance.shape[0]):
            p = out[k, j]
            total += p
            square += p * p
            largest = max(largest, p)
        sums[0, k], sums[1, k], sums[2, k] = total, square, largest


@compiled()
def distances_of_each(
    table: FloatArray, d: int, tokens: Residuals, nodes: Nodes, out: FloatArray, sums: FloatArray
) -> None:
    """Apply `distance_rows` to G tokens: out (G, K, M), sums (G, 3, K), all else with G first."""
    for i in range(tokens.variance.shape[0]):
        residuals = Residuals(tokens.variance[i], tokens.pull, tokens.slope[i])
        columns = Nodes(nodes.radius[i], nodes.z[i], nodes.tau[i], nodes.excess[i], nodes.weight[i])
        distance_rows(table, d, residuals, columns, out[i], sums[i])


@compiled(fastmath={"contract", "nsz", "arcp"})
def deviations(chance: FloatArray) -> npt.NDArray[np.float32]:
    """Return √(F(1−F)) of each probability (K, M)."""
    result = np.empty(chance.shape, dtype=np.float32)
    for k in range(chance.shape[0]):
        for j in range(chance.shape[1]):
            result[k, j] = np.sqrt(np.float32(chance[k, j] * (1 - chance[k, j])))
    return result


@compiled(fastmath={"contract", "nsz", "arcp", "reassoc"})
def row_products(left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]) -> FloatArray:
    """Return the scalar product of each row of two (K, M), summed in float64."""
    result = np.empty(left.shape[0])
    for k in range(left.shape[0]):
        total = 0.0
        for j in range(left.shape[1]):
            total += left[k, j] * right[k, j]
        result[k] = total
    return result


@compiled(error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def correlations_left(
    outside: FloatArray,
    slope: FloatArray,
    row: FloatArray,
    scale: FloatArray,
    out: npt.NDArray[np.float32],
) -> None:
    """Write min(1, |C̃_jk − g_j C̃_ik| scale_j scale_k) to out (M, M)."""
    for j in range(outside.shape[0]):
        for k in range(outside.shape[0]):
            out[j, k] = min(1.0, abs(outside[j, k] - slope[j] * row[k]) * scale[j] * scale[k])


@compiled(error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def chances_of_known(
    table: FloatArray,
    dimension: int,
    variance: FloatArray,
    t: FloatArray,
    excess: FloatArray,
    known: FloatArray,
) -> None:
    """Replace known (K, M), squared length of the known part of s − y_j less t, by P{D_j ≤ t_k +
    excess_k | node k}.

    variance (M,): residual variance; 0: D_j is known; negative: D_j is at most the largest
    distance, probability 1.
    """
    offset, lead = np.empty(variance.shape[0]), np.empty(variance.shape[0])
    spread = np.where(variance > 0, variance, 1.0)
    scale = np.sqrt(2.0 * dimension / spread)
    plain = bool((variance > 0).all())
    for k in range(known.shape[0]):
        for j in range(variance.shape[0]):
            offset[j] = max(t[k] + known[k, j], 0.0)
            lead[j] = excess[k] - known[k, j]
        far = np.sqrt(max(t[k] + excess[k], 0.0))
        chances_within(table, dimension, spread, scale, offset, far, lead, known[k])
        if not plain:
            for j in range(variance.shape[0]):
                if variance[j] <= 0:
                    known[k, j] = 1.0 if variance[j] < 0 or lead[j] >= 0 else 0.0
