"""Tables 1 and 2 in print, and the effect of the sink's similarity.

A row of Table 1 is the derivative whose sign its arrow claims, of the printed lower bound of
recall, (14), spelled out; a row of Table 2 is the set of sizes N it speaks of. What the rows are
worth is in `theory.paper_tables.table_1` and `theory.paper_tables.table_2`. Source: arXiv
2602.01893, Tables 1-2, eq. (32)-(33). Imports sympy.
"""

from __future__ import annotations

import sympy as sp

from theory.statements.record import Entry
from theory.symbolic import definitions, margins, theorems
from theory.symbolic.meanings import MEANINGS
from theory.symbolic.symbols import (
    T_2,
    L,
    N,
    a_0,
    a_max_out,
    a_min_in,
    beta,
    d,
    m_1,
    m_2,
    m_3,
    n_minus,
    n_plus,
    rho_out,
)

RECALL_LOWER = theorems.RECALL_LOWER.subs(margins.SPELLED_OUT)
"""Eq. (14) in sums and extremes of a, and ρ_out."""

IMPROVES, WEAKENS, MIXED = "printed: improves", "printed: weakens", "printed: mixed"

SLOPES: tuple[tuple[str, str, sp.Symbol, str, str, tuple[int, ...]], ...] = (
    ("d", "dimension", d, f"{IMPROVES} exponentially", "both margins positive", (1, 16)),
    ("L", "length", L, f"{WEAKENS} linearly", "the weights a kept", (1, 3)),
    (
        "N",
        "size",
        N,
        f"{MIXED}; its counts improve",
        "margins kept: the counts alone; N as a real number",
        (1, 25),
    ),
    (
        "a_0",
        "the sink's weight",
        a_0,
        f"{IMPROVES}, often strongly",
        "B without the sink",
        (1, 15, 26),
    ),
    ("a_min_in", "the least weight inside", a_min_in, IMPROVES, "S_in kept", (1,)),
    (
        "a_max_out",
        "the largest weight outside",
        a_max_out,
        f"{IMPROVES} when smaller",
        "the rest kept",
        (1,),
    ),
    ("beta", "decay", beta, IMPROVES, "ρ_out = e^{−β}, the rest kept", (1, 24)),
)
"""Rows of Table 1: name, what is raised, its symbol, the printed claim, its conditions, errata."""

UNDEFINED = "m₁, m₂, m₃ undefined in print"

REGIMES: tuple[tuple[str, str, sp.Basic, str, tuple[int, ...]], ...] = (
    (
        "I",
        "{0} only; Δ/B n/a; all statistics equal to 1",
        sp.Eq(N, 1),
        "the sink has the largest weight",
        (28,),
    ),
    (
        "II",
        "{0} + top of tail; Δ/B grows; bounds near 1",
        (N > 1) & (m_1 > N),
        UNDEFINED,
        (22,),
    ),
    (
        "III",
        "add oscillatory peaks; Δ/B falls slowly; larger η, ω help",
        (m_1 <= N) & (m_2 > N),
        UNDEFINED,
        (23,),
    ),
    (
        "IV",
        "valleys + 1..T₁ in; Δ/B falls fast; Δ often ≤ 0",
        (m_2 <= N) & (m_3 > N),
        UNDEFINED,
        (21,),
    ),
    ("V", "all oscillations + tail; Δ/B falls; weak guarantees", m_3 <= N, UNDEFINED, (21,)),
)
"""Rows of Table 2: name, the printed claim, the sizes N, conditions, errata."""


def table_1() -> list[Entry]:
    """Return the rows of Table 1."""
    return [*(_slope(*row) for row in SLOPES), _profile()]


def _slope(
    name: str,
    raised: str,
    symbol: sp.Symbol,
    claim: str,
    conditions: str,
    errata: tuple[int, ...],
) -> Entry:
    """Return a row of Table 1 on one parameter: the derivative of the lower bound of recall."""
    bound = RECALL_LOWER.subs(rho_out, sp.exp(-beta)) if symbol == beta else RECALL_LOWER
    return Entry(
        f"table_1_row_{name}",
        f"effect of {raised} on the lower bounds ({claim})",
        f"dR_lower/d{name}",
        "=",
        sp.diff(bound, symbol),
        conditions,
        "norm⁻¹" if MEANINGS[name].unit else "",
        rf"\partial R_{{\min}} / \partial {MEANINGS[name].latex}",
        "",
        f"Table 1 row {name}",
        errata=errata,
    )


def _profile() -> Entry:
    """Return the row of Table 1 on the profile: what the next token that enters does to Δ."""
    return Entry(
        "table_1_row_profile",
        "change of Δ when the next token enters I_N (printed: peaks that enter improve, valleys"
        " that enter weaken the bounds)",
        "Delta(N + 1) - Delta(N)",
        "=",
        margins.ENTRY_STEP,
        "C = 1; the largest weight outside enters; ρ_out unchanged",
        "norm²",
        r"\Delta(N + 1) - \Delta(N)",
        "",
        "Table 1 row profile",
        errata=(29,),
    )


def table_2() -> list[Entry]:
    """Return the rows of Table 2, and in closed form the boundaries it leaves undefined."""
    printed = [
        Entry(
            f"table_2_row_{name}",
            f"sizes of regime {name} (printed: {claim})",
            f"regime {name}",
            "iff",
            sizes,
            conditions,
            "",
            rf"\mathrm{{regime\ {name}}}",
            "",
            f"Table 2 row {name}",
            errata=errata,
        )
        for name, claim, sizes, conditions, errata in REGIMES
    ]
    order = "0 < η ≤ 1; sink rank ≤ L − T₂ + 1, T₁ ≥ 1, n₊ ≥ 1, n₋ ≥ 1"
    closed = {"m_1": L - T_2 + 2, "m_2": m_1 + n_plus, "m_3": L + 2 - n_minus}
    return [
        *printed,
        *(
            Entry(name, MEANINGS[name].meaning, name, "=", value, order, edition="repaired")
            for name, value in closed.items()
        ),
        Entry(
            "T",
            "number of tokens",
            "T",
            "=",
            L + 1,
            "indices run 0..L",
            edition="repaired",
            errata=(3,),
        ),
    ]


def sink_effect() -> list[Entry]:
    """Return eq. (32)-(33), the unnumbered step between them, and what is true instead."""
    where = "Appendix A.2"
    return [
        Entry(
            "recall_as_distribution",
            "recall as a distribution function",
            "R(r, N)",
            "=",
            definitions.RECALL,
            equation="32",
            part=where,
        ),
        Entry(
            "distance_shift",
            "distance at a negative ρ₀ from that at ρ₀ = 0",
            "d_neg[i]",
            "~",
            definitions.DISTANCE_SHIFT,
            "",
            "norm",
            r"d_i^{\mathrm{neg}}",
            "",
            f"{where}, between (32) and (33)",
            errata=(27,),
        ),
        Entry(
            "recall_shift",
            "change of recall from ρ₀ = 0 to a negative ρ₀",
            "dR(r, N)",
            "~",
            definitions.RECALL_SHIFT,
            "printed: negative, Δr being r_min at ρ₀ = 0 less r_min at ρ₀ < 0",
            "",
            r"\Delta R(r, N)",
            "33",
            where,
            errata=(27,),
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
    ]
