"""Compiled bounds of many profiles of weights that share one Gram. Imported lazily by
`theory.evaluate.many_profiles`: importing it loads numba.

The kernel holds no state and releases the interpreter lock. Imports numpy and numba.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.compiled import compiled
from theory.editions.printed_kernels import floors_of_head
from theory.editions.sharp.bound_kernels import bounds_of_head
from theory.editions.sharp.sharp_kernels import pairwise_sum, rank_and_sum


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
    """Write what costs O(T²) of H profiles at K ascending sizes; return the first clearly negative
    determinant, else 0.

    cosines (T, T) by position; by profile order (H, T), by rank a (H, T) and the sink (H,), −1 for
    none. sharp (S, H, 8, K): `bound_kernels.bounds_of_head` for each of S `followup`; floors
    (D, 2, H, K): `printed_kernels.floors_of_head` for each `deviation` (D, H, K); extremes (3, H,
    K): ρ_in, ρ_out, ρ_least as `ranked.extremes_of` takes them. by_rank (T, T) is scratch.
    """
    sigma, sigma_ss = np.empty((len(sizes), a.shape[1])), np.empty(len(sizes))
    selected = by_rank[: sizes[-1]]
    for h in range(len(a)):
        rank_and_sum(cosines, order[h], a[h], sink[h], sizes, selected, sigma, extremes[:, h])
        for at in range(len(sizes)):
            sigma_ss[at] = pairwise_sum(sigma[at, : sizes[at]])
        for which in range(len(followup)):
            asked = followup[which]
            worst = bounds_of_head(
                by_rank, a[h], sigma, sigma_ss, sizes, table, rounding, asked, sharp[which, h]
            )
            if worst < 0:
                return worst
        for which in range(len(deviation)):
            floors_of_head(
                a[h],
                sigma,
                sink[h],
                by_rank[sink[h]],
                sizes,
                deviation[which, h],
                floors[which, :, h],
            )
    return 0.0
