"""Assumptions 1 and 3 as generators: value norms, attention weights, the order of entry into I_N and its regimes.

Source: arXiv 2602.01893, Assumptions 1 and 3, Table 2; normalisation is erratum 10. Assumption 2 is in `theory.head.gram`.
Positions 0..L; position 0 is the sink. Weights are unitless. Imports numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theory.arrays import BoolArray, FloatArray
from theory.errors import InputError


def value_norm_profile(tokens: int, *, norm: float = 1.0, sink_ratio: float = 1.0) -> FloatArray:
    """Return ‖v‖ of Assumption 1, shape (T,): λC for the sink, C elsewhere; units of C.

    Raises:
        InputError: if a parameter is negative.
    """
    if tokens < 1 or norm < 0 or sink_ratio < 0:
        raise InputError(f"tokens={tokens}, norm={norm}, sink_ratio={sink_ratio}: expected at least one token and norms >= 0.")
    norms = np.full(tokens, float(norm))
    norms[0] = sink_ratio * norm
    return norms


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightProfile:
    """Parameters of Assumption 3.

    length: L, the last position. plateau_end: T₁. growth_start: T₂ ≥ T₁ (equal: no oscillation). p_sink: weight of the sink.
    eta: strength of the oscillation and, unless `growth` is given, rate of the growth per position. omega: radians per position.
    p_base: weight of the plateau; None: the one that makes Σα = 1, which the paper never imposes (erratum 10).
    """

    length: int
    plateau_end: int
    growth_start: int
    p_sink: float
    eta: float
    omega: float
    growth: float | None = None
    p_base: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.plateau_end <= self.growth_start <= self.length or self.length < 1:
            raise InputError(
                f"T1={self.plateau_end}, T2={self.growth_start}, L={self.length}: expected 0 <= T1 <= T2 <= L, L >= 1. Reorder the phases."
            )
        if not 0 <= self.p_sink <= 1:
            raise InputError(f"p_sink is {self.p_sink}, expected a weight from 0 to 1.")
        if (self.shape() < 0).any():
            raise InputError(f"eta is {self.eta}: the oscillation makes weights negative, expected |eta| <= 1 where the cosine reaches -1.")

    def shape(self) -> FloatArray:
        """Return α_i / p_base for i = 1..L, shape (L,)."""
        i = np.arange(1, self.length + 1)
        growth = self.eta if self.growth is None else self.growth
        rising = np.exp(growth * np.maximum(i - self.growth_start, 0))
        waving = np.where(self.oscillates(), 1 + self.eta * np.cos(self.omega * i), 1.0)
        return np.asarray(rising * waving)

    def oscillates(self) -> BoolArray:
        """Return which of the positions 1..L lie in the oscillation, T₁ < i ≤ T₂."""
        i = np.arange(1, self.length + 1)
        return np.asarray((i > self.plateau_end) & (i <= self.growth_start))

    def base(self) -> float:
        """Return p_base: as given, else the value that makes Σα = 1."""
        return float((1 - self.p_sink) / self.shape().sum()) if self.p_base is None else float(self.p_base)

    def weights(self) -> FloatArray:
        """Return α, shape (T,)."""
        return np.concatenate([[self.p_sink], self.base() * self.shape()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Regimes:
    """Where the composition of I_N changes (Table 2, in the order that is true): the sink is in from N = sink_rank.

    With the sink in: tail for N < m1, peaks for m1 ≤ N < m2, plateau for m2 ≤ N < m3, valleys for N ≥ m3. n_peaks, n_valleys:
    oscillation tokens with positive and with negative cosine.
    """

    sink_rank: int
    m1: int
    m2: int
    m3: int
    n_peaks: int
    n_valleys: int


def regimes(profile: WeightProfile) -> Regimes:
    """Return the regimes of N for 0 < η ≤ 1: tail from L down, then peaks, plateau, valleys.

    Raises:
        InputError: if η is outside (0, 1], where that order does not hold.
    """
    if not 0 < profile.eta <= 1 or not (profile.growth is None or profile.growth > 0):
        raise InputError(f"eta is {profile.eta}, expected 0 < eta <= 1 (and growth > 0): otherwise the order of entry differs.")
    wave = np.cos(profile.omega * np.arange(1, profile.length + 1))[profile.oscillates()]
    peaks, valleys = int((wave > 0).sum()), int((wave < 0).sum())
    m1 = profile.length - profile.growth_start + 2
    return Regimes(
        sink_rank=1 + int((profile.weights()[1:] > profile.p_sink).sum()),
        m1=m1,
        m2=m1 + peaks,
        m3=profile.length + 2 - valleys,
        n_peaks=peaks,
        n_valleys=valleys,
    )
