"""Names, units, symbols and equations of the variables of the /similarity dataset. Imports numpy and xarray."""

from __future__ import annotations

import numpy as np
import xarray as xr

from geostat.decay import FORMS
from geostat.fitting import described, described_parameter, sink_flag
from geostat.jackknife import Interval

HEAD, GRAM = ("layer", "kv_head"), ("gram", "layer", "kv_head")
_DECAY, _SINK = "Assumption 2.1", "Assumption 2.2"
BY_GRAM = {
    "mae_by_lag": ("mean over lags of |mean cosine - model|", "1", r"\mathrm{MAE}_{\mathrm{lag}}", "Fig. 3"),
    "mae_by_pair": (
        "mean over pairs of |cosine - model|, density uniform within histogram bins",
        "1",
        r"\mathrm{MAE}_{\mathrm{pair}}",
        "Fig. 3",
    ),
    "rmse": ("root mean squared residual of the mean cosine by lag, weighted by pairs", "1", r"\mathrm{RMSE}", _DECAY),
    "r2": ("coefficient of determination of the mean cosine by lag, weighted by pairs", "1", "R^2", _DECAY),
    "loss_left_out": (
        "mean squared residual of a document under the fit to the others, weighted by pairs",
        "1",
        r"\mathcal{L}_{\mathrm{out}}",
        _DECAY,
    ),
    "loss_left_out_se": ("standard error over documents of the left-out loss", "1", r"\mathrm{se}(\mathcal{L}_{\mathrm{out}})", _DECAY),
    "bic": ("Bayesian information criterion, assuming independent lags", "1", r"\mathrm{BIC}", _DECAY),
    "rho0_edge": ("largest sink cosine for which the fitted Gram is feasible", "1", r"|\rho_0|_{\max}", "Assumption 2"),
    "feasible": ("the fitted Gram with its own sink cosine is positive semidefinite", "1", r"G \succeq 0", "Assumption 2"),
    "beta_at_bound": ("the optimum of beta is at a bound (0 or 20)", "1", r"\beta \in \{0, 20\}", _DECAY),
    "offset_at_bound": ("the optimum of the offset is at a bound (-1 or 1) or undetermined (beta = 0)", "1", r"c \in \{-1, 1\}", _DECAY),
    "converged": ("solver and lmfit both converged", "1", r"\mathrm{ok}", _DECAY),
}
PARAMETERS = {
    "beta": ("decay of similarity", "1/token", r"\beta", _DECAY),
    "offset": ("cosine at long lags; 0 for the exponential form", "1", "c", _DECAY),
}
BY_HEAD = {
    "rho0_spread": ("standard deviation of the sink cosine over tokens of a document", "1", r"\mathrm{sd}_j(\rho_{0j})", _SINK),
    "negative_fraction": (
        "share of negative cosines among pairs of content tokens",
        "1",
        r"\mathrm{P}(\rho_{ij} < 0)",
        "eq. (6)",
    ),
    "offset_gain": (
        "left-out loss of the exponential form minus that of the offset form",
        "1",
        r"\Delta\mathcal{L}_{\mathrm{out}}",
        _DECAY,
    ),
    "offset_gain_se": ("standard error over documents of the offset's gain", "1", r"\mathrm{se}(\Delta\mathcal{L}_{\mathrm{out}})", _DECAY),
    "offset_preferred": ("the offset's gain exceeds one standard error (by BIC with one document)", "1", r"c \neq 0", _DECAY),
    "documents": ("documents that carry the head", "1", "K", ""),
}


def dataset(capture: xr.Dataset, layers: list[dict[str, np.ndarray]]) -> xr.Dataset:
    """Return the /similarity dataset from one dictionary of arrays a layer, named as here; arrays by Gram have gram first."""
    by_gram = BY_GRAM.keys() | {f"{name}{part}" for name in PARAMETERS for part in ("", "_se", "_lower", "_upper")}
    found = {name: np.stack([layer[name] for layer in layers], axis=1 if name in by_gram else 0) for name in layers[0]}
    out: dict[str, xr.Variable] = {}
    parameters = {name: (GRAM, words) for name, words in PARAMETERS.items()} | {
        "rho0": (HEAD, ("cosine between the sink and a content token", "1", r"\rho_0", _SINK))
    }
    for name, (dims, (long_name, units, symbol, equation)) in parameters.items():
        spread = Interval(se=found[f"{name}_se"], lower=found[f"{name}_lower"], upper=found[f"{name}_upper"])
        out |= described_parameter(name, dims, found[name], spread, long_name=long_name, units=units, symbol=symbol, equation=equation)
    for dims, table in ((GRAM, BY_GRAM), (HEAD, BY_HEAD)):
        for name, (long_name, units, symbol, equation) in table.items():
            out[name] = described(dims, found[name], long_name=long_name, units=units, symbol=symbol, equation=equation)
    out["sink_visible"] = sink_flag(capture)
    coords = {d: capture[d].variable for d in HEAD if d in capture.coords}
    return xr.Dataset(out, coords=coords | {"gram": xr.Variable(("gram",), np.array(FORMS, dtype=object))})
