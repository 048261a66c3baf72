"""Search for a target: the largest N up to which a bound stays at the target, the smallest d that
reaches it, or the smallest value of another parameter.

N and d are integers. Every N up to L is evaluated, and the result is the end of the first run of
sizes that reach the target; d is bracketed by doubling, then bisected. Other parameters are scanned
on a grid, and the first crossing is refined by Brent's method. A bound need not be monotone in a
parameter: the result is the first crossing of the scan. Without a crossing the best value is
reported. Imports numpy, scipy.optimize and `theory.what_if`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from theory.arrays import BoolArray, FloatArray
from theory.errors import InputError
from theory.what_if.grid import WORD, refuse_beyond_memory
from theory.what_if.parameters import PARAMETERS
from theory.what_if.study import Question, study

LARGEST_D: Final = 2**20
SCAN: Final = 240
"""Number of points of a scan: 4% steps over four decades."""

RANGES: Final = dict.fromkeys(("beta", "gamma", "kappa", "lam"), (1e-3, 10.0)) | {
    "p_sink": (0.0, 0.99),
    "rho0": (-0.99, 0.99),
    **dict.fromkeys(("c", "c1", "cinf"), (0.0, 0.99)),
}
"""Default ranges of a scan."""

SEARCHED: Final = tuple(
    name for name, parameter in PARAMETERS.items() if name in ("N", "d") or not parameter.whole
)
"""Searchable parameters: N, d and the real parameters."""

Bound = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Result of a target search.

    value: parameter value, None if no searched value reaches the target. bound: the bound at
    `value`. best, best_at: the largest bound and its parameter value (NaN if no point is feasible).
    searched: first and last searched value.
    """

    parameter: str
    quantity: str
    target: float
    value: float | None
    bound: float
    best: float
    best_at: float
    searched: tuple[float, float]

    def __str__(self) -> str:
        """Return the result in one line."""
        if self.value is not None:
            description = (
                f"largest N up to which {self.quantity} stays"
                if self.parameter == "N"
                else f"smallest {self.parameter} with {self.quantity}"
            )
            return (
                f"{description} >= {self.target:g}: {self.value:.6g} (there it is {self.bound:.6g})"
            )
        low, high = self.searched
        best = (
            f"the most is {self.best:.6g} at {self.parameter} = {self.best_at:.6g}"
            if np.isfinite(self.best)
            else "the Gram is infeasible (erratum 9): project it, or use another Gram"
        )
        return (
            f"no solution: {self.quantity} reaches {self.target:g} for no {self.parameter} from"
            f" {low:g} to {high:g}; {best}"
        )


def find_crossing(
    parameter: str,
    target: float,
    fixed: Mapping[str, float | str] | None = None,
    question: Question | None = None,
    *,
    between: tuple[float, float] | None = None,
) -> Crossing:
    """Find the value at which a bound first reaches a target: the end of the first run for N,
    otherwise the smallest value.

    Args:
        parameter: one of `SEARCHED`: "N", "d", or any other of
            `theory.what_if.parameters.PARAMETERS` but L, T1 and T2.
        target: in (0, 1].
        fixed: values of the other parameters.
        question: a question with exactly one bound (default: the printed lower bound on E
            R(r_min)).
        between: search range; required if `RANGES` has none.

    Raises:
        InputError: for a target outside (0, 1], a parameter that cannot be searched, or an empty
            range.

    Example:
        >>> found = find_crossing("d", 0.5, {"L": 64, "N": 4, "beta": 5.0, "p_sink": 0.5})
        >>> found.parameter, found.quantity
        ('d', 'recall_lower')
    """
    question = question or Question(bounds=("recall_lower",))
    _refuse_unsearchable(parameter, target, question)
    others = {name: value for name, value in (fixed or {}).items() if name != parameter}
    (name,) = question.bounds

    def bound_at(values: FloatArray) -> FloatArray:
        """Return the bound at values of the parameter, NaN where infeasible."""
        return np.asarray(study({parameter: values}, others, question).full(name), dtype=np.float64)

    values = _searched(parameter, others, question, between)
    bounds = bound_at(values)
    reaches, known = bounds >= target, np.isfinite(bounds)
    value: float | None = None
    bound = float("nan")
    if reaches.any():
        first = int(reaches.argmax())
        if parameter == "N":
            # the end of the first run: bounds rise again near N = L, where few are unselected
            missed = np.flatnonzero(~reaches[first:])
            value = float(values[first + missed[0] - 1] if missed.size else values[-1])
        elif parameter == "d":
            value = _bisected(bound_at, target, values, first)
        else:
            value = _root(bound_at, target, values, first, known)
        bound = float(bound_at(np.array([value]))[0])
    best = int(np.nanargmax(bounds)) if known.any() else -1
    return Crossing(
        parameter=parameter,
        quantity=name,
        target=target,
        value=value,
        bound=bound,
        best=float(bounds[best]) if known.any() else float("nan"),
        best_at=float(values[best]) if known.any() else float("nan"),
        searched=(float(values[0]), float(values[-1])),
    )


def _refuse_unsearchable(parameter: str, target: float, question: Question) -> None:
    """Raise for several bounds, a target outside (0, 1], or an unsearchable parameter."""
    if len(question.bounds) != 1:
        raise InputError(
            f"{len(question.bounds)} bounds are given, expected the one that is to reach the"
            " target. Name one."
        )
    if not 0 < target <= 1:
        raise InputError(
            f"target is {target:g}, expected a probability above 0 and up to 1. Change the target."
        )
    if parameter not in SEARCHED:
        remedy = (
            f"Use one of those, or let {parameter} vary with --set."
            if parameter in PARAMETERS
            else "Use one of those."
        )
        raise InputError(
            f"{parameter!r} cannot be searched for, expected one of {', '.join(SEARCHED)}. {remedy}"
        )


def _searched(
    parameter: str,
    fixed: Mapping[str, float | str],
    question: Question,
    between: tuple[float, float] | None,
) -> FloatArray:
    """Return the scanned values: every N, doublings of d, or a grid over the range."""
    if parameter == "N":
        if between is None:
            measured, default = question.measured, PARAMETERS["L"].default or 1
            last = int(fixed.get("L", default)) if measured is None else measured.tokens - 1
            return np.arange(1, last + 1, dtype=np.float64)
        size = between[1] - between[0]
        refuse_beyond_memory(WORD * max(0.0, size), f"{size:,.0f} values of N")
        return np.arange(np.ceil(between[0]), np.floor(between[1]) + 1)
    if parameter == "d":
        low, high = between or (1, LARGEST_D)
        doublings = 2.0 ** np.arange(np.ceil(np.log2(max(high / max(low, 1), 1))) + 1)
        return np.unique(np.minimum(np.ceil(low) * doublings, np.floor(high)))
    low, high = between or RANGES.get(parameter, (np.nan, np.nan))
    if not low < high:
        raise InputError(
            f"{parameter}: expected a range to search, low below high. Give one, as in"
            f" {parameter}=0.1:2."
        )
    return (np.geomspace if low > 0 else np.linspace)(low, high, SCAN)


def _bisected(bound_at: Bound, target: float, values: FloatArray, first: int) -> float:
    """Return the smallest integer that reaches the target, below the first value that does."""
    upper = float(values[first])
    lower = float(values[first - 1]) if first else upper
    while upper - lower > 1:
        middle = np.floor((lower + upper) / 2)
        if bound_at(np.array([middle]))[0] >= target:
            upper = middle
        else:
            lower = middle
    return upper


def _root(
    bound_at: Bound, target: float, values: FloatArray, first: int, known: BoolArray
) -> float:
    """Return the crossing by Brent's method between the two adjacent points of the scan."""
    from scipy.optimize import brentq

    if first == 0 or not known[first - 1]:
        return float(values[first])

    def gap(x: float) -> float:
        return float(bound_at(np.array([x]))[0]) - target

    root = brentq(gap, values[first - 1], values[first], xtol=1e-12, rtol=1e-12)
    # The result is the first of these at the target, despite rounding.
    candidates = root + np.array([0.0, 1e-12, 1e-9, 1e-6]) * abs(root)
    reaching = np.flatnonzero(bound_at(candidates) >= target)
    return float(candidates[reaching[0]] if reaching.size else values[first])
