"""Definitions in print: the setting, the metrics, the assumptions and the steps of the proofs.

Source: arXiv 2602.01893, eq. (1)-(6), (18)-(25), (32)-(33), Assumptions 1-3. Units as in
`theory.symbolic.symbols`. A definition is a name. Imports sympy only.
"""

import sympy as sp

from theory.symbolic.operations import (
    Indicator,
    Inner,
    MaxOver,
    MinOver,
    Norm,
    SumOver,
    as_written,
)
from theory.symbolic.symbols import (
    I_N,
    T_1,
    T_2,
    C,
    D,
    J,
    K_in,
    K_out,
    N,
    P,
    R,
    S_in,
    a,
    a_0,
    alpha,
    beta,
    d_ort,
    eta,
    i,
    j,
    k,
    l,
    lam,
    omega,
    p_base,
    p_sink,
    r_max,
    r_min,
    radius,
    rho_0,
    s,
    shift,
    slope,
    u,
    v,
    y,
)

REPRESENTATIVE = as_written(lambda: SumOver(alpha[k] * v[k], k, I_N))
"""s, eq. (1)."""

_INSIDE = as_written(lambda: SumOver(Indicator(Norm(alpha[i] * v[i] - s) <= radius), i, I_N))
_OUTSIDE = as_written(lambda: SumOver(Indicator(Norm(alpha[j] * v[j] - s) <= radius), j, J))

PRECISION = as_written(lambda: _INSIDE / (_INSIDE + _OUTSIDE))
"""P(r, N), Definition 1, eq. (2), with a closed ball (erratum 14)."""

RECALL = as_written(lambda: _INSIDE / N)
"""R(r, N), Definition 2, eq. (3), and again eq. (32)."""

RECALL_BY_SHARE = as_written(lambda: 1 / N * _INSIDE)
"""R(r, N) as eq. (32) writes it."""

R_MIN = as_written(lambda: MinOver(Norm(alpha[j] * v[j] - s), j, J))
"""r_min, Section 3."""

R_MAX = as_written(lambda: MaxOver(Norm(alpha[i] * v[i] - s), i, I_N))
"""r_max, Section 3."""

F_SCORE = as_written(lambda: 2 * P * R / (P + R))
"""F(r, N), Definition 3, eq. (5)."""

COSINE = as_written(lambda: Inner(v[i], v[j]) / (Norm(v[i]) * Norm(v[j])))
"""cos(v_i, v_j), eq. (6)."""

SIMILARITY = as_written(lambda: sp.exp(-beta * sp.Abs(i - j)))
"""Assumption 2.1; true at best in expectation (erratum 20)."""

SINK_NORM = as_written(lambda: lam * C)
"""Assumption 1.2."""

WEIGHTS = as_written(
    lambda: sp.Piecewise(
        (p_sink, sp.Eq(i, 0)),
        (p_base, i <= T_1),
        (p_base * (1 + eta * sp.cos(omega * i)), i <= T_2),
        (p_base * sp.exp(eta * (i - T_2)), True),
    )
)
"""α_i of Assumption 3; the cases are tried in turn."""

DIRECTION = v[l] / Norm(v[l])
"""u_l, eq. (18)."""

EFFECTIVE_WEIGHT = as_written(lambda: alpha[l] * Norm(v[l]))
"""a_l, eq. (18)."""

CONTRIBUTION = as_written(lambda: a[l] * u[l])
"""y_l, eq. (18)."""

REPRESENTATIVE_OF_CONTRIBUTIONS = SumOver(y[k], k, I_N)
"""s, eq. (18)."""

SQUARED_DISTANCE = as_written(lambda: Norm(s - y[l]) ** 2)
"""D_l, eq. (18)."""

R_MAX_SQUARED = MaxOver(D[i], i, I_N)
"""r_max², eq. (19)."""

R_MIN_SQUARED = MinOver(D[j], j, J)
"""r_min², eq. (19)."""

COUNT_OUT = SumOver(Indicator(D[j] <= r_max**2), j, J)
"""K_out, eq. (20)."""

COUNT_IN = SumOver(Indicator(D[i] <= r_min**2), i, I_N)
"""K_in, eq. (20)."""

PRECISION_BY_COUNT = as_written(lambda: N / (N + K_out))
"""P(r_max, N), after eq. (18)."""

RECALL_BY_COUNT = K_in / N
"""R(r_min, N), after eq. (18)."""

BEATEN_BY_SOME = SumOver(Indicator(D[j] <= D[i]), i, I_N)
"""Right side of eq. (21)."""

BEATING_SOME = SumOver(Indicator(D[j] <= D[i]), j, J)
"""Right side of eq. (23)."""

BEATING_SOME_TURNED = SumOver(Indicator(D[i] >= D[j]), j, J)
"""Middle term of eq. (23)."""

PAIRS = SumOver(SumOver(Indicator(D[j] <= D[i]), i, I_N), j, J)
"""Right side of eq. (22)."""

OUT_OF_REACH = SumOver(Indicator(D[i] > r_min**2), i, I_N)
"""Middle term of eq. (24)."""

PAIRS_BY_SELECTED = SumOver(SumOver(Indicator(D[j] <= D[i]), j, J), i, I_N)
"""Right side of eq. (24)."""

DIFFERENCE = as_written(
    lambda: a[j] ** 2 - a[i] ** 2 - 2 * SumOver(Inner(y[k], y[j] - y[i]), k, I_N)
)
"""X_ij = D_j − D_i, eq. (25)."""

DISTANCE_SHIFT = as_written(lambda: d_ort[i] + a[i] * S_in * rho_0 / d_ort[i])
"""d_i at ρ₀ < 0 from that at 0, between eq. (32) and (33): a_i where a₀ belongs (erratum 27)."""

DISTANCE_SHIFT_EXACT = 2 * a_0 * rho_0 * (S_in - a[l])
"""E D_l at ρ₀ less E D_l at ρ₀ = 0, for l ≠ 0 with the sink selected (0 for l = 0): negative
ρ₀ draws l closer where a_l < S_in.
"""

RECALL_SHIFT = as_written(lambda: slope * shift)
"""ΔR, eq. (33)."""
