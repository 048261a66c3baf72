"""Variables of /similarity: their records."""

from __future__ import annotations

from functools import partial
from typing import Final

from geostat.datasets.flags import codes, flags
from geostat.datasets.variable import Variable
from geostat.fits.similarity.forms import FORMS

HEAD, GRAM, BINS = (
    ("layer", "kv_head"),
    ("gram", "layer", "kv_head"),
    ("layer", "kv_head", "lag_bin"),
)
_DECAY, _SINK, _FIGURE = "Assumption 2.1", "Assumption 2.2", "Fig. 3"

FIT_REASONS: Final = {
    "no_data": "no document has a finite cosine",
    "too_few_lags": "fewer lags than parameters",
    "not_converged": "solver or lmfit did not converge; no errors",
    "at_bound": "a parameter is at its bound or undetermined; it has no error",
    "singular": "the parameters cannot be told apart; no errors",
    "one_document": "one document: no errors, no left-out loss",
    "replicates": (
        "a fit without one of the documents failed or is at a bound: errors are rough or missing"
    ),
    "infeasible_content": "no vectors have these cosines, whatever the sink",
    "saturated": "as many parameters as lags: it meets them all, and its errors would say nothing",
}
HEAD_REASONS: Final = {
    "no_data": "no document has a finite cosine",
    "one_document": "one document: no errors, the form is chosen by BIC",
    "no_sink_visible": "the analysed query does not see the sink",
    "no_sink_cosine": "the sink is visible, but its cosines are not finite",
    "steady_cosine": "the mean cosine is the same at every lag",
    "no_drift": "fewer than two blocks of positions share a lag bin",
    "two_documents": "two documents: drift_rms has no error",
    "no_dimension": "the capture does not tell the head's dimension: no floors",
}

_form = partial(Variable, equation=_DECAY, dims=GRAM)
_fitted = partial(_form, estimated=True)
_BETA_NOTE = {
    "note": "an exponent without unit in the power forms; NaN for the constant, which has none"
}
_LOSS, _EXCESS = r"\mathcal{L}_{\mathrm{out}}", r"\Delta\mathcal{L}_{\mathrm{out}}"
BY_FORM: Final = (
    _fitted("beta", "decay of similarity", "1/token", r"\beta", more=_BETA_NOTE, judged=True),
    _fitted("offset", "cosine at long lags; 0 for forms without", "1", "c", judged=True),
    _fitted("stretch", "exponent of the stretched form; 1 for the others", "1", "s"),
    _fitted(
        "mae_by_lag",
        "mean over lags of |mean cosine - model|",
        "1",
        r"\mathrm{MAE}_{\mathrm{lag}}",
        equation=_FIGURE,
        judged=True,
    ),
    _fitted(
        "mae_by_pair",
        "mean over pairs of |cosine - model|, density uniform within histogram bins",
        "1",
        r"\mathrm{MAE}_{\mathrm{pair}}",
        equation=_FIGURE,
        more={"interval": "95% document jackknife, t(K-1), the fit held fixed"},
    ),
    _form(
        "rmse",
        "root mean squared residual of the mean cosine by lag, weighted by pairs",
        "1",
        r"\mathrm{RMSE}",
    ),
    _form(
        "r2",
        "coefficient of determination of the mean cosine by lag, weighted by pairs",
        "1",
        "R^2",
    ),
    _form(
        "loss_left_out",
        "mean squared residual of a document under the fit to the others, weighted by pairs",
        "1",
        _LOSS,
    ),
    _form(
        "loss_left_out_se",
        "standard error over documents of the left-out loss",
        "1",
        rf"\mathrm{{se}}({_LOSS})",
    ),
    _form(
        "loss_excess",
        "left-out loss above that of the best form, mean over documents",
        "1",
        _EXCESS,
    ),
    _form(
        "loss_excess_se",
        "standard error over documents of the excess loss",
        "1",
        rf"\mathrm{{se}}({_EXCESS})",
    ),
    _form(
        "within_one_se",
        "the form's excess loss is within its standard error",
        "1",
        r"\Delta\mathcal{L} \leq \mathrm{se}",
    ),
    _form(
        "clearly_lowest",
        "left-out loss is the lowest, every other form's above it by a paired t-test at 95%",
        "1",
        r"\Delta\mathcal{L} > t\,\mathrm{se}",
    ),
    _form("bic", "Bayesian information criterion, assuming independent lags", "1", r"\mathrm{BIC}"),
    _form(
        "aicc",
        "Akaike information criterion, corrected, assuming independent lags",
        "1",
        r"\mathrm{AICc}",
    ),
    _form(
        "rho0_edge",
        "largest sink cosine for which the fitted Gram is feasible",
        "1",
        r"|\rho_0|_{\max}",
        equation="Assumption 2",
    ),
    _form(
        "feasible",
        "the fitted Gram with its own sink cosine is positive semidefinite",
        "1",
        r"G \succeq 0",
        equation="Assumption 2",
    ),
    _form(
        "beta_at_bound",
        "the optimum of beta is at a bound (0, or 20 at lag 1)",
        "1",
        r"\beta \in \{0, 20\}",
    ),
    _form(
        "offset_at_bound",
        "the optimum of the offset is at a bound (-1 or 1) or undetermined (beta = 0)",
        "1",
        r"c \in \{-1, 1\}",
    ),
    _form(
        "stretch_at_bound",
        "the optimum of the stretch is at a bound (0.1 or 4) or undetermined",
        "1",
        r"s \in \{0.1, 4\}",
    ),
    _form("converged", "solver and lmfit both converged", "1", r"\mathrm{ok}"),
    _form("singular", "lmfit's covariance is singular", "1", r"\det\Sigma = 0"),
    _form(
        "beta_se_lags",
        "standard error of beta by lmfit, lags taken as independent",
        "1/token",
        r"\mathrm{se}_{\mathrm{lags}}(\beta)",
    ),
    _form(
        "offset_se_lags",
        "standard error of the offset by lmfit, lags taken as independent",
        "1",
        r"\mathrm{se}_{\mathrm{lags}}(c)",
    ),
    _form(
        "stretch_se_lags",
        "standard error of the stretch by lmfit, lags taken as independent",
        "1",
        r"\mathrm{se}_{\mathrm{lags}}(s)",
    ),
    flags("flags", "why a number of a fit is missing or rough", FIT_REASONS, GRAM),
    Variable("parameters", "free parameters of the form", "1", "p", _DECAY, dims=("gram",)),
)

_head = partial(Variable, dims=HEAD)
_estimate = partial(_head, estimated=True)
_drift = partial(_estimate, equation=_DECAY)
_gain = partial(_head, equation=_DECAY)
BY_HEAD: Final = (
    _estimate(
        "rho0",
        "cosine between the sink and a content token",
        "1",
        r"\rho_0",
        _SINK,
        judged=True,
    ),
    _estimate(
        "rho0_spread",
        "standard deviation of the sink cosine over tokens of a document",
        "1",
        r"\mathrm{sd}_j(\rho_{0j})",
        _SINK,
    ),
    _estimate(
        "sink_slope",
        "change of the sink cosine from the first content token to the last",
        "1",
        r"\Delta_j\rho_{0j}",
        _SINK,
        judged=True,
    ),
    _estimate(
        "negative_fraction",
        "share of negative cosines among pairs of content tokens",
        "1",
        r"\mathrm{P}(\rho_{ij} < 0)",
        "eq. (6)",
    ),
    _drift(
        "drift_slope",
        "change of the mean cosine at fixed lag from the first token to the last",
        "1",
        r"\Delta_i\rho_{i,i+k}",
        judged=True,
    ),
    _drift(
        "drift_rms",
        "root mean square deviation of the mean cosine of a block of positions from its lag's,"
        " noise removed",
        "1",
        r"\mathrm{rms}_i(\rho_{i,i+k})",
    ),
    _drift(
        "drift_slope_by_lag",
        "change of the mean cosine in a lag bin from the first token to the last",
        "1",
        r"\Delta_i\rho_{i,i+k}",
        dims=BINS,
    ),
    _head(
        "rho0_spread_floor",
        "spread that tokens of one true sink cosine have in d dimensions, (1 − ρ₀²)/√d",
        "1",
        r"(1-\rho_0^2)/\sqrt{d}",
        _SINK,
    ),
    _head(
        "drift_document_rms",
        "root mean square deviation of a block's mean cosine from its lag's in single documents,"
        " noise included",
        "1",
        r"\mathrm{rms}_{i,k}",
        _DECAY,
    ),
    _head(
        "chance_by_lag",
        "error by lag of a zero cosine for independent random directions, mean over lags of √(2/(π"
        " d m_k K))",
        "1",
        r"\mathrm{E}|\bar c_k|",
        _FIGURE,
    ),
    Variable(
        "chance_by_pair",
        "mean absolute cosine of two independent random directions, about √(2/(π d))",
        "1",
        r"\mathrm{E}|\cos|",
        _FIGURE,
    ),
    _gain(
        "offset_gain",
        "left-out loss of the exponential form minus that of the offset form",
        "1",
        _EXCESS,
    ),
    _gain(
        "offset_gain_se",
        "standard error over documents of the offset's gain",
        "1",
        rf"\mathrm{{se}}({_EXCESS})",
    ),
    _gain(
        "offset_preferred",
        "the offset's gain exceeds one standard error (by BIC with one document)",
        "1",
        r"c \neq 0",
    ),
    _head("documents", "documents that carry the head", "1", "K"),
    flags("head_flags", "why a number of a head is missing or rough", HEAD_REASONS, HEAD),
    codes(
        "chosen",
        "form that predicts left-out documents: the simplest within one standard error of the best",
        FORMS,
        missing="none",
        symbol=r"\hat f",
        equation=_DECAY,
        dims=HEAD,
    ),
)
