"""Margins: how far the selected tokens stand from the rest, and the tails of a pair that follow, as
printed and repaired.

Source: arXiv 2602.01893, eq. (7)-(11), (26)-(31). Units: a is in units of value norm, margins in
norm² (erratum 1). Statements are names; their numbers are computed in `theory.head.ranked`,
`theory.editions.printed` and `theory.editions.repaired`. Imports sympy only.
"""

import sympy as sp

from theory.symbolic.approximations import NormalDensity
from theory.symbolic.operations import MaxOver, MinOver, SumOver, as_written
from theory.symbolic.symbols import (
    I_N,
    B,
    Delta,
    Delta_0,
    Delta_0_primed,
    I_content,
    J,
    M,
    S_in,
    S_in_primed,
    a,
    a_0,
    a_max_in,
    a_max_out,
    a_min_in,
    a_min_out,
    a_next,
    beta,
    c_proxy,
    d,
    i,
    j,
    k,
    kappa,
    l,
    mu,
    mu_of,
    rho,
    rho_0,
    rho_in,
    rho_out,
    sigma,
    w,
    xi,
)

S_IN = SumOver(a[k], k, I_content)
"""Summed effective weight of the selected content, eq. (7)."""

A_MIN_IN = MinOver(a[i], i, I_content)
"""Smallest effective weight of the selected content, eq. (7)."""

A_MAX_OUT = MaxOver(a[j], j, J)
"""Largest effective weight outside, eq. (7)."""

RHO_OUT = MaxOver(rho[j, k], j, J, k, I_content)
"""Largest cosine of a token outside with the selected content, eq. (7)."""

RHO_IN = MaxOver(rho[k, l], k, I_content, l, I_content)
"""Largest cosine of two distinct selected content tokens: eq. (8), defined nowhere (erratum 2)."""

A_MAX_IN_WITH_SINK = MaxOver(a[i], i, I_N)
"""a_max_in of eq. (8), the sink included: the default reading (erratum 15)."""

A_MAX_IN_WITHOUT_SINK = MaxOver(a[i], i, I_content)
"""a_max_in of eq. (8), the sink left out."""

DELTA = as_written(lambda: a_min_in**2 - 2 * a_max_out * S_in * rho_out)
"""Margin of a content token, eq. (8). Positive: selected tokens stay nearer to s than the rest."""

DELTA_0_OUT = as_written(lambda: a_0**2 - (S_in * rho_out) ** 2)
"""Margin of the sink, eq. (29) and Table 1: the reading that a derivation gives (erratum 2)."""

DELTA_0_IN = as_written(lambda: a_0**2 - (S_in * rho_in) ** 2)
"""Margin of the sink to the letter of eq. (8)."""

SCALE = as_written(lambda: a_max_in + a_max_out + S_in)
"""B of eq. (8). A length, where the tails need a squared length (erratum 1)."""

P_FLOOR = sp.Piecewise(
    (sp.exp(-(xi**2) / 2) / sp.sqrt(2 * sp.pi) * xi / (1 + xi**2), xi >= 0),
    (sp.Rational(1, 2), True),
)
"""Printed floor of a pairwise probability, eq. (9): φ(ξ)/(ξ+1/ξ), its limit at 0 (erratum 11)."""

P_FLOOR_PRINTED = as_written(
    lambda: sp.Piecewise((NormalDensity(xi) / (xi + 1 / xi), xi >= 0), (sp.Rational(1, 2), xi < 0))
)
"""Eq. (9) to the letter; `P_FLOOR` is its limit at ξ = 0, where 1/ξ is undefined."""

M_J = as_written(lambda: SumOver(a[l] * rho[l, j], l, I_content))
"""Mean inner product of direction j with the selected content, eq. (11)."""

MU = as_written(lambda: (a[j] ** 2 - a[i] ** 2) - 2 * a[j] * M[j] + 2 * a[i] * M[i])
"""Mean of D_j − D_i as printed, eq. (10): the sink's terms are missing (errata 4, 5)."""

SIGMA = as_written(lambda: B / sp.sqrt(2 * kappa * d))
"""Width of D_j − D_i as printed, eq. (10): in norm, against norm² of the mean (erratum 1)."""

SIGMA_REPAIRED = B**2 / sp.sqrt(2 * kappa * d)
"""Width of D_j − D_i with the scale squared (erratum 1)."""

VARIANCE_PROXY = as_written(lambda: c_proxy * B**2 / d)
"""Variance proxy of D_j − D_i, eq. (30): in norm², where that variance is in norm⁴ (erratum 1)."""

RHO_OUT_AT_MOST = sp.exp(-beta)
"""What eq. (7) says ρ_out cannot exceed; false where the sink is not selected (erratum 19)."""

XI = mu / sigma
"""Standardised margin of a pair, eq. (9)-(10)."""

MU_EXACT = (a[j] ** 2 - 2 * SumOver(a[j] * a[k] * rho[k, j], k, I_N)) - (
    a[i] ** 2 - 2 * SumOver(a[i] * a[k] * rho[k, i], k, I_N)
)
"""Exact mean of D_j − D_i: sums run over all of I_N, sink and own term included (erratum 4)."""

WIDTH = SumOver(a[k] * (a[i] + a[j]), k, I_N) - a[i] ** 2
"""w_ij, the scale-free width of the repaired tails, units norm²."""

TAIL = as_written(lambda: sp.exp(-kappa * d * (Delta / B) ** 2))
"""Printed tail of a content token, eq. (31)."""

TAIL_SINK = as_written(lambda: sp.exp(-kappa * d * (Delta_0 / B) ** 2))
"""Printed tail of the sink, eq. (31)."""

TAIL_REPAIRED = sp.exp(-kappa * d * (sp.Max(0, mu_of[i, j]) / w[i, j]) ** 2)
"""T_ij, the scale-free tail of a pair; proven with κ = 1/8 for independent uniform directions."""

DELTA_WITH_SINK = sp.Piecewise(
    (Delta + 2 * a_0 * rho_0 * (a_min_in - a_max_out), rho_0 >= 0),
    (Delta + 2 * a_0 * rho_0 * (a_max_in - a_min_out), True),
)
"""Coarse margin of a content token with the sink's terms (erratum 4); a_max_in without the sink."""

DELTA_0_WITH_SINK = sp.Piecewise(
    (Delta_0 + 2 * a_0 * rho_0 * (S_in - a_max_out), rho_0 >= 0),
    (Delta_0 + 2 * a_0 * rho_0 * (S_in - a_min_out), True),
)
"""Coarse margin of the sink with its own terms put back (erratum 4)."""

ENTRY_STEP = (
    a_max_out**2 - a_min_in**2 + 2 * rho_out * (a_max_out * S_in - a_next * (S_in + a_max_out))
)
"""Change of Δ, eq. (8), when the largest token outside enters I_N and a_next is then the largest
outside, ρ_out unchanged.
"""


def primed(expression: sp.Expr) -> sp.Expr:
    """Return the expression with S_in and Δ₀ as the appendix writes them, S'_in and Δ'₀."""
    return as_written(lambda: expression.xreplace({S_in: S_in_primed, Delta_0: Delta_0_primed}))


SPELLED_OUT = {Delta: DELTA, Delta_0: DELTA_0_OUT, B: SCALE}
"""What stands for the margins and the scale in the printed tails, Δ₀ as in eq. (29)."""
