"""Fit of value norms, Assumption 1: constant norm C of content tokens, compressed sink ‖v₀‖ = λC.

Source: arXiv 2602.01893, §3.1, Assumption 1 and Fig. 2. The paper's figure averages over texts
before it measures spread; two coefficients of variation are therefore reported: CV per token
(within a document) and CV of the mean profile. `trend`, `variance` and `compressed` hold further
statistics; `variables` holds names and meanings.

Everywhere `norm` is ‖v_i‖ of visible tokens, token axis last, in units of the value states, NaN
where unknown. `first_content` is 1 if token 0 is the sink, and 0 if no sink is visible (λ is then
NaN). Imports numpy, xarray, lmfit.
"""

from __future__ import annotations

from collections.abc import Mapping

import lmfit
import numpy as np
import xarray as xr

from geostat.datasets.flags import combined
from geostat.datasets.progress import Progress, tracked
from geostat.datasets.tokens import layer_tokens, require
from geostat.datasets.variable import Value, sink_flag, stack_layers, variables
from geostat.fits.norms.compressed import (
    compressed,
    compressed_share,
    compressed_tokens,
    median_norm,
    occurrences,
    secondary_sinks,
    sink_positions,
    sink_smallest,
)
from geostat.fits.norms.trend import MIN_TOKENS, hac_errors, trend
from geostat.fits.norms.variables import DIMS, FLAGS, HEADS, POSITIONS, TOKENS
from geostat.fits.norms.variance import split
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import Estimate, jackknife, leave_one_out_mean
from geostat.statistics.losses import mean_over_documents

NEEDS = {"value_norm": ("document", "layer", "kv_head", "position")}


def profile(position: FloatArray, C: float, lam: float = 1.0) -> FloatArray:
    """Return ‖v_i‖ under Assumption 1: λC at position 0, C > 0 elsewhere; shape of `position`.

    Position 0 is the sink; layers that do not see it start at 1.

    >>> profile(np.arange(4), C=2.0, lam=0.25)
    array([0.5, 2. , 2. , 2. ])
    """
    return np.where(np.asarray(position) == 0, lam * C, C)


MODEL = lmfit.Model(profile, independent_vars=["position"])
"""Assumption 1 as an lmfit Model; `estimate` returns its least-squares optimum in closed form."""


def estimate(norm: FloatArray, first_content: int) -> dict[str, FloatArray]:
    """Return the least-squares optimum of `profile` for a mean profile of norms, (..., token).

    Returns C, lam, cv_profile (population standard deviation over mean) and rmse (units of the
    value states), each (...).

    >>> best = estimate(np.array([0.5, 1.9, 2.1]), first_content=1)
    >>> print(f"C = {best['C']:.2f}, λ = {best['lam']:.2f}, CV = {best['cv_profile']:.3f}")
    C = 2.00, λ = 0.25, CV = 0.050
    """
    content = np.moveaxis(norm[..., first_content:], -1, 0)
    level = mean_over_documents(content)
    spread = np.sqrt(mean_over_documents((content - level) ** 2))
    lam = ratio(_sink(norm, first_content), level)
    return {"C": level, "lam": lam, "cv_profile": ratio(spread, level), "rmse": spread}


def _sink(norm: FloatArray, first_content: int) -> FloatArray:
    """Return ‖v₀‖, (...); NaN where no sink is visible."""
    return norm[..., 0] if first_content else np.full(norm.shape[:-1], np.nan)


def estimates(norm: FloatArray, first_content: int) -> dict[str, Estimate]:
    """Return every estimate of /norms with its document jackknife, (kv_head,), from norms of one
    layer, (document, kv_head, token).
    """
    content = norm[..., first_content:]
    carries: BoolArray = np.asarray(np.isfinite(content).any(axis=-1))
    best = estimate(mean_over_documents(norm), first_content)
    without = estimate(leave_one_out_mean(norm), first_content)
    cv = estimate(norm, first_content)["cv_profile"]
    best["cv_token"], without["cv_token"] = mean_over_documents(cv), leave_one_out_mean(cv)
    best["trend"] = trend(mean_over_documents(content))
    without["trend"] = trend(leave_one_out_mean(content))
    names = ("C", "lam", "cv_token", "cv_profile", "trend")
    return {
        **{name: jackknife(best[name], without[name], carries) for name in names},
        **split(content),
        "sink_smallest_share": sink_smallest(norm, first_content),
        "compressed_share": compressed_share(content, compressed(content)),
    }


def fit_layer(norm: FloatArray, first_content: int) -> dict[str, Value]:
    """Fit Assumption 1 to the KV heads of one layer, (document, kv_head, token).

    Returns the numbers of `variables.HEADS` but compressed_documents, and `compressed` and
    `secondary`, masks of content tokens.
    """
    content = norm[..., first_content:]
    small = compressed(content)
    secondary = secondary_sinks(content, small)
    fitted = estimates(norm, first_content)
    return fitted | {
        "rmse": estimate(mean_over_documents(norm), first_content)["rmse"],
        "cv_document": estimate(norm, first_content)["cv_profile"],
        "lam_document": ratio(_sink(norm, first_content), median_norm(content)),
        "trend_se_hac": hac_errors(mean_over_documents(content)),
        "share_document_at_zero": fitted["share_document"].value == 0,
        "share_position_at_zero": fitted["share_position"].value == 0,
        "documents": np.isfinite(content).any(axis=-1).sum(axis=0),
        "compressed": small,
        "secondary": secondary,
        "secondary_sinks": secondary.sum(axis=-1),
        "flags": combined(problems(norm, first_content, fitted), tuple(FLAGS)),
    }


def problems(
    norm: FloatArray, first_content: int, fitted: Mapping[str, Estimate]
) -> dict[str, BoolArray]:
    """Return the mask of each of FLAGS, (kv_head,); together they explain every NaN of `fitted`."""
    known = np.isfinite(norm[..., first_content:])
    carries: BoolArray = np.asarray(known.any(axis=-1))
    documents = carries.sum(axis=0)
    positions = (known | ~carries[..., None]).all(axis=0).sum(axis=-1)
    has_norms: BoolArray = np.asarray(documents > 0)
    return {
        "no_norms": ~has_norms,
        "one_document": documents == 1,
        "two_documents": documents == 2,
        "few_tokens": has_norms & ((known.any(axis=0).sum(axis=-1) < MIN_TOKENS) | (positions < 2)),
        "holes": has_norms & (known != carries[..., None]).any(axis=(0, 2)),
        "zero_norms": has_norms & ~(fitted["C"].value > 0),
        "constant": (
            (documents > 1) & (positions > 1) & ~np.isfinite(fitted["share_residual"].value)
        ),
        "no_sink": has_norms & ~np.isfinite(_sink(norm, first_content)).all(axis=0, where=carries),
        "none_compressed": has_norms & (fitted["compressed_share"].value == 0),
    }


def fit_norms(capture: xr.Dataset, progress: Progress | None = None) -> xr.Dataset:
    """Fit Assumption 1 to every KV head.

    Estimates use the document mean of ‖v_i‖; cv_token is the mean over documents of the CV within a
    document.

    Args:
        capture: a /capture dataset; uses the variables of NEEDS, tokens and sink_visible (layer),
            and, for the list of compressed tokens, token_id (document, position).
        progress: called with the fraction done after each layer.

    Returns:
        The variables of `variables`, by (layer, kv_head), document, position and layer; lists along
        compressed_token (omitted without token_id) and secondary_sink. An estimate x comes with
        x_se, x_lower and x_upper; flags say why a number is NaN.

    Raises:
        InputError: if a variable is missing, misshapen or empty.
    """
    require(capture, NEEDS)
    layers: list[dict[str, Value]] = []
    has_ids = "token_id" in capture
    token_id = np.full((capture.sizes["document"], capture.sizes["position"]), -1)
    if has_ids:
        token_id = capture["token_id"].transpose("document", "position").values.astype(np.int64)
    ids, codes = np.unique(token_id, return_inverse=True)
    hits, counted, sinks = [], [], []
    for layer in tracked(range(capture.sizes["layer"]), progress):
        visible = layer_tokens(capture, layer)
        norm = capture["value_norm"][:, layer, :, visible.start :].values.astype(np.float64)
        norm[~np.isfinite(norm)] = np.nan
        result = fit_layer(norm, visible.first_content)
        small, secondary = (np.asarray(result[name]) for name in ("compressed", "secondary"))
        first = visible.start + visible.first_content
        content_codes = codes.reshape(token_id.shape)[:, first:]
        hits.append(occurrences(content_codes, small, ids.size))
        counted.append(
            occurrences(content_codes, np.isfinite(norm[..., visible.first_content :]), ids.size)
        )
        sinks.append(np.pad(secondary.sum(axis=0), (first, 0)))
        result["compressed_documents"] = np.pad(small.sum(axis=0), ((0, 0), (first, 0)))
        layers.append(result)
    out = variables(HEADS, stack_layers(HEADS, layers)) | {"sink_visible": sink_flag(capture)}
    tokens = compressed_tokens(ids, np.stack(hits), np.stack(counted))
    positions = sink_positions(token_id, np.sum(sinks, axis=0))
    out |= variables(TOKENS if has_ids else (), tokens)
    out |= variables(POSITIONS if has_ids else POSITIONS[:-1], positions)
    return xr.Dataset(
        out,
        coords={
            dim: capture[dim].variable
            for dim in ("document", *DIMS, "position")
            if dim in capture.coords
        },
    )
