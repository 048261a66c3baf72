"""Effects of Assumption 3: total of the fitted weights, total growth, misfit of the form, attention
mass of each phase, and variance that documents share.

Source: arXiv 2602.01893, §3.3, Assumption 3 and Figure 4. Every number uses the head's chosen form:
four phases where an oscillation exceeds the noise, otherwise three, which the paper's note
(T₁ = T₂) allows. Intervals are document jackknives whose replicates repeat the search.

- `growth`, nats: η(L − T₂). A search for T₂ finds growth in any noise; the estimate is therefore
  given only where growth exceeds the noise (`identifiability`). The search maximises growth, and
  η(L − T₂) is biased upwards; the estimate is therefore the mean over documents of a document's
  growth from the T₂ of the others, by least squares. Standard error: the larger of that mean's and
  the jackknife's of η(L − T₂), which includes the uncertainty of T₂.
- `misfit`, nats: limit for many documents of `rmse`, that of the document mean of log α: root of
  the mean over tokens of m_i² − s_i²/K, m_i the residual of the mean and s_i² the variance over the
  K documents at token i, each document centred.
- p_sink and the masses of the phases are shares of arithmetic means of the weights and differ much
  between documents; their intervals are made on the logit scale.
- `common_share` = Σ_{k≠l}⟨x_k, x_l⟩ / (K(K−1)) over Σ_k⟨x_k, x_k⟩ / K, x_k the centred log weights
  of document k, over tokens. The factors of the numerator come from different documents, whose
  noise is independent. It is the intraclass correlation of a one-way analysis of variance (Shrout &
  Fleiss 1979, "Intraclass correlations", ICC(1)). No profile by position can reach a larger R² in a
  new document.
- `r2_document` = 1 − Σ_k‖x_k − f_k‖² / Σ_k‖x_k‖², f_k the centred fit to the other documents. R² of
  a mean over K documents increases with K; `common_share` and `r2_document` do not.

Everywhere `log_weight` is of content tokens, (document, head, token), nats, NaN where unknown.
`fit` holds the parameters (CURVE) of each head's chosen form, (head,), and `replicates` those of
its leave-one-out fits, (document, head). Imports numpy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from geostat.datasets.tokens import LayerTokens
from geostat.datasets.variable import Value
from geostat.fits.weights.forms import predict
from geostat.fits.weights.identifiability import Reason
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import (
    Estimate,
    document_mean,
    jackknife,
    leave_one_out_mean,
    skewness,
)
from geostat.statistics.losses import centred, mean_of_known, mean_over_documents
from geostat.statistics.t_test import critical_value


def growth(
    log_weight: FloatArray,
    visible: LayerTokens,
    fit: dict[str, FloatArray],
    replicates: dict[str, FloatArray],
    significant: BoolArray,
    at_bound: BoolArray,
) -> dict[str, Value]:
    """Return the total growth, nats, and why it has no error (a code of Reason), (head,).

    The estimate exists where `significant`, and its error where not `at_bound`, both (head,).
    """
    carries: BoolArray = np.asarray(np.isfinite(log_weight).any(axis=-1))
    plugin, plugin_replicates = (
        parameters["eta_tail"] * (visible.tokens - 1.0 - parameters["t2"])
        for parameters in (fit, replicates)
    )
    by_document = np.where(carries, _document_growth(log_weight, visible, replicates), np.nan)
    count = np.isfinite(by_document).sum(axis=0)
    value = np.where(count > 1, mean_over_documents(by_document), plugin)
    deviation = np.where(np.isfinite(by_document), by_document - value, 0.0)
    scatter = (deviation**2).sum(axis=0) / np.maximum(count * (count - 1.0), 1.0)
    se = np.maximum(
        jackknife(plugin, plugin_replicates, carries).se,
        np.where(count == carries.sum(axis=0), np.sqrt(scatter), np.nan),
    )
    half_width = critical_value(np.maximum(count - 1.0, 1.0)) * se
    full = Estimate(
        value=np.where(significant, value, np.nan),
        se=se,
        lower=value - half_width,
        upper=value + half_width,
        skew=skewness(deviation, count),
        without=np.moveaxis(leave_one_out_mean(by_document), 0, -1),
        documents=np.where(count > 1, count, np.nan),
    )
    estimate = full.with_error_where(significant & ~at_bound)
    cases = [~np.isfinite(plugin), ~significant, at_bound, ~np.isfinite(estimate.se)]
    return {
        "growth": estimate,
        "growth_reason": np.select(
            cases,
            [
                Reason.NOT_FITTED,
                Reason.PHASE_ABSENT,
                Reason.AT_A_BOUND,
                Reason.ONE_DOCUMENT_OR_FAILED_REPLICATE,
            ],
            default=Reason.HAS_ONE,
        ),
    }


def _document_growth(
    log_weight: FloatArray, visible: LayerTokens, replicates: dict[str, FloatArray]
) -> FloatArray:
    """Return each document's growth from the others' T₂, (document, head); NaN without a ramp."""
    t2, zero = replicates["t2"], np.zeros(replicates["t2"].shape)
    oscillation = predict(replicates | {"b": zero, "eta_tail": zero}, visible.position)
    known = np.isfinite(log_weight) & np.isfinite(oscillation)
    ramp = centred(np.maximum(visible.position - t2[..., None], 0.0), known)
    slope = (ramp * np.where(known, log_weight - oscillation, 0.0)).sum(axis=-1)
    return ratio(slope, (ramp**2).sum(axis=-1)) * (visible.tokens - 1.0 - t2)


def distance(
    log_weight: FloatArray,
    visible: LayerTokens,
    fit: dict[str, FloatArray],
    replicates: dict[str, FloatArray],
) -> dict[str, Estimate]:
    """Return rmse and misfit with their intervals, nats, (head,); arguments as in the module."""
    model, models = predict(fit, visible.position), predict(replicates, visible.position)
    mean, means = mean_over_documents(log_weight), leave_one_out_mean(log_weight)
    rmse, rmse_replicates = (
        np.sqrt(mean_of_known(residual**2)) for residual in (mean - model, means - models)
    )
    known = np.isfinite(log_weight)
    carries = np.asarray(known.any(axis=-1))
    # Documents are centred: the form has a free level, and differences in level are not noise here.
    level = mean_of_known(log_weight - mean)
    squares = np.where(known, log_weight - mean - level[..., None], 0.0) ** 2
    # Σ(x − m)² without document k is Σ(x − m)² − (x_k − m)² K/(K − 1), without two document axes.
    count, total = known.sum(axis=0), squares.sum(axis=0)
    fewer = count - known
    remaining = np.maximum(total - squares * ratio(count, fewer, 0.0), 0.0)
    # Subtract the variance of a mean over `count` documents.
    mean_square, square_replicates = (
        mean_of_known(residual**2 - ratio(scatter, number * (number - 1.0)))
        for residual, scatter, number in (
            (mean - model, total, count),
            (means - models, remaining, fewer),
        )
    )
    limits = jackknife(mean_square, square_replicates, carries)
    return {
        "rmse": jackknife(rmse, rmse_replicates, carries),
        "misfit": limits.root(carries.sum(axis=0)),
    }


def common_variance(
    log_weight: FloatArray, fit_of_others: FloatArray, carries: BoolArray
) -> dict[str, Estimate]:
    """Return both shares with their document jackknife, (head,), which holds the fits fixed.

    Tokens count if they are known in all documents that carry the head (`carries`, (document,
    head)). `fit_of_others` holds log weights fitted to the other documents, shape of `log_weight`.

    >>> profile, noise = np.linspace(0, 1, 50), np.random.default_rng(0).normal(0, 1, (4, 1, 50))
    >>> found = common_variance(profile + 0 * noise, 0 * noise, np.ones((4, 1), dtype=bool))
    >>> float(found["common_share"].value[0]), float(found["r2_document"].value[0])
    (1.0, 0.0)
    """
    known = (np.isfinite(log_weight) | ~carries[..., None]).all(axis=0) & carries[..., None]
    deviation = centred(log_weight, known)
    squares = (deviation**2).sum(axis=-1)
    error = (centred(log_weight - fit_of_others, known) ** 2).sum(axis=-1)
    total, count = deviation.sum(axis=0), carries.sum(axis=0)
    # ‖Σ x‖² without document k, from ‖Σ x‖² with it.
    without = (total**2).sum(axis=-1) - 2 * (deviation * total).sum(axis=-1) + squares
    sums = squares.sum(axis=0)
    shares = {
        "common_share": (
            _common((total**2).sum(axis=-1), sums, count),
            _common(without, sums - squares, count - carries),
        ),
        "r2_document": (
            1.0 - ratio(error.sum(axis=0), sums),
            1.0 - ratio(error.sum(axis=0) - error, sums - squares),
        ),
    }
    enough = count > 1
    return {
        name: jackknife(np.where(enough, value, np.nan), replicates, carries)
        for name, (value, replicates) in shares.items()
    }


def _common(square_of_sum: FloatArray, sum_of_squares: FloatArray, count: np.ndarray) -> FloatArray:
    """Return the mean of ⟨x_k, x_l⟩ over pairs of documents over the mean of ⟨x_k, x_k⟩."""
    pairs = ratio(square_of_sum - sum_of_squares, np.maximum(count - 1.0, 0.0))
    return ratio(pairs, sum_of_squares)


def share_estimate(share: FloatArray, replicates: FloatArray, carries: BoolArray) -> Estimate:
    """Return the jackknife of a share; the interval is made on the logit scale, or plain where the
    share or a replicate is 0 or 1. Arguments are those of `jackknife`.
    """
    plain = jackknife(share, replicates, carries)
    with np.errstate(divide="ignore", invalid="ignore"):
        on_logit = jackknife(
            np.log(share / (1.0 - share)), np.log(replicates / (1.0 - replicates)), carries
        )
    inside = np.isfinite(on_logit.se)
    assert on_logit.skew is not None
    assert plain.skew is not None
    lower, upper = (
        np.where(inside, 1.0 / (1.0 + np.exp(-np.where(inside, limit, 0.0))), plain_limit)
        for limit, plain_limit in ((on_logit.lower, plain.lower), (on_logit.upper, plain.upper))
    )
    return replace(
        plain,
        lower=lower,
        upper=upper,
        skew=np.where(inside, on_logit.skew, plain.skew),
        scale="logit",
    )


def arithmetic(
    weight: FloatArray,
    visible: LayerTokens,
    fit: dict[str, FloatArray],
    replicates: dict[str, FloatArray],
) -> dict[str, Value]:
    """Return p_sink, its ratio to a plateau token's weight, totals and masses of the phases with
    errors, and the share of zero weights.

    `weight` has shape (document, head, token); `fit` and `replicates` are described in the module.
    """
    known = np.isfinite(weight)
    content = weight[..., visible.first_content :]
    totals = np.where(known.any(axis=-1), np.where(known, weight, 0.0).sum(axis=-1), np.nan)
    document_sink = weight[..., 0] if visible.sink else np.full(totals.shape, np.nan)
    sink, sinks = mean_over_documents(document_sink), leave_one_out_mean(document_sink)
    p_sink = share_estimate(sink, sinks, np.isfinite(document_sink))
    out: dict[str, Value] = {
        "p_sink": p_sink,
        "mass_sink": p_sink,
        "document_p_sink": document_sink,
        "total": document_mean(totals),
    }
    content_known = known[..., visible.first_content :]
    out["zero_weight_share"] = ratio(
        (content_known & (content == 0)).sum(axis=(0, -1)), content_known.sum(axis=(0, -1))
    )
    position, carries = visible.position, np.asarray(known.any(axis=-1))
    masses = _masses(mean_over_documents(content), fit, position)
    mass_replicates = _masses(leave_one_out_mean(content), replicates, position)
    for name, mass in masses.items():
        out[f"mass_{name}"] = share_estimate(mass, mass_replicates[name], carries).with_error_where(
            mass > 0
        )
    times, times_replicates = (
        ratio(of_sink * parameters["t1"], mass["plateau"])
        for of_sink, parameters, mass in (
            (sink, fit, masses),
            (sinks, replicates, mass_replicates),
        )
    )
    # A layer that does not see the sink has only content in its sum.
    model, models = (
        np.exp(predict(parameters, position)).sum(axis=-1) + (weight_of_sink if visible.sink else 0)
        for parameters, weight_of_sink in ((fit, sink), (replicates, sinks))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        fitted = jackknife(np.log(model), np.log(models), carries).exp(model)
        fitted_log = fitted.carried(np.log, fitted.se / fitted.value, "plain")
        over_plateau = jackknife(np.log(times), np.log(times_replicates), carries).exp(times)
    differs = (fitted.lower > 1.0) | (fitted.upper < 1.0)
    return out | {
        "total_model": fitted,
        "total_model_log": fitted_log,
        "total_model_differs": differs,
        "sink_to_plateau": over_plateau,
    }


def _masses(
    mean: FloatArray, fit: dict[str, FloatArray], position: FloatArray
) -> dict[str, FloatArray]:
    """Return the attention mass of each phase of mean weights; NaN where nothing was fitted."""
    filled, fitted = np.nan_to_num(mean), np.isfinite(fit["b"])
    t1, t2 = fit["t1"][..., None], fit["t2"][..., None]
    phases = {
        "plateau": position <= t1,
        "oscillation": (position > t1) & (position <= t2),
        "tail": position > t2,
    }
    return {
        name: np.where(fitted, np.where(inside, filled, 0.0).sum(axis=-1), np.nan)
        for name, inside in phases.items()
    }
