"""One-standard-error rule: the simplest form whose held-out loss is close to the lowest. Also the
test whether a form has a lower held-out loss than another.

Close means within one standard error of the paired difference between two forms over documents.
Source: Breiman, Friedman, Olshen & Stone (1984), "Classification and Regression Trees", §3.4.3.
Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import SIGNIFICANCE
from geostat.statistics.losses import mean_over_documents, paired_gain
from geostat.statistics.t_test import one_sided

RESOLUTION = float(np.finfo(np.float32).eps) ** 2
"""Losses that differ by less count as equal: cosines are stored in single precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Result of `choose`.

    `chosen` (head,) is the index of the form, −1 where none was fitted. By form and head: `excess`,
    held-out loss above that of the best form, mean over documents; `excess_se`, its standard error;
    `within`, excess ≤ excess_se; `clear`, the form has the lowest loss and every other form's loss
    is higher by a one-sided paired t-test at 95%.
    """

    chosen: NDArray[np.int64]
    excess: FloatArray
    excess_se: FloatArray
    within: BoolArray
    clear: BoolArray


def choose(loss: FloatArray, criterion: FloatArray, parameters: NDArray[np.int64]) -> Choice:
    """Choose a form for each head by held-out loss.

    The form with the fewest parameters within one standard error wins; among equally simple forms,
    the one with the lowest loss.

    Args:
        loss: held-out loss, (form, document, head), NaN where a form was not fitted.
        criterion: BIC, (form, head), used where one document leaves no held-out loss; −inf for an
            exact fit.
        parameters: number of parameters, (form,).

    >>> # (form, document, head): two forms within noise of each other
    >>> loss = np.array([[[1.00], [1.02], [0.98]], [[0.99], [1.03], [0.97]]])
    >>> int(choose(loss, np.zeros((2, 1)), np.array([1, 2])).chosen[0])
    0
    """
    by_document = np.moveaxis(loss, 1, 0)
    level = mean_over_documents(by_document)
    best = np.where(np.isfinite(level), level, np.inf).argmin(axis=0)
    excess, excess_se = paired_gain(
        by_document, np.take_along_axis(by_document, best[None, None], axis=1)
    )
    by_loss = np.isfinite(excess_se).any(axis=0)
    within = by_loss & np.isfinite(excess_se) & (excess <= excess_se + RESOLUTION)
    ranked = _simplest(within, parameters, level)
    known = ~np.isnan(criterion)
    lowest = known & (criterion <= np.where(known, criterion, np.inf).min(axis=0))
    chosen = np.where(
        by_loss, ranked, np.where(known.any(axis=0), _simplest(lowest, parameters, criterion), -1)
    )
    within = np.where(by_loss, within, chosen == np.arange(loss.shape[0])[:, None])
    return Choice(
        chosen=chosen,
        excess=np.where(by_loss, excess, np.nan),
        excess_se=np.where(by_loss, excess_se, np.nan),
        within=within,
        clear=_clearly_lowest(
            excess, excess_se, best, np.isfinite(by_document).any(axis=1).sum(axis=0)
        ),
    )


def gain_over(simple: FloatArray, loss: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return by how much a form's held-out loss lies below a simple form's: mean over documents
    (axis 0), standard error, and p-value of a one-sided paired t-test.

    The null hypothesis is a loss that is not lower. Standard error and p are NaN with one document.

    >>> simple, loss = np.array([3.0, 4.0, 5.0]), np.array([2.0, 2.0, 2.0])
    >>> [round(float(value), 3) for value in gain_over(simple, loss)]
    [2.0, 0.577, 0.037]
    """
    gain, se = paired_gain(simple, loss)
    documents = np.asarray(np.isfinite(simple - loss).sum(axis=0), dtype=np.float64)
    return gain, se, one_sided(gain - RESOLUTION, se, documents - 1)


def _clearly_lowest(
    excess: FloatArray, excess_se: FloatArray, best: NDArray[np.int64], documents: NDArray[np.int64]
) -> BoolArray:
    """Return where a form, (form, head), is the `best` and all others have a significant excess, by
    one-sided t-tests at 95%. Of two equal forms each passes in 5% of heads.
    """
    p = one_sided(excess - RESOLUTION, excess_se, np.asarray(documents - 1, dtype=np.float64))
    beaten = (p < SIGNIFICANCE) | np.isnan(excess)
    is_best = np.arange(excess.shape[0])[:, None] == best
    several = np.isfinite(excess).sum(axis=0) > 1
    return is_best & several & np.isfinite(excess_se).any(axis=0) & (beaten | is_best).all(axis=0)


def _simplest(
    candidates: BoolArray, parameters: NDArray[np.int64], level: FloatArray
) -> NDArray[np.int64]:
    """Return the candidate with the fewest parameters and, among ties, the lowest level."""
    count = np.where(candidates, parameters[:, None], parameters.max() + 1)
    simplest = candidates & (count == count.min(axis=0))
    return np.where(simplest, level, np.inf).argmin(axis=0).astype(np.int64)
