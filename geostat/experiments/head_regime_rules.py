"""The three regimes of heads as explicit rules: Retriever, Mixer, Reset, told by sizes, by
alignment, and by both.

Source: arXiv 2602.01893, §4.2, whose words are quoted beside each rule; it gives no numbers. Those
of `Thresholds` are read off its words or are round, were fixed before any head was classified, and
`SWEEP` varies them one at a time. Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from geostat.statistics.arrays import BoolArray, FloatArray

REGIMES: Final = ("unclassified", "retriever", "mixer", "reset")
"""Regimes by their code; `UNKNOWN` stands for a head that cannot be told, such as one that does
not see the sink.
"""
UNKNOWN: Final = -1
CRITERIA: Final = {
    "size": "sizes: where the last token's contribution ranks",
    "alignment": "alignment: where the representative points",
    "both": "both agree",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Every number of the rules."""

    strong: float = 0.5
    """Cosine from which alignment is strong, below which it is weak: half-way between none and
    full. §4.2 has the words only.
    """
    margin: float = 0.05
    """By how much a cosine must clear what it is compared with."""
    factor: float = 1.1
    """By what factor one contribution must exceed another: a tenth."""
    small: int = 4
    """Small N: up to here; N in [1, 4] is where §4 finds separability best."""
    large: float = 0.5
    """Very large N: beyond this share of T. §4.2 excepts very large N from Reset's weak
    alignment; half of all tokens.
    """
    total: bool = False
    """Whether the rest's aggregate is the sum of its norms, not the norm of its sum."""


THRESHOLDS: Final = Thresholds()
SWEEP: Final = {
    "strong at 0.3": replace(THRESHOLDS, strong=0.3),
    "strong at 0.4": replace(THRESHOLDS, strong=0.4),
    "strong at 0.6": replace(THRESHOLDS, strong=0.6),
    "strong at 0.7": replace(THRESHOLDS, strong=0.7),
    "no margins": replace(THRESHOLDS, margin=0.0, factor=1.0),
    "margins doubled": replace(THRESHOLDS, margin=0.1, factor=1.2),
    "small N to 2": replace(THRESHOLDS, small=2),
    "small N to 8": replace(THRESHOLDS, small=8),
    "very large from T/4": replace(THRESHOLDS, large=0.25),
    "no N very large": replace(THRESHOLDS, large=1.0),
    "rest by sum of norms": replace(THRESHOLDS, total=True),
}
"""Settings of the sweep, each one departure from `THRESHOLDS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What the alignment rules look at, each of shape (..., layer, head): cosines of s(N) with
    v₀ and v_L, "late" at the largest N not very large.
    """

    early_sink: FloatArray
    early_last: FloatArray
    late_sink: FloatArray
    late_last: FloatArray
    least_last: FloatArray
    """Smallest cosine with v_L over N not very large."""
    most_last: FloatArray
    least_lead: FloatArray
    """Smallest lead of the sink, cos(s, v₀) − cos(s, v_L), over N not very large."""

    @classmethod
    def of(
        cls,
        sink: FloatArray,
        last: FloatArray,
        n: np.ndarray,
        tokens: np.ndarray,
        at: Thresholds = THRESHOLDS,
    ) -> Features:
        """Read the curves cos(s(N), v₀) and cos(s(N), v_L), shape (..., layer, head, n); `tokens`
        is T of each layer.

        NaN where a layer has no N that is small, or none that is large and not very large.
        """
        small = np.flatnonzero(n <= at.small)
        parts = np.full((len(cls.__dataclass_fields__), *sink.shape[:-1]), np.nan)
        for layer, known in enumerate(tokens):
            middle = np.flatnonzero(n <= max(at.large * float(known), 1.0))
            if small.size and middle.size > small.size:
                a, b = sink[..., layer, :, :], last[..., layer, :, :]
                early = a[..., small].mean(axis=-1), b[..., small].mean(axis=-1)
                late = a[..., middle[-1]], b[..., middle[-1]]
                extremes = (
                    b[..., middle].min(axis=-1),
                    b[..., middle].max(axis=-1),
                    (a[..., middle] - b[..., middle]).min(axis=-1),
                )
                parts[..., layer, :] = *early, *late, *extremes
        return cls(**dict(zip(cls.__dataclass_fields__, parts, strict=True)))


def by_size(
    sink: FloatArray, last: FloatArray, rest: FloatArray, at: Thresholds = THRESHOLDS
) -> np.ndarray:
    """Tell the regime by the rank of ‖α_L v_L‖ among ‖α₀v₀‖, ‖α_L v_L‖ and the rest's aggregate,
    any one shape.

    Largest: Retriever ("last token dominates: ‖α_L v_L‖ is largest"). Between: Mixer ("last token
    is intermediate between sink and rest"). Smallest: Reset ("sink dominates or mass is broadly
    spread"). Unclassified where it is not `factor` away from a neighbour.
    """
    high, low = np.maximum(sink, rest), np.minimum(sink, rest)
    with np.errstate(invalid="ignore"):
        between = (last * at.factor < high) & (last > at.factor * low)
        result = np.select(
            [last > at.factor * high, between, last * at.factor < low], [1, 2, 3], default=0
        )
    return np.where(np.isfinite(sink + last + rest), result, UNKNOWN)


def slack(features: Features, at: Thresholds = THRESHOLDS) -> FloatArray:
    """Return by how much the weakest condition of each regime holds, shape (3, ...), cosine;
    negative where one fails.

    Retriever: s(N) "stays strongly aligned with v_L across N". Mixer: "alignment shifts from v₀ at
    small N towards v_L as N increases (decreasing cos(s, v₀), increasing cos(s, v_L))": the sink
    leads at small N, the last token at large N. Reset: s(N) "remains sink-biased with weak cos(s,
    v_L) except at very large N".
    """
    f = features
    retriever = f.least_last - at.strong
    shifts = [
        f.early_sink - f.early_last,
        f.late_last - f.late_sink,
        f.early_sink - f.late_sink,
        f.late_last - f.early_last,
    ]
    reset = np.minimum(f.least_lead, at.strong - f.most_last)
    return np.stack([retriever, np.minimum.reduce(shifts), reset])


def by_alignment(features: Features, at: Thresholds = THRESHOLDS) -> np.ndarray:
    """Tell the regime by alignment: the one whose conditions all hold by `margin`; unclassified
    where none or several do.
    """
    clear = slack(features, at)
    with np.errstate(invalid="ignore"):
        holds: BoolArray = clear >= at.margin
    result = np.where(holds.sum(axis=0) == 1, holds.argmax(axis=0) + 1, 0)
    return np.where(np.isfinite(clear).all(axis=0), result, UNKNOWN)


def labels(
    sizes: dict[str, FloatArray], features: Features, at: Thresholds = THRESHOLDS
) -> np.ndarray:
    """Return the codes by size, by alignment and by both, (criterion, ..., layer, head) int8, in
    the order of `CRITERIA`.

    `sizes` are sink, last, rest, and rest_total: ‖α₀v₀‖, ‖α_L v_L‖, norm of the rest's sum and sum
    of its norms.
    """
    size = by_size(sizes["sink"], sizes["last"], sizes["rest_total" if at.total else "rest"], at)
    alignment = by_alignment(features, at)
    both = np.where(size == alignment, size, 0)
    both = np.where((size == UNKNOWN) | (alignment == UNKNOWN), UNKNOWN, both)
    return np.stack([size, alignment, both]).astype(np.int8)
