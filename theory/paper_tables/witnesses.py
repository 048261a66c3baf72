"""Witnesses for an arrow of Table 1, over heads of Assumptions 1-3 and their neighbours with one parameter raised.

Three of them: the sign of the printed lower bound's derivative, by sympy under Δ, Δ₀ > 0; the change of the printed and sharp bounds between two
neighbouring heads; the change of simulated E P and E R between the same two heads, draws shared.
Source: arXiv 2602.01893, Table 1, eq. (8), (12)-(15). Imports sympy, numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Literal

import numpy as np

from theory.errors import InputError
from theory.head.results import Edition
from theory.paper_tables.elasticity import BOUNDS
from theory.paper_tables.neighbours import Head, Move, Point
from theory.paper_tables.signs import Sign, printed_partials, sign_of

Verdict = Literal["right", "conditional", "wrong"]

EDITIONS: tuple[Edition, ...] = ("printed", "sharp")

SIGNIFICANT = 4.0
"""Standard errors beyond which a simulated change counts."""

FLAT = 1e-12
"""Change of a bound that is rounding."""


@dataclass(frozen=True, slots=True)
class Row:
    """An arrow of Table 1 (or of eq. (33)): what is raised, the sign claimed for the lower bounds, and what docs/table1.md finds."""

    name: str
    printed: str
    claim: Sign
    move: Move
    verdict: Verdict
    settled: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How often a quantity rose and fell, of `points` neighbouring pairs; the rest stayed (or was not significant)."""

    rose: int
    fell: int
    points: int

    @classmethod
    def of(cls, changes: Sequence[float]) -> Share:
        """Count how many changes rise and fall by more than rounding."""
        return cls(rose=sum(change > FLAT for change in changes), fell=sum(change < -FLAT for change in changes), points=len(changes))

    def agrees(self, claim: Sign) -> float:
        """Return the share of changes that go the claimed way, NaN of none."""
        moved = self.rose + self.fell
        return float("nan") if moved == 0 else (self.rose if claim == "+" else self.fell) / moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Simulated change between two neighbouring heads: difference and standard error of E P and E R."""

    precision: float
    precision_se: float
    recall: float
    recall_se: float


def true_change(before: Head, after: Head, *, draws: int, seed: int) -> Change:
    """Return the change of E P and E R under Model G, draw by draw with shared noise where the shapes allow it."""
    one = before.draws(draws, seed)
    same = (before.point.length, before.point.dimension) == (after.point.length, after.point.dimension)
    other = after.draws(draws, seed if same else seed + 1)
    variance = (other - one).var(axis=1) if same else one.var(axis=1) + other.var(axis=1)
    precision, recall = (other.mean(axis=1) - one.mean(axis=1)).tolist()
    precision_se, recall_se = np.maximum(np.sqrt(variance / draws), 1 / draws).tolist()  # never below one part in the draws
    return Change(precision=precision, precision_se=precision_se, recall=recall, recall_se=recall_se)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What the witnesses say of one row: symbolic sign, shares by (edition, bound), printed within the theorem (Δ, Δ₀ > 0), truth."""

    row: Row
    symbolic: Mapping[str, Sign]
    sampled: Mapping[tuple[Edition, str], Share]
    within: Share
    truth: Share
    mean_change: Change

    @property
    def verdict(self) -> Verdict:
        """Say what the arrow is worth.

        Right: no significant change of truth goes against it, and the printed lower bound of recall never does where Δ, Δ₀ > 0.
        Wrong: truth goes along in at most half of its significant changes. A claim of "mixed" is conditional where truth goes both ways.
        """
        claim, truth = self.row.claim, self.truth
        if claim == "mixed":
            return "conditional" if min(truth.rose, truth.fell) >= 0.1 * (truth.rose + truth.fell) > 0 else "wrong"
        if not truth.agrees(claim) > 0.5:
            return "wrong"
        return "right" if truth.agrees(claim) == self.within.agrees(claim) == 1.0 else "conditional"


def effect(row: Row, points: list[Point], *, draws: int = 2000, seed: int = 0) -> Effect:
    """Return what the witnesses say of one row over the points where its move applies.

    Raises:
        InputError: if it applies nowhere.
    """
    pairs = [pair for pair in map(row.move, points) if pair is not None]
    if not pairs:
        raise InputError(f"row {row.name}: its move applies at none of {len(points)} points. Sample more points.")
    sampled: dict[tuple[Edition, str], list[float]] = {(edition, name): [] for edition in EDITIONS for name in BOUNDS}
    within: list[float] = []
    truth: list[float] = []
    seen = []
    for k, (before, after) in enumerate(pairs):
        for edition in EDITIONS:
            low, high = before.bounds(edition), after.bounds(edition)
            steps = {name: float(getattr(high, name)[0] - getattr(low, name)[0]) for name in BOUNDS}
            for name, step in steps.items():
                sampled[edition, name].append(step)
            if edition == "printed" and all((side.margin[0] > 0) and (side.margin_sink[0] > 0) for side in (low, high)):
                within.append(steps["recall_lower"])
        change = true_change(before, after, draws=draws, seed=seed + 2 * k)
        seen.append(change)
        for value, error in ((change.precision, change.precision_se), (change.recall, change.recall_se)):
            truth.append(value if abs(value) > SIGNIFICANT * error else 0.0)
    return Effect(
        row=row, symbolic=symbolic_signs(row), sampled={key: Share.of(steps) for key, steps in sampled.items()}, within=Share.of(within),
        truth=Share.of(truth), mean_change=_mean(seen),
    )  # fmt: skip


def symbolic_signs(row: Row) -> dict[str, Sign]:
    """Return the signs of the printed bound's derivatives that concern a row, by name."""
    return {name: sign_of(terms) for name, terms in printed_partials().items() if name.split(",")[0] == row.name}


def _mean(seen: list[Change]) -> Change:
    """Return the mean change over the pairs; the error is that of the simulation, not of the choice of points."""
    table = np.array([astuple(change) for change in seen])
    spread = np.sqrt((table[:, 1::2] ** 2).sum(axis=0)) / len(seen)
    mean = table.mean(axis=0)
    return Change(precision=float(mean[0]), precision_se=float(spread[0]), recall=float(mean[2]), recall_se=float(spread[1]))
