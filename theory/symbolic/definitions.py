"""Statements of the printed setting: representative, radii and scores, Assumptions 1-3, notation of
the appendix, the reduction to pairs, and the effect of the sink.

Source: arXiv 2602.01893, eq. (1)-(6), (18)-(25), (32)-(33), Definitions 1-3, Assumptions 1-3. Units
as in `theory.symbolic.symbols`. Imports sympy only.
"""
# ruff: noqa: F403, F405 (formulas use most of the symbols)

from __future__ import annotations

from functools import partial

import sympy as sp

from theory.symbolic.operations import Indicator, Inner, MaxOver, MinOver, Norm, SumOver, as_written
from theory.symbolic.record import Entry, definition, stated
from theory.symbolic.symbols import *

APPENDIX = "Appendix A.1"
AT_R_MIN, AT_R_MAX = r"(r_{\min}, N)", r"(r_{\max}, N)"
BALL = "a closed ball, as in (20); Definitions 1 and 2 do not specify it"
OPEN_BALL = "an open ball that contains a selected token"
ALWAYS = "none: true for any numbers D"

EVERYWHERE = "every layer and head; true in expectation at best"
"""Scope of Assumption 2."""

_section, _appendix = partial(stated, part="Section 3"), partial(stated, part=APPENDIX)
_notation = partial(definition, part=APPENDIX)
_effect = partial(stated, part="Appendix A.2")


def _of_token(name: str, letter: str, expression: sp.Expr) -> Entry:
    """Return the definition in (18) of a quantity of every token ℓ."""
    left, left_latex = f"{letter}[l]", rf"{letter}_{{\ell}}"
    return _notation(name, "18", of=letter, left=left, left_latex=left_latex)(expression)


# Eq. (1)-(5) and the two radii
REPRESENTATIVE = definition("representative", "1", of="s", part="Section 2")(
    as_written(lambda: SumOver(alpha[k] * v[k], k, I_N))
)

_INSIDE = as_written(lambda: SumOver(Indicator(Norm(alpha[i] * v[i] - s) <= radius), i, I_N))
_OUTSIDE = as_written(lambda: SumOver(Indicator(Norm(alpha[j] * v[j] - s) <= radius), j, J))

PRECISION = stated("precision", "precision at a radius", "2", "Definition 1")(
    "P(r, N)", "=", as_written(lambda: _INSIDE / (_INSIDE + _OUTSIDE)), BALL
)
RECALL = stated("recall", "recall at a radius", "3", "Definition 2")(
    "R(r, N)", "=", as_written(lambda: _INSIDE / N), BALL
)
R_MIN = definition("r_min", "", part="Section 3", conditions="N ≤ L")(
    as_written(lambda: MinOver(Norm(alpha[j] * v[j] - s), j, J))
)
R_MAX = definition("r_max", "", part="Section 3")(
    as_written(lambda: MaxOver(Norm(alpha[i] * v[i] - s), i, I_N))
)
PRECISION_INSIDE = _section("precision_inside", "precision at r_min", "4", errata=(14,))(
    ("P(r_min, N)", f"P{AT_R_MIN}"), "==", sp.Integer(1), OPEN_BALL
)
RECALL_OUTSIDE = _section("recall_outside", "recall at r_max", "4")(
    ("R(r_max, N)", f"R{AT_R_MAX}"), "==", sp.Integer(1), "a closed ball"
)
F_SCORE = stated("f_score", "harmonic mean of precision and recall", "5", "Definition 3")(
    "F(r, N)", "=", as_written(lambda: 2 * P * R / (P + R))
)

# Eq. (6) and Assumptions 1-3
STABLE_NORMS = stated("stable_norms", "stable norms", part="Assumption 1.1")(
    Norm(v[i]), "=", C, "i > 0, C > 0", "norm"
)
SINK_NORM = stated("sink_norm", "norm of the sink", part="Assumption 1.2")(
    Norm(v[0]), "=", as_written(lambda: lam * C), "0 < λ ≪ 1", "norm"
)
COSINE = stated("cosine", "cosine of two value states", "6", "Section 3.2", errata=(35,))(
    rho[i, j], "=", as_written(lambda: Inner(v[i], v[j]) / (Norm(v[i]) * Norm(v[j])))
)
SIMILARITY = stated(
    "similarity_decay", "exponential decay of similarity", part="Assumption 2.1", errata=(9, 20, 35)
)(
    rho[i, j],
    "=",
    as_written(lambda: sp.exp(-beta * sp.Abs(i - j))),
    f"i, j > 0, β > 0; {EVERYWHERE}",
)
SINK_SIMILARITY = stated(
    "sink_similarity", "similarity of the sink", part="Assumption 2.2", errata=(9, 20)
)(rho[0, j], "=", rho_0, f"j ≠ 0; {EVERYWHERE}; |ρ₀| at most the feasible edge")
WEIGHTS = stated(
    "weight_profile", "attention weights in four phases", part="Assumption 3", errata=(10, 28, 36)
)(
    alpha[i],
    "=",
    as_written(
        lambda: sp.Piecewise(  # the cases are tried in turn
            (p_sink, sp.Eq(i, 0)),
            (p_base, i <= T_1),
            (p_base * (1 + eta * sp.cos(omega * i)), i <= T_2),
            (p_base * sp.exp(eta * (i - T_2)), True),
        )
    ),
    "0 ≤ T₁ ≤ T₂ ≤ L, 0 < η ≤ 1; the weights should sum to 1",
)

# Eq. (18)-(20): directions, contributions, distances, radii and counts, and the counting forms
DIRECTION = _of_token("direction", "u", v[l] / Norm(v[l]))
EFFECTIVE_WEIGHT = _of_token("effective_weight", "a", as_written(lambda: alpha[l] * Norm(v[l])))
CONTRIBUTION = _of_token("contribution", "y", as_written(lambda: a[l] * u[l]))
REPRESENTATIVE_OF_CONTRIBUTIONS = _notation("representative_of_contributions", "18", of="s")(
    SumOver(y[k], k, I_N)
)
SQUARED_DISTANCE = _of_token("squared_distance", "D", as_written(lambda: Norm(s - y[l]) ** 2))
RADII = tuple(
    _appendix(f"{name}_of_distances", f"{name} from squared distances", "18")(
        distance, "=", extreme(sp.sqrt(D[index]), index, members), units="norm"
    )
    for name, distance, extreme, index, members in (
        ("r_max", r_max, MaxOver, i, I_N),
        ("r_min", r_min, MinOver, j, J),
    )
)
SQUARED_RADII = tuple(
    stated(f"{name}_squared", f"square of {name}", "19")(distance**2, "=", square, units="norm²")
    for name, distance, square in (
        ("r_max", r_max, MaxOver(D[i], i, I_N)),
        ("r_min", r_min, MinOver(D[j], j, J)),
    )
)
BY_COUNT = tuple(
    stated(f"{name}_by_count", f"{name} at {at} by counting", part=f"{APPENDIX}, after (18)")(
        (f"{letter}({at}, N)", left_latex), "=", share
    )
    for name, letter, at, share, left_latex in (
        ("precision", "P", "r_max", as_written(lambda: N / (N + K_out)), f"P{AT_R_MAX}"),
        ("recall", "R", "r_min", K_in / N, f"R{AT_R_MIN}"),
    )
)
COUNT_OUT = _notation("K_out", "20")(SumOver(Indicator(D[j] <= r_max**2), j, J))
COUNT_IN = _notation("K_in", "20", (14,))(SumOver(Indicator(D[i] <= r_min**2), i, I_N))

# Eq. (21)-(25)
_BEATING_SOME = SumOver(Indicator(D[j] <= D[i]), j, J)
_PAIRS_BY_SELECTED = SumOver(_BEATING_SOME, i, I_N)

REDUCTIONS = (
    _appendix(
        "outside_within_reach", "a token outside counts only if it beats a selected one", "21"
    )(Indicator(D[j] <= r_max**2), "<=", SumOver(Indicator(D[j] <= D[i]), i, I_N), ALWAYS),
    _appendix("K_out_at_most", "K_out counts at most the pairs", "22")(
        K_out, "<=", SumOver(SumOver(Indicator(D[j] <= D[i]), i, I_N), j, J), ALWAYS
    ),
    _appendix("inside_out_of_reach", "a selected token is lost only if one outside beats it", "23")(
        Indicator(D[i] > r_min**2),
        "<=",
        _BEATING_SOME,
        ALWAYS,
        chain=(("<=", SumOver(Indicator(D[i] >= D[j]), j, J)), ("=", _BEATING_SOME)),
    ),
    _appendix("K_in_at_least", "N - K_in counts at most the pairs", "24")(
        ("N - K_in", r"N - K_{\mathrm{in}}"),
        "<=",
        _PAIRS_BY_SELECTED,
        ALWAYS,
        chain=(("=", SumOver(Indicator(D[i] > r_min**2), i, I_N)), ("<=", _PAIRS_BY_SELECTED)),
    ),
)
DIFFERENCE = _appendix(
    "difference", "difference of the squared distances of a pair", "25", errata=(20,)
)(
    ("X[i, j]", "X_{ij}"),
    "=",
    as_written(lambda: a[j] ** 2 - a[i] ** 2 - 2 * SumOver(Inner(y[k], y[j] - y[i]), k, I_N)),
    "X_ij = D_j − D_i; a number, not a random variable, if Assumption 2 is taken literally",
    "norm²",
)

# Eq. (32)-(33), the unnumbered step between them, and the corrected statement
RECALL_AS_DISTRIBUTION = _effect(
    "recall_as_distribution", "recall as a distribution function", "32", errata=(33,)
)(
    "R(r, N)",
    "=",
    RECALL.expression,
    chain=(("=", as_written(lambda: 1 / N * _INSIDE)), ("=", F_in)),
)
DISTANCE_SHIFT = stated(
    "distance_shift",
    "distance at a negative ρ₀ from that at ρ₀ = 0",
    part="Appendix A.2, between (32) and (33)",
    errata=(27, 33),
)(
    ("d_neg[i]", r"d_i^{\mathrm{neg}}"),
    "~",
    as_written(lambda: d_ort[i] + a[i] * S_in * rho_0 / d_ort[i]),
    units="norm",
)
"""a_i stands in place of a₀ (erratum 27)."""
_RECALL_SHIFT = as_written(lambda: slope * shift)
RECALL_SHIFT = _effect(
    "recall_shift", "change of recall from ρ₀ = 0 to a negative ρ₀", "33", errata=(27, 30, 33)
)(
    ("dR(r, N)", r"\Delta R(r, N)"),
    "~",
    _RECALL_SHIFT,
    "printed: negative; Δr = r_min at ρ₀ = 0 minus r_min at ρ₀ < 0",
    chain=(("~", _RECALL_SHIFT), ("<", sp.S.Zero)),
)
DISTANCE_SHIFT_EXACT = stated(
    "distance_shift_exact", "mean squared distance at ρ₀ minus that at ρ₀ = 0", edition="repaired"
)(
    ("dD[l]", r"\Delta\mathbb{E}D_{\ell}"),
    "=",
    2 * a_0 * rho_0 * (S_in - a[l]),
    "0 ∈ I_N, l ≠ 0 (0 for l = 0)",
    "norm²",
)
"""A negative ρ₀ moves l closer if a_l < S_in."""
