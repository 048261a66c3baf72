"""Statements in print: the setting, margins, Theorems 1-2 and Corollary 1 as printed, Tables 1 and
2, and the effect of the sink's similarity.

A row of Table 1 is the derivative whose sign its arrow claims, of the printed lower bound of
recall, (14), spelled out; a row of Table 2 is the set of sizes N it speaks of. What the rows are
worth is in `theory.paper_tables.table_1` and `theory.paper_tables.table_2`. Source: arXiv
2602.01893, eq. (1)-(33), Definitions 1-3, Assumptions 1-3, Tables 1-2. Imports sympy.
"""

from __future__ import annotations

from functools import partial

import sympy as sp

from theory.statements.record import PAIR, PRINTED_CONDITIONS, Entry, bound, definition
from theory.symbolic import symbols as s
from theory.symbolic import theorems
from theory.symbolic.operations import Indicator, Norm
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

WITH_SINK = "0 ∈ I_N"
CONTENT = "I_N without the sink is not empty"
SECTION = "Section 3.4"
APPENDIX = "Appendix A.1"

AT_R_MIN, AT_R_MAX = r"(r_{\min}, N)", r"(r_{\max}, N)"

RECALL_LOWER = theorems.RECALL_LOWER.subs(theorems.SPELLED_OUT)
"""Eq. (14) in sums and extremes of a, and ρ_out."""

IMPROVES, WEAKENS, MIXED = "printed: improves", "printed: weakens", "printed: mixed"


def metrics() -> list[Entry]:
    """Return eq. (1)-(5) and the two radii between them."""
    section, one = partial(Entry, part="Section 3"), sp.Integer(1)
    open_ball = "an open ball, and some selected token in it"
    return [
        definition("representative", "1", s.REPRESENTATIVE, of="s", part="Section 2"),
        Entry(
            "precision",
            "precision at a radius",
            "P(r, N)",
            "=",
            s.PRECISION,
            equation="2",
            part="Definition 1",
            errata=(14,),
        ),
        Entry(
            "recall",
            "recall at a radius",
            "R(r, N)",
            "=",
            s.RECALL,
            equation="3",
            part="Definition 2",
        ),
        definition("r_min", "", s.R_MIN, part="Section 3", conditions="N ≤ L"),
        definition("r_max", "", s.R_MAX, part="Section 3"),
        section(
            "precision_inside",
            "precision at r_min",
            "P(r_min, N)",
            "=",
            one,
            open_ball,
            "",
            f"P{AT_R_MIN}",
            "4",
            errata=(14,),
        ),
        section(
            "recall_outside",
            "recall at r_max",
            "R(r_max, N)",
            "=",
            one,
            "a closed ball",
            "",
            f"R{AT_R_MAX}",
            "4",
        ),
        Entry(
            "f_score",
            "harmonic mean of precision and recall",
            "F(r, N)",
            "=",
            s.F_SCORE,
            equation="5",
            part="Definition 3",
        ),
    ]


def assumptions() -> list[Entry]:
    """Return eq. (6) and Assumptions 1-3."""
    exact = "every layer and head; true in expectation at best"
    decay, sink = f"i, j > 0, β > 0; {exact}", f"j ≠ 0; {exact}; |ρ₀| at most the feasible edge"
    rho, phases = s.rho[s.i, s.j], "attention weights in four phases"
    profile = "0 ≤ T₁ ≤ T₂ ≤ L, 0 < η ≤ 1; the weights should sum to 1"
    return [
        Entry(
            "cosine",
            "cosine of two value states",
            rho,
            "=",
            s.COSINE,
            equation="6",
            part="Section 3.2",
        ),
        Entry(
            "stable_norms",
            "stable norms",
            Norm(s.v[s.i]),
            "=",
            s.C,
            "i > 0, C > 0",
            "norm",
            part="Assumption 1.1",
        ),
        Entry(
            "sink_norm",
            "norm of the sink",
            Norm(s.v[0]),
            "=",
            s.SINK_NORM,
            "0 < λ ≪ 1",
            "norm",
            part="Assumption 1.2",
        ),
        Entry(
            "similarity_decay",
            "exponential decay of similarity",
            rho,
            "=",
            s.SIMILARITY,
            decay,
            part="Assumption 2.1",
            errata=(6, 9, 20),
        ),
        Entry(
            "sink_similarity",
            "similarity of the sink",
            s.rho[0, s.j],
            "=",
            s.rho_0,
            sink,
            part="Assumption 2.2",
            errata=(9, 20),
        ),
        Entry(
            "weight_profile",
            phases,
            s.alpha[s.i],
            "=",
            s.WEIGHTS,
            profile,
            part="Assumption 3",
            errata=(10, 28),
        ),
    ]


def notation() -> list[Entry]:
    """Return eq. (18)-(20) and the two counting forms between them."""
    appendix, after = partial(Entry, part=APPENDIX), partial(Entry, part=f"{APPENDIX}, after (18)")
    return [
        definition(
            "direction",
            "18",
            s.DIRECTION,
            of="u",
            left="u[l]",
            left_latex=r"u_{\ell}",
            part=APPENDIX,
        ),
        definition(
            "effective_weight",
            "18",
            s.EFFECTIVE_WEIGHT,
            of="a",
            left="a[l]",
            left_latex=r"a_{\ell}",
            part=APPENDIX,
        ),
        definition(
            "contribution",
            "18",
            s.CONTRIBUTION,
            of="y",
            left="y[l]",
            left_latex=r"y_{\ell}",
            part=APPENDIX,
        ),
        definition(
            "representative_of_contributions",
            "18",
            s.REPRESENTATIVE_OF_CONTRIBUTIONS,
            of="s",
            part=APPENDIX,
        ),
        definition(
            "squared_distance",
            "18",
            s.SQUARED_DISTANCE,
            of="D",
            left="D[l]",
            left_latex=r"D_{\ell}",
            part=APPENDIX,
        ),
        appendix(
            "r_max_of_distances",
            "r_max from squared distances",
            s.r_max,
            "=",
            sp.sqrt(s.R_MAX_SQUARED),
            units="norm",
            equation="18",
        ),
        appendix(
            "r_min_of_distances",
            "r_min from squared distances",
            s.r_min,
            "=",
            sp.sqrt(s.R_MIN_SQUARED),
            units="norm",
            equation="18",
        ),
        after(
            "precision_by_count",
            "precision at r_max by counting",
            "P(r_max, N)",
            "=",
            s.PRECISION_BY_COUNT,
            left_latex=f"P{AT_R_MAX}",
        ),
        after(
            "recall_by_count",
            "recall at r_min by counting",
            "R(r_min, N)",
            "=",
            s.RECALL_BY_COUNT,
            left_latex=f"R{AT_R_MIN}",
        ),
        Entry(
            "r_max_squared",
            "square of r_max",
            s.r_max**2,
            "=",
            s.R_MAX_SQUARED,
            units="norm²",
            equation="19",
        ),
        Entry(
            "r_min_squared",
            "square of r_min",
            s.r_min**2,
            "=",
            s.R_MIN_SQUARED,
            units="norm²",
            equation="19",
        ),
        definition("K_out", "20", s.COUNT_OUT, part=APPENDIX),
        definition("K_in", "20", s.COUNT_IN, (14,), part=APPENDIX),
    ]


def reductions() -> list[Entry]:
    """Return eq. (21)-(25)."""
    out, inside = Indicator(s.D[s.j] <= s.r_max**2), Indicator(s.D[s.i] > s.r_min**2)
    rows = (
        (
            "21",
            "outside_within_reach",
            "a token outside counts only if it beats a selected one",
            out,
            s.BEATEN_BY_SOME,
        ),
        ("22", "K_out_at_most", "K_out counts at most the pairs", s.K_out, s.PAIRS),
        (
            "23",
            "inside_out_of_reach",
            "a selected token is lost only if one outside beats it",
            inside,
            s.BEATING_SOME,
        ),
        ("24", "K_in_at_least", "N - K_in counts at most the pairs", s.N - s.K_in, s.PAIRS),
    )
    always = "none: true of any numbers D"
    title = "difference of the squared distances of a pair"
    letter = (
        "X_ij = D_j − D_i; a number, not a random variable, if Assumption 2 is read to the letter"
    )
    return [
        *(
            Entry(name, title, left, "<=", value, always, equation=equation, part=APPENDIX)
            for equation, name, title, left, value in rows
        ),
        Entry(
            "difference",
            title,
            "X[i, j]",
            "=",
            s.DIFFERENCE,
            letter,
            "norm²",
            "X_{ij}",
            "25",
            APPENDIX,
            errata=(20,),
        ),
    ]


def margin_definitions() -> list[Entry]:
    """Return eq. (7)-(11)."""
    letter, table = "to the letter of (8)", "reading of (29) and Table 1; default"
    ceiling, unsaid = "printed ceiling of ρ_out", "defined nowhere"
    other = f"{unsaid}; other reading"
    return [
        definition("S_in", "7", theorems.S_IN, part=SECTION),
        definition("a_min_in", "7", theorems.A_MIN_IN, (12,), conditions=CONTENT, part=SECTION),
        definition("a_max_out", "7", theorems.A_MAX_OUT, part=SECTION),
        definition("rho_out", "7", theorems.RHO_OUT, (19,), conditions=CONTENT, part=SECTION),
        Entry(
            "rho_out_at_most",
            ceiling,
            s.rho_out,
            "<=",
            theorems.RHO_OUT_AT_MOST,
            WITH_SINK,
            equation="7",
            part=SECTION,
            errata=(19,),
        ),
        definition(
            "rho_in",
            "8",
            theorems.RHO_IN,
            (2,),
            conditions=f"used in (8), {unsaid}; 0 for fewer than two tokens",
            part=SECTION,
        ),
        definition(
            "a_max_in",
            "8",
            theorems.A_MAX_IN_WITH_SINK,
            (15,),
            conditions=f"{unsaid}; default reading",
            part=SECTION,
        ),
        definition(
            "a_max_in_without_sink",
            "8",
            theorems.A_MAX_IN_WITHOUT_SINK,
            (15,),
            of="a_max_in",
            part=SECTION,
            conditions=other,
        ),
        definition("Delta", "8", theorems.DELTA, (6,), conditions=CONTENT, part=SECTION),
        definition(
            "Delta_0_in",
            "8",
            theorems.DELTA_0_IN,
            (2, 16, 19),
            of="Delta_0",
            conditions=letter,
            part=SECTION,
        ),
        definition(
            "Delta_0_out",
            "29",
            theorems.DELTA_0_OUT,
            (2, 16, 19),
            of="Delta_0",
            conditions=table,
            part=APPENDIX,
        ),
        definition("B", "8", theorems.SCALE, (1, 15), part=SECTION),
        definition(
            "p_floor",
            "9",
            theorems.P_FLOOR,
            (7, 11),
            left="p_floor[i, j]",
            left_latex=r"\underline{p}_{ij}",
            part=SECTION,
        ),
        definition(
            "xi", "9", theorems.XI, (1, 4, 5), left_latex=r"\xi_{ij}", part=SECTION, conditions=PAIR
        ),
        definition("mu", "10", theorems.MU, (4, 5), part=SECTION, conditions=PAIR),
        definition("sigma", "10", theorems.SIGMA, (1, 13), of="sigma_ij", part=SECTION),
        definition("M", "11", theorems.M_J, (4,), left="M[j]", left_latex="M_j", part=SECTION),
    ]


def appendix_margins() -> list[Entry]:
    """Return eq. (26)-(31): the margins again, the mean gaps, the variance proxy and the tails."""
    stated = partial(Entry, part=APPENDIX)
    pairs = "i ≠ 0; a_i ≥ a_j, ρ₀ ≥ 0 and all cosines ≥ 0, unsaid"
    sink, larger = "mean gap of the sink", f"{WITH_SINK}; ρ₀ ≥ 0 and S_in ≥ a_j, unsaid"
    proxy, unsaid = "variance proxy of X_ij", "X_ij − μ_ij sub-Gaussian; c universal, nowhere given"
    tails = (
        (
            "tail",
            "content token",
            "P{X_ij <= 0}",
            r"\mathbb{P}\{X_{ij} \le 0\}",
            theorems.TAIL,
            (1, 6, 13),
        ),
        (
            "tail_sink",
            "the sink",
            "P{X_0j <= 0}",
            r"\mathbb{P}\{X_{0j} \le 0\}",
            theorems.TAIL_SINK,
            (1, 13, 16),
        ),
    )
    return [
        definition(
            "S_in_appendix",
            "26",
            theorems.S_IN,
            of="S_in",
            left="S_in'",
            left_latex=r"S'_{\mathrm{in}}",
            part=APPENDIX,
        ),
        definition(
            "a_min_in_appendix",
            "26",
            theorems.A_MIN_IN,
            (12,),
            of="a_min_in",
            conditions=CONTENT,
            part=APPENDIX,
        ),
        definition("a_max_out_appendix", "26", theorems.A_MAX_OUT, of="a_max_out", part=APPENDIX),
        definition("B_appendix", "27", theorems.SCALE, (1, 15), of="B", part=APPENDIX),
        stated(
            "mean_gap",
            "mean gap of a content token",
            s.mu,
            ">=",
            theorems.DELTA,
            pairs,
            "norm²",
            equation="28",
            errata=(4, 6),
        ),
        stated(
            "mean_gap_sink",
            sink,
            "mu_0j",
            ">=",
            theorems.DELTA_0_OUT,
            larger,
            "norm²",
            r"\mu_{0j}",
            "29",
            errata=(2, 4, 19),
        ),
        stated(
            "variance_proxy",
            proxy,
            "sigma**2",
            "<=",
            theorems.VARIANCE_PROXY,
            unsaid,
            "norm⁴",
            r"\sigma^2",
            "30",
            errata=(1, 13),
        ),
        *(
            stated(
                name,
                f"printed tail of a pair: {token}",
                left,
                "<=",
                tail,
                PRINTED_CONDITIONS,
                "",
                latex,
                "31",
                errata=errata,
            )
            for name, token, left, latex, tail, errata in tails
        ),
    ]


def printed_bounds() -> list[Entry]:
    """Return eq. (12)-(17)."""
    lower = (1, 3, 13, 16, 17, 19)
    rows: list[tuple[str, str, str, tuple[int, ...]]] = [
        ("precision_lower", "12", "Theorem 1", lower),
        ("precision_upper", "13", "Theorem 1", (1, 4, 5, 7, 11, 12)),
        ("recall_lower", "14", "Theorem 2", tuple(sorted({*lower, 18}))),
        ("recall_upper", "15", "Theorem 2", (1, 4, 5, 7, 11, 12)),
        ("f_inner_lower", "16", "Corollary 1", (8, 18)),
        ("f_inner_upper", "16", "Corollary 1", (7,)),
        ("f_outer_lower", "17", "Corollary 1", (8,)),
        ("f_outer_upper", "17", "Corollary 1", (7,)),
    ]
    return [
        bound("printed", name, PRINTED_CONDITIONS, equation=equation, part=part, errata=errata)
        for name, equation, part, errata in rows
    ]


def table_1() -> list[Entry]:
    """Return the rows of Table 1."""
    rows: list[tuple[str, str, sp.Symbol, str, str, tuple[int, ...]]] = [
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
    ]
    out = []
    for name, raised, symbol, claim, conditions, errata in rows:
        bound = RECALL_LOWER.subs(rho_out, sp.exp(-beta)) if symbol == beta else RECALL_LOWER
        units = "norm⁻¹" if s.MEANINGS[name].unit else ""
        latex = rf"\partial R_{{\min}} / \partial {s.MEANINGS[name].latex}"
        title, part = f"effect of {raised} on the lower bounds ({claim})", f"Table 1 row {name}"
        slope = sp.diff(bound, symbol)
        out.append(
            Entry(
                f"table_1_row_{name}",
                title,
                f"dR_lower/d{name}",
                "=",
                slope,
                conditions,
                units,
                latex,
                "",
                part,
                errata=errata,
            )
        )
    title = (
        "change of Δ when the next token enters I_N (printed: peaks that enter improve, valleys"
        " that enter weaken the bounds)"
    )
    conditions, part = (
        "C = 1; the largest weight outside enters; ρ_out unchanged",
        "Table 1 row profile",
    )
    step, latex = "Delta(N + 1) - Delta(N)", r"\Delta(N + 1) - \Delta(N)"
    return [
        *out,
        Entry(
            "table_1_row_profile",
            title,
            step,
            "=",
            theorems.ENTRY_STEP,
            conditions,
            "norm²",
            latex,
            "",
            part,
            errata=(29,),
        ),
    ]


def table_2() -> list[Entry]:
    """Return the rows of Table 2, and in closed form the boundaries it leaves undefined."""
    undefined = "m₁, m₂, m₃ undefined in print"
    rows: list[tuple[str, str, sp.Basic, str, tuple[int, ...]]] = [
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
            undefined,
            (22,),
        ),
        (
            "III",
            "add oscillatory peaks; Δ/B falls slowly; larger η, ω help",
            (m_1 <= N) & (m_2 > N),
            undefined,
            (23,),
        ),
        (
            "IV",
            "valleys + 1..T₁ in; Δ/B falls fast; Δ often ≤ 0",
            (m_2 <= N) & (m_3 > N),
            undefined,
            (21,),
        ),
        ("V", "all oscillations + tail; Δ/B falls; weak guarantees", m_3 <= N, undefined, (21,)),
    ]
    printed = []
    for name, claim, sizes, conditions, errata in rows:
        title, latex = f"sizes of regime {name} (printed: {claim})", rf"\mathrm{{regime\ {name}}}"
        part = f"Table 2 row {name}"
        printed.append(
            Entry(
                f"table_2_row_{name}",
                title,
                f"regime {name}",
                "iff",
                sizes,
                conditions,
                "",
                latex,
                "",
                part,
                errata=errata,
            )
        )
    order = "0 < η ≤ 1; sink rank ≤ L − T₂ + 1, T₁ ≥ 1, n₊ ≥ 1, n₋ ≥ 1"
    closed = {"m_1": L - T_2 + 2, "m_2": m_1 + n_plus, "m_3": L + 2 - n_minus}
    return [
        *printed,
        *(
            Entry(name, s.MEANINGS[name].meaning, name, "=", value, order, edition="repaired")
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
    between, negative = (
        f"{where}, between (32) and (33)",
        "printed: negative, Δr being r_min at ρ₀ = 0 less r_min at ρ₀ < 0",
    )
    distance, recall = (
        "distance at a negative ρ₀ from that at ρ₀ = 0",
        "change of recall from ρ₀ = 0 to a negative ρ₀",
    )
    exact, selected = (
        "mean squared distance at ρ₀ less that at ρ₀ = 0",
        "0 ∈ I_N, l ≠ 0 (0 for l = 0)",
    )
    distance_tex, recall_tex, exact_tex = (
        r"d_i^{\mathrm{neg}}",
        r"\Delta R(r, N)",
        r"\Delta\mathbb{E}D_{\ell}",
    )
    return [
        Entry(
            "recall_as_distribution",
            "recall as a distribution function",
            "R(r, N)",
            "=",
            s.RECALL,
            equation="32",
            part=where,
        ),
        Entry(
            "distance_shift",
            distance,
            "d_neg[i]",
            "~",
            s.DISTANCE_SHIFT,
            "",
            "norm",
            distance_tex,
            "",
            between,
            errata=(27,),
        ),
        Entry(
            "recall_shift",
            recall,
            "dR(r, N)",
            "~",
            s.RECALL_SHIFT,
            negative,
            "",
            recall_tex,
            "33",
            where,
            errata=(27,),
        ),
        Entry(
            "distance_shift_exact",
            exact,
            "dD[l]",
            "=",
            s.DISTANCE_SHIFT_EXACT,
            selected,
            "norm²",
            exact_tex,
            edition="repaired",
        ),
    ]


def numbered() -> list[Entry]:
    """Return all but the tables, in the order of the paper's equation numbers."""
    parts = (
        metrics,
        assumptions,
        notation,
        reductions,
        margin_definitions,
        printed_bounds,
        appendix_margins,
        sink_effect,
    )
    entries = (entry for part in parts for entry in part())
    return sorted(entries, key=lambda entry: (entry.edition != "printed", int(entry.equation or 0)))
