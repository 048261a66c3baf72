"""Crossing of a target: the largest N up to which a bound stays at it, the smallest d that reaches
it, or the smallest value of any other parameter.

N and d are whole: every N up to L is tried, and the answer ends the first run of sizes that reach
the target; d is bracketed by doubling and halved down to one. Other parameters are scanned on a
grid and the first crossing is refined by Brent's method. A bound need not rise steadily in a
parameter; what is found is the first crossing of the scan, and where there is none the best value
seen is told. Imports numpy, scipy.optimize and `theory.what_if`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from theory.arrays import FloatArray
from theory.errors import InputError
from theory.what_if.grid import WORD, refuse_beyond_memory
from theory.what_if.parameters import PARAMETERS
from theory.what_if.study import Question, study

LARGEST_D: Final = 2**20
SCAN: Final = 240
"""Points of a scan: one in 4% over four decades."""

RANGES: Final = dict.fromkeys(("beta", "kappa", "lam"), (1e-3, 10.0)) | {
    "p_sink": (0.0, 0.99),
    "rho0": (-0.99, 0.99),
    "c": (0.0, 0.99),
}
"""Where a scan looks unless told."""

SEARCHED: Final = tuple(
    name for name, parameter in PARAMETERS.items() if name in ("N", "d") or not parameter.whole
)
"""What can be searched for: N, d and the real parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Where a bound reaches a target.

    value: the parameter there, None where no value searched does. bound: the bound at `value`.
    best, best_at: the largest bound seen and the parameter there (NaN if no point was feasible).
    searched: first and last value tried.
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
        """Say in one line what was found."""
        if self.value is not None:
            which = (
                f"largest N up to which {self.quantity} stays"
                if self.parameter == "N"
                else f"smallest {self.parameter} with {self.quantity}"
            )
            return f"{which} >= {self.target:g}: {self.value:.6g} (there it is {self.bound:.6g})"
        low, high = self.searched
        seen = (
            f"the most is {self.best:.6g} at {self.parameter} = {self.best_at:.6g}"
            if np.isfinite(self.best)
            else "no vectors have these cosines (erratum 9): project them, or take another Gram"
        )
        return (
            f"no solution: {self.quantity} reaches {self.target:g} for no {self.parameter} from"
            f" {low:g} to {high:g}; {seen}"
        )


def find_crossing(
    parameter: str,
    target: float,
    fixed: Mapping[str, float | str] | None = None,
    question: Question | None = None,
    *,
    between: tuple[float, float] | None = None,
) -> Crossing:
    """Return where a bound first reaches a target: the end of the first run of N, else the smallest
    value.

    Args:
        parameter: one of `SEARCHED`: "N", "d", or any other of
            `theory.what_if.parameters.PARAMETERS` but L, T1 and T2.
        target: in (0, 1].
        fixed: values of the other parameters.
        question: with exactly one bound; by default the printed lower bound on E R(r_min).
        between: range to search; needed where `RANGES` has none.

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
    fixed = {name: value for name, value in (fixed or {}).items() if name != parameter}
    search = _Search(parameter=parameter, target=target, fixed=fixed, question=question)
    if parameter == "N":
        length = (
            int(fixed.get("L", PARAMETERS["L"].default or 1))
            if question.measured is None
            else question.measured.tokens - 1
        )
        return search.crossing(
            np.arange(1, length + 1, dtype=np.float64) if between is None else _whole(between),
            search.end_of_run,
        )
    if parameter == "d":
        low, high = between or (1, LARGEST_D)
        doublings = np.ceil(np.log2(max(high / max(low, 1), 1)))
        return search.crossing(
            np.unique(np.minimum(np.ceil(low) * 2.0 ** np.arange(doublings + 1), np.floor(high))),
            search.halved,
        )
    low, high = between or RANGES.get(parameter, (np.nan, np.nan))
    if not low < high:
        raise InputError(
            f"{parameter}: expected a range to search, low below high. Give one, as in"
            f" {parameter}=0.1:2."
        )
    return search.crossing(
        np.geomspace(low, high, SCAN) if low > 0 else np.linspace(low, high, SCAN), search.root
    )


def _refuse_unsearchable(parameter: str, target: float, question: Question) -> None:
    """Raise for several bounds, a target that no bound can reach, or a parameter that is none."""
    if len(question.bounds) != 1:
        raise InputError(
            f"{len(question.bounds)} bounds are asked for, expected the one that is to reach the"
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


def _whole(between: tuple[float, float]) -> FloatArray:
    refuse_beyond_memory(
        WORD * max(0.0, between[1] - between[0]), f"{between[1] - between[0]:,.0f} values of N"
    )
    return np.arange(np.ceil(between[0]), np.floor(between[1]) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """One search: a bound as a function of one parameter, the others fixed."""

    parameter: str
    target: float
    fixed: Mapping[str, float | str]
    question: Question

    def at(self, values: FloatArray) -> FloatArray:
        """The bound at values of the parameter, NaN where infeasible."""
        name = self.question.bounds[0]
        return np.asarray(
            study({self.parameter: values}, self.fixed, self.question).full(name), dtype=np.float64
        )

    def crossing(
        self, values: FloatArray, refined: Callable[[FloatArray, FloatArray, int], float]
    ) -> Crossing:
        """Return where the bound first reaches the target among rising values, refined from
        them, with the best bound seen.
        """
        bounds = self.at(values)
        reached, known = np.flatnonzero(bounds >= self.target), np.isfinite(bounds)
        value = refined(values, bounds, int(reached[0])) if reached.size else None
        best = int(np.nanargmax(bounds)) if known.any() else -1
        return Crossing(
            parameter=self.parameter,
            quantity=self.question.bounds[0],
            target=self.target,
            value=value,
            bound=float(self.at(np.array([value]))[0]) if value is not None else float("nan"),
            best=float(bounds[best]) if known.any() else float("nan"),
            best_at=float(values[best]) if known.any() else float("nan"),
            searched=(float(values[0]), float(values[-1])),
        )

    def end_of_run(self, values: FloatArray, bounds: FloatArray, first: int) -> float:
        """The last of the first consecutive sizes that reach the target: near N = L bounds rise
        again, as little is left outside.
        """
        missed = np.flatnonzero(~(bounds[first:] >= self.target))
        return float(values[first + missed[0] - 1] if missed.size else values[-1])

    def halved(self, values: FloatArray, bounds: FloatArray, first: int) -> float:
        """The smallest whole value, by halving down to one the interval below the first that
        reaches the target.
        """
        above = float(values[first])
        below = float(values[first - 1]) if first else above
        while above - below > 1:
            middle = np.floor((below + above) / 2)
            below, above = (
                (below, middle)
                if self.at(np.array([middle]))[0] >= self.target
                else (middle, above)
            )
        return above

    def root(self, values: FloatArray, bounds: FloatArray, first: int) -> float:
        """The crossing by Brent's method between the two points of the scan around it."""
        from scipy.optimize import brentq

        if first == 0 or not np.isfinite(bounds[first - 1]):
            return float(values[first])
        root = brentq(
            lambda x: float(self.at(np.array([x]))[0]) - self.target,
            values[first - 1],
            values[first],
            xtol=1e-12,
            rtol=1e-12,
        )
        near = root + np.array([0.0, 1e-12, 1e-9, 1e-6]) * abs(
            root
        )  # the first that is there in spite of rounding
        there = np.flatnonzero(self.at(near) >= self.target)
        return float(near[there[0]] if there.size else values[first])
