"""Variables of /weights: their records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from geostat.datasets.flags import codes
from geostat.datasets.variable import Variable
from geostat.fits.weights.break_points import FORMS
from geostat.fits.weights.identifiability import REASONS
from geostat.fits.weights.rivals import RIVALS

HEAD, TOKEN, DOCUMENT = (
    ("layer", "head"),
    ("layer", "head", "position"),
    ("document", "layer", "head"),
)
_LOG = {"scale": "interval on the log scale, exponentiated"}
_LOGIT = {"scale": "interval on the logit scale, carried back"}
_BREAK = {
    "scale": "integer; interval: the wider of the jackknife's and that of the residuals' noise"
}
_LOSS = r"\mathcal{L}_{\mathrm{out}}"


def _reasoned(record: Variable) -> Iterator[Variable]:
    """Yield a parameter, whether the data identify it, why it has no error, and, of those that
    lmfit has errors of, that error.
    """
    yield record
    plain = replace(record, more={}, estimated=False)
    if record.name.removeprefix("form_") in ("p_base", "eta", "eta_tail", "omega"):
        note = {"note": "lmfit's own, with tokens taken as independent: too small"}
        about, symbol = (
            f"lmfit's standard error of {record.long_name}",
            rf"\mathrm{{se}}_0({record.symbol})",
        )
        yield replace(
            plain, name=f"{record.name}_se_tokens", long_name=about, symbol=symbol, more=note
        )
    yield replace(
        plain,
        name=f"{record.name}_identified",
        long_name=f"the data identify {record.long_name}",
        units="1",
    )
    yield _reason(record)


def _reason(record: Variable) -> Variable:
    about = f"why there is no standard error of {record.long_name}"
    return codes(
        f"{record.name}_reason",
        about,
        REASONS,
        symbol=record.symbol,
        equation=record.equation,
        dims=record.dims,
    )


_head = partial(Variable, equation="Assumption 3", dims=HEAD)
_estimate = partial(_head, estimated=True)
_effect = partial(_estimate, judged=True)
_PARAMETERS = (
    _estimate(
        "p_base",
        "weight of a plateau token, geometric mean over documents",
        "1",
        r"p_{\mathrm{base}}",
        more=_LOG,
    ),
    _estimate("eta", "sensitivity of oscillation and growth", "1/token", r"\eta"),
    _estimate(
        "omega",
        "frequency of the oscillation",
        "rad/token",
        r"\omega",
        more={"missing": '"none": NaN where no oscillation is identified'},
    ),
    _estimate("t1", "last position of the plateau", "token", "T_1", more=_BREAK),
    _estimate("t2", "last position before the growth", "token", "T_2", more=_BREAK),
)
_GROWTH = _effect(
    "growth",
    "total growth, log of the last weight over the plateau's; each document's from the T_2 of the"
    " others",
    "nat",
    r"\eta(L - T_2)",
    more={
        "missing": "NaN where growth does not stand out of the noise",
        "scale": "standard error: the larger of scatter over documents and jackknife",
    },
)
_RMSE = _effect(
    "rmse", "root mean squared residual of the mean log weight", "nat", r"\mathrm{RMSE}"
)
_R2 = _head("r2", "coefficient of determination of the mean log weight", "1", "R^2")
_BIC = _head(
    "bic", "Bayesian information criterion, assuming independent tokens", "1", r"\mathrm{BIC}"
)
_LEFT_OUT = (
    _head(
        "loss_left_out",
        "mean squared residual of a document under the fit to the others",
        "nat^2",
        _LOSS,
    ),
    _head(
        "loss_left_out_se",
        "standard error over documents of the left-out loss",
        "nat^2",
        rf"\mathrm{{se}}({_LOSS})",
    ),
)
_CONVERGED = _head("converged", "search and lmfit both converged", "1", r"\mathrm{ok}")
_OSCILLATES = _head(
    "oscillation_identified",
    "the oscillation stands above the noise",
    "1",
    r"\eta\cos\omega i \neq 0",
)
_AUTOCORRELATION = _head(
    "residual_autocorrelation",
    "lag-one autocorrelation of the residuals of the mean log weight",
    "1",
    r"\hat\rho_1",
)
_LONG_RUN = _head(
    "long_run_noise",
    "square root of the residuals' long-run variance, by an ARMA(1,1) background",
    "nat",
    r"\sqrt{S(0)}",
)
_BY_HEAD = (
    _estimate(
        "p_sink",
        "weight of the sink, arithmetic mean over documents",
        "1",
        r"p_{\mathrm{sink}}",
        more=_LOGIT,
    ),
    *(one for record in _PARAMETERS for one in _reasoned(record)),
    _estimate("total", "measured sum of the weights", "1", r"\sum_i \alpha_i", equation=""),
    _estimate(
        "total_model",
        "sum of the fitted weights, sink included where visible",
        "1",
        r"\sum_i \hat\alpha_i",
        more=_LOG,
    ),
    _effect(
        "total_model_log", "log of the sum of the fitted weights", "nat", r"\log\sum_i \hat\alpha_i"
    ),
    _GROWTH,
    _reason(_GROWTH),
    _RMSE,
    _effect(
        "misfit",
        "root mean squared residual of the mean log weight, as it would be with ever more"
        " documents",
        "nat",
        r"\mathrm{RMSE}_\infty",
        more={
            "scale": (
                "interval of its square, whose root is taken; standard error: its longer arm over t"
            )
        },
    ),
    _estimate("mass_sink", "weight of the sink, arithmetic mean", "1", r"\alpha_0", more=_LOGIT),
    _estimate(
        "mass_plateau",
        "weight of the plateau, arithmetic mean",
        "1",
        r"\sum_{0<i\le T_1}\alpha_i",
        more=_LOGIT,
    ),
    _estimate(
        "mass_oscillation",
        "weight of the oscillation, arithmetic mean",
        "1",
        r"\sum_{T_1<i\le T_2}\alpha_i",
        more=_LOGIT,
    ),
    _estimate(
        "mass_tail",
        "weight of the growth phase, arithmetic mean",
        "1",
        r"\sum_{i>T_2}\alpha_i",
        more=_LOGIT,
    ),
    _estimate("power_law_gamma", "exponent of the power-law rival", "1", r"\gamma", equation=""),
    _estimate(
        "no_plateau_eta",
        "growth rate of the rival without a plateau",
        "1/token",
        r"\eta_{\mathrm{all}}",
        equation="",
    ),
    _head("mae", "mean absolute residual of the mean log weight", "nat", r"\mathrm{MAE}"),
    _R2,
    _BIC,
    *_LEFT_OUT,
    _head(
        "oscillation_gain",
        "left-out loss of the monotone form minus that of the shared form",
        "nat^2",
        r"\Delta\mathcal{L}_{\omega}",
    ),
    _head(
        "oscillation_gain_se",
        "standard error over documents of the oscillation's gain",
        "nat^2",
        r"\mathrm{se}(\Delta\mathcal{L}_{\omega})",
    ),
    _head(
        "growth_gain",
        "left-out loss of a constant minus that of the monotone form",
        "nat^2",
        r"\Delta\mathcal{L}_{\eta}",
    ),
    _head(
        "growth_gain_se",
        "standard error over documents of the growth's gain",
        "nat^2",
        r"\mathrm{se}(\Delta\mathcal{L}_{\eta})",
    ),
    _OSCILLATES,
    _head("growth_identified", "the growth stands above the noise", "1", r"\eta(i - T_2) \neq 0"),
    _head("identified", "oscillation or growth stands above the noise", "1", r"\eta \neq 0"),
    _head(
        "eta_at_bound",
        "the optimum of eta is at a bound (0, or 0.99 with an oscillation)",
        "1",
        r"\eta \in \{0, 0.99\}",
    ),
    _head(
        "omega_at_bound",
        "omega is at a bound (one period in the phase, or pi) or undetermined (eta = 0)",
        "1",
        r"\omega \in \partial\Omega",
    ),
    _CONVERGED,
    _head(
        "zero_weight_share",
        "share of content weights that are exactly 0, left out of the mean log",
        "1",
        r"\mathrm{P}(\alpha_i = 0)",
        equation="",
    ),
    _head("documents", "documents that carry the head", "1", "K", equation=""),
    _head(
        "oscillation_p",
        "p-value of an oscillation against surrogates with the residuals' own autocorrelation",
        "1",
        r"p_{\omega}",
    ),
    _head(
        "growth_p",
        "p-value of growth against surrogates with the residuals' own autocorrelation",
        "1",
        r"p_{\eta}",
    ),
    _AUTOCORRELATION,
    _LONG_RUN,
    _head(
        "long_run_newey_west",
        "square root of the residuals' long-run variance, prewhitened Newey-West with Andrews'"
        " bandwidth",
        "nat",
        r"\sqrt{S_{\mathrm{NW}}(0)}",
    ),
    _head(
        "noise_phi",
        "autoregressive coefficient of the residuals' ARMA(1,1) background",
        "1",
        r"\phi",
    ),
    _head(
        "noise_theta",
        "moving-average coefficient of the residuals' ARMA(1,1) background",
        "1",
        r"\theta",
    ),
    _head(
        "document_noise",
        "standard deviation of one document's log weight about the fit, its own level taken out",
        "nat",
        r"\sigma_k",
    ),
    _head(
        "document_autocorrelation",
        "lag-one autocorrelation of one document about the fit, its own level taken out",
        "1",
        r"\rho_{1,k}",
    ),
    _head(
        "total_model_differs",
        "the fitted weights do not sum to 1: their interval excludes it",
        "1",
        r"\sum_i \hat\alpha_i \neq 1",
    ),
    _head(
        "t1_document_sd",
        "standard deviation over documents, each fitted alone, of the last position of the plateau",
        "token",
        r"\mathrm{sd}_k(T_1)",
    ),
    _head(
        "t2_document_sd",
        "standard deviation over documents, each fitted alone, of the last position before the"
        " growth",
        "token",
        r"\mathrm{sd}_k(T_2)",
    ),
    codes(
        "form_chosen",
        "index along form of the fit that p_base, eta, omega, t1 and t2 come from",
        FORMS,
        symbol="m",
        equation="Assumption 3",
        dims=HEAD,
    ),
    codes(
        "preferred",
        "index along rival of the form preferred by left-out loss; -1: undetermined",
        RIVALS,
        missing="undetermined",
        symbol="m^*",
        equation="Assumption 3",
        dims=HEAD,
    ),
    _head(
        "log_weight_mean",
        "document mean of the log weight; NaN at the sink",
        "nat",
        r"\overline{\log\alpha_i}",
        dims=TOKEN,
    ),
    _head(
        "log_weight_model",
        "fitted log weight of the chosen form",
        "nat",
        r"\log\hat\alpha_i",
        dims=TOKEN,
    ),
    _head(
        "weight_mean",
        "arithmetic mean of the weight over documents",
        "1",
        r"\overline{\alpha_i}",
        equation="Fig. 4",
        dims=TOKEN,
    ),
)


def _by(dim: str, words: str, *records: Variable) -> tuple[Variable, ...]:
    """The same numbers along another dim: of every form, of every rival, of every document."""
    return tuple(
        replace(
            one,
            name=f"{dim}_{one.name}",
            long_name=f"{one.long_name}, {words}",
            dims=(dim, *one.dims),
            estimated=False,
            judged=False,
        )
        for one in records
    )


_separate = replace(
    _PARAMETERS[1], long_name="sensitivity, in the separate form of the oscillation alone"
)
_tail = replace(
    _PARAMETERS[1], name="eta_tail", long_name="growth rate", symbol=r"\eta_{\mathrm{tail}}"
)
_OF_FORMS = (_PARAMETERS[0], _separate, _tail, replace(_PARAMETERS[2], more={}), *_PARAMETERS[3:])
_BY_FORM = (
    *(
        one
        for record in _by("form", "by form", *_OF_FORMS)
        for one in _reasoned(replace(record, estimated=True))
    ),
    *_by("form", "by form", _RMSE, _R2, _BIC, *_LEFT_OUT, _CONVERGED, _OSCILLATES),
    *_by(
        "form",
        "by form",
        _head(
            "oscillation_to_noise",
            "amplitude over its standard error in the residuals' noise at its frequency",
            "1",
            r"\eta\sqrt{(T_2-T_1)/2}/\sqrt{S(\omega)}",
        ),
        _head(
            "growth_to_noise",
            "total growth over the long-run noise",
            "1",
            r"\eta(L-T_2)/\sqrt{S(0)}",
        ),
        _head(
            "t1_half_width",
            "half-width of the 95% interval of T_1 in the residuals' noise",
            "token",
            r"\Delta T_1",
        ),
        _head(
            "t2_half_width",
            "half-width of the 95% interval of T_2 in the residuals' noise",
            "token",
            r"\Delta T_2",
        ),
        _head(
            "omega_half_width",
            "half-width of the 95% interval of omega in the residuals' noise",
            "rad/token",
            r"\Delta\omega",
        ),
    ),
)
_AICC = _head(
    "aicc",
    "corrected Akaike information criterion, assuming independent tokens",
    "1",
    r"\mathrm{AICc}",
)
_BY_RIVAL = _by("rival", "by rival", _RMSE, *_LEFT_OUT, _AICC, _BIC, _AUTOCORRELATION, _LONG_RUN)
_plateau = replace(_PARAMETERS[0], long_name="weight of a plateau token")
_BY_DOCUMENT = (
    _head(
        "document_p_sink",
        "weight of the sink in one document",
        "1",
        r"p_{\mathrm{sink}}",
        dims=DOCUMENT,
    ),
    *(
        replace(one, more={})
        for one in _by(
            "document", "the document fitted alone with the head's form", _plateau, *_PARAMETERS[1:]
        )
    ),
)
RECORDS: Final = (*_BY_HEAD, *_BY_FORM, *_BY_RIVAL, *_BY_DOCUMENT)
