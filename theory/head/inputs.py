"""Input of an evaluation, checked: weights, norms, Gram, head size, sizes N and sink of one or
several heads.

A head is given by its attention row α, value norms ‖v‖ and a Gram matrix of cosines. Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from theory.arrays import FloatArray, IntArray
from theory.errors import InputError
from theory.head.gram import Gram, as_matrix, is_feasible

SHAPES = {
    1: "(T,), one head at a time. Use envelopes for many heads",
    2: "(H, T) for many heads. Use envelope for one head",
}
"""Expected shape of α, by its number of axes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadInput:
    """Input of one head or several, as `checked_input` returns it.

    alpha and norms (T,) or (H, T); n (K,): sizes N >= 1; sink: position or None; feasible: whether
    the Gram is PSD.
    """

    alpha: FloatArray
    norms: FloatArray
    gram: Gram
    dimension: int
    n: IntArray
    sink: int | None = 0
    feasible: bool = True

    @property
    def tokens(self) -> int:
        """T."""
        return self.alpha.shape[-1]

    def cosines(self) -> npt.NDArray[Any]:
        """Return the T×T Gram matrix."""
        return as_matrix(self.gram, self.tokens, sink=self.sink)


def checked_input(
    alpha: Any,
    norms: Any,
    gram: Gram,
    dimension: int,
    n: Any,
    *,
    sink: int | None,
    feasible: bool | None = None,
    axes: int = 1,
    exists: bool = True,
) -> HeadInput:
    """Return the checked and converted input; arguments as in `theory.envelope`.

    axes: number of axes of alpha, 1 for one head, 2 for many. exists: whether to refuse an
    infeasible Gram.

    Raises:
        InputError: on bad input, or an infeasible Gram.
    """
    rows = _weights(alpha, axes)
    tokens = rows.shape[-1]
    checked_norms, sizes = _norms_like(norms, rows), _sizes(n)
    if sink is not None:
        if not 0 <= sink < tokens:
            raise InputError(
                f"sink is {sink}, expected a position from 0 to {tokens - 1}, or None when no sink"
                " is visible."
            )
        sink = int(sink)
    is_psd = is_feasible(gram, tokens, sink=sink) if feasible is None else feasible
    if exists and not is_psd:
        raise InputError(
            "the Gram is infeasible: these cosines are not positive semidefinite, expected a"
            " feasible Gram. Project it first with theory.project."
        )
    if int(dimension) != dimension or dimension < 1:
        raise InputError(
            f"dimension is {dimension}, expected a whole number >= 1. Pass the head size d."
        )
    return HeadInput(
        alpha=rows,
        norms=checked_norms,
        gram=gram,
        dimension=int(dimension),
        n=sizes,
        sink=sink,
        feasible=is_psd,
    )


def _weights(alpha: Any, axes: int) -> FloatArray:
    """Return the checked weights of one head or many."""
    rows = np.asarray(alpha, dtype=np.float64)
    if rows.ndim == 0 or rows.shape[-1] < 1:
        raise InputError(
            f"alpha has shape {rows.shape}, expected (..., T) with T >= 1. Pass one weight for each"
            " token."
        )
    _refuse_negative(rows, "alpha has", "weights")
    if rows.ndim != axes:
        raise InputError(f"alpha has shape {rows.shape}, expected {SHAPES[axes]}.")
    return rows


def _norms_like(norms: Any, rows: FloatArray) -> FloatArray:
    """Return the norms, one for each weight."""
    array = np.asarray(norms, dtype=np.float64)
    try:
        array = np.broadcast_to(array, rows.shape)
    except ValueError:
        raise InputError(
            f"norms have shape {array.shape}, expected {rows.shape} like alpha. Pass one norm for"
            " each token."
        ) from None
    _refuse_negative(array, "norms have", "norms")
    return array


def _sizes(n: Any) -> IntArray:
    """Return the sizes N, (K,)."""
    sizes = np.atleast_1d(np.asarray(n))
    if sizes.ndim != 1 or sizes.size == 0 or not np.all(np.equal(np.mod(sizes, 1), 0)):
        raise InputError(
            f"n is {n!r}, expected a whole number or a 1-d sequence of them. Pass for example n=[1,"
            " 2, 4]."
        )
    if (sizes < 1).any():
        raise InputError(
            f"n has entries down to {sizes.min()}, expected sizes from 1 to T. Drop entries"
            " below 1."
        )
    return sizes.astype(np.int64)


def _refuse_negative(array: FloatArray, subject: str, things: str) -> None:
    if not np.isfinite(array).all() or (array < 0).any():
        raise InputError(
            f"{subject} negative or non-finite entries, expected finite {things} >= 0. Keep only"
            " visible tokens and drop NaN."
        )
