"""Curves of every head: value norms, cosines by lag, attention weights, Precision, Recall and F,
each with its 95% interval over documents and the curves fitted to it.

What a page shows of one head at a time. Positions and lags are averaged in blocks, each document
first; positions at both ends stand alone, where the sink and the growth are. Source: arXiv
2602.01893, Assumptions 1-3 and Figures 2-5. Imports numpy, xarray and theory's forms of decay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from geostat.datasets.queries import over_queries
from geostat.datasets.separability import WITH_F
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import document_mean
from geostat.statistics.losses import mean_over_documents
from theory.head.similarity_decay import FREE, by_lag

ALONE: Final = 12
"""Positions at each end that are a block of their own."""
BLOCKS: Final = 72
"""About how many blocks lie between them."""
LAG_BLOCKS: Final = 48
"""At most so many blocks of lags, growing with the lag."""

Variables = dict[str, tuple[tuple[str, ...], FloatArray]]


def head_curves(groups: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Return the curves of every head of a confronted run.

    Returns:
        norm, cosine, weight and the curves fitted to them, by (layer, kv_head or head, block or
        lag_block), and the scores of `WITH_F` and of their null baselines by (layer, head,
        n_envelope); x_lower and x_upper are the limits of x. Coordinates position and lag are the
        mean of each block. NaN where nothing was measured.
    """
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
            "form": list(FREE),
        }
    )


def position_blocks(positions: int) -> NDArray[np.int64]:
    """Return where each block of positions starts: those at both ends alone, the others in blocks
    of about one size.

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
    """Mean of the known values of each block along the last axis; NaN where none is known."""
    if not starts.size:
        return np.zeros((*np.shape(values)[:-1], 0))
    known = np.isfinite(values)
    total = np.add.reduceat(np.where(known, values, 0.0), starts, axis=-1)
    number = np.add.reduceat(known.astype(np.float64), starts, axis=-1)
    return np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)


def _with_limits(
    name: str,
    dims: tuple[str, ...],
    each: FloatArray,
    shown: Callable[[FloatArray], FloatArray] = np.asarray,
) -> Variables:
    """The mean over documents, axis 0, and its limits, as they are shown."""
    mean = document_mean(each)
    return {
        name: (dims, shown(mean_over_documents(each))),
        f"{name}_lower": (dims, shown(mean.lower)),
        f"{name}_upper": (dims, shown(mean.upper)),
    }


def _between(score: FloatArray) -> FloatArray:
    """A score, or a limit of one, cut to [0, 1]."""
    return np.clip(score, 0.0, 1.0)


def _norms(capture: xr.Dataset, norms: xr.Dataset, starts: NDArray[np.int64]) -> Variables:
    dims = ("layer", "kv_head", "block")
    each = capture["value_norm"].transpose("document", "layer", "kv_head", "position").values
    content, sink = (norms[name].transpose("layer", "kv_head").values for name in ("C", "lam"))
    positions = capture.sizes["position"]
    fitted = content[..., None] * np.ones(positions)
    seen = capture["sink_visible"].values.astype(bool)
    fitted[seen, :, 0] *= sink[seen]
    hidden = np.arange(positions) < positions - capture["tokens"].values[:, None]
    fitted[np.broadcast_to(hidden[:, None], fitted.shape)] = np.nan
    return _with_limits("norm", dims, _means(each, starts)) | {
        "norm_fitted": (dims, _means(fitted, starts))
    }


def _cosines(capture: xr.Dataset, similarity: xr.Dataset, starts: NDArray[np.int64]) -> Variables:
    dims = ("layer", "kv_head", "lag_block")
    each = capture["cosine_mean"].transpose("document", "layer", "kv_head", "lag").values
    lag = capture["lag"].values.astype(np.float64)
    fitted = np.full((len(FREE), *each.shape[1:3], starts.size), np.nan)
    for row, form in enumerate(FREE):
        if form in similarity["gram"].values:
            at = similarity.sel(gram=form).transpose("layer", "kv_head", ...)
            parameters = [
                at[name].values[..., None] for name in ("beta", "offset", "stretch") if name in at
            ]
            fitted[row] = _means(by_lag(form, lag, *parameters), starts)
    return _with_limits("cosine", dims, _means(each, starts)) | {
        "cosine_fitted": (("form", *dims), fitted)
    }


def _weights(capture: xr.Dataset, weights: xr.Dataset, starts: NDArray[np.int64]) -> Variables:
    """Geometric means of weights, as Assumption 3 is fitted to logarithms."""
    order, dims = ("document", "layer", "head", "position"), ("layer", "head", "block")
    if "log_attention_weight" in capture:
        logs = capture["log_attention_weight"].transpose(*order).values.astype(np.float64)
    else:
        weight = capture["attention_weight"].transpose(*order).values.astype(np.float64)
        logs = np.log(weight, where=weight > 0, out=np.full(weight.shape, np.nan))
    logs = np.where(np.isfinite(logs), logs, np.nan)
    model = weights["log_weight_model"].transpose("layer", "head", "position").values
    return _with_limits("weight", dims, _means(logs, starts), np.exp) | {
        "weight_fitted": (dims, np.exp(_means(model, starts)))
    }


def _scores(groups: Mapping[str, xr.Dataset]) -> Variables:
    """Scores of the last query, which the bounds are of, at the sizes of the bounds, and the mean
    of each null baseline there.
    """
    capture, sizes = groups["capture"], groups["envelope"]["n_envelope"].values
    found: Variables = {}
    for name in (name for name in WITH_F if name in capture):
        each = capture[name].transpose("document", "layer", "head", "n").sel(n=sizes)
        found |= _with_limits(name, ("layer", "head", "n_envelope"), each.values, _between)
    if "null" in groups:
        for null in groups["null"]["null"].values:
            for name in (name for name in WITH_F if name in groups["null"]):
                each = groups["null"][name].sel(null=null, n=sizes)
                rows = each.transpose("document", "layer", "head", "n").values
                found[f"{name}_{null}"] = (
                    ("layer", "head", "n_envelope"),
                    mean_over_documents(rows),
                )
    return found
