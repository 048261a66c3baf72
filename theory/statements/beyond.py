"""Statements that are not in print: the repaired, sharp and conditional editions.

They replace eq. (7)-(17) and (30)-(31) of arXiv 2602.01893. Imports sympy.
"""

from __future__ import annotations

import sympy as sp

from theory.statements.record import MODEL_G, PAIR, Edition, Entry, bound, stated
from theory.symbolic import bounds, margins, symbols

INDEPENDENT = "independent uniform directions; p[i, j] is the repaired tail, κ = 1/8"
UNIT = "independent uniform directions"
NO_BOUND = "an approximation, no bound"
NORMAL = f"{NO_BOUND}: p[i, j] of a normal difference with the exact mean (mu_exact) and, for unit directions, its variance to first order in 1/d"
GIVEN = f"{MODEL_G}; means over s and y_i"


def repaired() -> list[Entry]:
    """Return the repaired edition."""
    squared = "norm²"
    selected: Edition = "repaired"
    return [
        stated(
            "mu_exact",
            "mean of the difference of squared distances, the sink's and the own term included",
            "mu",
            "=",
            margins.MU_EXACT,
            edition=selected,
            left_latex=r"\mu_{ij}",
            conditions=PAIR,
            units=squared,
        ),
        stated(
            "width",
            "scale-free width of a pair",
            "w[i, j]",
            "=",
            margins.WIDTH,
            edition=selected,
            left_latex="w_{ij}",
            conditions=PAIR,
            units=squared,
        ),
        stated(
            "sigma_repaired",
            "width of the difference with the scale squared",
            "sigma_ij",
            "=",
            margins.SIGMA_REPAIRED,
            edition=selected,
            left_latex=r"\sigma_{ij}",
            units=squared,
        ),
        stated(
            "tail_repaired",
            "scale-free tail of a pair",
            "P{X_ij <= 0}",
            "<=",
            margins.TAIL_REPAIRED,
            edition=selected,
            left_latex=r"\mathbb{P}\{X_{ij} \le 0\}",
            conditions=f"{PAIR}; independent uniform directions, κ = 1/8",
        ),
        stated(
            "Delta_with_sink",
            "Δ with the sink's terms",
            "Delta",
            "=",
            margins.DELTA_WITH_SINK,
            edition=selected,
            left_latex=r"\Delta",
            conditions="0 ∈ I_N",
            units=squared,
        ),
        stated(
            "Delta_0_with_sink",
            "Δ₀ with the sink's terms",
            "Delta_0",
            "=",
            margins.DELTA_0_WITH_SINK,
            edition=selected,
            left_latex=r"\Delta_0",
            conditions="0 ∈ I_N",
            units=squared,
        ),
        *_counts(),
        bound("repaired_precision_lower", "", "precision", bounds.REPAIRED_PRECISION_LOWER, "repaired", INDEPENDENT),
        bound("repaired_recall_lower", "", "recall", bounds.REPAIRED_RECALL_LOWER, "repaired", INDEPENDENT),
        bound("repaired_f_outer_lower", "", "f_outer", bounds.F_OUTER_LOWER, "repaired", f"P_lower is repaired_precision_lower; {UNIT}"),
        bound(
            "repaired_f_inner_lower", "", "f_inner", bounds.REPAIRED_F_INNER_LOWER, "repaired", f"R_lower is repaired_recall_lower; {UNIT}"
        ),
        *(
            bound(name, "", quantity, value, "repaired", conditions, relation="<~")
            for name, quantity, value, conditions in (
                ("repaired_precision_upper", "precision", bounds.REPAIRED_PRECISION_UPPER, NORMAL),
                ("repaired_recall_upper", "recall", bounds.SHARP_RECALL_UPPER, NORMAL),
                ("repaired_f_outer_upper", "f_outer", bounds.F_OUTER_UPPER, f"P_upper is repaired_precision_upper; {NO_BOUND}"),
                ("repaired_f_inner_upper", "f_inner", bounds.F_INNER_UPPER, f"R_upper is repaired_recall_upper; {NO_BOUND}"),
            )
        ),
    ]


def _counts() -> list[Entry]:
    rows = (
        ("count_of_losses", "content pairs a selected token, in place of L - N", bounds.COUNT_OF_LOSSES),
        ("count_of_sink_losses", "sink pairs a selected token, in place of (L - N)/N", bounds.COUNT_OF_SINK_LOSSES),
    )
    return [stated(name, title, name, "=", value, edition="repaired", conditions="0 ∈ I_N", left_latex="n") for name, title, value in rows]


def sharp() -> list[Entry]:
    """Return the sharp edition."""
    law: list[tuple[str, str, str, str, sp.Expr, str]] = [
        ("separation", "standardised separation of a pair", "r", "r_{ij}", bounds.SEPARATION, MODEL_G),
        ("pairwise_law", "exact law of a pair", "p[i, j]", "p_{ij}", bounds.PAIRWISE_LAW, MODEL_G),
        ("chernoff", "best Chernoff bound of a pair", "p[i, j]", "p_{ij}", bounds.CHERNOFF, f"{MODEL_G}; r > 0"),
    ]
    values: list[tuple[str, str, sp.Expr]] = [
        ("sharp_precision_lower", "precision", bounds.SHARP_PRECISION_LOWER),
        ("sharp_precision_upper", "precision", bounds.SHARP_PRECISION_UPPER),
        ("sharp_recall_lower", "recall", bounds.REPAIRED_RECALL_LOWER),
        ("sharp_recall_upper", "recall", bounds.SHARP_RECALL_UPPER),
        ("sharp_f_outer_lower", "f_outer", bounds.SHARP_F_OUTER_LOWER),
        ("sharp_f_outer_upper", "f_outer", bounds.SHARP_F_OUTER_UPPER),
        ("sharp_f_inner_lower", "f_inner", bounds.SHARP_F_INNER_LOWER),
        ("sharp_f_inner_upper", "f_inner", bounds.SHARP_F_INNER_UPPER),
    ]
    return [
        *(
            stated(name, title, left, "<=" if name == "chernoff" else "=", value, edition="sharp", left_latex=latex, conditions=conditions)
            for name, title, left, latex, value, conditions in law
        ),
        *(bound(name, "", quantity, value, "sharp", MODEL_G) for name, quantity, value in values),
    ]


def conditional() -> list[Entry]:
    """Return the conditional edition: the sharp argument given the representative and one selected token."""
    counted = stated(
        "conditional_count",
        symbols.MEANINGS["count"].meaning,
        symbols.count[symbols.i],
        "=",
        symbols.SumOver(symbols.beat[symbols.i, symbols.j], symbols.j, symbols.J),
        edition="conditional",
        conditions=f"i ∈ I_N; {MODEL_G}",
    )
    values: list[tuple[str, str, sp.Expr]] = [
        ("conditional_precision_lower", "precision", bounds.CONDITIONAL_PRECISION_LOWER),
        ("conditional_precision_upper", "precision", bounds.CONDITIONAL_PRECISION_UPPER),
        ("conditional_recall_lower", "recall", bounds.CONDITIONAL_RECALL_LOWER),
        ("conditional_recall_upper", "recall", bounds.CONDITIONAL_RECALL_UPPER),
        ("conditional_f_outer_lower", "f_outer", bounds.CONDITIONAL_F_OUTER_LOWER),
        ("conditional_f_outer_upper", "f_outer", bounds.CONDITIONAL_F_OUTER_UPPER),
        ("conditional_f_inner_lower", "f_inner", bounds.CONDITIONAL_F_INNER_LOWER),
        ("conditional_f_inner_upper", "f_inner", bounds.CONDITIONAL_F_INNER_UPPER),
    ]
    return [counted, *(bound(name, "", quantity, value, "conditional", GIVEN) for name, quantity, value in values)]
