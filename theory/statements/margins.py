"""Margins and bounds in print: the reduction to pairs, the margins of Section 3.4 and the appendix,
and Theorems 1-2 with Corollary 1.

Source: arXiv 2602.01893, eq. (7)-(17), (21)-(31). Imports sympy.
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
    return [*_extremes(), *_margins(), *_pairs()]


def _extremes() -> list[Entry]:
    """Return the sums and extremes over tokens in eq. (7), and those that eq. (8) leaves open."""
    unsaid = "defined nowhere"
    return [
        definition("S_in", "7", margins.S_IN, part=SECTION),
        definition("a_min_in", "7", margins.A_MIN_IN, (12,), conditions=CONTENT, part=SECTION),
        definition("a_max_out", "7", margins.A_MAX_OUT, part=SECTION),
        definition("rho_out", "7", margins.RHO_OUT, (19,), conditions=CONTENT, part=SECTION),
        Entry(
            "rho_out_at_most",
            "printed ceiling of ρ_out",
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
            conditions=f"{unsaid}; other reading",
        ),
    ]


def _margins() -> list[Entry]:
    """Return the margins and the scale of eq. (8), and the margin of the sink as in eq. (29)."""
    return [
        definition("Delta", "8", margins.DELTA, (6,), conditions=CONTENT, part=SECTION),
        definition(
            "Delta_0_in",
            "8",
            margins.DELTA_0_IN,
            (2, 16, 19),
            of="Delta_0",
            conditions="to the letter of (8)",
            part=SECTION,
        ),
        definition(
            "Delta_0_out",
            "29",
            margins.DELTA_0_OUT,
            (2, 16, 19),
            of="Delta_0",
            conditions="reading of (29) and Table 1; default",
            part=APPENDIX,
        ),
        definition("B", "8", margins.SCALE, (1, 15), part=SECTION),
    ]


def _pairs() -> list[Entry]:
    """Return eq. (9)-(11): what is printed of one pair of tokens."""
    return [
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
    return [*_margins_again(), *_mean_gaps(), *_tails()]


def _margins_again() -> list[Entry]:
    """Return eq. (26)-(27), which say again what eq. (7)-(8) do."""
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
    ]


def _mean_gaps() -> list[Entry]:
    """Return eq. (28)-(30): mean and variance proxy of the difference of squared distances."""
    stated = partial(Entry, part=APPENDIX)
    return [
        stated(
            "mean_gap",
            "mean gap of a content token",
            s.mu,
            ">=",
            margins.DELTA,
            "i ≠ 0; a_i ≥ a_j, ρ₀ ≥ 0 and all cosines ≥ 0, unsaid",
            "norm²",
            equation="28",
            errata=(4, 6),
        ),
        stated(
            "mean_gap_sink",
            "mean gap of the sink",
            "mu_0j",
            ">=",
            margins.DELTA_0_OUT,
            f"{WITH_SINK}; ρ₀ ≥ 0 and S_in ≥ a_j, unsaid",
            "norm²",
            r"\mu_{0j}",
            "29",
            errata=(2, 4, 19),
        ),
        stated(
            "variance_proxy",
            "variance proxy of X_ij",
            "sigma**2",
            "<=",
            margins.VARIANCE_PROXY,
            "X_ij − μ_ij sub-Gaussian; c universal, nowhere given",
            "norm⁴",
            r"\sigma^2",
            "30",
            errata=(1, 13),
        ),
    ]


def _tails() -> list[Entry]:
    """Return eq. (31)."""
    tails = (
        ("tail", "content token", "ij", margins.TAIL, (1, 6, 13)),
        ("tail_sink", "the sink", "0j", margins.TAIL_SINK, (1, 13, 16)),
    )
    return [
        Entry(
            name,
            f"printed tail of a pair: {token}",
            f"P{{X_{pair} <= 0}}",
            "<=",
            tail,
            PRINTED_CONDITIONS,
            "",
            rf"\mathbb{{P}}\{{X_{{{pair}}} \le 0\}}",
            "31",
            APPENDIX,
            errata=errata,
        )
        for name, token, pair, tail, errata in tails
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
