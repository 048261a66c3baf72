"""Statements of Theorems 1-2 and Corollary 1: margins, tails and bounds as printed.

Source: arXiv 2602.01893, eq. (7)-(17) and (26)-(31). Imports sympy.
"""

from __future__ import annotations

from theory.statements.record import PAIR, PRINTED_CONDITIONS, Entry, bound, definition
from theory.symbolic import margins, symbols

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
        Entry("rho_out_at_most", "printed ceiling of ρ_out", symbols.rho_out, "<=", margins.RHO_OUT_AT_MOST, "0 ∈ I_N",
              equation="7", part=SECTION, errata=(19,)),
        definition("rho_in", "8", margins.RHO_IN, (2,), conditions=f"used in (8), {unsaid}; 0 for fewer than two tokens", part=SECTION),
        definition("a_max_in", "8", margins.A_MAX_IN_WITH_SINK, (15,), conditions=f"{unsaid}; default reading", part=SECTION),
        definition("a_max_in_without_sink", "8", margins.A_MAX_IN_WITHOUT_SINK, (15,), of="a_max_in", part=SECTION,
                   conditions=f"{unsaid}; other reading"),
        definition("Delta", "8", margins.DELTA, (6,), conditions=CONTENT, part=SECTION),
        definition("Delta_0_in", "8", margins.DELTA_0_IN, (2, 16, 19), of="Delta_0", conditions=letter, part=SECTION),
        definition("Delta_0_out", "29", margins.DELTA_0_OUT, (2, 16, 19), of="Delta_0", conditions=table, part=APPENDIX),
        definition("B", "8", margins.SCALE, (1, 15), part=SECTION),
        definition("p_floor", "9", margins.P_FLOOR, (7, 11), left="p_floor[i, j]", left_latex=r"\underline{p}_{ij}", part=SECTION),
        definition("xi", "9", margins.XI, (1, 4, 5), left_latex=r"\xi_{ij}", part=SECTION, conditions=PAIR),
        definition("mu", "10", margins.MU, (4, 5), part=SECTION, conditions=PAIR),
        definition("sigma", "10", margins.SIGMA, (1, 13), of="sigma_ij", part=SECTION),
        definition("M", "11", margins.M_J, (4,), left="M[j]", left_latex="M_j", part=SECTION),
    ]  # fmt: skip


def appendix_margins() -> list[Entry]:
    """Return eq. (26)-(31): the margins again, the mean gaps, the variance proxy and the tails."""
    pairs = "i ≠ 0; a_i ≥ a_j, ρ₀ ≥ 0 and all cosines ≥ 0, unsaid"
    proxy = "X_ij − μ_ij sub-Gaussian; c universal, nowhere given"
    tails = (
        ("tail", "i", "content token", margins.TAIL, (1, 6, 13)),
        ("tail_sink", "0", "the sink", margins.TAIL_SINK, (1, 13, 16)),
    )
    return [
        definition("S_in_appendix", "26", margins.S_IN, of="S_in", left="S_in'", left_latex=r"S'_{\mathrm{in}}", part=APPENDIX),
        definition("a_min_in_appendix", "26", margins.A_MIN_IN, (12,), of="a_min_in", conditions=CONTENT, part=APPENDIX),
        definition("a_max_out_appendix", "26", margins.A_MAX_OUT, of="a_max_out", part=APPENDIX),
        definition("B_appendix", "27", margins.SCALE, (1, 15), of="B", part=APPENDIX),
        Entry("mean_gap", "mean gap of a content token", symbols.mu, ">=", margins.DELTA, pairs, "norm²",
              equation="28", part=APPENDIX, errata=(4, 6)),
        Entry("mean_gap_sink", "mean gap of the sink", "mu_0j", ">=", margins.DELTA_0_OUT, "0 ∈ I_N; ρ₀ ≥ 0 and S_in ≥ a_j, unsaid", "norm²",
              left_latex=r"\mu_{0j}", equation="29", part=APPENDIX, errata=(2, 4, 19)),
        Entry("variance_proxy", "variance proxy of X_ij", "sigma**2", "<=", margins.VARIANCE_PROXY, proxy, "norm⁴",
              left_latex=r"\sigma^2", equation="30", part=APPENDIX, errata=(1, 13)),
        *(Entry(name, f"printed tail of a pair: {token}", f"P{{X_{of}j <= 0}}", "<=", expression, PRINTED_CONDITIONS,
                left_latex=rf"\mathbb{{P}}\{{X_{{{of}j}} \le 0\}}", equation="31", part=APPENDIX, errata=errata)
          for name, of, token, expression, errata in tails),
    ]  # fmt: skip


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
        bound("printed", name, PRINTED_CONDITIONS, equation=equation, part=part, errata=errata) for name, equation, part, errata in rows
    ]
