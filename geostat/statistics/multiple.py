"""Multiple testing: Holm, Benjamini-Hochberg, Benjamini-Yekutieli."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from geostat.statistics.arrays import FloatArray

__all__ = ["FALSE_DISCOVERIES", "adjusted"]


def adjusted(p: FloatArray, method: Literal["holm", "fdr_bh"]) -> FloatArray:
    """Return adjusted p-values along axis 0; NaN is left out of the family.

    Args:
        p: shape (test, ...).
        method: "holm" (Holm 1979: with 95%, no true null is at 0.05 or below) or "fdr_bh" (Benjamini & Hochberg 1995).
    """
    order = np.argsort(p, axis=0)  # NaN comes last
    ordered = np.take_along_axis(p, order, axis=0)
    number = np.isfinite(p).sum(axis=0)
    rank = np.arange(1, len(p) + 1).reshape(-1, *[1] * (p.ndim - 1))
    if method == "holm":
        ordered = np.fmax.accumulate(ordered * np.maximum(number - rank + 1, 1), axis=0)
    else:
        ordered = np.fmin.accumulate((ordered * number / rank)[::-1], axis=0)[::-1]
    out = np.empty(p.shape)
    np.put_along_axis(out, order, np.minimum(ordered, 1.0), axis=0)
    return np.where(np.isfinite(p), out, np.nan)


FALSE_DISCOVERIES: Final = 0.05
"""q: the share of false answers among those given, in expectation, for *holds* and for *fails* each."""


def _procedure(p: FloatArray, level: float) -> tuple[NDArray[np.bool_], FloatArray]:
    """Which hypotheses Benjamini and Hochberg's procedure rejects, and their adjusted p-values; NaN is none of them."""
    from statsmodels.stats.multitest import multipletests

    tested = np.isfinite(p)
    result, corrected = np.zeros(p.shape, dtype=bool), np.full(p.shape, np.nan)
    if tested.any():
        result[tested], corrected[tested] = multipletests(p[tested], alpha=level, method="fdr_bh")[:2]
    return result, corrected
