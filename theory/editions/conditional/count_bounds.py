"""Bounds on a count of dependent events from their probabilities and the correlations of the
underlying Gaussian vectors.

Events k = 1..M, probabilities F_k, of jointly Gaussian vectors whose coordinates are correlated by
ρ̃; K counts them, κ = Σ F_k. V = Σ_kl |ρ̃_kl| √(F_k(1−F_k)F_l(1−F_l)) ≥ Var K by Gebelein's
inequality. Rows are quadrature nodes. Imports numpy; numba on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from theory.arrays import FloatArray, IntArray

NEGLIGIBLE = 1e-3
"""An upper bound of a probability below this value is not refined at O(M²) cost."""

WEIGHTLESS = 1e-3
"""Nodes of this weight or less contribute 5e-5 of an average."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chances:
    """F (G, K, M) of G groups of K rows, with κ = Σ F, Σ F² and max F of each row, (G, K)."""

    probability: FloatArray
    expected: FloatArray
    squares: FloatArray
    largest: FloatArray


Correlations = Callable[[int], npt.NDArray[Any]]
"""Function that computes |ρ̃| (M, M) of a group on demand."""


def absolute_correlation(covariance: FloatArray, variance: FloatArray) -> FloatArray:
    """Return |ρ̃_kl| = |C_kl|/√(v_k v_l), at most 1; 0 where a token is known (v = 0)."""
    scale = np.divide(1.0, np.sqrt(variance), out=np.zeros_like(variance), where=variance > 0)
    return np.asarray(np.minimum(np.abs(covariance) * scale[:, None] * scale, 1.0))


def quadratic(chance: FloatArray, correlation: npt.NDArray[Any]) -> FloatArray:
    """Return V for each row of F (K, M); correlation |ρ̃| (M, M). Computed in float32; all terms
    are positive, and V is increased by its rounding.
    """
    from theory.editions.conditional.kernels import deviations, row_products

    root = deviations(chance)
    return np.asarray(
        row_products(root @ correlation.astype(np.float32, copy=False), root) * (1 + 1e-5)
    )


def none_bound(
    chances: Chances, correlation: Correlations | None, weight: FloatArray | float = 1.0
) -> FloatArray:
    """Return an upper bound of P{K = 0} for each row (G, K): min(1 − max F, V/(V + κ²)), without
    V where `correlation` is None.

    V ≥ Σ F(1−F), and V is computed only where this value leaves room for an improvement and the
    `weight` of the row (mean 1) exceeds `WEIGHTLESS`. |ρ̃| of a group is computed only for such
    rows.
    """
    result, expected = 1 - chances.largest, chances.expected
    least = expected - chances.squares
    where = (weight > WEIGHTLESS) & (result > NEGLIGIBLE) & (least < result * (least + expected**2))
    if correlation is not None:
        for group in np.flatnonzero(where.any(axis=1)):
            rows = where[group]
            v = quadratic(chances.probability[group, rows], correlation(int(group)))
            result[group, rows] = np.minimum(
                result[group, rows], v / (v + expected[group, rows] ** 2)
            )
    return np.asarray(result)


def comonotone(rising: FloatArray, size: int) -> FloatArray:
    """Return the largest E size/(size + K) = 1 − Σ_m δ_m F_(m) for ascending F (K, M)."""
    m = np.arange(rising.shape[1] + 1)
    return np.asarray(1 + rising @ np.diff(size / (size + m))[::-1])


def interpolated(expected: FloatArray, size: int) -> FloatArray:
    """Return the least E size/(size + K) at mean κ: size/(size + κ), linear between whole κ."""
    whole = np.floor(expected)
    return np.asarray(
        size / (size + whole) - (expected - whole) * size / ((size + whole) * (size + whole + 1))
    )


def distance_beyond_line(
    level: FloatArray, slope: FloatArray, n: int, others: IntArray, ties: IntArray
) -> FloatArray:
    """Return the largest distance of each integrand from the line level + slope·κ on the unsafe
    side, 0 ≤ κ ≤ others, (rows, 4).

    An event that the nodes missed may lie there: (1−κ)⁺ below the line; above it the bound of P{K =
    0}, at most 1 − κ/others, and 1 − f_int(κ + ties) and 1 − F_int(κ + ties). level, slope (rows,
    4); others, ties (rows,). All integrands are linear between integer κ.
    """
    most, result = others[:, None], np.zeros_like(level)
    ends = np.concatenate([np.zeros_like(most), np.minimum(most, 1), most], axis=1)
    low, high = (level[:, k, None] + slope[:, k, None] * ends for k in range(2))
    result[:, 0] = (low - np.maximum(1 - ends, 0)).max(axis=1)
    result[:, 1] = (1 - ends / np.maximum(most, 1) - high).max(axis=1)
    count = np.minimum(np.arange(others.max(initial=0) + 1), most)
    for k, size in ((2, n), (3, 2 * n)):
        lost = 1 - size / (size + count + ties[:, None])
        result[:, k] = (lost - level[:, k, None] - slope[:, k, None] * count).max(axis=1)
    return np.maximum(result, 0.0)
