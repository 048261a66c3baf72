"""Ingredients of a bound for one KV head: measured cosines, norms and weights, and fitted weights.

`cost_of_assumptions` replaces them by fitted ones; `predictive` predicts from both. A Gram of
cosines that is not PSD is moved to the nearest feasible one (erratum 9). Imports theory's Grams.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.tokens import LayerTokens, layer_tokens
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.losses import mean_over_documents
from theory.head.gram import (
    LagGram,
    offset_exponential,
    rank_coherence,
    rank_coherence_edge,
)
from theory.head.projection import clip_spectrum, project

MEASURED: Final = "measured"
NEEDED: Final = ("capture", "norms", "similarity", "weights")
"""Groups of a run that hold the fitted and measured ingredients."""
RANK_LAW: Final = ("coherence_first", "coherence_limit", "coherence_exponent")
"""c₁, c∞ and γ of rank coherence in /amended."""
Groups = Mapping[str, xr.Dataset]
"""Groups of a run by name: /capture and the fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KVHead:
    """Measured ingredients of one KV head, and fitted weights of its query heads.

    Tokens are the visible ones.
    """

    gram: LagGram | None
    """Document means by lag and the mean sink cosine, made feasible.

    None where all documents lack a cosine at some lag, or with the sink (as for a value vector of
    length 0).
    """
    moved: float
    """Larger change of cosines or ρ₀ that made the Gram feasible; NaN without Gram."""
    norms: FloatArray
    """Document means by position, (token,)."""
    weights: FloatArray
    """Weights of each document, (document, head, token)."""
    weight_model: FloatArray
    """Fitted weights, (head, token): p_sink and exp of /weights' model of log α, scaled to sum 1.

    NaN for a head that could not be fitted.
    """


def kv_head_of(groups: Groups, layer: int, kv_head: int, heads: np.ndarray) -> KVHead:
    """Return the ingredients of one KV head and of its query heads (indices)."""
    capture, weights = groups["capture"], groups["weights"]
    visible = layer_tokens(capture, layer)
    norm, cosine, sink = (
        capture[name][:, layer, kv_head].values.astype(np.float64)
        for name in ("value_norm", "cosine_mean", "sink_cosine")
    )
    by_lag = mean_over_documents(cosine[:, : max(visible.content - 1, 0)])
    rho0 = 0.0
    if visible.sink:
        rho0 = float(mean_over_documents(sink[:, visible.start + 1 :].ravel()))
    gram, moved = None, np.nan
    if np.isfinite(by_lag).all() and np.isfinite(rho0):
        gram, moved = _feasible(np.concatenate([[1.0], np.clip(by_lag, -1, 1)]), rho0, visible)
    return KVHead(
        gram=gram,
        moved=moved,
        norms=norm[:, visible.start :].mean(axis=0),
        weights=document_weights(capture, layer, heads),
        weight_model=_fitted_weights(weights, layer, heads, visible),
    )


def document_weights(capture: xr.Dataset, layer: int, heads: np.ndarray | slice) -> FloatArray:
    """Return each document's weights of the visible tokens, (document, head, token)."""
    return capture["attention_weight"][
        :, layer, heads, layer_tokens(capture, layer).start :
    ].values.astype(np.float64)


def _fitted_weights(
    weights: xr.Dataset, layer: int, heads: np.ndarray, visible: LayerTokens
) -> FloatArray:
    """Return the fitted profile of each head, (head, token), with sum 1 as in Assumption 3."""
    # log α is fitted to a mean of logarithms, whose exponentials sum to less than the mean weights,
    # while p_sink is a mean weight. Unscaled, the sink would outweigh the content several times.
    # The fit gives the shape of the content, the sum its level.
    model = np.exp(
        weights["log_weight_model"][layer, heads, visible.start :].values.astype(np.float64)
    )
    content = model[:, visible.first_content :]
    sink = (
        weights["p_sink"][layer, heads].values[:, None]
        if visible.sink
        else np.zeros((len(heads), 0))
    )
    scale = ratio(1 - sink.sum(axis=1, keepdims=True), content.sum(axis=1, keepdims=True))
    return np.concatenate([sink, content * scale], axis=1)


def _feasible(by_lag: FloatArray, rho0: float, visible: LayerTokens) -> tuple[LagGram, float]:
    """Return a feasible Gram, and the larger change of the measured cosines and ρ₀."""
    gram, moved = LagGram(by_lag, rho0), 0.0
    if not np.isfinite(gram.edge(visible.content)):  # the Gram caches its edge for `project`
        clipped = clip_spectrum(by_lag)
        gram, moved = LagGram(clipped.by_lag, rho0), clipped.distance
    result = project(gram, visible.tokens, sink=0 if visible.sink else None)
    # The cosines by lag are feasible; only ρ₀ can be too large.
    assert isinstance(result.gram, LagGram)
    return result.gram, max(moved, result.distance)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedHead:
    """Fitted norms and Gram of one KV head.

    A Gram that is not feasible is moved to the nearest feasible one.
    """

    norms: FloatArray
    """Norms of Assumption 1, C and λC at the sink, (token,), in units of the value states."""
    gram: LagGram | np.ndarray
    projected: bool
    distance: float
    by_rank: bool = False
    """Whether content tokens are in the order of their weights, instead of positions."""
    dimension: int | None = None
    """Effective dimension of the directions; None is the head size."""

    def ordered(self, weights: FloatArray, *, sink: bool) -> FloatArray:
        """Return weights, (..., token), in the order of the Gram; the sink stays first."""
        if not self.by_rank:
            return weights
        content = -np.sort(-weights[..., int(sink) :], axis=-1)
        return np.concatenate([weights[..., : int(sink)], content], axis=-1)


def fitted_parameters(
    groups: Groups, gram: str, layer: int, kv_head: int
) -> dict[str, float] | None:
    """Return beta, c, rho0 and lam of one KV head, and the scale C of its norms; None where a fit
    has no estimate. Without a visible sink ρ₀ = 0 and λ = 1.
    """
    norm = groups["norms"][["C", "lam"]].isel(layer=layer, kv_head=kv_head)
    similarity = groups["similarity"][["beta", "offset", "rho0"]]
    fit = similarity.sel(gram=gram).isel(layer=layer, kv_head=kv_head)
    sink = layer_tokens(groups["capture"], layer).sink
    parameters = {
        "beta": float(fit["beta"]),
        "c": float(fit["offset"]),
        "rho0": float(fit["rho0"]) if sink else 0.0,
        "lam": float(norm["lam"]) if sink else 1.0,
        "scale": float(norm["C"]),
    }
    return parameters if np.isfinite(list(parameters.values())).all() else None


def fitted_norms(parameters: Mapping[str, float], tokens: int) -> FloatArray:
    """Return the norms of Assumption 1, C and λC at the sink, (token,)."""
    norms = np.full(tokens, parameters["scale"])
    norms[0] *= parameters["lam"]  # λ = 1 if the first token is not the sink
    return norms


def fitted_head(groups: Groups, gram: str, layer: int, kv_head: int) -> FittedHead | None:
    """Return the fitted model of one KV head; None where a fit has no estimate.

    An infeasible pair of decay and ρ₀ is moved to the feasible edge and flagged `projected`
    (erratum 9).
    """
    parameters = fitted_parameters(groups, gram, layer, kv_head)
    if parameters is None:
        return None
    visible = layer_tokens(groups["capture"], layer)
    beta, offset, rho0 = (parameters[name] for name in ("beta", "c", "rho0"))
    fitted = (
        offset_exponential(beta, offset, rho0, visible.tokens)
        if beta > 0
        else LagGram(np.ones(visible.tokens), rho0)
    )
    result = project(fitted, visible.tokens, sink=0 if visible.sink else None)
    return FittedHead(
        norms=fitted_norms(parameters, visible.tokens),
        gram=result.gram,
        projected=result.kind != "none",
        distance=result.distance,
    )


def head_by_rank(groups: Groups, layer: int, kv_head: int, head: int) -> FittedHead | None:
    """Return the fitted model of one query head with rank coherence and effective dimension; None
    where a fit has no estimate. Norms and ρ₀ are those of the KV head, ρ₀ at most that of the
    feasible edge.
    """
    parameters = fitted_parameters(groups, "offset", layer, kv_head)
    fit = groups["amended"].isel(layer=layer, head=head)
    law = [float(fit[name]) for name in (*RANK_LAW, "dimension")]
    visible = layer_tokens(groups["capture"], layer)
    if parameters is None or not np.isfinite(law).all() or not visible.content:
        return None
    first, limit, gamma, dimension = law
    edge = rank_coherence_edge(first, limit, gamma, visible.content)
    rho0 = float(np.clip(parameters["rho0"], -edge, edge))
    gram = rank_coherence(first, limit, gamma, rho0, visible.content + 1)
    distance = abs(parameters["rho0"] - rho0)
    return FittedHead(
        norms=fitted_norms(parameters, visible.tokens),
        gram=gram if visible.sink else gram[1:, 1:],
        projected=distance > 0,
        distance=distance,
        by_rank=True,
        dimension=max(round(dimension), 2),
    )
