"""One head's fit as lmfit or statsmodels hands it back, with its report, residuals and confidence tools.

lmfit's standard errors take lags or tokens as independent and are far too small; the fit datasets carry document-jackknife ones.
Imports xarray, lmfit and the three fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import lmfit
import numpy as np
import xarray as xr

from geostat import decay, decay_solver, norms, norms_trend, norms_variance, phases, similarity, weights
from geostat.errors import InputError
from geostat.fitting import LMFIT_KEYWORDS, LayerTokens, index_of, layer_tokens, mean_over_documents, require
from geostat.jackknife import FloatArray
from geostat.profile_search import search

if TYPE_CHECKING:
    from statsmodels.regression.linear_model import RegressionResultsWrapper
    from statsmodels.regression.mixed_linear_model import MixedLMResultsWrapper

FORMS = {"norms": ("two-level", "trend", "variance"), "similarity": decay.FORMS, "weights": weights.FORMS}
"""Forms each assumption can be fitted with."""
NEEDS: dict[str, Mapping[str, tuple[str, ...]]] = {"norms": norms.NEEDS, "similarity": similarity.NEEDS, "weights": weights.NEEDS}
PRINTED = {"norms": "two-level", "similarity": "exponential", "weights": "shared"}


def fit_head(
    capture: xr.Dataset, layer: int, head: int, which: str = "similarity", form: str | None = None
) -> lmfit.model.ModelResult | RegressionResultsWrapper | MixedLMResultsWrapper:
    """Fit one assumption to the document mean of one query head and return lmfit's ModelResult.

    `result.fit_report()` prints it; `result.params`, `result.best_fit`, `result.conf_interval()` are lmfit's own. Parameters at
    a bound, and the break points of the weights, are held fixed. Two forms of "norms" are statsmodels', whose `result.summary()` prints them:
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
    norm = mean_over_documents(each)
    if form == "trend":
        return norms_trend.line_of_profile(norm[seen.first_content :])
    return two_level(norm, seen)


def two_level(norm: FloatArray, seen: LayerTokens) -> lmfit.model.ModelResult | None:
    """Fit Assumption 1 to one mean profile of norms, shape (token,), with lmfit; None where no norm is known."""
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
    return norms.MODEL.fit(norm[known], parameters, position=position[known], **LMFIT_KEYWORDS)


def _similarity(capture: xr.Dataset, layer: int, kv_head: int, form: str) -> lmfit.model.ModelResult | None:
    data = similarity.layer_cosines(capture, layer)
    mean = data.mean[kv_head : kv_head + 1]
    start = decay_solver.solve(form, data.lag, mean, data.pairs)
    return decay.fit_row(form, data.lag, mean[0], data.pairs, start, 0) if np.isfinite(start.squares[0]) else None


def _weights(capture: xr.Dataset, layer: int, head: int, form: str) -> lmfit.model.ModelResult | None:
    seen, _, log_weight = weights.layer_weights(capture, layer)
    mean = mean_over_documents(log_weight[:, head])
    found = search(mean[None], seen.first_content)
    start = {name: float(rows[weights.FORMS.index(form), 0]) for name, rows in found.items()}
    position = seen.first_content + np.arange(mean.size, dtype=np.float64)
    return phases.fit_row(form, position, mean, start) if np.isfinite(start["b"]) else None
