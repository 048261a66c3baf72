"""Statements on margins: the margins of Section 3.4 and of the appendix, the pairwise tails that
follow, and their repaired forms.

Source: arXiv 2602.01893, eq. (7)-(11), (26)-(31); the repaired edition replaces (8), (10) and
(28)-(31). Units: a is in units of value norm, margins in norm² (erratum 1). Numbers are computed in
`theory.head.ranked`, `theory.editions.printed` and `theory.editions.repaired`. Imports sympy only.
"""
# ruff: noqa: F403, F405 (formulas use most of the symbols)

from __future__ import annotations

from functools import partial

import sympy as sp

from theory.symbolic.approximations import NormalDensity
from theory.symbolic.operations import MaxOver, Mean, MinOver, SumOver, as_written
from theory.symbolic.record import PAIR, PRINTED_CONDITIONS, UNIT, WITH_SINK, definition, stated
from theory.symbolic.symbols import *

CONTENT = "I_N without the sink is not empty"
UNSAID = "undefined in the paper"

_defined = partial(definition, part="Section 3.4")
_defined_in_appendix = partial(definition, part="Appendix A.1")
_stated = partial(stated, part="Appendix A.1")
_repaired = partial(stated, edition="repaired")

# Eq. (7)-(11): sums and extremes, margins and scale, pairs; Δ₀ also in the reading of eq. (29)
S_IN = _defined("S_in", "7")(SumOver(a[k], k, I_content))
A_MIN_IN = _defined("a_min_in", "7", (12,), conditions=CONTENT)(MinOver(a[i], i, I_content))
A_MAX_OUT = _defined("a_max_out", "7")(MaxOver(a[j], j, J))
RHO_OUT = _defined("rho_out", "7", (19,), conditions=CONTENT)(
    MaxOver(rho[j, k], j, J, k, I_content)
)
RHO_OUT_AT_MOST = stated(
    "rho_out_at_most", "printed upper limit of ρ_out", "7", "Section 3.4", errata=(19,)
)(rho_out, "<=", sp.exp(-beta), WITH_SINK)
"""False if the sink is not selected."""
RHO_IN = _defined(
    "rho_in", "8", (2,), conditions=f"used in (8), {UNSAID}; 0 for fewer than two tokens"
)(MaxOver(rho[k, l], k, I_content, l, I_content))
A_MAX_IN_WITH_SINK = _defined("a_max_in", "8", (15,), conditions=f"{UNSAID}; default reading")(
    MaxOver(a[i], i, I_N)
)
A_MAX_IN_WITHOUT_SINK = _defined(
    "a_max_in_without_sink", "8", (15,), of="a_max_in", conditions=f"{UNSAID}; other reading"
)(MaxOver(a[i], i, I_content))
DELTA = _defined("Delta", "8", (6,), conditions=CONTENT)(
    as_written(lambda: a_min_in**2 - 2 * a_max_out * S_in * rho_out)
)
"""Positive: selected tokens are nearer to s than the rest."""
DELTA_0_IN = _defined(
    "Delta_0_in", "8", (2, 16, 19), of="Delta_0", conditions="(8) taken literally"
)(as_written(lambda: a_0**2 - (S_in * rho_in) ** 2))
DELTA_0_OUT = _defined_in_appendix(
    "Delta_0_out",
    "29",
    (2, 16, 19),
    of="Delta_0",
    conditions="reading of (29) and Table 1; default",
)(as_written(lambda: a_0**2 - (S_in * rho_out) ** 2))
"""The reading that a derivation gives."""
SCALE = _defined("B", "8", (1, 15))(as_written(lambda: a_max_in + a_max_out + S_in))
"""A length; the tails require a squared length (erratum 1)."""
_FLOOR_PRINTED = as_written(
    lambda: sp.Piecewise((NormalDensity(xi) / (xi + 1 / xi), xi >= 0), (sp.Rational(1, 2), xi < 0))
)
P_FLOOR = _defined(
    "p_floor",
    "9",
    (7, 11),
    left="p_floor[i, j]",
    chain=(("=", _FLOOR_PRINTED),),
    left_latex=r"\underline{p}_{ij}",
)(
    sp.Piecewise(  # the limit of the printed form at ξ = 0, where 1/ξ is undefined (erratum 11)
        (sp.exp(-(xi**2) / 2) / sp.sqrt(2 * sp.pi) * xi / (1 + xi**2), xi >= 0),
        (sp.Rational(1, 2), True),
    )
)
XI = _defined("xi", "9", (1, 4, 5), left_latex=r"\xi_{ij}", conditions=PAIR)(mu / sigma)
MU = _defined("mu", "10", (4, 5), conditions=PAIR)(
    as_written(lambda: (a[j] ** 2 - a[i] ** 2) - 2 * a[j] * M[j] + 2 * a[i] * M[i])
)
"""The terms of the sink are missing."""
SIGMA = _defined("sigma", "10", (1, 13), of="sigma_ij")(
    as_written(lambda: B / sp.sqrt(2 * kappa * d))
)
"""In norm, whereas the mean is in norm²."""
M_J = _defined("M", "11", (4,), left="M[j]", left_latex="M_j")(
    as_written(lambda: SumOver(a[l] * rho[l, j], l, I_content))
)

TAIL = as_written(lambda: sp.exp(-kappa * d * (Delta / B) ** 2))
"""Printed tail of a content token, eq. (31)."""

TAIL_SINK = as_written(lambda: sp.exp(-kappa * d * (Delta_0 / B) ** 2))
"""Printed tail of the sink, eq. (31)."""

SPELLED_OUT = {Delta: DELTA.expression, Delta_0: DELTA_0_OUT.expression, B: SCALE.expression}
"""Substitution for the margins and the scale in the printed tails, with Δ₀ as in eq. (29)."""


def primed(expression: sp.Expr) -> sp.Expr:
    """Return the expression with S_in and Δ₀ as the appendix writes them, S'_in and Δ'₀."""
    return as_written(lambda: expression.xreplace({S_in: S_in_primed, Delta_0: Delta_0_primed}))


# Eq. (26)-(31): margins as in the appendix, mean gaps, variance proxy and tails
_GAP, _GAP_SINK = primed(DELTA.expression), primed(DELTA_0_OUT.expression)

APPENDIX = (
    _defined_in_appendix(
        "S_in_appendix", "26", of="S_in", left="S_in_primed", left_latex=r"S'_{\mathrm{in}}"
    )(S_IN.expression),
    _defined_in_appendix("a_min_in_appendix", "26", (12,), of="a_min_in", conditions=CONTENT)(
        A_MIN_IN.expression
    ),
    _defined_in_appendix("a_max_out_appendix", "26", of="a_max_out")(A_MAX_OUT.expression),
    _defined_in_appendix("B_appendix", "27", (1, 15), of="B")(primed(SCALE.expression)),
    _stated("mean_gap", "mean gap of a content token", "28", errata=(4, 6, 32))(
        mu,
        ">=",
        _GAP,
        "i ≠ 0; unstated: a_i ≥ a_j, ρ₀ ≥ 0, all cosines ≥ 0",
        "norm²",
        chain=((":=", Mean(X[i, j])), (">=", Delta), (":=", _GAP)),
    ),
    _stated("mean_gap_sink", "mean gap of the sink", "29", errata=(2, 4, 19))(
        ("mu_0j", r"\mu_{0j}"),
        ">=",
        _GAP_SINK,
        f"{WITH_SINK}; unstated: ρ₀ ≥ 0, S_in ≥ a_j",
        "norm²",
        chain=((">=", Delta_0_primed), (":=", _GAP_SINK)),
    ),
    _stated("variance_proxy", "variance proxy of X_ij", "30", errata=(1, 13, 32, 40))(
        ("sigma**2", r"\sigma^2"),
        "<=",
        # in norm², whereas the variance is in norm⁴ (erratum 1)
        as_written(lambda: c_proxy * B**2 / d),
        "X_ij − μ_ij sub-Gaussian; c universal, no value given",
        "norm⁴",
    ),
    *(
        _stated(name, f"printed tail of a pair: {token}", "31", errata=errata)(
            (f"P{{X_{pair} <= 0}}", rf"\mathbb{{P}}\{{X_{{{pair}}} \le 0\}}"),
            "<=",
            tail,
            PRINTED_CONDITIONS,
        )
        for name, token, pair, tail, errata in (
            ("tail", "content token", "ij", TAIL, (1, 6, 7, 13, 20, 32)),
            ("tail_sink", "the sink", "0j", primed(TAIL_SINK), (1, 13, 16, 20, 32)),
        )
    ),
)

# Repaired mean, width and tail of a pair, and repaired margins
MU_EXACT = _repaired(
    "mu_exact",
    "mean of the difference of squared distances, with the terms of the sink and of token i",
)(
    ("mu", r"\mu_{ij}"),
    "=",
    (a[j] ** 2 - 2 * SumOver(a[j] * a[k] * rho[k, j], k, I_N))
    - (a[i] ** 2 - 2 * SumOver(a[i] * a[k] * rho[k, i], k, I_N)),
    PAIR,
    "norm²",
)
"""Sums over all of I_N, including the sink and token i itself (erratum 4)."""
WIDTH = _repaired("width", "scale-free width of a pair")(
    ("w[i, j]", "w_{ij}"), "=", SumOver(a[k] * (a[i] + a[j]), k, I_N) - a[i] ** 2, PAIR, "norm²"
)
SIGMA_REPAIRED = _repaired("sigma_repaired", "width of the difference with the scale squared")(
    ("sigma_ij", r"\sigma_{ij}"), "=", B**2 / sp.sqrt(2 * kappa * d), units="norm²"
)
TAIL_REPAIRED = _repaired("tail_repaired", "scale-free tail of a pair")(
    ("P{X_ij <= 0}", r"\mathbb{P}\{X_{ij} \le 0\}"),
    "<=",
    sp.exp(-kappa * d * (sp.Max(0, mu_of[i, j]) / w[i, j]) ** 2),
    f"{PAIR}; {UNIT}, κ = 1/8",
)
DELTA_WITH_SINK, DELTA_0_WITH_SINK = (  # coarse; a_max_in without the sink (erratum 4)
    _repaired(f"{margin}_with_sink", f"{letter} with the terms of the sink")(
        (str(margin), left_latex),
        "=",
        sp.Piecewise(
            (margin + 2 * a_0 * rho_0 * (attracted - a_max_out), rho_0 >= 0),
            (margin + 2 * a_0 * rho_0 * (repelled - a_min_out), True),
        ),
        WITH_SINK,
        "norm²",
    )
    for margin, letter, attracted, repelled, left_latex in (
        (Delta, "Δ", a_min_in, a_max_in, r"\Delta"),
        (Delta_0, "Δ₀", S_in, S_in, r"\Delta_0"),
    )
)

ENTRY_STEP = (
    a_max_out**2 - a_min_in**2 + 2 * rho_out * (a_max_out * S_in - a_next * (S_in + a_max_out))
)
"""Change of Δ, eq. (8), when the largest unselected token enters I_N; a_next is then the largest
unselected weight, ρ_out unchanged.
"""
