"""Assumption 1: value norms are a constant C behind a compressed sink, ‖v₀‖ = λC.

Source: arXiv 2602.01893, §3.1, Assumption 1 and Fig. 2. Two coefficients of variation are kept apart, because the paper's
figure averages over texts before it measures spread: CV per token (within a document) and CV of the mean profile.
Imports numpy, xarray, lmfit.
"""

from __future__ import annotations

import lmfit
import numpy as np
import xarray as xr

from geostat.fitting import Progress, described, described_parameter, layer_tokens, mean_over_documents, require, sink_flag
from geostat.jackknife import BoolArray, FloatArray, Interval, interval, leave_one_out_mean

NEEDS = {"value_norm": ("document", "layer", "kv_head", "position")}
DIMS = ("layer", "kv_head")


def profile(position: FloatArray, C: float, lam: float = 1.0) -> FloatArray:
    """Return ‖v_i‖ under Assumption 1: λC at the sink (position 0), C behind it.

    Args:
        position: token positions; leave 0 out where the sink is not visible.
        C: norm of a content token, units of the value states, positive.
        lam: λ, the sink's norm in units of C.

    Returns:
        Norms, shape of `position`, units of the value states.
    """
    return np.where(np.asarray(position) == 0, lam * C, C)


MODEL = lmfit.Model(profile, independent_vars=["position"])
"""Assumption 1 as an lmfit Model; its least-squares optimum has the closed form `estimate` returns, which the tests compare."""


def estimate(norm: FloatArray, first_content: int) -> dict[str, FloatArray]:
    """Return C, λ and CV of the mean profile from a mean profile of norms: the least-squares optimum of `profile`.

    Args:
        norm: ‖v_i‖ averaged over documents, shape (..., token), units of the value states; NaN where unknown.
        first_content: 1 if token 0 is the sink, 0 if no sink is visible (λ is then NaN).

    Returns:
        C, lam, cv_profile (population standard deviation over mean), rmse (units of the value states); each shape (...).
    """
    content = np.moveaxis(norm[..., first_content:], -1, 0)
    level = mean_over_documents(content)
    spread = np.sqrt(mean_over_documents((content - level) ** 2))
    sink = norm[..., 0] if first_content else np.full(level.shape, np.nan)
    positive = level > 0
    lam = np.divide(sink, level, out=np.full(level.shape, np.nan), where=positive)
    cv = np.divide(spread, level, out=np.full(level.shape, np.nan), where=positive)
    return {"C": level, "lam": lam, "cv_profile": cv, "rmse": spread}


def by_document(norm: FloatArray, first_content: int) -> dict[str, FloatArray]:
    """Return CV per token and λ against the median norm, document by document.

    Args:
        norm: ‖v_i‖, shape (..., token); NaN where unknown.
        first_content: 1 if token 0 is the sink, else 0.

    Returns:
        cv (population standard deviation over mean of i > 0) and lam (‖v₀‖ / median‖v_i‖, i > 0), each shape (...).
    """
    cv = estimate(norm, first_content)["cv_profile"]
    content = norm[..., first_content:]
    known = np.isfinite(content).any(axis=-1)
    median = np.full(known.shape, np.nan)
    if known.any():
        median[known] = np.nanmedian(content[known], axis=-1)
    sink = norm[..., 0] if first_content else np.full(median.shape, np.nan)
    lam = np.divide(sink, median, out=np.full(median.shape, np.nan), where=median > 0)
    return {"cv": cv, "lam": lam}


def fit_norms(capture: xr.Dataset, progress: Progress | None = None) -> xr.Dataset:
    """Fit Assumption 1 to every value head.

    Estimates are those of the document mean of ‖v_i‖; cv_token is the mean over documents of each document's own CV.

    Args:
        capture: a /capture dataset; uses value_norm (document, layer, kv_head, position), tokens and sink_visible (layer).
        progress: called with the fraction done after each layer.

    Returns:
        Dataset over (layer, kv_head): C, lam, cv_token, cv_profile, each with _se, _lower, _upper; rmse, documents
        (how many carry the head); over (document, layer, kv_head): cv_document, lam_document; over (layer): sink_visible.
        lam is NaN where the sink is not visible; everything is NaN for a head without finite norms.

    Raises:
        InputError: if a variable is missing, misshapen or empty, or a norm is negative.
    """
    require(capture, NEEDS)
    documents, layers, kv_heads = (capture.sizes[d] for d in ("document", "layer", "kv_head"))
    names = ("C", "lam", "cv_token", "cv_profile")
    found = {name: np.full((layers, kv_heads), np.nan) for name in (*names, "rmse")}
    spread = {name: {part: np.full((layers, kv_heads), np.nan) for part in ("se", "lower", "upper")} for name in names}
    each = {name: np.full((documents, layers, kv_heads), np.nan) for name in ("cv", "lam")}
    count = np.zeros((layers, kv_heads), dtype=np.int64)
    for layer in range(layers):
        seen = layer_tokens(capture, layer)
        norm = capture["value_norm"][:, layer, :, seen.start :].values.astype(np.float64)
        norm[~np.isfinite(norm)] = np.nan
        carries: BoolArray = np.asarray(np.isfinite(norm[..., seen.first_content :]).any(axis=-1))
        own = by_document(norm, seen.first_content)
        best = estimate(mean_over_documents(norm), seen.first_content) | {"cv_token": mean_over_documents(own["cv"])}
        without = estimate(leave_one_out_mean(norm), seen.first_content) | {"cv_token": leave_one_out_mean(own["cv"])}
        count[layer] = carries.sum(axis=0)
        for name in found:
            found[name][layer] = best[name]
        for name in names:
            limits = interval(best[name], without[name], carries)
            for part in spread[name]:
                spread[name][part][layer] = getattr(limits, part)
        for name in each:
            each[name][:, layer] = own[name]
        if progress:
            progress((layer + 1) / layers)
    return _dataset(capture, found, {name: Interval(**parts) for name, parts in spread.items()}, each, count)


def _dataset(
    capture: xr.Dataset, found: dict[str, FloatArray], spread: dict[str, Interval], each: dict[str, FloatArray], count: np.ndarray
) -> xr.Dataset:
    words = {
        "C": ("norm of a content token", "value norm", "C", "Assumption 1.1"),
        "lam": ("sink norm over content norm", "1", r"\lambda", "Assumption 1.2"),
        "cv_token": (
            "coefficient of variation of content norms within a document",
            "1",
            r"\mathrm{CV}_{\mathrm{token}}",
            "Assumption 1.1",
        ),
        "cv_profile": (
            "coefficient of variation of the mean content profile",
            "1",
            r"\mathrm{CV}_{\mathrm{profile}}",
            "Fig. 2",
        ),
    }
    out: dict[str, xr.Variable] = {}
    for name, (long_name, units, symbol, equation) in words.items():
        out |= described_parameter(
            name, DIMS, found[name], spread[name], long_name=long_name, units=units, symbol=symbol, equation=equation
        )
    first = "Assumption 1.1"
    out["rmse"] = described(
        DIMS,
        found["rmse"],
        long_name="root mean squared residual of the mean content profile",
        units="value norm",
        symbol=r"\mathrm{RMSE}",
        equation=first,
    )
    each_dims = ("document", *DIMS)
    out["cv_document"] = described(
        each_dims,
        each["cv"],
        long_name="coefficient of variation of content norms, by document",
        units="1",
        symbol=r"\mathrm{CV}",
        equation=first,
    )
    out["lam_document"] = described(
        each_dims,
        each["lam"],
        long_name="sink norm over median content norm, by document",
        units="1",
        symbol=r"\lambda",
        equation="Assumption 1.2",
    )
    out["documents"] = described(DIMS, count, long_name="documents that carry the head", units="1", symbol="K", equation="")
    out["sink_visible"] = sink_flag(capture)
    return xr.Dataset(out, coords={d: capture[d].variable for d in each_dims if d in capture.coords})
