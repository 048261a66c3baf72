"""The values of each edition for one head or many, laid out alike: (8, K'), lower and upper of each of `QUANTITIES`.

Called by `theory.evaluate`, which checks the input. Imports numpy; the editions' own files lazily.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.editions.conditional.error import WITHIN
from theory.editions.printed import Margins, printed_bounds
from theory.head.ranked import Ranked, Summary
from theory.head.results import QUANTITIES, Convention, Edition


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to evaluate: everything that is not the head itself."""

    dimension: int
    edition: Edition
    kappa: float
    delta0: Literal["out", "in"]
    sink_in_b: bool
    convention: Convention
    feasible: bool
    fast: bool


def sharp_values(ready: list[tuple[Ranked, Summary]], settings: Settings) -> list[FloatArray]:
    """Return sharp bounds (8, K') of each head, tabulated where asked for and where the table serves."""
    from theory.editions import sharp_many
    from theory.editions.sharp import exact_bounds

    followup = settings.convention == "followup"
    if settings.fast and settings.dimension >= sharp_many.TABULATED_FROM:
        found = sharp_many.sharp_bounds(ready, settings.dimension, followup=followup)
    else:
        found = [[exact_bounds(*item, k, settings.dimension, followup=followup) for k in range(len(item[1].n))] for item in ready]
    return [_columns(bounds) for bounds in found]


def conditional_values(head: Ranked, summary: Summary, settings: Settings) -> tuple[FloatArray, BoolArray]:
    """Return conditional bounds (8, K') of one head, and at which sizes no average was left out (K',)."""
    from theory.editions.conditional.bounds import conditional_bounds

    followup = settings.convention == "followup"
    found = [conditional_bounds(head, summary, k, settings.dimension, followup=followup) for k in range(len(summary.n))]
    return _columns(found), np.array([bounds.error <= WITHIN for bounds in found], dtype=bool)


def predicted_values(
    alpha: FloatArray, norms: FloatArray, cosines: npt.NDArray[Any], sink: int | None, sizes: IntArray, settings: Settings
) -> tuple[FloatArray, BoolArray]:
    """Return predicted values (8, K'), lower and upper the same, and where they do not flag themselves (K',)."""
    from theory.editions.predicted.predict import predict

    if not sizes.size:
        return np.empty((2 * len(QUANTITIES), 0)), np.empty(0, dtype=bool)
    found = predict(alpha, norms, cosines, settings.dimension, sizes, sink=sink, convention=settings.convention, feasible=True)
    return np.stack([getattr(found, quantity) for quantity in QUANTITIES for _ in range(2)]), np.array(found.reliable)


def printed_or_repaired_values(head: Ranked, summary: Summary, margins: Margins, settings: Settings) -> FloatArray:
    """Return printed or repaired values (8, K') of one head."""
    if settings.edition == "printed":
        bounds = printed_bounds(head, summary, margins, settings.dimension, settings.kappa)
        return np.stack([getattr(bounds, f"{quantity}_{side}") for quantity in QUANTITIES for side in ("lower", "upper")])
    from theory.editions.repaired import repaired_bounds

    return _columns([repaired_bounds(head, summary, k, settings.dimension, settings.kappa) for k in range(len(summary.n))])


def _columns(bounds: list[Any]) -> FloatArray:
    """Return (8, K') from K' records with a (lower, upper) pair for each quantity."""
    rows = [[side for quantity in QUANTITIES for side in getattr(one, quantity)] for one in bounds]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 2 * len(QUANTITIES)).T
