"""Compiled floors of the printed edition, of one head at all its sizes. Imported lazily by
`theory.evaluate.many_profiles`: importing it loads numba. Imports numpy and numba.
"""

from __future__ import annotations

import math

import numpy as np

from theory.arrays import FloatArray, IntArray
from theory.compiled import compiled
from theory.editions.printed import FLOOR_PEAK

PEAK = FLOOR_PEAK
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

    By rank: `a` (T,), `sigma` (K, T), the `sink`, −1 where none is visible, and its `cosines` (T,).
    `deviation` (K,): the σ of eq. (9).
    """
    levels = np.empty(len(a))
    for at in range(len(sizes)):
        n = sizes[at]
        without = 0 <= sink < n
        for m in range(len(a)):
            own = sigma[at, m]
            if without:
                own -= a[sink] * a[m] * cosines[m]
            levels[m] = a[m] * a[m] - 2 * own
        theirs = np.sort(levels[n:])
        most, total = -np.inf, 0.0
        for i in range(n):
            # p̲ is largest at a neighbour of its peak, and ½ where some μ lies below 0
            if levels[i] > theirs[0]:
                best = 0.5
            else:
                after = np.searchsorted(theirs, levels[i] + PEAK * deviation[at])
                lower = floor_at((theirs[max(after - 1, 0)] - levels[i]) / deviation[at])
                upper = floor_at((theirs[min(after, len(theirs) - 1)] - levels[i]) / deviation[at])
                best = lower + upper if np.isnan(lower + upper) else max(lower, upper)
            most = max(most, best)
            total += best
        out[0, at] = np.nan if np.isnan(total) else most
        out[1, at] = total / n
