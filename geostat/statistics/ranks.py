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
    place, size = np.arange(values.shape[-1]), values.shape[-1]
    # Values that count as equal stand side by side; a run of them ends where the next is farther
    # than `apart`.
    begins = np.ones(values.shape, dtype=bool)
    begins[..., 1:] = ordered[..., 1:] > ordered[..., :-1] + apart
    ends = np.ones(values.shape, dtype=bool)
    ends[..., :-1] = begins[..., 1:]
    first = np.maximum.accumulate(np.where(begins, place, 0), axis=-1)
    last = np.minimum.accumulate(np.where(ends, place, size)[..., ::-1], axis=-1)[..., ::-1]
    out = np.empty(values.shape)
    np.put_along_axis(out, order, (first + last) / 2 + 1.0, axis=-1)
    return np.where(np.isnan(values).any(axis=-1, keepdims=True), np.nan, out)
