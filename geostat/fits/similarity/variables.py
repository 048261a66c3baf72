"""Names, units, symbols and equations of the variables of the /similarity dataset. Imports numpy and xarray."""

from __future__ import annotations

import numpy as np
import xarray as xr

from geostat.datasets.flags import flag_variable
from geostat.datasets.words import EFFECTS, described, described_parameter, sink_flag
from geostat.fits.similarity.forms import FORM, FORMS
from geostat.fits.similarity.pairs import chance_by_pair
from geostat.statistics.jackknife import interval_of

HEAD, GRAM, BINS = ("layer", "kv_head"), ("gram", "layer", "kv_head"), ("layer", "kv_head", "lag_bin")
_DECAY, _SINK, _FIGURE = "Assumption 2.1", "Assumption 2.2", "Fig. 3"
_HELD = "95% document jackknife, t(K-1), the fit held fixed"

Words = tuple[str, str, str, str]
"""long_name, units, symbol, equation."""

FIT_REASONS = {
    "no_data": "no document has a finite cosine",
    "too_few_lags": "fewer lags than parameters",
    "not_converged": "solver or lmfit did not converge; no errors",
    "at_bound": "a parameter is at its bound or undetermined; it has no error",
    "singular": "the parameters cannot be told apart; no errors",
    "one_document": "one document: no errors, no left-out loss",
    "replicates": "a fit without one of the documents failed or is at a bound: errors are rough or missing",
    "infeasible_content": "no vectors have these cosines, whatever the sink",
    "saturated": "as many parameters as lags: it meets them all, and its errors would say nothing",
}
HEAD_REASONS = {
    "no_data": "no document has a finite cosine",
    "one_document": "one document: no errors, the form is chosen by BIC",
    "no_sink_visible": "the analysed query does not see the sink",
    "no_sink_cosine": "the sink is visible, but its cosines are not finite",
    "steady_cosine": "the mean cosine is the same at every lag",
    "no_drift": "fewer than two blocks of positions share a lag bin",
    "two_documents": "two documents: drift_rms has no error",
    "no_dimension": "the capture does not tell the head's dimension: no floors",
}

FORM_PARAMETERS: dict[str, Words] = {
    "beta": ("decay of similarity", "1/token", r"\beta", _DECAY),
    "offset": ("cosine at long lags; 0 for forms without", "1", "c", _DECAY),
    "stretch": ("exponent of the stretched form; 1 for the others", "1", "s", _DECAY),
}
FORM_EFFECTS: dict[str, Words] = {
    "mae_by_lag": ("mean over lags of |mean cosine - model|", "1", r"\mathrm{MAE}_{\mathrm{lag}}", _FIGURE),
    "mae_by_pair": (
        "mean over pairs of |cosine - model|, density uniform within histogram bins",
        "1",
        r"\mathrm{MAE}_{\mathrm{pair}}",
        _FIGURE,
    ),
}
BY_GRAM: dict[str, Words] = {
    "rmse": ("root mean squared residual of the mean cosine by lag, weighted by pairs", "1", r"\mathrm{RMSE}", _DECAY),
    "r2": ("coefficient of determination of the mean cosine by lag, weighted by pairs", "1", "R^2", _DECAY),
    "loss_left_out": (
        "mean squared residual of a document under the fit to the others, weighted by pairs",
        "1",
        r"\mathcal{L}_{\mathrm{out}}",
        _DECAY,
    ),
    "loss_left_out_se": ("standard error over documents of the left-out loss", "1", r"\mathrm{se}(\mathcal{L}_{\mathrm{out}})", _DECAY),
    "loss_excess": ("left-out loss above that of the best form, mean over documents", "1", r"\Delta\mathcal{L}_{\mathrm{out}}", _DECAY),
    "loss_excess_se": ("standard error over documents of the excess loss", "1", r"\mathrm{se}(\Delta\mathcal{L}_{\mathrm{out}})", _DECAY),
    "within_one_se": ("the form's excess loss is within its standard error", "1", r"\Delta\mathcal{L} \leq \mathrm{se}", _DECAY),
    "bic": ("Bayesian information criterion, assuming independent lags", "1", r"\mathrm{BIC}", _DECAY),
    "aicc": ("Akaike information criterion, corrected, assuming independent lags", "1", r"\mathrm{AICc}", _DECAY),
    "rho0_edge": ("largest sink cosine for which the fitted Gram is feasible", "1", r"|\rho_0|_{\max}", "Assumption 2"),
    "feasible": ("the fitted Gram with its own sink cosine is positive semidefinite", "1", r"G \succeq 0", "Assumption 2"),
    "beta_at_bound": ("the optimum of beta is at a bound (0, or 20 at lag 1)", "1", r"\beta \in \{0, 20\}", _DECAY),
    "offset_at_bound": ("the optimum of the offset is at a bound (-1 or 1) or undetermined (beta = 0)", "1", r"c \in \{-1, 1\}", _DECAY),
    "stretch_at_bound": ("the optimum of the stretch is at a bound (0.1 or 4) or undetermined", "1", r"s \in \{0.1, 4\}", _DECAY),
    "converged": ("solver and lmfit both converged", "1", r"\mathrm{ok}", _DECAY),
    "singular": ("lmfit's covariance is singular", "1", r"\det\Sigma = 0", _DECAY),
    "beta_se_lags": (
        "standard error of beta by lmfit, lags taken as independent",
        "1/token",
        r"\mathrm{se}_{\mathrm{lags}}(\beta)",
        _DECAY,
    ),
    "offset_se_lags": ("standard error of the offset by lmfit, lags taken as independent", "1", r"\mathrm{se}_{\mathrm{lags}}(c)", _DECAY),
    "stretch_se_lags": (
        "standard error of the stretch by lmfit, lags taken as independent",
        "1",
        r"\mathrm{se}_{\mathrm{lags}}(s)",
        _DECAY,
    ),
}
HEAD_EFFECTS: dict[str, Words] = {
    "rho0": ("cosine between the sink and a content token", "1", r"\rho_0", _SINK),
    "rho0_spread": ("standard deviation of the sink cosine over tokens of a document", "1", r"\mathrm{sd}_j(\rho_{0j})", _SINK),
    "sink_slope": ("change of the sink cosine from the first content token to the last", "1", r"\Delta_j\rho_{0j}", _SINK),
    "negative_fraction": ("share of negative cosines among pairs of content tokens", "1", r"\mathrm{P}(\rho_{ij} < 0)", "eq. (6)"),
    "drift_slope": ("change of the mean cosine at fixed lag from the first token to the last", "1", r"\Delta_i\rho_{i,i+k}", _DECAY),
    "drift_rms": (
        "root mean square deviation of the mean cosine of a block of positions from its lag's, noise removed",
        "1",
        r"\mathrm{rms}_i(\rho_{i,i+k})",
        _DECAY,
    ),
}
BY_HEAD: dict[str, Words] = {
    "rho0_spread_floor": ("spread that tokens of one true sink cosine have in d dimensions, (1 − ρ₀²)/√d", "1",
                          r"(1-\rho_0^2)/\sqrt{d}", _SINK),
    "drift_document_rms": ("root mean square deviation of a block's mean cosine from its lag's in single documents, noise included", "1",
                           r"\mathrm{rms}_{i,k}", _DECAY),
    "chance_by_lag": ("error by lag of a zero cosine for independent random directions, mean over lags of √(2/(π d m_k K))", "1",
                      r"\mathrm{E}|\bar c_k|", _FIGURE),
    "offset_gain": ("left-out loss of the exponential form minus that of the offset form", "1", r"\Delta\mathcal{L}_{\mathrm{out}}", _DECAY),
    "offset_gain_se": ("standard error over documents of the offset's gain", "1", r"\mathrm{se}(\Delta\mathcal{L}_{\mathrm{out}})", _DECAY),
    "offset_preferred": ("the offset's gain exceeds one standard error (by BIC with one document)", "1", r"c \neq 0", _DECAY),
    "documents": ("documents that carry the head", "1", "K", ""),
}  # fmt: skip


def dataset(capture: xr.Dataset, by_form: dict[str, np.ndarray], by_head: dict[str, np.ndarray]) -> xr.Dataset:
    """Return the /similarity dataset from arrays (gram, layer, kv_head) and (layer, kv_head, ...), named as here."""
    out: dict[str, xr.Variable] = {}
    for dims, found, table in ((GRAM, by_form, FORM_PARAMETERS | FORM_EFFECTS), (HEAD, by_head, HEAD_EFFECTS)):
        for name, words in table.items():
            out |= _with_interval(name, dims, found, words)
    for dims, found, table in ((GRAM, by_form, BY_GRAM), (HEAD, by_head, BY_HEAD)):
        for name, (long_name, units, symbol, equation) in table.items():
            out[name] = described(dims, found[name], long_name=long_name, units=units, symbol=symbol, equation=equation)
    by_bin = ("change of the mean cosine in a lag bin from the first token to the last", "1", r"\Delta_i\rho_{i,i+k}", _DECAY)
    out |= _with_interval("drift_slope_by_lag", BINS, by_head, by_bin)
    out["flags"] = flag_variable(GRAM, by_form["flags"], FIT_REASONS, long_name="why a number of a fit is missing or rough")
    out["head_flags"] = flag_variable(HEAD, by_head["head_flags"], HEAD_REASONS, long_name="why a number of a head is missing or rough")
    out["chosen"] = described(
        HEAD, by_head["chosen"], long_name="form that predicts left-out documents: the simplest within one standard error of the best", units="1",
        symbol=r"\hat f", equation=_DECAY, flag_values=[-1, *range(len(FORMS))], flag_meanings=" ".join(("none", *FORMS)),
    )  # fmt: skip
    return _with_coordinates(capture, out)


def _with_interval(name: str, dims: tuple[str, ...], found: dict[str, np.ndarray], words: Words) -> dict[str, xr.Variable]:
    long_name, units, symbol, equation = words
    spread = interval_of(name, found)
    words_of = {"long_name": long_name, "units": units, "symbol": symbol, "equation": equation}
    made = described_parameter(name, dims, found[name], spread, judged=name in EFFECTS, **words_of)
    if name == "mae_by_pair":
        for variable in made.values():
            variable.attrs["interval"] = _HELD
    if name == "beta":
        for variable in made.values():
            variable.attrs["note"] = "an exponent without unit in the power forms; NaN for the constant, which has none"
    return made


def _with_coordinates(capture: xr.Dataset, out: dict[str, xr.Variable]) -> xr.Dataset:
    dimension = int(capture.attrs.get("dimension", 0))
    floor = chance_by_pair(dimension) if dimension else np.nan
    out["chance_by_pair"] = described(
        (), np.asarray(floor, dtype=np.float64), long_name="mean absolute cosine of two independent random directions, about √(2/(π d))", units="1",
        symbol=r"\mathrm{E}|\cos|", equation=_FIGURE,
    )  # fmt: skip
    numbers = np.array([form.number for form in FORM.values()])
    out["parameters"] = described(("gram",), numbers, long_name="free parameters of the form", units="1", symbol="p", equation=_DECAY)
    out["sink_visible"] = sink_flag(capture)
    coords = {d: capture[d].variable for d in (*HEAD, "document", "lag_bin_start", "lag_bin_stop") if d in capture.coords}
    names = xr.Variable(("gram",), np.array(FORMS, dtype=object), {"long_name": "form of similarity"})
    return xr.Dataset(out, coords=coords | {"gram": names})
