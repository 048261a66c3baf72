"""Common variance of log weights by position: what documents have in common of it, and what a fit
tells of a document it has not seen.

R² of a mean over K documents rises with K, as averaging takes noise away; these two do not. With
x_k the log weights of document k about their own mean, over tokens,

- `common_share` = Σ_{k≠l}⟨x_k, x_l⟩ / (K(K−1)) over Σ_k⟨x_k, x_k⟩ / K: the factors of the numerator
  are of different documents, whose noise is independent, so its mean is the squared size of the
  expected profile. It is the intraclass correlation of one way of analysis of variance (Shrout &
  Fleiss 1979, "Intraclass correlations", ICC(1)), tokens centred by document, and the largest R²
  that any profile by position can reach in a new document.
- `r2_document` = 1 − Σ_k‖x_k − f_k‖² / Σ_k‖x_k‖², f_k the fit to the other documents about its own
  mean.

Imports numpy.
"""

from __future__ import annotations

import numpy as np

from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import Estimate, jackknife
from geostat.statistics.losses import mean_of_known


def common_variance(
    log_weight: FloatArray, fit_of_others: FloatArray, carries: BoolArray
) -> dict[str, Estimate]:
    """Return both shares with their document jackknife, (head,); fits are held in it.

    Tokens count that are known in all documents that carry the head.

    Args:
        log_weight: of content tokens, (document, head, token), nats; NaN where unknown.
        fit_of_others: log weights fitted to the other documents, same shape.
        carries: which documents carry the head, (document, head).

    >>> profile, noise = np.linspace(0, 1, 50), np.random.default_rng(0).normal(0, 1, (4, 1, 50))
    >>> found = common_variance(profile + 0 * noise, 0 * noise, np.ones((4, 1), dtype=bool))
    >>> float(found["common_share"].value[0]), float(found["r2_document"].value[0])
    (1.0, 0.0)
    """
    known = (np.isfinite(log_weight) | ~carries[..., None]).all(axis=0) & carries[..., None]
    own, rest = (_centred(rows, known) for rows in (log_weight, log_weight - fit_of_others))
    squares, missed = (own**2).sum(axis=-1), (rest**2).sum(axis=-1)
    total, count = own.sum(axis=0), carries.sum(axis=0)
    # ‖Σ x‖² without document k, from ‖Σ x‖² with it
    without = (total**2).sum(axis=-1) - 2 * (own * total).sum(axis=-1) + squares
    sums = squares.sum(axis=0)
    shares = {
        "common_share": (
            _common((total**2).sum(axis=-1), sums, count),
            _common(without, sums - squares, count - carries),
        ),
        "r2_document": (
            1.0 - ratio(missed.sum(axis=0), sums),
            1.0 - ratio(missed.sum(axis=0) - missed, sums - squares),
        ),
    }
    several = count > 1
    return {
        name: jackknife(np.where(several, value, np.nan), again, carries)
        for name, (value, again) in shares.items()
    }


def _common(square_of_sum: FloatArray, sum_of_squares: FloatArray, count: np.ndarray) -> FloatArray:
    """Return the mean of ⟨x_k, x_l⟩ over pairs of documents over the mean of ⟨x_k, x_k⟩."""
    pairs = ratio(square_of_sum - sum_of_squares, np.maximum(count - 1.0, 0.0))
    return ratio(pairs, sum_of_squares)


def _centred(rows: FloatArray, known: BoolArray) -> FloatArray:
    """Return rows less their mean over the known tokens; 0 elsewhere."""
    level = mean_of_known(np.where(known, rows, np.nan))[..., None]
    return np.where(known, rows - level, 0.0)
