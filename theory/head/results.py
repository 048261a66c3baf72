"""What an evaluation of the bounds returns: frozen, self-checking arrays. Imports numpy only."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Generic, Literal, TypeVar

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray

Edition = Literal["printed", "repaired", "sharp", "conditional", "predicted"]
Claim = Literal["as printed", "bound for unit directions", "bound under Model G", "approximation"]
Convention = Literal["paper", "followup"]

QUANTITIES = ("precision", "recall", "f_outer", "f_inner")
"""What is bounded: E P(r_max), E R(r_min), E F(r_max), E F(r_min)."""

CLAIMS: dict[Edition, tuple[Claim, Claim]] = {
    "printed": ("as printed", "as printed"),
    "repaired": ("bound for unit directions", "approximation"),
    "sharp": ("bound under Model G", "bound under Model G"),
    "conditional": ("bound under Model G", "bound under Model G"),
    "predicted": ("approximation", "approximation"),
}
"""What the lower and the upper values of each edition are. Only those called a bound are one."""

UNDER_MODEL_G: tuple[Edition, ...] = ("sharp", "conditional", "predicted")
"""Editions that need a Gram some vectors have, and that know both conventions. The others speak
of independent directions, or of lag Grams.
"""

KAPPA = 0.125
"""κ where none is given: proven for the repaired tails (the paper states none, erratum 13)."""

ROUNDING = 1e-7
"""How far a bound may leave [0, 1] or its partner by rounding: a thousand pairs of 1e-10 each."""


Value = TypeVar("Value", float, FloatArray)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundPairs(Generic[Value]):
    """Bounds on E P(r_max), E R(r_min), E F(r_max), E F(r_min), a (lower, upper) pair each: of
    one selection, or arrays (K,) of K of them.
    """

    precision: tuple[Value, Value]
    recall: tuple[Value, Value]
    f_outer: tuple[Value, Value]
    f_inner: tuple[Value, Value]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Validity:
    """Which conditions of the printed lower bounds hold, one entry for each n (shape of the
    bounds).

    margin_positive: Δ > 0. margin_sink_positive: Δ₀ > 0. rho0_nonnegative: no cosine to the
    sink is negative. similarities_nonnegative: no cosine of a selected content token with another
    content token is negative. size_within_length: N ≤ L. size_below_length: N < L; at N = L the
    lower bounds are exactly 1, and false (erratum 17). sink_selected: 0 ∈ I_N. unit_norm: C = 1.
    weights_within_one: Σα ≤ 1. kappa_proven: κ ≤ 1/8, the constant with which the tails are
    proven. gram_feasible: some vectors have these cosines. An undefined margin does not hold; a
    missing sink has no negative cosine. They are conditions of the lower bounds, where no violation
    has been seen with all of them; no proof, for L − N tokens are still counted outside (erratum
    3). No condition listed here makes the upper bounds (13) and (15) true (erratum 7), nor the
    lower one of F(r_min) in (16), above 1 where that of Recall lies below −1 (errata 8 and 18).
    """

    margin_positive: BoolArray
    margin_sink_positive: BoolArray
    rho0_nonnegative: BoolArray
    similarities_nonnegative: BoolArray
    size_within_length: BoolArray
    size_below_length: BoolArray
    sink_selected: BoolArray
    unit_norm: BoolArray
    weights_within_one: BoolArray
    kappa_proven: BoolArray
    gram_feasible: BoolArray

    def __post_init__(self) -> None:
        shapes = {getattr(self, item.name).shape for item in fields(self)}
        if len(shapes) != 1:
            raise ValueError(f"validity flags have shapes {sorted(shapes)}, expected one shape.")
        for item in fields(self):
            getattr(self, item.name).flags.writeable = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Envelope:
    """Bounds on expected separability, one entry for each n: arrays have shape (K,) for one head,
    (H, K) for H heads; n is (K,).

    Printed values are unclipped. For `repaired` the upper values are an approximation:
    upper_is_bound is False. n = T gives 1 (J is empty; NaN under `followup`, which stops before
    T), n > T gives NaN. margin Δ and margin_sink Δ₀ (units a²) and scale B (units a) are those of
    eq. (8), NaN where print leaves them undefined. For `predicted` lower and upper are one value,
    an approximation. reliable: False where an average behind a `conditional` bound may be off by
    more than 0.01 and was left out (the bounds hold but could be narrower) and where `predicted`
    flags itself.
    """

    n: IntArray
    precision_lower: FloatArray
    precision_upper: FloatArray
    recall_lower: FloatArray
    recall_upper: FloatArray
    f_outer_lower: FloatArray
    f_outer_upper: FloatArray
    f_inner_lower: FloatArray
    f_inner_upper: FloatArray
    margin: FloatArray
    margin_sink: FloatArray
    scale: FloatArray
    reliable: BoolArray
    valid: Validity
    edition: Edition
    convention: Convention
    kappa: float
    upper_is_bound: bool

    def __post_init__(self) -> None:
        arrays = [
            name
            for name in (item.name for item in fields(self))
            if isinstance(getattr(self, name), np.ndarray) and name != "n"
        ]
        shapes = {getattr(self, name).shape for name in arrays} | {self.valid.margin_positive.shape}
        if len(shapes) != 1 or next(iter(shapes))[-1:] != self.n.shape:
            raise ValueError(
                f"bounds have shapes {sorted(shapes)}, expected one shape that ends in"
                f" {self.n.shape}."
            )
        for name in (*arrays, "n"):
            getattr(self, name).flags.writeable = False
        if self.edition != "printed":
            self._check_range()

    @property
    def claims(self) -> tuple[Claim, Claim]:
        """What the lower and the upper values are: bounds, bounds under a named model, or
        approximations.
        """
        return CLAIMS[self.edition]

    def _check_range(self) -> None:
        """Raise where a bound leaves [0, 1], or where lower exceeds upper although both are
        bounds.
        """
        for quantity in QUANTITIES:
            low, high = getattr(self, f"{quantity}_lower"), getattr(self, f"{quantity}_upper")
            if (low < -ROUNDING).any() or (high > 1 + ROUNDING).any():
                raise ValueError(
                    f"{quantity} bounds leave [0, 1]: {np.nanmin(low):.9g} to"
                    f" {np.nanmax(high):.9g}."
                )
            if self.upper_is_bound and (low > high + ROUNDING).any():
                raise ValueError(
                    f"{quantity}_lower exceeds {quantity}_upper by {np.nanmax(low - high):.3g}."
                )
