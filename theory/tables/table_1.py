"""What each parameter does to the bounds and to the truth: Table 1 put to the test, and elasticities at any point.

Three witnesses for an arrow of Table 1: the sign of the printed lower bound's derivative, by sympy under Δ, Δ₀ > 0; the change of the
printed and sharp bounds between two neighbouring heads; the change of simulated E P and E R between the same two heads, draws shared.
`python -m theory.tables.table_1 docs/table1.md` writes the table. Source: arXiv 2602.01893, Table 1, eq. (8), (12)-(15), (33).
Imports sympy, numpy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

import numpy as np

from theory.errors import InputError
from theory.head.results import Edition, Envelope
from theory.tables.elasticity import BOUNDS, ELASTIC, elasticities
from theory.tables.neighbours import Head, Move, Point, closer_sink, larger_least, larger_outside, longer, one_more, sample_points, scaled
from theory.tables.signs import Sign, printed_partials, sign_of

Verdict = Literal["right", "conditional", "wrong"]

EDITIONS: tuple[Edition, ...] = ("printed", "sharp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An arrow of Table 1 (or of eq. (33)): what is raised, the sign claimed for the lower bounds, and what docs/table1.md finds."""

    name: str
    printed: str
    claim: Sign
    move: Move
    verdict: Verdict
    settled: str


ROWS: tuple[Row, ...] = (
    Row(
        name="d",
        printed="↑ exponentially",
        claim="+",
        move=scaled("dimension", 2),
        verdict="conditional",
        settled="right only where both margins are positive",
    ),
    Row(name="L", printed="↓ linearly", claim="-", move=longer, verdict="right", settled="right at fixed a"),
    Row(
        name="N",
        printed="mixed: (L−N) terms ↓ (improves)",
        claim="mixed",
        move=one_more,
        verdict="conditional",
        settled="the hedge is right; “(L−N) improves” is wrong for N < √(L+1), where the true count of pairs still grows",
    ),
    Row(
        name="a_0",
        printed="↑ (often strong gain)",
        claim="+",
        move=scaled("sink_ratio", 1.5),
        verdict="wrong",
        settled="right on the bound if B leaves the sink out, mixed if not, and reversed in truth",
    ),
    Row(name="a_min_in", printed="↑", claim="+", move=larger_least, verdict="right", settled="right at fixed S_in"),
    Row(name="a_max_out", printed="↑ when smaller", claim="-", move=larger_outside, verdict="right", settled="right"),
    Row(
        name="beta",
        printed="↑",
        claim="+",
        move=scaled("beta", 1.25),
        verdict="wrong",
        settled="right on the bound, mostly reversed in truth",
    ),
    Row(
        name="profile: peaks",
        printed="peaks entering I_N: ↑",
        claim="+",
        move=lambda point: one_more(point, "peak"),
        verdict="wrong",
        settled="unsupported as stated",
    ),
    Row(
        name="profile: valleys",
        printed="valleys entering I_N: ↓",
        claim="-",
        move=lambda point: one_more(point, "valley"),
        verdict="wrong",
        settled="unsupported as stated",
    ),
    Row(
        name="rho_0",
        printed="(33): recall falls for ρ₀ < 0",
        claim="+",
        move=closer_sink,
        verdict="conditional",
        settled="right in truth where the sink is selected, reversed where it is not; the printed lower bounds contain no ρ₀ and predict nothing",
    ),
)
"""The arrows put to the test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How often a quantity rose and fell, of `points` neighbouring pairs; the rest stayed (or was not significant)."""

    rose: int
    fell: int
    points: int

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
    error = np.sqrt(variance / draws)
    difference = other.mean(axis=1) - one.mean(axis=1)
    floor = 1 / draws
    return Change(
        precision=float(difference[0]),
        precision_se=max(float(error[0]), floor),
        recall=float(difference[1]),
        recall_se=max(float(error[1]), floor),
    )


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


SIGNIFICANT = 4.0
"""Standard errors beyond which a simulated change counts."""

FLAT = 1e-12
"""Change of a bound that is rounding."""


def effect(row: Row, points: list[Point], *, draws: int = 2000, seed: int = 0) -> Effect:
    """Return what the witnesses say of one row over the points where its move applies.

    Raises:
        InputError: if it applies nowhere.
    """
    pairs = [pair for pair in map(row.move, points) if pair is not None]
    if not pairs:
        raise InputError(f"row {row.name}: its move applies at none of {len(points)} points. Sample more points.")
    counts: dict[tuple[Edition, str], list[int]] = {(edition, name): [0, 0] for edition in EDITIONS for name in BOUNDS}
    within, truth, seen = [0, 0, 0], [0, 0], []
    for k, (before, after) in enumerate(pairs):
        for edition in EDITIONS:
            low, high = before.bounds(edition), after.bounds(edition)
            for name in BOUNDS:
                _count(counts[edition, name], _step(low, high, name))
            if edition == "printed" and all((side.margin[0] > 0) and (side.margin_sink[0] > 0) for side in (low, high)):
                within[2] += 1
                _count(within, _step(low, high, "recall_lower"))
        change = true_change(before, after, draws=draws, seed=seed + 2 * k)
        seen.append(change)
        for value, error in ((change.precision, change.precision_se), (change.recall, change.recall_se)):
            _count(truth, value if abs(value) > SIGNIFICANT * error else 0.0)
    return Effect(
        row=row,
        symbolic=_symbolic(row),
        sampled={key: Share(rose=up, fell=down, points=len(pairs)) for key, (up, down) in counts.items()},
        within=Share(rose=within[0], fell=within[1], points=within[2]),
        truth=Share(rose=truth[0], fell=truth[1], points=2 * len(pairs)),
        mean_change=_mean(seen),
    )


def _symbolic(row: Row) -> dict[str, Sign]:
    """Return the signs of the printed bound's derivatives that concern a row, by name."""
    return {name: sign_of(terms) for name, terms in printed_partials().items() if name.split(",")[0] == row.name}


def _signs(row: Row, symbolic: Mapping[str, Sign]) -> str:
    return "; ".join(sign if name == row.name else f"{sign} ({name})" for name, sign in symbolic.items()) or "–"


def _step(low: Envelope, high: Envelope, name: str) -> float:
    return float(getattr(high, name)[0] - getattr(low, name)[0])


def _count(into: list[int], change: float) -> None:
    if change > FLAT:
        into[0] += 1
    elif change < -FLAT:
        into[1] += 1


def _mean(seen: list[Change]) -> Change:
    """Return the mean change over the pairs; the error is that of the simulation, not of the choice of points."""
    table = np.array([[getattr(change, item.name) for item in fields(Change)] for change in seen])
    spread = np.sqrt((table[:, 1::2] ** 2).sum(axis=0)) / len(seen)
    mean = table.mean(axis=0)
    return Change(precision=float(mean[0]), precision_se=float(spread[0]), recall=float(mean[2]), recall_se=float(spread[1]))


POINTS, DRAWS = 80, 1000
"""Heads and draws of the table."""


def effects(points: int = POINTS, draws: int = DRAWS, progress: Callable[[float], None] = lambda done: None) -> list[Effect]:
    """Return what the witnesses say of every row; `progress` hears the share of rows done."""
    heads, found = sample_points(points), []
    for row in ROWS:
        found.append(effect(row, heads, draws=draws))
        progress(len(found) / len(ROWS))
    return found


def settled() -> str:
    """Return Table 1 with the signs that sympy finds and the verdicts that docs/table1.md records, as Markdown; nothing is simulated."""
    lines = ["| parameter raised | printed | symbolic | verdict | settled |", "|---|---|---|---|---|"]
    lines += [f"| {row.name} | {row.printed} | {_signs(row, _symbolic(row))} | {row.verdict} | {row.settled} |" for row in ROWS]
    return "\n".join(lines)


def markdown(found: list[Effect], points: int = POINTS, draws: int = DRAWS) -> str:
    """Return Table 1 with its witnesses and verdicts, and elasticities at the example point, as Markdown."""
    lines = [
        "# Table 1, put to the test",
        "",
        "Written by `.venv/bin/python -m theory.tables.table_1 docs/table1.md` (about a minute).",
        "",
        f"Each row raises one parameter at {points} heads of Assumptions 1-3 (those where the move applies), {draws} draws a head under Model G.",
        "`symbolic`: sign of the derivative of the printed lower bounds where Δ, Δ₀ > 0. `printed`, `sharp`: pairs of neighbouring heads in which the",
        "lower bound of E R rose / fell; in brackets the pairs with Δ, Δ₀ > 0 on both sides. `truth`: changes of E P and E R beyond",
        f"{SIGNIFICANT:g} standard errors, rose / fell, and the mean change with the standard error of the simulation.",
        "",
        "| parameter raised | printed | symbolic | printed bound | sharp bound | truth | mean change of E P | of E R | verdict | settled |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_line(one) for one in found]
    lines += ["", "Elasticities, d log(lower bound of E P) / d log(parameter), at the example point:", ""]
    lines += [f"    {Point()}", "", "| parameter | printed | sharp |", "|---|---|---|"]
    table = {edition: elasticities(Point(), edition) for edition in EDITIONS}
    lines += [f"| {name} | {_number(table['printed'][name])} | {_number(table['sharp'][name])} |" for name in ELASTIC]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:+.3f}"


def _line(one: Effect) -> str:
    printed, sharp, mean = one.sampled["printed", "recall_lower"], one.sampled["sharp", "recall_lower"], one.mean_change
    cells = [
        one.row.name,
        one.row.printed,
        _signs(one.row, one.symbolic),
        f"{printed.rose} / {printed.fell} ({one.within.rose} / {one.within.fell})",
        f"{sharp.rose} / {sharp.fell}",
        f"{one.truth.rose} / {one.truth.fell}",
        f"{mean.precision:+.4f} ± {mean.precision_se:.4f}",
        f"{mean.recall:+.4f} ± {mean.recall_se:.4f}",
        one.verdict,
        one.row.settled,
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown(effects()), encoding="utf-8")
