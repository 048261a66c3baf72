"""Stationarity of similarity: does it depend on the lag alone? Mean cosines at one lag, compared
between blocks of absolute position.

Source: arXiv 2602.01893, Assumption 2.1, which has no position in it. A pair belongs to the block
of its later token. Blocks and lag bins count by their pairs; the mean of each lag bin is taken out,
so that only a change with position is left. Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geostat.datasets.tokens import LayerTokens
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import Estimate, document_mean, jackknife, leave_one_out_mean
from geostat.statistics.losses import mean_over_documents

LEAST = 1e-12
"""Pairs times squared distance of blocks below which there is one block, and no slope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Number of pairs in each (position_block, lag_bin), and where each block's centre lies, 0
    the first token, 1 the last.
    """

    pairs: FloatArray
    centre: FloatArray

    @classmethod
    def of(
        cls,
        seen: LayerTokens,
        block_start: np.ndarray,
        block_stop: np.ndarray,
        lag_start: np.ndarray,
        lag_stop: np.ndarray,
    ) -> Blocks:
        """Count the pairs of a layer; starts and stops, both included, are positions and lags; a
        block may begin before visible ones.
        """
        first, last = (
            np.maximum(block_start - seen.start, seen.first_content),
            block_stop - seen.start,
        )
        lag = np.arange(1, int(lag_stop[-1]) + 1 if lag_stop.size else 1)
        later = np.maximum(first[:, None], seen.first_content + lag)
        by_lag = np.maximum(last[:, None] + 1 - later, 0).astype(np.float64)
        pairs = [
            by_lag[:, a - 1 : b].sum(axis=-1) for a, b in zip(lag_start, lag_stop, strict=True)
        ]
        centre = (first + last) / 2.0 / max(seen.tokens - 1, 1)
        return cls(
            pairs=np.stack(pairs, axis=-1) if pairs else np.zeros((first.size, 0)), centre=centre
        )


def drift(cosine: FloatArray, blocks: Blocks) -> tuple[dict[str, Estimate], FloatArray]:
    """Measure how far the mean cosine at fixed lag, (document, head, position_block, lag_bin), NaN
    where there is no pair, depends on position.

    NaN with fewer than two blocks in any lag bin. drift_slope (head,): change from the first token
    to the last, by weighted least squares, mean over documents. drift_slope_by_lag (head, lag_bin):
    the same within each lag bin. drift_rms (head,): root mean square over pairs of the deviation of
    a block from its lag bin, as it would be with infinitely many documents: products of two
    documents only, in which noise cancels. And, apart, the same of single documents, noise and all,
    (head,).
    """
    known = np.isfinite(cosine)
    weight = known * blocks.pairs
    total = weight.sum(axis=-2, keepdims=True)
    value = np.where(known, cosine, 0.0)
    centre = ratio((weight * value).sum(axis=-2, keepdims=True), total, 0.0)
    middle = ratio((weight * blocks.centre[:, None]).sum(axis=-2, keepdims=True), total, 0.0)
    deviation = np.where(weight > 0, value - centre, 0.0)
    arm = np.where(weight > 0, blocks.centre[:, None] - middle, 0.0)
    top, bottom = (weight * arm * deviation).sum(axis=-2), (weight * arm**2).sum(axis=-2)
    rms, document_rms = _spread(weight, deviation, (bottom > LEAST).any(axis=-1))
    slope, by_lag = (
        document_mean(ratio(above, np.where(below > LEAST, below, 0.0)))
        for above, below in ((top.sum(axis=-1), bottom.sum(axis=-1)), (top, bottom))
    )
    return {"drift_slope": slope, "drift_slope_by_lag": by_lag, "drift_rms": rms}, document_rms


def _spread(
    weight: FloatArray, deviation: FloatArray, carries: BoolArray
) -> tuple[Estimate, FloatArray]:
    """Return the rms and document_rms of a drift; `carries` is (document, head)."""
    mass = np.where(carries, weight.sum(axis=(-2, -1)), 0.0)
    # Weights hardly differ between documents (by vectors of length 0), so each pair of documents
    # counts alike.
    scaled = np.sqrt(ratio(weight, mass[..., None, None], 0.0)) * deviation
    flat = scaled.reshape(*scaled.shape[:2], -1)
    summed, number = flat.sum(axis=0), carries.sum(axis=0)
    # Products of two documents, by the sum over documents: no array has two axes of documents.
    own, with_others = (flat**2).sum(axis=-1), (flat * (summed - flat)).sum(axis=-1)
    both = with_others.sum(axis=0)
    square = ratio(both, number * (number - 1.0))
    without = ratio(both - 2.0 * with_others, (number - 1.0) * (number - 2.0))
    limits = jackknife(square, without, carries)
    root, lower, upper = (
        np.sqrt(np.maximum(value, 0.0)) for value in (square, limits.lower, limits.upper)
    )
    # The standard error of a root: by the delta method, NaN where the square is not above 0.
    se = np.divide(limits.se, 2.0 * root, out=np.full(root.shape, np.nan), where=root > 0)
    single = np.sqrt(ratio(own.sum(axis=0), number))
    return Estimate(value=root, se=se, lower=lower, upper=upper), single


def sink_cosines(cosine: FloatArray) -> dict[str, Estimate]:
    """Return ρ₀ and how constant it is, from cosines of the sink with content tokens in order,
    (document, head, token), NaN where unknown.

    Of shape (head,): rho0: mean over tokens, then documents. rho0_spread: standard deviation over
    tokens within a document, root mean square over documents. sink_slope: change from the first
    content token to the last, by least squares in each document, mean over documents; NaN with
    fewer than two tokens.
    """
    known = np.isfinite(cosine)
    count = known.sum(axis=-1)
    filled = np.where(known, cosine, 0.0)
    own = ratio(filled.sum(axis=-1), count)
    away = np.where(known, cosine - own[..., None], 0.0)
    variance = ratio((away**2).sum(axis=-1), count)
    along = np.linspace(0.0, 1.0, cosine.shape[-1])
    middle = ratio((known * along).sum(axis=-1), count, 0.0)
    arm = np.where(known, along - middle[..., None], 0.0)
    slope = ratio((arm * away).sum(axis=-1), (arm**2).sum(axis=-1))
    spread = jackknife(
        np.sqrt(mean_over_documents(variance)),
        np.sqrt(leave_one_out_mean(variance)),
        np.isfinite(variance),
    )
    return {"rho0": document_mean(own), "sink_slope": document_mean(slope), "rho0_spread": spread}
