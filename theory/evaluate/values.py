"""The values of each edition for one head or many, laid out alike: (8, K'), lower and upper of each of `QUANTITIES`.

Called by `theory.evaluate`, which checks the input. Imports numpy; the editions' own files lazily.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Required, TypedDict, get_args

import numpy as np
import numpy.typing as npt

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.editions.conditional.quadrature_error import WITHIN
from theory.editions.printed import Margins, printed_bounds
from theory.errors import InputError
from theory.head.ranked import Ranked, Summary
from theory.head.results import KAPPA, QUANTITIES, UNDER_MODEL_G, Convention, Edition


class Choices(TypedDict, total=False):
    """Which bounds, how print is read where it leaves a choice, and what is known of the head; `theory.envelope` says what each may be."""

    edition: Required[Edition]
    kappa: float | None
    sink: int | None
    delta0: Literal["out", "in"]
    sink_in_b: bool
    convention: Convention
    feasible: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`Choices`, checked; fast: the sharp law from a table."""

    fast: bool
    edition: Edition
    kappa: float | None = None
    sink: int | None = 0
    delta0: Literal["out", "in"] = "out"
    sink_in_b: bool = True
    convention: Convention = "paper"
    feasible: bool | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("edition", get_args(Edition)), ("delta0", ("out", "in")), ("convention", get_args(Convention))):
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(allowed)}.")
        if self.convention == "followup" and self.edition not in UNDER_MODEL_G:
            raise InputError(f"convention 'followup' has no {self.edition} edition, expected 'paper'. Use edition='sharp' with 'followup'.")
        if self.kappa is not None and not 0 < self.kappa < np.inf:
            raise InputError(f"kappa is {self.kappa}, expected a finite constant > 0. Leave it out for 1/8.")

    @property
    def constant(self) -> float:
        """κ of the tails, 1/8 where none is given."""
        return KAPPA if self.kappa is None else float(self.kappa)


def sharp_values(ready: list[tuple[Ranked, Summary]], dimension: int, settings: Settings) -> list[FloatArray]:
    """Return sharp bounds (8, K') of each head, tabulated where asked for and where the table serves."""
    from theory.editions.sharp import many_heads
    from theory.editions.sharp.sharp_law import exact_bounds

    followup = settings.convention == "followup"
    if settings.fast and dimension >= many_heads.TABULATED_FROM:
        result = many_heads.sharp_bounds(ready, dimension, followup=followup)
    else:
        result = [[exact_bounds(*item, k, dimension, followup=followup) for k in range(len(item[1].n))] for item in ready]
    return [_columns(bounds) for bounds in result]


def conditional_values(head: Ranked, summary: Summary, dimension: int, settings: Settings) -> tuple[FloatArray, BoolArray]:
    """Return conditional bounds (8, K') of one head, and at which sizes no average was left out (K',)."""
    from theory.editions.conditional.conditional_edition import conditional_bounds

    followup = settings.convention == "followup"
    out = [conditional_bounds(head, summary, k, dimension, followup=followup) for k in range(len(summary.n))]
    return _columns(out), np.array([bounds.error <= WITHIN for bounds in out], dtype=bool)


def predicted_values(
    alpha: FloatArray,
    norms: FloatArray,
    cosines: npt.NDArray[Any],
    dimension: int,
    sizes: IntArray,
    *,
    sink: int | None,
    convention: Convention,
) -> tuple[FloatArray, BoolArray]:
    """Return predicted values (8, K'), lower and upper the same, and where they do not flag themselves (K',)."""
    from theory.editions.predicted.predict import predict

    if not sizes.size:
        return np.empty((2 * len(QUANTITIES), 0)), np.empty(0, dtype=bool)
    result = predict(alpha, norms, cosines, dimension, sizes, sink=sink, convention=convention, feasible=True)
    return np.stack([getattr(result, quantity) for quantity in QUANTITIES for _ in range(2)]), np.array(result.reliable)


def printed_or_repaired_values(head: Ranked, summary: Summary, margins: Margins, dimension: int, settings: Settings) -> FloatArray:
    """Return printed or repaired values (8, K') of one head."""
    if settings.edition == "printed":
        bounds = printed_bounds(head, summary, margins, dimension, settings.constant)
        return np.stack([side for quantity in QUANTITIES for side in getattr(bounds, quantity)])
    from theory.editions.repaired import repaired_bounds

    return _columns([repaired_bounds(head, summary, k, dimension, settings.constant) for k in range(len(summary.n))])


def _columns(bounds: list[Any]) -> FloatArray:
    """Return (8, K') from K' records with a (lower, upper) pair for each quantity."""
    rows = [[side for quantity in QUANTITIES for side in getattr(one, quantity)] for one in bounds]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 2 * len(QUANTITIES)).T
