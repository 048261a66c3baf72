"""One head's fit as lmfit or statsmodels hands it back, with its report, residuals and confidence tools.

Errors in lmfit's results are a document jackknife's (`document_errors`), as in the fit datasets. Imports xarray, lmfit and the three fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import lmfit
import numpy as np
import xarray as xr

from geostat import decay, norms, norms_trend, norms_variance, phases, similarity, weights
from geostat.document_errors import DocumentResult, with_document_errors
from geostat.errors import InputError
from geostat.fitting import LMFIT_KEYWORDS, LayerTokens, index_of, layer_tokens, mean_over_documents, require
from geostat.jackknife import FloatArray, leave_one_out_mean
from geostat.profile_search import search
from geostat.similarity_fit import Cosines, fit_batched, regular

if TYPE_CHECKING:
    from statsmodels.regression.linear_model import RegressionResultsWrapper
    from statsmodels.regression.mixed_linear_model import MixedLMResultsWrapper

FORMS = {"norms": ("two-level", "trend", "variance"), "similarity": decay.FORMS, "weights": weights.FORMS}
"""Forms each assumption can be fitted with."""
NEEDS: dict[str, Mapping[str, tuple[str, ...]]] = {"norms": norms.NEEDS, "similarity": similarity.NEEDS, "weights": weights.NEEDS}
PRINTED = {"norms": "two-level", "similarity": "exponential", "weights": "shared"}
SEARCHED = {"log_p_base": "b", "omega": "omega", "eta_tail": "eta_tail"}
"""Parameters of Assumption 3's Models, as `search` names them; η is that of the oscillation, of the monotone form that of the growth."""


def fit_head(
    capture: xr.Dataset, layer: int, head: int, which: str = "similarity", form: str | None = None
) -> lmfit.model.ModelResult | RegressionResultsWrapper | MixedLMResultsWrapper:
    """Fit one assumption to the document mean of one query head and return lmfit's ModelResult.

    `result.fit_report()` prints it. Errors and correlations are a document jackknife's, whose replicates repeat the search for break points; one document
    gives none. Whether a phase of the weights stands out of the noise at all is told by /weights. Parameters at a bound, and the break points of the
    weights, are held fixed. Two forms of "norms" are statsmodels', whose `result.summary()` prints them:
    "trend", the mean profile's line with Newey-West errors (`norms_trend.line_of_profile`), and "variance", the mixed model of document, position and
    residual (`norms_variance.mixed_model`), which takes seconds.

    Args:
        capture: a /capture dataset.
        layer: label of the layer.
        head: label of the query head; norms and similarity are those of its value head.
        which: "norms" (Assumption 1), "similarity" (2) or "weights" (3).
        form: one of FORMS[which]; the printed form by default.

    Raises:
        InputError: if layer, head, which or form is unknown, a variable is missing, or the head cannot be fitted with this form.
    """
    if which not in FORMS:
        raise InputError(f"which={which!r} is not an assumption, expected one of {', '.join(FORMS)}. Choose one of those.")
    form = PRINTED[which] if form is None else form
    if form not in FORMS[which]:
        raise InputError(f"form={form!r} is not a form of {which}, expected one of {', '.join(FORMS[which])}. Choose one of those.")
    require(capture, NEEDS[which])
    at_layer, at_head = index_of(capture, "layer", layer), index_of(capture, "head", head)
    kv_head = index_of(capture, "kv_head", int(capture["kv_head_of_head"].values[at_head]))
    if which == "weights":
        result = _weights(capture, at_layer, at_head, form)
    else:
        result = (_norms if which == "norms" else _similarity)(capture, at_layer, kv_head, form)
    if result is None:
        raise InputError(f"layer {layer}, head {head}: too little finite data for the {form} form of {which}. Choose another head or form.")
    return result


def _norms(
    capture: xr.Dataset, layer: int, kv_head: int, form: str
) -> lmfit.model.ModelResult | RegressionResultsWrapper | MixedLMResultsWrapper | None:
    seen = layer_tokens(capture, layer)
    each = capture["value_norm"][:, layer, kv_head, seen.start :].values.astype(np.float64)
    if form == "variance":
        return norms_variance.mixed_model(np.where(np.isfinite(each), each, np.nan)[:, seen.first_content :])
    if form == "trend":
        return norms_trend.line_of_profile(mean_over_documents(each)[seen.first_content :])
    return two_level(each, seen)


def two_level(each: FloatArray, seen: LayerTokens) -> DocumentResult | None:
    """Fit Assumption 1 to the mean profile of norms, shape (document, token), with lmfit; None where no norm is known."""
    norm = mean_over_documents(each)
    best = norms.estimate(norm, seen.first_content)
    if not np.isfinite(best["C"]):
        return None
    known = np.isfinite(norm)
    # Without a visible sink every token is content: positions start at 1 and λ has nothing to rest on.
    position = np.arange(norm.size) + 1 - seen.first_content
    parameters = lmfit.Parameters()
    parameters.add("C", value=float(best["C"]), min=0.0)
    has_sink = bool(np.isfinite(best["lam"]))
    parameters.add("lam", value=float(best["lam"]) if has_sink else 1.0, vary=has_sink)
    result = norms.MODEL.fit(norm[known], parameters, position=position[known], **LMFIT_KEYWORDS)
    carries = np.isfinite(each[:, seen.first_content :]).any(axis=-1)
    without = norms.estimate(leave_one_out_mean(each), seen.first_content)
    return with_document_errors(result, {name: without[name][carries] for name in ("C", "lam")})


def _similarity(capture: xr.Dataset, layer: int, kv_head: int, form: str) -> DocumentResult | None:
    data = similarity.layer_cosines(capture, layer)
    return by_lag(Cosines(lag=data.lag, pairs=data.pairs, cosine=data.cosine[:, kv_head : kv_head + 1]), form)


def by_lag(data: Cosines, form: str) -> DocumentResult | None:
    """Fit a form of similarity to the mean cosines of one row with lmfit; None where it cannot be fitted."""
    fit = fit_batched(form, data)
    if not np.isfinite(fit.estimate.squares[0]):
        return None
    result = decay.fit_row(form, data.lag, data.mean[0], data.pairs, fit.estimate, 0)
    carries = data.carries[:, 0]
    without = {name: fit.replicate(name, data.carries.shape)[carries, 0] for name in decay.FORM[form].parameters}
    if "beta" in without:  # the jackknife is of log β, carried over
        positive = np.where(without["beta"] > 0, without["beta"], np.nan)
        without["beta"] = result.params["beta"].value * np.log(positive)
    if not (fit.estimate.converged[0] and result.success and regular(result.covar)):
        without = {name: values * np.nan for name, values in without.items()}
    return with_document_errors(result, without)


def _weights(capture: xr.Dataset, layer: int, head: int, form: str) -> DocumentResult | None:
    seen, _, log_weight = weights.layer_weights(capture, layer)
    return by_position(log_weight[:, head], seen, form)


def by_position(log_weight: FloatArray, seen: LayerTokens, form: str) -> DocumentResult | None:
    """Fit a form of Assumption 3 to mean log weights, shape (document, content token), with lmfit; None where it cannot be fitted."""
    mean = mean_over_documents(log_weight)
    found = search(np.concatenate([mean[None], leave_one_out_mean(log_weight)]), seen.first_content)
    rows = {name: each[weights.FORMS.index(form)] for name, each in found.items()}
    start = {name: float(each[0]) for name, each in rows.items()}
    if not np.isfinite(start["b"]):
        return None
    position = seen.first_content + np.arange(mean.size, dtype=np.float64)
    result = phases.fit_row(form, position, mean, start)
    carries = np.isfinite(log_weight).any(axis=-1)
    searched = SEARCHED | {"eta": "eta_tail" if form == "monotone" else "eta_osc"}
    return with_document_errors(result, {name: rows[source][1:][carries] for name, source in searched.items()})
