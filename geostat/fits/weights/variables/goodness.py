"""Records of goodness of fit: of the chosen form, of every form, of every rival; the choice among
them, and the curves that they are fitted to.
"""

from __future__ import annotations

from geostat.datasets.flags import codes
from geostat.fits.weights.break_points import FORMS
from geostat.fits.weights.rivals import RIVALS
from geostat.fits.weights.variables.effects import RMSE
from geostat.fits.weights.variables.kinds import HEAD, TOKEN, along, estimate, head
from geostat.fits.weights.variables.noise import AUTOCORRELATION, LONG_RUN

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
CONVERGED = head("converged", "search and lmfit both converged", "1", r"\mathrm{ok}")
SIMPLE_RIVALS = (
    estimate("power_law_gamma", "exponent of the power-law rival", "1", r"\gamma", equation=""),
    estimate(
        "no_plateau_eta",
        "growth rate of the rival without a plateau",
        "1/token",
        r"\eta_{\mathrm{all}}",
        equation="",
    ),
)
FIT = (
    head("mae", "mean absolute residual of the mean log weight", "nat", r"\mathrm{MAE}"),
    _R2,
    _BIC,
    *_LEFT_OUT,
)
GAINS = (
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
)
DATA = (
    head(
        "zero_weight_share",
        "share of content weights that are exactly 0, left out of the mean log",
        "1",
        r"\mathrm{P}(\alpha_i = 0)",
        equation="",
    ),
    head("documents", "documents that carry the head", "1", "K", equation=""),
)
CHOICE = (
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
)
CURVES = (
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
BY_FORM = along("form", "by form", RMSE, _R2, _BIC, *_LEFT_OUT, CONVERGED)
_AICC = head(
    "aicc",
    "corrected Akaike information criterion, assuming independent tokens",
    "1",
    r"\mathrm{AICc}",
)
BY_RIVAL = along("rival", "by rival", RMSE, *_LEFT_OUT, _AICC, _BIC, AUTOCORRELATION, LONG_RUN)
