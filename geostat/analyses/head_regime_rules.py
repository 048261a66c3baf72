"""Rules of the three head regimes, Retriever, Mixer and Reset: by size, by alignment, and by both.

Source: arXiv 2602.01893, §4.2, quoted in each rule. The paper gives no thresholds; those of
`Thresholds` follow its wording or are round numbers, were fixed before any head was classified, and
are varied one at a time by `SWEEP`. Imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from geostat.statistics.arrays import BoolArray, FloatArray

REGIMES: Final = ("unclassified", "retriever", "mixer", "reset")
"""Regimes by code. `UNKNOWN` marks heads that cannot be classified, such as those that do not see
the sink.
"""
UNKNOWN: Final = -1
CRITERIA: Final = {
    "size": "size: rank of the last token's contribution",
    "alignment": "alignment: direction of the representative",
    "both": "both agree",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Thresholds of the rules."""

    strong: float = 0.5
    """Smallest cosine of a strong alignment; smaller cosines are weak. Half-way between 0 and 1."""
    margin: float = 0.05
    """Smallest difference of cosines that counts."""
    factor: float = 1.1
    """Smallest ratio by which one contribution must exceed another."""
    small: int = 4
    """Largest small N; §4 reports the best separability for N in [1, 4]."""
    large: float = 0.5
    """Share of T above which N is very large. §4.2 exempts very large N from the weak alignment of
    Resets.
    """
    total: bool = False
    """Whether the other tokens' contribution is the sum of norms instead of the norm of the sum."""


THRESHOLDS: Final = Thresholds()
SWEEP: Final = {
    **{f"strong at {at}": replace(THRESHOLDS, strong=at) for at in (0.3, 0.4, 0.6, 0.7)},
    "no margins": replace(THRESHOLDS, margin=0.0, factor=1.0),
    "margins doubled": replace(THRESHOLDS, margin=0.1, factor=1.2),
    "small N to 2": replace(THRESHOLDS, small=2),
    "small N to 8": replace(THRESHOLDS, small=8),
    "very large from T/4": replace(THRESHOLDS, large=0.25),
    "no N very large": replace(THRESHOLDS, large=1.0),
    "rest by sum of norms": replace(THRESHOLDS, total=True),
}
"""Settings of the sweep, each with one change to `THRESHOLDS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Features of the alignment rules, each (..., layer, head).

    Cosines of s(N) with v₀ ("sink") and v_L ("last"): "early" is the mean over small N, "late" the
    value at the largest N that is not very large.
    """

    early_sink: FloatArray
    early_last: FloatArray
    late_sink: FloatArray
    late_last: FloatArray
    least_last: FloatArray
    """Smallest cosine with v_L over N that are not very large."""
    most_last: FloatArray
    """Largest cosine with v_L over N that are not very large."""
    least_lead: FloatArray
    """Smallest cos(s, v₀) − cos(s, v_L) over N that are not very large."""

    @classmethod
    def of(
        cls,
        sink: FloatArray,
        last: FloatArray,
        n: np.ndarray,
        tokens: np.ndarray,
        thresholds: Thresholds = THRESHOLDS,
    ) -> Features:
        """Compute the features from alignment curves.

        Args:
            sink: cos(s(N), v₀), (..., layer, head, n).
            last: cos(s(N), v_L), (..., layer, head, n).
            tokens: T of each layer.

        Returns:
            The features; NaN for layers without a small N or without a larger N that is not very
            large.
        """
        small = np.flatnonzero(n <= thresholds.small)
        parts = np.full((len(cls.__dataclass_fields__), *sink.shape[:-1]), np.nan)
        for layer, visible in enumerate(tokens):
            middle = np.flatnonzero(n <= max(thresholds.large * float(visible), 1.0))
            if small.size and middle.size > small.size:
                curves = sink[..., layer, :, :], last[..., layer, :, :]
                to_sink, to_last = (curve[..., middle] for curve in curves)
                parts[..., layer, :] = [
                    *(curve[..., small].mean(axis=-1) for curve in curves),
                    *(curve[..., middle[-1]] for curve in curves),
                    *(to_last.min(axis=-1), to_last.max(axis=-1), (to_sink - to_last).min(axis=-1)),
                ]
        return cls(**dict(zip(cls.__dataclass_fields__, parts, strict=True)))


def by_size(
    sink: FloatArray, last: FloatArray, rest: FloatArray, thresholds: Thresholds = THRESHOLDS
) -> np.ndarray:
    """Return the regime by the rank of ‖α_L v_L‖ among sink, last token and the rest, any shape.

    Largest: Retriever ("last token dominates: ‖α_L v_L‖ is largest"). Between: Mixer ("last token
    is intermediate between sink and rest"). Smallest: Reset ("sink dominates or mass is broadly
    spread"). Unclassified if the ratio to a neighbour is below `factor`.
    """
    factor = thresholds.factor
    high, low = np.maximum(sink, rest), np.minimum(sink, rest)
    with np.errstate(invalid="ignore"):
        between = (last * factor < high) & (last > factor * low)
        result = np.select(
            [last > factor * high, between, last * factor < low], [1, 2, 3], default=0
        )
    return np.where(np.isfinite(sink + last + rest), result, UNKNOWN)


def slack(features: Features, thresholds: Thresholds = THRESHOLDS) -> FloatArray:
    """Return the slack of the tightest condition of each regime, (3, ...), in units of a cosine;
    negative if a condition fails.

    Retriever: s(N) "stays strongly aligned with v_L across N". Mixer: "alignment shifts from v₀ at
    small N towards v_L as N increases (decreasing cos(s, v₀), increasing cos(s, v_L))": the sink
    leads at small N, the last token at large N. Reset: s(N) "remains sink-biased with weak cos(s,
    v_L) except at very large N".
    """
    f = features
    retriever = f.least_last - thresholds.strong
    shifts = [
        f.early_sink - f.early_last,
        f.late_last - f.late_sink,
        f.early_sink - f.late_sink,
        f.late_last - f.early_last,
    ]
    reset = np.minimum(f.least_lead, thresholds.strong - f.most_last)
    return np.stack([retriever, np.minimum.reduce(shifts), reset])


def by_alignment(features: Features, thresholds: Thresholds = THRESHOLDS) -> np.ndarray:
    """Return the only regime whose conditions hold by `margin`; unclassified if there is none or
    more than one.
    """
    margins = slack(features, thresholds)
    with np.errstate(invalid="ignore"):
        holds: BoolArray = margins >= thresholds.margin
    result = np.where(holds.sum(axis=0) == 1, holds.argmax(axis=0) + 1, 0)
    return np.where(np.isfinite(margins).all(axis=0), result, UNKNOWN)


def labels(
    sizes: dict[str, FloatArray], features: Features, thresholds: Thresholds = THRESHOLDS
) -> np.ndarray:
    """Return regime codes by criterion, in the order of `CRITERIA`.

    Args:
        sizes: sink ‖α₀v₀‖, last ‖α_L v_L‖, and of the other tokens' contributions the norm of the
            sum (rest) and the sum of norms (rest_total).

    Returns:
        Codes, (criterion, ..., layer, head) int8.
    """
    rest = sizes["rest_total" if thresholds.total else "rest"]
    size = by_size(sizes["sink"], sizes["last"], rest, thresholds)
    alignment = by_alignment(features, thresholds)
    both = np.where(size == alignment, size, 0)
    both = np.where((size == UNKNOWN) | (alignment == UNKNOWN), UNKNOWN, both)
    return np.stack([size, alignment, both]).astype(np.int8)
