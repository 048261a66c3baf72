"""Names, units, symbols and equations of the variables of the /weights dataset. Imports numpy and xarray."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from geostat.datasets.words import EFFECTS, described, described_parameter, sink_flag
from geostat.fits.weights.identified import REASONS
from geostat.fits.weights.rivals import RIVALS
from geostat.fits.weights.search import FORMS
from geostat.statistics.jackknife import interval_of

HEAD, FORM, RIVAL, TOKEN = ("layer", "head"), ("form", "layer", "head"), ("rival", "layer", "head"), ("layer", "head", "position")
DOCUMENT = ("document", "layer", "head")
_A3 = "Assumption 3"
_NONE = "NaN where no oscillation is identified"
_LOG = "interval on the log scale, exponentiated"
_LOGIT = "interval on the logit scale, carried back"
_BREAK = "integer; interval: the wider of the jackknife's and that of the residuals' noise"
_TOKENS = "lmfit's own, with tokens taken as independent: too small"
_CODES = {"flag_values": list(range(len(REASONS))), "flag_meanings": " ".join(REASONS)}
PARAMETERS = {
    "p_sink": ("weight of the sink, arithmetic mean over documents", "1", r"p_{\mathrm{sink}}", _A3, {"scale": _LOGIT}),
    "p_base": ("weight of a plateau token, geometric mean over documents", "1", r"p_{\mathrm{base}}", _A3, {"scale": _LOG}),
    "eta": ("sensitivity of oscillation and growth", "1/token", r"\eta", _A3, {}),
    "omega": ("frequency of the oscillation", "rad/token", r"\omega", _A3, {"missing": f'"none": {_NONE}'}),
    "t1": ("last position of the plateau", "token", "T_1", _A3, {"scale": _BREAK}),
    "t2": ("last position before the growth", "token", "T_2", _A3, {"scale": _BREAK}),
    "total": ("measured sum of the weights", "1", r"\sum_i \alpha_i", "", {}),
    "total_model": (
        "sum of the fitted weights, sink included where visible",
        "1",
        r"\sum_i \hat\alpha_i",
        _A3,
        {"scale": _LOG},
    ),
    "total_model_log": ("log of the sum of the fitted weights", "nat", r"\log\sum_i \hat\alpha_i", _A3, {}),
    "growth": (
        "total growth, log of the last weight over the plateau's; each document's from the T_2 of the others",
        "nat",
        r"\eta(L - T_2)",
        _A3,
        {
            "missing": "NaN where growth does not stand out of the noise",
            "scale": "standard error: the larger of scatter over documents and jackknife",
        },
    ),
    "rmse": ("root mean squared residual of the mean log weight", "nat", r"\mathrm{RMSE}", _A3, {}),
    "misfit": (
        "root mean squared residual of the mean log weight, as it would be with ever more documents",
        "nat",
        r"\mathrm{RMSE}_\infty",
        _A3,
        {"scale": "interval of its square, whose root is taken; standard error: its longer arm over t"},
    ),
    "mass_sink": ("weight of the sink, arithmetic mean", "1", r"\alpha_0", _A3, {"scale": _LOGIT}),
    "mass_plateau": ("weight of the plateau, arithmetic mean", "1", r"\sum_{0<i\le T_1}\alpha_i", _A3, {"scale": _LOGIT}),
    "mass_oscillation": ("weight of the oscillation, arithmetic mean", "1", r"\sum_{T_1<i\le T_2}\alpha_i", _A3, {"scale": _LOGIT}),
    "mass_tail": ("weight of the growth phase, arithmetic mean", "1", r"\sum_{i>T_2}\alpha_i", _A3, {"scale": _LOGIT}),
    "power_law_gamma": ("exponent of the power-law rival", "1", r"\gamma", "", {}),
    "no_plateau_eta": ("growth rate of the rival without a plateau", "1/token", r"\eta_{\mathrm{all}}", "", {}),
}
FORM_PARAMETERS = {
    "form_p_base": ("weight of a plateau token, by form", "1", r"p_{\mathrm{base}}", _A3, {"scale": _LOG}),
    "form_eta": ("sensitivity; of the oscillation alone in the separate form", "1/token", r"\eta", _A3, {}),
    "form_eta_tail": ("growth rate", "1/token", r"\eta_{\mathrm{tail}}", _A3, {}),
    "form_omega": ("frequency of the oscillation, by form", "rad/token", r"\omega", _A3, {}),
    "form_t1": ("last position of the plateau, by form", "token", "T_1", _A3, {"scale": _BREAK}),
    "form_t2": ("last position before the growth, by form", "token", "T_2", _A3, {"scale": _BREAK}),
}
"""Those of the paper's form and its two kin, with intervals; named as the columns of `identified.form_values`."""
BY_HEAD = {
    "mae": ("mean absolute residual of the mean log weight", "nat", r"\mathrm{MAE}", _A3),
    "r2": ("coefficient of determination of the mean log weight", "1", "R^2", _A3),
    "bic": ("Bayesian information criterion of the chosen form, assuming independent tokens", "1", r"\mathrm{BIC}", _A3),
    "loss_left_out": ("mean squared residual of a document under the fit to the others", "nat^2", r"\mathcal{L}_{\mathrm{out}}", _A3),
    "loss_left_out_se": ("standard error over documents of the left-out loss", "nat^2", r"\mathrm{se}(\mathcal{L}_{\mathrm{out}})", _A3),
    "oscillation_gain": ("left-out loss of the monotone form minus that of the shared form", "nat^2", r"\Delta\mathcal{L}_{\omega}", _A3),
    "oscillation_gain_se": (
        "standard error over documents of the oscillation's gain",
        "nat^2",
        r"\mathrm{se}(\Delta\mathcal{L}_{\omega})",
        _A3,
    ),
    "growth_gain": ("left-out loss of a constant minus that of the monotone form", "nat^2", r"\Delta\mathcal{L}_{\eta}", _A3),
    "growth_gain_se": ("standard error over documents of the growth's gain", "nat^2", r"\mathrm{se}(\Delta\mathcal{L}_{\eta})", _A3),
    "oscillation_identified": ("the oscillation stands above the noise", "1", r"\eta\cos\omega i \neq 0", _A3),
    "growth_identified": ("the growth stands above the noise", "1", r"\eta(i - T_2) \neq 0", _A3),
    "identified": ("oscillation or growth stands above the noise", "1", r"\eta \neq 0", _A3),
    "eta_at_bound": ("the optimum of eta is at a bound (0, or 0.99 with an oscillation)", "1", r"\eta \in \{0, 0.99\}", _A3),
    "omega_at_bound": (
        "omega is at a bound (one period in the phase, or pi) or undetermined (eta = 0)",
        "1",
        r"\omega \in \partial\Omega",
        _A3,
    ),
    "converged": ("search and lmfit both converged", "1", r"\mathrm{ok}", _A3),
    "zero_weight_share": ("share of content weights that are exactly 0, left out of the mean log", "1", r"\mathrm{P}(\alpha_i = 0)", ""),
    "documents": ("documents that carry the head", "1", "K", ""),
    "oscillation_p": ("p-value of an oscillation against surrogates with the residuals' own autocorrelation", "1", r"p_{\omega}", _A3),
    "growth_p": ("p-value of growth against surrogates with the residuals' own autocorrelation", "1", r"p_{\eta}", _A3),
    "residual_autocorrelation": ("lag-one autocorrelation of the residuals of the mean log weight", "1", r"\hat\rho_1", _A3),
    "long_run_noise": ("square root of the residuals' long-run variance, by an ARMA(1,1) background", "nat", r"\sqrt{S(0)}", _A3),
    "long_run_newey_west": (
        "square root of the residuals' long-run variance, prewhitened Newey-West with Andrews' bandwidth",
        "nat",
        r"\sqrt{S_{\mathrm{NW}}(0)}",
        _A3,
    ),
    "noise_phi": ("autoregressive coefficient of the residuals' ARMA(1,1) background", "1", r"\phi", _A3),
    "noise_theta": ("moving-average coefficient of the residuals' ARMA(1,1) background", "1", r"\theta", _A3),
    "document_noise": ("standard deviation of one document's log weight about the fit, its own level taken out", "nat", r"\sigma_k", _A3),
    "document_autocorrelation": ("lag-one autocorrelation of one document about the fit, its own level taken out", "1", r"\rho_{1,k}", _A3),
    "total_model_differs": ("the fitted weights do not sum to 1: their interval excludes it", "1", r"\sum_i \hat\alpha_i \neq 1", _A3),
    "t1_document_sd": (
        "standard deviation over documents, each fitted alone, of the last position of the plateau",
        "token",
        r"\mathrm{sd}_k(T_1)",
        _A3,
    ),
    "t2_document_sd": (
        "standard deviation over documents, each fitted alone, of the last position before the growth",
        "token",
        r"\mathrm{sd}_k(T_2)",
        _A3,
    ),
    "form_chosen": ("index along form of the fit that p_base, eta, omega, t1 and t2 come from", "1", r"m", _A3),
    "preferred": ("index along rival of the form preferred by left-out loss; -1: undetermined", "1", r"m^*", _A3),
}
BY_RIVAL = {
    "rival_rmse": ("root mean squared residual of the mean log weight, by rival", "nat", r"\mathrm{RMSE}", _A3),
    "rival_loss_left_out": (
        "mean squared residual of a document under the fit to the others, by rival",
        "nat^2",
        r"\mathcal{L}_{\mathrm{out}}",
        _A3,
    ),
    "rival_loss_left_out_se": (
        "standard error over documents of the left-out loss, by rival",
        "nat^2",
        r"\mathrm{se}(\mathcal{L}_{\mathrm{out}})",
        _A3,
    ),
    "rival_aicc": ("corrected Akaike information criterion, assuming independent tokens, by rival", "1", r"\mathrm{AICc}", _A3),
    "rival_bic": ("Bayesian information criterion, assuming independent tokens, by rival", "1", r"\mathrm{BIC}", _A3),
    "rival_residual_autocorrelation": ("lag-one autocorrelation of the residuals, by rival", "1", r"\hat\rho_1", _A3),
    "rival_long_run_noise": ("square root of the residuals' long-run variance, by rival", "nat", r"\sqrt{S(0)}", _A3),
}
BY_DOCUMENT = {
    "document_p_sink": ("weight of the sink in one document", "1", r"p_{\mathrm{sink}}", _A3),
    "document_p_base": ("weight of a plateau token, the document fitted alone", "1", r"p_{\mathrm{base}}", _A3),
    "document_eta": ("sensitivity, the document fitted alone", "1/token", r"\eta", _A3),
    "document_omega": ("frequency, the document fitted alone with the head's form", "rad/token", r"\omega", _A3),
    "document_t1": ("last position of the plateau, the document fitted alone", "token", "T_1", _A3),
    "document_t2": ("last position before the growth, the document fitted alone", "token", "T_2", _A3),
}
BY_FORM = {
    "form_rmse": ("root mean squared residual of the mean log weight, by form", "nat", r"\mathrm{RMSE}", _A3),
    "form_r2": ("coefficient of determination of the mean log weight, by form", "1", "R^2", _A3),
    "form_bic": ("Bayesian information criterion, assuming independent tokens, by form", "1", r"\mathrm{BIC}", _A3),
    "form_loss_left_out": (
        "mean squared residual of a document under the fit to the others, by form",
        "nat^2",
        r"\mathcal{L}_{\mathrm{out}}",
        _A3,
    ),
    "form_loss_left_out_se": (
        "standard error over documents of the left-out loss, by form",
        "nat^2",
        r"\mathrm{se}(\mathcal{L}_{\mathrm{out}})",
        _A3,
    ),
    "form_oscillation_to_noise": (
        "amplitude over its standard error in the residuals' noise at its frequency",
        "1",
        r"\eta\sqrt{(T_2-T_1)/2}/\sqrt{S(\omega)}",
        _A3,
    ),
    "form_growth_to_noise": ("total growth over the long-run noise", "1", r"\eta(L-T_2)/\sqrt{S(0)}", _A3),
    "form_t1_half_width": ("half-width of the 95% interval of T_1 in the residuals' noise", "token", r"\Delta T_1", _A3),
    "form_t2_half_width": ("half-width of the 95% interval of T_2 in the residuals' noise", "token", r"\Delta T_2", _A3),
    "form_omega_half_width": ("half-width of the 95% interval of omega in the residuals' noise", "rad/token", r"\Delta\omega", _A3),
    "form_oscillation_identified": ("the oscillation stands above the noise, by form", "1", r"\eta\cos\omega i \neq 0", _A3),
    "form_converged": ("search and lmfit both converged, by form", "1", r"\mathrm{ok}", _A3),
}
BY_TOKEN = {
    "log_weight_mean": ("document mean of the log weight; NaN at the sink", "nat", r"\overline{\log\alpha_i}", _A3),
    "log_weight_model": ("fitted log weight of the chosen form", "nat", r"\log\hat\alpha_i", _A3),
    "weight_mean": ("arithmetic mean of the weight over documents", "1", r"\overline{\alpha_i}", "Fig. 4"),
}


def dataset(capture: xr.Dataset, layers: list[dict[str, np.ndarray]]) -> xr.Dataset:
    """Return the /weights dataset from one dictionary of arrays a layer, named as here; the axis of heads is last but for positions."""
    found = {name: np.stack([layer[name] for layer in layers], axis=_layer_axis(name)) for name in layers[0]}
    out: dict[str, xr.Variable] = {}
    for dims, parameters in ((HEAD, PARAMETERS), (FORM, FORM_PARAMETERS)):
        for name, (long_name, units, symbol, equation, more) in parameters.items():
            spread = interval_of(name, found)
            words = {"long_name": long_name, "units": units, "symbol": symbol, "equation": equation}
            out |= described_parameter(name, dims, found[name], spread, judged=name in EFFECTS, **words, **more)
            out |= {key: described(dims, found[key], **attributes) for key, attributes in _beside(name, words) if key in found}
    for dims, table in ((HEAD, BY_HEAD), (FORM, BY_FORM), (RIVAL, BY_RIVAL), (DOCUMENT, BY_DOCUMENT), (TOKEN, BY_TOKEN)):
        for name, (long_name, units, symbol, equation) in table.items():
            out[name] = described(dims, found[name], long_name=long_name, units=units, symbol=symbol, equation=equation)
    out["preferred"].attrs |= {"flag_values": list(range(-1, len(RIVALS))), "flag_meanings": " ".join(("undetermined", *RIVALS))}
    out["form_chosen"].attrs |= {"flag_values": list(range(len(FORMS))), "flag_meanings": " ".join(FORMS)}
    out["sink_visible"] = sink_flag(capture)
    coords = {d: capture[d].variable for d in ("document", *TOKEN) if d in capture.coords}
    if "kv_head_of_head" in capture.coords:
        coords["kv_head_of_head"] = capture["kv_head_of_head"].variable
    names = {"form": FORMS, "rival": RIVALS}
    return xr.Dataset(out, coords=coords | {dim: xr.Variable((dim,), np.array(values, dtype=object)) for dim, values in names.items()})


def _layer_axis(name: str) -> int:
    """Return where the layers go: behind form, rival or document."""
    return int((name.startswith("form_") and name != "form_chosen") or name in BY_RIVAL or name in BY_DOCUMENT)


def _beside(name: str, words: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Return what may stand beside a parameter: lmfit's error, whether the data identify it, and why it has no error; names and attributes."""
    about = words["long_name"]
    symbol = words["symbol"]
    return [
        (
            f"{name}_se_tokens",
            {**words, "long_name": f"lmfit's standard error of {about}", "symbol": rf"\mathrm{{se}}_0({symbol})", "note": _TOKENS},
        ),
        (f"{name}_identified", {**words, "long_name": f"the data identify {about}", "units": "1"}),
        (f"{name}_reason", {**words, "long_name": f"why there is no standard error of {about}", "units": "1", **_CODES}),
    ]
