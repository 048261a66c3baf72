"""Losses over documents: means, centred values, BIC, corrected AIC, paired differences."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from geostat.statistics.arrays import BoolArray, FloatArray, ratio


def mean_over_documents(values: FloatArray) -> FloatArray:
    """Return the mean along axis 0, ignoring NaN; NaN where no document has a value."""
    finite = np.isfinite(values)
    return ratio(np.where(finite, values, 0.0).sum(axis=0), finite.sum(axis=0))


def mean_over_arrays(arrays: Iterable[FloatArray]) -> FloatArray:
    """Return the elementwise mean over an iterable of arrays, ignoring NaN.

    NaN where no array has a value.

    >>> mean_over_arrays([np.array([1.0, np.nan]), np.array([3.0, np.nan])])
    array([ 2., nan])
    """
    total, known = np.zeros(()), np.zeros(())
    for array in arrays:
        finite = np.isfinite(array)
        total, known = total + np.where(finite, array, 0.0), known + finite
    return ratio(total, known)


def mean_of_known(values: FloatArray) -> FloatArray:
    """Return the mean along the last axis, ignoring NaN; NaN where all entries are NaN."""
    return mean_over_documents(np.moveaxis(values, -1, 0))


def centred(values: FloatArray, known: BoolArray) -> FloatArray:
    """Return values minus their mean over the known entries of the last axis; 0 where unknown.

    >>> centred(np.array([1.0, 9.0, 3.0]), np.array([True, False, True])).tolist()
    [-1.0, 0.0, 1.0]
    """
    level = mean_of_known(np.where(known, values, np.nan))[..., None]
    return np.where(known, values - level, 0.0)


def bayesian_information(
    squares: FloatArray, points: FloatArray | int, parameters: NDArray[np.int64] | int
) -> FloatArray:
    """Return the BIC n ln(S/n) + k ln n of a least-squares fit.

    S is the (weighted) sum of squared residuals; the n points count as independent. NaN where the
    fit is exact (S = 0) and the likelihood is unbounded.
    """
    n = np.asarray(points, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        bic = n * np.log(squares / n) + np.asarray(parameters) * np.log(n)
    return np.where(np.isfinite(bic), bic, np.nan)


def corrected_akaike(
    bic: FloatArray,
    points: FloatArray | int,
    parameters: NDArray[np.int64] | int,
    counted: NDArray[np.int64] | int,
) -> FloatArray:
    """Return the corrected AIC of a fit with k `parameters`, computed from its BIC.

    The correction counts `counted` parameters: k, or k + 1 with the variance. NaN where there are
    too few points for the correction.
    """
    n = np.maximum(points, 1)
    return bic - parameters * np.log(n) + ratio(2.0 * counted * n, points - counted - 1.0)


def paired_gain(simple: FloatArray, rival: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean paired difference (simple form's loss − rival's loss) and its standard error.

    Documents are axis 0. The standard error is NaN with one document.

    >>> gain, se = paired_gain(np.array([3.0, 4.0, 5.0]), np.array([2.0, 2.0, 2.0]))
    >>> print(f"{gain} ± {se:.3f}")
    2.0 ± 0.577
    """
    gain = simple - rival
    finite = np.isfinite(gain)
    count = finite.sum(axis=0)
    mean = mean_over_documents(gain)
    squares = np.where(finite, (gain - mean) ** 2, 0.0).sum(axis=0)
    return mean, np.sqrt(ratio(squares, (count - 1.0) * count))


def mean_loss(loss: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean held-out loss over documents, axis 0, and its standard error."""
    return paired_gain(loss, np.zeros_like(loss))
