"""Document jackknife: standard errors and 95% intervals with Student's t on K − 1 degrees of
freedom.

The document is the sampling unit: lags and positions of one document are not independent, so a
standard error that counts them as such is far too small. Source: Efron & Stein (1981), "The
jackknife estimate of variance", Annals of Statistics 9. The jackknife needs a smooth statistic;
for an integer one (a break point) its standard error is rough, and 0 means only that every
replicate chose the same integer. Imports numpy and scipy.special.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.losses import mean_over_documents

LEVEL = 0.95
"""Confidence level of every interval."""
SIGNIFICANCE = 0.05
"""P-values up to it count: of false discoveries, of false answers, of chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number estimated from documents, with its standard error and interval; arrays of one shape.

    Error and interval are NaN where fewer than two documents carry the number or a replicate
    failed. `skew` is the skewness of what single documents contribute (their pseudo-values), which
    a test with few documents allows for: `skewness`. None where the interval is no jackknife.
    `without` is the estimate without each document, documents on the last axis; None where it was
    not kept. `documents` counts those that carry the number. `scale` names that of the interval:
    "plain", "log" or "logit", or "positive" or "share", plain but cut at 0, or at 0 and 1.
    """

    value: FloatArray
    se: FloatArray
    lower: FloatArray
    upper: FloatArray
    skew: FloatArray | None = None
    without: FloatArray | None = None
    documents: FloatArray | None = None
    scale: str = "plain"

    def arrays(self) -> dict[str, Any]:
        """Return the arrays that there are, by name."""
        return {name: array for name in PARTS if (array := getattr(self, name)) is not None}

    def carried(
        self, function: Callable[[FloatArray], FloatArray], se: FloatArray, scale: str
    ) -> Estimate:
        """Carry an estimate of x over to a function of x, whose standard error is given, and the
        scale on which its interval is then made.
        """
        arrays: dict[str, Any] = {
            name: function(array)
            for name, array in self.arrays().items()
            if name not in ("se", "skew", "documents")
        }
        return replace(self, se=se, scale=scale, **arrays)

    def exp(self, value: FloatArray) -> Estimate:
        """Carry an estimate of log x over to x, whose `value` is given: limits exponentiated,
        standard error by the delta method.
        """
        return replace(self.carried(np.exp, self.se * value, "log"), value=value)

    def root(self, documents: FloatArray | NDArray[np.int64]) -> Estimate:
        """Carry an estimate of x² over to x, each part cut at 0; the standard error is the
        longer arm of the interval over Student's t.
        """
        cut = self.carried(lambda square: np.sqrt(np.maximum(square, 0.0)), self.se, "positive")
        arm = np.maximum(cut.value - cut.lower, cut.upper - cut.value)
        quantile = stdtrit(np.maximum(documents - 1.0, 1.0), 0.5 + LEVEL / 2)
        return replace(cut, se=arm / quantile)

    def with_error_where(self, keep: BoolArray) -> Estimate:
        """Return the estimate without error and interval where `keep` is false, as at a bound; what
        it is without a document stays.
        """
        bare: dict[str, Any] = {
            name: np.where(keep, array, np.nan)
            for name, array in self.arrays().items()
            if name not in ("value", "without")
        }
        return replace(self, **bare)


PARTS = tuple(field.name for field in fields(Estimate) if field.name != "scale")


def leave_one_out_mean(values: FloatArray) -> FloatArray:
    """Return the mean over all documents but one, ignoring NaN: (document, ...) → (document, ...),
    entry k without document k, NaN where nothing is left.

    >>> leave_one_out_mean(np.array([1.0, 2.0, 6.0]))
    array([4. , 3.5, 1.5])
    """
    finite = np.isfinite(values)
    filled = np.where(finite, values, 0.0)
    # Summing the others, rather than subtracting from the total, keeps full precision when one
    # document dwarfs the rest.
    return ratio(sum_of_others(filled), sum_of_others(finite.astype(np.float64)))


def sum_of_others(x: FloatArray) -> FloatArray:
    """Return the sum over all documents but one, (document, ...) → (document, ...).

    >>> sum_of_others(np.array([1.0, 2.0, 6.0]))
    array([8., 7., 3.])
    """
    before, after = np.zeros_like(x), np.zeros_like(x)
    np.cumsum(x[:-1], axis=0, out=before[1:])
    after[:-1] = np.cumsum(x[:0:-1], axis=0)[::-1]
    return before + after


def jackknife(
    value: FloatArray, replicates: FloatArray, carries: BoolArray | None = None
) -> Estimate:
    """Return the jackknife standard error √((K−1)/K Σ(θ₍ₖ₎ − θ̄)²) and the interval θ̂ ± t se, t on
    K − 1 degrees of freedom.

    `value` is θ̂, (...), `replicates` are θ₍ₖ₎, from all documents but k, (document, ...), and
    `carries`, (document, ...), tells which documents carry the statistic, all by default; K counts
    these. NaN but for the value where K < 2, where the value is not finite, or where a replicate of
    a carrying document is not.
    """
    carries = (
        np.ones(replicates.shape, dtype=bool)
        if carries is None
        else np.broadcast_to(carries, replicates.shape)
    )
    count = carries.sum(axis=0)
    sound = (count > 1) & np.isfinite(value) & np.all(np.isfinite(replicates) | ~carries, axis=0)
    kept = np.where(carries & sound, replicates, 0.0)
    number = np.maximum(count, 2).astype(np.float64)
    mean = kept.sum(axis=0) / number
    away = np.where(carries & sound, mean - kept, 0.0)
    squares = (away**2).sum(axis=0)
    se = np.where(sound, np.sqrt((number - 1) / number * squares), np.nan)
    half = stdtrit(number - 1, 0.5 + LEVEL / 2) * se
    skew = np.where(sound, skewness(away, count), np.nan)
    return Estimate(
        value=value,
        se=se,
        lower=value - half,
        upper=value + half,
        skew=skew,
        without=np.moveaxis(replicates, 0, -1),
        documents=np.where(sound, count, np.nan),
    )


def document_mean(each: FloatArray) -> Estimate:
    """Return the mean over documents, (document, ...), NaN where one does not carry it, with its
    document jackknife, which is the ordinary standard error of a mean.

    >>> mean = document_mean(np.array([1.0, 2.0, 4.0, 7.0]))
    >>> print(f"{mean.value} ± {mean.se:.3f}, {mean.lower:.2f} to {mean.upper:.2f}")
    3.5 ± 1.323, -0.71 to 7.71
    """
    return jackknife(mean_over_documents(each), leave_one_out_mean(each), np.isfinite(each))


def skewness(away: FloatArray, count: FloatArray | NDArray[np.int64]) -> FloatArray:
    """Return the sample skewness G₁ = √(K(K−1))/(K−2) · m₃/m₂^{3/2} over documents, as statistical
    packages give it.

    `away` are distances from the mean over documents, (document, ...), 0 of documents that do not
    count; `count` is how many do, K. Unitless, (...), at most √K in size; 0 where documents do not
    differ, NaN where K < 3.
    """
    number = np.maximum(count, 3).astype(np.float64)
    square, cube = (away**2).sum(axis=0) / number, (away * away * away).sum(axis=0) / number
    shape = np.divide(cube, square**1.5, out=np.zeros_like(cube), where=square > 0)
    return np.where(count > 2, np.sqrt(number * (number - 1)) / (number - 2) * shape, np.nan)
