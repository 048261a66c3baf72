"""Records of the variables of /similarity."""

from __future__ import annotations

from functools import partial
from typing import Final

from empirical.schema import Quantity
from geostat.datasets.flags import codes, flags
from geostat.fits.similarity.forms import FORMS, PARAMETER
from geostat.fits.table import table

HEAD: Final = ("layer", "kv_head")
GRAM: Final = ("gram", *HEAD)

FIT_REASONS: Final = {
    "no_data": "no document has a finite cosine",
    "too_few_lags": "fewer lags than parameters",
    "not_converged": "solver or lmfit did not converge; no standard errors",
    "at_bound": "a parameter is at its bound or undetermined, without standard error",
    "singular": "the parameters cannot be distinguished; no standard errors",
    "one_document": "one document: no standard errors, no held-out loss",
    "replicates": (
        "a leave-one-out fit failed or is at a bound: standard errors are rough or missing"
    ),
    "infeasible_content": "the Gram matrix of content tokens is not positive semidefinite",
    "saturated": "as many parameters as lags: the fit is exact, standard errors are meaningless",
}
HEAD_REASONS: Final = {
    "no_data": "no document has a finite cosine",
    "one_document": "one document: no standard errors, BIC chooses the form",
    "no_sink_visible": "the analysed query does not see the sink",
    "no_sink_cosine": "the sink is visible, but its cosines are not finite",
    "steady_cosine": "the mean cosine is the same at every lag",
    "no_drift": "fewer than two blocks of positions share a lag bin",
    "two_documents": "two documents: drift_rms has no standard error",
    "no_dimension": "the capture lacks the head dimension: no chance levels",
}

_form = partial(Quantity, equation="Assumption 2.1", dims=GRAM)
_PARAMETERS: Final = table(
    r"""
    beta | 1/token | \beta | decay of similarity | tested | note: a unitless exponent in the power
        forms; NaN for the constant, which has no decay
    offset | 1 | c | cosine at long lags; 0 for forms without offset | tested
    stretch | 1 | s | exponent of the stretched form; 1 for the others | estimated
""",
    equation="Assumption 2.1",
    dims=GRAM,
)
BY_FORM: Final = (
    *_PARAMETERS.values(),
    *table(
        r"""
    mae_by_lag | 1 | \mathrm{MAE}_{\mathrm{lag}} | mean over lags of |mean cosine - model| | tested
        | Fig. 3
    mae_by_pair | 1 | \mathrm{MAE}_{\mathrm{pair}} | mean over pairs of |cosine - model|, density
        uniform within histogram bins | estimated | Fig. 3 | interval: 95% document jackknife,
        t(K-1), the fit held fixed
    rmse | 1 | \mathrm{RMSE} | root mean squared residual of the mean cosine by lag, weighted by
        pairs
    r2 | 1 | R^2 | coefficient of determination of the mean cosine by lag, weighted by pairs
    loss_held_out | 1 | \mathcal{L}_{\mathrm{out}} | mean squared residual of a held-out document,
        weighted by pairs
    loss_held_out_se | 1 | \mathrm{se}(\mathcal{L}_{\mathrm{out}}) | standard error over documents
        of the held-out loss
    loss_excess | 1 | \Delta\mathcal{L}_{\mathrm{out}} | held-out loss minus that of the best form,
        mean over documents
    loss_excess_se | 1 | \mathrm{se}(\Delta\mathcal{L}_{\mathrm{out}}) | standard error over
        documents of the excess loss
    within_one_se | 1 | \Delta\mathcal{L} \leq \mathrm{se} | the form's excess loss is within its
        standard error
    clearly_lowest | 1 | \Delta\mathcal{L} > t\,\mathrm{se} | lowest held-out loss, below every
        other form's by a paired t-test at 95%
    bic | 1 | \mathrm{BIC} | Bayesian information criterion, assuming independent lags
    aicc | 1 | \mathrm{AICc} | Akaike information criterion, corrected, assuming independent lags
    rho0_edge | 1 | |\rho_0|_{\max} | largest sink cosine for which the fitted Gram is feasible |
        Assumption 2
    feasible | 1 | G \succeq 0 | the fitted Gram with the head's sink cosine is positive
        semidefinite | Assumption 2
""",
        equation="Assumption 2.1",
        dims=GRAM,
    ).values(),
    *(
        _form(
            f"{name}_at_bound",
            f"the optimum of {parameter.called} is {parameter.bound}",
            "1",
            parameter.bound_symbol,
        )
        for name, parameter in PARAMETER.items()
    ),
    *table(
        r"""
    converged | 1 | \mathrm{ok} | solver, and lmfit where it refines, converged
    singular | 1 | \det\Sigma = 0 | the covariance of the parameters is singular
""",
        equation="Assumption 2.1",
        dims=GRAM,
    ).values(),
    *(
        _form(
            f"{name}_se_lags",
            f"standard error of {PARAMETER[name].called}, if lags were independent",
            record.units,
            rf"\mathrm{{se}}_{{\mathrm{{lags}}}}({record.symbol})",
        )
        for name, record in _PARAMETERS.items()
    ),
    flags("flags", "why a number of a fit is missing or imprecise", FIT_REASONS, GRAM),
    _form("parameters", "free parameters of the form", "1", "p", dims=("gram",)),
)
BY_HEAD: Final = (
    *table(
        r"""
    rho0 | 1 | \rho_0 | cosine between the sink and a content token | tested | Assumption 2.2
    rho0_spread | 1 | \mathrm{sd}_j(\rho_{0j}) | standard deviation of the sink cosine over tokens
        within a document | estimated | Assumption 2.2
    sink_slope | 1 | \Delta_j\rho_{0j} | change of the sink cosine from the first content token to
        the last | tested | Assumption 2.2
    negative_fraction | 1 | \mathrm{P}(\rho_{ij} < 0) | share of negative cosines among pairs of
        content tokens | estimated | eq. (6)
    drift_slope | 1 | \Delta_i\rho_{i,i+k} | change of the mean cosine at fixed lag from the first
        token to the last | tested
    drift_rms | 1 | \mathrm{rms}_i(\rho_{i,i+k}) | root mean square deviation of a position block's
        mean cosine from its lag's mean, noise removed | estimated
    drift_slope_by_lag | 1 | \Delta_i\rho_{i,i+k} | change of the mean cosine in a lag bin from the
        first token to the last | estimated | dims: layer kv_head lag_bin
    rho0_spread_floor | 1 | (1-\rho_0^2)/\sqrt{d} | spread of sink cosines in d dimensions if the
        true cosine is constant, (1 − ρ₀²)/√d | Assumption 2.2
    drift_document_rms | 1 | \mathrm{rms}_{i,k} | root mean square deviation of a position block's
        mean cosine from its lag's mean in single documents, noise included
    chance_by_lag | 1 | \mathrm{E}|\bar c_k| | chance level of the error by lag for random
        directions, mean over lags of √(2/(π d m_k K)) | Fig. 3
    chance_by_pair | 1 | \mathrm{E}|\cos| | mean absolute cosine of two independent random
        directions, about √(2/(π d)) | Fig. 3 | dims: none
    offset_gain | 1 | \Delta\mathcal{L}_{\mathrm{out}} | held-out loss of the exponential form minus
        that of the offset form
    offset_gain_se | 1 | \mathrm{se}(\Delta\mathcal{L}_{\mathrm{out}}) | standard error over
        documents of the offset's gain
    offset_preferred | 1 | c \neq 0 | the offset's gain exceeds one standard error (by BIC with one
        document)
    documents | 1 | K | documents that carry the head | none
""",
        equation="Assumption 2.1",
        dims=HEAD,
    ).values(),
    flags("head_flags", "why a number of a head is missing or imprecise", HEAD_REASONS, HEAD),
    codes(
        "chosen",
        "preferred form: simplest within one standard error of the lowest held-out loss",
        FORMS,
        missing="none",
        symbol=r"\hat f",
        equation="Assumption 2.1",
        dims=HEAD,
    ),
)
