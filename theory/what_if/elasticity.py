"""Elasticities at a point of a study: relative change of each bound per relative change of one
parameter, all others fixed.

Source: arXiv 2602.01893, Table 1, eq. (12)-(17). Unitless. Real parameters: central differences of
the logarithm with exact evaluation. Integer parameters (N, L, d, T1, T2): the difference between
one more and one less. Quadrature error limits the elasticities of `conditional` to an accuracy of
about a tenth; `predicted` uses wider differences. Imports numpy and `theory`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from theory.arrays import FloatArray
from theory.errors import InputError
from theory.evaluate.envelopes import envelope
from theory.head.results import UNDER_MODEL_G
from theory.what_if.grid import Grid, gram_at, heads_of, similarity_of
from theory.what_if.parameters import GRAM, PARAMETERS, SIMILARITY, Question

STEP: Final = 1e-4
"""Relative step of a real parameter to either side."""

WIDE_STEP: Final = 1e-2
"""Relative step for `predicted`, whose sums skip unlikely cells and have small jumps."""

JUMP: Final = 1e-4
"""Largest jump of `predicted` when a cell of its sums appears or disappears (5e-5 observed)."""

ROUNDING: Final = 1e-11
"""Relative difference of two evaluations attributed to rounding."""

KINK: Final = 0.1
"""Largest difference of the one-sided slopes, relative to the larger, for a derivative."""

DERIVATIVE: Final = "derivative"
BOTH, MORE, LESS = "one more and one less", "one more", "one less"

NO_PROFILE: Final = "the neighbouring profile is invalid"
NO_VECTORS: Final = "the neighbouring Gram is infeasible"
ZERO: Final = "the parameter is 0 and has no logarithm"
NOT_POSITIVE: Final = "the bound is not positive"
NO_DERIVATIVE: Final = "the bound has a kink at this value"
MEANINGLESS: Final = "the bound on R is negative and makes the bound on F meaningless (erratum 18)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Elasticities:
    """Responses of bounds at one point.

    arrays: by name. (parameter,): parameter; value, at the point; step, "derivative" or the
    neighbours of a difference. (bound,): bound; at, the bounds at the point. (parameter, bound),
    NaN where not available: slope, d bound / d log parameter; elasticity, d log bound / d log
    parameter; reason, why a value is NaN, otherwise "". fixed: the point.
    """

    arrays: Mapping[str, np.ndarray]
    fixed: Mapping[str, float | str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Response:
    """Slope and elasticity of bounds in one parameter, NaN with a reason; step: as in `steps`."""

    step: str
    slope: FloatArray
    elasticity: FloatArray
    reasons: np.ndarray


def study_elasticities(
    fixed: Mapping[str, float | str] | None = None, question: Question | None = None
) -> Elasticities:
    """Return the elasticity of every bound in every parameter of the point.

    Excludes parameters that follow from others (p_base or growth, unless set) or have no effect (κ
    for `sharp`, c for the exponential Gram, the similarity of a measured Gram). When L changes, T1
    and T2 change with it if they are shares of L.

    Args:
        fixed: values at the point; other parameters have their defaults.
        question: edition, Gram and bounds.

    Raises:
        InputError: for an invalid point, or an infeasible Gram.

    Example:
        >>> found = study_elasticities({"L": 64, "N": 4})
        >>> found.arrays["parameter"][:3].tolist(), found.arrays["slope"].shape
        (['N', 'L', 'd'], (13, 4))
    """
    question, fixed = question or Question(), dict(fixed or {})
    grid = Grid.of({}, fixed, question)
    if not bool(similarity_of(grid).feasible):
        raise InputError(
            "the Gram of this point is infeasible, expected a feasible one. Lower |rho0|, or use"
            " --project (project=True)."
        )

    def at(name: str, value: float) -> FloatArray | None:
        try:
            return _bounds_at(fixed | {name: value}, question)
        except InputError:
            return None

    here = _bounds_at(fixed, question)
    ((_, profile),) = grid.profiles()
    values = {
        name: profile.get(name, grid.fixed[name]) for name in _varying_parameters(grid, question)
    }
    wide = {"step": WIDE_STEP, "jump": JUMP} if question.edition == "predicted" else {}
    rows = [
        difference(partial(at, name), here, value)
        if PARAMETERS[name].whole
        else derivative(partial(at, name), here, value, **wide)
        for name, value in values.items()
    ]
    # A lower bound on F(r_min) outside [0, 1] follows from a negative bound on R (erratum 18).
    inner = np.array([name == "f_inner_lower" for name in question.bounds])
    here = np.where(inner & ~((here >= 0) & (here <= 1)), np.nan, here)
    known = np.isfinite(here)
    arrays = {
        "elasticity": np.where(known, [row.elasticity for row in rows], np.nan),
        "slope": np.where(known, [row.slope for row in rows], np.nan),
        "reason": np.where(known, [row.reasons for row in rows], MEANINGLESS).astype(str),
        "value": np.array(list(values.values())),
        "step": np.array([row.step for row in rows]),
        "at": here,
        "parameter": np.array(list(values)),
        "bound": np.array(question.bounds),
    }
    return Elasticities(arrays=arrays, fixed=grid.known())


def _varying_parameters(grid: Grid, question: Question) -> list[str]:
    """Return the parameters of the point, in the order of the tables."""
    used = {name: name in SIMILARITY.get(question.decay, ()) for name in GRAM}
    used |= {"kappa": question.edition not in UNDER_MODEL_G, "L": question.measured is None}
    return [name for name in PARAMETERS if used.get(name, True) and np.isfinite(grid.fixed[name])]


def _bounds_at(fixed: Mapping[str, float | str], question: Question) -> FloatArray:
    """Return the exactly evaluated bounds at a point, (bound,); NaN if its Gram is infeasible."""
    grid = Grid.of({}, fixed, question)
    grid.check()
    similarity = similarity_of(grid)
    if not bool(similarity.feasible):
        return np.full(len(question.bounds), np.nan)
    alpha, norms = heads_of([values for _, values in grid.profiles()])
    gram = gram_at(grid, grid.fixed | {"rho0": float(similarity.rho0)}, alpha[0])
    d, n, choices = (
        int(grid.fixed["d"]),
        int(grid.fixed["N"]),
        question.choices(grid.fixed["kappa"]),
    )
    result = envelope(alpha[0], norms[0], gram, d, [n], **choices)
    return np.array([getattr(result, bound)[0] for bound in question.bounds])


def _undefined(step: str, reason: str, size: int) -> Response:
    missing, reasons = np.full(size, np.nan), np.full(size, reason, dtype=object)
    return Response(step=step, slope=missing, elasticity=missing, reasons=reasons)


def derivative(
    at: Callable[[float], FloatArray | None],
    here: FloatArray,
    value: float,
    step: float = STEP,
    jump: float = 0.0,
    rounding: float = ROUNDING,
) -> Response:
    """Return the derivative with respect to the logarithm of a real parameter.

    Args:
        at: function that returns the bounds at a parameter value, (bound,), or None for an invalid
            point.
        here: bounds at `value`.
        value: parameter value.
        step: relative step to either side.
        jump: largest jump of a bound unrelated to the parameter.
        rounding: relative difference attributed to rounding.

    Example:
        >>> squares = lambda x: np.array([x**2])
        >>> derivative(squares, squares(3.0), 3.0).elasticity.round(6).tolist()
        [2.0]
    """
    if value == 0:
        return _undefined(DERIVATIVE, ZERO, here.size)
    below, above = at(value * (1 - step)), at(value * (1 + step))
    if below is None or above is None:
        return _undefined(DERIVATIVE, NO_PROFILE, here.size)
    response = _between(DERIVATIVE, below, above, np.log1p(step) - np.log1p(-step), rounding)
    sides = np.stack([above - here, here - below]) / step
    gap, largest = np.abs(sides[0] - sides[1]), np.abs(sides).max(axis=0)
    kinked = (gap > KINK * largest + (ROUNDING * 100 * np.abs(here) + jump) / step) & (
        response.reasons != NO_VECTORS
    )
    response.slope[kinked] = response.elasticity[kinked] = np.nan
    return replace(response, reasons=np.where(kinked, NO_DERIVATIVE, response.reasons))


def difference(
    at: Callable[[float], FloatArray | None], here: FloatArray, value: float
) -> Response:
    """Return the difference between the neighbours of an integer value, or to the only neighbour;
    arguments as in `derivative`.

    Example:
        >>> squares = lambda x: np.array([x**2])
        >>> difference(squares, squares(3.0), 3.0).elasticity.round(6).tolist()
        [2.0]
    """
    below, above = (at(value - 1) if value > 1 else None), at(value + 1)
    if below is not None and above is not None:
        return _between(BOTH, below, above, np.log((value + 1) / (value - 1)))
    if above is not None and value > 0:
        return _between(MORE, here, above, np.log((value + 1) / value))
    if below is not None:
        return _between(LESS, below, here, np.log(value / (value - 1)))
    return _undefined(BOTH, NO_PROFILE if value else ZERO, here.size)


def _between(
    step: str, low: FloatArray, high: FloatArray, width: float, rounding: float = ROUNDING
) -> Response:
    """Return slope and elasticity between evaluations `width` apart in log parameter."""
    change = np.where(
        np.abs(high - low) <= rounding * np.maximum(np.abs(low), np.abs(high)), 0.0, high - low
    )
    positive = (low > 0) & (high > 0)
    ratio = np.divide(high, low, out=np.ones_like(high), where=positive)
    logarithm = np.where(change == 0, 0.0, np.log(ratio))
    known = np.isfinite(low) & np.isfinite(high)
    return Response(
        step=step,
        slope=np.where(known, change / width, np.nan),
        elasticity=np.where(known & positive, logarithm / width, np.nan),
        reasons=np.where(~known, NO_VECTORS, np.where(positive, "", NOT_POSITIVE)),
    )
