"""Theorems 1-2 and Corollary 1 as printed, what repairs them, and the sharp and the conditional
bounds with the exact law of a pair.

Source: arXiv 2602.01893, eq. (12)-(17); the sharp law stands under Model G (see
`theory.editions.sharp.sharp_law`). Bounds are unitless. Statements are names; their numbers are
computed in `theory.editions`. Imports sympy only.
"""

import sympy as sp

from theory.symbolic.margins import TAIL, TAIL_SINK
from theory.symbolic.operations import MaxOver, Mean, MinOver, SumOver, as_written
from theory.symbolic.symbols import (
    I_N,
    Gamma_ii,
    Gamma_ij,
    Gamma_jj,
    J,
    L,
    N,
    P_lower,
    P_upper,
    R_lower,
    R_upper,
    T,
    beat,
    beat_ranked,
    count,
    d,
    i,
    j,
    kept,
    m,
    nu,
    p,
    p_floor,
    pi,
    r,
    safe,
    safe_most,
    spread,
    total,
)


def _interpolated(c: int, number: sp.Expr) -> sp.Expr:
    """Return cN/(cN + k), joined by straight lines between integers k, at `number`: Jensen's
    inequality for an integer count.
    """
    whole = sp.floor(number)
    return c * N / (c * N + whole) - (number - whole) * c * N / (
        (c * N + whole) * (c * N + whole + 1)
    )


def _interpolated_f_inner(number: sp.Expr) -> sp.Expr:
    """Return g(k) = 2k/(N+k), joined by straight lines between integers k, at `number`."""
    whole = sp.floor(number)
    return 2 * whole / (N + whole) + (number - whole) * 2 * N / ((N + whole) * (N + whole + 1))


def _comonotone(c: int, ranked: sp.Expr) -> sp.Expr:
    """Return 1 − Σ_m (h(m−1) − h(m)) ranked_m, h(k) = cN/(cN + k): the comonotone coupling of
    the tokens outside.
    """
    return 1 - sp.Sum(c * N / ((c * N + m - 1) * (c * N + m)) * ranked, (m, 1, T - N))


def _conditional_upper(c: int) -> sp.Expr:
    """Return the least over selected i of the mean of the comonotone coupling's bound, or that
    by the variance of the count.
    """
    by_variance = c * N / (c * N + count[i]) + spread[i] / (c * N + count[i]) ** 2
    return MinOver(Mean(sp.Min(_comonotone(c, beat_ranked[i, m]), by_variance)), i, I_N)


LOSS = as_written(lambda: (L - N) * TAIL + (L - N) / N * TAIL_SINK)
"""Printed union of tails in eq. (12) and (14). L + 1 − N tokens lie outside, not L − N (erratum
3).
"""

PRECISION_LOWER = as_written(lambda: (1 + LOSS) ** -1)
"""Eq. (12)."""

PRECISION_UPPER = as_written(lambda: 1 - 1 / (N + 1) * MaxOver(p_floor[i, j], i, I_N, j, J))
"""Eq. (13)."""

RECALL_LOWER = as_written(lambda: 1 - (L - N) * TAIL - (L - N) / N * TAIL_SINK)
"""Eq. (14)."""

RECALL_UPPER = as_written(lambda: 1 / N * SumOver(1 - MaxOver(p_floor[i, j], j, J), i, I_N))
"""Eq. (15)."""

F_INNER_LOWER = as_written(lambda: 2 * R_lower / (1 + R_lower))
"""Eq. (16), lower: false as stated, F(r_min) being concave in R (erratum 8)."""

F_INNER_UPPER = as_written(lambda: 2 * R_upper / (1 + R_upper))
"""Eq. (16), upper."""

F_OUTER_LOWER = as_written(lambda: 2 * P_lower / (1 + P_lower))
"""Eq. (17), lower."""

F_OUTER_UPPER = as_written(lambda: 2 * P_upper / (1 + P_upper))
"""Eq. (17), upper."""

SEPARATION = (Gamma_jj - Gamma_ii) / sp.sqrt((Gamma_ii + Gamma_jj) ** 2 - 4 * Gamma_ij**2)
"""r_ij, all the pairwise law depends on."""

_BEYOND = sp.betainc_regularized(d / 2, sp.Rational(1, 2), 0, 1 - r**2) / 2

PAIRWISE_LAW = sp.Piecewise((_BEYOND, r >= 0), (1 - _BEYOND, True))
"""P{D_j ≤ D_i} under Model G: Student's CDF at −√d·r/√(1−r²), d degrees of freedom."""

CHERNOFF = (1 - r**2) ** (d / 2)
"""Best Chernoff bound of the pairwise law, for r > 0."""

REPAIRED_PRECISION_LOWER = N / (N + SumOver(sp.Min(1, SumOver(p[i, j], i, I_N)), j, J))
"""Union bound with each outside token counted at most once, p_ij replaced by the repaired tails."""

REPAIRED_RECALL_LOWER = 1 - SumOver(sp.Min(1, SumOver(p[i, j], j, J)), i, I_N) / N
"""Union bound with each selected token counted at most once; with the exact p_ij it is the sharp
lower bound.
"""

REPAIRED_PRECISION_UPPER = 1 - MaxOver(p[i, j], i, I_N, j, J) / (N + 1)
"""Eq. (13) with the pair's normal probability in place of the floor: an approximation, no bound."""

SHARP_RECALL_UPPER = SumOver(1 - MaxOver(p[i, j], j, J), i, I_N) / N
"""Upper bound of E R with the exact p_ij; with normal ones it is the repaired approximation."""

REPAIRED_F_INNER_LOWER = R_lower
"""F(r_min) ≥ R(r_min), as P(r_min) = 1 wherever R(r_min) > 0; not 2R/(1+R) of it (erratum 8)."""

REPAIRED_RECALL_UPPER, SHARP_RECALL_LOWER = SHARP_RECALL_UPPER, REPAIRED_RECALL_LOWER
"""The same expressions, of other p_ij."""

REPAIRED_F_OUTER_LOWER, REPAIRED_F_OUTER_UPPER, REPAIRED_F_INNER_UPPER = (
    F_OUTER_LOWER,
    F_OUTER_UPPER,
    F_INNER_UPPER,
)
"""As printed, of the repaired bounds on E P and E R."""

SHARP_PRECISION_LOWER = _interpolated(1, total)
"""f_int(U), f(k) = N/(N+k), linear between integers: Jensen's inequality for an integer count."""

SHARP_PRECISION_UPPER = _comonotone(1, pi[m])
"""1 − Σ_m δ_m π_(m), δ_m = f(m−1) − f(m): the comonotone coupling of the tokens outside."""

SHARP_F_OUTER_LOWER = _interpolated(2, total)
"""F_int(U), F(k) = 2N/(2N+k)."""

SHARP_F_OUTER_UPPER = _comonotone(2, pi[m])
"""1 − Σ_m (F(m−1) − F(m)) π_(m)."""

SHARP_F_INNER_LOWER = sp.Sum(2 * N / ((N + m - 1) * (N + m)) * nu[m], (m, 1, N))
"""Σ_m (g(m) − g(m−1)) ν_(m), g(k) = 2k/(N+k), concave."""

SHARP_F_INNER_UPPER = _interpolated_f_inner(kept)
"""g_int(V), g joined by straight lines between integers."""

CONDITIONAL_RECALL_LOWER = SumOver(Mean(sp.Max(0, 1 - count[i])), i, I_N) / N
"""Markov's inequality given s and y_i."""

CONDITIONAL_RECALL_UPPER = (
    SumOver(
        Mean(sp.Min(1 - MaxOver(beat[i, j], j, J), spread[i] / (spread[i] + count[i] ** 2))), i, I_N
    )
    / N
)
"""Cantelli's inequality given s and y_i, with Gebelein's bound of the variance."""

CONDITIONAL_PRECISION_LOWER = 1 - SumOver(Mean(1 - _interpolated(1, count[i])), i, I_N)
"""Jensen on the integers given s and y_i; K_out is the largest of the counts K_i."""

CONDITIONAL_PRECISION_UPPER = _conditional_upper(1)
"""The comonotone coupling, or the variance of the count, given s and y_i; the best selected i."""

CONDITIONAL_F_OUTER_LOWER = 1 - SumOver(Mean(1 - _interpolated(2, count[i])), i, I_N)
"""As the lower bound of E P, with F(k) = 2N/(2N+k) for f."""

CONDITIONAL_F_OUTER_UPPER = _conditional_upper(2)
"""As the upper bound of E P, with F(k) = 2N/(2N+k) for f."""

CONDITIONAL_F_INNER_LOWER = sp.Sum(2 * N / ((N + m - 1) * (N + m)) * safe[m], (m, 1, N))
"""Σ_m (g(m) − g(m−1)) lo_(m), g(k) = 2k/(N+k), concave; lo_i ≤ P{K_i = 0} by Markov."""

CONDITIONAL_F_INNER_UPPER = _interpolated_f_inner(safe_most)
"""g_int(Σ_i hi_i), hi_i ≥ P{K_i = 0}: Jensen's inequality for an integer count."""

COUNT_OF_LOSSES = (N - 1) * (L + 1 - N) / N
"""Content pairs across the cut, over N: what L − N stands for in (12) and (14) (erratum 3)."""

COUNT_OF_SINK_LOSSES = (L + 1 - N) / N
"""Tokens outside divided by N: what (L − N)/N stands for in (12) and (14) (erratum 3)."""
