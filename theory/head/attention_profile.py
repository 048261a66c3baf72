"""Attention weights of Assumption 3 (four phases) for one head or many, value norms of Assumption
1, and the regimes of N.

Source: arXiv 2602.01893, Assumptions 1 and 3, Table 2; normalisation is erratum 10. Assumption 2
is in `theory.head.gram`. Positions 0..L; position 0 is the sink. Weights are unitless.
Imports numpy only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.arrays import BoolArray, FloatArray
from theory.errors import InputError

SUM = 1e-6
"""Tolerance of Σα above 1, for a rounded p_base."""


def value_norm_profile(tokens: int, *, norm: float = 1.0, sink_ratio: float = 1.0) -> FloatArray:
    """Return ‖v‖ of Assumption 1, shape (T,): λC for the sink, C elsewhere; units of C.

    Raises:
        InputError: if a parameter is negative.

    Example:
        >>> value_norm_profile(3, norm=2.0, sink_ratio=0.25).tolist()
        [0.5, 2.0, 2.0]
    """
    if tokens < 1 or norm < 0 or sink_ratio < 0:
        raise InputError(
            f"tokens={tokens}, norm={norm}, sink_ratio={sink_ratio}: expected at least one token"
            " and norms >= 0."
        )
    norms = np.full(tokens, float(norm))
    norms[0] = sink_ratio * norm
    return norms


def oscillation(position: Any, eta: Any, omega: Any, t1: Any, t2: Any) -> FloatArray:
    """Return η cos ωi for T₁ < i ≤ T₂, else 0: the relative deviation of the weights from p_base.
    Arguments broadcast.

    Example:
        >>> oscillation([1, 2, 3, 4], 0.5, 3.141592653589793, 1, 3).round(3).tolist()
        [0.0, 0.5, -0.5, 0.0]
    """
    i = np.asarray(position)
    return np.where((i > t1) & (i <= t2), eta * np.cos(omega * i), 0.0)


def growth(position: Any, rate: Any, t2: Any) -> FloatArray:
    """Return rate·(i − T₂)⁺, the exponent of the tail's growth; the rate is η as printed. Arguments
    broadcast.

    Example:
        >>> growth([3, 4, 5], 0.5, 3).tolist()
        [0.0, 0.5, 1.0]
    """
    return np.asarray(rate * np.maximum(np.asarray(position) - t2, 0))


def profile_shape(
    position: Any, *, eta: Any, rate: Any, omega: Any, t1: Any, t2: Any
) -> FloatArray:
    """Return α_i / p_base of Assumption 3 at positions i > 0, as one product of oscillation and
    growth. Arguments broadcast.

    Example:
        >>> shape = profile_shape([1, 2, 3, 4], eta=0.5, rate=0.5, omega=np.pi, t1=1, t2=3)
        >>> shape.round(3).tolist()
        [1.0, 1.5, 0.5, 1.649]
    """
    return np.asarray(
        np.exp(growth(position, rate, t2)) * (1 + oscillation(position, eta, omega, t1, t2))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightProfile:
    """Parameters of Assumption 3.

    length: L, the last position. plateau_end: T₁. growth_start: T₂ ≥ T₁ (equal: no oscillation).
    p_sink: weight of the sink. eta: strength of the oscillation and, unless `growth` is given, rate
    of the growth per position. omega: radians per position. p_base: weight of the plateau; None:
    the value that gives Σα = 1, which the paper does not impose (erratum 10).

    Example:
        >>> phases = {"length": 4, "plateau_end": 4, "growth_start": 4}
        >>> flat = WeightProfile(**phases, p_sink=0.2, eta=0.1, omega=1.0)
        >>> flat.weights().round(3).tolist()
        [0.2, 0.2, 0.2, 0.2, 0.2]
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
                f"T1={self.plateau_end}, T2={self.growth_start}, L={self.length}: expected 0 <= T1"
                " <= T2 <= L, L >= 1. Reorder the phases."
            )
        if not 0 <= self.p_sink <= 1:
            raise InputError(f"p_sink is {self.p_sink}, expected a weight from 0 to 1.")
        if (self.shape() < 0).any():
            raise InputError(
                f"eta is {self.eta}: the oscillation makes weights negative, expected |eta| <= 1"
                " where the cosine reaches -1."
            )

    def shape(self) -> FloatArray:
        """Return α_i / p_base for i = 1..L, shape (L,)."""
        rate = self.eta if self.growth is None else self.growth
        i = np.arange(1, self.length + 1)
        return profile_shape(
            i, eta=self.eta, rate=rate, omega=self.omega, t1=self.plateau_end, t2=self.growth_start
        )

    def oscillates(self) -> BoolArray:
        """Return which of the positions 1..L lie in the oscillation, T₁ < i ≤ T₂."""
        i = np.arange(1, self.length + 1)
        return np.asarray((i > self.plateau_end) & (i <= self.growth_start))

    def base(self) -> float:
        """Return p_base: as given, otherwise the value that gives Σα = 1."""
        return (
            float((1 - self.p_sink) / self.shape().sum())
            if self.p_base is None
            else float(self.p_base)
        )

    def weights(self) -> FloatArray:
        """Return α, shape (T,)."""
        return np.concatenate([[self.p_sink], self.base() * self.shape()])


def many_weights(length: int, points: Mapping[str, FloatArray]) -> FloatArray:
    """Return α of many profiles of one length L = T − 1, shape (profile, T).

    points: p_sink, p_base (NaN: the value that gives Σα = 1), eta, growth (NaN: equal to η), omega,
    T1, T2, each (profile,).

    Raises:
        InputError: if a profile is invalid: phases out of order, p_sink ≥ 1, a negative weight, Σα
            above 1.
    """
    p_sink, p_base, eta, growing, omega, t1, t2 = (
        np.asarray(points[name], dtype=np.float64)[:, None]
        for name in ("p_sink", "p_base", "eta", "growth", "omega", "T1", "T2")
    )

    def refuse(wrong: BoolArray, expected: str, *names: str) -> None:
        """Raise for the first invalid profile and name its parameters."""
        if wrong.any():
            first = int(np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))[0])
            values = {name: points[name][first] for name in names}
            given = [f"{name} = {value:g}" for name, value in values.items() if np.isfinite(value)]
            raise InputError(
                f"{', '.join(given)}: no such attention profile, expected {expected}. Change the"
                " values set."
            )

    refuse(~((t1 >= 0) & (t1 <= t2) & (t2 <= length)), f"0 <= T1 <= T2 <= L = {length}", "T1", "T2")
    left = "0 <= p_sink < 1, or nothing is left for the other tokens"
    refuse(~((p_sink >= 0) & (p_sink < 1)), left, "p_sink")
    rate = np.where(np.isnan(growing), eta, growing)
    with np.errstate(over="ignore"):
        position = np.arange(1, length + 1)[None]
        shape = profile_shape(position, eta=eta, rate=rate, omega=omega, t1=t1, t2=t2)
    refuse(~np.isfinite(shape), "a growth that stays finite up to L", "eta", "growth", "T2")
    no_negative = "|eta| <= 1 where the cosine reaches -1, so that no weight is negative"
    refuse(shape < 0, no_negative, "eta")
    total = shape.sum(axis=1, keepdims=True)
    base = np.where(np.isnan(p_base), (1 - p_sink) / total, p_base)
    at_most_one = "weights that sum to at most 1 (leave p_base out and it follows)"
    refuse(p_sink + base * total > 1 + SUM, at_most_one, "p_base", "p_sink")
    return np.concatenate([p_sink, base * shape], axis=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regimes:
    """Sizes N at which the composition of I_N changes (Table 2, in the correct order). The sink is
    selected from N = sink_rank on.

    With the sink selected: tail for N < m1, peaks for m1 ≤ N < m2, plateau for m2 ≤ N < m3, valleys
    for N ≥ m3. n_peaks, n_valleys: oscillation tokens with positive and with negative cosine.
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

    Example:
        >>> phases = {"length": 40, "plateau_end": 10, "growth_start": 30}
        >>> found = regimes(WeightProfile(**phases, p_sink=0.5, eta=0.2, omega=0.7))
        >>> found.m1, found.m2, found.m3
        (12, 23, 33)
    """
    if not 0 < profile.eta <= 1 or not (profile.growth is None or profile.growth > 0):
        raise InputError(
            f"eta is {profile.eta}, expected 0 < eta <= 1 (and growth > 0): otherwise the order of"
            " entry differs."
        )
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
