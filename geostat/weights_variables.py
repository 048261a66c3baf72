"""Names, units, symbols and equations of the variables of the /weights dataset. Imports numpy and xarray."""

from __future__ import annotations

import numpy as np
import xarray as xr

from geostat.fitting import described, described_parameter, sink_flag
from geostat.jackknife import Interval
from geostat.profile_search import FORMS

HEAD, FORM, TOKEN = ("layer", "head"), ("form", "layer", "head"), ("layer", "head", "position")
_A3 = "Assumption 3"
_NONE = "NaN where no oscillation is identified"
_LOG = "interval on the log scale, exponentiated"
PARAMETERS = {
    "p_sink": ("weight of the sink, arithmetic mean over documents", "1", r"p_{\mathrm{sink}}", _A3, {}),
    "p_base": ("weight of a plateau token, geometric mean over documents", "1", r"p_{\mathrm{base}}", _A3, {"scale": _LOG}),
    "eta": ("sensitivity of oscillation and growth", "1/token", r"\eta", _A3, {}),
    "omega": ("frequency of the oscillation", "rad/token", r"\omega", _A3, {"missing": f'"none": {_NONE}'}),
    "t1": ("last position of the plateau", "token", "T_1", _A3, {"scale": "integer; its standard error is rough"}),
    "t2": ("last position before the growth", "token", "T_2", _A3, {"scale": "integer; its standard error is rough"}),
    "total": ("measured sum of the weights", "1", r"\sum_i \alpha_i", "", {}),
}
BY_HEAD = {
    "total_model": ("sum of the fitted weights, sink included where visible", "1", r"\sum_i \hat\alpha_i", _A3),
    "rmse": ("root mean squared residual of the mean log weight", "nat", r"\mathrm{RMSE}", _A3),
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
    "mass_plateau": ("weight of the plateau, arithmetic mean", "1", r"\sum_{0<i\le T_1}\alpha_i", _A3),
    "mass_oscillation": ("weight of the oscillation, arithmetic mean", "1", r"\sum_{T_1<i\le T_2}\alpha_i", _A3),
    "mass_tail": ("weight of the growth phase, arithmetic mean", "1", r"\sum_{i>T_2}\alpha_i", _A3),
    "zero_weight_share": ("share of content weights that are exactly 0, left out of the mean log", "1", r"\mathrm{P}(\alpha_i = 0)", ""),
    "documents": ("documents that carry the head", "1", "K", ""),
}
BY_FORM = {
    "form_p_base": ("weight of a plateau token, by form", "1", r"p_{\mathrm{base}}", _A3),
    "form_eta": ("sensitivity; of the oscillation alone in the separate form", "1/token", r"\eta", _A3),
    "form_eta_tail": ("growth rate", "1/token", r"\eta_{\mathrm{tail}}", _A3),
    "form_omega": ("frequency of the oscillation, by form", "rad/token", r"\omega", _A3),
    "form_t1": ("last position of the plateau, by form", "token", "T_1", _A3),
    "form_t2": ("last position before the growth, by form", "token", "T_2", _A3),
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
    "form_oscillation_to_noise": ("amplitude over its standard error in white noise", "1", r"\eta\sqrt{(T_2-T_1)/2}/\sigma", _A3),
    "form_growth_to_noise": ("growth rate over its standard error in white noise", "1", r"\eta\sqrt{\sum(i-T_2)^2}/\sigma", _A3),
    "form_oscillation_identified": ("the oscillation stands above the noise, by form", "1", r"\eta\cos\omega i \neq 0", _A3),
    "form_converged": ("search and lmfit both converged, by form", "1", r"\mathrm{ok}", _A3),
}
BY_TOKEN = {
    "log_weight_mean": ("document mean of the log weight; NaN at the sink", "nat", r"\overline{\log\alpha_i}", _A3),
    "log_weight_model": ("fitted log weight of the chosen form", "nat", r"\log\hat\alpha_i", _A3),
    "weight_mean": ("arithmetic mean of the weight over documents", "1", r"\overline{\alpha_i}", "Fig. 4"),
}


def dataset(capture: xr.Dataset, layers: list[dict[str, np.ndarray]]) -> xr.Dataset:
    """Return the /weights dataset from one dictionary of arrays a layer, named as here; arrays by form have form first."""
    found = {name: np.stack([layer[name] for layer in layers], axis=1 if name in BY_FORM else 0) for name in layers[0]}
    out: dict[str, xr.Variable] = {}
    for name, (long_name, units, symbol, equation, more) in PARAMETERS.items():
        spread = Interval(se=found[f"{name}_se"], lower=found[f"{name}_lower"], upper=found[f"{name}_upper"])
        out |= described_parameter(
            name, HEAD, found[name], spread, long_name=long_name, units=units, symbol=symbol, equation=equation, **more
        )
    for dims, table in ((HEAD, BY_HEAD), (FORM, BY_FORM), (TOKEN, BY_TOKEN)):
        for name, (long_name, units, symbol, equation) in table.items():
            out[name] = described(dims, found[name], long_name=long_name, units=units, symbol=symbol, equation=equation)
    out["sink_visible"] = sink_flag(capture)
    coords = {d: capture[d].variable for d in TOKEN if d in capture.coords}
    if "kv_head_of_head" in capture.coords:
        coords["kv_head_of_head"] = capture["kv_head_of_head"].variable
    return xr.Dataset(out, coords=coords | {"form": xr.Variable(("form",), np.array(FORMS, dtype=object))})
