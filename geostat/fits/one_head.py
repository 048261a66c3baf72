"""One head's fit as lmfit or statsmodels hands it back, with its report, residuals and confidence
tools.

Errors in lmfit's results are a document jackknife's (`document_errors`), as in the fit datasets.
Imports xarray, lmfit and the three fits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import lmfit
import numpy as np
import xarray as xr

from geostat.datasets.tokens import index_of, layer_tokens, require
from geostat.errors import InputError, refuse_unknown
from geostat.fits.mean_curves import NEEDS, by_lag, by_position, two_level
from geostat.fits.norms import trend, variance
from geostat.fits.similarity import fit, forms
from geostat.fits.weights import fit as weights
from geostat.statistics.losses import mean_over_documents

if TYPE_CHECKING:
    from statsmodels.regression.linear_model import RegressionResultsWrapper
    from statsmodels.regression.mixed_linear_model import MixedLMResultsWrapper

FORMS = {
    "norms": ("two-level", "trend", "variance"),
    "similarity": forms.FORMS,
    "weights": weights.FORMS,
}
"""Forms each assumption can be fitted with."""
PRINTED = {"norms": "two-level", "similarity": "exponential", "weights": "shared"}


def fit_head(
    capture: xr.Dataset, layer: int, head: int, which: str = "similarity", form: str | None = None
) -> lmfit.model.ModelResult | RegressionResultsWrapper | MixedLMResultsWrapper:
    """Fit one assumption to the document mean of one query head and return lmfit's ModelResult.

    `result.fit_report()` prints it. Errors and correlations are a document jackknife's, whose
    replicates repeat the search for break points; one document gives none. Whether a phase of the
    weights stands out of the noise at all is told by /weights. Parameters at a bound, and the break
    points of the weights, are held fixed. Two forms of "norms" are statsmodels', whose
    `result.summary()` prints them: "trend", the mean profile's line with Newey-West errors
    (`norms.trend.line_of_profile`), and "variance", the mixed model of document, position and
    residual (`norms.variance.mixed_model`), which takes seconds.

    Args:
        capture: a /capture dataset.
        layer: label of the layer.
        head: label of the query head; norms and similarity are those of its value head.
        which: "norms" (Assumption 1), "similarity" (2) or "weights" (3).
        form: one of FORMS[which]; the printed form by default.

    Raises:
        InputError: if layer, head, which or form is unknown, a variable is missing, or the head
            cannot be fitted with this form.
    """
    refuse_unknown(which, FORMS, f"which={which!r} is not an assumption")
    form = PRINTED[which] if form is None else form
    refuse_unknown(form, FORMS[which], f"form={form!r} is not a form of {which}")
    require(capture, NEEDS[which])
    at_layer, at_head = index_of(capture, "layer", layer), index_of(capture, "head", head)
    kv_head = index_of(capture, "kv_head", int(capture["kv_head_of_head"].values[at_head]))
    result: lmfit.model.ModelResult | RegressionResultsWrapper | MixedLMResultsWrapper | None
    if which == "weights":
        seen, _, log_weight = weights.layer_weights(capture, at_layer)
        result = by_position(log_weight[:, at_head], seen, form)
    elif which == "similarity":
        data = fit.layer_cosines(capture, at_layer)
        result = by_lag(replace(data, cosine=data.cosine[:, kv_head : kv_head + 1]), form)
    else:
        result = _norms(capture, at_layer, kv_head, form)
    if result is None:
        raise InputError(
            f"layer {layer}, head {head}: too little finite data for the {form} form of {which}."
            " Choose another head or form."
        )
    return result


def _norms(
    capture: xr.Dataset, layer: int, kv_head: int, form: str
) -> lmfit.model.ModelResult | RegressionResultsWrapper | MixedLMResultsWrapper | None:
    seen = layer_tokens(capture, layer)
    each = capture["value_norm"][:, layer, kv_head, seen.start :].values.astype(np.float64)
    if form == "variance":
        return variance.mixed_model(
            np.where(np.isfinite(each), each, np.nan)[:, seen.first_content :]
        )
    if form == "trend":
        return trend.line_of_profile(mean_over_documents(each)[seen.first_content :])
    return two_level(each, seen)
