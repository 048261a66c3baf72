"""Pooled measurements, of a layer's heads or all of a model's as one, document by document, and
pooled values of a parameter, by layer.

Value heads of one layer have equally many pairs at a lag, so their mean cosine is that of all their
pairs; over layers, pairs are counted. Log weights and norms are averaged over heads; over layers,
those that see the most tokens. `layers` are indices. Imports numpy and xarray.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.tokens import LayerTokens, layer_tokens
from geostat.datasets.variable import Variable
from geostat.fits.norms import fit
from geostat.fits.similarity import solver
from geostat.fits.similarity.fit import layer_cosines
from geostat.fits.similarity.one_form import Cosines
from geostat.fits.weights.break_points import search_monotone
from geostat.fits.weights.fit import layer_weights
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import leave_one_out_mean
from geostat.statistics.losses import mean_of_each, mean_of_known, mean_over_documents

_decay_of = partial(Variable, equation="Assumption 2.1")
_CV: Final = "coefficient of variation of the norms behind the sink, in a document"
_GROWTH: Final = "growth rate of the weights, plateau and growth"
_RECORDS: Final = (
    Variable("C", "norm of a content token", "value norm", "C", "Assumption 1.1"),
    Variable("lam", "the sink's norm over C", "1", r"\lambda", "Assumption 1.2"),
    Variable("cv_token", _CV, "1", r"\mathrm{CV}", "§3.1"),
    Variable("rho0", "cosine of the sink with every other token", "1", r"\rho_0", "Assumption 2.2"),
    _decay_of("beta", "decay of similarity, as printed", "1/token", r"\beta"),
    _decay_of("beta_offset", "decay of similarity, form with an offset", "1/token", r"\beta_c"),
    _decay_of("offset", "similarity at long lags, form with an offset", "1", "c"),
    Variable("p_sink", "weight of the sink", "1", r"p_{\mathrm{sink}}", "Assumption 3"),
    Variable("eta", _GROWTH, "1/token", r"\eta", "Assumption 3"),
)
TRENDS: Final = {record.name: record for record in _RECORDS}
"""Pooled parameters, in the order of the tables."""
LOGARITHMIC: Final = frozenset({"C", "beta", "beta_offset", "eta"})
"""Those of which logarithms are fitted."""

FEWEST_LAYERS: Final = 3


def pooled_cosines(capture: xr.Dataset, layers: list[int]) -> Cosines:
    """Return the mean cosines by lag of all value heads of some layers, as those of one head, at
    the lags of the layer that sees most.
    """
    each = [layer_cosines(capture, layer) for layer in layers]
    lag = max((one.lag for one in each), key=len)
    pairs, total, known = np.zeros(lag.size), 0.0, 0.0
    for one in each:
        room = (0, lag.size - one.lag.size)
        # A layer that sees fewer tokens has no pairs at the longest lags.
        own = np.pad(one.pairs, room)
        cosine = np.pad(one.cosine, ((0, 0), (0, 0), room), constant_values=np.nan)
        there = np.isfinite(cosine)
        # Sums over value heads, (document, lag): of cosines times pairs, and of pairs.
        total = total + (np.where(there, cosine, 0.0) * own).sum(axis=1)
        known = known + (there * own).sum(axis=1)
        pairs += own
    return Cosines(lag=lag, pairs=pairs, cosine=ratio(total, known)[:, None])


def pooled_log_weights(capture: xr.Dataset, layers: list[int]) -> tuple[LayerTokens, FloatArray]:
    """Return the tokens of the layers that see most and the mean over their query heads of log
    α, (document, content token), nats.
    """
    seen, kept = _widest(capture, layers)
    each = (layer_weights(capture, layer)[2] for layer in kept)
    return seen, mean_of_each(head for layer in each for head in np.moveaxis(layer, 1, 0))


def pooled_norms(capture: xr.Dataset, layers: list[int]) -> tuple[LayerTokens, FloatArray]:
    """Return the tokens of the layers that see most and the mean over their value heads of
    ‖v_i‖, (document, token), value norm.
    """
    seen, kept = _widest(capture, layers)
    norm = capture["value_norm"][..., seen.start :]
    heads = itertools.product(kept, range(capture.sizes["kv_head"]))
    each = (norm[:, layer, head].values.astype(np.float64) for layer, head in heads)
    return seen, mean_of_each(each)


def _widest(capture: xr.Dataset, layers: list[int]) -> tuple[LayerTokens, list[int]]:
    seen = {layer: layer_tokens(capture, layer) for layer in layers}
    most = max(seen.values(), key=lambda one: (one.tokens, one.sink))
    return most, [layer for layer, one in seen.items() if one == most]


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """A parameter of every row (a layer, or last the whole model): the estimate, and, by document,
    replicates without it and its own value.

    Estimates (row,), others (document, row); NaN where there is none, or where the estimate is at
    its bound.
    """

    estimate: FloatArray
    replicates: FloatArray
    each: FloatArray

    def scaled(self, logarithm: bool) -> Values:
        """The same, or its logarithms; NaN where there is no logarithm."""
        if not logarithm:
            return self
        parts = {"estimate": self.estimate, "replicates": self.replicates, "each": self.each}
        return Values(
            **{
                part: np.log(x, out=np.full_like(x, np.nan), where=x > 0)
                for part, x in parts.items()
            }
        )


def pooled_values(capture: xr.Dataset, name: str, cosines: list[Cosines] | None = None) -> Values:
    """Return one of TRENDS for each layer and, last, for the whole model; `cosines`, pooled for
    each layer and all, are made if needed.
    """
    layers, documents = list(range(capture.sizes["layer"])), capture.sizes["document"]
    groups = [*([layer] for layer in layers), layers]
    if name in ("beta", "beta_offset", "offset"):
        form = "exponential" if name == "beta" else "offset"
        each = cosines or [pooled_cosines(capture, group) for group in groups]
        columns = [_decay(one, form, name.removesuffix("_offset")) for one in each]
    elif name == "eta":
        columns = [_growth(*pooled_log_weights(capture, group)) for group in groups]
    else:
        columns = [_means(capture, layer, name) for layer in layers]
        columns.append(_mean_over_layers(np.stack(columns)))
    # A column is what _decay, _growth and _means return: all documents, without each, each alone.
    total, without, alone = np.split(np.stack(columns, axis=-1), [1, 1 + documents])
    return Values(estimate=total[0], replicates=without, each=alone)


def _mean_over_layers(by_layer: FloatArray) -> FloatArray:
    """Return the model's column, (1 + 2·document,), the mean of those of its layers, (layer, 1 +
    2·document); layers without a value do not count.
    """
    # The first entry, of all documents, is summed by itself: within a table numpy adds in another
    # order, and the last bit would be another.
    total, by_document = by_layer[:, 0], by_layer[:, 1:]
    return np.hstack([mean_over_documents(total), mean_over_documents(by_document)])


def _decay(data: Cosines, form: str, name: str) -> FloatArray:
    """Return a parameter of a decay: with all documents, without each, of each alone."""
    # Pooled cosines are those of one head: (document, 1, lag) → (document, lag).
    cosine = data.cosine[:, 0]
    stacked = np.concatenate([data.mean, leave_one_out_mean(cosine), cosine])
    result = solver.solve(form, data.lag, stacked, data.pairs)
    sound = result.converged & ~result.at_bound[name]
    return np.where(sound, result.values[name], np.nan)


def _growth(seen: LayerTokens, log_weight: FloatArray) -> FloatArray:
    """Return the growth rate: with all documents, without each, of each alone."""
    stacked = np.concatenate(
        [mean_over_documents(log_weight)[None], leave_one_out_mean(log_weight), log_weight]
    )
    return search_monotone(stacked, seen.first_content)["eta_tail"]


def _means(capture: xr.Dataset, layer: int, name: str) -> FloatArray:
    """Return a parameter that each head has by itself, averaged over the heads of a layer: with all
    documents, without each, of each alone.
    """
    seen = layer_tokens(capture, layer)
    variable = {"rho0": "sink_cosine", "p_sink": "attention_weight"}.get(name, "value_norm")
    data = capture[variable][:, layer, :, seen.start :].values.astype(np.float64)
    data[~np.isfinite(data)] = np.nan
    own = data
    if name == "p_sink":
        own = data[..., 0] if seen.sink else np.full(data.shape[:2], np.nan)
    elif name == "rho0":
        own = mean_of_known(data[..., seen.first_content :]) + (0.0 if seen.sink else np.nan)
    elif name != "lam":  # the CV is that of a document's own tokens
        own = fit.estimate(data, seen.first_content)["C" if name == "C" else "cv_profile"]
    rows = [mean_over_documents(own)[None], leave_one_out_mean(own), own]
    if name == "lam":
        rows = [fit.estimate(row, seen.first_content)[name] for row in rows]
    return np.concatenate([mean_of_known(row) for row in rows])


def depth_of(layers: int) -> FloatArray:
    """Return the depth of each layer: 0 at the first, 1 at the last."""
    return np.linspace(0.0, 1.0, layers)
