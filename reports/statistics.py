"""Means and quantiles over heads and documents, what is missing left out."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

__all__ = ["FloatArray", "flat", "mean", "median", "quantiles"]

FloatArray = NDArray[np.float64]


def flat(array: xr.DataArray) -> FloatArray:
    """The known entries of an array, in one row."""
    values = np.asarray(array.values, dtype=np.float64).ravel()
    return values[np.isfinite(values)]


def mean(values: FloatArray, axis: int | tuple[int, ...] = 0) -> FloatArray:
    """Mean of the known entries along an axis; NaN where nothing is known."""
    known = np.isfinite(values)
    number = known.sum(axis=axis)
    total = np.where(known, values, 0.0).sum(axis=axis)
    return np.divide(total, number, out=np.full(np.shape(total), np.nan), where=number > 0)


def quantiles(rows: FloatArray, shares: tuple[float, ...]) -> FloatArray:
    """Quantiles over the known entries of the first axis, shape (share, ...); NaN where nothing is known."""
    rows = rows.reshape(rows.shape[0], -1)
    out = np.full((len(shares), rows.shape[1]), np.nan)
    some = np.isfinite(rows).any(axis=0)
    if some.any():
        out[:, some] = np.nanquantile(rows[:, some], shares, axis=0)
    return out


def median(array: xr.DataArray | FloatArray) -> float:
    """Median of the known entries; NaN where nothing is known."""
    values = np.asarray(array, dtype=np.float64)
    values = values[np.isfinite(values)]
    return float(np.median(values)) if values.size else float("nan")
