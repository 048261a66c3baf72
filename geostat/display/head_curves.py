"""Curves of the mean over heads, and of every head: value norms, cosines by lag, attention weights,
Precision, Recall and F.

Each curve has a 95% interval over documents and the fitted curves. The page shows them for one head
at a time. Positions and lags are averaged in blocks within a document, then over documents. The
first and last positions, near the sink and the growth phase, are not averaged. Source: arXiv
2602.01893, Assumptions 1-3 and Figures 2-5. Imports numpy and xarray; forms of similarity on use,
for they import lmfit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from geostat.datasets.separability import WITH_F, over_queries
from geostat.datasets.tokens import most_tokens
from geostat.datasets.variable import Variables, with_limits
from geostat.statistics.arrays import FloatArray
from geostat.statistics.losses import mean_over_documents
from geostat.statistics.proportion import share_over_documents

BAND: Final = (0.1, 0.9)
"""Quantiles over heads at the edges of a band."""
DRAWN_FORMS: Final = ("exponential", "offset")
"""Forms of similarity with a curve in the figure."""


def band(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the quantiles BAND of finite entries along the first axis; NaN if there is none.

    >>> low, high = band(np.array([[0.0, np.nan], [10.0, np.nan]]))
    >>> float(low[0]), float(high[0]), bool(np.isnan(low[1]))
    (1.0, 9.0, True)
    """
    edges = np.full((2, *rows.shape[1:]), np.nan)
    known = np.isfinite(rows).any(axis=0)
    if known.any():
        edges[:, known] = np.nanquantile(rows[:, known], BAND, axis=0)
    return edges[0], edges[1]


def median_head(values: FloatArray) -> tuple[int, int] | None:
    """Return the indices (layer, head) of the head closest to the median; None if all are NaN.

    >>> median_head(np.array([[1.0, 5.0], [2.0, np.nan]]))
    (1, 0)
    """
    known = np.isfinite(values)
    if not known.any():
        return None
    distance = np.where(known, np.abs(values - np.median(values[known])), np.inf)
    layer, head = np.unravel_index(int(distance.argmin()), values.shape)
    return int(layer), int(head)


def _along(dim: str, **curves: FloatArray) -> Variables:
    return {name: ((dim,), values) for name, values in curves.items()}


def norm_curves(capture: xr.Dataset, norms: xr.Dataset) -> Variables:
    """Return ‖v_i‖ in units of each head's C: mean and band over KV heads, (position)."""
    scale = norms["C"].values.astype(np.float64)
    scale = np.where(scale > 0, scale, np.nan)
    rows = mean_over_documents(capture["value_norm"].values.astype(np.float64)) / scale[..., None]
    rows = rows.reshape(-1, rows.shape[-1])
    low, high = band(rows)
    return _along("position", norm=mean_over_documents(rows), norm_low=low, norm_high=high)


def similarity_curves(
    capture: xr.Dataset, similarity: xr.Dataset
) -> tuple[Variables, tuple[int, int] | None]:
    """Return mean cosines by lag: the band over KV heads, and the head of median misfit.

    Returns:
        Variables over (lag) and (form, lag), including the fitted curves of that head, and its
        indices (layer, kv_head); NaN and None if no head was fitted.
    """
    lag = capture["lag"].values.astype(np.float64)
    cosine = mean_over_documents(capture["cosine_mean"].values.astype(np.float64))
    low, high = band(cosine.reshape(-1, lag.size))
    forms = similarity["gram"].values
    misfit = similarity["mae_by_lag"].sel(
        gram="exponential" if "exponential" in forms else forms[0]
    )
    head = median_head(misfit.transpose("layer", "kv_head").values)
    measured, fitted = np.full(lag.size, np.nan), np.full((len(DRAWN_FORMS), lag.size), np.nan)
    if head is not None:
        measured = cosine[head]
        fitted = np.stack([fitted_cosines(similarity, form, lag)[head] for form in DRAWN_FORMS])
    return (
        _along("lag", cosine_low=low, cosine_high=high, cosine=measured)
        | {"cosine_fitted": (("form", "lag"), fitted)},
        head,
    )


def fitted_cosines(similarity: xr.Dataset, form: str, lag: FloatArray) -> FloatArray:
    """Return the fitted cosine of every KV head, (layer, kv_head, lag); NaN if not fitted."""
    from geostat.fits.similarity.forms import by_lag

    heads = similarity.transpose("layer", "kv_head", ...)
    if form not in similarity["gram"].values:
        return np.full((heads.sizes["layer"], heads.sizes["kv_head"], lag.size), np.nan)
    selected = heads.sel(gram=form)
    names = [name for name in ("beta", "offset", "stretch") if name in selected]
    return by_lag(form, lag, **{name: selected[name].values[..., None] for name in names})


def log_weights(capture: xr.Dataset, dtype: type[np.floating] = np.float64) -> FloatArray:
    """Return log α, (document, layer, head, position), computed in `dtype`; NaN where α is 0."""
    name = "log_attention_weight" if "log_attention_weight" in capture else "attention_weight"
    values = capture[name].transpose("document", "layer", "head", "position").values
    values = values.astype(dtype)
    if name == "attention_weight":
        values = np.log(values, where=values > 0, out=np.full_like(values, np.nan))
    return np.where(np.isfinite(values), values, np.nan).astype(np.float64)


def weight_means(capture: xr.Dataset, weights: xr.Dataset) -> tuple[FloatArray, FloatArray]:
    """Return the arithmetic and geometric mean of α over heads and documents, (position).

    The geometric mean excludes zero weights.
    """
    positions = capture.sizes["position"]
    arithmetic = mean_over_documents(
        weights["weight_mean"].values.astype(np.float64).reshape(-1, positions)
    )
    geometric = np.exp(mean_over_documents(log_weights(capture, np.float32).reshape(-1, positions)))
    return np.where(arithmetic > 0, arithmetic, np.nan), geometric


def weight_curves(
    capture: xr.Dataset, weights: xr.Dataset
) -> tuple[Variables, tuple[int, int] | None]:
    """Return mean weights by position, and the weights and fit of the head of median misfit.

    Returns:
        Variables over (position); phase_starts, (2,), T₁ and T₂ as positions in the document;
        uniform, 1/T. The second result is the indices (layer, head) of that head, or None.
    """
    positions, tokens = capture.sizes["position"], most_tokens(capture)
    arithmetic, geometric = weight_means(capture, weights)
    head = median_head(weights["rmse"].transpose("layer", "head").values)
    nothing = np.full(positions, np.nan)
    measured, fitted, starts = nothing, nothing, np.full(2, np.nan)
    if head is not None:
        selected = weights.isel(layer=head[0], head=head[1])
        measured = np.exp(selected["log_weight_mean"].values)
        fitted = np.exp(selected["log_weight_model"].values)
        starts = positions - tokens + np.array([float(selected["t1"]), float(selected["t2"])])
    curves = _along(
        "position",
        weight_arithmetic=arithmetic,
        weight_geometric=geometric,
        weight=measured,
        weight_fitted=fitted,
    )
    uniform: Variables = {"uniform": ((), np.array(1.0 / tokens))}
    return curves | _along("phase_start", phase_starts=starts) | uniform, head


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
    from geostat.fits.similarity.forms import FORMS

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
    from geostat.fits.similarity.forms import FORMS

    dims = ("layer", "kv_head", "lag_block")
    by_document = capture["cosine_mean"].transpose("document", "layer", "kv_head", "lag").values
    lag = capture["lag"].values.astype(np.float64)
    fitted = np.stack([_means(fitted_cosines(similarity, form, lag), starts) for form in FORMS])
    return with_limits("cosine", dims, _means(by_document, starts)) | {
        "cosine_fitted": (("form", *dims), fitted)
    }


def _weights(capture: xr.Dataset, weights: xr.Dataset, starts: NDArray[np.int64]) -> Variables:
    """Return geometric means of weights: Assumption 3 is fitted to log weights."""
    dims = ("layer", "head", "block")
    model = weights["log_weight_model"].transpose("layer", "head", "position").values
    return with_limits("weight", dims, _means(log_weights(capture), starts), np.exp) | {
        "weight_fitted": (dims, np.exp(_means(model, starts)))
    }


def _scores(groups: Mapping[str, xr.Dataset]) -> Variables:
    """Return scores of the last query at the sizes N of the bounds, and means of null baselines."""
    capture, sizes = groups["capture"], groups["envelope"]["n_envelope"].values
    curves: Variables = {}
    dims, order = ("layer", "head", "n_envelope"), ("document", "layer", "head", "n")
    for name in (name for name in WITH_F if name in capture):
        scores = capture[name].transpose(*order).sel(n=sizes)
        curves |= with_limits(name, dims, scores.values, mean=share_over_documents)
    nulls = groups.get("null", xr.Dataset())
    for name in (name for name in WITH_F if name in nulls):
        for null in nulls["null"].values:
            scores = nulls[name].sel(null=null, n=sizes).transpose(*order)
            curves[f"{name}_{null}"] = dims, mean_over_documents(scores.values)
    return curves
