"""Compiled printed and sharp bounds of many weight profiles that share one Gram. Imported lazily by
`theory.evaluate.many_profiles`: importing it loads numba.

The kernels hold no state and release the interpreter lock. Imports numpy and numba.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.compiled import compiled
from theory.editions.printed import FLOOR_PEAK
from theory.editions.sharp.sharp_kernels import bounds_of_head, pairwise_sum, rank_and_sum

ROOT = math.sqrt(2 * math.pi)


@compiled(error_model="numpy")
def floor_at(xi: float) -> float:
    """Return `printed.floor_probability` of one ξ."""
    if np.isnan(xi):
        return np.nan
    if xi < 0:
        return 0.5
    if np.isinf(xi):
        return 0.0
    return math.exp(-(xi * xi) / 2) / ROOT * xi / (1 + xi * xi)


@compiled(error_model="numpy")
def floors_of_head(
    a: FloatArray,
    sigma: FloatArray,
    sink: int,
    cosines: FloatArray,
    sizes: IntArray,
    deviation: FloatArray,
    out: FloatArray,
) -> None:
    """Write the largest and the mean over selected tokens of `printed.floor_by_row` at each of K
    sizes, (2, K).

    By rank: `a` (T,), `sigma` (K, T), the `sink` (−1 if not visible) and its `cosines` (T,).
    `deviation` (K,): the σ of eq. (9).
    """
    levels = np.empty(len(a))
    for index in range(len(sizes)):
        n = sizes[index]
        exclude_sink = 0 <= sink < n
        for m in range(len(a)):
            mean_product = sigma[index, m]
            if exclude_sink:
                mean_product -= a[sink] * a[m] * cosines[m]
            levels[m] = a[m] * a[m] - 2 * mean_product
        unselected = np.sort(levels[n:])
        most, total = -np.inf, 0.0
        for i in range(n):
            # p̲ is largest at a neighbour of its peak, and ½ if some μ < 0
            if levels[i] > unselected[0]:
                best = 0.5
            else:
                insertion = np.searchsorted(unselected, levels[i] + FLOOR_PEAK * deviation[index])
                lower = floor_at((unselected[max(insertion - 1, 0)] - levels[i]) / deviation[index])
                upper = floor_at(
                    (unselected[min(insertion, len(unselected) - 1)] - levels[i]) / deviation[index]
                )
                best = lower + upper if np.isnan(lower + upper) else max(lower, upper)
            most = max(most, best)
            total += best
        out[0, index] = np.nan if np.isnan(total) else most
        out[1, index] = total / n


@compiled(error_model="numpy")
def bounds_of_profiles(
    cosines: npt.NDArray[np.floating],
    order: IntArray,
    a: FloatArray,
    sink: IntArray,
    sizes: IntArray,
    table: FloatArray,
    rounding: tuple[float, float],
    followup: BoolArray,
    deviation: FloatArray,
    by_rank: FloatArray,
    sharp: FloatArray,
    floors: FloatArray,
    extremes: FloatArray,
) -> float:
    """Write the O(T²) parts of the bounds of H profiles at K ascending sizes; return the first
    clearly negative determinant, otherwise 0.

    cosines (T, T) by position; by profile order (H, T), by rank a (H, T) and the sink (H,), −1 for
    none. sharp (S, H, 8, K): `sharp_kernels.bounds_of_head` for each of S `followup`; floors
    (D, 2, H, K): `floors_of_head` for each `deviation` (D, H, K); extremes (3, H,
    K): ρ_in, ρ_out, ρ_least as `ranked.extremes_of` takes them. by_rank (T, T) is scratch.
    """
    sigma, sigma_ss = np.empty((len(sizes), a.shape[1])), np.empty(len(sizes))
    selected = by_rank[: sizes[-1]]
    for h in range(len(a)):
        rank_and_sum(cosines, order[h], a[h], sink[h], sizes, selected, sigma, extremes[:, h])
        for index in range(len(sizes)):
            sigma_ss[index] = pairwise_sum(sigma[index, : sizes[index]])
        for option in range(len(followup)):
            strict, out = followup[option], sharp[option, h]
            worst = bounds_of_head(
                by_rank, a[h], sigma, sigma_ss, sizes, table, rounding, strict, out
            )
            if worst < 0:
                return worst
        for option in range(len(deviation)):
            spread, floor = deviation[option, h], floors[option, :, h]
            floors_of_head(a[h], sigma, sink[h], by_rank[sink[h]], sizes, spread, floor)
    return 0.0
