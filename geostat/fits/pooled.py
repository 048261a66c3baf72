"""Pooled fits: one fit to all heads of a layer or of the model, and trends with depth.

Source: arXiv 2602.01893, Assumptions 1-3. Measurements are pooled within each document, which stays
the sampling unit: every interval is a document jackknife. Cosines are weighted by pairs; log
weights and norms are averaged over heads and over the layers that see the most tokens. Pooled rows
are fitted like a single head. The trend of a parameter with depth (0 at the first layer, 1 at the
last) is the slope of a least-squares line through the layers' values or their logarithms; layers
are fixed. `layers` are indices. Imports numpy, xarray, lmfit and, lazily, pandas and statsmodels.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import lmfit
import numpy as np
import xarray as xr

from geostat.datasets.table import table
from geostat.datasets.tokens import LayerTokens, index_of, layer_tokens, require
from geostat.datasets.variable import Value, codes, join_rows, mapped, variables, words_along
from geostat.errors import InputError, refuse_unknown
from geostat.fits import one_head
from geostat.fits.norms.fit import estimate
from geostat.fits.norms.trend import bandwidth, newey_west
from geostat.fits.norms.variance import restricted_likelihood
from geostat.fits.similarity.fit import layer_cosines
from geostat.fits.similarity.forms import FORMS, solve
from geostat.fits.similarity.one_form import Cosines, fit_forms, numbers_of
from geostat.fits.weights import fit as weights
from geostat.fits.weights.break_points import search_monotone
from geostat.fits.weights.fit import layer_weights
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import jackknife, leave_one_out_mean
from geostat.statistics.losses import mean_of_known, mean_over_arrays, mean_over_documents

if TYPE_CHECKING:
    from statsmodels.regression.linear_model import RegressionResultsWrapper
    from statsmodels.regression.mixed_linear_model import MixedLMResultsWrapper

TRENDS: Final = table(
    r"""
    C | value norm | C | norm of a content token | Assumption 1.1
    lam | 1 | \lambda | sink norm over C | Assumption 1.2
    cv_token | 1 | \mathrm{CV} | coefficient of variation of content norms within a document | §3.1
    rho0 | 1 | \rho_0 | cosine between the sink and a content token | Assumption 2.2
    beta | 1/token | \beta | decay of similarity, as printed
    beta_offset | 1/token | \beta_c | decay of similarity, form with an offset
    offset | 1 | c | similarity at long lags, form with an offset
    p_sink | 1 | p_{\mathrm{sink}} | weight of the sink | Assumption 3
    eta | 1/token | \eta | growth rate of the weights, plateau and growth | Assumption 3
""",
    equation="Assumption 2.1",
    dims=(),
)
"""Pooled parameters in table order."""
LOGARITHMIC: Final = frozenset({"C", "beta", "beta_offset", "eta"})
"""Parameters whose logarithms are fitted."""

MIN_LAYERS: Final = 3


def pooled_cosines(capture: xr.Dataset, layers: list[int]) -> Cosines:
    """Return the mean cosines by lag over all KV heads of some layers, as those of one head.

    Lags are those of the layer that sees the most tokens.
    """
    cosines = [layer_cosines(capture, layer) for layer in layers]
    lag = max((of_layer.lag for of_layer in cosines), key=len)
    pairs, total, known = np.zeros(lag.size), 0.0, 0.0
    for of_layer in cosines:
        padding = (0, lag.size - of_layer.lag.size)
        # A layer that sees fewer tokens has no pairs at the longest lags.
        layer_pairs = np.pad(of_layer.pairs, padding)
        cosine = np.pad(of_layer.cosine, ((0, 0), (0, 0), padding), constant_values=np.nan)
        finite = np.isfinite(cosine)
        # Sums over KV heads, (document, lag): of cosines times pairs, and of pairs.
        total = total + (np.where(finite, cosine, 0.0) * layer_pairs).sum(axis=1)
        known = known + (finite * layer_pairs).sum(axis=1)
        pairs += layer_pairs
    return Cosines(lag=lag, pairs=pairs, cosine=ratio(total, known)[:, None])


def pooled_log_weights(capture: xr.Dataset, layers: list[int]) -> tuple[LayerTokens, FloatArray]:
    """Return the visible tokens and mean log α, (document, content token), in nats, over the query
    heads of the layers that see the most tokens.
    """
    visible, widest = _widest(capture, layers)
    by_layer = (layer_weights(capture, layer)[2] for layer in widest)
    return visible, mean_over_arrays(
        head for heads in by_layer for head in np.moveaxis(heads, 1, 0)
    )


def pooled_norms(capture: xr.Dataset, layers: list[int]) -> tuple[LayerTokens, FloatArray]:
    """Return the visible tokens and mean ‖v_i‖, (document, token), in units of the value states,
    over the KV heads of the layers that see the most tokens.
    """
    visible, widest = _widest(capture, layers)
    norm = capture["value_norm"][..., visible.start :]
    heads = itertools.product(widest, range(capture.sizes["kv_head"]))
    by_head = (norm[:, layer, head].values.astype(np.float64) for layer, head in heads)
    return visible, mean_over_arrays(by_head)


def _widest(capture: xr.Dataset, layers: list[int]) -> tuple[LayerTokens, list[int]]:
    """Return the largest set of visible tokens, and the layers that see it."""
    visible = {layer: layer_tokens(capture, layer) for layer in layers}
    widest = max(visible.values(), key=lambda view: (view.tokens, view.sink))
    return widest, [layer for layer, view in visible.items() if view == widest]


@dataclass(frozen=True, slots=True)
class Values:
    """A pooled parameter by row (each layer and, last, the whole model).

    `estimate` has shape (row,). `replicates` (leave-one-out) and `by_document` (single documents)
    have shape (document, row). NaN where there is no estimate, or where it is at its bound.
    """

    estimate: FloatArray
    replicates: FloatArray
    by_document: FloatArray

    def scaled(self, logarithm: bool) -> Values:
        """Return the values, or their logarithms; NaN where a logarithm does not exist."""
        if not logarithm:
            return self
        logs = (
            np.log(array, out=np.full_like(array, np.nan), where=array > 0)
            for array in (self.estimate, self.replicates, self.by_document)
        )
        return Values(*logs)


def pooled_values(capture: xr.Dataset, name: str, cosines: list[Cosines] | None = None) -> Values:
    """Return one of TRENDS for each layer and, last, for the whole model.

    `cosines` are the pooled cosines of each layer and of the model; they are computed if missing.
    """
    layers, documents = list(range(capture.sizes["layer"])), capture.sizes["document"]
    groups = [*([layer] for layer in layers), layers]
    # Columns hold values of all documents, of all but one, and of single documents.
    if name in ("beta", "beta_offset", "offset"):
        form = "exponential" if name == "beta" else "offset"
        pooled = cosines or [pooled_cosines(capture, group) for group in groups]
        columns = [_decay(row, form, name.removesuffix("_offset")) for row in pooled]
    elif name == "eta":
        columns = []
        for group in groups:
            visible, log_weight = pooled_log_weights(capture, group)
            columns.append(search_monotone(_means(log_weight), visible.first_content)["eta_tail"])
    else:
        columns = [_mean_over_heads(capture, layer, name) for layer in layers]
        by_layer = np.stack(columns)
        # The first entry (all documents) is summed separately: numpy sums a table in another order,
        # which changes the last bit.
        model = [mean_over_documents(by_layer[:, 0]), mean_over_documents(by_layer[:, 1:])]
        columns.append(np.hstack(model))
    total, without, by_document = np.split(np.stack(columns, axis=-1), [1, 1 + documents])
    return Values(total[0], without, by_document)


def _means(values: FloatArray) -> FloatArray:
    """Return means over all documents and over all but one, and single documents, along axis 0."""
    return np.concatenate([mean_over_documents(values)[None], leave_one_out_mean(values), values])


def _decay(data: Cosines, form: str, name: str) -> FloatArray:
    """Return a decay parameter of pooled cosines, which are those of one head."""
    result = solve(form, data.lag, _means(data.cosine[:, 0]), data.pairs)
    sound = result.converged & ~result.at_bound[name]
    return np.where(sound, result.values[name], np.nan)


def _mean_over_heads(capture: xr.Dataset, layer: int, name: str) -> FloatArray:
    """Return a parameter averaged over the heads of a layer."""
    visible = layer_tokens(capture, layer)
    variable = {"rho0": "sink_cosine", "p_sink": "attention_weight"}.get(name, "value_norm")
    data = capture[variable][:, layer, :, visible.start :].values.astype(np.float64)
    data[~np.isfinite(data)] = np.nan
    if name == "lam":
        return mean_of_known(estimate(_means(data), visible.first_content)["lam"])
    if name == "p_sink":
        values = data[..., 0]
    elif name == "rho0":
        values = mean_of_known(data[..., visible.first_content :])
    else:  # the CV is taken within each document
        values = estimate(data, visible.first_content)["C" if name == "C" else "cv_profile"]
    if name in ("p_sink", "rho0") and not visible.sink:
        values = np.full(values.shape, np.nan)
    return mean_of_known(_means(values))


def depth_of(layers: int) -> FloatArray:
    """Return the depth of each layer: 0 at the first, 1 at the last."""
    return np.linspace(0.0, 1.0, layers)


MODELS: Final = ("line", "mixed")
EFFECTS: Final = ("document", "document x depth", "layer")
"""Random effects of the mixed model."""


def _slope_known(values: FloatArray, known: BoolArray) -> FloatArray:
    """Return the slope over the known layers against their depths."""
    depth = depth_of(known.size)[known]
    centred = depth - depth.mean()
    return np.asarray((values[..., known] * centred).sum(axis=-1) / (centred**2).sum())


RECORDS: Final = tuple(
    table(
        r"""
    by_layer | unit of the parameter | \theta_\ell | pooled value of a parameter in a layer; `about`
        describes the parameter | estimated | Assumptions 1-3 | dims: parameter layer
    whole | unit of the parameter | \theta | pooled value of a parameter in the whole model; `about`
        describes the parameter | estimated | Assumptions 1-3
    change | unit of the parameter; nat where logarithm | \Delta_\ell\theta | change from the first
        layer to the last along a fitted line | estimated | Assumptions 1-3
    change_se_hac | 1 | - | Newey-West standard error of the change, from the scatter of layers
        about the line
    layers_used | 1 | - | number of layers in the line fit
    about | 1 | - | meaning
    unit | 1 | - | unit
    latex | 1 | - | symbol
    source | 1 | - | source
    logarithm | 1 | - | the line is fitted to logarithms: the change is a log ratio in nats
""",
        dims=("parameter",),
    ).values()
)


def depth_numbers(name: str, pooled: Values) -> dict[str, Value]:
    """Return the numbers of RECORDS for one of TRENDS.

    Pooled values have document-jackknife intervals; change_se_hac is the statsmodels error of
    `line`. `change` is in the unit of the parameter, or in nats where `logarithm`; NaN with fewer
    than MIN_LAYERS layers. A layer counts if its estimate and all its leave-one-out estimates
    exist inside their bounds.
    """
    record, logarithm = TRENDS[name], name in LOGARITHMIC
    carries: BoolArray = np.isfinite(pooled.by_document) | np.isfinite(pooled.replicates)
    scaled = pooled.scaled(logarithm)
    value = replace(jackknife(scaled.estimate, scaled.replicates, carries), without=None)
    if logarithm:
        value = value.exp(pooled.estimate)
    y, replicates, carries = scaled.estimate[:-1], scaled.replicates[:, :-1], carries[:, :-1]
    complete = (np.isfinite(replicates) | ~carries).all(axis=0)
    known = np.isfinite(y) & ((carries.sum(axis=0) < 2) | complete)
    change, error = jackknife(np.asarray(np.nan), np.full(len(carries), np.nan)), np.nan
    if known.sum() >= MIN_LAYERS:
        slopes = _slope_known(replicates, known)
        change = jackknife(_slope_known(y, known), slopes, np.asarray(carries.any(axis=1)))
        error = float(line(np.where(known, y, np.nan)).bse["depth"])
    words = {
        "about": record.long_name,
        "unit": record.units,
        "latex": record.symbol,
        "source": record.equation,
    }
    return {
        "by_layer": mapped(value, lambda array: array[:-1]),
        "whole": mapped(value, lambda array: array[-1]),
        "change": change,
        "change_se_hac": np.asarray(error),
        "layers_used": np.asarray(known.sum()),
        **{word: np.array(text, dtype=object) for word, text in words.items()},
        "logarithm": np.asarray(logarithm),
    }


def depth_trend(
    capture: xr.Dataset, name: str, model: str = "line"
) -> RegressionResultsWrapper | MixedLMResultsWrapper:
    """Return statsmodels' result for the change of a pooled parameter over depth (0 to 1).

    The coefficient `depth` is the change over the model, of the parameter's logarithm if it is
    LOGARITHMIC. Its error is statsmodels'; /pooled has the document jackknife's. `result.summary()`
    prints it; `result.notes` of the mixed model holds statsmodels' warnings.

    Args:
        capture: a /capture dataset.
        name: one of TRENDS, such as "beta" or "p_sink".
        model: "line", least squares over the layers' pooled values with Newey-West errors, which
            treats the scatter of layers as noise; or "mixed", restricted likelihood on the values
            of every document and layer with random effects EFFECTS.

    Raises:
        InputError: if name or model is unknown, or if fewer than MIN_LAYERS layers (or, for
            "mixed", two documents) have a value.
    """
    refuse_unknown(name, TRENDS, f"{name!r} is not a pooled parameter")
    refuse_unknown(model, MODELS, f"model={model!r} is unknown")
    values = pooled_values(capture, name).scaled(name in LOGARITHMIC)
    label = f"log {name}" if name in LOGARITHMIC else name
    layers, by_document = values.estimate[:-1], values.by_document[:, :-1]
    known = np.isfinite(layers)
    if known.sum() < MIN_LAYERS:
        raise InputError(
            f"{name} has an estimate inside its bounds in {int(known.sum())} layers, expected at"
            f" least {MIN_LAYERS}. Choose another parameter."
        )
    if model == "line":
        return line(layers, label)
    if (np.isfinite(by_document).sum(axis=1) >= MIN_LAYERS).sum() < 2:
        raise InputError(
            f"{name} has values in fewer than two documents, expected at least two. Capture more"
            " documents, or choose model='line'."
        )
    return mixed(by_document, label)


def line(values: FloatArray, name: str = "value") -> RegressionResultsWrapper:
    """Regress values by layer on depth with Newey-West errors; drop layers without a value."""
    import pandas as pd

    known = np.isfinite(values)
    depth = depth_of(values.size)[known]
    table = pd.DataFrame({"first layer": np.ones(depth.size), "depth": depth})
    return newey_west(
        pd.Series(values[known], name=name),
        table,
        min(bandwidth(depth.size), math.ceil(depth.size / 2)),
        correction=True,
    )


def mixed(by_document: FloatArray, name: str = "value") -> MixedLMResultsWrapper:
    """Fit value = level + change·depth + document + document·depth + layer + residual.

    The last four terms are random. `by_document` has shape (document, layer), NaN where unknown.
    """
    import pandas as pd

    document, layer = np.nonzero(np.isfinite(by_document))
    values = by_document[document, layer]
    depth = depth_of(by_document.shape[1])[layer]
    document_effect = np.eye(by_document.shape[0])[document]
    effects = (
        document_effect,
        document_effect * (depth - depth.mean())[:, None],
        np.eye(by_document.shape[1])[layer],
    )
    table = pd.DataFrame({"first layer": np.ones(values.size), "depth": depth})
    designs = {
        effect_name: effect[:, effect.any(axis=0)]
        for effect_name, effect in zip(EFFECTS, effects, strict=True)
    }
    return restricted_likelihood(pd.Series(values, name=name), table, designs)


FORMS_OF: Final = {"norms": ("two-level",), "similarity": FORMS, "weights": weights.FORMS}
"""Forms that can be fitted to pooled heads, by assumption."""
POOLED: Final = tuple(form for form in FORMS if form != "stretched")
"""Forms of similarity in /pooled; `pooled_fit` also has the stretched exponential.

The stretched exponential costs as much as all others together.
"""
DEFAULT: Final = {"norms": "two-level", "similarity": "exponential", "weights": "monotone"}
_RECORDS: Final = (
    *table(
        r"""
    beta | 1/token | \beta | decay of similarity; unitless for the power forms, NaN for the constant
        | estimated
    offset | 1 | c | similarity at long lags; 0 for forms without offset | estimated
    mae_by_lag | 1 | \mathrm{MAE}_k | mean absolute error of the form over lags | estimated
    rmse | 1 | \mathrm{RMSE} | root mean squared residual of the mean cosine, weighted by pairs
    r2 | 1 | R^2 | coefficient of determination of the mean cosine, weighted by pairs
    loss_held_out | 1 | \mathcal{L}_{\mathrm{out}} | mean squared residual of a held-out document
    loss_held_out_se | 1 | \mathrm{se}(\mathcal{L}_{\mathrm{out}}) | standard error over documents
        of the held-out loss
    at_bound | 1 | \hat\theta \in \partial\Theta | a parameter is at its bound and has no standard
        error
    converged | 1 | \mathrm{ok} | search, and lmfit where it refines, converged
""",
        equation="Assumption 2.1",
        dims=("gram",),
    ).values(),
    codes(
        "chosen",
        "preferred form: simplest within one standard error of the lowest held-out loss",
        POOLED,
        missing="none",
        symbol=r"\hat f",
        equation="Assumption 2.1",
    ),
)
LAYER: Final = tuple(
    replace(
        record,
        long_name=f"{record.long_name}; the heads of a layer pooled",
        dims=(*record.dims, "layer"),
    )
    for record in _RECORDS
)
OVERALL: Final = tuple(
    replace(
        record,
        name=f"overall_{record.name}",
        long_name=f"{record.long_name}; all heads of the model pooled",
    )
    for record in _RECORDS
)


def pooled_fit(
    capture: xr.Dataset, what: str = "similarity", layer: int | None = None, form: str | None = None
) -> lmfit.model.ModelResult:
    """Fit one assumption to all heads of a layer, or of the model, and return lmfit's ModelResult.

    `result.fit_report()` prints it. Errors and correlations are a document jackknife's, as in
    /pooled; one document gives none.

    Args:
        capture: a /capture dataset.
        what: "similarity" (pooled cosines by lag, weighted by pairs), "weights" (mean log weight by
            token) or "norms" (mean norm by token).
        layer: label of the layer; None pools all layers.
        form: one of FORMS_OF[what]; defaults are e^{−βk}, plateau and growth, and one norm of
            content tokens with a sink.

    Raises:
        InputError: if what, form or layer is unknown, a variable is missing, or there is too little
            data to fit.
    """
    refuse_unknown(what, FORMS_OF, f"what={what!r} is not an assumption to pool")
    form = DEFAULT[what] if form is None else form
    refuse_unknown(form, FORMS_OF[what], f"form={form!r} is not a form of {what}")
    require(capture, one_head.NEEDS[what])
    layers = (
        list(range(capture.sizes["layer"]))
        if layer is None
        else [index_of(capture, "layer", layer)]
    )
    result: one_head.DocumentResult | None
    if what == "similarity":
        result = one_head.by_lag(pooled_cosines(capture, layers), form)
    elif what == "weights":
        visible, log_weight = pooled_log_weights(capture, layers)
        result = one_head.by_position(log_weight, visible, form)
    else:
        visible, norm = pooled_norms(capture, layers)
        result = one_head.two_level(norm, visible)
    if result is None:
        where = "the whole model" if layer is None else f"layer {layer}"
        raise InputError(
            f"{where}: too little finite data for the {form} form of {what}. Choose another layer"
            " or form."
        )
    return result


def fit_pooled(capture: xr.Dataset) -> xr.Dataset:
    """Fit POOLED forms to the similarity of each layer and of the model, and trends with depth.

    Args:
        capture: a /capture dataset whose layers see equally many tokens; uses the variables of the
            single-head fits.

    Returns:
        /pooled: LAYER over (gram, layer) and (layer); the same for the whole model as overall_…,
        over (gram); and RECORDS over (parameter) and (parameter, layer).

    Raises:
        InputError: if a variable is missing, misshapen or empty.
    """
    for needs in one_head.NEEDS.values():
        require(capture, needs)
    count = capture.sizes["layer"]
    cosines = [pooled_cosines(capture, [layer]) for layer in range(count)]
    whole = pooled_cosines(capture, list(range(count)))
    of_model = _fit_rows(whole)
    # The model is a fit of one row: index 0 removes the row axis.
    overall = {
        f"overall_{record.name}": mapped(
            of_model[record.name], partial(np.take, indices=0, axis=len(record.dims))
        )
        for record in _RECORDS
    }
    cosine = np.concatenate([of_layer.cosine for of_layer in cosines], axis=1)
    by_layer = _fit_rows(replace(cosines[0], cosine=cosine))
    depth = [
        depth_numbers(name, pooled_values(capture, name, [*cosines, whole])) for name in TRENDS
    ]
    out = variables((*LAYER, *OVERALL, *RECORDS), by_layer | overall | join_rows(depth))
    coords = {
        "layer": capture["layer"].variable,
        "gram": words_along("gram", POOLED, "form of similarity"),
        "parameter": words_along("parameter", TRENDS, "pooled parameter"),
    }
    return xr.Dataset(out, coords=coords)


def _fit_rows(data: Cosines) -> dict[str, Value]:
    """Fit the POOLED forms to every row: numbers of shape (form, row), and chosen, (row,)."""
    fits, choice = fit_forms(POOLED, data)
    return join_rows([numbers_of(fit, data) for fit in fits]) | {"chosen": choice.chosen}
