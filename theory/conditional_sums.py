"""What is known of a count of dependent events from their probabilities and the correlations behind them.

Events k = 1..M, probabilities F_k, of jointly Gaussian vectors whose coordinates are correlated by ρ̃; K counts them, κ = Σ F_k.
V = Σ_kl |ρ̃_kl| √(F_k(1−F_k)F_l(1−F_l)) ≥ Var K by Gebelein's inequality. Rows are nodes of a quadrature. Imports numpy only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from theory.arrays import FloatArray

NEGLIGIBLE = 1e-3
"""An upper bound of a probability already this small is not made smaller at the cost of O(M²)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chances:
    """Probabilities F (K, M), and for each row κ = Σ F, Σ F² and max F, each (K,)."""

    each: FloatArray
    expected: FloatArray
    squares: FloatArray
    largest: FloatArray


def quadratic(chance: FloatArray, correlation: npt.NDArray[Any]) -> FloatArray:
    """Return V for each row of F (K, M); correlation |ρ̃| (M, M). In float32: every term is positive, and V is moved up by its rounding."""
    root = np.sqrt(chance * (1 - chance)).astype(np.float32)
    v = np.einsum("km,km->k", root @ correlation.astype(np.float32, copy=False), root, dtype=np.float64)
    return np.asarray(v * (1 + 1e-5))


def none_of(chances: Chances, correlation: Callable[[], npt.NDArray[Any]] | None) -> FloatArray:
    """Return an upper bound of P{K = 0} for each row: min(1 − max F, V/(V + κ²)), without V where `correlation` is None.

    V is at least Σ F(1−F): it is computed only where that lets it matter, and the correlation only then.
    """
    found, expected = 1 - chances.largest, chances.expected
    least = expected - chances.squares
    where = (found > NEGLIGIBLE) & (least < found * (least + expected**2))
    if correlation is not None and where.any():
        v = quadratic(chances.each[where], correlation())
        found[where] = np.minimum(found[where], v / (v + expected[where] ** 2))
    return np.asarray(found)


def comonotone(chance: FloatArray, size: int) -> FloatArray:
    """Return the largest E size/(size + K) that probabilities F (K, M) allow, for each row: 1 − Σ_m δ_m F_(m)."""
    m = np.arange(chance.shape[1] + 1)
    return np.asarray(1 + np.sort(chance, axis=1)[:, ::-1] @ np.diff(size / (size + m)))


def interpolated(expected: FloatArray, size: int) -> FloatArray:
    """Return size/(size + κ), linear between whole κ: the least E size/(size + K) for a count K of mean κ."""
    whole = np.floor(expected)
    return np.asarray(size / (size + whole) - (expected - whole) * size / ((size + whole) * (size + whole + 1)))
