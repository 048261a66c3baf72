"""Ranks along the last axis, ties sharing their mean rank, by scipy. Imports numpy and
scipy.stats.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

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
    # Values that count as equal get one number, counted up along the order wherever a neighbour is
    # farther than `apart`.
    steps = np.cumsum(ordered[..., 1:] > ordered[..., :-1] + apart, axis=-1)
    numbers = np.zeros(values.shape, dtype=np.int64)
    np.put_along_axis(numbers, order[..., 1:], steps, axis=-1)
    return np.where(
        np.isnan(values).any(axis=-1, keepdims=True), np.nan, rankdata(numbers, axis=-1)
    )
