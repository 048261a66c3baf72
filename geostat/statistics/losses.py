"""Losses over documents: means, BIC, paired differences."""

from __future__ import annotations

import numpy as np

from geostat.statistics.arrays import FloatArray

__all__ = ["bayesian_information", "mean_over_documents", "nanmean", "paired_gain"]


def nanmean(values: FloatArray, axis: int = 0) -> FloatArray:
    """Return the mean along an axis, ignoring NaN; NaN, without the warning of NumPy's own, where there is nothing else.

    >>> nanmean(np.array([[1.0, np.nan], [3.0, np.nan]])).tolist()
    [2.0, nan]
    """
    finite = np.isfinite(values)
    count = finite.sum(axis=axis)
    total = np.where(finite, values, 0.0).sum(axis=axis)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def mean_over_documents(values: FloatArray) -> FloatArray:
    """Return the mean along axis 0, ignoring NaN; NaN where no document has a value."""
    return nanmean(values)


def bayesian_information(squares: FloatArray, points: FloatArray | int, parameters: FloatArray | int) -> FloatArray:
    """Return the BIC n ln(S/n) + k ln n of least squares, which takes the n points as independent.

    Args:
        squares: S, the (weighted) sum of squared residuals, any shape.
        points: n.
        parameters: k.

    Returns:
        BIC, same shape; NaN where the fit is exact (S = 0) and the likelihood has no bound.
    """
    n = np.asarray(points, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        bic = n * np.log(squares / n) + np.asarray(parameters) * np.log(n)
    return np.where(np.isfinite(bic), bic, np.nan)


def paired_gain(simple: FloatArray, rival: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean over documents of (loss of the simple form − loss of the rival) and its standard error.

    Args:
        simple: left-out loss of the simpler form, shape (document, ...).
        rival: left-out loss of the richer form, same shape.

    Returns:
        Gain and its standard error, shape (...); the standard error is NaN with fewer than two documents.
    """
    gain = simple - rival
    finite = np.isfinite(gain)
    count = finite.sum(axis=0)
    mean = mean_over_documents(gain)
    squares = np.where(finite, (gain - mean) ** 2, 0.0).sum(axis=0)
    enough = count > 1
    se = np.sqrt(np.divide(squares, (count - 1.0) * count, out=np.full(np.shape(squares), np.nan), where=enough))
    return mean, se
