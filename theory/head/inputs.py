"""Input of an evaluation: weights, norms, Gram, head size, sizes N and sink of one head or several, checked in one place.

A head is given by its attention row α, value norms ‖v‖ and a Gram matrix of cosines. Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from theory.arrays import FloatArray, IntArray, attention_rows, selection_sizes, sink_position, value_norms, whole_dimension
from theory.errors import InputError
from theory.head.gram import Gram, as_matrix, is_feasible

SHAPES = {1: "(T,), one head at a time. Use envelopes for many heads", 2: "(H, T) for many heads. Use envelope for one head"}
"""What is expected of α, by its number of axes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadInput:
    """Checked input: alpha and norms (T,) or (H, T), n (K,) sizes N >= 1, the sink's position or None; feasible: some vectors have the Gram."""

    alpha: FloatArray
    norms: FloatArray
    gram: Gram
    dimension: int
    n: IntArray
    sink: int | None
    feasible: bool

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
    """Return the input with its types settled.

    Args:
        alpha: attention weights of the visible tokens, non-negative; they need not sum to 1.
        norms: value norms, or one number.
        gram: T×T cosines, or a `LagGram`.
        dimension: head size d.
        n: sizes N >= 1.
        sink: position of the sink among the tokens, None where it is not visible.
        feasible: whether some vectors have this Gram, where the caller knows; None: find out.
        axes: of alpha: 1 for one head, 2 for many.
        exists: whether a Gram that no vectors have is refused.

    Raises:
        InputError: on bad input, or an infeasible Gram.
    """
    rows = attention_rows(alpha)
    if rows.ndim != axes:
        raise InputError(f"alpha has shape {rows.shape}, expected {SHAPES[axes]}.")
    given, tokens = value_norms(norms, rows.shape), rows.shape[-1]
    sizes, sink = selection_sizes(n), sink_position(sink, tokens)
    known = is_feasible(gram, tokens, sink=sink) if feasible is None else feasible
    if exists and not known:
        raise InputError("the Gram is infeasible: no vectors have these cosines, expected a positive semidefinite one. Use theory.project.")
    return HeadInput(alpha=rows, norms=given, gram=gram, dimension=whole_dimension(dimension), n=sizes, sink=sink, feasible=known)
