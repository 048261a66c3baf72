"""Ranks along the last axis, ties sharing their mean rank. Imports numpy."""

from __future__ import annotations

import numpy as np

from geostat.statistics.arrays import FloatArray

__all__ = ["ranks"]


def ranks(values: FloatArray, *, apart: float = 0.0) -> FloatArray:
    """Return ranks from 1 along the last axis; equal values share the mean of theirs. NaN where a row holds one.

    Args:
        values: shape (..., item).
        apart: neighbours in the order that differ by no more are equal, as means are whose sums were rounded differently.
    """
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    number = values.shape[-1]
    place = np.arange(number)
    starts = np.ones(values.shape, dtype=bool)
    starts[..., 1:] = ordered[..., 1:] > ordered[..., :-1] + apart
    first = np.maximum.accumulate(np.where(starts, place, 0), axis=-1)
    ends = np.ones(values.shape, dtype=bool)
    ends[..., :-1] = starts[..., 1:]
    last = np.minimum.accumulate(np.where(ends, place, number)[..., ::-1], axis=-1)[..., ::-1]
    out = np.empty(values.shape)
    np.put_along_axis(out, order, 1.0 + 0.5 * (first + last), axis=-1)
    return np.where(np.isnan(values).any(axis=-1, keepdims=True), np.nan, out)
