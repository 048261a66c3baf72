"""Statements of Theorems 1-2 and Corollary 1: margins, tails and bounds as printed.

Source: arXiv 2602.01893, eq. (7)-(17) and (26)-(31). Imports sympy.
"""

from __future__ import annotations

import sympy as sp

from theory.statements.record import PAIR, PRINTED_CONDITIONS, Entry, bound, definition, stated
from theory.symbolic import margins, symbols, theorems

CONTENT = "I_N without the sink is not empty"
SECTION = "Section 3.4"
APPENDIX = "Appendix A.1"


def margin_definitions() -> list[Entry]:
    """Return eq. (7)-(11)."""
    letter, table = "to the letter of (8)", "reading of (29) and Table 1; default"
    unsaid = "defined nowhere"
    return [
        definition("S_in", "7", margins.S_IN, part=SECTION),
        definition("a_min_in", "7", margins.A_MIN_IN, (12,), conditions=CONTENT, part=SECTION),
        definition("a_max_out", "7", margins.A_MAX_OUT, part=SECTION),
        definition("rho_out", "7", margins.RHO_OUT, (19,), conditions=CONTENT, part=SECTION),
        stated(
            "rho_out_at_most",
            "printed ceiling of ρ_out",
            symbols.rho_out,
            "<=",
            margins.RHO_OUT_AT_MOST,
            equation="7",
            part=SECTION,
            conditions="0 ∈ I_N",
            errata=(19,),
        ),
        definition("rho_in", "8", margins.RHO_IN, (2,), conditions=f"used in (8), {unsaid}; 0 for fewer than two tokens", part=SECTION),
        definition("a_max_in", "8", margins.A_MAX_IN_WITH_SINK, (15,), conditions=f"{unsaid}; default reading", part=SECTION),
        definition(
            "a_max_in_without_sink",
            "8",
            margins.A_MAX_IN_WITHOUT_SINK,
            (15,),
            of="a_max_in",
            conditions=f"{unsaid}; other reading",
            part=SECTION,
        ),
        definition("Delta", "8", margins.DELTA, (6,), conditions=CONTENT, part=SECTION),
        definition("Delta_0_in", "8", margins.DELTA_0_IN, (2, 16, 19), of="Delta_0", conditions=letter, part=SECTION),
        definition("Delta_0_out", "29", margins.DELTA_0_OUT, (2, 16, 19), of="Delta_0", conditions=table, part=APPENDIX),
        definition("B", "8", margins.SCALE, (1, 15), part=SECTION),
        definition("p_floor", "9", margins.P_FLOOR, (7, 11), left="p_floor[i, j]", left_latex=r"\underline{p}_{ij}", part=SECTION),
        definition("xi", "9", margins.XI, (1, 4, 5), left_latex=r"\xi_{ij}", part=SECTION, conditions=PAIR),
        definition("mu", "10", margins.MU, (4, 5), part=SECTION, conditions=PAIR),
        definition("sigma", "10", margins.SIGMA, (1, 13), of="sigma_ij", part=SECTION),
        definition("M", "11", margins.M_J, (4,), left="M[j]", left_latex="M_j", part=SECTION),
    ]


def appendix_margins() -> list[Entry]:
    """Return eq. (26)-(31): the margins again, the mean gaps, the variance proxy and the tails."""
    return [
        definition("S_in_appendix", "26", margins.S_IN, of="S_in", left="S_in'", left_latex=r"S'_{\mathrm{in}}", part=APPENDIX),
        definition("a_min_in_appendix", "26", margins.A_MIN_IN, (12,), of="a_min_in", conditions=CONTENT, part=APPENDIX),
        definition("a_max_out_appendix", "26", margins.A_MAX_OUT, of="a_max_out", part=APPENDIX),
        definition("B_appendix", "27", margins.SCALE, (1, 15), of="B", part=APPENDIX),
        stated(
            "mean_gap",
            "mean gap of a content token",
            symbols.mu,
            ">=",
            margins.DELTA,
            equation="28",
            part=APPENDIX,
            conditions="i ≠ 0; a_i ≥ a_j, ρ₀ ≥ 0 and all cosines ≥ 0, unsaid",
            units="norm²",
            errata=(4, 6),
        ),
        stated(
            "mean_gap_sink",
            "mean gap of the sink",
            "mu_0j",
            ">=",
            margins.DELTA_0_OUT,
            equation="29",
            part=APPENDIX,
            left_latex=r"\mu_{0j}",
            conditions="0 ∈ I_N; ρ₀ ≥ 0 and S_in ≥ a_j, unsaid",
            units="norm²",
            errata=(2, 4, 19),
        ),
        stated(
            "variance_proxy",
            "variance proxy of X_ij",
            "sigma**2",
            "<=",
            margins.VARIANCE_PROXY,
            equation="30",
            part=APPENDIX,
            left_latex=r"\sigma^2",
            conditions="X_ij − μ_ij sub-Gaussian; c universal, nowhere given",
            units="norm⁴",
            errata=(1, 13),
        ),
        *_tails(),
    ]


def _tails() -> list[Entry]:
    rows: tuple[tuple[str, str, str, sp.Expr, tuple[int, ...]], ...] = (
        ("tail", "i", "printed tail of a pair: content token", margins.TAIL, (1, 6, 13)),
        ("tail_sink", "0", "printed tail of a pair: the sink", margins.TAIL_SINK, (1, 13, 16)),
    )
    return [
        stated(
            name,
            title,
            f"P{{X_{of}j <= 0}}",
            "<=",
            expression,
            equation="31",
            part=APPENDIX,
            left_latex=rf"\mathbb{{P}}\{{X_{{{of}j}} \le 0\}}",
            conditions=PRINTED_CONDITIONS,
            errata=errata,
        )
        for name, of, title, expression, errata in rows
    ]


def printed_bounds() -> list[Entry]:
    """Return eq. (12)-(17)."""
    lower = (1, 3, 13, 16, 17, 19)
    rows: list[tuple[str, str, str, str, sp.Expr, tuple[int, ...]]] = [
        ("precision_lower", "12", "Theorem 1", "precision", theorems.PRECISION_LOWER, lower),
        ("precision_upper", "13", "Theorem 1", "precision", theorems.PRECISION_UPPER, (1, 4, 5, 7, 11, 12)),
        ("recall_lower", "14", "Theorem 2", "recall", theorems.RECALL_LOWER, tuple(sorted({*lower, 18}))),
        ("recall_upper", "15", "Theorem 2", "recall", theorems.RECALL_UPPER, (1, 4, 5, 7, 11, 12)),
        ("f_inner_lower", "16", "Corollary 1", "f_inner", theorems.F_INNER_LOWER, (8, 18)),
        ("f_inner_upper", "16", "Corollary 1", "f_inner", theorems.F_INNER_UPPER, (7,)),
        ("f_outer_lower", "17", "Corollary 1", "f_outer", theorems.F_OUTER_LOWER, (8,)),
        ("f_outer_upper", "17", "Corollary 1", "f_outer", theorems.F_OUTER_UPPER, (7,)),
    ]
    return [
        bound(name, equation, quantity, expression, "printed", PRINTED_CONDITIONS, errata, part)
        for name, equation, part, quantity, expression, errata in rows
    ]
