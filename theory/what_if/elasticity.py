"""Elasticities at a point of a study: by how many per cent each bound moves when one parameter
moves by one per cent, all others still.

Source: arXiv 2602.01893, Table 1, eq. (12)-(17). Unitless. Real parameters: central differences of
the logarithm, of the exact evaluation. Whole ones (N, L, d, T1, T2): the difference between one
more and one less. The bounds of `conditional` are averages by quadrature, whose error makes its
elasticities good to about a tenth; those of `predicted` are from wider differences. Imports numpy;
the rest of the theory room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from theory.arrays import FloatArray
from theory.errors import InputError
from theory.evaluate.envelopes import envelope
from theory.what_if.grams import gram_at, similarity_of
from theory.what_if.grid import WITH_KAPPA, Grid, heads_of
from theory.what_if.parameters import GRAM, PARAMETERS, Question

STEP: Final = 1e-4
"""Relative step to either side of a real parameter."""

WIDE_STEP: Final = 1e-2
"""The same for `predicted`, which leaves out what is unlikely: small steps of its own."""

JUMP: Final = 1e-4
"""How far `predicted` may jump where a cell of its sums falls away or comes in (5e-5 seen)."""

ROUNDING: Final = 1e-11
"""Relative difference of two evaluations that is no response but rounding."""

KINK: Final = 0.1
"""How far the slopes to either side may differ, relative to the larger, before there is no
derivative.
"""

DERIVATIVE: Final = "derivative"
BOTH, MORE, LESS = "one more and one less", "one more", "one less"

NO_PROFILE: Final = "there is no such profile next to it"
NO_VECTORS: Final = "no vectors have the Gram next to it"
ZERO: Final = "a parameter that is 0 has no logarithm"
NOT_POSITIVE: Final = "the bound is not positive"
NO_DERIVATIVE: Final = "the bound has a kink there"
SAYS_NOTHING: Final = "the bound on R is negative, so that on F says nothing (erratum 18)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Elasticities:
    """Responses of bounds at one point; arrays are (parameter, bound) unless said otherwise, NaN
    where not available.

    values: (parameter,) where the point stands. steps: (parameter,) "derivative", or which
    neighbours a difference is between. at: (bound,) the bounds there. slope: d bound / d log
    parameter. elasticity: d log bound / d log parameter. reasons: why a value is NaN, else "".
    """

    parameters: tuple[str, ...]
    bounds: tuple[str, ...]
    values: FloatArray
    steps: tuple[str, ...]
    at: FloatArray
    slope: FloatArray
    elasticity: FloatArray
    reasons: np.ndarray
    fixed: Mapping[str, float | str]


def study_elasticities(
    fixed: Mapping[str, float | str] | None = None, question: Question | None = None
) -> Elasticities:
    """Return the elasticity of every bound in every parameter that the point has.

    Parameters that follow from others (p_base or growth that were not set) or that do not enter (κ
    of `sharp`, c of the exponential Gram, the similarity of a measured Gram) are left out. When L
    moves, T1 and T2 move with it where they are shares of L, and else stay.

    Args:
        fixed: the point; parameters not named have their default.
        question: edition, Gram and bounds.

    Raises:
        InputError: for a point that cannot be, or whose Gram no vectors have.

    Example:
        >>> found = study_elasticities({"L": 64, "N": 4})
        >>> found.parameters[:3], found.elasticity.shape[0] == len(found.parameters)
        (('N', 'L', 'd'), True)
    """
    question, fixed = question or Question(), dict(fixed or {})
    grid = Grid.of({}, fixed, question)
    if not bool(similarity_of(grid).feasible):
        raise InputError(
            "no vectors have the Gram of this point, expected a feasible one. Lower |rho0|, or use"
            " --project (project=True)."
        )
    here = _bounds_at(fixed, question)
    ((_, profile),) = grid.profiles()
    values = {name: profile.get(name, grid.fixed[name]) for name in _moving(grid, question)}
    rows = [_response(name, value, fixed, question, here) for name, value in values.items()]
    reasons = np.array([row.reasons for row in rows]).reshape(len(rows), len(question.bounds))
    sayable = _sayable(question, here)
    reasons = np.where(np.isfinite(sayable), reasons, SAYS_NOTHING)
    slope, elasticity = (
        np.where(np.isfinite(sayable), np.array([getattr(row, part) for row in rows]), np.nan)
        for part in ("slope", "elasticity")
    )
    return Elasticities(
        parameters=tuple(values),
        bounds=question.bounds,
        values=np.array(list(values.values())),
        steps=tuple(row.step for row in rows),
        at=sayable,
        slope=slope,
        elasticity=elasticity,
        reasons=reasons,
        fixed=grid.known(),
    )


def _response(
    name: str, value: float, fixed: dict[str, float | str], question: Question, here: FloatArray
) -> Response:
    """Return the response of the bounds, which are `here` at the point, to one parameter."""

    def at(moved: float) -> FloatArray | None:
        try:
            return _bounds_at(fixed | {name: moved}, question)
        except InputError:
            return None

    if PARAMETERS[name].whole:
        return difference(at, here, value)
    if question.edition == "predicted":
        return derivative(at, here, value, step=WIDE_STEP, jump=JUMP)
    return derivative(at, here, value)


def _moving(grid: Grid, question: Question) -> list[str]:
    """The parameters that this point has, in the order of the tables."""
    used = {
        "c": question.decay != "exponential",
        "stretch": question.decay == "stretched",
        "kappa": question.edition in WITH_KAPPA,
    }
    if question.measured is not None:
        used |= dict.fromkeys((*GRAM, "L"), False)
    return [name for name in PARAMETERS if used.get(name, True) and np.isfinite(grid.fixed[name])]


def _bounds_at(fixed: Mapping[str, float | str], question: Question) -> FloatArray:
    """The bounds at a point, evaluated exactly, shape (bound,); NaN where no vectors have its
    Gram.
    """
    grid = Grid.of({}, fixed, question)
    grid.check()
    similarity = similarity_of(grid)
    if not bool(similarity.feasible):
        return np.full(len(question.bounds), np.nan)
    alpha, norms = heads_of([values for _, values in grid.profiles()])
    gram = gram_at(grid, grid.fixed | {"rho0": float(similarity.rho0)})
    d, n, choices = (
        int(grid.fixed["d"]),
        int(grid.fixed["N"]),
        question.choices(grid.fixed["kappa"]),
    )
    result = envelope(alpha[0], norms[0], gram, d, [n], **choices)
    return np.array([getattr(result, bound)[0] for bound in question.bounds])


def _sayable(question: Question, bounds: FloatArray) -> FloatArray:
    """NaN for a lower bound on F(r_min) outside [0, 1]: it follows from a negative one on R
    (erratum 18).
    """
    outside = np.array([name == "f_inner_lower" for name in question.bounds]) & ~(
        (bounds >= 0) & (bounds <= 1)
    )
    return np.where(outside, np.nan, bounds)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Response:
    """Slope and elasticity of some bounds in one parameter, NaN with a reason where there is
    none; step: what they are between.
    """

    step: str
    slope: FloatArray
    elasticity: FloatArray
    reasons: np.ndarray


def _nothing(step: str, reason: str, size: int) -> Response:
    return Response(
        step=step,
        slope=np.full(size, np.nan),
        elasticity=np.full(size, np.nan),
        reasons=np.full(size, reason, dtype=object),
    )


def derivative(
    at: Callable[[float], FloatArray | None],
    here: FloatArray,
    value: float,
    step: float = STEP,
    jump: float = 0.0,
    rounding: float = ROUNDING,
) -> Response:
    """Return the derivative in the logarithm of a real parameter.

    Args:
        at: bounds at a value of the parameter, (bound,); None where there is no such point.
        here: bounds at `value`.
        value: of the parameter.
        step: relative, to either side.
        jump: how far a bound may jump of itself.
        rounding: relative difference of two evaluations that is none.

    Example:
        >>> squares = lambda x: np.array([x**2])
        >>> derivative(squares, squares(3.0), 3.0).elasticity.round(6).tolist()
        [2.0]
    """
    if value == 0:
        return _nothing(DERIVATIVE, ZERO, here.size)
    below, above = at(value * (1 - step)), at(value * (1 + step))
    if below is None or above is None:
        return _nothing(DERIVATIVE, NO_PROFILE, here.size)
    response = _between(DERIVATIVE, below, above, np.log1p(step) - np.log1p(-step), rounding)
    sides = np.stack([above - here, here - below]) / step
    apart, most = np.abs(sides[0] - sides[1]), np.abs(sides).max(axis=0)
    kinked = (apart > KINK * most + (ROUNDING * 100 * np.abs(here) + jump) / step) & (
        response.reasons != NO_VECTORS
    )
    response.slope[kinked] = response.elasticity[kinked] = np.nan
    return replace(response, reasons=np.where(kinked, NO_DERIVATIVE, response.reasons))


def difference(
    at: Callable[[float], FloatArray | None], here: FloatArray, value: float
) -> Response:
    """Return the difference between the neighbours of a whole number, or to one of them where there
    is no other; arguments as `derivative`.

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
    return _nothing(BOTH, NO_PROFILE if value else ZERO, here.size)


def _between(
    step: str, low: FloatArray, high: FloatArray, width: float, rounding: float = ROUNDING
) -> Response:
    """Slope and elasticity between two evaluations `width` apart in the logarithm of the
    parameter.
    """
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
