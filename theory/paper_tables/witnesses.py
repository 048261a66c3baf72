"""Witnesses for an arrow of Table 1, over heads of Assumptions 1-3 and their neighbours with one
parameter raised.

Three of them: the sign of the printed lower bound's derivative, by sympy under Δ, Δ₀ > 0; the
change of the printed and sharp bounds between two neighbouring heads; the change of simulated E P
and E R between the same two heads, draws shared. Source: arXiv 2602.01893, Table 1, eq. (8),
(12)-(15). Imports sympy, numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from typing import Literal

import numpy as np
import sympy as sp

from theory.errors import InputError
from theory.head.results import Edition
from theory.paper_tables.neighbours import Move, Point, PointHead
from theory.symbolic import margins, symbols, theorems

Verdict = Literal["right", "conditional", "true of the bound", "wrong"]
Sign = Literal["+", "-", "0", "mixed"]

BOUNDS = ("precision_lower", "precision_upper", "recall_lower", "recall_upper")
"""Bounds whose response is asked for."""

EDITIONS: tuple[Edition, ...] = ("printed", "sharp")

SIGNIFICANT = 4.0
"""Standard errors beyond which a simulated change counts."""

FLAT = 1e-12
"""Change of a bound that is rounding."""


@dataclass(frozen=True, slots=True)
class Row:
    """An arrow of Table 1 (or of eq. (33)): what is raised, the sign claimed for the lower
    bounds, and what docs/studies/table1.md finds.
    """

    name: str
    printed: str
    claim: Sign
    move: Move
    verdict: Verdict
    settled: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How often a quantity rose and fell, of `points` neighbouring pairs; the rest stayed (or
    was not significant).
    """

    rose: int
    fell: int
    points: int

    @classmethod
    def of(cls, changes: Sequence[float]) -> Share:
        """Count how many changes rise and fall by more than rounding."""
        return cls(
            rose=sum(change > FLAT for change in changes),
            fell=sum(change < -FLAT for change in changes),
            points=len(changes),
        )

    def agrees(self, claim: Sign) -> float:
        """Return the share of changes that go the claimed way, NaN of none."""
        moved = self.rose + self.fell
        return float("nan") if moved == 0 else (self.rose if claim == "+" else self.fell) / moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Simulated change between two neighbouring heads: difference and standard error of E P and
    E R.
    """

    precision: float
    precision_se: float
    recall: float
    recall_se: float


def true_change(before: PointHead, after: PointHead, *, draws: int, seed: int) -> Change:
    """Return the change of E P and E R under Model G, draw by draw with shared noise where the
    shapes allow it.
    """
    one = before.draws(draws, seed)
    same = (before.point.length, before.point.dimension) == (
        after.point.length,
        after.point.dimension,
    )
    other = after.draws(draws, seed if same else seed + 1)
    variance = (other - one).var(axis=1) if same else one.var(axis=1) + other.var(axis=1)
    precision, recall = (other.mean(axis=1) - one.mean(axis=1)).tolist()
    precision_se, recall_se = np.maximum(
        np.sqrt(variance / draws), 1 / draws
    ).tolist()  # never below one part in the draws
    return Change(
        precision=precision, precision_se=precision_se, recall=recall, recall_se=recall_se
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What the witnesses say of one row: symbolic sign, shares by (edition, bound), printed
    within the theorem (Δ, Δ₀ > 0), truth.
    """

    row: Row
    symbolic: Mapping[str, Sign]
    sampled: Mapping[tuple[Edition, str], Share]
    within: Share
    truth: Share
    mean_change: Change

    @property
    def verdict(self) -> Verdict:
        """Say what the arrow is worth.

        Right: no significant change of truth goes against it, and the printed lower bound of recall
        never does where Δ, Δ₀ > 0. True of the bound, of which Table 1 speaks: that bound never
        goes against it there, but truth goes along in at most half of its significant changes.
        Wrong: neither. A claim of "mixed" is conditional where truth goes both ways.
        """
        claim, truth = self.row.claim, self.truth
        if claim == "mixed":
            return (
                "conditional"
                if min(truth.rose, truth.fell) >= 0.1 * (truth.rose + truth.fell) > 0
                else "wrong"
            )
        of_bound = self.within.agrees(claim) == 1.0
        if not truth.agrees(claim) > 0.5:
            return "true of the bound" if of_bound else "wrong"
        return "right" if of_bound and truth.agrees(claim) == 1.0 else "conditional"


def effect(row: Row, points: list[Point], *, draws: int = 2000, seed: int = 0) -> Effect:
    """Return what the witnesses say of one row over the points where its move applies.

    Raises:
        InputError: if it applies nowhere.
    """
    pairs = [pair for pair in map(row.move, points) if pair is not None]
    if not pairs:
        raise InputError(
            f"row {row.name}: its move applies at none of {len(points)} points. Sample more points."
        )
    sampled: dict[tuple[Edition, str], list[float]] = {
        (edition, name): [] for edition in EDITIONS for name in BOUNDS
    }
    within: list[float] = []
    truth: list[float] = []
    seen = []
    for k, (before, after) in enumerate(pairs):
        for edition in EDITIONS:
            low, high = before.bounds(edition), after.bounds(edition)
            steps = {name: float(getattr(high, name)[0] - getattr(low, name)[0]) for name in BOUNDS}
            for name, step in steps.items():
                sampled[edition, name].append(step)
            if edition == "printed" and all(
                (side.margin[0] > 0) and (side.margin_sink[0] > 0) for side in (low, high)
            ):
                within.append(steps["recall_lower"])
        change = true_change(before, after, draws=draws, seed=seed + 2 * k)
        seen.append(change)
        for value, error in (
            (change.precision, change.precision_se),
            (change.recall, change.recall_se),
        ):
            truth.append(value if abs(value) > SIGNIFICANT * error else 0.0)
    return Effect(
        row=row,
        symbolic=symbolic_signs(row),
        sampled={key: Share.of(steps) for key, steps in sampled.items()},
        within=Share.of(within),
        truth=Share.of(truth),
        mean_change=_mean(seen),
    )


def symbolic_signs(row: Row) -> dict[str, Sign]:
    """Return the signs of the printed bound's derivatives that concern a row, by name."""
    return {
        name: sign_of(terms)
        for name, terms in printed_partials().items()
        if name.split(",")[0] == row.name
    }


def _mean(seen: list[Change]) -> Change:
    """Return the mean change over the pairs; the error is that of the simulation, not of the
    choice of points.
    """
    table = np.array([astuple(change) for change in seen])
    spread = np.sqrt((table[:, 1::2] ** 2).sum(axis=0)) / len(seen)
    mean = table.mean(axis=0)
    return Change(
        precision=float(mean[0]),
        precision_se=float(spread[0]),
        recall=float(mean[2]),
        recall_se=float(spread[1]),
    )


@cache
def printed_partials() -> Mapping[str, tuple[sp.Expr, ...]]:
    """Return, for each parameter, the terms of the derivative of 1 − (L−N)e^{…Δ…} −
    ((L−N)/N)e^{…Δ₀…}, eq. (14), by the chain rule.

    Δ and Δ₀ are positive symbols, L − N is one, a_max_in is apart from a₀ except in "a_0, sink in
    B".
    """
    delta, delta_0, outside = sp.symbols("Delta_plus Delta_0_plus outside", positive=True)
    recall = theorems.RECALL_LOWER.doit()
    positive = {symbols.Delta: delta, symbols.Delta_0: delta_0, symbols.L: symbols.N + outside}
    strict = {
        symbol: sp.Symbol(f"{symbol.name}_plus", positive=True)
        for symbol in (
            symbols.S_in,
            symbols.a_min_in,
            symbols.a_max_out,
            symbols.a_0,
            symbols.rho_out,
        )
    }
    paths = {
        symbols.Delta: margins.DELTA,
        symbols.Delta_0: margins.DELTA_0_OUT,
        symbols.B: margins.SCALE,
    }
    rho_of_beta = {symbols.rho_out: sp.exp(-symbols.beta)}

    def through(symbol: sp.Symbol, steps: Mapping[sp.Symbol, sp.Expr]) -> tuple[sp.Expr, ...]:
        direct = sp.diff(recall, symbol)
        terms = [
            direct,
            *(sp.diff(recall, middle) * sp.diff(step, symbol) for middle, step in steps.items()),
        ]
        return tuple(sp.simplify(term.subs(positive).subs(strict)) for term in terms if term != 0)

    least_moves_sum = {
        middle: step.subs(symbols.S_in, symbols.S_in + symbols.a_min_in)
        for middle, step in paths.items()
    }
    with_sink = paths | {symbols.B: margins.SCALE.subs(symbols.a_max_in, symbols.a_0)}
    alone = (symbols.d, symbols.kappa, symbols.L, symbols.N)
    in_margins = (
        symbols.a_0,
        symbols.a_min_in,
        symbols.a_max_out,
        symbols.a_max_in,
        symbols.S_in,
        symbols.rho_0,
    )
    return {
        **{symbol.name: through(symbol, {}) for symbol in alone},
        **{symbol.name: through(symbol, paths) for symbol in in_margins},
        "N, true counts": _true_counts(),
        "a_0, sink in B": through(symbols.a_0, with_sink),
        "a_min_in, S_in moves": through(symbols.a_min_in, least_moves_sum),
        "beta": through(
            symbols.beta, {middle: step.subs(rho_of_beta) for middle, step in paths.items()}
        ),
    }


def _true_counts() -> tuple[sp.Expr, ...]:
    """Return minus the derivatives of the true counts of pairs in N: the content's rises up to
    N = √(L+1) (erratum 25).
    """
    return tuple(
        sp.factor(-sp.diff(count, symbols.N))
        for count in (theorems.COUNT_OF_LOSSES, theorems.COUNT_OF_SINK_LOSSES)
    )


def sign_of(terms: tuple[sp.Expr, ...]) -> Sign:
    """Return the sign that all terms share under their symbols' assumptions; "mixed" where they
    disagree, "0" of none.
    """
    if not terms:
        return "0"
    if all(term.is_positive for term in terms):
        return "+"
    return "-" if all(term.is_negative for term in terms) else "mixed"
