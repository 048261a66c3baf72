"""One form of similarity fitted to many heads: estimates, leave-one-document-out replicates,
goodness of fit, left-out loss, criteria.

Source: arXiv 2602.01893, Assumption 2.1. The solver finds estimate and replicates; lmfit takes the
estimate to its own optimum and adds the errors that take lags as independent. Imports numpy and
geostat's forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from geostat.datasets.variable import Value
from geostat.fits.similarity.forms import FORM, PARAMETERS, Solution, fit_row
from geostat.fits.similarity.solver import solve
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import Estimate, jackknife, leave_one_out_mean
from geostat.statistics.losses import (
    bayesian_information,
    corrected_akaike,
    mean_loss,
    mean_over_documents,
)
from geostat.statistics.one_standard_error import Choice, choose
from theory.head.similarity_decay import by_lag

SINGULAR = 1e-10
"""Parameters whose estimates correlate to within this of ±1 cannot be told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosines:
    """Mean cosines of some heads that see equally many tokens, by lag."""

    lag: FloatArray
    """Lags, (lag,), tokens."""
    pairs: FloatArray
    """How many pairs of tokens each head has at a lag, (lag,)."""
    cosine: FloatArray
    """Mean over those pairs, (document, head, lag); NaN where unknown."""

    @property
    def carries(self) -> BoolArray:
        """Which documents carry a head, (document, head)."""
        known: BoolArray = np.isfinite(self.cosine)
        return np.asarray(known.any(axis=-1))

    @property
    def mean(self) -> FloatArray:
        """Document mean, (head, lag)."""
        return mean_over_documents(self.cosine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A form's optimum for each head, and for each head without each document (rows
    document-major).
    """

    form: str
    estimate: Solution
    replicates: Solution
    se_lags: dict[str, FloatArray]
    singular: BoolArray


def fit_batched(form: str, data: Cosines) -> Fit:
    """Fit a form with the batched solver alone."""
    estimate = solve(form, data.lag, data.mean, data.pairs)
    without = leave_one_out_mean(data.cosine)
    replicates = solve(
        form, data.lag, without.reshape(data.carries.size, data.lag.size), data.pairs
    )
    singular = np.zeros(estimate.squares.shape, dtype=bool)
    return Fit(form=form, estimate=estimate, replicates=replicates, se_lags={}, singular=singular)


def refine(fit: Fit, data: Cosines) -> Fit:
    """Replace the estimates by lmfit's, started from them, and add lmfit's standard errors."""
    values = {name: value.copy() for name, value in fit.estimate.values.items()}
    se = {name: np.full(fit.singular.shape, np.nan) for name in FORM[fit.form].parameters}
    converged, singular = fit.estimate.converged.copy(), fit.singular.copy()
    mean = data.mean
    for head in np.flatnonzero(np.isfinite(fit.estimate.squares)):
        result = fit_row(fit.form, data.lag, mean[head], data.pairs, fit.estimate, int(head))
        free = [name for name, parameter in result.params.items() if parameter.vary]
        converged[head] &= (
            bool(result.success) or not free
        )  # with nothing free, lmfit only evaluates
        covariance = getattr(result, "covar", None)
        singular[head] = bool(free) and not regular(covariance)
        for name in FORM[fit.form].parameters:
            values[name][head] = result.params[name].value
            if name in free and not singular[head]:
                stderr = result.params[name].stderr
                se[name][head] = np.nan if stderr is None else stderr
    estimate = replace(fit.estimate, values=values, converged=converged)
    return replace(fit, estimate=estimate, se_lags=se, singular=singular)


def regular(covariance: FloatArray | None) -> bool:
    """Whether lmfit's covariance tells its parameters apart."""
    if covariance is None or not np.isfinite(covariance).all():
        return False
    size = np.sqrt(np.diagonal(covariance))
    scale = np.outer(size, size)
    correlation = np.divide(covariance, scale, out=np.eye(len(size)), where=scale > 0)
    return bool(np.linalg.eigvalsh(correlation)[0] > SINGULAR)


def predicted(form: str, lag: FloatArray, solution: Solution) -> FloatArray:
    """Return the modelled cosines of a solution's rows, (row, lag); NaN where a row was not
    fitted.
    """
    values = {name: value[:, None] for name, value in solution.values.items()}
    return (
        by_lag(form, lag, **values) + np.where(np.isfinite(solution.squares), 0.0, np.nan)[:, None]
    )


def goodness(fit: Fit, data: Cosines) -> dict[str, FloatArray]:
    """Return mae_by_lag (unweighted mean over lags), rmse and r2 (weighted by pairs), bic, aicc and
    squares of each head.

    BIC and AICc take lags as independent; AICc counts the variance as a parameter. NaN where a form
    is `saturated`: it meets every lag.
    """
    mean, known = data.mean, np.isfinite(data.mean)
    residual = np.where(known, mean - predicted(fit.form, data.lag, fit.estimate), 0.0)
    weight = known * data.pairs
    points, total = known.sum(axis=-1), np.maximum(weight.sum(axis=-1), np.finfo(float).tiny)
    squares = (weight * residual**2).sum(axis=-1)
    centre = (weight * np.where(known, mean, 0.0)).sum(axis=-1) / total
    around = (weight * np.where(known, mean - centre[:, None], 0.0) ** 2).sum(axis=-1)
    number = FORM[fit.form].number
    bic = bayesian_information(squares, points, number)
    with np.errstate(invalid="ignore", divide="ignore"):
        r2 = np.where(around > FLAT * total, 1.0 - squares / around, np.nan)
        mae = np.abs(residual).sum(axis=-1) / np.where(points > 0, points, np.nan)
    fitted = np.where(np.isfinite(fit.estimate.squares) & ~saturated(fit.form, data), 0.0, np.nan)
    aicc = corrected_akaike(bic, points, number, number + 1)
    out = {
        "mae_by_lag": mae,
        "rmse": np.sqrt(squares / total),
        "r2": r2,
        "bic": bic,
        "aicc": aicc,
        "squares": squares,
    }
    return {name: values + fitted for name, values in out.items()}


def saturated(form: str, data: Cosines) -> BoolArray:
    """Return which heads know no more lags than the form has parameters."""
    return np.asarray(np.isfinite(data.mean).sum(axis=-1) <= FORM[form].number)


FLAT = float(np.finfo(np.float32).eps) ** 2
"""Variance over lags below which the mean cosine is constant but for rounding, and has no R²."""


def resampled(fit: Fit, data: Cosines, mae: FloatArray) -> tuple[FloatArray, Estimate]:
    """Return the left-out loss (document, head) and mae_by_lag with its error, both from the
    replicates.

    The loss of a document is its mean squared residual, weighted by pairs, under the fit to the
    others.
    """
    shape = data.cosine.shape
    model = predicted(fit.form, data.lag, fit.replicates).reshape(shape)
    known = np.isfinite(data.cosine) & np.isfinite(model)
    weight = known * data.pairs
    error = (weight * np.where(known, data.cosine - model, 0.0) ** 2).sum(axis=-1)
    without = leave_one_out_mean(data.cosine)
    there = np.isfinite(without) & np.isfinite(model)
    missed = np.abs(np.where(there, without - model, 0.0)).sum(axis=-1)
    return ratio(error, weight.sum(axis=-1)), jackknife(
        mae, ratio(missed, there.sum(axis=-1)), data.carries
    )


def estimates(fit: Fit, data: Cosines) -> dict[str, Estimate]:
    """Return every parameter with its document jackknife; β's interval is found on the log scale
    and carried over.

    No error where the form lacks the parameter or it is at a bound, where the fit did not converge,
    or its covariance is singular.
    """
    shape, result = data.cosine.shape[:2], {}
    for name in PARAMETERS:
        value, replicates = fit.estimate.values[name], fit.replicates.values[name].reshape(shape)
        if name == "beta":
            with np.errstate(divide="ignore"):
                estimate = jackknife(np.log(value), np.log(replicates), data.carries).exp(value)
        else:
            estimate = jackknife(value, replicates, data.carries)
        keep = (
            ~fit.estimate.at_bound[name]
            & fit.estimate.converged
            & ~fit.singular
            & (name in FORM[fit.form].parameters)
        )
        result[name] = estimate.with_error_where(keep)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A form's refined fit, its numbers by variable, (head,), left-out loss, (document, head),
    and BIC, −∞ for an exact fit, (head,).
    """

    fit: Fit
    numbers: dict[str, Value]
    loss: FloatArray
    criterion: FloatArray


def fit_form(form: str, data: Cosines) -> Outcome:
    """Fit a form with the solver and lmfit: parameters and mae_by_lag with errors, goodness of
    fit, left-out loss, what is at a bound.
    """
    fit = refine(fit_batched(form, data), data)
    good = goodness(fit, data)
    loss, mae = resampled(fit, data, good["mae_by_lag"])
    value, se = mean_loss(loss)
    numbers: dict[str, Value] = {
        **good,
        **estimates(fit, data),
        "mae_by_lag": mae,
        "loss_left_out": value,
        "loss_left_out_se": se,
    }
    at_bound = {f"{name}_at_bound": fit.estimate.at_bound[name] for name in PARAMETERS}
    numbers |= at_bound | {
        "at_bound": np.any(list(at_bound.values()), axis=0),
        "converged": fit.estimate.converged,
    }
    return Outcome(
        fit=fit,
        numbers=numbers,
        loss=loss,
        criterion=np.where(good["squares"] <= 0, -np.inf, good["bic"]),
    )


def chosen_form(outcomes: Sequence[Outcome]) -> Choice:
    """Choose among forms by their left-out loss."""
    numbers = np.array([FORM[one.fit.form].number for one in outcomes])
    return choose(
        np.stack([one.loss for one in outcomes]),
        np.stack([one.criterion for one in outcomes]),
        numbers,
    )


def replicate_trouble(fit: Fit, data: Cosines) -> BoolArray:
    """Say which heads have a replicate that did not converge, or is at a bound where the
    estimate is not.
    """
    shape = data.cosine.shape[:2]
    bad = ~fit.replicates.converged
    for name in FORM[fit.form].parameters:
        bad = bad | (
            fit.replicates.at_bound[name] & ~np.tile(fit.estimate.at_bound[name], shape[0])
        )
    return np.asarray((bad.reshape(shape) & data.carries).any(axis=0)) & (
        data.carries.sum(axis=0) > 1
    )
