"""Test of Table 1: the effect of raising each parameter on the bounds and on the simulated truth,
and elasticities at an example head.

Run: python -m studies.table_1 docs/studies/table1.md (about a minute)

Three tests decide on an arrow, over heads of Assumptions 1-3 and their neighbours with one
parameter raised: the sign of the printed lower bound's derivative (`theory.paper_tables.table_1`);
the change of the printed and sharp bounds between two neighbouring heads; the change of simulated E
P and E R between the same two heads, with shared draws. Source: arXiv 2602.01893, Table 1.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from studies.neighbours import Move, larger_least, larger_outside, longer, sample_points, scaled
from theory.arrays import FloatArray
from theory.errata.neighbours import Change, Point, closer_sink, one_more, true_change
from theory.errors import InputError
from theory.head.results import BOUNDS, Edition
from theory.paper_tables.table_1 import ROWS, Row, Sign, Verdict, signs
from theory.what_if.elasticity import derivative, difference

MEASURED = BOUNDS[:4]
"""Bounds under test: those of Precision and Recall."""

EDITIONS: tuple[Edition, ...] = ("printed", "sharp")

SIGNIFICANT = 4.0
"""Number of standard errors from which a simulated change counts."""

FLAT = 1e-12
"""Largest change of a bound attributed to rounding."""

MOVES: Final[Mapping[str, Move]] = {
    "d": scaled("dimension", 2),
    "L": longer,
    "N": one_more,
    "a_0": scaled("sink_ratio", 1.5),
    "a_min_in": larger_least,
    "a_max_out": larger_outside,
    "beta": scaled("beta", 1.25),
    "profile: peaks": lambda point: one_more(point, "peak"),
    "profile: valleys": lambda point: one_more(point, "valley"),
    "rho_0": closer_sink,
}
"""Move that raises the parameter of each row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Numbers of neighbouring pairs (`points` in total) where a quantity rose or fell. The rest did
    not change significantly.
    """

    rose: int
    fell: int
    points: int

    @classmethod
    def of(cls, changes: Sequence[float]) -> Share:
        """Count the changes that rise or fall by more than rounding."""
        return cls(
            rose=sum(change > FLAT for change in changes),
            fell=sum(change < -FLAT for change in changes),
            points=len(changes),
        )

    def agrees(self, claim: Sign) -> float:
        """Return the share of changes in the claimed direction, NaN without changes."""
        moved = self.rose + self.fell
        return float("nan") if moved == 0 else (self.rose if claim == "+" else self.fell) / moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Simulated effect of one row: shares by (edition, bound), of the printed bound within the
    theorem (Δ, Δ₀ > 0), and of the truth.
    """

    row: Row
    sampled: Mapping[tuple[Edition, str], Share]
    within: Share
    truth: Share
    mean_change: Change

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on the arrow.

        Right: no significant change of the truth contradicts it, and no change of the printed lower
            bound of recall where Δ, Δ₀ > 0. True of the bound: no change of that bound contradicts
            it, but at most half of the significant changes of the truth agree. Wrong: neither
            holds. A claim of "mixed" is conditional if the truth changes in both directions.
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
    """Return the effect of one row over the points where its move applies.

    Raises:
        InputError: if the move applies at no point.
    """
    pairs = [pair for pair in map(MOVES[row.name], points) if pair is not None]
    if not pairs:
        raise InputError(
            f"row {row.name}: its move applies at none of {len(points)} points. Sample more points."
        )
    sampled: dict[tuple[Edition, str], list[float]] = {
        (edition, name): [] for edition in EDITIONS for name in MEASURED
    }
    within: list[float] = []
    truth: list[float] = []
    simulated_changes = []
    for k, (before, after) in enumerate(pairs):
        for edition in EDITIONS:
            low, high = before.bounds(edition), after.bounds(edition)
            steps = {
                name: float(getattr(high, name)[0] - getattr(low, name)[0]) for name in MEASURED
            }
            for name, step in steps.items():
                sampled[edition, name].append(step)
            if edition == "printed" and all(
                (side.margin[0] > 0) and (side.margin_sink[0] > 0) for side in (low, high)
            ):
                within.append(steps["recall_lower"])
        change = true_change(before, after, draws=draws, seed=seed + 2 * k)
        simulated_changes.append(change)
        for value, error in (
            (change.precision, change.precision_se),
            (change.recall, change.recall_se),
        ):
            truth.append(value if abs(value) > SIGNIFICANT * error else 0.0)
    return Effect(
        row=row,
        sampled={key: Share.of(steps) for key, steps in sampled.items()},
        within=Share.of(within),
        truth=Share.of(truth),
        mean_change=_mean(simulated_changes),
    )


def _mean(changes: list[Change]) -> Change:
    """Return the mean change over the pairs. Its standard error covers the simulation, not the
    choice of points.
    """
    table = np.array([astuple(change) for change in changes])
    spread = np.sqrt((table[:, 1::2] ** 2).sum(axis=0)) / len(changes)
    mean = table.mean(axis=0)
    return Change(
        precision=float(mean[0]),
        precision_se=float(spread[0]),
        recall=float(mean[2]),
        recall_se=float(spread[1]),
    )


POINTS, DRAWS = 80, 1000
"""Numbers of heads and of draws for the table."""

REAL = ("kappa", "beta", "norm", "sink_ratio", "p_sink", "eta", "omega", "rho0")
WHOLE = ("dimension", "n", "length")
"""Real and integer parameters of the elasticities. Raising L lengthens the plateau."""


def effects(points: int = POINTS, draws: int = DRAWS) -> list[Effect]:
    """Return the effect of every row."""
    heads = sample_points(points)
    return [effect(row, heads, draws=draws) for row in ROWS]


def elasticities(
    point: Point, edition: Edition, *, bound: str = "precision_lower"
) -> dict[str, float]:
    """Return d log bound / d log parameter at a point, for every parameter; NaN where the bound or
    the parameter is not positive.

    Raises:
        InputError: for an unknown bound.
    """
    if bound not in MEASURED:
        raise InputError(f"bound is {bound!r}, expected one of {', '.join(MEASURED)}.")

    def bound_at(name: str, value: float) -> FloatArray:
        changes: dict[str, Any] = {name: value}
        if name == "length":
            changes |= {
                end: getattr(point, end) + value - point.length
                for end in ("plateau_end", "growth_start")
            }
        return np.array([getattr(replace(point, **changes).head().bounds(edition), bound)[0]])

    base = bound_at("n", point.n)
    responses = {
        name: derivative(partial(bound_at, name), base, getattr(point, name), rounding=0.0)
        for name in REAL
    }
    responses |= {
        name: difference(partial(bound_at, name), base, getattr(point, name)) for name in WHOLE
    }
    return {name: float(response.elasticity[0]) for name, response in responses.items()}


def markdown(effects: list[Effect], points: int = POINTS, draws: int = DRAWS) -> str:
    """Return Table 1 with its tests and verdicts, and the elasticities at the example point, as
    Markdown.
    """
    lines = [
        "# Test of Table 1",
        "",
        (
            "Written by `.venv/bin/python -m studies.table_1 docs/studies/table1.md`"
            " (about a minute)."
        ),
        "",
        (
            f"Each row raises one parameter at {points} heads under Assumptions 1-3, if the change"
            f" applies to the head, with {draws} draws per head under Model G."
        ),
        (
            "`symbolic`: sign of the derivative of the printed lower bounds for Δ, Δ₀ > 0."
            " `printed`, `sharp`: number of pairs of neighbouring heads in which the"
        ),
        (
            "lower bound on E R rose / fell; in brackets the pairs with Δ, Δ₀ > 0 for both heads."
            " `truth`: number of changes of E P and E R beyond"
        ),
        (
            f"{SIGNIFICANT:g} standard errors (rose / fell), and the mean change with the standard"
            " error of the simulation."
        ),
        "",
        (
            "| parameter raised | printed | symbolic | printed bound | sharp bound | truth | mean"
            " change of E P | of E R | verdict | conclusion |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_line(effect) for effect in effects]
    lines += [
        "",
        "Elasticities, d log(lower bound of E P) / d log(parameter), at the example point:",
        "",
    ]
    lines += [f"    {Point()}", "", "| parameter | printed | sharp |", "|---|---|---|"]
    table = {edition: elasticities(Point(), edition) for edition in EDITIONS}
    lines += [
        f"| {name} | {_number(table['printed'][name])} | {_number(table['sharp'][name])} |"
        for name in (*REAL, *WHOLE)
    ]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:+.3f}"


def _line(effect: Effect) -> str:
    printed, sharp, mean = (
        effect.sampled["printed", "recall_lower"],
        effect.sampled["sharp", "recall_lower"],
        effect.mean_change,
    )
    cells = [
        effect.row.name,
        effect.row.printed,
        signs(effect.row),
        f"{printed.rose} / {printed.fell} ({effect.within.rose} / {effect.within.fell})",
        f"{sharp.rose} / {sharp.fell}",
        f"{effect.truth.rose} / {effect.truth.fell}",
        f"{mean.precision:+.4f} ± {mean.precision_se:.4f}",
        f"{mean.recall:+.4f} ± {mean.recall_se:.4f}",
        effect.verdict,
        effect.row.corrected,
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Write the table to the file named on the command line."""
    Path(sys.argv[1]).write_text(markdown(effects()), encoding="utf-8")


if __name__ == "__main__":
    main()
