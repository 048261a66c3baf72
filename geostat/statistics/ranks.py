"""Ranks along the last axis, ties sharing their mean rank. Imports numpy."""

from __future__ import annotations

import numpy as np

from geostat.statistics.arrays import FloatArray


def ranks(values: FloatArray, *, apart: float = 0.0) -> FloatArray:
    """Return ranks from 1 along the last axis; equal values share the mean of theirs. NaN where a
    row holds one.

    Neighbours in the order that differ by no more than `apart` are equal, as means are whose sums
    were rounded differently.

    >>> ranks(np.array([3.0, 1.0, 1.0 + 1e-9, 2.0]), apart=1e-6).tolist()
    [4.0, 1.5, 1.5, 3.0]
    """
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    # In the order a value is tied with the one before unless it is farther than `apart`: each takes
    # the middle of the first and the last place of those that it is tied with.
    tied = ~(ordered[..., 1:] > ordered[..., :-1] + apart)
    place = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    first, last = place.copy(), place.copy()
    first[..., 1:][tied] = 0
    last[..., :-1][tied] = values.shape[-1]
    np.maximum.accumulate(first, axis=-1, out=first)
    last = np.minimum.accumulate(last[..., ::-1], axis=-1)[..., ::-1]
    found = np.empty(values.shape)
    np.put_along_axis(found, order, (first + last) / 2 + 1, axis=-1)
    return np.where(np.isnan(values).any(axis=-1, keepdims=True), np.nan, found)
