"""Tables 1 and 2 in print, and the effect of the sink's similarity.

A row of Table 1 is the derivative whose sign its arrow claims, of the printed lower bound of
recall, (14), spelled out; a row of Table 2 is the set of sizes N it speaks of. What the rows are
worth is in `theory.paper_tables.table_1` and `theory.paper_tables.table_2`. Source: arXiv
2602.01893, Tables 1-2, eq. (32)-(33). Imports sympy.
"""

from __future__ import annotations

import sympy as sp

from theory.paper_tables.printed import PRINTED_REGIMES
from theory.statements.record import Entry
from theory.symbolic import definitions, margins, theorems
from theory.symbolic import symbols as s
from theory.symbolic.meanings import MEANINGS

RECALL_LOWER = theorems.RECALL_LOWER.doit().subs(margins.SPELLED_OUT).doit()
"""Eq. (14) in sums and extremes of a, and ρ_out."""

IMPROVES, WEAKENS, MIXED = "printed: improves", "printed: weakens", "printed: mixed"

SLOPES: tuple[tuple[str, str, str, str, tuple[int, ...]], ...] = (
    ("d", "dimension", f"{IMPROVES} exponentially", "both margins positive", (1, 16)),
    ("L", "length", f"{WEAKENS} linearly", "the weights a kept", (1, 3)),
    (
        "N",
        "size",
        f"{MIXED}; its counts improve",
        "margins kept: the counts alone; N as a real number",
        (1, 25),
    ),
    ("a_0", "the sink's weight", f"{IMPROVES}, often strongly", "B without the sink", (1, 15, 26)),
    ("a_min_in", "the least weight inside", IMPROVES, "S_in kept", (1,)),
    ("a_max_out", "the largest weight outside", f"{IMPROVES} when smaller", "the rest kept", (1,)),
    ("beta", "decay", IMPROVES, "ρ_out = e^{−β}, the rest kept", (1, 24)),
)
"""Rows of Table 1: the parameter, what is raised, the printed claim, its conditions, errata."""

UNDEFINED = "m₁, m₂, m₃ undefined in print"

REGIMES: tuple[tuple[str, sp.Basic, str, tuple[int, ...]], ...] = (
    ("I", sp.Eq(s.N, 1), "the sink has the largest weight", (28,)),
    ("II", (s.N > 1) & (s.m_1 > s.N), UNDEFINED, (21, 22)),
    ("III", (s.m_1 <= s.N) & (s.m_2 > s.N), UNDEFINED, (21, 23)),
    ("IV", (s.m_2 <= s.N) & (s.m_3 > s.N), UNDEFINED, (21,)),
    ("V", s.m_3 <= s.N, UNDEFINED, (21,)),
)
"""Rows of Table 2: name, the sizes N, conditions, errata; the printed cells are in
`theory.paper_tables.printed`.
"""


def _regime_title(name: str) -> str:
    """Return what a row of Table 2 says, column by column."""
    row = PRINTED_REGIMES[name]
    return (
        f"sizes of regime {name} (printed: composition of I_N: {row.composition}; trend of Δ/B:"
        f" {row.trend}; effect on statistics: {row.effect})"
    )


BOUNDARIES = {"m_1": s.L - s.T_2 + 2, "m_2": s.m_1 + s.n_plus, "m_3": s.L + 2 - s.n_minus}
"""The sizes between the regimes, in closed form."""


def _slope(name: str) -> sp.Expr:
    """Return the derivative of the lower bound of recall; β enters by ρ_out = e^{−β}."""
    lower = RECALL_LOWER.subs(s.rho_out, sp.exp(-s.beta)) if name == "beta" else RECALL_LOWER
    return sp.diff(lower, MEANINGS[name].symbol)


TABLE_1: tuple[Entry, ...] = (
    *(
        Entry(
            f"table_1_row_{name}",
            f"effect of {raised} on the lower bounds ({claim})",
            f"dR_lower/d{name}",
            "=",
            _slope(name),
            conditions,
            "norm⁻¹" if MEANINGS[name].unit else "",
            rf"\partial R_{{\min}} / \partial {MEANINGS[name].latex}",
            part=f"Table 1 row {name}",
            errata=errata,
        )
        for name, raised, claim, conditions, errata in SLOPES
    ),
    Entry(
        "table_1_row_profile",
        "change of Δ when the next token enters I_N (printed: peaks that enter improve, valleys"
        " that enter weaken the bounds)",
        "Delta(N + 1) - Delta(N)",
        "=",
        margins.ENTRY_STEP,
        "C = 1; the largest weight outside enters; ρ_out unchanged",
        "norm²",
        r"\Delta(N + 1) - \Delta(N)",
        part="Table 1 row profile",
        errata=(29,),
    ),
)
"""Rows of Table 1; the last is what the next token that enters does to Δ."""

TABLE_2: tuple[Entry, ...] = (
    *(
        Entry(
            f"table_2_row_{name}",
            _regime_title(name),
            f"regime {name}",
            "iff",
            sizes,
            conditions,
            left_latex=rf"\mathrm{{regime\ {name}}}",
            part=f"Table 2 row {name}",
            errata=errata,
        )
        for name, sizes, conditions, errata in REGIMES
    ),
    *(
        Entry(
            name,
            MEANINGS[name].meaning,
            name,
            "=",
            value,
            "0 < η ≤ 1; sink rank ≤ L − T₂ + 1, T₁ ≥ 1, n₊ ≥ 1, n₋ ≥ 1",
            edition="repaired",
        )
        for name, value in BOUNDARIES.items()
    ),
    Entry(
        "T",
        "number of tokens",
        "T",
        "=",
        s.L + 1,
        "indices run 0..L",
        edition="repaired",
        errata=(3,),
    ),
)
"""Rows of Table 2, and the boundaries that it leaves undefined."""

SINK_EFFECT: tuple[Entry, ...] = (
    Entry(
        "recall_as_distribution",
        "recall as a distribution function",
        "R(r, N)",
        "=",
        definitions.RECALL,
        equation="32",
        part="Appendix A.2",
        errata=(33,),
        chain=(("=", definitions.RECALL_BY_SHARE), ("=", s.F_in)),
    ),
    Entry(
        "distance_shift",
        "distance at a negative ρ₀ from that at ρ₀ = 0",
        "d_neg[i]",
        "~",
        definitions.DISTANCE_SHIFT,
        units="norm",
        left_latex=r"d_i^{\mathrm{neg}}",
        part="Appendix A.2, between (32) and (33)",
        errata=(27, 33),
    ),
    Entry(
        "recall_shift",
        "change of recall from ρ₀ = 0 to a negative ρ₀",
        "dR(r, N)",
        "~",
        definitions.RECALL_SHIFT,
        "printed: negative, Δr being r_min at ρ₀ = 0 less r_min at ρ₀ < 0",
        left_latex=r"\Delta R(r, N)",
        chain=(("~", definitions.RECALL_SHIFT), ("<", sp.S.Zero)),
        equation="33",
        part="Appendix A.2",
        errata=(27, 30, 33),
    ),
    Entry(
        "distance_shift_exact",
        "mean squared distance at ρ₀ less that at ρ₀ = 0",
        "dD[l]",
        "=",
        definitions.DISTANCE_SHIFT_EXACT,
        "0 ∈ I_N, l ≠ 0 (0 for l = 0)",
        "norm²",
        r"\Delta\mathbb{E}D_{\ell}",
        edition="repaired",
    ),
)
"""Eq. (32)-(33), the unnumbered step between them, and what is true instead."""
