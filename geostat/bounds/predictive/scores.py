"""How well predicted curves meet measured ones: errors, R² and calibration, by head and over all
cells, with document jackknives.

Every score is computed once from all documents and once without each, with one code: the leading
axis `replicate` holds the estimate first. Imports numpy and this room's jackknife.
"""

from __future__ import annotations

import numpy as np

from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import leave_one_out_mean

SETTLED = 0.25
"""Largest share of a head's variance over N that the documents' noise may be, for its R² to
count.
"""


def with_replicates(by_document: FloatArray) -> FloatArray:
    """Return means over documents, all of them first, then all but each: (document, ...) →
    (replicate, ...).

    >>> with_replicates(np.array([1.0, 2.0, 6.0])).tolist()
    [3.0, 4.0, 3.5, 1.5]
    """
    return np.concatenate([by_document.mean(axis=0)[None], leave_one_out_mean(by_document)])


def mean_of_other_heads(measured: FloatArray, known: BoolArray) -> FloatArray:
    """Return, for each head and N, the mean of the measured curves of all other heads at that N;
    NaN where there is no other head.

    `measured` and the result are (replicate, layer, head, n); `known`, (layer, head, n), tells
    which cells count.
    """
    kept = np.where(known, measured, 0.0)
    return ratio(
        kept.sum(axis=(1, 2), keepdims=True) - kept, known.sum(axis=(0, 1)) - known.astype(np.int64)
    )


def score(predicted: FloatArray, measured: FloatArray, known: BoolArray) -> dict[str, FloatArray]:
    """Compare predicted means, (replicate, source, layer, head, n), with measured ones, (replicate,
    layer, head, n).

    Errors are predicted − measured. `known`, (layer, head, n), tells which cells count; the same
    for every source, so that sources can be compared. By head, (replicate, source, layer, head):
    bias, mae, r2. Over all cells, (replicate, source): pooled_bias, pooled_mae, pooled_r2, slope
    and intercept of measured on predicted (least squares). NaN where nothing counts or nothing
    varies.
    """
    target = np.broadcast_to(np.where(known, measured, 0.0)[:, None], predicted.shape)
    guess = np.where(known, predicted, 0.0)
    error = guess - target
    by_head, over = known.sum(axis=-1), (-3, -2, -1)
    cells = known.sum()
    slope = ratio(_spread(guess, target, known, over), _spread(guess, guess, known, over))
    return {
        "bias": ratio(error.sum(axis=-1), by_head),
        "mae": ratio(np.abs(error).sum(axis=-1), by_head),
        "r2": 1 - ratio((error**2).sum(axis=-1), _spread(target, target, known, (-1,))),
        "pooled_bias": ratio(error.sum(axis=over), cells),
        "pooled_mae": ratio(np.abs(error).sum(axis=over), cells),
        "pooled_r2": 1 - ratio((error**2).sum(axis=over), _spread(target, target, known, over)),
        "slope": slope,
        "intercept": (
            ratio(target.sum(axis=over), cells) - slope * ratio(guess.sum(axis=over), cells)
        ),
    }


def noise_share(measured: FloatArray, error: FloatArray, known: BoolArray) -> FloatArray:
    """Return Σ se² / Σ (measured − mean)² over N, (layer, head): how much of a curve's variance is
    noise of few documents.

    Document means `measured`, their standard errors `error` and which cells count, `known`, are
    (layer, head, n).
    """
    noise = np.where(known, error**2, 0.0).sum(axis=-1)
    kept = np.where(known, measured, 0.0)
    return ratio(noise, _spread(kept, kept, known, (-1,)))


def _spread(
    one: FloatArray, other: FloatArray, known: BoolArray, over: tuple[int, ...]
) -> FloatArray:
    """Return Σ (x − x̄)(y − ȳ) over known cells; x and y are 0 elsewhere. Rounding is taken as
    0.
    """
    count = np.maximum(known.sum(axis=over, keepdims=True), 1)
    away = [np.where(known, x - x.sum(axis=over, keepdims=True) / count, 0.0) for x in (one, other)]
    result = (away[0] * away[1]).sum(axis=over)
    return np.where(np.abs(result) > 1e-20, result, 0.0)
