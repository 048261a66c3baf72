"""Statements of Tables 1 and 2.

A row of Table 1 is the derivative of the printed lower bound of recall, (14), whose sign its arrow
claims. A row of Table 2 is a set of sizes N. Verdicts are in `theory.paper_tables.table_1` and
`theory.paper_tables.table_2`. Source: arXiv 2602.01893, Tables 1-2. Imports sympy.
"""

from __future__ import annotations

import sympy as sp

from theory.paper_tables.table_2 import TABLE_2 as SETTLED
from theory.symbolic import margins, theorems
from theory.symbolic import symbols as s
from theory.symbolic.meanings import MEANINGS
from theory.symbolic.record import Entry, stated

RECALL_LOWER = theorems.RECALL_LOWER.expression.doit().subs(margins.SPELLED_OUT).doit()
"""Eq. (14) in sums and extremes of a, and ρ_out."""

IMPROVES, WEAKENS, MIXED = "printed: improves", "printed: weakens", "printed: mixed"

SLOPES: tuple[tuple[str, str, str, str, tuple[int, ...]], ...] = (
    ("d", "dimension", f"{IMPROVES} exponentially", "both margins positive", (1, 16)),
    ("L", "length", f"{WEAKENS} linearly", "fixed weights a", (1, 3)),
    (
        "N",
        "size",
        f"{MIXED}; its counts improve",
        "fixed margins, only the counts change; N as a real number",
        (1, 25),
    ),
    (
        "a_0",
        "the effective weight of the sink",
        f"{IMPROVES}, often strongly",
        "B without the sink",
        (1, 15, 26),
    ),
    ("a_min_in", "the smallest selected weight", IMPROVES, "fixed S_in", (1,)),
    (
        "a_max_out",
        "the largest unselected weight",
        f"{IMPROVES} when smaller",
        "all else fixed",
        (1,),
    ),
    ("beta", "decay", IMPROVES, "ρ_out = e^{−β}, all else fixed", (1, 24)),
)
"""Rows of Table 1: parameter, its description, printed claim, conditions, errata."""

UNDEFINED = "m₁, m₂, m₃ undefined in print"

REGIMES: tuple[tuple[str, sp.Basic, str, tuple[int, ...]], ...] = (
    ("I", sp.Eq(s.N, 1), "the sink has the largest weight", (28,)),
    ("II", (s.N > 1) & (s.m_1 > s.N), UNDEFINED, (21, 22)),
    ("III", (s.m_1 <= s.N) & (s.m_2 > s.N), UNDEFINED, (21, 23)),
    ("IV", (s.m_2 <= s.N) & (s.m_3 > s.N), UNDEFINED, (21,)),
    ("V", s.m_3 <= s.N, UNDEFINED, (21,)),
)
"""Rows of Table 2: name, sizes N, conditions, errata; cells in `paper_tables.table_2`."""


def _regime_title(name: str) -> str:
    """Return the printed cells of a row of Table 2."""
    (row,) = (row for row in SETTLED if row.row == name)
    return (
        f"sizes of regime {name} (printed: composition of I_N: {row.composition}; trend of Δ/B:"
        f" {row.trend}; effect on statistics: {row.effect})"
    )


BOUNDARIES = {"m_1": s.L - s.T_2 + 2, "m_2": s.m_1 + s.n_plus, "m_3": s.L + 2 - s.n_minus}
"""Boundaries of the regimes in closed form."""


def _slope(name: str) -> sp.Expr:
    """Return the derivative of the lower bound of recall; β enters through ρ_out = e^{−β}."""
    lower = RECALL_LOWER.subs(s.rho_out, sp.exp(-s.beta)) if name == "beta" else RECALL_LOWER
    return sp.diff(lower, MEANINGS[name].symbol)


TABLE_1: tuple[Entry, ...] = (
    *(
        stated(
            f"table_1_row_{name}",
            f"effect of {raised} on the lower bounds ({claim})",
            part=f"Table 1 row {name}",
            errata=errata,
        )(
            (f"dR_lower/d{name}", rf"\partial R_{{\min}} / \partial {MEANINGS[name].latex}"),
            "=",
            _slope(name),
            conditions,
            "norm⁻¹" if MEANINGS[name].unit else "",
        )
        for name, raised, claim, conditions, errata in SLOPES
    ),
    stated(
        "table_1_row_profile",
        "change of Δ when the next token enters I_N (printed: peaks that enter improve, valleys"
        " that enter weaken the bounds)",
        part="Table 1 row profile",
        errata=(29,),
    )(
        ("Delta(N + 1) - Delta(N)", r"\Delta(N + 1) - \Delta(N)"),
        "=",
        margins.ENTRY_STEP,
        "C = 1; the largest unselected weight enters; ρ_out unchanged",
        "norm²",
    ),
)
"""Rows of Table 1; the last is the change of Δ when the next token enters."""

TABLE_2: tuple[Entry, ...] = (
    *(
        stated(
            f"table_2_row_{name}", _regime_title(name), part=f"Table 2 row {name}", errata=errata
        )((f"regime {name}", rf"\mathrm{{regime\ {name}}}"), "iff", sizes, conditions)
        for name, sizes, conditions, errata in REGIMES
    ),
    *(
        stated(name, MEANINGS[name].meaning, edition="repaired")(
            name, "=", value, "0 < η ≤ 1; sink rank ≤ L − T₂ + 1, T₁ ≥ 1, n₊ ≥ 1, n₋ ≥ 1"
        )
        for name, value in BOUNDARIES.items()
    ),
    stated("T", "number of tokens", errata=(3,), edition="repaired")(
        "T", "=", s.L + 1, "indices run 0..L"
    ),
)
"""Rows of Table 2, and the boundaries that the paper leaves undefined."""
