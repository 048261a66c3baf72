"""Elasticities: by how many per cent a bound moves when a parameter moves by one.

Source: arXiv 2602.01893, Table 1, eq. (12)-(15). Unitless. Imports numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from theory.errors import InputError
from theory.head.results import Edition
from theory.tables.neighbours import Point

BOUNDS = ("precision_lower", "precision_upper", "recall_lower", "recall_upper")
"""Bounds whose response is asked for."""

ELASTIC: dict[str, float] = {
    "kappa": 1e-4, "beta": 1e-4, "norm": 1e-4, "sink_ratio": 1e-4, "p_sink": 1e-4, "eta": 1e-4, "omega": 1e-4, "rho0": 1e-4,
    "dimension": 0, "n": 0, "length": 0,
}  # fmt: skip
"""Relative step of a central difference in the logarithm, by parameter; 0 for whole numbers, which move by one."""


def elasticities(point: Point, edition: Edition, *, bound: str = "precision_lower") -> dict[str, float]:
    """Return d log bound / d log parameter at a point, for every parameter; NaN where the bound or the parameter is not positive.

    Whole numbers move by one to either side, the others by a ten-thousandth. N moves over the sizes next to it; L lengthens the plateau.

    Raises:
        InputError: for an unknown bound.
    """
    if bound not in BOUNDS:
        raise InputError(f"bound is {bound!r}, expected one of {', '.join(BOUNDS)}.")

    def at(moved: Point) -> float:
        return float(getattr(moved.head().bounds(edition), bound)[0])

    return {name: _elasticity(at, *_either_side(point, name, step), name) for name, step in ELASTIC.items()}


def _either_side(point: Point, name: str, step: float) -> tuple[Point, Point]:
    value = getattr(point, name)
    if step:
        return replace(point, **{name: value * (1 - step)}), replace(point, **{name: value * (1 + step)})

    def moved(by: int) -> Point:
        changes: dict[str, Any] = {name: value + by}
        if name == "length":
            changes |= {other: getattr(point, other) + by for other in ("plateau_end", "growth_start")}
        return replace(point, **changes)

    return moved(-1 if value > 1 else 0), moved(1)


def _elasticity(at: Callable[[Point], float], low: Point, high: Point, name: str) -> float:
    below, above = float(getattr(low, name)), float(getattr(high, name))
    first, second = at(low), at(high)
    if min(below, above, first, second) <= 0 or not np.isfinite([first, second]).all():
        return float("nan")
    return float(np.log(second / first) / np.log(above / below))
