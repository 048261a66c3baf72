"""Input of an evaluation: weights, norms, Gram, head size, sizes N and sink of one head or several,
checked in one place.

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
"""What is expected of α, by its number of axes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadInput:
    """Input of one head or several, as `checked_input` returns it.

    alpha and norms (T,) or (H, T), n (K,) sizes N >= 1, the sink's position or None; feasible: some
    vectors have the Gram.
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
    """Return the input with its types settled; arguments as `theory.envelope`.

    axes: of alpha: 1 for one head, 2 for many. exists: whether a Gram that no vectors have is
    refused.

    Raises:
        InputError: on bad input, or an infeasible Gram.
    """
    rows = _weights(alpha, axes)
    tokens = rows.shape[-1]
    given, sizes = _norms_like(norms, rows), _sizes(n)
    if sink is not None:
        if not 0 <= sink < tokens:
            raise InputError(
                f"sink is {sink}, expected a position from 0 to {tokens - 1}, or None when no sink"
                " is visible."
            )
        sink = int(sink)
    known = is_feasible(gram, tokens, sink=sink) if feasible is None else feasible
    if exists and not known:
        raise InputError(
            "the Gram is infeasible: no vectors have these cosines, expected a positive"
            " semidefinite one. Use theory.project."
        )
    if int(dimension) != dimension or dimension < 1:
        raise InputError(
            f"dimension is {dimension}, expected a whole number >= 1. Pass the head size d."
        )
    return HeadInput(
        alpha=rows,
        norms=given,
        gram=gram,
        dimension=int(dimension),
        n=sizes,
        sink=sink,
        feasible=known,
    )


def _weights(alpha: Any, axes: int) -> FloatArray:
    """Return the weights of one head or many, refused where they are none."""
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
    given = np.asarray(norms, dtype=np.float64)
    try:
        given = np.broadcast_to(given, rows.shape)
    except ValueError:
        raise InputError(
            f"norms have shape {given.shape}, expected {rows.shape} like alpha. Pass one norm for"
            " each token."
        ) from None
    _refuse_negative(given, "norms have", "norms")
    return given


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
