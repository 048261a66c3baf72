"""Pooled measurements: a layer's heads, or all of a model's, as one, document by document: cosines by lag, log weights and norms by token.

Value heads of one layer have equally many pairs at a lag, so their mean cosine is that of all their pairs; over layers, pairs are counted. Log weights
and norms are averaged over heads; over layers, those that see the most tokens. Imports numpy and xarray.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from geostat.datasets.tokens import LayerTokens, layer_tokens
from geostat.fits.similarity.fit import layer_cosines
from geostat.fits.similarity.one_form import Cosines
from geostat.fits.weights.fit import layer_weights
from geostat.statistics.arrays import FloatArray
from geostat.statistics.losses import mean_over_documents


def pooled_cosines(capture: xr.Dataset, layers: list[int]) -> Cosines:
    """Return the mean cosines by lag of all value heads of some layers, as those of one head.

    Args:
        capture: a /capture dataset.
        layers: indices of the layers; lags are those of the layer that sees the most tokens.
    """
    each = [layer_cosines(capture, layer) for layer in layers]
    lag = max((one.lag for one in each), key=len)
    pairs, total, known = np.zeros(lag.size), 0.0, 0.0
    for one in each:
        room = (0, lag.size - one.lag.size)
        own, cosine = np.pad(one.pairs, room), np.pad(one.cosine, ((0, 0), (0, 0), room), constant_values=np.nan)
        there = np.isfinite(cosine)
        total = total + (np.where(there, cosine, 0.0) * own).sum(axis=1)
        known = known + (there * own).sum(axis=1)
        pairs += own
    result = np.divide(total, known, out=np.full(np.shape(total), np.nan), where=np.asarray(known) > 0)
    return Cosines(lag=lag, pairs=pairs, cosine=result[:, None])


def pooled_log_weights(capture: xr.Dataset, layers: list[int]) -> tuple[LayerTokens, FloatArray]:
    """Return the tokens of some layers and the mean over their query heads of log α, shape (document, content token), nats.

    Args:
        capture: a /capture dataset.
        layers: indices of the layers; only those that see the most tokens are taken.
    """
    seen, kept = _widest(capture, layers)
    each = [layer_weights(capture, layer)[2] for layer in kept]
    return seen, mean_over_documents(np.moveaxis(np.concatenate(each, axis=1), 1, 0))


def pooled_norms(capture: xr.Dataset, layers: list[int]) -> tuple[LayerTokens, FloatArray]:
    """Return the tokens of some layers and the mean over their value heads of ‖v_i‖, shape (document, token), units of the value states.

    Args:
        capture: a /capture dataset.
        layers: indices of the layers; only those that see the most tokens are taken.
    """
    seen, kept = _widest(capture, layers)
    norm = capture["value_norm"][:, kept, :, seen.start :].values.astype(np.float64)
    norm[~np.isfinite(norm)] = np.nan
    return seen, mean_over_documents(np.moveaxis(norm.reshape(norm.shape[0], -1, norm.shape[-1]), 1, 0))


def _widest(capture: xr.Dataset, layers: list[int]) -> tuple[LayerTokens, list[int]]:
    seen = {layer: layer_tokens(capture, layer) for layer in layers}
    most = max(seen.values(), key=lambda one: (one.tokens, one.sink))
    return most, [layer for layer, one in seen.items() if one == most]
