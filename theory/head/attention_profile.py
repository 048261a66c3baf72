"""Attention weights of Assumption 3, four phases, for one head or many; value norms of Assumption
1; the regimes of N that follow.

Source: arXiv 2602.01893, Assumptions 1 and 3, Table 2; normalisation is erratum 10. Assumption 2
is in `theory.head.similarity_decay`. Positions 0..L; position 0 is the sink. Weights are unitless.
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
"""How far above 1 the weights of a profile may sum: rounding of a p_base that was written down."""


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
    """Return η cos ωi for T₁ < i ≤ T₂, else 0: by how much the weights of that phase leave the
    plateau, over p_base. Arguments broadcast.

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
    """Return α_i / p_base of Assumption 3 at positions i > 0: plateau, oscillation and growth are
    one product. Arguments broadcast.

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
    the one that makes Σα = 1, which the paper never imposes (erratum 10).

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
        """Return p_base: as given, else the value that makes Σα = 1."""
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

    points: p_sink, p_base (NaN: what makes Σα = 1), eta, growth (NaN: η serves both), omega, T1,
    T2, each (profile,).

    Raises:
        InputError: where a profile is none: phases out of order, p_sink ≥ 1, a negative weight, Σα
            above 1.
    """
    at = {name: np.asarray(values, dtype=np.float64)[:, None] for name, values in points.items()}
    _refuse(
        ~((at["T1"] >= 0) & (at["T1"] <= at["T2"]) & (at["T2"] <= length)),
        points,
        f"0 <= T1 <= T2 <= L = {length}",
        "T1",
        "T2",
    )
    _refuse(
        ~((at["p_sink"] >= 0) & (at["p_sink"] < 1)),
        points,
        "0 <= p_sink < 1, or nothing is left for the other tokens",
        "p_sink",
    )
    rate = np.where(np.isnan(at["growth"]), at["eta"], at["growth"])
    with np.errstate(over="ignore"):
        shape = profile_shape(
            np.arange(1, length + 1)[None],
            eta=at["eta"],
            rate=rate,
            omega=at["omega"],
            t1=at["T1"],
            t2=at["T2"],
        )
    _refuse(
        ~np.asarray(np.isfinite(shape).all(axis=1)),
        points,
        "a growth that stays finite up to L",
        "eta",
        "growth",
        "T2",
    )
    _refuse(
        np.asarray((shape < 0).any(axis=1)),
        points,
        "|eta| <= 1 where the cosine reaches -1, so that no weight is negative",
        "eta",
    )
    total = shape.sum(axis=1, keepdims=True)
    base = np.where(np.isnan(at["p_base"]), (1 - at["p_sink"]) / total, at["p_base"])
    _refuse(
        at["p_sink"] + base * total > 1 + SUM,
        points,
        "weights that sum to at most 1 (leave p_base out and it follows)",
        "p_base",
        "p_sink",
    )
    return np.concatenate([at["p_sink"], base * shape], axis=1)


def _refuse(wrong: BoolArray, points: Mapping[str, FloatArray], expected: str, *names: str) -> None:
    """Raise for the first profile that is wrong, naming its parameters."""
    if wrong.any():
        first = int(np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))[0])
        given = ", ".join(
            f"{name} = {points[name][first]:g}"
            for name in names
            if np.isfinite(points[name][first])
        )
        raise InputError(
            f"{given}: no such attention profile, expected {expected}. Change the values set."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Regimes:
    """Where the composition of I_N changes (Table 2, in the order that is true): the sink is in
    from N = sink_rank.

    With the sink in: tail for N < m1, peaks for m1 ≤ N < m2, plateau for m2 ≤ N < m3, valleys for N
    ≥ m3. n_peaks, n_valleys: oscillation tokens with positive and with negative cosine.
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
