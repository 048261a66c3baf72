"""Table 1 with verdicts: the printed arrow of each parameter, the sign of the derivative of the
printed bounds, and the correct statement.

Sympy decides the signs for Δ, Δ₀ > 0. Verdicts are those of the simulation study `studies.table_1`.
Source: arXiv 2602.01893, Table 1, eq. (8), (12)-(15), (33). Imports sympy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

import sympy as sp

from theory.paper_tables.table_2 import TABLE_2
from theory.symbolic import margins, theorems
from theory.symbolic import symbols as s

Verdict = Literal["right", "conditional", "true of the bound", "wrong"]
Sign = Literal["+", "-", "0", "mixed"]


@dataclass(frozen=True, slots=True)
class Row:
    """An arrow of Table 1 (or of eq. (33)): the raised parameter, the printed arrow, the sign
    claimed for the lower bounds, and the finding of docs/studies/table1.md.
    """

    name: str
    printed: str
    claim: Sign
    verdict: Verdict
    corrected: str


@cache
def printed_partials() -> Mapping[str, tuple[sp.Expr, ...]]:
    """Return, for each parameter, the terms of the derivative of 1 − (L−N)e^{…Δ…} −
    ((L−N)/N)e^{…Δ₀…}, eq. (14), by the chain rule.

    Δ, Δ₀ and L − N are positive symbols; a_max_in is independent of a₀ except in "a_0, sink in B".
    """
    delta, delta_0, outside = sp.symbols("Delta_plus Delta_0_plus outside", positive=True)
    recall = theorems.RECALL_LOWER.expression.doit()
    positive = {s.Delta: delta, s.Delta_0: delta_0, s.L: s.N + outside}
    strict = {
        symbol: sp.Symbol(f"{symbol.name}_plus", positive=True)
        for symbol in (s.S_in, s.a_min_in, s.a_max_out, s.a_0, s.rho_out)
    }
    paths = margins.SPELLED_OUT
    rho_of_beta = {s.rho_out: sp.exp(-s.beta)}

    def partials(symbol: sp.Symbol, steps: Mapping[sp.Symbol, sp.Expr]) -> tuple[sp.Expr, ...]:
        direct = sp.diff(recall, symbol)
        terms = [
            direct,
            *(sp.diff(recall, middle) * sp.diff(step, symbol) for middle, step in steps.items()),
        ]
        return tuple(sp.simplify(term.subs(positive).subs(strict)) for term in terms if term != 0)

    least_moves_sum = {
        middle: step.subs(s.S_in, s.S_in + s.a_min_in) for middle, step in paths.items()
    }
    with_sink = paths | {s.B: paths[s.B].subs(s.a_max_in, s.a_0)}
    direct_parameters = (s.d, s.kappa, s.L, s.N)
    in_margins = (s.a_0, s.a_min_in, s.a_max_out, s.a_max_in, s.S_in, s.rho_0)
    return {
        **{symbol.name: partials(symbol, {}) for symbol in direct_parameters},
        **{symbol.name: partials(symbol, paths) for symbol in in_margins},
        "N, true counts": _true_counts(),
        "a_0, sink in B": partials(s.a_0, with_sink),
        "a_min_in, S_in moves": partials(s.a_min_in, least_moves_sum),
        "beta": partials(
            s.beta, {middle: step.subs(rho_of_beta) for middle, step in paths.items()}
        ),
    }


def _true_counts() -> tuple[sp.Expr, ...]:
    """Return −∂/∂N of the true counts of pairs; one rises up to N = √(L+1) (erratum 25)."""
    return tuple(
        sp.factor(-sp.diff(count, s.N))
        for count in (theorems.COUNT_OF_LOSSES.expression, theorems.COUNT_OF_SINK_LOSSES.expression)
    )


def sign_of(terms: tuple[sp.Expr, ...]) -> Sign:
    """Return the common sign of all terms; "mixed" if they disagree, "0" without terms."""
    if not terms:
        return "0"
    if all(term.is_positive for term in terms):
        return "+"
    return "-" if all(term.is_negative for term in terms) else "mixed"


ROWS: tuple[Row, ...] = (
    Row("d", "↑ exponentially", "+", "conditional", "right only where both margins are positive"),
    Row("L", "↓ linearly", "-", "right", "right at fixed a"),
    Row(
        "N",
        "mixed: (L−N) terms ↓ (improves)",
        "mixed",
        "conditional",
        "the hedge is right; “(L−N) improves” is wrong for N < √(L+1), where the true count of"
        " pairs still grows",
    ),
    Row(
        "a_0",
        "↑ (often strong gain)",
        "+",
        "true of the bound",
        "right on the bound if B leaves the sink out, mixed if not, and reversed for the quantity",
    ),
    Row("a_min_in", "↑", "+", "right", "right at fixed S_in"),
    Row("a_max_out", "↑ when smaller", "-", "right", "right"),
    Row(
        "beta",
        "↑",
        "+",
        "true of the bound",
        "right on the bound, mostly reversed for the quantity",
    ),
    Row(
        "profile: peaks", "peaks entering I_N: ↑", "+", "true of the bound", "unsupported as stated"
    ),
    Row("profile: valleys", "valleys entering I_N: ↓", "-", "wrong", "unsupported as stated"),
    Row(
        "rho_0",
        "(33): recall falls for ρ₀ < 0",
        "+",
        "conditional",
        "right for the quantity where the sink is selected, reversed where it is not; the printed"
        " lower bounds contain no ρ₀ and predict nothing",
    ),
)
"""Arrows of Table 1 and of eq. (33)."""


def signs(row: Row) -> str:
    """Return the signs of the derivatives of the printed bound for a row as text."""
    named = {
        name: sign_of(terms)
        for name, terms in printed_partials().items()
        if name.split(",")[0] == row.name
    }
    texts = (sign if name == row.name else f"{sign} ({name})" for name, sign in named.items())
    return "; ".join(texts) or "–"


def markdown() -> str:
    """Return Table 1 with its symbolic signs and recorded verdicts as Markdown."""
    lines = [
        "| parameter raised | printed | symbolic | verdict | conclusion |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.name} | {row.printed} | {signs(row)} | {row.verdict} | {row.corrected} |"
        for row in ROWS
    ]
    return "\n".join(lines)


Rows = list[dict[str, str]]


def corrected_tables() -> dict[str, Rows]:
    """Return Tables 1 and 2 with verdicts and correct statements: rows by table, text by column.

    >>> corrected_tables()["table_1"][0]["printed"]
    '↑ exponentially'
    """
    first = [
        {"raised": row.name, "printed": row.printed, "verdict": row.verdict, "true": row.corrected}
        for row in ROWS
    ]
    columns = ("row", "sizes", "composition", "trend", "effect", "verdict", "true")
    second = [{name: getattr(row, name) for name in columns} for row in TABLE_2]
    return {"table_1": first, "table_2": second}
