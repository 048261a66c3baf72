"""Curves of every head: value norms, cosines by lag, attention weights, Precision, Recall and F.

Each curve has a 95% interval over documents and the fitted curves. The page shows them for one head
at a time. Positions and lags are averaged in blocks within a document, then over documents. The
first and last positions, near the sink and the growth phase, are not averaged. Source: arXiv
2602.01893, Assumptions 1-3 and Figures 2-5. Imports numpy, xarray and theory's forms of decay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from geostat.datasets.queries import over_queries
from geostat.datasets.separability import WITH_F
from geostat.datasets.variable import Variables, with_limits
from geostat.statistics.arrays import FloatArray
from geostat.statistics.losses import mean_over_documents

ALONE: Final = 12
"""Number of positions at each end that are not averaged."""
BLOCKS: Final = 72
"""Approximate number of blocks between them."""
LAG_BLOCKS: Final = 48
"""Maximum number of blocks of lags; their width grows with the lag."""


def head_curves(groups: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Return the curves of every head of a confronted run.

    Returns:
        norm, cosine, weight and their fitted curves, by (layer, kv_head or head, block or
        lag_block); the scores of `WITH_F` and their null baselines, by (layer, head, n_envelope);
        x_lower and x_upper are the 95% limits of x. Coordinates position_mean and lag_mean are
        means over a block. NaN where nothing was measured.
    """
    from geostat.fits.similarity.forms import FORMS  # imports lmfit, which plots need not

    capture = over_queries(groups)
    position = position_blocks(capture.sizes["position"])
    lag = lag_blocks(capture["lag"].values)
    result = xr.Dataset(
        _norms(capture, groups["norms"], position)
        | _cosines(capture, groups["similarity"], lag)
        | _weights(capture, groups["weights"], position)
        | _scores(groups)
    )
    return result.assign_coords(
        {
            "position_mean": ("block", _means(np.arange(capture.sizes["position"]), position)),
            "lag_mean": ("lag_block", _means(capture["lag"].values, lag)),
            "form": list(FORMS),
        }
    )


def position_blocks(positions: int) -> NDArray[np.int64]:
    """Return the start of each block of positions: single positions at both ends, else equal
    blocks.

    >>> position_blocks(30)[[0, 1, 12, 13, -1]]
    array([ 0,  1, 12, 13, 29])
    """
    inner = max(positions - 2 * ALONE, 0)
    step = max(1, round(inner / BLOCKS))
    ends = np.arange(positions - min(ALONE, positions), positions)
    between = np.arange(ALONE, max(positions - ALONE, ALONE), step)
    return np.unique(np.concatenate([np.arange(min(ALONE, positions)), between, ends]))


def lag_blocks(lags: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index at which each block of lags starts; blocks grow in proportion to the lag.

    >>> lag_blocks(np.arange(1, 1000))[:4], lag_blocks(np.arange(1, 1000)).size <= LAG_BLOCKS
    (array([0, 1, 2, 3]), True)
    """
    if not lags.size:
        return np.zeros(0, dtype=np.int64)
    edges = np.geomspace(1, lags.size, min(LAG_BLOCKS, lags.size)).round().astype(np.int64) - 1
    return np.unique(edges)


def _means(values: FloatArray | NDArray[np.int64], starts: NDArray[np.int64]) -> FloatArray:
    """Return the mean of finite values in each block along the last axis; NaN if there is none."""
    if not starts.size:
        return np.zeros((*np.shape(values)[:-1], 0))
    finite = np.isfinite(values)
    total = np.add.reduceat(np.where(finite, values, 0.0), starts, axis=-1)
    number = np.add.reduceat(finite.astype(np.float64), starts, axis=-1)
    return np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)


def _norms(capture: xr.Dataset, norms: xr.Dataset, starts: NDArray[np.int64]) -> Variables:
    dims = ("layer", "kv_head", "block")
    by_document = capture["value_norm"].transpose("document", "layer", "kv_head", "position").values
    content, sink = (norms[name].transpose("layer", "kv_head").values for name in ("C", "lam"))
    positions = capture.sizes["position"]
    fitted = content[..., None] * np.ones(positions)
    visible = capture["sink_visible"].values.astype(bool)
    fitted[visible, :, 0] *= sink[visible]
    hidden = np.arange(positions) < positions - capture["tokens"].values[:, None]
    fitted[np.broadcast_to(hidden[:, None], fitted.shape)] = np.nan
    return with_limits("norm", dims, _means(by_document, starts)) | {
        "norm_fitted": (dims, _means(fitted, starts))
    }


def _cosines(capture: xr.Dataset, similarity: xr.Dataset, starts: NDArray[np.int64]) -> Variables:
    from geostat.fits.similarity.forms import FORMS, by_lag

    dims = ("layer", "kv_head", "lag_block")
    by_document = capture["cosine_mean"].transpose("document", "layer", "kv_head", "lag").values
    lag = capture["lag"].values.astype(np.float64)
    fitted = np.full((len(FORMS), *by_document.shape[1:3], starts.size), np.nan)
    for row, form in enumerate(FORMS):
        if form in similarity["gram"].values:
            selected = similarity.sel(gram=form).transpose("layer", "kv_head", ...)
            parameters = [
                selected[name].values[..., None]
                for name in ("beta", "offset", "stretch")
                if name in selected
            ]
            fitted[row] = _means(by_lag(form, lag, *parameters), starts)
    return with_limits("cosine", dims, _means(by_document, starts)) | {
        "cosine_fitted": (("form", *dims), fitted)
    }


def _weights(capture: xr.Dataset, weights: xr.Dataset, starts: NDArray[np.int64]) -> Variables:
    """Return geometric means of weights: Assumption 3 is fitted to log weights."""
    order, dims = ("document", "layer", "head", "position"), ("layer", "head", "block")
    if "log_attention_weight" in capture:
        logs = capture["log_attention_weight"].transpose(*order).values.astype(np.float64)
    else:
        weight = capture["attention_weight"].transpose(*order).values.astype(np.float64)
        logs = np.log(weight, where=weight > 0, out=np.full(weight.shape, np.nan))
    logs = np.where(np.isfinite(logs), logs, np.nan)
    model = weights["log_weight_model"].transpose("layer", "head", "position").values
    return with_limits("weight", dims, _means(logs, starts), np.exp) | {
        "weight_fitted": (dims, np.exp(_means(model, starts)))
    }


def _scores(groups: Mapping[str, xr.Dataset]) -> Variables:
    """Return scores of the last query at the sizes N of the bounds, and means of null baselines."""
    capture, sizes = groups["capture"], groups["envelope"]["n_envelope"].values

    def clipped(score: FloatArray) -> FloatArray:
        return np.clip(score, 0.0, 1.0)

    curves: Variables = {}
    for name in (name for name in WITH_F if name in capture):
        scores = capture[name].transpose("document", "layer", "head", "n").sel(n=sizes)
        curves |= with_limits(name, ("layer", "head", "n_envelope"), scores.values, clipped)
    if "null" in groups:
        for null in groups["null"]["null"].values:
            for name in (name for name in WITH_F if name in groups["null"]):
                scores = groups["null"][name].sel(null=null, n=sizes)
                rows = scores.transpose("document", "layer", "head", "n").values
                curves[f"{name}_{null}"] = (
                    ("layer", "head", "n_envelope"),
                    mean_over_documents(rows),
                )
    return curves
