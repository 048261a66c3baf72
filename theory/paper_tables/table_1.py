"""Table 1 put to the test: what each parameter does to the bounds and to the truth, and
elasticities at an example head.

`python -m theory.paper_tables.table_1 docs/studies/table1.md` writes the table;
`theory.paper_tables.witnesses` decides, `theory.what_if.elasticity` takes the differences. Source:
arXiv 2602.01893, Table 1, eq. (33).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from theory.arrays import FloatArray
from theory.errors import InputError
from theory.head.results import Edition
from theory.paper_tables.neighbours import (
    Point,
    closer_sink,
    larger_least,
    larger_outside,
    longer,
    one_more,
    sample_points,
    scaled,
)
from theory.paper_tables.witnesses import (
    BOUNDS,
    EDITIONS,
    SIGNIFICANT,
    Effect,
    Row,
    Sign,
    effect,
    symbolic_signs,
)
from theory.what_if.elasticity import derivative, difference

ROWS: tuple[Row, ...] = (
    Row(
        "d",
        "↑ exponentially",
        "+",
        scaled("dimension", 2),
        "conditional",
        "right only where both margins are positive",
    ),
    Row("L", "↓ linearly", "-", longer, "right", "right at fixed a"),
    Row(
        "N",
        "mixed: (L−N) terms ↓ (improves)",
        "mixed",
        one_more,
        "conditional",
        "the hedge is right; “(L−N) improves” is wrong for N < √(L+1), where the true count of"
        " pairs still grows",
    ),
    Row(
        "a_0",
        "↑ (often strong gain)",
        "+",
        scaled("sink_ratio", 1.5),
        "true of the bound",
        "right on the bound if B leaves the sink out, mixed if not, and reversed in truth",
    ),
    Row("a_min_in", "↑", "+", larger_least, "right", "right at fixed S_in"),
    Row("a_max_out", "↑ when smaller", "-", larger_outside, "right", "right"),
    Row(
        "beta",
        "↑",
        "+",
        scaled("beta", 1.25),
        "true of the bound",
        "right on the bound, mostly reversed in truth",
    ),
    Row(
        "profile: peaks",
        "peaks entering I_N: ↑",
        "+",
        lambda point: one_more(point, "peak"),
        "true of the bound",
        "unsupported as stated",
    ),
    Row(
        "profile: valleys",
        "valleys entering I_N: ↓",
        "-",
        lambda point: one_more(point, "valley"),
        "wrong",
        "unsupported as stated",
    ),
    Row(
        "rho_0",
        "(33): recall falls for ρ₀ < 0",
        "+",
        closer_sink,
        "conditional",
        "right in truth where the sink is selected, reversed where it is not; the printed lower"
        " bounds contain no ρ₀ and predict nothing",
    ),
)
"""The arrows put to the test."""


POINTS, DRAWS = 80, 1000
"""Heads and draws of the table."""

REAL = ("kappa", "beta", "norm", "sink_ratio", "p_sink", "eta", "omega", "rho0")
WHOLE = ("dimension", "n", "length")
"""Parameters that move; where L does, the plateau is lengthened."""


def effects(
    points: int = POINTS, draws: int = DRAWS, progress: Callable[[float], None] = lambda done: None
) -> list[Effect]:
    """Return what the witnesses say of every row; `progress` hears the share of rows done."""
    heads, result = sample_points(points), []
    for row in ROWS:
        result.append(effect(row, heads, draws=draws))
        progress(len(result) / len(ROWS))
    return result


def _signs(row: Row, symbolic: Mapping[str, Sign]) -> str:
    return (
        "; ".join(
            sign if name == row.name else f"{sign} ({name})" for name, sign in symbolic.items()
        )
        or "–"
    )


def settled() -> str:
    """Return Table 1 with the signs that sympy finds and the verdicts that docs/studies/table1.md
    records, as Markdown; nothing is simulated.
    """
    lines = [
        "| parameter raised | printed | symbolic | verdict | settled |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.name} | {row.printed} | {_signs(row, symbolic_signs(row))} | {row.verdict} |"
        f" {row.settled} |"
        for row in ROWS
    ]
    return "\n".join(lines)


def elasticities(
    point: Point, edition: Edition, *, bound: str = "precision_lower"
) -> dict[str, float]:
    """Return d log bound / d log parameter at a point, for every parameter; NaN where the bound or
    the parameter is not positive.

    Raises:
        InputError: for an unknown bound.
    """
    if bound not in BOUNDS:
        raise InputError(f"bound is {bound!r}, expected one of {', '.join(BOUNDS)}.")

    def at(name: str, value: float) -> FloatArray:
        changes: dict[str, Any] = {name: value}
        if name == "length":
            changes |= {
                end: getattr(point, end) + value - point.length
                for end in ("plateau_end", "growth_start")
            }
        return np.array([getattr(replace(point, **changes).head().bounds(edition), bound)[0]])

    here = at("n", point.n)
    out = {
        name: derivative(partial(at, name), here, getattr(point, name), rounding=0.0)
        for name in REAL
    }
    out |= {name: difference(partial(at, name), here, getattr(point, name)) for name in WHOLE}
    return {name: float(response.elasticity[0]) for name, response in out.items()}


def markdown(effects: list[Effect], points: int = POINTS, draws: int = DRAWS) -> str:
    """Return Table 1 with its witnesses and verdicts, and elasticities at the example point, as
    Markdown.
    """
    lines = [
        "# Table 1, put to the test",
        "",
        (
            "Written by `.venv/bin/python -m theory.paper_tables.table_1 docs/studies/table1.md`"
            " (about a minute)."
        ),
        "",
        (
            f"Each row raises one parameter at {points} heads of Assumptions 1-3 (those where the"
            f" move applies), {draws} draws a head under Model G."
        ),
        (
            "`symbolic`: sign of the derivative of the printed lower bounds where Δ, Δ₀ > 0."
            " `printed`, `sharp`: pairs of neighbouring heads in which the"
        ),
        (
            "lower bound of E R rose / fell; in brackets the pairs with Δ, Δ₀ > 0 on both sides."
            " `truth`: changes of E P and E R beyond"
        ),
        (
            f"{SIGNIFICANT:g} standard errors, rose / fell, and the mean change with the standard"
            " error of the simulation."
        ),
        "",
        (
            "| parameter raised | printed | symbolic | printed bound | sharp bound | truth | mean"
            " change of E P | of E R | verdict | settled |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_line(one) for one in effects]
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


def _line(one: Effect) -> str:
    printed, sharp, mean = (
        one.sampled["printed", "recall_lower"],
        one.sampled["sharp", "recall_lower"],
        one.mean_change,
    )
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
