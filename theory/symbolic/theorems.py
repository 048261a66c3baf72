"""Theorems 1-2 and Corollary 1 as printed, what repairs them, and the exact pairwise law of the sharp edition.

Source: arXiv 2602.01893, eq. (12)-(17); the sharp law stands under Model G (see `theory.editions.sharp.sharp_law`). Unitless. Imports sympy only.
"""

from __future__ import annotations

import sympy as sp

from theory.symbolic.margins import DELTA, DELTA_0_OUT, SCALE, TAIL, TAIL_SINK
from theory.symbolic.operations import MaxOver, Mean, MinOver, SumOver
from theory.symbolic.symbols import (
    I_N, B, Delta, Delta_0, Gamma_ii, Gamma_ij, Gamma_jj, J, L, N, P_lower, P_upper, R_lower, R_upper, T, beat,
    beat_ranked, count, d, i, j, kept, m, nu, p, p_floor, pi, r, safe, safe_most, spread, total,
)  # fmt: skip

LOSS = (L - N) * TAIL + (L - N) / N * TAIL_SINK
"""Printed union of tails in eq. (12) and (14). L + 1 − N tokens lie outside, not L − N (erratum 3)."""

PRECISION_LOWER = 1 / (1 + LOSS)
"""Eq. (12)."""

PRECISION_UPPER = 1 - MaxOver(p_floor[i, j], i, I_N, j, J) / (N + 1)
"""Eq. (13)."""

RECALL_LOWER = 1 - LOSS
"""Eq. (14)."""

RECALL_UPPER = SumOver(1 - MaxOver(p_floor[i, j], j, J), i, I_N) / N
"""Eq. (15)."""

F_INNER_LOWER = 2 * R_lower / (1 + R_lower)
"""Eq. (16), lower: false as stated, F(r_min) being concave in R (erratum 8)."""

F_INNER_UPPER = 2 * R_upper / (1 + R_upper)
"""Eq. (16), upper."""

F_OUTER_LOWER = 2 * P_lower / (1 + P_lower)
"""Eq. (17), lower."""

F_OUTER_UPPER = 2 * P_upper / (1 + P_upper)
"""Eq. (17), upper."""

SEPARATION = (Gamma_jj - Gamma_ii) / sp.sqrt((Gamma_ii + Gamma_jj) ** 2 - 4 * Gamma_ij**2)
"""r_ij, all the pairwise law depends on."""

PAIRWISE_LAW = sp.Piecewise(
    (sp.betainc_regularized(d / 2, sp.Rational(1, 2), 0, 1 - r**2) / 2, r >= 0),
    (1 - sp.betainc_regularized(d / 2, sp.Rational(1, 2), 0, 1 - r**2) / 2, True),
)
"""P{D_j ≤ D_i} under Model G: Student's distribution function at −√d·r/√(1−r²), d degrees of freedom."""

CHERNOFF = (1 - r**2) ** (d / 2)
"""Best Chernoff bound of the pairwise law, for r > 0."""

REPAIRED_PRECISION_LOWER = N / (N + SumOver(sp.Min(1, SumOver(p[i, j], i, I_N)), j, J))
"""Union bound with each outside token counted at most once, p_ij replaced by the repaired tails."""

REPAIRED_RECALL_LOWER = 1 - SumOver(sp.Min(1, SumOver(p[i, j], j, J)), i, I_N) / N
"""Union bound with each selected token counted at most once; with the exact p_ij it is the sharp lower bound."""

REPAIRED_PRECISION_UPPER = 1 - MaxOver(p[i, j], i, I_N, j, J) / (N + 1)
"""Eq. (13) with the normal probability of the pair in place of the floor: an approximation, no bound."""

SHARP_RECALL_UPPER = SumOver(1 - MaxOver(p[i, j], j, J), i, I_N) / N
"""Upper bound of E R with the exact pairwise law p_ij; with normal ones it is the repaired approximation."""

REPAIRED_F_INNER_LOWER = R_lower
"""F(r_min) ≥ R(r_min), as P(r_min) = 1 wherever R(r_min) > 0; not 2R/(1+R) of it (erratum 8)."""

REPAIRED_RECALL_UPPER, SHARP_RECALL_LOWER = SHARP_RECALL_UPPER, REPAIRED_RECALL_LOWER
"""The same expressions, of other p_ij."""

REPAIRED_F_OUTER_LOWER, REPAIRED_F_OUTER_UPPER, REPAIRED_F_INNER_UPPER = F_OUTER_LOWER, F_OUTER_UPPER, F_INNER_UPPER
"""As printed, of the repaired bounds on E P and E R."""

_LOW = sp.floor(total)
_FRACTION = total - _LOW

SHARP_PRECISION_LOWER = N / (N + _LOW) - _FRACTION * N / ((N + _LOW) * (N + _LOW + 1))
"""f_int(U), f(k) = N/(N+k) joined by straight lines between integers: Jensen's inequality for an integer count."""

SHARP_PRECISION_UPPER = 1 - sp.Sum(N / ((N + m - 1) * (N + m)) * pi[m], (m, 1, T - N))
"""1 − Σ_m δ_m π_(m), δ_m = f(m−1) − f(m): the comonotone coupling of the tokens outside."""

SHARP_F_OUTER_LOWER = 2 * N / (2 * N + _LOW) - _FRACTION * 2 * N / ((2 * N + _LOW) * (2 * N + _LOW + 1))
"""F_int(U), F(k) = 2N/(2N+k)."""

SHARP_F_OUTER_UPPER = 1 - sp.Sum(2 * N / ((2 * N + m - 1) * (2 * N + m)) * pi[m], (m, 1, T - N))
"""1 − Σ_m (F(m−1) − F(m)) π_(m)."""

SHARP_F_INNER_LOWER = sp.Sum(2 * N / ((N + m - 1) * (N + m)) * nu[m], (m, 1, N))
"""Σ_m (g(m) − g(m−1)) ν_(m), g(k) = 2k/(N+k), concave."""

_KEPT_LOW = sp.floor(kept)

SHARP_F_INNER_UPPER = 2 * _KEPT_LOW / (N + _KEPT_LOW) + (kept - _KEPT_LOW) * 2 * N / ((N + _KEPT_LOW) * (N + _KEPT_LOW + 1))
"""g_int(V), g joined by straight lines between integers."""

CONDITIONAL_RECALL_LOWER = SumOver(Mean(sp.Max(0, 1 - count[i])), i, I_N) / N
"""Markov's inequality given s and y_i."""

CONDITIONAL_RECALL_UPPER = SumOver(Mean(sp.Min(1 - MaxOver(beat[i, j], j, J), spread[i] / (spread[i] + count[i] ** 2))), i, I_N) / N
"""Cantelli's inequality given s and y_i, with Gebelein's bound of the variance."""

_WHOLE = sp.floor(count[i])

CONDITIONAL_PRECISION_LOWER = 1 - SumOver(Mean(1 - N / (N + _WHOLE) + (count[i] - _WHOLE) * N / ((N + _WHOLE) * (N + _WHOLE + 1))), i, I_N)
"""Jensen on the integers given s and y_i; K_out is the largest of the counts K_i."""

CONDITIONAL_PRECISION_UPPER = MinOver(
    Mean(
        sp.Min(
            1 - sp.Sum(N / ((N + m - 1) * (N + m)) * beat_ranked[i, m], (m, 1, T - N)),
            N / (N + count[i]) + spread[i] / (N + count[i]) ** 2,
        )
    ),
    i,
    I_N,
)
"""The comonotone coupling, or the variance of the count, given s and y_i; the best selected i."""

CONDITIONAL_F_OUTER_LOWER = 1 - SumOver(
    Mean(1 - 2 * N / (2 * N + _WHOLE) + (count[i] - _WHOLE) * 2 * N / ((2 * N + _WHOLE) * (2 * N + _WHOLE + 1))), i, I_N
)
"""As the lower bound of E P, with F(k) = 2N/(2N+k) for f."""

CONDITIONAL_F_OUTER_UPPER = MinOver(
    Mean(
        sp.Min(
            1 - sp.Sum(2 * N / ((2 * N + m - 1) * (2 * N + m)) * beat_ranked[i, m], (m, 1, T - N)),
            2 * N / (2 * N + count[i]) + spread[i] / (2 * N + count[i]) ** 2,
        )
    ),
    i,
    I_N,
)
"""As the upper bound of E P, with F(k) = 2N/(2N+k) for f."""

CONDITIONAL_F_INNER_LOWER = sp.Sum(2 * N / ((N + m - 1) * (N + m)) * safe[m], (m, 1, N))
"""Σ_m (g(m) − g(m−1)) lo_(m), g(k) = 2k/(N+k), concave; lo_i ≤ P{K_i = 0} by Markov's inequality."""

_SAFE = sp.floor(safe_most)

CONDITIONAL_F_INNER_UPPER = 2 * _SAFE / (N + _SAFE) + (safe_most - _SAFE) * 2 * N / ((N + _SAFE) * (N + _SAFE + 1))
"""g_int(Σ_i hi_i), hi_i ≥ P{K_i = 0}: Jensen's inequality for an integer count."""

SPELLED_OUT = {Delta: DELTA, Delta_0: DELTA_0_OUT, B: SCALE}
"""What stands for the margins and the scale in the printed tails, Δ₀ as in eq. (29)."""

COUNT_OF_LOSSES = (N - 1) * (L + 1 - N) / N
"""Pairs of a selected content token and a token outside, divided by N: what (L − N) stands for in (12) and (14) (erratum 3)."""

COUNT_OF_SINK_LOSSES = (L + 1 - N) / N
"""Tokens outside divided by N: what (L − N)/N stands for in (12) and (14) (erratum 3)."""
