"""Array types and the checks every numeric entry shares.

A head is given by its attention row α, value norms ‖v‖ and a Gram matrix of cosines; a = α‖v‖ (units of value norm).
Imports numpy only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from theory.errors import InputError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def attention_rows(alpha: Any) -> FloatArray:
    """Return α as float64, shape (..., T): finite and non-negative; it need not sum to 1.

    Raises:
        InputError: if α has no tokens, or a weight is negative or not finite.
    """
    array = np.asarray(alpha, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] < 1:
        raise InputError(f"alpha has shape {array.shape}, expected (..., T) with T >= 1. Pass one weight for each token.")
    if not np.isfinite(array).all() or (array < 0).any():
        raise InputError("alpha has negative or non-finite entries, expected finite weights >= 0. Keep only visible tokens and drop NaN.")
    return array


def value_norms(norms: Any, shape: tuple[int, ...]) -> FloatArray:
    """Return ‖v‖ as float64, broadcast to `shape` (..., T): finite and non-negative.

    Raises:
        InputError: if the shape does not fit, or a norm is negative or not finite.
    """
    array = np.asarray(norms, dtype=np.float64)
    try:
        array = np.broadcast_to(array, shape)
    except ValueError:
        raise InputError(f"norms have shape {array.shape}, expected {shape} like alpha. Pass one norm for each token.") from None
    if not np.isfinite(array).all() or (array < 0).any():
        raise InputError("norms have negative or non-finite entries, expected finite norms >= 0. Keep only visible tokens and drop NaN.")
    return array


def selection_sizes(n: Any) -> IntArray:
    """Return the sizes N of the selected set as a 1-d int64 array, each >= 1.

    Raises:
        InputError: if `n` is empty, not whole, or has entries below 1.
    """
    array = np.atleast_1d(np.asarray(n))
    if array.ndim != 1 or array.size == 0 or not np.all(np.equal(np.mod(array, 1), 0)):
        raise InputError(f"n is {n!r}, expected a whole number or a 1-d sequence of them. Pass for example n=[1, 2, 4].")
    if (array < 1).any():
        raise InputError(f"n has entries down to {array.min()}, expected sizes from 1 to T. Drop entries below 1.")
    return array.astype(np.int64)


def whole_dimension(dimension: Any) -> int:
    """Return the head size d, a whole number >= 1.

    Raises:
        InputError: if it is not.
    """
    if int(dimension) != dimension or dimension < 1:
        raise InputError(f"dimension is {dimension}, expected a whole number >= 1. Pass the head size d.")
    return int(dimension)


def sink_position(sink: int | None, tokens: int) -> int | None:
    """Return the sink's position among the tokens, or None when no sink is visible.

    Raises:
        InputError: if it lies outside 0..T-1.
    """
    if sink is None:
        return None
    if not 0 <= sink < tokens:
        raise InputError(f"sink is {sink}, expected a position from 0 to {tokens - 1}, or None when no sink is visible.")
    return int(sink)


def selection_order(alpha: FloatArray) -> IntArray:
    """Return the order in which tokens enter I_N, shape (T,): by falling weight, ties by lower index."""
    return np.argsort(-alpha, kind="stable").astype(np.int64)
