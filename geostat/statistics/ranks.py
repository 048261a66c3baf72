"""Ranks along the last axis; ties share their mean rank. Imports numpy."""

from __future__ import annotations

import numpy as np

from geostat.statistics.arrays import FloatArray


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
