"""Array types, safe division, and slices that bound the memory of an array operation."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

ENTRIES: Final = 4_000_000
"""Largest number of array entries processed at once: 32 MB in double precision."""


def ratio(above: ArrayLike, below: ArrayLike, otherwise: float = np.nan) -> FloatArray:
    """Return above/below where `below` is positive, else `otherwise`; the arguments broadcast.

    >>> ratio([1.0, 1.0], [2.0, 0.0])
    array([0.5, nan])
    """
    numerator, denominator = np.broadcast_arrays(np.asarray(above), np.asarray(below))
    return np.divide(
        numerator, denominator, out=np.full(numerator.shape, otherwise), where=denominator > 0
    )


def pieces(length: int, entries: int) -> list[slice]:
    """Return slices that cover an axis, each with at most ENTRIES array entries.

    One index of the axis has `entries` entries; every slice holds at least one index.

    >>> pieces(5, ENTRIES // 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    step = max(1, ENTRIES // max(entries, 1))
    return [slice(first, first + step) for first in range(0, length, step)]
