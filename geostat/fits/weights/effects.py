"""Effects of Assumption 3 that claims are on: the total of the fitted weights, the total growth,
and the distance of the form from the log weights.

Source: arXiv 2602.01893, §3.3, Assumption 3 and Figure 4. Every number is of the head's chosen
form: four phases where an oscillation stands out of the noise, else three, which the paper's note
(T₁ = T₂) allows. Intervals are document jackknives whose replicates repeat the search.

- `total_model_log`, nats: log Σα̂, 0 where the fitted weights sum to 1.
- `growth`, nats: η(L − T₂), log of the last weight over the plateau's. A search for T₂ finds a
  growth in any noise, so there is an estimate only where growth stands out of it
  (`identifiability`); `growth_reason` tells why there is none. And it finds the largest one, so
  that η(L − T₂) is too large where noise is: this is the mean over documents of the growth of one
  from the T₂ found in the others, by least squares. Standard error: the larger of that mean's and
  of the jackknife's of η(L − T₂), which knows of T₂.
- `rmse`, nats: of the document mean of log α, noise of so few documents included.
- `misfit`, nats: what `rmse` tends to with ever more documents: root of the mean over tokens of
  m_i² − s_i²/K, m_i the residual of the mean and s_i² the variance of the K documents at token i,
  each about its own level. Its standard error is the longer arm of its interval over t.

Imports numpy and scipy.special.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from geostat.datasets.tokens import LayerTokens
from geostat.datasets.variable import Value
from geostat.fits.weights.forms import CURVE, log_profile, predict
from geostat.fits.weights.identifiability.estimates import (
    ABSENT,
    AT_BOUND,
    HAS_ONE,
    NO_REPLICATE,
    NOT_FITTED,
)
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import LEVEL, Estimate, jackknife, leave_one_out_mean, skewness
from geostat.statistics.losses import mean_of_known, mean_over_documents


def total_log(total: Estimate) -> Estimate:
    """Return log Σα̂ from Σα̂, whose interval was found on the log scale; nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return total.carried(np.log, total.se / total.value, "plain")


def growth(
    log_weight: FloatArray,
    seen: LayerTokens,
    fit: dict[str, FloatArray],
    again: dict[str, FloatArray],
    stands_out: BoolArray,
    at_bound: BoolArray,
) -> dict[str, Value]:
    """Return the total growth with its interval, and why either is missing (as
    `identifiability.estimates.REASONS`); nats, (head,).

    `log_weight` is of content tokens, (document, head, token), nats, NaN where unknown. `fit` holds
    the parameters (as CURVE) of each head's chosen form, (head,), `again` those of each replicate,
    (document, head). An estimate is given where growth `stands_out`, an error where it is not
    `at_bound`, both (head,).
    """
    carries: BoolArray = np.asarray(np.isfinite(log_weight).any(axis=-1))
    plain, replicates = (one["eta_tail"] * (seen.tokens - 1.0 - one["t2"]) for one in (fit, again))
    each = np.where(carries, _rise(log_weight, seen, again), np.nan)
    count = np.isfinite(each).sum(axis=0)
    value = np.where(count > 1, mean_over_documents(each), plain)
    away = np.where(np.isfinite(each), each - value, 0.0)
    scatter = (away**2).sum(axis=0) / np.maximum(count * (count - 1.0), 1.0)
    se = np.maximum(
        jackknife(plain, replicates, carries).se,
        np.where(count == carries.sum(axis=0), np.sqrt(scatter), np.nan),
    )
    half = stdtrit(np.maximum(count - 1.0, 1.0), 0.5 + LEVEL / 2) * se
    limits = {"se": se, "lower": value - half, "upper": value + half, "skew": skewness(away, count)}
    whole = Estimate(
        value=np.where(stands_out, value, np.nan),
        **limits,
        without=np.moveaxis(leave_one_out_mean(each), 0, -1),
        documents=np.where(count > 1, count, np.nan),
    )
    estimate = whole.with_error_where(stands_out & ~at_bound)
    cases = [~np.isfinite(plain), ~stands_out, at_bound, ~np.isfinite(estimate.se)]
    return {
        "growth": estimate,
        "growth_reason": np.select(
            cases, [NOT_FITTED, ABSENT, AT_BOUND, NO_REPLICATE], default=HAS_ONE
        ),
    }


def _rise(log_weight: FloatArray, seen: LayerTokens, again: dict[str, FloatArray]) -> FloatArray:
    """Return each document's own growth from the T₂ of the others to the last token, (document,
    head); NaN where there is no ramp.
    """
    one = {name: again[name][..., None] for name in CURVE}
    oscillation = log_profile(
        seen.position, 0.0, one["eta_osc"], 0.0, one["omega"], one["t1"], one["t2"]
    )
    known = np.isfinite(log_weight) & np.isfinite(oscillation)
    number = np.maximum(known.sum(axis=-1, keepdims=True), 1)
    ramp = np.where(known, np.maximum(seen.position - one["t2"], 0.0), 0.0)
    arm = np.where(known, ramp - ramp.sum(axis=-1, keepdims=True) / number, 0.0)
    squares = (arm**2).sum(axis=-1)
    slope = (arm * np.where(known, log_weight - oscillation, 0.0)).sum(axis=-1)
    return ratio(slope, squares) * (seen.tokens - 1.0 - again["t2"])


def distance(
    log_weight: FloatArray,
    seen: LayerTokens,
    fit: dict[str, FloatArray],
    again: dict[str, FloatArray],
) -> dict[str, Estimate]:
    """Return rmse and misfit with their intervals; nats, (head,). Arguments as those of
    `growth`.
    """
    model, models = predict(fit, seen.position), predict(again, seen.position)
    mean, means = mean_over_documents(log_weight), leave_one_out_mean(log_weight)
    rmse, each = (
        np.sqrt(mean_of_known(residual**2)) for residual in (mean - model, means - models)
    )
    known = np.isfinite(log_weight)
    carries = np.asarray(known.any(axis=-1))
    # A document's own level leaves the mean residual as it is, for the form has a level too: its
    # spread is no noise here.
    level = mean_of_known(log_weight - mean)
    squares = np.where(known, log_weight - mean - level[..., None], 0.0) ** 2
    # Σ(x − m)² without document k, by Σ(x − m)² − (x_k − m)² K/(K − 1): so no array has two axes of
    # documents.
    count, total = known.sum(axis=0), squares.sum(axis=0)
    fewer = count - known
    left = np.maximum(total - squares * ratio(count, fewer, 0.0), 0.0)
    # Less the variance of a mean over `count` documents.
    square, squares_without = (
        mean_of_known(residual**2 - ratio(scatter, number * (number - 1.0)))
        for residual, scatter, number in (
            (mean - model, total, count),
            (means - models, left, fewer),
        )
    )
    limits = jackknife(square, squares_without, carries)
    return {"rmse": jackknife(rmse, each, carries), "misfit": limits.root(carries.sum(axis=0))}
