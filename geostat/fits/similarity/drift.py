"""Stationarity of similarity: mean cosines at one lag, compared between blocks of positions.

Source: arXiv 2602.01893, Assumption 2.1, which does not depend on position. A pair belongs to the
block of its later token. Blocks and lag bins are weighted by pairs; the mean of each lag bin is
subtracted to leave the change with position. Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geostat.datasets.tokens import LayerTokens
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import Estimate, document_mean, jackknife, leave_one_out_mean
from geostat.statistics.losses import centred, mean_of_known, mean_over_documents

MIN_LEVERAGE = 1e-12
"""Threshold of Σ pairs × (block distance)² below which there is one block and no slope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Number of pairs, (position_block, lag_bin), and centre of each block.

    Centres run from 0 (first token) to 1 (last token).
    """

    pairs: FloatArray
    centre: FloatArray

    @classmethod
    def of(
        cls,
        visible: LayerTokens,
        block_start: np.ndarray,
        block_stop: np.ndarray,
        lag_start: np.ndarray,
        lag_stop: np.ndarray,
    ) -> Blocks:
        """Count a layer's pairs; starts and stops are inclusive, and a block may begin before the
        first visible token.
        """
        first = np.maximum(block_start - visible.start, visible.first_content)
        last = block_stop - visible.start
        lag = np.arange(1, int(lag_stop[-1]) + 1 if lag_stop.size else 1)
        later = np.maximum(first[:, None], visible.first_content + lag)
        by_lag = np.maximum(last[:, None] + 1 - later, 0).astype(np.float64)
        pairs = [
            by_lag[:, start - 1 : stop].sum(axis=-1)
            for start, stop in zip(lag_start, lag_stop, strict=True)
        ]
        centre = (first + last) / 2.0 / max(visible.tokens - 1, 1)
        return cls(
            pairs=np.stack(pairs, axis=-1) if pairs else np.zeros((first.size, 0)), centre=centre
        )


def drift(cosine: FloatArray, blocks: Blocks) -> tuple[dict[str, Estimate], FloatArray]:
    """Measure how the mean cosine at fixed lag depends on position.

    `cosine` has shape (document, head, position_block, lag_bin), NaN where there is no pair.

    Returns:
        Estimates by name and document_rms, (head,); NaN if no lag bin has two blocks. drift_slope
        is the change from the first token to the last, by weighted least squares, mean over
        documents; drift_slope_by_lag (head, lag_bin) the same within each lag bin. drift_rms is the
        root mean square over pairs of a block's deviation from its lag bin in the limit of many
        documents, from products of two documents, in which noise cancels; document_rms that of
        single documents, noise included.
    """
    known = np.isfinite(cosine)
    weight = known * blocks.pairs
    total = weight.sum(axis=-2, keepdims=True)
    value = np.where(known, cosine, 0.0)
    centre = ratio((weight * value).sum(axis=-2, keepdims=True), total, 0.0)
    mean_centre = ratio((weight * blocks.centre[:, None]).sum(axis=-2, keepdims=True), total, 0.0)
    deviation = np.where(weight > 0, value - centre, 0.0)
    distance = np.where(weight > 0, blocks.centre[:, None] - mean_centre, 0.0)
    numerator = (weight * distance * deviation).sum(axis=-2)
    denominator = (weight * distance**2).sum(axis=-2)
    rms, document_rms = _spread(weight, deviation, (denominator > MIN_LEVERAGE).any(axis=-1))
    slope, by_lag = (
        document_mean(ratio(above, np.where(below > MIN_LEVERAGE, below, 0.0)))
        for above, below in (
            (numerator.sum(axis=-1), denominator.sum(axis=-1)),
            (numerator, denominator),
        )
    )
    return {"drift_slope": slope, "drift_slope_by_lag": by_lag, "drift_rms": rms}, document_rms


def _spread(
    weight: FloatArray, deviation: FloatArray, carries: BoolArray
) -> tuple[Estimate, FloatArray]:
    """Return drift_rms and document_rms; `carries` is (document, head)."""
    mass = np.where(carries, weight.sum(axis=(-2, -1)), 0.0)
    # Weights hardly differ between documents (only by vectors of length 0); pairs of documents have
    # equal weights.
    scaled = np.sqrt(ratio(weight, mass[..., None, None], 0.0)) * deviation
    flat = scaled.reshape(*scaled.shape[:2], -1)
    summed, number = flat.sum(axis=0), carries.sum(axis=0)
    # Products of two documents come from the sum over documents, which avoids two document axes.
    squared, with_others = (flat**2).sum(axis=-1), (flat * (summed - flat)).sum(axis=-1)
    all_pairs = with_others.sum(axis=0)
    square = ratio(all_pairs, number * (number - 1.0))
    without = ratio(all_pairs - 2.0 * with_others, (number - 1.0) * (number - 2.0))
    limits = jackknife(square, without, carries)
    root, lower, upper = (
        np.sqrt(np.maximum(value, 0.0)) for value in (square, limits.lower, limits.upper)
    )
    # Delta-method standard error of a root; NaN where the square is not above 0.
    se = np.divide(limits.se, 2.0 * root, out=np.full(root.shape, np.nan), where=root > 0)
    document_rms = np.sqrt(ratio(squared.sum(axis=0), number))
    return Estimate(value=root, se=se, lower=lower, upper=upper), document_rms


def sink_cosines(cosine: FloatArray) -> dict[str, Estimate]:
    """Return ρ₀ and its variation over tokens, each (head,).

    `cosine` holds cosines of the sink with content tokens, (document, head, token), NaN where
    unknown. rho0 is the mean over tokens, then documents; rho0_spread the standard deviation over
    tokens, root mean square over documents; sink_slope the change from the first content token to
    the last, by least squares, mean over documents (NaN with fewer than two tokens).
    """
    known = np.isfinite(cosine)
    deviation = centred(cosine, known)
    variance = ratio((deviation**2).sum(axis=-1), known.sum(axis=-1))
    place = centred(np.linspace(0.0, 1.0, cosine.shape[-1]), known)
    slope = ratio((place * deviation).sum(axis=-1), (place**2).sum(axis=-1))
    spread = jackknife(
        np.sqrt(mean_over_documents(variance)),
        np.sqrt(leave_one_out_mean(variance)),
        np.isfinite(variance),
    )
    return {
        "rho0": document_mean(mean_of_known(cosine)),
        "sink_slope": document_mean(slope),
        "rho0_spread": spread,
    }
