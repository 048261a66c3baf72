"""Document jackknife: standard errors and 95% intervals with Student's t on K − 1 degrees of
freedom.

The document is the sampling unit: lags and positions of one document are correlated, and a standard
error that counts them as independent is far too small. Source: Efron & Stein (1981), "The jackknife
estimate of variance", Annals of Statistics 9. The jackknife needs a smooth statistic. For an
integer statistic (a break point) its standard error is rough, and 0 means only that every replicate
has the same integer. Imports numpy and scipy.special.
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
"""Confidence level of all intervals."""
SIGNIFICANCE = 0.05
"""Significance level: false discoveries, false answers and tests against chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Estimates over documents with standard errors and 95% intervals; arrays of one shape.

    Error and interval are NaN where fewer than two documents carry the number or a replicate
    failed. `skew` is the skewness of the pseudo-values (`skewness`), which tests with few documents
    correct for; None if the interval is not a jackknife interval. `without` holds the leave-one-out
    estimates, documents on the last axis; None if they were not kept. `documents` counts the
    documents that carry the number. `scale` names the scale of the interval: "plain", "log",
    "logit", "positive" (plain, cut at 0) or "share" (plain, cut at 0 and 1).
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
        """Return the arrays that are not None, by name."""
        return {name: array for name in PARTS if (array := getattr(self, name)) is not None}

    def carried(
        self, function: Callable[[FloatArray], FloatArray], se: FloatArray, scale: str
    ) -> Estimate:
        """Transform an estimate of x to an estimate of `function`(x).

        `se` is the standard error of the result; `scale` names the scale of its interval.
        """
        arrays: dict[str, Any] = {
            name: function(array)
            for name, array in self.arrays().items()
            if name not in ("se", "skew", "documents")
        }
        return replace(self, se=se, scale=scale, **arrays)

    def exp(self, value: FloatArray) -> Estimate:
        """Transform an estimate of log x to an estimate of x, whose `value` is given.

        Limits are exponentiated; the standard error follows by the delta method.
        """
        return replace(self.carried(np.exp, self.se * value, "log"), value=value)

    def root(self, documents: FloatArray | NDArray[np.int64]) -> Estimate:
        """Transform an estimate of x² to an estimate of x, with every array cut at 0.

        The standard error is the longer arm of the interval divided by the quantile of Student's t.
        """
        cut = self.carried(lambda square: np.sqrt(np.maximum(square, 0.0)), self.se, "positive")
        arm = np.maximum(cut.value - cut.lower, cut.upper - cut.value)
        quantile = stdtrit(np.maximum(documents - 1.0, 1.0), 0.5 + LEVEL / 2)
        return replace(cut, se=arm / quantile)

    def with_error_where(self, keep: BoolArray) -> Estimate:
        """Return the estimate with error and interval removed where `keep` is false, as at a bound.

        Leave-one-out estimates stay.
        """
        masked: dict[str, Any] = {
            name: np.where(keep, array, np.nan)
            for name, array in self.arrays().items()
            if name not in ("value", "without")
        }
        return replace(self, **masked)


PARTS = tuple(field.name for field in fields(Estimate) if field.name != "scale")


def leave_one_out_mean(values: FloatArray) -> FloatArray:
    """Return the mean over all documents but one, ignoring NaN.

    Shape (document, ...) → (document, ...); entry k leaves out document k. NaN where no value is
    left.

    >>> leave_one_out_mean(np.array([1.0, 2.0, 6.0]))
    array([4. , 3.5, 1.5])
    """
    finite = np.isfinite(values)
    filled = np.where(finite, values, 0.0)
    # Summing the other documents, instead of subtracting from the total, keeps full precision
    # when one document is much larger.
    return ratio(sum_of_others(filled), sum_of_others(finite.astype(np.float64)))


def with_replicates(values: FloatArray) -> FloatArray:
    """Return the mean over documents followed by the leave-one-out means.

    Shape (document, ...) → (replicate, ...).

    >>> with_replicates(np.array([1.0, 2.0, 6.0])).tolist()
    [3.0, 4.0, 3.5, 1.5]
    """
    return np.concatenate([values.mean(axis=0)[None], leave_one_out_mean(values)])


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
    """Return the document jackknife: standard error √((K−1)/K Σ(θ₍ₖ₎ − θ̄)²), interval θ̂ ± t se.

    Student's t has K − 1 degrees of freedom. Error and interval are NaN where K < 2, where the
    value is not finite, or where a replicate of a carrying document is not finite.

    Args:
        value: θ̂, (...).
        replicates: θ₍ₖ₎, from all documents but k, (document, ...).
        carries: documents that carry the statistic, (document, ...); default all. K counts them.
    """
    carries = (
        np.ones(replicates.shape, dtype=bool)
        if carries is None
        else np.broadcast_to(carries, replicates.shape)
    )
    count = carries.sum(axis=0)
    sound = (count > 1) & np.isfinite(value) & np.all(np.isfinite(replicates) | ~carries, axis=0)
    masked = np.where(carries & sound, replicates, 0.0)
    divisor = np.maximum(count, 2).astype(np.float64)
    mean = masked.sum(axis=0) / divisor
    deviation = np.where(carries & sound, mean - masked, 0.0)
    squares = (deviation**2).sum(axis=0)
    se = np.where(sound, np.sqrt((divisor - 1) / divisor * squares), np.nan)
    half_width = stdtrit(divisor - 1, 0.5 + LEVEL / 2) * se
    skew = np.where(sound, skewness(deviation, count), np.nan)
    return Estimate(
        value=value,
        se=se,
        lower=value - half_width,
        upper=value + half_width,
        skew=skew,
        without=np.moveaxis(replicates, 0, -1),
        documents=np.where(sound, count, np.nan),
    )


def jackknife_of_two(value: FloatArray, without: FloatArray, without_unit: FloatArray) -> Estimate:
    """Return an estimate whose variance is the sum of jackknife variances over documents and over
    another sampling unit (layers, KV heads), axis 0 of `without` and `without_unit`, with
    Satterthwaite's degrees of freedom.
    """
    estimate = jackknife(value, without)
    parts = np.stack([estimate.se**2, jackknife(value, without_unit).se ** 2])
    freedom = np.array([len(without), len(without_unit)]).reshape(2, *[1] * value.ndim) - 1.0
    total = parts.sum(axis=0)
    degrees = ratio(total**2, (parts**2 / np.maximum(freedom, 1)).sum(axis=0))
    half = np.where(total == 0, 0.0, stdtrit(degrees, 0.5 + LEVEL / 2) * np.sqrt(total))
    return replace(estimate, se=np.sqrt(total), lower=value - half, upper=value + half, skew=None)


def document_mean(values: FloatArray) -> Estimate:
    """Return the mean over documents with its jackknife, the ordinary standard error of a mean.

    `values` has shape (document, ...), NaN where a document does not carry the statistic.

    >>> mean = document_mean(np.array([1.0, 2.0, 4.0, 7.0]))
    >>> print(f"{mean.value} ± {mean.se:.3f}, {mean.lower:.2f} to {mean.upper:.2f}")
    3.5 ± 1.323, -0.71 to 7.71
    """
    return jackknife(mean_over_documents(values), leave_one_out_mean(values), np.isfinite(values))


def skewness(deviation: FloatArray, count: FloatArray | NDArray[np.int64]) -> FloatArray:
    """Return the sample skewness G₁ = √(K(K−1))/(K−2) · m₃/m₂^{3/2} over documents.

    `deviation` holds distances from the mean, (document, ...), 0 for documents that do not count;
    K is the `count` of the others. The result is at most √K in size; 0 where documents do not
    differ, NaN where K < 3.
    """
    divisor = np.maximum(count, 3).astype(np.float64)
    square = (deviation**2).sum(axis=0) / divisor
    cube = (deviation * deviation * deviation).sum(axis=0) / divisor
    shape = np.divide(cube, square**1.5, out=np.zeros_like(cube), where=square > 0)
    return np.where(count > 2, np.sqrt(divisor * (divisor - 1)) / (divisor - 2) * shape, np.nan)
