"""Theorems 1-2 and Corollary 1 as printed, what repairs them, and the exact pairwise law of the sharp edition.

Source: arXiv 2602.01893, eq. (12)-(17); the sharp law stands under Model G (see `theory.sharp`). Unitless. Imports sympy only.
"""

from __future__ import annotations

import sympy as sp

from theory.margins import TAIL, TAIL_SINK
from theory.symbols import (
    I_N,
    Gamma_ii,
    Gamma_ij,
    Gamma_jj,
    J,
    L,
    MaxOver,
    N,
    P_lower,
    P_upper,
    R_lower,
    R_upper,
    SumOver,
    d,
    i,
    j,
    p,
    p_floor,
    r,
)

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

SHARP_RECALL_UPPER = SumOver(1 - MaxOver(p[i, j], j, J), i, I_N) / N
"""Upper bound of E R with the exact pairwise law."""
