"""Gram supplied by the user in a what-if study: checked, and projected to the nearest feasible one
on request.

Source: arXiv 2602.01893, Assumption 2, which it replaces; erratum 9. Unitless. Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.arrays import FloatArray
from theory.errors import InputError
from theory.head.gram import LagGram, as_matrix, is_feasible, smallest_eigenvalue
from theory.head.projection import Projection, project

SYMMETRY = 1e-5
"""Largest difference of cos(v_i, v_j) and cos(v_j, v_i): float32 rounding."""

UNIT = 1e-3
"""Tolerance of cosines beyond 1 and of the unit diagonal: three decimal digits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured(Projection):
    """A feasible Gram of `tokens` tokens, the sink first. rho0: requested cosine with the sink for
    a lag profile, None for a matrix.
    """

    tokens: int
    rho0: float | None = None


def measured_gram(cosines: Any, *, rho0: float = 0.0, projected: bool = False) -> Measured:
    """Read a Gram: (T, T) cosines with the sink at position 0, or a lag profile, the cosines at
    lags 0, 1, …, T − 2 of T − 1 content tokens.

    Args:
        cosines: a square array, a 1-d array, or a `LagGram`.
        rho0: cosine of the sink with every other token, for a 1-d array.
        projected: project an infeasible Gram to the nearest feasible one instead of refusing it.

    Raises:
        InputError: for a wrong shape, entries that are not cosines, asymmetry, or an infeasible
            Gram.

    Example:
        >>> measured_gram([1.0, 0.5, 0.25], rho0=0.1).tokens
        4
    """
    if isinstance(cosines, LagGram):
        gram: LagGram | FloatArray = cosines
        tokens = cosines.by_lag.size + 1
    else:
        array = _numbers(cosines)
        gram = _lag_profile(array, rho0) if array.ndim == 1 else _matrix(array)
        tokens = array.shape[0] + (array.ndim == 1)
    if not projected and not is_feasible(gram, tokens):
        raise InputError(
            f"gram: its smallest eigenvalue is {smallest_eigenvalue(gram, tokens):.3g}, expected"
            " none below 0 (positive semidefinite). Use --project (project=True) to project it to"
            " the nearest feasible Gram."
        )
    result = project(gram, tokens)
    requested_rho0 = gram.rho0 if isinstance(gram, LagGram) else None
    return Measured(
        gram=result.gram,
        tokens=tokens,
        kind=result.kind,
        distance=result.distance,
        rho0=requested_rho0,
    )


def _numbers(cosines: Any) -> np.ndarray:
    try:
        array = np.asarray(cosines)
        array = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            "gram: expected numbers, a square matrix or the cosines by lag. Drop headers and text."
        ) from None
    square = array.ndim == 2 and array.shape[0] == array.shape[1]
    if not (square or array.ndim == 1) or array.shape[0] < (1 if array.ndim == 1 else 2):
        raise InputError(
            f"gram has shape {array.shape}, expected (T, T) for T >= 2 tokens, or cosines by lag."
            " Give every pair of tokens."
        )
    if not np.isfinite(array).all():
        index = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        raise InputError(
            f"gram is {array[index]} at {_position(index)}, expected finite cosines. Fill or leave"
            " out tokens without a value."
        )
    if np.abs(array).max() > 1 + UNIT:
        index = tuple(int(k) for k in np.unravel_index(np.abs(array).argmax(), array.shape))
        raise InputError(
            f"gram is {array[index]:.6g} at {_position(index)}, expected cosines from -1 to 1."
            " Divide inner products by both norms."
        )
    return array


def _lag_profile(array: np.ndarray, rho0: float) -> LagGram:
    if abs(array[0] - 1) > UNIT:
        raise InputError(
            f"gram by lag starts with {array[0]:.6g}, expected the cosine at lag 0, which is 1."
            " Prepend 1."
        )
    cosines = np.clip(array.astype(np.float64), -1, 1)
    cosines[0] = 1.0
    return LagGram(cosines, rho0)


def _matrix(array: np.ndarray) -> FloatArray:
    """Return the matrix, made exactly symmetric with unit diagonal."""
    deviation = np.abs(np.diagonal(array) - 1)
    if deviation.max() > UNIT:
        row = int(deviation.argmax())
        raise InputError(
            f"gram is {array[row, row]:.6g} at {_position((row, row))}, expected 1 on the diagonal."
            " Divide inner products by both norms."
        )
    asymmetry = np.abs(array - array.T)
    if asymmetry.max() > SYMMETRY:
        i, j = (int(k) for k in np.unravel_index(asymmetry.argmax(), asymmetry.shape))
        raise InputError(
            f"gram is {array[i, j]:.6g} at {_position((i, j))} but {array[j, i]:.6g} at"
            f" {_position((j, i))}, expected a symmetric matrix. Use (gram + gram.T) / 2."
        )
    symmetric = np.clip((array + array.T) / 2, -1, 1)
    np.fill_diagonal(symmetric, 1.0)
    return as_matrix(symmetric, len(symmetric))


def _position(index: tuple[int, ...]) -> str:
    return f"row {index[0]}, column {index[1]}" if len(index) == 2 else f"lag {index[0]}"
