"""Share of the selected tokens within a radius of their sum, bounded under random directions.

N_s = #{i ∈ I : ‖s − y_i‖ ≤ r}, y_i = α_i x_i, s = Σ_I y_i, where the x_i have fixed lengths and
independent uniform directions in d ≥ 2 dimensions. Then s − y_i = Σ_{j∈I∖i} y_j, whose length R_i
has the mean square ξ_i² = Σ_{j∈I∖i} a_j², a = α‖x‖. N_s/N is the Recall at r of Definition 2 of
arXiv 2602.01893. Source: arXiv 2508.17821, Theorem 2. Lengths are in units of value norm. Imports
numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from theory.arrays import FloatArray
from theory.errors import InputError
from theory.normaliser.direction_sums import share_within

ROUNDING: Final = 1e-12
"""Relative tolerance: a radius this close below ξ_i counts as ξ_i."""


FAR: Final = 1e3
"""Radius beyond ξ, in units of ξ, from which the probability outside is 0 in float64."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Separability:
    """Bounds of E N_s/N, arrays of shape (radius,).

    printed: 1 − Σ ξ_i/(rN), and Σ exp(−(ξ_i − r)₊²/2M²)/N with M the largest ‖x_j‖ selected.
    repaired_upper: the printed step with a lower bound of the mean of R_i in place of ξ_i, and the
    constant (d−1)/2ξ_i² of uniform directions. sharp: the better of Cantelli's inequality at the
    exact variance of R_i², and of concentration on the sphere.
    """

    radius: FloatArray
    printed_lower: FloatArray
    printed_upper: FloatArray
    repaired_upper: FloatArray
    sharp_lower: FloatArray
    sharp_upper: FloatArray


def mean_squares(a: FloatArray) -> FloatArray:
    """Return ξ_i² = Σ_{j≠i} a_j², (N,)."""
    return _of_others(a**2)


def square_variances(a: FloatArray, dimension: int) -> FloatArray:
    """Return the exact variance of R_i²: (2/d) (ξ_i⁴ − Σ_{j≠i} a_j⁴), (N,)."""
    return 2 / dimension * np.maximum(mean_squares(a) ** 2 - _of_others(a**4), 0.0)


def mean_lengths_below(a: FloatArray, dimension: int) -> FloatArray:
    """Return a lower bound of E R_i, (N,): the larger of ξ√(1 − 1/(d−1)) (Poincaré's inequality on
    the sphere: Var R ≤ ξ²/(d−1)) and ξ³/√(ξ⁴ + Var R²) (Hölder's inequality).
    """
    square, variance = mean_squares(a), square_variances(a, dimension)
    poincare = np.sqrt(square * (1 - 1 / (dimension - 1)))
    fourth = np.maximum(square**2 + variance, np.finfo(float).tiny)
    return np.maximum(poincare, square**1.5 / np.sqrt(fourth))


def separability(a: Any, radius: Any, dimension: int, *, norm_max: float) -> Separability:
    """Return the bounds of E N_s/N.

    Args:
        a: (N,) effective weights α‖x‖ of the selected tokens, positive.
        radius: (radius,) radii r > 0.
        dimension: d >= 2.
        norm_max: M, the largest ‖x_j‖ of the selected.

    Raises:
        InputError: if the dimension is below 2, or a weight or radius is not positive.

    Example:
        >>> found = separability([0.5, 0.25, 0.25], [0.5], 16, norm_max=1.0)
        >>> [round(float(x[0]), 3) for x in (found.sharp_lower, found.sharp_upper)]
        [0.314, 0.667]
    """
    weights, r = _checked(a, radius, dimension)
    square, variance = mean_squares(weights)[:, None], square_variances(weights, dimension)[:, None]
    xi, mean_below = np.sqrt(square), mean_lengths_below(weights, dimension)[:, None]
    concentration = (dimension - 1) / 2
    shortfall, excess = np.maximum(xi - r, 0.0), np.maximum(r - xi, 0.0)
    safe = np.maximum(square, np.finfo(float).tiny)
    repaired = np.exp(-concentration * np.maximum(mean_below - r, 0.0) ** 2 / safe)
    # Cantelli: P{X − EX ≤ −t} ≤ V/(V + t²); vacuous at V = t = 0
    gap = r**2 - square * (1 - ROUNDING)
    cantelli_upper = _cantelli(variance, np.maximum(-gap, 0.0))
    cantelli_lower = 1 - _cantelli(variance, np.maximum(gap, 0.0))
    concentration_lower = 1 - np.exp(-concentration * np.minimum(excess / np.sqrt(safe), FAR) ** 2)
    markov = 1 - np.minimum(square / r**2, 1.0)
    return Separability(
        radius=r,
        printed_lower=(1 - xi / r).mean(axis=0),
        printed_upper=np.exp(-(shortfall**2) / (2 * norm_max**2)).mean(axis=0),
        repaired_upper=repaired.mean(axis=0),
        sharp_lower=np.maximum(np.maximum(cantelli_lower, concentration_lower), markov).mean(
            axis=0
        ),
        sharp_upper=np.minimum(cantelli_upper, repaired).mean(axis=0),
    )


def expected_share(a: Any, radius: Any, dimension: int) -> FloatArray:
    """Return the exact E N_s/N, (radius,): the mean over i of the law of R_i.

    Args:
        a: (N,) positive effective weights of the selected tokens; equal ones are evaluated once.
        radius: (radius,) radii r > 0.
        dimension: d, 8 to 128 (at least 2 for N <= 3).

    Example:
        >>> round(float(expected_share([1.0] * 17, [4.0], 64)[0]), 3)
        0.521
    """
    weights, r = _checked(a, radius, dimension)
    distinct, counts = np.unique(weights, return_counts=True)
    total = np.zeros(r.shape)
    for weight, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        others = np.delete(weights, np.flatnonzero(weights == weight)[0])
        total += count * share_within(others, r, dimension)
    return np.asarray(total / weights.size)


def _of_others(terms: FloatArray) -> FloatArray:
    """Return Σ_{j≠i} of terms, (N,), by sums from both sides: a difference would cancel."""
    before = np.concatenate([[0.0], np.cumsum(terms[:-1])])
    return np.asarray(before + np.concatenate([np.cumsum(terms[:0:-1])[::-1], [0.0]]))


def _cantelli(variance: FloatArray, gap: FloatArray) -> FloatArray:
    whole = variance + gap**2
    return np.where(whole > 0, variance / np.where(whole > 0, whole, 1.0), 1.0)


def _checked(a: Any, radius: Any, dimension: int) -> tuple[FloatArray, FloatArray]:
    weights = np.atleast_1d(np.asarray(a, dtype=np.float64))
    r = np.atleast_1d(np.asarray(radius, dtype=np.float64))
    if dimension < 2 or not (weights > 0).all() or not (r > 0).all():
        raise InputError(
            f"dimension is {dimension}, the least weight {weights.min():g}, the least radius"
            f" {r.min():g}; expected at least 2 and positive ones. Leave out what is 0."
        )
    return weights, r
