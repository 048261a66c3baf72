"""Compiled bounds of one head at all its sizes: `sharp_law.best_bounds` of what
`sharp_kernels.sum_pairs` sums. Imported lazily by `theory.evaluate.many_profiles`: importing it
loads numba.

The kernels hold no state and release the interpreter lock. Imports numpy and numba.
"""

from __future__ import annotations

import numpy as np

from theory.arrays import FloatArray, IntArray
from theory.compiled import compiled
from theory.editions.sharp.sharp_kernels import sum_pairs


@compiled(inline="always")
def between(total: float, weight: float, n: int, most: int) -> float:
    """Return w N/(w N + x) at x = `total`, from its values at whole x in [0, most], linear between
    them; w = 1 is Precision, 2 is F(r_max), by how many unselected tokens are in the ball.
    """
    at = min(int(total), most - 1)
    low, high = weight * n / (weight * n + at), weight * n / (weight * n + at + 1)
    return low + (min(total, most) - at) * (high - low)


@compiled(error_model="numpy")
def bounds_of_sums(columns: FloatArray, rows: FloatArray, followup: bool, out: FloatArray) -> None:
    """Write the lower and upper bounds of P, R, F(r_max) and F(r_min), (8,), from `PairSums`, rows
    (2, N) and columns (2, M).
    """
    n, outside = rows.shape[1], columns.shape[1]
    covered = 0.0
    for m in range(outside):
        covered += min(1.0, columns[0, m])
    largest = np.sort(columns[1])
    precision, outer = 0.0, 0.0
    for m in range(outside):  # each step of P and F(r_max) with the m-th largest probability
        probability = largest[outside - 1 - m]
        precision += (n / (n + m) - n / (n + m + 1)) * probability
        outer += (2 * n / (2 * n + m) - 2 * n / (2 * n + m + 1)) * probability
    kept = np.empty(n)
    kept_high = 0.0
    for i in range(n):
        kept[i] = 1 - min(1.0, rows[0, i])
        kept_high += 1 - rows[1, i]
    least = np.sort(kept)
    inner, kept_low = 0.0, 0.0
    for i in range(n):
        inner += (2 * (i + 1) / (n + i + 1) - 2 * i / (n + i)) * least[n - 1 - i]
        kept_low += least[i]
    out[0], out[1] = between(covered, 1.0, n, outside), 1 - precision
    out[2], out[3] = kept_low / n, kept_high / n
    if followup:
        out[4] = max(0.0, out[0] + out[2] - 1)
        both = out[1] + out[3]
        out[5] = 2 * out[1] * out[3] / both if both > 0 else 0.0
        out[6], out[7] = out[4], out[5]
        return
    at = min(int(kept_high), n - 1)
    low, high = 2 * at / (n + at), 2 * (at + 1) / (n + at + 1)
    out[4], out[5] = between(covered, 2.0, n, outside), 1 - outer
    out[6], out[7] = inner, low + (min(kept_high, n) - at) * (high - low)


@compiled(error_model="numpy")
def bounds_of_head(
    cosines: FloatArray,
    a: FloatArray,
    sigma: FloatArray,
    sigma_ss: FloatArray,
    sizes: IntArray,
    table: FloatArray,
    rounding: tuple[float, float],
    followup: bool,
    out: FloatArray,
) -> float:
    """Write the bounds at each of K sizes, (8, K), of one head by rank: `cosines` (T, T), `a` (T,),
    `sigma` (K, T), `sigma_ss` (K,); return the worst clearly negative determinant, else 0.
    """
    worst = 0.0
    for at in range(len(sizes)):
        n = sizes[at]
        columns, rows = np.empty((2, len(a) - n)), np.empty((2, n))
        worst = min(
            worst,
            sum_pairs(
                cosines,
                a,
                sigma[at],
                sigma_ss[at],
                n,
                table,
                rounding,
                followup,
                columns,
                rows,
            ),
        )
        bounds_of_sums(columns, rows, followup, out[:, at])
    return worst
