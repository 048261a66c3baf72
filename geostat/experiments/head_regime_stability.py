"""Stability of the regimes of heads: labels over documents and over thresholds, and Cohen's κ
between the two criteria.

Sources: arXiv 2602.01893, §4.2; Cohen (1960), "A coefficient of agreement for nominal scales",
Educational and Psychological Measurement 20. `label` is everywhere that of the whole run,
(criterion, layer, head). Imports numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geostat.experiments.head_curves import HeadCurves
from geostat.experiments.head_regime_rules import CRITERIA, REGIMES, SWEEP, UNKNOWN
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import jackknife


def stability(seen: HeadCurves, label: np.ndarray, resamples: int, seed: int) -> dict[str, Any]:
    """Return the share of replicates that give a head the same label; NaN with one document, and
    where there is no label.
    """
    count = len(seen.sink)
    draws = {
        "left_out": 1.0 - np.eye(count),
        "resampled": (
            np.random.default_rng(seed)
            .multinomial(count, np.full(count, 1 / count), size=resamples)
            .astype(np.float64)
        ),
    }
    out = {}
    for name, shares in draws.items():
        same = (
            (seen.label(shares) == label[:, None]).mean(axis=1)
            if count > 1 and len(shares)
            else np.nan
        )
        out[f"stability_{name}"] = np.where(label == UNKNOWN, np.nan, same)
    return out


def sweep(seen: HeadCurves, label: np.ndarray, whole: FloatArray) -> dict[str, Any]:
    """Return the share of the sweep's settings that give a head the same label, and how many heads
    of each regime there are under each.
    """
    other = np.stack([seen.label(whole, at)[:, 0] for at in SWEEP.values()], axis=1)
    same = np.where(label == UNKNOWN, np.nan, (other == label[:, None]).mean(axis=1))
    return {
        "stability_sweep": same,
        "sweep_heads": np.stack(
            [(other == code).sum(axis=(-1, -2)) for code in range(len(REGIMES))], axis=-1
        ),
    }


def kappa(first: np.ndarray, second: np.ndarray) -> FloatArray:
    """Return Cohen's κ of two labellings along the last axis, over the heads that both classify; 0
    is chance, 1 perfect agreement.

    Both are codes of shape (..., head), of which 0 and below are no class. κ of shape (...) is NaN
    where no head is classified twice, or chance alone agrees everywhere.

    >>> round(float(kappa(np.array([1, 2, 2, 3]), np.array([1, 2, 3, 3]))), 3)
    0.636
    """
    both = (first > 0) & (second > 0)
    number = np.maximum(both.sum(axis=-1), 1)
    observed = ((first == second) & both).sum(axis=-1) / number
    parts = [
        ((first == code) & both).sum(axis=-1) * ((second == code) & both).sum(axis=-1)
        for code in range(1, len(REGIMES))
    ]
    chance = np.sum(parts, axis=0) / number**2
    return np.divide(
        observed - chance,
        1 - chance,
        out=np.full(np.shape(observed), np.nan),
        where=both.any(axis=-1) & (chance < 1),
    )


def agreement(seen: HeadCurves, label: np.ndarray) -> dict[str, Any]:
    """Return how many heads sizes and alignment both tell, how many alike, and κ with its error."""
    size, alignment = (
        label[list(CRITERIA).index(name)].reshape(-1) for name in ("size", "alignment")
    )
    both = (size > 0) & (alignment > 0)
    other = (
        seen.label(1.0 - np.eye(len(seen.sink)))[:2].reshape(2, len(seen.sink), -1)
        if len(seen.sink) > 1
        else np.zeros((2, 1, 1))
    )
    beyond_chance = jackknife(np.asarray(kappa(size, alignment)), kappa(other[0], other[1]))
    return {
        "told": np.asarray(both.sum()),
        "agreed": np.asarray((both & (size == alignment)).sum()),
        "kappa": beyond_chance,
    }
