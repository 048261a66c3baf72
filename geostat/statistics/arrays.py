"""Array types, safe division, ranks, and slices that bound the memory of an array operation."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray


def ranks(values: FloatArray, *, apart: float = 0.0) -> FloatArray:
    """Return ranks from 1 along the last axis; NaN in rows that contain NaN.

    Ties share their mean rank. Neighbours in sorted order that differ by at most `apart` are ties,
    which allows for rounding of sums.

    >>> ranks(np.array([3.0, 1.0, 1.0 + 1e-9, 2.0]), apart=1e-6).tolist()
    [4.0, 1.5, 1.5, 3.0]
    """
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    # A sorted value is tied with the previous one unless it is more than `apart` larger. A tied
    # value takes the midpoint of the first and last place of its group.
    tied = ~(ordered[..., 1:] > ordered[..., :-1] + apart)
    place = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    first, last = place.copy(), place.copy()
    first[..., 1:][tied] = 0
    last[..., :-1][tied] = values.shape[-1]
    np.maximum.accumulate(first, axis=-1, out=first)
    last = np.minimum.accumulate(last[..., ::-1], axis=-1)[..., ::-1]
    result = np.empty(values.shape)
    np.put_along_axis(result, order, (first + last) / 2 + 1, axis=-1)
    return np.where(np.isnan(values).any(axis=-1, keepdims=True), np.nan, result)


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
