"""What one value head and the heads that share it bring to a bound: measured cosines, norms and
weights, and the fitted weights.

Shared by `cost_of_assumptions`, which swaps them for fitted ones, and `predictive`, which predicts
from both. Cosines that no vectors have are moved to the nearest that some have (erratum 9). Imports
theory's Grams.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.tokens import LayerTokens, layer_tokens
from geostat.statistics.arrays import FloatArray, ratio
from theory.head.gram import LagGram
from theory.head.projection import clip_spectrum, project
from theory.head.similarity_decay import offset_exponential

MEASURED: Final = "measured"
NEEDED: Final = ("capture", "norms", "similarity", "weights")
"""What of a run the fitted and the measured ingredients are taken from."""
Groups = Mapping[str, xr.Dataset]
"""Groups of a run by name: /capture and those of the fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueHead:
    """The measured ingredients of one kv_head, and the fitted weights of the heads that share
    it; tokens are the visible ones.
    """

    gram: LagGram | None
    """Document means by lag and the mean sink cosine, feasible; None where no document has a cosine
    at some lag, or with the sink, as with a value vector of length 0.
    """
    moved: float
    """By how much cosines or ρ₀ were moved to be feasible, whichever is more; NaN without any."""
    norms: FloatArray
    """Document means by position, (token,)."""
    weights: FloatArray
    """Each document's own, (document, head, token)."""
    weight_model: FloatArray
    """p_sink, and exp of /weights' model of log α times what makes them sum to 1, (head, token);
    NaN for a head that could not be fitted.
    """


def value_head(groups: Groups, layer: int, kv_head: int, heads: np.ndarray) -> ValueHead:
    """Gather the ingredients of one kv_head, and of the heads (indices) that share it."""
    capture, weights = groups["capture"], groups["weights"]
    seen = layer_tokens(capture, layer)
    model = _fitted_weights(weights, layer, heads, seen)
    norm = capture["value_norm"][:, layer, kv_head, seen.start :].values.astype(np.float64)
    by_lag = _mean_of_known(
        capture["cosine_mean"][:, layer, kv_head].values.astype(np.float64)[
            :, : max(seen.content - 1, 0)
        ]
    )
    sink = capture["sink_cosine"][:, layer, kv_head, seen.start + 1 :].values.astype(np.float64)
    rho0 = float(_mean_of_known(sink.ravel())) if seen.sink else 0.0
    gram, moved = None, np.nan
    if np.isfinite(by_lag).all() and np.isfinite(rho0):
        gram, moved = _feasible(np.concatenate([[1.0], np.clip(by_lag, -1, 1)]), rho0, seen)
    own = document_weights(capture, layer, heads)
    return ValueHead(
        gram=gram, moved=moved, norms=norm.mean(axis=0), weights=own, weight_model=model
    )


def _mean_of_known(values: FloatArray) -> FloatArray:
    """The mean along axis 0 of the entries that are known; NaN where none is."""
    known = np.isfinite(values)
    return ratio(np.where(known, values, 0.0).sum(axis=0), known.sum(axis=0))


def document_weights(capture: xr.Dataset, layer: int, heads: np.ndarray | slice) -> FloatArray:
    """Each document's own weights of the visible tokens, (document, head, token)."""
    return capture["attention_weight"][
        :, layer, heads, layer_tokens(capture, layer).start :
    ].values.astype(np.float64)


def _fitted_weights(
    weights: xr.Dataset, layer: int, heads: np.ndarray, seen: LayerTokens
) -> FloatArray:
    """The fitted profile of each head, (head, token), of sum 1 as Assumption 3 has it.

    log α is fitted to a mean of logarithms, whose exponentials sum to less than the mean weights
    do, while p_sink is a mean weight; left so, the sink would outweigh the content several times
    over. The fit has the shape of the content, the sum its level.
    """
    model = np.exp(
        weights["log_weight_model"][layer, heads, seen.start :].values.astype(np.float64)
    )
    content = model[:, seen.first_content :]
    sink = (
        weights["p_sink"][layer, heads].values[:, None] if seen.sink else np.zeros((len(heads), 0))
    )
    scale = ratio(1 - sink.sum(axis=1, keepdims=True), content.sum(axis=1, keepdims=True))
    return np.concatenate([sink, content * scale], axis=1)


def _feasible(by_lag: FloatArray, rho0: float, seen: LayerTokens) -> tuple[LagGram, float]:
    """Measured cosines as a Gram that vectors have, and by how much cosines or ρ₀ had to be
    moved for it, whichever is more.
    """
    gram, moved = LagGram(by_lag, rho0), 0.0
    if not np.isfinite(gram.edge(seen.content)):  # which the Gram keeps, for `project`
        clipped = clip_spectrum(by_lag)
        gram, moved = LagGram(clipped.by_lag, rho0), clipped.distance
    result = project(gram, seen.tokens, sink=0 if seen.sink else None)
    assert isinstance(
        result.gram, LagGram
    )  # the cosines by lag are feasible, so ρ₀ alone can be too large
    return result.gram, max(moved, result.distance)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedHead:
    """What the fits say of one kv_head: norms, and a Gram, moved to the nearest feasible one
    where the fit has none.
    """

    norms: FloatArray
    """Assumption 1's norms C, and λC of the sink, of the visible tokens, (token,), in units of
    value norm.
    """
    gram: LagGram | np.ndarray
    projected: bool
    distance: float


def fitted_head(groups: Groups, gram: str, layer: int, kv_head: int) -> FittedHead | None:
    """Assemble the fitted model of one kv_head; None where a fit has no estimate.

    A pair of decay and ρ₀ for which no vectors exist is moved to the feasible edge and flagged
    `projected` (erratum 9).
    """
    norms, similarity = (
        groups["norms"][["C", "lam"]],
        groups["similarity"][["beta", "offset", "rho0"]],
    )
    norm = norms.isel(layer=layer, kv_head=kv_head)
    fit = similarity.sel(gram=gram).isel(layer=layer, kv_head=kv_head)
    seen = layer_tokens(groups["capture"], layer)
    beta, offset, scale = float(fit["beta"]), float(fit["offset"]), float(norm["C"])
    rho0 = float(fit["rho0"]) if seen.sink else 0.0
    lam = float(norm["lam"]) if seen.sink else 1.0
    if not np.all(np.isfinite([beta, offset, scale, rho0, lam])):
        return None
    fitted = (
        offset_exponential(beta, offset, rho0, seen.tokens)
        if beta > 0
        else LagGram(np.ones(seen.tokens), rho0)
    )
    result = project(fitted, seen.tokens, sink=0 if seen.sink else None)
    every = np.full(seen.tokens, scale)
    every[0] *= lam  # 1 where the first token is no sink
    return FittedHead(
        norms=every, gram=result.gram, projected=result.kind != "none", distance=result.distance
    )
