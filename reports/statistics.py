"""Medians and quartiles over heads, without missing values, for sentences and cells."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def flat(array: xr.DataArray | FloatArray) -> FloatArray:
    """Return the finite entries of an array as a vector.

    >>> flat(np.array([[1.0, np.nan], [2.0, 3.0]])).tolist()
    [1.0, 2.0, 3.0]
    """
    values = np.asarray(array, dtype=np.float64).ravel()
    return values[np.isfinite(values)]


def mean(array: xr.DataArray | FloatArray) -> float:
    """Return the mean of the finite entries; NaN if there are none."""
    values = flat(array)
    return float(values.mean()) if values.size else float("nan")


def median(array: xr.DataArray | FloatArray) -> float:
    """Return the median of the finite entries; NaN if there are none."""
    values = flat(array)
    return float(np.median(values)) if values.size else float("nan")


def quartiles(array: xr.DataArray | FloatArray) -> tuple[float, float, float]:
    """Return median, lower and upper quartile of the finite entries; NaN if there are none.

    >>> quartiles(np.array([1.0, 2.0, 3.0, 4.0, 5.0, np.nan]))
    (3.0, 2.0, 4.0)
    """
    values = flat(array)
    low, middle, high = (
        np.quantile(values, (0.25, 0.5, 0.75)) if values.size else np.full(3, np.nan)
    )
    return float(middle), float(low), float(high)
