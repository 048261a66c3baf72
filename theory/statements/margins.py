"""Margins: the reduction to pairs, the margins of Section 3.4 and the appendix, and what repairs
them.

Source: arXiv 2602.01893, eq. (7)-(11), (21)-(31); the repaired edition replaces (8), (10) and
(28)-(31). Imports sympy.
"""

from __future__ import annotations

from functools import partial

from theory.statements.record import PAIR, PRINTED_CONDITIONS, UNIT, WITH_SINK, Entry, definition
from theory.symbolic import definitions, margins
from theory.symbolic import symbols as s
from theory.symbolic.operations import Indicator, Mean

CONTENT = "I_N without the sink is not empty"
UNSAID = "defined nowhere"
ALWAYS = "none: true of any numbers D"

_defined = partial(definition, part="Section 3.4")
_defined_in_appendix = partial(definition, part="Appendix A.1")
_stated = partial(Entry, part="Appendix A.1")
_repaired = partial(Entry, edition="repaired")
_reduced = partial(_stated, relation="<=", conditions=ALWAYS)

REDUCTIONS: tuple[Entry, ...] = (
    _reduced(
        "outside_within_reach",
        "a token outside counts only if it beats a selected one",
        Indicator(s.D[s.j] <= s.r_max**2),
        expression=definitions.BEATEN_BY_SOME,
        equation="21",
    ),
    _reduced(
        "K_out_at_most",
        "K_out counts at most the pairs",
        s.K_out,
        expression=definitions.PAIRS,
        equation="22",
    ),
    _reduced(
        "inside_out_of_reach",
        "a selected token is lost only if one outside beats it",
        Indicator(s.D[s.i] > s.r_min**2),
        expression=definitions.BEATING_SOME,
        equation="23",
        chain=(("<=", definitions.BEATING_SOME_TURNED), ("=", definitions.BEATING_SOME)),
    ),
    _reduced(
        "K_in_at_least",
        "N - K_in counts at most the pairs",
        "N - K_in",
        expression=definitions.PAIRS_BY_SELECTED,
        equation="24",
        left_latex=r"N - K_{\mathrm{in}}",
        chain=(("=", definitions.OUT_OF_REACH), ("<=", definitions.PAIRS_BY_SELECTED)),
    ),
    _stated(
        "difference",
        "difference of the squared distances of a pair",
        "X[i, j]",
        "=",
        definitions.DIFFERENCE,
        "X_ij = D_j − D_i; a number, not a random variable, if Assumption 2 is read to the letter",
        "norm²",
        "X_{ij}",
        "25",
        errata=(20,),
    ),
)
"""Eq. (21)-(25)."""

DEFINITIONS: tuple[Entry, ...] = (
    _defined("S_in", "7", margins.S_IN),
    _defined("a_min_in", "7", margins.A_MIN_IN, (12,), conditions=CONTENT),
    _defined("a_max_out", "7", margins.A_MAX_OUT),
    _defined("rho_out", "7", margins.RHO_OUT, (19,), conditions=CONTENT),
    Entry(
        "rho_out_at_most",
        "printed ceiling of ρ_out",
        s.rho_out,
        "<=",
        margins.RHO_OUT_AT_MOST,
        WITH_SINK,
        equation="7",
        part="Section 3.4",
        errata=(19,),
    ),
    _defined(
        "rho_in",
        "8",
        margins.RHO_IN,
        (2,),
        conditions=f"used in (8), {UNSAID}; 0 for fewer than two tokens",
    ),
    _defined(
        "a_max_in", "8", margins.A_MAX_IN_WITH_SINK, (15,), conditions=f"{UNSAID}; default reading"
    ),
    _defined(
        "a_max_in_without_sink",
        "8",
        margins.A_MAX_IN_WITHOUT_SINK,
        (15,),
        of="a_max_in",
        conditions=f"{UNSAID}; other reading",
    ),
    _defined("Delta", "8", margins.DELTA, (6,), conditions=CONTENT),
    _defined(
        "Delta_0_in",
        "8",
        margins.DELTA_0_IN,
        (2, 16, 19),
        of="Delta_0",
        conditions="to the letter of (8)",
    ),
    _defined_in_appendix(
        "Delta_0_out",
        "29",
        margins.DELTA_0_OUT,
        (2, 16, 19),
        of="Delta_0",
        conditions="reading of (29) and Table 1; default",
    ),
    _defined("B", "8", margins.SCALE, (1, 15)),
    _defined(
        "p_floor",
        "9",
        margins.P_FLOOR,
        (7, 11),
        left="p_floor[i, j]",
        chain=(("=", margins.P_FLOOR_PRINTED),),
        left_latex=r"\underline{p}_{ij}",
    ),
    _defined("xi", "9", margins.XI, (1, 4, 5), left_latex=r"\xi_{ij}", conditions=PAIR),
    _defined("mu", "10", margins.MU, (4, 5), conditions=PAIR),
    _defined("sigma", "10", margins.SIGMA, (1, 13), of="sigma_ij"),
    _defined("M", "11", margins.M_J, (4,), left="M[j]", left_latex="M_j"),
)
"""Eq. (7)-(11): sums and extremes, margins and scale, a pair; Δ₀ also as eq. (29) reads it."""

APPENDIX: tuple[Entry, ...] = (
    _defined_in_appendix(
        "S_in_appendix",
        "26",
        margins.S_IN,
        of="S_in",
        left="S_in_primed",
        left_latex=r"S'_{\mathrm{in}}",
    ),
    _defined_in_appendix(
        "a_min_in_appendix", "26", margins.A_MIN_IN, (12,), of="a_min_in", conditions=CONTENT
    ),
    _defined_in_appendix("a_max_out_appendix", "26", margins.A_MAX_OUT, of="a_max_out"),
    _defined_in_appendix("B_appendix", "27", margins.primed(margins.SCALE), (1, 15), of="B"),
    _stated(
        "mean_gap",
        "mean gap of a content token",
        s.mu,
        ">=",
        margins.primed(margins.DELTA),
        "i ≠ 0; a_i ≥ a_j, ρ₀ ≥ 0 and all cosines ≥ 0, unsaid",
        "norm²",
        equation="28",
        errata=(4, 6, 32),
        chain=(
            (":=", Mean(s.X[s.i, s.j])),
            (">=", s.Delta),
            (":=", margins.primed(margins.DELTA)),
        ),
    ),
    _stated(
        "mean_gap_sink",
        "mean gap of the sink",
        "mu_0j",
        ">=",
        margins.primed(margins.DELTA_0_OUT),
        f"{WITH_SINK}; ρ₀ ≥ 0 and S_in ≥ a_j, unsaid",
        "norm²",
        r"\mu_{0j}",
        "29",
        errata=(2, 4, 19),
        chain=((">=", s.Delta_0_primed), (":=", margins.primed(margins.DELTA_0_OUT))),
    ),
    _stated(
        "variance_proxy",
        "variance proxy of X_ij",
        "sigma**2",
        "<=",
        margins.VARIANCE_PROXY,
        "X_ij − μ_ij sub-Gaussian; c universal, nowhere given",
        "norm⁴",
        r"\sigma^2",
        "30",
        errata=(1, 13, 32),
    ),
    *(
        _stated(
            name,
            f"printed tail of a pair: {token}",
            f"P{{X_{pair} <= 0}}",
            "<=",
            tail,
            PRINTED_CONDITIONS,
            "",
            rf"\mathbb{{P}}\{{X_{{{pair}}} \le 0\}}",
            "31",
            errata=errata,
        )
        for name, token, pair, tail, errata in (
            ("tail", "content token", "ij", margins.TAIL, (1, 6, 13, 20, 32)),
            ("tail_sink", "the sink", "0j", margins.primed(margins.TAIL_SINK), (1, 13, 16, 20, 32)),
        )
    ),
)
"""Eq. (26)-(31): the margins again, the mean gaps, the variance proxy and the tails."""

REPAIRED_MARGINS: tuple[Entry, ...] = (
    _repaired(
        "mu_exact",
        "mean of the difference of squared distances, the sink's and the own term included",
        "mu",
        "=",
        margins.MU_EXACT,
        PAIR,
        "norm²",
        r"\mu_{ij}",
    ),
    _repaired(
        "width",
        "scale-free width of a pair",
        "w[i, j]",
        "=",
        margins.WIDTH,
        PAIR,
        "norm²",
        "w_{ij}",
    ),
    _repaired(
        "sigma_repaired",
        "width of the difference with the scale squared",
        "sigma_ij",
        "=",
        margins.SIGMA_REPAIRED,
        units="norm²",
        left_latex=r"\sigma_{ij}",
    ),
    _repaired(
        "tail_repaired",
        "scale-free tail of a pair",
        "P{X_ij <= 0}",
        "<=",
        margins.TAIL_REPAIRED,
        f"{PAIR}; {UNIT}, κ = 1/8",
        left_latex=r"\mathbb{P}\{X_{ij} \le 0\}",
    ),
    _repaired(
        "Delta_with_sink",
        "Δ with the sink's terms",
        "Delta",
        "=",
        margins.DELTA_WITH_SINK,
        WITH_SINK,
        "norm²",
        r"\Delta",
    ),
    _repaired(
        "Delta_0_with_sink",
        "Δ₀ with the sink's terms",
        "Delta_0",
        "=",
        margins.DELTA_0_WITH_SINK,
        WITH_SINK,
        "norm²",
        r"\Delta_0",
    ),
)
"""What replaces the mean, the width and the tail of a pair, and the margins."""
