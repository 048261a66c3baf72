"""Does similarity depend on the lag alone? Mean cosines at one lag, compared between blocks of absolute position.

Source: arXiv 2602.01893, Assumption 2.1, which has no position in it. A pair belongs to the block of its later token. Blocks and lag bins count by
their pairs; the mean of each lag bin is taken out, so that only a change with position is left. Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geostat.datasets.tokens import LayerTokens
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import Interval, interval, leave_one_out_mean
from geostat.statistics.losses import mean_over_documents


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Number of pairs in each (position_block, lag_bin), and the place of each block's centre, 0 the first token, 1 the last."""

    pairs: FloatArray
    place: FloatArray

    @classmethod
    def of(cls, seen: LayerTokens, block_start: np.ndarray, block_stop: np.ndarray, lag_start: np.ndarray, lag_stop: np.ndarray) -> Blocks:
        """Count the pairs of a layer.

        Args:
            seen: its visible tokens.
            block_start: first position of each block; a block may begin before the first visible token.
            block_stop: last position of each block, included.
            lag_start: first lag of each bin.
            lag_stop: last lag of each bin, included.
        """
        first, last = np.maximum(block_start - seen.start, seen.first_content), block_stop - seen.start
        lag = np.arange(1, int(lag_stop[-1]) + 1 if lag_stop.size else 1)
        later = np.maximum(first[:, None], seen.first_content + lag)
        by_lag = np.maximum(last[:, None] + 1 - later, 0).astype(np.float64)
        pairs = (
            np.stack([by_lag[:, a - 1 : b].sum(axis=-1) for a, b in zip(lag_start, lag_stop, strict=True)], axis=-1) if lag.size else None
        )
        place = (first + last) / 2.0 / max(seen.tokens - 1, 1)
        return cls(pairs=np.zeros((first.size, 0)) if pairs is None else pairs, place=place)


def drift(cosine: FloatArray, blocks: Blocks) -> dict[str, FloatArray | Interval]:
    """Return how far the mean cosine at fixed lag depends on position.

    Args:
        cosine: mean cosine, shape (document, head, position_block, lag_bin); NaN where there is no pair.
        blocks: pairs and places of the blocks.

    Returns:
        drift_slope (head,): change of the cosine from the document's first token to its last at fixed lag, by weighted least squares, mean over
        documents. drift_slope_by_lag (head, lag_bin): the same within each lag bin. drift_rms (head,): root mean square over pairs of the
        deviation of a block from its lag bin, as it would be with infinitely many documents: products of two documents only, in which noise
        cancels. drift_document_rms (head,): the same of single documents, noise and all. The first three with intervals, names ending in
        _interval; NaN with fewer than two blocks in any lag bin.
    """
    known = np.isfinite(cosine)
    weight = known * blocks.pairs
    total = weight.sum(axis=-2, keepdims=True)
    value = np.where(known, cosine, 0.0)
    centre = np.divide((weight * value).sum(axis=-2, keepdims=True), total, out=np.zeros_like(total), where=total > 0)
    middle = np.divide((weight * blocks.place[:, None]).sum(axis=-2, keepdims=True), total, out=np.zeros_like(total), where=total > 0)
    deviation = np.where(weight > 0, value - centre, 0.0)
    arm = np.where(weight > 0, blocks.place[:, None] - middle, 0.0)
    top, bottom = (weight * arm * deviation).sum(axis=-2), (weight * arm**2).sum(axis=-2)
    found: dict[str, FloatArray | Interval] = {}
    for name, (above, below) in {"drift_slope": (top.sum(axis=-1), bottom.sum(axis=-1)), "drift_slope_by_lag": (top, bottom)}.items():
        slope = np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 1e-12)
        mean = mean_over_documents(slope)
        found |= {name: mean, f"{name}_interval": interval(mean, leave_one_out_mean(slope), np.isfinite(slope))}
    return found | _spread(weight, deviation, (bottom > 1e-12).any(axis=-1))


def _spread(weight: FloatArray, deviation: FloatArray, carries: BoolArray) -> dict[str, FloatArray | Interval]:
    """Return drift_rms and drift_document_rms; `carries` is (document, head)."""
    mass = np.where(carries, weight.sum(axis=(-2, -1)), 0.0)
    # Weights hardly differ between documents (by vectors of length 0), so each pair of documents counts alike.
    scaled = np.sqrt(np.divide(weight, mass[..., None, None], out=np.zeros_like(weight), where=mass[..., None, None] > 0)) * deviation
    flat = scaled.reshape(*scaled.shape[:2], -1)
    products = np.einsum("khi,jhi->hkj", flat, flat)
    number = carries.sum(axis=0)
    own = np.einsum("hkk->hk", products)
    both = products.sum(axis=(1, 2)) - own.sum(axis=-1)
    pairs = number * (number - 1.0)
    square = np.divide(both, pairs, out=np.full(both.shape, np.nan), where=pairs > 0)
    left_pairs = (number - 1.0) * (number - 2.0)
    without = (both[:, None] - 2.0 * (products.sum(axis=-1) - own)).T
    without = np.divide(without, left_pairs, out=np.full(without.shape, np.nan), where=left_pairs > 0)
    limits = interval(square, without, carries)
    single = np.sqrt(np.divide(own.sum(axis=-1), number, out=np.full(both.shape, np.nan), where=number > 0))
    root = np.sqrt(np.maximum(square, 0.0))
    # The standard error of a root: by the delta method, NaN where the square is not above 0.
    se = np.divide(limits.se, 2.0 * root, out=np.full(root.shape, np.nan), where=root > 0)
    spread = Interval(se=se, lower=np.sqrt(np.maximum(limits.lower, 0.0)), upper=np.sqrt(np.maximum(limits.upper, 0.0)))
    return {"drift_rms": root, "drift_rms_interval": spread, "drift_document_rms": single}


def sink_cosines(cosine: FloatArray) -> dict[str, FloatArray | Interval]:
    """Return ρ₀ and how constant it is.

    Args:
        cosine: cosine of the sink with content tokens, in order, shape (document, head, token); NaN where unknown.

    Returns:
        Arrays (head,), intervals under names ending in _interval. rho0: mean over tokens, then documents. rho0_spread: standard deviation over
        tokens within a document, root mean square over documents. sink_slope: change from the first content token to the last, by least
        squares in each document, mean over documents; NaN with fewer than two tokens.
    """
    known = np.isfinite(cosine)
    count = known.sum(axis=-1)
    filled = np.where(known, cosine, 0.0)
    own = np.divide(filled.sum(axis=-1), count, out=np.full(count.shape, np.nan), where=count > 0)
    away = np.where(known, cosine - own[..., None], 0.0)
    variance = np.divide((away**2).sum(axis=-1), count, out=np.full(count.shape, np.nan), where=count > 0)
    place = np.linspace(0.0, 1.0, cosine.shape[-1]) if cosine.shape[-1] > 1 else np.zeros(cosine.shape[-1])
    middle = np.divide((known * place).sum(axis=-1), count, out=np.zeros(count.shape), where=count > 0)
    arm = np.where(known, place - middle[..., None], 0.0)
    bottom = (arm**2).sum(axis=-1)
    slope = np.divide((arm * away).sum(axis=-1), bottom, out=np.full(count.shape, np.nan), where=bottom > 0)
    found: dict[str, FloatArray | Interval] = {}
    for name, each in (("rho0", own), ("sink_slope", slope)):
        mean = mean_over_documents(each)
        found |= {name: mean, f"{name}_interval": interval(mean, leave_one_out_mean(each), np.isfinite(each))}
    spread = np.sqrt(mean_over_documents(variance))
    limits = interval(spread, np.sqrt(leave_one_out_mean(variance)), np.isfinite(variance))
    return found | {"rho0_spread": spread, "rho0_spread_interval": limits}
