"""Records of /weights, in the order of docs/reference/variables.md.

They cover the profile's parameters by head, form and document; derived quantities (totals, growth,
misfit, masses of the phases); goodness of fit of every form and rival; and the residuals' noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from empirical.schema import Quantity
from geostat.datasets.flags import codes
from geostat.fits.table import table
from geostat.fits.weights.break_points import FORMS
from geostat.fits.weights.identifiability import PARAMETERS, Reason
from geostat.fits.weights.rivals import RIVALS

HEAD: Final = ("layer", "head")
TOKEN: Final = (*HEAD, "position")
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
    oscillation_identified | 1 | \eta\cos\omega i \neq 0 | an oscillation with the eta of the
        growth, as printed, exceeds the noise
    growth_identified | 1 | \eta(i - T_2) \neq 0 | the growth exceeds the noise
    identified | 1 | \eta \neq 0 | oscillation or growth exceeds the noise
    eta_at_bound | 1 | \eta \in \{0, 0.99\} | the optimum of eta is at a bound (0, or 0.99 with an
        oscillation)
    omega_at_bound | 1 | \omega \in \partial\Omega | omega is at a bound (one period in the phase,
        or pi) or undetermined (eta = 0)
    converged | 1 | \mathrm{ok} | search and lmfit both converged
    zero_weight_share | 1 | \mathrm{P}(\alpha_i = 0) | share of content weights that are exactly 0,
        excluded from the mean log | none
    documents | 1 | K | documents that carry the head | none
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
        "form", "by form", "rmse", "r2", "bic", "loss_held_out", "loss_held_out_se", "converged"
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
                long_name=f"lmfit's standard error of {record.long_name}",
                symbol=rf"\mathrm{{se}}_0({record.symbol})",
                more={"note": "lmfit treats tokens as independent: too small"},
            )
        if name in PARAMETERS:
            yield replace(
                plain,
                name=f"{record.name}_identified",
                long_name=f"the data identify {record.long_name}",
                units="1",
            )
        if name in (*PARAMETERS, "growth"):
            yield _codes(
                f"{record.name}_reason",
                f"why there is no standard error of {record.long_name}",
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
