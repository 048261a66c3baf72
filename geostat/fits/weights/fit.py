"""Fit of the four-phase attention profile, Assumption 3: attention weights have a sink, a plateau,
an oscillation, and exponential growth to the last token.

Source: arXiv 2602.01893, §3.3, Assumption 3 and Figure 4. The profile is fitted to the document
mean of log α over visible content tokens; p_sink, Σα and the masses of the phases use the
arithmetic mean. Forms: *shared* (as printed: one η for oscillation and growth), *separate* (η_osc
and η_tail), *monotone* (T₁ = T₂: no oscillation); `rivals` adds simpler forms and chooses among
all. Break points are integers, found by search (`break_points`). Residuals are autocorrelated noise
(`autocorrelation`). `identifiability` decides which phases exceed the noise and which break points
the data identify. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Final

import numpy as np
import xarray as xr

from empirical.schema import Quantity
from geostat.datasets.overlap import Progress, overlapped, tracked
from geostat.datasets.table import table
from geostat.datasets.tokens import LayerTokens, layer_tokens, require, select_heads
from geostat.datasets.variable import Value, codes, fit_dataset, join_heads, mapped, variables
from geostat.errors import InputError
from geostat.fits.weights.autocorrelation import background, lag_one, long_run_noise
from geostat.fits.weights.break_points import FORMS, search, search_documents, search_twice
from geostat.fits.weights.effects import arithmetic, common_variance, distance, growth
from geostat.fits.weights.forms import CURVE, predict, refine
from geostat.fits.weights.identifiability import (
    PARAMETERS,
    Reason,
    form_values,
    phase_significance,
    placement,
    reasons,
    reported,
    strength,
)
from geostat.fits.weights.rivals import FREE, RIVALS, SIMPLE, compare, simple_fits
from geostat.statistics.arrays import BoolArray, FloatArray, pieces
from geostat.statistics.jackknife import leave_one_out_mean
from geostat.statistics.losses import (
    bayesian_information,
    mean_of_known,
    mean_over_documents,
)
from geostat.statistics.one_standard_error import gain_over

HEAD: Final = ("layer", "head")
_table = partial(table, equation="Assumption 3")
_codes = partial(codes, equation="Assumption 3")

_BY_HEAD: Final = (
    _table(
        r"""
    p_sink | 1 | p_{\mathrm{sink}} | weight of the sink, arithmetic mean over documents | estimated
        | scale: interval on the logit scale, transformed back
    p_base | 1 | p_{\mathrm{base}} | weight of a plateau token, geometric mean over documents |
        estimated | scale: interval on the log scale, exponentiated
    eta | 1/token | \eta | amplitude of the oscillation; without oscillation, growth rate |
        estimated
    omega | rad/token | \omega | frequency of the oscillation | estimated | missing: "none": NaN
        where no oscillation is identified
    t1 | token | T_1 | last position of the plateau | estimated | scale: integer; interval: the
        wider of the jackknife's and the residual noise's
    t2 | token | T_2 | last position before the growth | estimated | scale: integer; interval: the
        wider of the jackknife's and the residual noise's
    total | 1 | \sum_i \alpha_i | measured sum of the weights | estimated | none
    total_model | 1 | \sum_i \hat\alpha_i | sum of the fitted weights, sink included where visible |
        estimated | scale: interval on the log scale, exponentiated
    total_model_log | nat | \log\sum_i \hat\alpha_i | log of the sum of the fitted weights | tested
    growth | nat | \eta(L - T_2) | total growth, log ratio of the last weight to the plateau's; of
        each document from the other documents' T_2 | tested | missing: NaN where growth does not
        exceed the noise | scale: standard error: the larger of scatter over documents and jackknife
    rmse | nat | \mathrm{RMSE} | root mean squared residual of the mean log weight | tested
    misfit | nat | \mathrm{RMSE}_\infty | root mean squared residual of the mean log weight in the
        limit of many documents | tested | scale: square root of the interval of its square;
        standard error: the longer arm over t
    mass_sink | 1 | \alpha_0 | weight of the sink, arithmetic mean | estimated | scale: interval on
        the logit scale, transformed back
    mass_plateau | 1 | \sum_{0<i\le T_1}\alpha_i | weight of the plateau, arithmetic mean |
        estimated | scale: interval on the logit scale, transformed back
    mass_oscillation | 1 | \sum_{T_1<i\le T_2}\alpha_i | weight of the oscillation, arithmetic mean
        | estimated | scale: interval on the logit scale, transformed back
    mass_tail | 1 | \sum_{i>T_2}\alpha_i | weight of the growth phase, arithmetic mean | estimated |
        scale: interval on the logit scale, transformed back
    sink_to_plateau | 1 | p_{\mathrm{sink}} / \overline{\alpha}_{0<i\le T_1} | weight of the sink
        over that of a plateau token, arithmetic means | estimated | scale: interval on the log
        scale, exponentiated
    power_law_gamma | 1 | \gamma | exponent of the power-law rival | estimated | none
    no_plateau_eta | 1/token | \eta_{\mathrm{all}} | growth rate of the rival without a plateau |
        estimated | none
    mae | nat | \mathrm{MAE} | mean absolute residual of the mean log weight
    r2 | 1 | R^2 | coefficient of determination of the mean log weight
    bic | 1 | \mathrm{BIC} | Bayesian information criterion, assuming independent tokens
    loss_held_out | nat^2 | \mathcal{L}_{\mathrm{out}} | mean squared residual of a held-out
        document
    loss_held_out_se | nat^2 | \mathrm{se}(\mathcal{L}_{\mathrm{out}}) | standard error over
        documents of the held-out loss
    common_share | 1 | R^2_{\max} | share of the variance of a document's log weights by position
        that documents share | estimated | none
    r2_document | 1 | R^2_{\mathrm{out}} | share of the variance of a document's log weights by
        position explained by the fit to the other documents | estimated
    oscillation_gain | nat^2 | \Delta\mathcal{L}_{\omega} | held-out loss of the monotone form minus
        that of the shared form
    oscillation_gain_se | nat^2 | \mathrm{se}(\Delta\mathcal{L}_{\omega}) | standard error over
        documents of the oscillation's gain
    growth_gain | nat^2 | \Delta\mathcal{L}_{\eta} | held-out loss of a constant minus that of the
        monotone form
    growth_gain_se | nat^2 | \mathrm{se}(\Delta\mathcal{L}_{\eta}) | standard error over documents
        of the growth's gain
    gain_over_constant | nat^2 | \Delta\mathcal{L}_b | held-out loss of a constant minus that of the
        reported form
    gain_over_constant_se | nat^2 | \mathrm{se}(\Delta\mathcal{L}_b) | standard error over documents
        of the gain over a constant
    gain_over_constant_p | 1 | p_b | p-value of the gain over a constant, by a one-sided paired
        t-test
    oscillation_identified | 1 | \eta\cos\omega i \neq 0 | an oscillation with the eta of the
        growth, as printed, exceeds the noise
    growth_identified | 1 | \eta(i - T_2) \neq 0 | the growth exceeds the noise
    identified | 1 | \eta \neq 0 | oscillation or growth exceeds the noise
    eta_at_bound | 1 | \eta \in \{0, 0.99\} | the optimum of eta is at a bound (0, or 0.99 with an
        oscillation)
    omega_at_bound | 1 | \omega \in \partial\Omega | omega is at a bound (one period in the phase,
        or pi) or undetermined (eta = 0)
    converged | 1 | \mathrm{ok} | lmfit converged, and two searches from different grids differ by
        at most 0.1% of the rmse
    gap | 1 | \Delta\mathrm{RMSE}/\mathrm{RMSE} | relative difference in rmse between the optima of
        two searches from different grids; the better one is reported
    zero_weight_share | 1 | \mathrm{P}(\alpha_i = 0) | share of content weights that are exactly 0,
        excluded from the mean log | none
    documents | 1 | K | number of documents with data for the head | none
    oscillation_p | 1 | p_{\omega} | p-value of an oscillation against surrogates with the
        residuals' autocorrelation
    growth_p | 1 | p_{\eta} | p-value of growth against surrogates with the residuals'
        autocorrelation
    residual_autocorrelation | 1 | \hat\rho_1 | lag-one autocorrelation of the residuals of the mean
        log weight
    long_run_noise | nat | \sqrt{S(0)} | square root of the residuals' long-run variance, from an
        ARMA(1,1) background
    long_run_newey_west | nat | \sqrt{S_{\mathrm{NW}}(0)} | square root of the residuals' long-run
        variance, prewhitened Newey-West with Andrews' bandwidth
    noise_phi | 1 | \phi | autoregressive coefficient of the residuals' ARMA(1,1) background
    noise_theta | 1 | \theta | moving-average coefficient of the residuals' ARMA(1,1) background
    document_noise | nat | \sigma_k | standard deviation of one document's log weight about the fit,
        level removed
    document_autocorrelation | 1 | \rho_{1,k} | lag-one autocorrelation of one document about the
        fit, level removed
    total_model_differs | 1 | \sum_i \hat\alpha_i \neq 1 | the fitted weights do not sum to 1: the
        interval of the sum excludes 1
    t1_document_sd | token | \mathrm{sd}_k(T_1) | standard deviation over documents, fitted
        separately, of the last position of the plateau
    t2_document_sd | token | \mathrm{sd}_k(T_2) | standard deviation over documents, fitted
        separately, of the last position before the growth
""",
        dims=HEAD,
    )
    | {
        "form_chosen": _codes(
            "form_chosen",
            "index along form of the reported form (p_base, eta, omega, t1 and t2)",
            FORMS,
            symbol="m",
            dims=HEAD,
        ),
        "preferred": _codes(
            "preferred",
            "index along rival of the form preferred by held-out loss; -1: undetermined",
            RIVALS,
            missing="undetermined",
            symbol="m^*",
            dims=HEAD,
        ),
    }
    | _table(
        r"""
    preferred_differs | 1 | m \neq m^* | the reported form (p_base, eta, omega, t1 and t2) is not
        the one preferred by held-out loss
    log_weight_mean | nat | \overline{\log\alpha_i} | document mean of the log weight; NaN at the
        sink | dims: layer head position
    log_weight_model | nat | \log\hat\alpha_i | fitted log weight of the chosen form | dims: layer
        head position
    weight_mean | 1 | \overline{\alpha_i} | arithmetic mean of the weight over documents | Fig. 4 |
        dims: layer head position
""",
        dims=HEAD,
    )
)


def _along(dim: str, words: str, *names: str) -> dict[str, Quantity]:
    """Return records of heads along another dim: by form, by rival or by document."""
    return {
        f"{dim}_{name}": replace(
            _BY_HEAD[name],
            name=f"{dim}_{name}",
            long_name=f"{_BY_HEAD[name].long_name}, {words}",
            dims=(dim, *HEAD),
            estimated=False,
            tested=False,
        )
        for name in names
    }


_OF_FORMS: Final = _table(
    r"""
    form_p_base | 1 | p_{\mathrm{base}} | weight of a plateau token, geometric mean over documents,
        by form | estimated | scale: interval on the log scale, exponentiated
    form_eta | 1/token | \eta | amplitude of the oscillation; growth rate in the monotone form, by
        form | estimated
    form_eta_tail | 1/token | \eta_{\mathrm{tail}} | growth rate, by form | estimated
    form_omega | rad/token | \omega | frequency of the oscillation, by form | estimated
    form_t1 | token | T_1 | last position of the plateau, by form | estimated | scale: integer;
        interval: the wider of the jackknife's and the residual noise's
    form_t2 | token | T_2 | last position before the growth, by form | estimated | scale: integer;
        interval: the wider of the jackknife's and the residual noise's
""",
    dims=("form", *HEAD),
)
_BY_FORM: Final = (
    _OF_FORMS
    | _along(
        "form",
        "by form",
        "rmse",
        "r2",
        "bic",
        "loss_held_out",
        "loss_held_out_se",
        "converged",
        "gap",
    )
    | _table(
        r"""
    form_oscillation_identified | 1 | \eta\cos\omega i \neq 0 | the oscillation exceeds the noise,
        by form
    form_oscillation_to_noise | 1 | \eta\sqrt{(T_2-T_1)/2}/\sqrt{S(\omega)} | amplitude over its
        standard error in the residuals' noise at its frequency, by form
    form_growth_to_noise | 1 | \eta(L-T_2)/\sqrt{S(0)} | total growth over the long-run noise, by
        form
    form_t1_half_width | token | \Delta T_1 | half-width of the 95% interval of T_1 in the
        residuals' noise, by form
    form_t2_half_width | token | \Delta T_2 | half-width of the 95% interval of T_2 in the
        residuals' noise, by form
    form_omega_half_width | rad/token | \Delta\omega | half-width of the 95% interval of omega in
        the residuals' noise, by form
""",
        dims=("form", *HEAD),
    )
)
_BY_RIVAL: Final = (
    _along("rival", "by rival", "rmse", "loss_held_out", "loss_held_out_se")
    | _table(
        r"""
    rival_clearly_lowest | 1 | \Delta\mathcal{L} > t\,\mathrm{se} | lowest held-out loss, below
        every other form's by a paired t-test at 95%, by rival
    rival_aicc | 1 | \mathrm{AICc} | corrected Akaike information criterion, assuming independent
        tokens, by rival
""",
        dims=("rival", *HEAD),
    )
    | _along("rival", "by rival", "bic", "residual_autocorrelation", "long_run_noise")
)
_BY_DOCUMENT: Final = _table(
    r"""
    document_p_sink | 1 | p_{\mathrm{sink}} | weight of the sink in one document
    document_p_base | 1 | p_{\mathrm{base}} | weight of a plateau token, fitted to one document with
        the head's form
    document_eta | 1/token | \eta | amplitude of the oscillation; without oscillation, growth rate,
        fitted to one document with the head's form
    document_omega | rad/token | \omega | frequency of the oscillation, fitted to one document with
        the head's form
    document_t1 | token | T_1 | last position of the plateau, fitted to one document with the head's
        form
    document_t2 | token | T_2 | last position before the growth, fitted to one document with the
        head's form
""",
    dims=("document", *HEAD),
)


def _with_errors(records: Iterable[Quantity]) -> Iterator[Quantity]:
    """Yield records, each parameter followed by the records that belong to it.

    These are its lmfit error (if lmfit fits it), whether the data identify it, and why it has no
    error.
    """
    for record in records:
        yield record
        name, plain = record.name.removeprefix("form_"), replace(record, more={}, estimated=False)
        if name in ("p_base", "eta", "eta_tail", "omega"):
            yield replace(
                plain,
                name=f"{record.name}_se_tokens",
                long_name=f"lmfit's standard error: {record.long_name}",
                symbol=rf"\mathrm{{se}}_0({record.symbol})",
                more={"note": "lmfit treats tokens as independent: too small"},
            )
        if name in PARAMETERS:
            yield replace(
                plain,
                name=f"{record.name}_identified",
                long_name=f"identified by the data: {record.long_name}",
                units="1",
            )
        if name in (*PARAMETERS, "growth"):
            yield _codes(
                f"{record.name}_reason",
                f"reason for a missing standard error: {record.long_name}",
                tuple(reason.name.lower() for reason in Reason),
                symbol=record.symbol,
                dims=record.dims,
            )


RECORDS: Final = (
    *_with_errors(_BY_HEAD.values()),
    *_with_errors(_BY_FORM.values()),
    *_BY_RIVAL.values(),
    *_BY_DOCUMENT.values(),
)


NEEDS = {"attention_weight": ("document", "layer", "head", "position")}


def layer_weights(capture: xr.Dataset, layer: int) -> tuple[LayerTokens, FloatArray, FloatArray]:
    """Return a layer's tokens, weights (document, head, token), and log weights of content tokens.

    Log weights are NaN where α is 0 or unknown.

    Raises:
        InputError: if a weight is negative.
    """
    visible = layer_tokens(capture, layer)
    weight = capture["attention_weight"][:, layer, :, visible.start :].values.astype(np.float64)
    lowest = np.nanmin(weight) if np.isfinite(weight).any() else 0.0
    if lowest < 0:
        name = capture["layer"].values[layer]
        raise InputError(
            f"attention_weight of layer {name} has {lowest:.3g}, expected weights of at least 0."
            " Capture the run again."
        )
    content = weight[..., visible.first_content :]
    if "log_attention_weight" in capture:  # mean of logs over queries, not log of the mean
        logs = capture["log_attention_weight"][:, layer, :, visible.start :].values
        return visible, weight, logs[..., visible.first_content :].astype(np.float64)
    positive = np.isfinite(content) & (content > 0)
    return visible, weight, np.log(content, out=np.full(content.shape, np.nan), where=positive)


def fit_weights(capture: xr.Dataset, progress: Progress | None = None) -> xr.Dataset:
    """Fit Assumption 3 and its rivals to every query head.

    p_base, eta, omega, t1 and t2 come from the form of Assumption 3 whose oscillation exceeds the
    noise (`identifiability.reported`), otherwise from the monotone form, with omega NaN ("none")
    and t1 = t2. In the separate form, eta is the oscillation's. Estimates are lmfit's optimum at
    the break points of the search; replicates repeat the whole search. `variables` defines all
    variables.

    Args:
        capture: a /capture dataset; uses attention_weight (document, layer, head, position),
            log_attention_weight with the same dims if present, tokens, sink_visible (layer).
        progress: called with the fraction done after each group of heads.

    Returns:
        The variables of `variables`, over (layer, head), by form (form_…), rival (rival_…),
        document (document_…) and position. x_reason is the code why a parameter x has no x_se;
        x_se_tokens is lmfit's error, which treats tokens as independent. t1 and t2 count from the
        first visible token. p_sink is NaN where the sink is not visible; a head without weights is
        NaN throughout and not converged.

    Raises:
        InputError: if a variable is missing, misshapen or empty, or a weight is negative.
    """
    require(capture, NEEDS)
    documents, layers, heads, positions = (capture.sizes[dim] for dim in NEEDS["attention_weight"])
    names = (*NEEDS, "log_attention_weight", "tokens", "sink_visible")
    tasks = [
        select_heads(capture, names, layer=[layer], head=group)
        for layer, group in product(range(layers), pieces(heads, documents * positions))
    ]
    # One thread searches while lmfit, which holds the GIL, fits other heads in the second thread.
    fitted = overlapped(_fit_heads, tasks)
    parts = [part for _, part in zip(tracked(tasks, progress), fitted, strict=True)]
    numbers = join_heads(RECORDS, parts, heads)
    out = variables(RECORDS, numbers)
    # Set after moderation, to agree with the moderated interval.
    lower, upper = (out[f"total_model_{end}"].values for end in ("lower", "upper"))
    out["total_model_differs"].values[:] = (lower > 1.0) | (upper < 1.0)
    return fit_dataset(
        capture,
        out,
        ("document", *HEAD, "position", "kv_head_of_head"),
        form=("form", np.array(FORMS, dtype=object)),
        rival=("rival", np.array(RIVALS, dtype=object)),
    )


def _fit_heads(capture: xr.Dataset) -> dict[str, Value]:
    """Return the numbers of heads of one layer, by the names of RECORDS."""
    visible, weight, log_weight = layer_weights(capture, 0)
    first, last, position = visible.first_content, visible.tokens - 1.0, visible.position
    carries: BoolArray = np.asarray(np.isfinite(log_weight).any(axis=-1))
    mean, without = mean_over_documents(log_weight), leave_one_out_mean(log_weight)
    documents, heads, content = without.shape
    best = search_twice(mean, first)
    # Replicates, (form, document, head), also start at the optimum of all documents.
    near = {name: np.tile(rows, documents) for name, rows in best.items()}
    searched = search(without.reshape(documents * heads, content), first, near=near)
    replicates = {
        name: rows.reshape(len(FORMS), documents, heads) for name, rows in searched.items()
    }
    at_bound, tokens_se = refine(best, position, mean)
    residual = mean - predict(best, position)
    simple_residuals, simple_losses, simple_slopes = simple_fits(
        position, log_weight, mean, without, carries
    )
    residuals = np.concatenate([simple_residuals, residual])
    # Held-out losses, (rival, document, head), form by form to save memory.
    fits = ({name: rows[form] for name, rows in replicates.items()} for form in range(len(FORMS)))
    of_forms = [mean_of_known((log_weight - predict(fit, position)) ** 2) for fit in fits]
    losses = np.concatenate([simple_losses, np.stack(of_forms)])
    noises = background(residuals)
    long_runs = np.sqrt(noises.density(np.zeros(1))[..., 0])
    noise, long_run = noises.take(slice(len(SIMPLE), None)), long_runs[len(SIMPLE) :]
    strengths = strength(best, noise, long_run, last)
    significance, numbers = phase_significance(strengths, losses, mean, residuals, noises, first)
    half_width = placement(best, noise, position, np.isfinite(mean))
    codes = reasons(best, significance, half_width, at_bound, last)
    rivals = compare(residuals, losses, long_runs)
    by_form: dict[str, Value] = {
        **form_values(best, replicates, carries, codes, half_width),
        **_goodness(residual, mean),
        "form_converged": best["converged"] == 1.0,
        "form_gap": best["gap"],
        "form_loss_held_out": rivals["rival_loss_held_out"][len(SIMPLE) :],
        "form_loss_held_out_se": rivals["rival_loss_held_out_se"][len(SIMPLE) :],
        **{f"form_{name}_se_tokens": values for name, values in tokens_se.items()},
    }
    # The head's form: an index of FORMS, and of arrays (form, head).
    form = reported(significance, losses)
    pick = (form, np.arange(heads))
    fit = {name: best[name][pick] for name in CURVE}
    fit_replicates = {name: np.moveaxis(replicates[name], 1, -1)[pick].T for name in CURVE}
    model = mean - residual[pick]
    centred = log_weight - model
    centred = centred - mean_of_known(centred)[..., None]
    of_form = np.moveaxis(losses, 1, -1)[len(SIMPLE) + form, np.arange(heads)].T
    gains = gain_over(losses[RIVALS.index("constant")], of_form)
    out: dict[str, Value] = {
        **numbers,
        **by_form,
        # Numbers of the head's form, without form_ in their names; `numbers` has its own.
        **{
            name.removeprefix("form_"): mapped(value, lambda array: array[pick])
            for name, value in by_form.items()
        },
        **rivals,
        **{
            f"gain_over_constant{part}": x for part, x in zip(("", "_se", "_p"), gains, strict=True)
        },
        "form_chosen": form,
        "preferred_differs": (rivals["preferred"] >= 0)
        & (rivals["preferred"] != len(SIMPLE) + form),
        **{f"{name}_at_bound": values[pick] for name, values in at_bound.items()},
        "documents": carries.sum(axis=0),
        **arithmetic(weight, visible, fit, fit_replicates),
        **growth(
            log_weight,
            visible,
            fit,
            fit_replicates,
            significance.growth_detected[pick],
            at_bound["eta_tail"][pick],
        ),
        **distance(log_weight, visible, fit, fit_replicates),
        **common_variance(log_weight, predict(fit_replicates, position), carries),
        **simple_slopes,
        **search_documents(log_weight, first, form),
        "residual_autocorrelation": lag_one(residual[pick]),
        "long_run_noise": long_run[pick],
        "long_run_newey_west": long_run_noise(residual[pick]),
        "noise_phi": noise.phi[pick],
        "noise_theta": noise.theta[pick],
        "document_noise": mean_over_documents(np.sqrt(mean_of_known(centred**2))),
        "document_autocorrelation": mean_over_documents(lag_one(centred)),
    }
    curves = {
        "log_weight_mean": mean,
        "log_weight_model": model,
        "weight_mean": mean_over_documents(weight),
    }
    for name, curve in curves.items():
        hidden = capture.sizes["position"] - curve.shape[1]
        out[name] = np.pad(curve, ((0, 0), (hidden, 0)), constant_values=np.nan)
    return out


def _goodness(residual: FloatArray, mean: FloatArray) -> dict[str, FloatArray]:
    """Return form_rmse, form_mae, form_r2 and form_bic, each (form, head)."""
    points = np.isfinite(mean).sum(axis=-1)
    per_token = mean_of_known(residual**2)
    centre = mean_of_known(mean)[:, None]
    variation = mean_of_known((mean - centre) ** 2)
    rounding = 1e-24 * (1.0 + centre[:, 0] ** 2)
    per_token = np.where(per_token > rounding, per_token, 0.0 * per_token)
    with np.errstate(invalid="ignore", divide="ignore"):
        r2 = np.where(variation > rounding, 1.0 - per_token / variation, np.nan)
    free = np.array([[FREE[form]] for form in FORMS])
    return {
        "form_rmse": np.sqrt(per_token),
        "form_mae": mean_of_known(np.abs(residual)),
        "form_r2": r2,
        "form_bic": bayesian_information(per_token * points, points, free),
    }
