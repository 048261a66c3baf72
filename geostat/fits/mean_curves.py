"""Mean curves of one head fitted by lmfit, with document errors: norms by token, cosines by lag,
log weights by position.
"""

from __future__ import annotations

from collections.abc import Mapping

import lmfit
import numpy as np

from geostat.datasets.tokens import LayerTokens
from geostat.fits.document_errors import DocumentResult, with_document_errors
from geostat.fits.norms import fit as norms
from geostat.fits.similarity import fit as similarity
from geostat.fits.similarity import forms
from geostat.fits.similarity.one_form import Cosines, fit_batched, regular
from geostat.fits.weights import fit as weights
from geostat.fits.weights import forms as phases
from geostat.fits.weights.break_points import search
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import leave_one_out_mean
from geostat.statistics.least_squares import LMFIT_KEYWORDS
from geostat.statistics.losses import mean_over_documents

NEEDS: dict[str, Mapping[str, tuple[str, ...]]] = {
    "norms": norms.NEEDS,
    "similarity": similarity.NEEDS,
    "weights": weights.NEEDS,
}

SEARCHED = {"log_p_base": "b", "omega": "omega", "eta_tail": "eta_tail"}
"""Parameters of Assumption 3's Models, as `search` names them; which η it is hangs on the form."""


def two_level(each: FloatArray, seen: LayerTokens) -> DocumentResult | None:
    """Fit Assumption 1 to the mean profile of norms, shape (document, token), with lmfit; None
    where no norm is known.
    """
    norm = mean_over_documents(each)
    best = norms.estimate(norm, seen.first_content)
    if not np.isfinite(best["C"]):
        return None
    known = np.isfinite(norm)
    # Without a visible sink every token is content: positions start at 1 and λ has nothing to rest
    # on.
    position = np.arange(norm.size) + 1 - seen.first_content
    parameters = lmfit.Parameters()
    parameters.add("C", value=float(best["C"]), min=0.0)
    has_sink = bool(np.isfinite(best["lam"]))
    parameters.add("lam", value=float(best["lam"]) if has_sink else 1.0, vary=has_sink)
    result = norms.MODEL.fit(norm[known], parameters, position=position[known], **LMFIT_KEYWORDS)
    carries = np.isfinite(each[:, seen.first_content :]).any(axis=-1)
    without = norms.estimate(leave_one_out_mean(each), seen.first_content)
    return with_document_errors(result, {name: without[name][carries] for name in ("C", "lam")})


def by_lag(data: Cosines, form: str) -> DocumentResult | None:
    """Fit a form of similarity to the mean cosines of one row with lmfit; None where it cannot
    be fitted.
    """
    fit = fit_batched(form, data)
    if not np.isfinite(fit.estimate.squares[0]):
        return None
    result = forms.fit_row(form, data.lag, data.mean[0], data.pairs, fit.estimate, 0)
    carries = data.carries[:, 0]
    without = {
        name: fit.replicates.values[name].reshape(data.carries.shape)[carries, 0]
        for name in forms.FORM[form].parameters
    }
    if "beta" in without:  # the jackknife is of log β, carried over
        positive = np.where(without["beta"] > 0, without["beta"], np.nan)
        without["beta"] = result.params["beta"].value * np.log(positive)
    if not (fit.estimate.converged[0] and result.success and regular(result.covar)):
        without = {name: values * np.nan for name, values in without.items()}
    return with_document_errors(result, without)


def by_position(log_weight: FloatArray, seen: LayerTokens, form: str) -> DocumentResult | None:
    """Fit a form of Assumption 3 to mean log weights, shape (document, content token), with
    lmfit; None where it cannot be fitted.
    """
    mean = mean_over_documents(log_weight)
    results = search(
        np.concatenate([mean[None], leave_one_out_mean(log_weight)]), seen.first_content
    )
    rows = {name: each[weights.FORMS.index(form)] for name, each in results.items()}
    start = {name: float(each[0]) for name, each in rows.items()}
    if not np.isfinite(start["b"]):
        return None
    result = phases.fit_row(form, seen.position, mean, start)
    carries = np.isfinite(log_weight).any(axis=-1)
    searched = SEARCHED | {"eta": "eta_tail" if form == "monotone" else "eta_osc"}
    return with_document_errors(
        result, {name: rows[source][1:][carries] for name, source in searched.items()}
    )
