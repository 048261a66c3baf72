"""Norms, cosines and attention weights averaged over heads and documents, with fits of one head.

Source: arXiv 2602.01893, Assumptions 1-3, Figures 2-4. Imports numpy, xarray and theory's Grams.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.tokens import most_tokens
from geostat.datasets.variable import Variables
from geostat.statistics.arrays import FloatArray
from geostat.statistics.losses import mean_over_documents
from theory.head.similarity_decay import offset_exponential

BAND: Final = (0.1, 0.9)
"""Quantiles over heads at the edges of a band."""
FORMS: Final = ("exponential", "offset")
"""Forms of similarity with a drawn curve."""


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
    lag = capture["lag"].values
    cosine = mean_over_documents(capture["cosine_mean"].values.astype(np.float64))
    low, high = band(cosine.reshape(-1, lag.size))
    forms = similarity["gram"].values
    misfit = similarity["mae_by_lag"].sel(
        gram="exponential" if "exponential" in forms else forms[0]
    )
    head = median_head(misfit.transpose("layer", "kv_head").values)
    measured, fitted = np.full(lag.size, np.nan), np.full((len(FORMS), lag.size), np.nan)
    if head is not None:
        measured = cosine[head]
        for row, form in enumerate(FORMS):
            if form in forms:
                selected = similarity.sel(gram=form).isel(layer=head[0], kv_head=head[1])
                beta = float(selected["beta"])
                offset = float(selected["offset"]) if form == "offset" else 0.0
                fitted[row] = 1.0 if beta == 0 else np.nan  # without decay the cosine is 1
                if beta > 0:
                    last = int(lag.max(initial=0))
                    fitted[row] = offset_exponential(beta, offset, 0.0, last + 1).by_lag[lag]
    return (
        _along("lag", cosine_low=low, cosine_high=high, cosine=measured)
        | {"cosine_fitted": (("form", "lag"), fitted)},
        head,
    )


def weight_means(capture: xr.Dataset, weights: xr.Dataset) -> tuple[FloatArray, FloatArray]:
    """Return the arithmetic and geometric mean of α over heads and documents, (position).

    The geometric mean excludes zero weights.
    """
    positions = capture.sizes["position"]
    arithmetic = mean_over_documents(
        weights["weight_mean"].values.astype(np.float64).reshape(-1, positions)
    )
    if "log_attention_weight" in capture:
        by_document = capture["log_attention_weight"].values.reshape(-1, positions)
        positive = np.isfinite(by_document)
        logs = np.where(positive, by_document, 0.0).sum(axis=0, dtype=np.float64)
    else:
        weight = capture["attention_weight"].values.reshape(-1, positions)
        positive = weight > 0
        logs = np.log(weight, where=positive, out=np.zeros(weight.shape, dtype=np.float32)).sum(
            axis=0, dtype=np.float64
        )
    number = positive.sum(axis=0)
    geometric = np.exp(np.divide(logs, number, out=np.full(positions, np.nan), where=number > 0))
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
