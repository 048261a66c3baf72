"""Records of /weights, every one, in the order of docs/reference/variables.md; here those of
goodness of fit (of the chosen form, every form, every rival) and of the residuals' noise.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from geostat.fits.weights.break_points import FORMS
from geostat.fits.weights.rivals import RIVALS
from geostat.fits.weights.variables import parameters
from geostat.fits.weights.variables.parameters import (
    RMSE,
    TOKEN,
    along,
    codes_of_head,
    estimate,
    head,
)

_LOSS = r"\mathcal{L}_{\mathrm{out}}"
_R2 = head("r2", "coefficient of determination of the mean log weight", "1", "R^2")
_BIC = head(
    "bic", "Bayesian information criterion, assuming independent tokens", "1", r"\mathrm{BIC}"
)
_LEFT_OUT = (
    head(
        "loss_left_out",
        "mean squared residual of a document under the fit to the others",
        "nat^2",
        _LOSS,
    ),
    head(
        "loss_left_out_se",
        "standard error over documents of the left-out loss",
        "nat^2",
        rf"\mathrm{{se}}({_LOSS})",
    ),
)
_AICC = head(
    "aicc",
    "corrected Akaike information criterion, assuming independent tokens",
    "1",
    r"\mathrm{AICc}",
)
_CLEARLY_LOWEST = head(
    "clearly_lowest",
    "left-out loss is the lowest, every other form's above it by a paired t-test at 95%",
    "1",
    r"\Delta\mathcal{L} > t\,\mathrm{se}",
)
_CONVERGED = head("converged", "search and lmfit both converged", "1", r"\mathrm{ok}")
_OSCILLATES = head(
    "oscillation_identified",
    "the oscillation stands above the noise",
    "1",
    r"\eta\cos\omega i \neq 0",
)
_AUTOCORRELATION = head(
    "residual_autocorrelation",
    "lag-one autocorrelation of the residuals of the mean log weight",
    "1",
    r"\hat\rho_1",
)
_LONG_RUN = head(
    "long_run_noise",
    "square root of the residuals' long-run variance, by an ARMA(1,1) background",
    "nat",
    r"\sqrt{S(0)}",
)
_BY_HEAD = (
    *parameters.BY_HEAD,
    *parameters.EFFECTS,
    estimate("power_law_gamma", "exponent of the power-law rival", "1", r"\gamma", equation=""),
    estimate(
        "no_plateau_eta",
        "growth rate of the rival without a plateau",
        "1/token",
        r"\eta_{\mathrm{all}}",
        equation="",
    ),
    head("mae", "mean absolute residual of the mean log weight", "nat", r"\mathrm{MAE}"),
    _R2,
    _BIC,
    *_LEFT_OUT,
    estimate(
        "common_share",
        "share of a document's variance of log weights by position that documents have in common",
        "1",
        r"R^2_{\max}",
        equation="",
    ),
    estimate(
        "r2_document",
        "share of a document's variance of log weights by position that the fit to the others"
        " explains",
        "1",
        r"R^2_{\mathrm{out}}",
    ),
    head(
        "oscillation_gain",
        "left-out loss of the monotone form minus that of the shared form",
        "nat^2",
        r"\Delta\mathcal{L}_{\omega}",
    ),
    head(
        "oscillation_gain_se",
        "standard error over documents of the oscillation's gain",
        "nat^2",
        r"\mathrm{se}(\Delta\mathcal{L}_{\omega})",
    ),
    head(
        "growth_gain",
        "left-out loss of a constant minus that of the monotone form",
        "nat^2",
        r"\Delta\mathcal{L}_{\eta}",
    ),
    head(
        "growth_gain_se",
        "standard error over documents of the growth's gain",
        "nat^2",
        r"\mathrm{se}(\Delta\mathcal{L}_{\eta})",
    ),
    replace(
        _OSCILLATES,
        long_name="an oscillation with the growth's own eta, as printed, stands above the noise",
    ),
    head("growth_identified", "the growth stands above the noise", "1", r"\eta(i - T_2) \neq 0"),
    head("identified", "oscillation or growth stands above the noise", "1", r"\eta \neq 0"),
    *parameters.AT_BOUND,
    _CONVERGED,
    head(
        "zero_weight_share",
        "share of content weights that are exactly 0, left out of the mean log",
        "1",
        r"\mathrm{P}(\alpha_i = 0)",
        equation="",
    ),
    head("documents", "documents that carry the head", "1", "K", equation=""),
    head(
        "oscillation_p",
        "p-value of an oscillation against surrogates with the residuals' own autocorrelation",
        "1",
        r"p_{\omega}",
    ),
    head(
        "growth_p",
        "p-value of growth against surrogates with the residuals' own autocorrelation",
        "1",
        r"p_{\eta}",
    ),
    _AUTOCORRELATION,
    _LONG_RUN,
    head(
        "long_run_newey_west",
        "square root of the residuals' long-run variance, prewhitened Newey-West with Andrews'"
        " bandwidth",
        "nat",
        r"\sqrt{S_{\mathrm{NW}}(0)}",
    ),
    head(
        "noise_phi",
        "autoregressive coefficient of the residuals' ARMA(1,1) background",
        "1",
        r"\phi",
    ),
    head(
        "noise_theta",
        "moving-average coefficient of the residuals' ARMA(1,1) background",
        "1",
        r"\theta",
    ),
    head(
        "document_noise",
        "standard deviation of one document's log weight about the fit, its own level taken out",
        "nat",
        r"\sigma_k",
    ),
    head(
        "document_autocorrelation",
        "lag-one autocorrelation of one document about the fit, its own level taken out",
        "1",
        r"\rho_{1,k}",
    ),
    parameters.TOTAL_DIFFERS,
    *parameters.DOCUMENT_SPREAD,
    codes_of_head(
        "form_chosen",
        "index along form of the fit that p_base, eta, omega, t1 and t2 come from",
        FORMS,
        symbol="m",
    ),
    codes_of_head(
        "preferred",
        "index along rival of the form preferred by left-out loss; -1: undetermined",
        RIVALS,
        missing="undetermined",
        symbol="m^*",
    ),
    head(
        "preferred_differs",
        "p_base, eta, omega, t1 and t2 come from another form than the one preferred by left-out"
        " loss",
        "1",
        r"m \neq m^*",
    ),
    head(
        "log_weight_mean",
        "document mean of the log weight; NaN at the sink",
        "nat",
        r"\overline{\log\alpha_i}",
        dims=TOKEN,
    ),
    head(
        "log_weight_model",
        "fitted log weight of the chosen form",
        "nat",
        r"\log\hat\alpha_i",
        dims=TOKEN,
    ),
    head(
        "weight_mean",
        "arithmetic mean of the weight over documents",
        "1",
        r"\overline{\alpha_i}",
        equation="Fig. 4",
        dims=TOKEN,
    ),
)
_by_form = partial(along, "form", "by form")
_BY_FORM = (
    *parameters.BY_FORM,
    *_by_form(RMSE, _R2, _BIC, *_LEFT_OUT, _CONVERGED, _OSCILLATES),
    *_by_form(
        head(
            "oscillation_to_noise",
            "amplitude over its standard error in the residuals' noise at its frequency",
            "1",
            r"\eta\sqrt{(T_2-T_1)/2}/\sqrt{S(\omega)}",
        ),
        head(
            "growth_to_noise",
            "total growth over the long-run noise",
            "1",
            r"\eta(L-T_2)/\sqrt{S(0)}",
        ),
        head(
            "t1_half_width",
            "half-width of the 95% interval of T_1 in the residuals' noise",
            "token",
            r"\Delta T_1",
        ),
        head(
            "t2_half_width",
            "half-width of the 95% interval of T_2 in the residuals' noise",
            "token",
            r"\Delta T_2",
        ),
        head(
            "omega_half_width",
            "half-width of the 95% interval of omega in the residuals' noise",
            "rad/token",
            r"\Delta\omega",
        ),
    ),
)
_BY_RIVAL = along(
    "rival", "by rival", RMSE, *_LEFT_OUT, _CLEARLY_LOWEST, _AICC, _BIC, _AUTOCORRELATION, _LONG_RUN
)
RECORDS: Final = (*_BY_HEAD, *_BY_FORM, *_BY_RIVAL, *parameters.BY_DOCUMENT)
