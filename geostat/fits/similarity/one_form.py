"""Fits of similarity forms to many heads: estimates, replicates, goodness, held-out loss, choice.

Source: arXiv 2602.01893, Assumption 2.1. The batched solver finds every estimate and every
leave-one-document-out replicate. lmfit refines the estimates of the printed and of the preferred
form; it would move those of the other rivals by less than 1e-6 of a standard error. Imports numpy
and geostat's forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from geostat.datasets.overlap import Progress, overlapped, tracked
from geostat.datasets.variable import Value
from geostat.fits.similarity.forms import (
    FORM,
    FORMS,
    PARAMETERS,
    by_lag,
    covariance,
    fit_row,
    free_parameters,
    solve,
)
from geostat.fits.similarity.solver import Solution
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import Estimate, jackknife, leave_one_out_mean
from geostat.statistics.losses import (
    bayesian_information,
    corrected_akaike,
    mean_loss,
    mean_over_documents,
)
from geostat.statistics.one_standard_error import Choice, choose

SINGULAR = 1e-10
"""Parameters whose estimates correlate to within this of ±1 cannot be distinguished."""
FLAT = float(np.finfo(np.float32).eps) ** 2
"""Variance over lags below which the mean cosine is constant up to rounding, without R²."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosines:
    """Mean cosines by lag of heads with equally many visible tokens."""

    lag: FloatArray
    """Lags, (lag,), in tokens."""
    pairs: FloatArray
    """Number of token pairs of each head at a lag, (lag,)."""
    cosine: FloatArray
    """Mean over pairs, (document, head, lag); NaN where unknown."""

    @property
    def carries(self) -> BoolArray:
        """Documents that carry a head, (document, head)."""
        known: BoolArray = np.isfinite(self.cosine)
        return np.asarray(known.any(axis=-1))

    @property
    def mean(self) -> FloatArray:
        """Document mean, (head, lag)."""
        return mean_over_documents(self.cosine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Fit of a form to each head.

    `replicates` leave one document out (rows document-major). `loss` is the held-out loss of each
    document, its mean squared residual weighted by pairs, and `mae_replicates` the leave-one-out
    mae_by_lag, both (document, head). `se_lags` holds standard errors by parameter that treat lags
    as independent, (head,), NaN where missing; `singular` marks singular covariances.
    """

    form: str
    estimate: Solution
    replicates: Solution
    loss: FloatArray
    mae_replicates: FloatArray
    se_lags: dict[str, FloatArray]
    singular: BoolArray


def fit_batched(form: str, data: Cosines) -> Fit:
    """Fit a form with the batched solver alone."""
    documents, heads, lags = data.cosine.shape
    without = leave_one_out_mean(data.cosine)
    replicates = solve(form, data.lag, without.reshape(documents * heads, lags), data.pairs)
    model = _predicted(form, data.lag, replicates).reshape(without.shape)
    known = np.isfinite(data.cosine) & np.isfinite(model)
    weight = known * data.pairs
    squares = (weight * np.where(known, data.cosine - model, 0.0) ** 2).sum(axis=-1)
    both_known = np.isfinite(without) & np.isfinite(model)
    absolute_error = np.abs(np.where(both_known, without - model, 0.0)).sum(axis=-1)
    return Fit(
        form=form,
        estimate=solve(form, data.lag, data.mean, data.pairs),
        replicates=replicates,
        loss=ratio(squares, weight.sum(axis=-1)),
        mae_replicates=ratio(absolute_error, both_known.sum(axis=-1)),
        se_lags={name: np.full(heads, np.nan) for name in PARAMETERS},
        singular=np.zeros(heads, dtype=bool),
    )


def fit_forms(
    forms: Sequence[str], data: Cosines, progress: Progress | None = None
) -> tuple[list[Fit], Choice]:
    """Fit forms and choose one for each head, by held-out loss or, with one document, by BIC.

    Estimates of the printed and of the chosen form are lmfit's, started at the solver's.
    """
    batched = overlapped(partial(fit_batched, data=data), forms, at_once=1)
    fits = [fit for _, fit in zip(tracked(forms, progress), batched, strict=True)]
    measures = [goodness(fit, data) for fit in fits]
    # An exact fit has an unbounded likelihood.
    criteria = [np.where(good["squares"] <= 0, -np.inf, good["bic"]) for good in measures]
    numbers = np.array([FORM[form].number for form in forms])
    choice = choose(np.stack([fit.loss for fit in fits]), np.stack(criteria), numbers)
    for index, fit in enumerate(fits):
        _refine(fit, data, (choice.chosen == index) | (fit.form == FORMS[0]))
    return fits, choice


def _refine(fit: Fit, data: Cosines, by_lmfit: BoolArray) -> None:
    """Set se_lags and singular; `by_lmfit`, (head,), also replaces the solver's estimates."""
    estimate, mean = fit.estimate, data.mean
    for head in np.flatnonzero(np.isfinite(estimate.squares)):
        row = (fit.form, data.lag, mean[head], data.pairs, estimate, int(head))
        free = free_parameters(fit.form, estimate, int(head))
        if by_lmfit[head]:
            result = fit_row(*row)
            # With nothing free, lmfit only evaluates.
            estimate.converged[head] &= bool(result.success) or not free
            for name in free:
                estimate.values[name][head] = result.params[name].value
            covar = getattr(result, "covar", None)
        else:
            covar = covariance(*row)
        fit.singular[head] = bool(free) and not regular(covar)
        if covar is not None and not fit.singular[head]:
            for name, variance in zip(free, np.diagonal(covar), strict=True):
                fit.se_lags[name][head] = np.sqrt(variance)


def regular(covariance: FloatArray | None) -> bool:
    """Return whether a covariance is nonsingular: its parameters can be distinguished."""
    if covariance is None or not np.isfinite(covariance).all():
        return False
    stderr = np.sqrt(np.diagonal(covariance))
    scale = np.outer(stderr, stderr)
    correlation = np.divide(covariance, scale, out=np.eye(len(stderr)), where=scale > 0)
    return bool(np.linalg.eigvalsh(correlation)[0] > SINGULAR)


def _predicted(form: str, lag: FloatArray, solution: Solution) -> FloatArray:
    """Return the modelled cosines of a solution, (row, lag); NaN where a row was not fitted."""
    values = {name: value[:, None] for name, value in solution.values.items()}
    return (
        by_lag(form, lag, **values) + np.where(np.isfinite(solution.squares), 0.0, np.nan)[:, None]
    )


def goodness(fit: Fit, data: Cosines) -> dict[str, FloatArray]:
    """Return goodness of fit by name, each (head,).

    mae_by_lag is an unweighted mean over lags; rmse, r2 and squares are weighted by pairs; bic and
    aicc treat lags as independent, and aicc counts the variance as a parameter. NaN where a form is
    `saturated`.
    """
    mean, known = data.mean, np.isfinite(data.mean)
    residual = np.where(known, mean - _predicted(fit.form, data.lag, fit.estimate), 0.0)
    weight = known * data.pairs
    points, total = known.sum(axis=-1), np.maximum(weight.sum(axis=-1), np.finfo(float).tiny)
    squares = (weight * residual**2).sum(axis=-1)
    centre = (weight * np.where(known, mean, 0.0)).sum(axis=-1) / total
    variation = (weight * np.where(known, mean - centre[:, None], 0.0) ** 2).sum(axis=-1)
    number = FORM[fit.form].number
    bic = bayesian_information(squares, points, number)
    with np.errstate(invalid="ignore", divide="ignore"):
        r2 = np.where(variation > FLAT * total, 1.0 - squares / variation, np.nan)
        mae = np.abs(residual).sum(axis=-1) / np.where(points > 0, points, np.nan)
    fitted = np.where(np.isfinite(fit.estimate.squares) & ~saturated(fit.form, data), 0.0, np.nan)
    out = {
        "mae_by_lag": mae,
        "rmse": np.sqrt(squares / total),
        "r2": r2,
        "bic": bic,
        "aicc": corrected_akaike(bic, points, number, number + 1),
        "squares": squares,
    }
    return {name: values + fitted for name, values in out.items()}


def saturated(form: str, data: Cosines) -> BoolArray:
    """Return which heads have no more known lags than the form has parameters."""
    return np.asarray(np.isfinite(data.mean).sum(axis=-1) <= FORM[form].number)


def estimates(fit: Fit, data: Cosines) -> dict[str, Estimate]:
    """Return every parameter with its document jackknife; β's interval is made on the log scale.

    There is no error where the form lacks the parameter, the parameter is at a bound, the fit did
    not converge, or its covariance is singular.
    """
    shape, result = data.cosine.shape[:2], {}
    settled = fit.estimate.converged & ~fit.singular
    for name in PARAMETERS:
        value, replicates = fit.estimate.values[name], fit.replicates.values[name].reshape(shape)
        if name == "beta":
            with np.errstate(divide="ignore"):
                estimate = jackknife(np.log(value), np.log(replicates), data.carries).exp(value)
        else:
            estimate = jackknife(value, replicates, data.carries)
        keep = settled & ~fit.estimate.at_bound[name] & FORM[fit.form].has(name)
        result[name] = estimate.with_error_where(keep)
    return result


def numbers_of(fit: Fit, data: Cosines) -> dict[str, Value]:
    """Return the numbers of a form by variable, (head,)."""
    good, at_bound = goodness(fit, data), fit.estimate.at_bound
    loss, loss_se = mean_loss(fit.loss)
    return {
        **good,
        **estimates(fit, data),
        "mae_by_lag": jackknife(good["mae_by_lag"], fit.mae_replicates, data.carries),
        "loss_held_out": loss,
        "loss_held_out_se": loss_se,
        **{f"{name}_at_bound": at_bound[name] for name in PARAMETERS},
        **{f"{name}_se_lags": fit.se_lags[name] for name in PARAMETERS},
        "at_bound": np.any(list(at_bound.values()), axis=0),
        "converged": fit.estimate.converged,
        "singular": fit.singular,
    }


def failed_replicates(fit: Fit, data: Cosines) -> BoolArray:
    """Return which heads have a replicate that failed.

    A replicate fails if it did not converge, or if it is at a bound where the estimate is not.
    """
    documents, heads = data.carries.shape
    bad = ~fit.replicates.converged
    for name in FORM[fit.form].parameters:
        at_bound = np.tile(fit.estimate.at_bound[name], documents)
        bad = bad | (fit.replicates.at_bound[name] & ~at_bound)
    failed = (bad.reshape(documents, heads) & data.carries).any(axis=0)
    return np.asarray(failed & (data.carries.sum(axis=0) > 1))
