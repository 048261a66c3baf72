"""Medians and quartiles over heads, for a summary in words or a cell; what is missing is left
out.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def flat(array: xr.DataArray | FloatArray) -> FloatArray:
    """The known entries of an array, in one row.

    >>> flat(np.array([[1.0, np.nan], [2.0, 3.0]])).tolist()
    [1.0, 2.0, 3.0]
    """
    values = np.asarray(array, dtype=np.float64).ravel()
    return values[np.isfinite(values)]


def mean(array: xr.DataArray | FloatArray) -> float:
    """Mean of the known entries; NaN where nothing is known."""
    values = flat(array)
    return float(values.mean()) if values.size else float("nan")


def median(array: xr.DataArray | FloatArray) -> float:
    """Median of the known entries; NaN where nothing is known."""
    values = flat(array)
    return float(np.median(values)) if values.size else float("nan")


def most_typical(array: xr.DataArray | FloatArray) -> tuple[int, ...] | None:
    """Where the known entry nearest to the median stands, an index a dimension; None where nothing
    is known.

    >>> most_typical(np.array([[9.0, 1.0], [np.nan, 3.0]]))
    (1, 1)
    """
    values = np.asarray(array, dtype=np.float64)
    if not np.isfinite(values).any():
        return None
    distance = np.where(np.isfinite(values), np.abs(values - np.nanmedian(values)), np.inf)
    return tuple(int(at) for at in np.unravel_index(int(distance.argmin()), values.shape))


def quartiles(array: xr.DataArray | FloatArray) -> tuple[float, float, float]:
    """Median, lower and upper quartile of the known entries; NaN where nothing is known.

    >>> quartiles(np.array([1.0, 2.0, 3.0, 4.0, 5.0, np.nan]))
    (3.0, 2.0, 4.0)
    """
    values = flat(array)
    low, middle, high = (
        np.quantile(values, (0.25, 0.5, 0.75)) if values.size else np.full(3, np.nan)
    )
    return float(middle), float(low), float(high)
