"""Fit of value norms, Assumption 1: constant norm C of content tokens, compressed sink ‖v₀‖ = λC.

Source: arXiv 2602.01893, §3.1, Assumption 1 and Fig. 2. The paper's figure averages over texts
before it measures spread; two coefficients of variation are therefore reported: CV per token
(within a document) and CV of the mean profile. `trend`, `variance` and `compressed` hold further
statistics.

Everywhere `norm` is ‖v_i‖ of visible tokens, token axis last, in units of the value states, NaN
where unknown. `first_content` is 1 if token 0 is the sink, and 0 if no sink is visible (λ is then
NaN). Imports numpy, xarray, lmfit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import lmfit
import numpy as np
import xarray as xr

from empirical.measure.sinks import COMPRESSED
from geostat.datasets.overlap import Progress, tracked
from geostat.datasets.table import table
from geostat.datasets.tokens import layer_tokens, require
from geostat.datasets.variable import Value, combined, fit_dataset, flags, join_heads, variables
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
from geostat.fits.norms.trend import BANDWIDTH, MIN_TOKENS, hac_errors, trend
from geostat.fits.norms.variance import SOURCES, split
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import Estimate, jackknife, leave_one_out_mean
from geostat.statistics.losses import mean_over_documents

DIMS: Final = ("layer", "kv_head")

FLAGS: Final[Mapping[str, str]] = {
    "no_norms": "no document has a finite content norm; all numbers are n/a",
    "one_document": ("one document carries the head; no standard errors, no variance split"),
    "two_documents": "two documents carry the head; the variance split has no standard errors",
    "few_tokens": (
        "fewer than three content positions, or fewer than two that all documents share; no trend"
        " or no variance split"
    ),
    "holes": ("some documents lack some positions; the variance split uses the shared positions"),
    "zero_norms": "the mean norm is 0; ratios to the mean are n/a",
    "constant": "norms are constant; shares of variance are n/a",
    "no_sink": (
        "the sink's norm is missing in a document; if missing in all, λ and the share of smallest"
        " sinks are n/a"
    ),
    "none_compressed": (
        "no content token is compressed; the share 0 lies at its bound and has no standard error"
    ),
}
"""Reasons why a number is n/a or based on less data, in the order of the bits."""

VARIANCE_MODEL: Final = (
    "two-way random effects, restricted likelihood, one norm per document and position"
)

HEADS: Final = (
    *table(
        r"""
    C | value norm | C | norm of a content token | tested
    lam | 1 | \lambda | sink norm over content norm | tested | Assumption 1.2
    cv_token | 1 | \mathrm{CV}_{\mathrm{token}} | coefficient of variation of content norms within a
        document | tested
    cv_profile | 1 | \mathrm{CV}_{\mathrm{profile}} | coefficient of variation of the mean content
        profile | tested | Fig. 2 | note: comparable with the paper's 0.02 to 0.03; averaging over K
        documents divides the variation that is not due to position by √K
    cv_position | 1 | \mathrm{CV}_{\mathrm{position}} | coefficient of variation over positions that
        remains after averaging over documents | tested | Fig. 2 | interval: 95% document jackknife
        of the square, t(K-1), clipped at 0; standard error: the longer arm over t
    trend | 1 | \Delta_{\mathrm{trend}} | relative change of the norm from the first content token
        to the last | tested | note: least-squares slope of the mean profile times the profile's
        length, over C
    share_document | 1 | \sigma^2_{\mathrm{document}}/\sigma^2 | share of the variance of norms
        between documents | estimated | interval: 95% document jackknife, t(K-1), of the log of the
        documents' mean square, clipped to [0, 1]
    share_position | 1 | \sigma^2_{\mathrm{position}}/\sigma^2 | share of the variance of norms
        between positions | estimated | interval: 95% document jackknife of the method-of-moments
        estimate, clipped to [0, 1]
    share_residual | 1 | \sigma^2_{\mathrm{residual}}/\sigma^2 | share of the variance of norms
        within documents not explained by position | estimated | interval: 95% document jackknife of
        the method-of-moments estimate, clipped to [0, 1]
    sink_smallest_share | 1 | \Pr(\|v_0\|<\min_i\|v_i\|) | share of documents in which the sink has
        the smallest norm | estimated | Assumption 1.2 | interval: 95% Wilson over documents; the
        standard error is half its width over 1.96
    compressed_share | 1 | \Pr(\|v_i\|\leq\frac12\,\mathrm{med}\|v\|) | share of content tokens that
        are compressed | estimated | Assumption 1.2
    rmse | value norm | \mathrm{RMSE} | root mean squared residual of the mean content profile
    trend_se_hac | 1 | \mathrm{se}_{\mathrm{HAC}} | standard error of the trend of the mean profile,
        robust to autocorrelation over positions | kernel: Bartlett (Newey-West)
    share_document_at_zero | 1 | - | restricted likelihood estimates no variance between documents |
        none
    share_position_at_zero | 1 | - | restricted likelihood estimates no variance between positions |
        none
    secondary_sinks | 1 | - | positions compressed in most documents, more often than by chance |
        Assumption 1.2
    documents | 1 | K | number of documents with data for the head | none
    cv_document | 1 | \mathrm{CV} | coefficient of variation of content norms, by document |
        dims: document layer kv_head
    lam_document | 1 | \lambda | sink norm over median content norm, by document | Assumption 1.2 |
        dims: document layer kv_head
    compressed_documents | 1 | - | documents in which a position is compressed | Assumption 1.2 |
        dims: layer kv_head position
""",
        equation="Assumption 1.1",
        dims=DIMS,
        more={
            name: {"model": VARIANCE_MODEL}
            for name in ("cv_position", *(f"share_{source}" for source in SOURCES))
        }
        | {
            "compressed_share": {
                "rule": f"norm of at most {COMPRESSED} of the median content norm of its document",
                "interval": "95% document jackknife, t(K-1), clipped to [0, 1]",
            },
            "trend_se_hac": {"bandwidth": BANDWIDTH},
        },
    ).values(),
    flags("flags", "why a number is n/a or based on less data", FLAGS, DIMS),
)
"""Numbers of each layer."""

TOKENS: Final = tuple(
    table(
        """
    compressed_token_id | 1 | - | compressed tokens: token id
    compressed_token_count | 1 | - | compressed tokens: compressed occurrences, summed over KV heads
    compressed_token_occurrences | 1 | - | compressed tokens: occurrences with a norm, summed over
        KV heads
    compressed_token_share | 1 | - | compressed tokens: compressed share of the occurrences
    compressed_token_heads | 1 | - | compressed tokens: KV heads that compress at least half of its
        occurrences
    compressed_token_share_by_head | 1 | - | compressed tokens: compressed share of the occurrences
        | dims: compressed_token layer kv_head
""",
        equation="Assumption 1.2",
        dims=("compressed_token",),
    ).values()
)
POSITIONS: Final = tuple(
    table(
        """
    secondary_sink_position | 1 | - | secondary sinks: position
    secondary_sink_heads | 1 | - | secondary sinks: number of KV heads with a secondary sink at the
        position
    secondary_sink_tokens | 1 | - | secondary sinks: number of distinct token ids at the position
""",
        equation="Assumption 1.2",
        dims=("secondary_sink",),
    ).values()
)
"""Secondary sinks; the last variable needs token ids in the capture."""


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

    Returns the numbers of HEADS but compressed_documents, and `compressed` and
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
    numbers = join_heads(HEADS, layers, capture.sizes["kv_head"])
    out = variables(HEADS, numbers)
    tokens = compressed_tokens(ids, np.stack(hits), np.stack(counted))
    positions = sink_positions(token_id, np.sum(sinks, axis=0))
    out |= variables(TOKENS if has_ids else (), tokens)
    out |= variables(POSITIONS if has_ids else POSITIONS[:-1], positions)
    return fit_dataset(capture, out, ("document", *DIMS, "position"))
