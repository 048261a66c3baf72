"""Pooled fits, of heads taken together: one for each layer and one for the whole model, and how
their parameters change with depth.

Source: arXiv 2602.01893, Assumptions 1-3. Cosines, log weights and norms are pooled over the heads
of a layer, or of all layers (`values`), and fitted by lmfit as a single head's are. Documents stay
the sampling unit: every interval is a document jackknife. `pooled_fit` hands back lmfit's
ModelResult; trends over depth are in `depth`. Imports numpy, xarray and lmfit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import lmfit
import numpy as np
import xarray as xr

from geostat.datasets.flags import codes
from geostat.datasets.tokens import index_of, require
from geostat.datasets.variable import Value, Variable, join, mapped, variables, words_along
from geostat.errors import InputError, refuse_unknown
from geostat.fits import mean_curves
from geostat.fits.document_errors import DocumentResult
from geostat.fits.pooled import depth
from geostat.fits.pooled.values import TRENDS, pooled_cosines, pooled_log_weights, pooled_norms
from geostat.fits.similarity.forms import FORMS
from geostat.fits.similarity.one_form import Cosines, chosen_form, fit_form
from geostat.fits.weights import fit as weights
from geostat.statistics.jackknife import Estimate

FORMS_OF: Final = {"norms": ("two-level",), "similarity": FORMS, "weights": weights.FORMS}
"""Forms that pooled heads can be fitted with, by assumption."""
POOLED: Final = tuple(form for form in FORMS if form != "stretched")
"""Forms of similarity in /pooled: the stretched exponential would cost as much as all others
together; `pooled_fit` has it.
"""
DEFAULT: Final = {"norms": "two-level", "similarity": "exponential", "weights": "monotone"}
_estimate = partial(Variable, equation="Assumption 2.1", dims=("gram",), estimated=True)
_plain = partial(_estimate, estimated=False)
_RECORDS: Final = (
    _estimate(
        "beta",
        "decay of similarity; without unit in the power forms, NaN for the constant",
        "1/token",
        r"\beta",
    ),
    _estimate("offset", "similarity at long lags; 0 for forms without", "1", "c"),
    _estimate(
        "mae_by_lag",
        "mean over lags of the distance of the mean cosine from the form",
        "1",
        r"\mathrm{MAE}_k",
    ),
    _plain(
        "rmse",
        "root mean squared residual of the mean cosine, weighted by pairs",
        "1",
        r"\mathrm{RMSE}",
    ),
    _plain("r2", "coefficient of determination of the mean cosine, weighted by pairs", "1", "R^2"),
    _plain(
        "loss_left_out",
        "mean squared residual of a document under the fit to the others",
        "1",
        r"\mathcal{L}_{\mathrm{out}}",
    ),
    _plain(
        "loss_left_out_se",
        "standard error over documents of the left-out loss",
        "1",
        r"\mathrm{se}(\mathcal{L}_{\mathrm{out}})",
    ),
    _plain(
        "at_bound",
        "a parameter is at its bound, and has no standard error",
        "1",
        r"\hat\theta \in \partial\Theta",
    ),
    _plain("converged", "search and lmfit both converged", "1", r"\mathrm{ok}"),
    codes(
        "chosen",
        "form that predicts left-out documents",
        POOLED,
        missing="none",
        symbol=r"\hat f",
        equation="Assumption 2.1",
        dims=(),
    ),
)
LAYER: Final = tuple(
    replace(
        one, long_name=f"{one.long_name}; the heads of a layer pooled", dims=(*one.dims, "layer")
    )
    for one in _RECORDS
)
OVERALL: Final = tuple(
    replace(
        one, name=f"overall_{one.name}", long_name=f"{one.long_name}; all heads of the model pooled"
    )
    for one in _RECORDS
)


def pooled_fit(
    capture: xr.Dataset, what: str = "similarity", layer: int | None = None, form: str | None = None
) -> lmfit.model.ModelResult:
    """Fit one assumption to all heads of a layer, or of the model, pooled, and return lmfit's
    ModelResult.

    `result.fit_report()` prints it. Errors and correlations are a document jackknife's, as in
    /pooled; one document gives none.

    Args:
        capture: a /capture dataset.
        what: "similarity" (pooled cosines by lag, weighted by pairs), "weights" (mean log weight by
            token) or "norms" (mean norm by token).
        layer: label of the layer; None pools all layers.
        form: one of FORMS_OF[what]; by default e^{−βk}, plateau and growth, and the sink with one
            level behind it.

    Raises:
        InputError: if what, form or layer is unknown, a variable is missing, or there is too little
            to fit.
    """
    refuse_unknown(what, FORMS_OF, f"what={what!r} is nothing to pool")
    form = DEFAULT[what] if form is None else form
    refuse_unknown(form, FORMS_OF[what], f"form={form!r} is not a form of {what}")
    require(capture, mean_curves.NEEDS[what])
    layers = (
        list(range(capture.sizes["layer"]))
        if layer is None
        else [index_of(capture, "layer", layer)]
    )
    result = _fitted(capture, layers, what, form)
    if result is None:
        where = "the whole model" if layer is None else f"layer {layer}"
        raise InputError(
            f"{where}: too little finite data for the {form} form of {what}. Choose another layer"
            " or form."
        )
    return result


def _fitted(capture: xr.Dataset, layers: list[int], what: str, form: str) -> DocumentResult | None:
    if what == "similarity":
        return mean_curves.by_lag(pooled_cosines(capture, layers), form)
    if what == "weights":
        seen, log_weight = pooled_log_weights(capture, layers)
        return mean_curves.by_position(log_weight, seen, form)
    seen, norm = pooled_norms(capture, layers)
    return mean_curves.two_level(norm, seen)


def fit_pooled(capture: xr.Dataset) -> xr.Dataset:
    """Fit the forms of POOLED to the similarity of each layer and to the whole model, pool the
    other parameters, and tell how each changes with depth.

    Args:
        capture: a /capture dataset; uses the variables that the fits of single heads do.

    Returns:
        /pooled: what LAYER names, over (gram, layer) and (layer); the same of the whole model,
        overall_…, over (gram); and what `depth.RECORDS` names, over (parameter) and (parameter,
        layer).

    Raises:
        InputError: if a variable is missing, misshapen or empty.
    """
    for needs in mean_curves.NEEDS.values():
        require(capture, needs)
    count = capture.sizes["layer"]
    each = [pooled_cosines(capture, [layer]) for layer in range(count)]
    whole = pooled_cosines(capture, list(range(count)))
    # The model is one row of its own fit, which leaves the last axis of its numbers.
    overall = {
        f"overall_{name}": mapped(value, lambda array: array[..., 0])
        for name, value in _fit_rows(whole).items()
    }
    out = variables((*LAYER, *OVERALL), _fit_layers(each) | overall)
    out |= depth.depth_variables(capture, [*each, whole])
    coords = {
        "layer": capture["layer"].variable,
        "gram": words_along("gram", POOLED, "form of similarity"),
        "parameter": words_along("parameter", TRENDS, "pooled parameter"),
    }
    return xr.Dataset(out, coords=coords)


def _fit_layers(each: list[Cosines]) -> dict[str, Value]:
    """Fit the forms of POOLED to every layer: numbers of shape (form, layer), and chosen,
    (layer,).
    """
    # One solver call takes rows of equal lags: layers that see equally many tokens go together.
    sizes = np.array([one.lag.size for one in each])
    alike = [np.flatnonzero(sizes == size) for size in np.unique(sizes)]
    parts = []
    for layers in alike:
        cosine = np.concatenate([each[layer].cosine for layer in layers], axis=1)
        parts.append(_fit_rows(replace(each[layers[0]], cosine=cosine)))
    # Groups stand one after another; `order` puts their layers back into that of the model.
    order = np.argsort(np.concatenate(alike))

    def in_order(arrays: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(arrays, axis=-1)[..., order]

    return {name: join([part[name] for part in parts], in_order) for name in parts[0]}


def _fit_rows(data: Cosines) -> dict[str, Value]:
    """Fit the forms of POOLED to every row: numbers of shape (form, row), and chosen, (row,)."""
    outcomes = [fit_form(form, data) for form in POOLED]
    # What an estimate is without a document has another last axis than the rows, and no verdict is
    # given on these.
    parts = [
        {
            name: replace(value, without=None) if isinstance(value, Estimate) else value
            for name, value in one.numbers.items()
        }
        for one in outcomes
    ]
    return {name: join([part[name] for part in parts], np.stack) for name in parts[0]} | {
        "chosen": chosen_form(outcomes).chosen
    }
