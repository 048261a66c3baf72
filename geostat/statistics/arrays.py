"""Array types, a ratio where there is one, and how much of an array is looked at together."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

ENTRIES: Final = 4_000_000
"""Entries of an array that are looked at together: in double precision 32 MB."""


def ratio(above: ArrayLike, below: ArrayLike, otherwise: float = np.nan) -> FloatArray:
    """Return above/below where `below` is positive, and `otherwise` elsewhere; the two broadcast.

    >>> ratio([1.0, 1.0], [2.0, 0.0])
    array([0.5, nan])
    """
    top, bottom = np.broadcast_arrays(np.asarray(above), np.asarray(below))
    return np.divide(top, bottom, out=np.full(top.shape, otherwise), where=bottom > 0)


def pieces(length: int, entries: int) -> list[slice]:
    """Return slices of an axis that is so long, each of at most ENTRIES entries where one place on
    it has `entries`; at least one place each.

    >>> pieces(5, ENTRIES // 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    step = max(1, ENTRIES // max(entries, 1))
    return [slice(first, first + step) for first in range(0, length, step)]
