"""Margins and bounds in print: the reduction to pairs, the margins of Section 3.4 and the appendix,
and Theorems 1-2 with Corollary 1.

Source: arXiv 2602.01893, eq. (6)-(31). Imports sympy.
"""

from __future__ import annotations

from functools import partial

from theory.statements.record import PAIR, PRINTED_CONDITIONS, Entry, bound, definition
from theory.symbolic import definitions, margins
from theory.symbolic import symbols as s
from theory.symbolic.operations import Indicator

WITH_SINK = "0 ∈ I_N"
CONTENT = "I_N without the sink is not empty"
SECTION = "Section 3.4"
APPENDIX = "Appendix A.1"


def reductions() -> list[Entry]:
    """Return eq. (21)-(25)."""
    out, inside = Indicator(s.D[s.j] <= s.r_max**2), Indicator(s.D[s.i] > s.r_min**2)
    rows = (
        (
            "21",
            "outside_within_reach",
            "a token outside counts only if it beats a selected one",
            out,
            definitions.BEATEN_BY_SOME,
        ),
        ("22", "K_out_at_most", "K_out counts at most the pairs", s.K_out, definitions.PAIRS),
        (
            "23",
            "inside_out_of_reach",
            "a selected token is lost only if one outside beats it",
            inside,
            definitions.BEATING_SOME,
        ),
        (
            "24",
            "K_in_at_least",
            "N - K_in counts at most the pairs",
            s.N - s.K_in,
            definitions.PAIRS,
        ),
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
            definitions.DIFFERENCE,
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
        definition("S_in", "7", margins.S_IN, part=SECTION),
        definition("a_min_in", "7", margins.A_MIN_IN, (12,), conditions=CONTENT, part=SECTION),
        definition("a_max_out", "7", margins.A_MAX_OUT, part=SECTION),
        definition("rho_out", "7", margins.RHO_OUT, (19,), conditions=CONTENT, part=SECTION),
        Entry(
            "rho_out_at_most",
            ceiling,
            s.rho_out,
            "<=",
            margins.RHO_OUT_AT_MOST,
            WITH_SINK,
            equation="7",
            part=SECTION,
            errata=(19,),
        ),
        definition(
            "rho_in",
            "8",
            margins.RHO_IN,
            (2,),
            conditions=f"used in (8), {unsaid}; 0 for fewer than two tokens",
            part=SECTION,
        ),
        definition(
            "a_max_in",
            "8",
            margins.A_MAX_IN_WITH_SINK,
            (15,),
            conditions=f"{unsaid}; default reading",
            part=SECTION,
        ),
        definition(
            "a_max_in_without_sink",
            "8",
            margins.A_MAX_IN_WITHOUT_SINK,
            (15,),
            of="a_max_in",
            part=SECTION,
            conditions=other,
        ),
        definition("Delta", "8", margins.DELTA, (6,), conditions=CONTENT, part=SECTION),
        definition(
            "Delta_0_in",
            "8",
            margins.DELTA_0_IN,
            (2, 16, 19),
            of="Delta_0",
            conditions=letter,
            part=SECTION,
        ),
        definition(
            "Delta_0_out",
            "29",
            margins.DELTA_0_OUT,
            (2, 16, 19),
            of="Delta_0",
            conditions=table,
            part=APPENDIX,
        ),
        definition("B", "8", margins.SCALE, (1, 15), part=SECTION),
        definition(
            "p_floor",
            "9",
            margins.P_FLOOR,
            (7, 11),
            left="p_floor[i, j]",
            left_latex=r"\underline{p}_{ij}",
            part=SECTION,
        ),
        definition(
            "xi", "9", margins.XI, (1, 4, 5), left_latex=r"\xi_{ij}", part=SECTION, conditions=PAIR
        ),
        definition("mu", "10", margins.MU, (4, 5), part=SECTION, conditions=PAIR),
        definition("sigma", "10", margins.SIGMA, (1, 13), of="sigma_ij", part=SECTION),
        definition("M", "11", margins.M_J, (4,), left="M[j]", left_latex="M_j", part=SECTION),
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
            margins.TAIL,
            (1, 6, 13),
        ),
        (
            "tail_sink",
            "the sink",
            "P{X_0j <= 0}",
            r"\mathbb{P}\{X_{0j} \le 0\}",
            margins.TAIL_SINK,
            (1, 13, 16),
        ),
    )
    return [
        definition(
            "S_in_appendix",
            "26",
            margins.S_IN,
            of="S_in",
            left="S_in'",
            left_latex=r"S'_{\mathrm{in}}",
            part=APPENDIX,
        ),
        definition(
            "a_min_in_appendix",
            "26",
            margins.A_MIN_IN,
            (12,),
            of="a_min_in",
            conditions=CONTENT,
            part=APPENDIX,
        ),
        definition("a_max_out_appendix", "26", margins.A_MAX_OUT, of="a_max_out", part=APPENDIX),
        definition("B_appendix", "27", margins.SCALE, (1, 15), of="B", part=APPENDIX),
        stated(
            "mean_gap",
            "mean gap of a content token",
            s.mu,
            ">=",
            margins.DELTA,
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
            margins.DELTA_0_OUT,
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
            margins.VARIANCE_PROXY,
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
