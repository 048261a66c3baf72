"""Student's t test of an effect against 0, and critical values. Imports numpy and scipy.special."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr, stdtrit

from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import LEVEL


def two_sided(effect: FloatArray, se: FloatArray, degrees: FloatArray) -> FloatArray:
    """Return two-sided p-values of effects against 0; NaN where effect or standard error is NaN.

    An effect with standard error 0 has p = 1 at 0 and p = 0 elsewhere. Degrees of freedom below 1
    count as 1.

    >>> value, se, freedom = np.array([[0.0, 1.0, 2.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    >>> two_sided(value, se, freedom).round(3).tolist()
    [1.0, 0.5, 0.0]
    """
    return 2 * one_sided(np.abs(effect), se, degrees)


def one_sided(effect: FloatArray, se: FloatArray, degrees: FloatArray) -> FloatArray:
    """Return p-values of effects of at most 0 against positive ones; NaN where effect or standard
    error is NaN.

    An effect with standard error 0 has p = 1/2 at 0, p = 0 above and p = 1 below.

    >>> effect = np.array([0.0, 1.0, -1.0])
    >>> one_sided(effect, np.array([0.0, 0.5, 0.5]), np.full(3, 7.0)).round(3).tolist()
    [0.5, 0.043, 0.957]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(se > 0, effect / se, np.where(effect == 0, 0.0, np.inf * np.sign(effect)))
    return np.where(np.isfinite(effect) & np.isfinite(se), stdtr(np.fmax(degrees, 1.0), -t), np.nan)


def critical_value(degrees: FloatArray | float, level: float = LEVEL) -> FloatArray:
    """Return the half-width of a Student's t interval in standard errors.

    NaN without degrees of freedom.

    >>> float(critical_value(7).round(3))
    2.365
    """
    return np.asarray(stdtrit(np.where(np.asarray(degrees) > 0, degrees, np.nan), 0.5 + level / 2))
