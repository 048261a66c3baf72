"""Fits of one head: lmfit's or statsmodels' result with report, residuals and confidence tools.

lmfit fits curves: norms by token, cosines by lag, log weights by position. It treats lags and
tokens as independent; within a document they are correlated, and lmfit's errors are many times too
small. Errors and correlations are therefore a document jackknife's (Efron & Stein 1981), as in the
fit datasets. Imports xarray, lmfit, the three fits and `reports.text.number`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import lmfit
import numpy as np
import xarray as xr

from geostat.datasets.tokens import LayerTokens, index_of, layer_tokens, require
from geostat.errors import InputError, refuse_unknown
from geostat.fits.norms import fit as norms
from geostat.fits.norms import trend, variance
from geostat.fits.similarity import fit as similarity
from geostat.fits.similarity import forms
from geostat.fits.similarity.one_form import Cosines, fit_batched, regular
from geostat.fits.weights import fit as weights
from geostat.fits.weights import forms as phases
from geostat.fits.weights.break_points import search
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import leave_one_out_mean
from geostat.statistics.least_squares import LMFIT_KEYWORDS
from geostat.statistics.losses import mean_over_documents
from reports.text.number import count

if TYPE_CHECKING:
    from statsmodels.regression.linear_model import RegressionResultsWrapper
    from statsmodels.regression.mixed_linear_model import MixedLMResultsWrapper

NEEDS: dict[str, Mapping[str, tuple[str, ...]]] = {
    "norms": norms.NEEDS,
    "similarity": similarity.NEEDS,
    "weights": weights.NEEDS,
}


def two_level(norms_by_document: FloatArray, visible: LayerTokens) -> DocumentResult | None:
    """Fit Assumption 1 to the mean profile of norms with lmfit; None where no norm is known.

    `norms_by_document` has shape (document, token).
    """
    norm = mean_over_documents(norms_by_document)
    best = norms.estimate(norm, visible.first_content)
    if not np.isfinite(best["C"]):
        return None
    known = np.isfinite(norm)
    # Without a visible sink every token is content: positions start at 1 and λ is undetermined.
    position = np.arange(norm.size) + 1 - visible.first_content
    parameters = lmfit.Parameters()
    parameters.add("C", value=float(best["C"]), min=0.0)
    has_sink = bool(np.isfinite(best["lam"]))
    parameters.add("lam", value=float(best["lam"]) if has_sink else 1.0, vary=has_sink)
    result = norms.MODEL.fit(norm[known], parameters, position=position[known], **LMFIT_KEYWORDS)
    carries = np.isfinite(norms_by_document[:, visible.first_content :]).any(axis=-1)
    replicates = norms.estimate(leave_one_out_mean(norms_by_document), visible.first_content)
    return with_document_errors(result, {name: replicates[name][carries] for name in ("C", "lam")})


def by_lag(data: Cosines, form: str) -> DocumentResult | None:
    """Fit a form of similarity to the mean cosines of one row with lmfit.

    Returns None if the row cannot be fitted.
    """
    fit = fit_batched(form, data)
    if not np.isfinite(fit.estimate.squares[0]):
        return None
    result = forms.fit_row(form, data.lag, data.mean[0], data.pairs, fit.estimate, 0)
    carries = data.carries[:, 0]
    replicates = {
        name: fit.replicates.values[name].reshape(data.carries.shape)[carries, 0]
        for name in forms.FORM[form].parameters
    }
    if "beta" in replicates:  # jackknife of log β, converted by the delta method
        positive = np.where(replicates["beta"] > 0, replicates["beta"], np.nan)
        replicates["beta"] = result.params["beta"].value * np.log(positive)
    if not (fit.estimate.converged[0] and result.success and regular(result.covar)):
        replicates = {name: values * np.nan for name, values in replicates.items()}
    return with_document_errors(result, replicates)


def by_position(log_weight: FloatArray, visible: LayerTokens, form: str) -> DocumentResult | None:
    """Fit a form of Assumption 3 to mean log weights with lmfit; None if it cannot be fitted.

    `log_weight` has shape (document, content token).
    """
    mean = mean_over_documents(log_weight)
    results = search(
        np.concatenate([mean[None], leave_one_out_mean(log_weight)]), visible.first_content
    )
    # Rows of a form: the mean, then leave-one-out means.
    rows = {name: by_form[weights.FORMS.index(form)] for name, by_form in results.items()}
    start = {name: float(row[0]) for name, row in rows.items()}
    if not np.isfinite(start["b"]):
        return None
    result = phases.fit_row(form, visible.position, mean, start)
    carries = np.isfinite(log_weight).any(axis=-1)
    return with_document_errors(
        result,
        {name: rows[curve[0]][1:][carries] for name, curve in phases.PARAMETERS_OF[form].items()},
    )


INDEPENDENT: Final = "chi-square, AIC and BIC wrongly treat lags and tokens as independent"


class DocumentResult(lmfit.model.ModelResult):
    """lmfit's result with a document jackknife's stderr, correl, covar and uvars.

    They are None where documents give no error. `fit_report()` names the source of the errors.
    Methods that use chi-square alone raise InputError.
    """

    documents: int
    """Number of documents that carry the fit."""
    ndata: int
    """Number of fitted lags or tokens."""

    @property
    def errors_from(self) -> str:
        """Source of the errors, as a sentence."""
        if self.documents < 2:
            return f"one document: no standard errors; {INDEPENDENT}"
        return f"± is the jackknife standard error over {self.documents} documents; {INDEPENDENT}"

    def fit_report(self, *args: Any, **kwargs: Any) -> str:
        """Return lmfit's report after a line that names the source of its errors."""
        return f"[[Errors]]\n    {self.errors_from}\n{super().fit_report(*args, **kwargs)}"

    def _repr_html_(self, *args: Any, **kwargs: Any) -> str:
        return f"<p>{self.errors_from}.</p> {super()._repr_html_(*args, **kwargs)}"

    def eval_uncertainty(self, *args: Any, **kwargs: Any) -> FloatArray:
        """Return lmfit's band about the curve, with Student's t on K − 1 degrees of freedom.

        Raises:
            InputError: if documents give no error.
        """
        if self.covar is None:
            raise InputError(
                f"{count(self.documents, 'document')} gave the fit no standard errors, expected two"
                " or more documents. Capture more documents."
            )
        ndata = self.ndata
        self.ndata = self.nvarys + self.documents - 1  # lmfit's degrees of freedom: K − 1
        try:
            return np.asarray(super().eval_uncertainty(*args, **kwargs))
        finally:
            self.ndata = ndata

    def conf_interval(self, **kwargs: Any) -> dict[str, Any]:
        """Raise InputError, because lmfit's intervals use chi-square alone; so does `ci_report`."""
        raise InputError(
            "lmfit's intervals treat lags and tokens as independent, expected intervals over"
            " documents. Use x_lower and x_upper of geostat.fit."
        )


def with_document_errors(
    result: lmfit.model.ModelResult, replicates: Mapping[str, FloatArray]
) -> DocumentResult:
    """Replace lmfit's errors by those of a document jackknife, in place, and return the result.

    Errors are None with fewer than two documents, or if a replicate failed.

    Args:
        result: lmfit's fit to the mean over documents.
        replicates: leave-one-out values of each free parameter, (document,), for the documents that
            carry the fit; NaN where the parameter has no error.
    """
    result.__class__ = DocumentResult
    names = list(result.var_names)
    documents = len(next(iter(replicates.values())))
    values = np.stack([replicates[name] for name in names]) if names else np.empty((0, documents))
    deviation = values - values.mean(axis=1, keepdims=True)
    covariance = (
        (documents - 1) / documents * deviation @ deviation.T
        if documents > 1
        else np.full((len(names), len(names)), np.nan)
    )
    stderr = np.sqrt(np.diagonal(covariance))
    complete = bool(names) and bool(np.isfinite(covariance).all())
    correlation = ratio(covariance, np.outer(stderr, stderr), 0.0)
    for row, name in enumerate(names):
        parameter = result.params[name]
        parameter.stderr = float(stderr[row]) if np.isfinite(stderr[row]) else None
        correlations = dict(zip(names, correlation[row].tolist(), strict=True))
        del correlations[name]
        parameter.correl = correlations if complete else None
    result.covar = covariance if complete else None
    result.uvars = result.params.create_uvars(covar=covariance) if complete else None
    result.documents, result.errorbars = documents, complete
    for name in ("covar", "uvars", "errorbars"):
        setattr(result.result, name, getattr(result, name))
    return result


FORMS = {
    "norms": ("two-level", "trend", "variance"),
    "similarity": forms.FORMS,
    "weights": weights.FORMS,
}
"""Forms of each assumption."""
PRINTED = {"norms": "two-level", "similarity": "exponential", "weights": "shared"}


def fit_head(
    capture: xr.Dataset, layer: int, head: int, which: str = "similarity", form: str | None = None
) -> lmfit.model.ModelResult | RegressionResultsWrapper | MixedLMResultsWrapper:
    """Fit one assumption to the document mean of one query head and return lmfit's ModelResult.

    `result.fit_report()` prints it. Errors and correlations are a document jackknife's, whose
    replicates repeat the search for break points; one document gives none. /weights says whether a
    phase of the weights exceeds noise. Parameters at a bound, and the break points of the weights,
    are fixed.

    Two forms of "norms" return statsmodels' results, which `result.summary()` prints: "trend", the
    line of the mean profile with Newey-West errors (`norms.trend.line_of_profile`), and "variance",
    the mixed model of document, position and residual (`norms.variance.mixed_model`), which takes
    seconds.

    Args:
        capture: a /capture dataset.
        layer: label of the layer.
        head: label of the query head; norms and similarity are those of its KV head.
        which: "norms" (Assumption 1), "similarity" (2) or "weights" (3).
        form: one of FORMS[which]; by default the printed form.

    Raises:
        InputError: if layer, head, which or form is unknown, a variable is missing, or the head
            cannot be fitted with this form.
    """
    refuse_unknown(which, FORMS, f"which={which!r} is not an assumption")
    form = PRINTED[which] if form is None else form
    refuse_unknown(form, FORMS[which], f"form={form!r} is not a form of {which}")
    require(capture, NEEDS[which])
    layer_index, head_index = index_of(capture, "layer", layer), index_of(capture, "head", head)
    kv_head = index_of(capture, "kv_head", int(capture["kv_head_of_head"].values[head_index]))
    result: lmfit.model.ModelResult | RegressionResultsWrapper | MixedLMResultsWrapper | None
    if which == "weights":
        visible, _, log_weight = weights.layer_weights(capture, layer_index)
        result = by_position(log_weight[:, head_index], visible, form)
    elif which == "similarity":
        data = similarity.layer_cosines(capture, layer_index)
        result = by_lag(replace(data, cosine=data.cosine[:, kv_head : kv_head + 1]), form)
    else:
        visible = layer_tokens(capture, layer_index)
        norm = capture["value_norm"][:, layer_index, kv_head, visible.start :].values
        norm = np.where(np.isfinite(norm), norm.astype(np.float64), np.nan)
        if form == "variance":
            result = variance.mixed_model(norm[:, visible.first_content :])
        elif form == "trend":
            result = trend.line_of_profile(mean_over_documents(norm)[visible.first_content :])
        else:
            result = two_level(norm, visible)
    if result is None:
        raise InputError(
            f"layer {layer}, head {head}: too little finite data for the {form} form of {which}."
            " Choose another head or form."
        )
    return result
