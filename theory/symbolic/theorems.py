"""Statements of Theorems 1-2 and Corollary 1: printed, repaired, sharp and conditional bounds, and
the exact pairwise law.

Source: arXiv 2602.01893, eq. (12)-(17); the other editions replace eq. (7)-(17) and (30)-(31). The
sharp law holds under Model G (see `theory.editions.sharp.sharp_law`). Bounds are unitless. Numbers
are computed in `theory.editions`. Imports sympy only.
"""
# ruff: noqa: F403, F405 (formulas use most of the symbols)

from functools import partial

import sympy as sp

from theory.symbolic.margins import TAIL, TAIL_SINK
from theory.symbolic.operations import MaxOver, Mean, MinOver, SumOver, as_written
from theory.symbolic.record import (
    MEANINGS,
    MODEL_G,
    NO_CONDITIONS,
    PRINTED_CONDITIONS,
    UNIT,
    WITH_SINK,
    bound,
    stated,
)
from theory.symbolic.symbols import *

INDEPENDENT = f"{UNIT}; p[i, j] is the repaired tail, κ = 1/8"
NO_BOUND = "an approximation, not a bound"
NORMAL_PAIR = (
    f"{NO_BOUND}: p[i, j] of a normal difference with the exact mean (mu_exact) and, for unit"
    " directions, its variance to first order in 1/d"
)
GIVEN_TOKEN = f"{MODEL_G}; means over s and y_i"

LOWER_ERRATA = (1, 3, 13, 16, 17, 19, 32, 37, 38, 39)
UPPER_ERRATA = (1, 4, 5, 7, 11, 12, 32, 37)
"""Errata of both printed lower bounds, and of both printed upper bounds."""

_printed = partial(bound, "printed", conditions=PRINTED_CONDITIONS)
_unproven = partial(bound, "printed", conditions=NO_CONDITIONS)
_repaired = partial(stated, edition="repaired")
_sharp = partial(stated, edition="sharp")


def _interpolated(c: int, number: sp.Expr) -> sp.Expr:
    """Return cN/(cN + k), linear between integers k, at `number`: Jensen's inequality."""
    whole = sp.floor(number)
    return c * N / (c * N + whole) - (number - whole) * c * N / (
        (c * N + whole) * (c * N + whole + 1)
    )


def _interpolated_f_inner(number: sp.Expr) -> sp.Expr:
    """Return g(k) = 2k/(N+k), linear between integers k, at `number`."""
    whole = sp.floor(number)
    return 2 * whole / (N + whole) + (number - whole) * 2 * N / ((N + whole) * (N + whole + 1))


def _comonotone(c: int, ranked: sp.Expr) -> sp.Expr:
    """Return 1 − Σ_m (h(m−1) − h(m)) ranked_m, h(k) = cN/(cN + k): comonotone coupling."""
    return 1 - sp.Sum(c * N / ((c * N + m - 1) * (c * N + m)) * ranked, (m, 1, T - N))


def _comonotone_f_inner(ranked: sp.Expr) -> sp.Expr:
    """Return Σ_m (g(m) − g(m−1)) ranked_m, g(k) = 2k/(N+k), concave."""
    return sp.Sum(2 * N / ((N + m - 1) * (N + m)) * ranked, (m, 1, N))


def _harmonic(value: sp.Symbol) -> sp.Expr:
    """Return the F-score of a value with 1, as printed."""
    return as_written(lambda: 2 * value / (1 + value))


def _conditional_lower(c: int) -> sp.Expr:
    """Return Jensen's bound on the integers given s and y_i; K_out is the largest of the K_i."""
    return 1 - SumOver(Mean(1 - _interpolated(c, count[i])), i, I_N)


def _conditional_upper(c: int) -> sp.Expr:
    """Return min_i of the mean of the smaller: comonotone coupling, variance of the count."""
    by_variance = c * N / (c * N + count[i]) + spread[i] / (c * N + count[i]) ** 2
    return MinOver(Mean(sp.Min(_comonotone(c, beat_ranked[i, m]), by_variance)), i, I_N)


# Eq. (12)-(17). Of the tokens 0..L, L + 1 − N are unselected (erratum 3).
_LOSS = as_written(lambda: (L - N) * TAIL + (L - N) / N * TAIL_SINK)

PRECISION_LOWER = _printed("precision_lower", equation="12", part="Theorem 1", errata=LOWER_ERRATA)(
    as_written(lambda: (1 + _LOSS) ** -1)
)
PRECISION_UPPER = _unproven(
    "precision_upper", equation="13", part="Theorem 1", errata=UPPER_ERRATA
)(as_written(lambda: 1 - 1 / (N + 1) * MaxOver(p_floor[i, j], i, I_N, j, J)))
RECALL_LOWER = _printed(
    "recall_lower",
    equation="14",
    part="Theorem 2",
    errata=tuple(sorted((*LOWER_ERRATA, 18, 30, 31))),
)(as_written(lambda: 1 - (L - N) * TAIL - (L - N) / N * TAIL_SINK))
RECALL_UPPER = _unproven("recall_upper", equation="15", part="Theorem 2", errata=UPPER_ERRATA)(
    as_written(lambda: 1 / N * SumOver(1 - MaxOver(p_floor[i, j], j, J), i, I_N))
)
F_INNER_LOWER, F_INNER_UPPER, F_OUTER_LOWER, F_OUTER_UPPER = (
    bound("printed", name, conditions, equation=equation, part="Corollary 1", errata=errata)(
        _harmonic(value)
    )
    for name, value, conditions, equation, errata in (
        ("f_inner_lower", R_lower, NO_CONDITIONS, "16", (8, 18, 37)),  # F(r_min) is concave in R
        ("f_inner_upper", R_upper, NO_CONDITIONS, "16", (7, 37)),
        ("f_outer_lower", P_lower, PRINTED_CONDITIONS, "17", (8, 37)),
        ("f_outer_upper", P_upper, NO_CONDITIONS, "17", (7, 37)),
    )
)

# Repaired counts, then the bounds; pairs and margins are in `theory.symbolic.margins`
COUNT_OF_LOSSES, COUNT_OF_SINK_LOSSES = (
    _repaired(name, title)((name, "n"), "=", value, WITH_SINK)
    for name, title, value in (
        (
            "count_of_losses",
            "content pairs per selected token, in place of L - N",
            (N - 1) * (L + 1 - N) / N,
        ),
        (
            "count_of_sink_losses",
            "sink pairs per selected token, in place of (L - N)/N",
            (L + 1 - N) / N,
        ),
    )
)
"""Correct values of L − N and (L − N)/N in (12) and (14) (erratum 3)."""

# Union bounds with each token counted at most once; with the exact p_ij they are sharp
_UNION_PRECISION = N / (N + SumOver(sp.Min(1, SumOver(p[i, j], i, I_N)), j, J))
_UNION_RECALL = 1 - SumOver(sp.Min(1, SumOver(p[i, j], j, J)), i, I_N) / N
_RECALL_OF_LARGEST = SumOver(1 - MaxOver(p[i, j], j, J), i, I_N) / N

REPAIRED = tuple(
    bound("repaired", name, conditions)(value)
    for name, value, conditions in (
        ("precision_lower", _UNION_PRECISION, INDEPENDENT),
        ("recall_lower", _UNION_RECALL, INDEPENDENT),
        ("f_outer_lower", F_OUTER_LOWER.expression, f"P_lower is repaired_precision_lower; {UNIT}"),
        # F(r_min) ≥ R(r_min), since P(r_min) = 1 if R(r_min) > 0; not 2R/(1+R) (erratum 8)
        ("f_inner_lower", R_lower, f"R_lower is repaired_recall_lower; {UNIT}"),
        # eq. (13) with the normal pairwise probability in place of the floor
        ("precision_upper", 1 - MaxOver(p[i, j], i, I_N, j, J) / (N + 1), NORMAL_PAIR),
        ("recall_upper", _RECALL_OF_LARGEST, NORMAL_PAIR),
        (
            "f_outer_upper",
            F_OUTER_UPPER.expression,
            f"P_upper is repaired_precision_upper; {NO_BOUND}",
        ),
        (
            "f_inner_upper",
            F_INNER_UPPER.expression,
            f"R_upper is repaired_recall_upper; {NO_BOUND}",
        ),
    )
)

# The exact law of a pair, then the bounds
SEPARATION = _sharp("separation", "standardised separation of a pair")(
    ("r", "r_{ij}"),
    "=",
    (Gamma_jj - Gamma_ii) / sp.sqrt((Gamma_ii + Gamma_jj) ** 2 - 4 * Gamma_ij**2),
    MODEL_G,
)
_BEYOND = sp.betainc_regularized(d / 2, sp.Rational(1, 2), 0, 1 - r**2) / 2
PAIRWISE_LAW = _sharp("pairwise_law", "exact law of a pair")(
    ("p[i, j]", "p_{ij}"), "=", sp.Piecewise((_BEYOND, r >= 0), (1 - _BEYOND, True)), MODEL_G
)
"""Student's distribution function at −√d·r/√(1−r²), d degrees of freedom."""
CHERNOFF = _sharp("chernoff", "best Chernoff bound of a pair")(
    ("p[i, j]", "p_{ij}"), "<=", (1 - r**2) ** (d / 2), f"{MODEL_G}; r > 0"
)
SHARP = tuple(
    bound("sharp", name, MODEL_G)(value)
    for name, value in (
        ("precision_lower", _interpolated(1, total)),
        ("precision_upper", _comonotone(1, pi[m])),
        ("recall_lower", _UNION_RECALL),
        ("recall_upper", _RECALL_OF_LARGEST),
        ("f_outer_lower", _interpolated(2, total)),
        ("f_outer_upper", _comonotone(2, pi[m])),
        ("f_inner_lower", _comonotone_f_inner(nu[m])),
        ("f_inner_upper", _interpolated_f_inner(kept)),
    )
)

# The sharp argument given the representative and one selected token
CONDITIONAL_COUNT = stated("conditional_count", MEANINGS["count"].meaning, edition="conditional")(
    count[i], "=", SumOver(beat[i, j], j, J), f"i ∈ I_N; {MODEL_G}"
)
# P{K_i = 0} is at most 1 − max_j F_j, and at most V/(V + κ²): Cantelli's inequality with
# Gebelein's bound of the variance
_NONE_NEARER = sp.Min(1 - MaxOver(beat[i, j], j, J), spread[i] / (spread[i] + count[i] ** 2))

CONDITIONAL = tuple(
    bound("conditional", name, GIVEN_TOKEN)(value)
    for name, value in (
        ("precision_lower", _conditional_lower(1)),
        ("precision_upper", _conditional_upper(1)),
        ("recall_lower", SumOver(Mean(sp.Max(0, 1 - count[i])), i, I_N) / N),  # Markov
        ("recall_upper", SumOver(Mean(_NONE_NEARER), i, I_N) / N),
        ("f_outer_lower", _conditional_lower(2)),
        ("f_outer_upper", _conditional_upper(2)),
        ("f_inner_lower", _comonotone_f_inner(safe[m])),  # safe_i ≤ P{K_i = 0} by Markov
        ("f_inner_upper", _interpolated_f_inner(safe_most)),  # Jensen on the integers
    )
)
