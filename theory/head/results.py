"""Results of an evaluation of the bounds: frozen arrays with self-checks. Imports numpy only."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from theory.arrays import BoolArray, FloatArray, IntArray

Edition = Literal["printed", "repaired", "sharp", "conditional", "predicted"]
Claim = Literal["as printed", "bound for unit directions", "bound under Model G", "approximation"]
Convention = Literal["paper", "followup"]

QUANTITIES = ("precision", "recall", "f_outer", "f_inner")
"""Bounded quantities: E P(r_max), E R(r_min), E F(r_max), E F(r_min)."""

BOUNDS = tuple(f"{quantity}_{side}" for quantity in QUANTITIES for side in ("lower", "upper"))
"""Lower and upper bound of each: the order of every array of eight bounds."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Status of the lower and upper values of an edition (only "bound …" is a bound), and in words;
    whether it holds under Model G (it then needs a feasible Gram, supports both conventions and
    ignores κ); whether it flags single values as unreliable.
    """

    lower: Claim
    upper: Claim
    kind: str
    model_g: bool = True
    flagged: bool = False


EDITIONS: dict[Edition, Traits] = {
    "printed": Traits(
        "as printed", "as printed", "as printed; a bound only if its conditions hold", model_g=False
    ),
    "repaired": Traits(
        "bound for unit directions",
        "approximation",
        "lower: a bound for unit directions, upper: an approximation",
        model_g=False,
    ),
    "sharp": Traits("bound under Model G", "bound under Model G", "a bound under Model G"),
    "conditional": Traits(
        "bound under Model G", "bound under Model G", "a bound under Model G", flagged=True
    ),
    "predicted": Traits(
        "approximation", "approximation", "an approximation, not a bound", flagged=True
    ),
}

UNDER_MODEL_G = tuple(edition for edition, traits in EDITIONS.items() if traits.model_g)

KAPPA = 0.125
"""Default κ: proven for the repaired tails (the paper gives no value, erratum 13)."""

ROUNDING = 1e-7
"""Rounding beyond [0, 1] or the opposite bound: a thousand pairs of 1e-10."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Validity:
    """Which conditions of the printed lower bounds hold, one entry for each n (shape of the
    bounds).

    margin_positive: Δ > 0. margin_sink_positive: Δ₀ > 0. rho0_nonnegative: no cosine to the sink is
    negative. similarities_nonnegative: no cosine of a selected content token with another content
    token is negative. size_within_length: N ≤ L. size_below_length: N < L; at N = L the lower
    bounds are exactly 1 and false (erratum 17). sink_selected: 0 ∈ I_N. unit_norm: C = 1.
    weights_within_one: Σα ≤ 1. kappa_proven: κ ≤ 1/8, the constant of the proven tails.
    gram_feasible: the Gram is PSD. An undefined margin counts as not positive; a missing sink has
    no negative cosine. These are conditions of the lower bounds. No violation has been observed
    when all hold, but there is no proof: L − N tokens are still counted outside (erratum 3). No
    condition here makes the upper bounds (13) and (15) true (erratum 7), nor the lower bound of
    F(r_min) in (16), which exceeds 1 if that of Recall is below −1 (errata 8 and 18).
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
    upper_is_bound is False. n = T gives 1 (J is empty; NaN under `followup`, which ends before T),
    n > T gives NaN. margin Δ and margin_sink Δ₀ (units a²) and scale B (units a) are those of eq.
    (8), NaN where the paper leaves them undefined. For `predicted` lower and upper are the same
    approximation. reliable: False where `conditional` dropped an average with an error above 0.01
    (the bounds hold but could be narrower) and where `predicted` sets its flag.
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
        """Return the status of lower and upper values: bounds under a model, or approximations."""
        traits = EDITIONS[self.edition]
        return traits.lower, traits.upper

    @property
    def upper_is_bound(self) -> bool:
        """Return whether the upper values are more than an approximation."""
        return EDITIONS[self.edition].upper != "approximation"

    def _check_range(self) -> None:
        """Raise if a value leaves [0, 1], or if lower exceeds upper although both are bounds."""
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
