"""Elasticities at a head of Table 1: by how many per cent a bound moves when a parameter moves by one per cent, all others still.

Source: arXiv 2602.01893, Table 1, eq. (12)-(15). `theory.what_if.elasticity` takes the differences. Unitless. Imports numpy.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from theory.arrays import FloatArray
from theory.errors import InputError
from theory.head.results import Edition
from theory.paper_tables.neighbours import Point
from theory.what_if.elasticity import derivative, difference

BOUNDS = ("precision_lower", "precision_upper", "recall_lower", "recall_upper")
"""Bounds whose response is asked for."""

REAL = ("kappa", "beta", "norm", "sink_ratio", "p_sink", "eta", "omega", "rho0")
WHOLE = ("dimension", "n", "length")
"""Parameters that move; where L does, the plateau is lengthened."""


def elasticities(point: Point, edition: Edition, *, bound: str = "precision_lower") -> dict[str, float]:
    """Return d log bound / d log parameter at a point, for every parameter; NaN where the bound or the parameter is not positive.

    Raises:
        InputError: for an unknown bound.
    """
    if bound not in BOUNDS:
        raise InputError(f"bound is {bound!r}, expected one of {', '.join(BOUNDS)}.")

    def at(name: str, value: float) -> FloatArray:
        changes: dict[str, Any] = {name: value}
        if name == "length":
            changes |= {end: getattr(point, end) + value - point.length for end in ("plateau_end", "growth_start")}
        return np.array([getattr(replace(point, **changes).head().bounds(edition), bound)[0]])

    here = at("n", point.n)
    out = {name: derivative(partial(at, name), here, getattr(point, name), rounding=0.0) for name in REAL}
    out |= {name: difference(partial(at, name), here, getattr(point, name)) for name in WHOLE}
    return {name: float(response.elasticity[0]) for name, response in out.items()}
