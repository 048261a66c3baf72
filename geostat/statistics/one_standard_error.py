"""One-standard-error rule: the simplest form whose loss on documents left out is within one
standard error of the best form's.

Source of the rule: Breiman, Friedman, Olshen & Stone (1984), "Classification and Regression Trees",
§3.4.3; here the standard error is that of the paired difference between two forms, document by
document. Imports numpy and scipy.special.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import LEVEL
from geostat.statistics.losses import mean_over_documents, paired_gain

RESOLUTION = float(np.finfo(np.float32).eps) ** 2
"""Losses that differ by less are equal: cosines are stored in single precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What `choose` found.

    chosen (head,): index of the form, −1 where none was fitted. By form and head: excess, its
    left-out loss above that of the best form, mean over documents; excess_se, its standard error;
    within, whether the former does not exceed the latter; clear, whether the form's loss is the
    lowest and every other's is above it by a one-sided paired t-test at 95%.
    """

    chosen: NDArray[np.int64]
    excess: FloatArray
    excess_se: FloatArray
    within: BoolArray
    clear: BoolArray


def choose(loss: FloatArray, criterion: FloatArray, parameters: NDArray[np.int64]) -> Choice:
    """Choose a form for each head, by left-out loss, (form, document, head), NaN where a form was
    not fitted.

    `criterion` is BIC, (form, head), which decides where there is no left-out loss: with one
    document; −inf for an exact fit. The simpler form has fewer `parameters`, (form,); of equally
    simple ones the one of lower loss is taken.

    >>> # (form, document, head): two forms within noise of each other
    >>> loss = np.array([[[1.00], [1.02], [0.98]], [[0.99], [1.03], [0.97]]])
    >>> int(choose(loss, np.zeros((2, 1)), np.array([1, 2])).chosen[0])
    0
    """
    each = np.moveaxis(loss, 1, 0)
    level = mean_over_documents(each)
    best = np.where(np.isfinite(level), level, np.inf).argmin(axis=0)
    excess, excess_se = paired_gain(each, np.take_along_axis(each, best[None, None], axis=1))
    by_loss = np.isfinite(excess_se).any(axis=0)
    within = by_loss & np.isfinite(excess_se) & (excess <= excess_se + RESOLUTION)
    ranked = _simplest(within, parameters, level)
    known = ~np.isnan(criterion)
    least = known & (criterion <= np.where(known, criterion, np.inf).min(axis=0))
    chosen = np.where(
        by_loss, ranked, np.where(known.any(axis=0), _simplest(least, parameters, criterion), -1)
    )
    within = np.where(by_loss, within, chosen == np.arange(loss.shape[0])[:, None])
    return Choice(
        chosen=chosen,
        excess=np.where(by_loss, excess, np.nan),
        excess_se=np.where(by_loss, excess_se, np.nan),
        within=within,
        clear=_clearly_lowest(excess, excess_se, best, np.isfinite(each).any(axis=1).sum(axis=0)),
    )


def _clearly_lowest(
    excess: FloatArray, excess_se: FloatArray, best: NDArray[np.int64], documents: NDArray[np.int64]
) -> BoolArray:
    """Return which form, (form, head), is the `best` and better than each other by more than the
    95% quantile of Student's t on K − 1 degrees of freedom, in standard errors.

    Of two forms equally good one is so called in 10% of heads, 5% each.
    """
    critical = stdtrit(np.maximum(documents - 1.0, 1.0), LEVEL)
    with np.errstate(invalid="ignore"):
        beaten = (excess > critical * excess_se + RESOLUTION) | np.isnan(excess)
    own = np.arange(excess.shape[0])[:, None] == best
    several = np.isfinite(excess).sum(axis=0) > 1
    return own & several & np.isfinite(excess_se).any(axis=0) & (beaten | own).all(axis=0)


def _simplest(
    among: BoolArray, parameters: NDArray[np.int64], level: FloatArray
) -> NDArray[np.int64]:
    """Return, of the forms among which to choose, the one of fewest parameters, and of those the
    one of lowest level.
    """
    number = np.where(among, parameters[:, None], parameters.max() + 1)
    simplest = among & (number == number.min(axis=0))
    return np.where(simplest, level, np.inf).argmin(axis=0).astype(np.int64)
