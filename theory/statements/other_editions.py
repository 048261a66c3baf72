"""Statements that are not in print: the repaired, sharp and conditional editions.

They replace eq. (7)-(17) and (30)-(31) of arXiv 2602.01893. Imports sympy.
"""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp

from theory.statements.record import MEANS, MODEL_G, PAIR, Edition, Entry, bound, stated
from theory.symbolic import margins, symbols, theorems
from theory.symbolic.operations import SumOver

UNIT = "independent uniform directions"
INDEPENDENT = f"{UNIT}; p[i, j] is the repaired tail, κ = 1/8"
NO_BOUND = "an approximation, no bound"
NORMAL = f"{NO_BOUND}: p[i, j] of a normal difference with the exact mean (mu_exact) and, for unit directions, its variance to first order in 1/d"
WITH_SINK = "0 ∈ I_N"

BOUNDS = [f"{quantity}_{side}" for quantity in MEANS for side in ("lower", "upper")]


def repaired() -> list[Entry]:
    """Return the repaired edition: pairs, margins and counts mended, then the bounds."""
    tail = r"\mathbb{P}\{X_{ij} \le 0\}", margins.TAIL_REPAIRED, f"{PAIR}; {UNIT}, κ = 1/8"
    mean = "mean of the difference of squared distances, the sink's and the own term included"
    rows: list[tuple[str, str, str, str, sp.Expr, str]] = [
        ("mu_exact", mean, "mu", r"\mu_{ij}", margins.MU_EXACT, PAIR),
        ("width", "scale-free width of a pair", "w[i, j]", "w_{ij}", margins.WIDTH, PAIR),
        ("sigma_repaired", "width of the difference with the scale squared", "sigma_ij", r"\sigma_{ij}", margins.SIGMA_REPAIRED, ""),
        ("tail_repaired", "scale-free tail of a pair", "P{X_ij <= 0}", *tail),
        ("Delta_with_sink", "Δ with the sink's terms", "Delta", r"\Delta", margins.DELTA_WITH_SINK, WITH_SINK),
        ("Delta_0_with_sink", "Δ₀ with the sink's terms", "Delta_0", r"\Delta_0", margins.DELTA_0_WITH_SINK, WITH_SINK),
    ]
    counts = [
        ("count_of_losses", "content pairs a selected token, in place of L - N", theorems.COUNT_OF_LOSSES),
        ("count_of_sink_losses", "sink pairs a selected token, in place of (L - N)/N", theorems.COUNT_OF_SINK_LOSSES),
    ]
    rows += [(name, title, name, "n", value, WITH_SINK) for name, title, value in counts]
    pairs = [
        stated(
            name,
            title,
            left,
            "<=" if name == "tail_repaired" else "=",
            value,
            edition="repaired",
            left_latex=latex,
            conditions=conditions,
            units="" if name.startswith(("count", "tail")) else "norm²",
        )
        for name, title, left, latex, value, conditions in rows
    ]
    conditions = {
        "precision_lower": INDEPENDENT,
        "recall_lower": INDEPENDENT,
        "f_outer_lower": f"P_lower is repaired_precision_lower; {UNIT}",
        "f_inner_lower": f"R_lower is repaired_recall_lower; {UNIT}",
        "precision_upper": NORMAL,
        "recall_upper": NORMAL,
        "f_outer_upper": f"P_upper is repaired_precision_upper; {NO_BOUND}",
        "f_inner_upper": f"R_upper is repaired_recall_upper; {NO_BOUND}",
    }
    return [*pairs, *_bounds("repaired", conditions)]


def sharp() -> list[Entry]:
    """Return the sharp edition: the exact law of a pair, then the bounds."""
    law: list[tuple[str, str, str, str, sp.Expr, str]] = [
        ("separation", "standardised separation of a pair", "r", "r_{ij}", theorems.SEPARATION, MODEL_G),
        ("pairwise_law", "exact law of a pair", "p[i, j]", "p_{ij}", theorems.PAIRWISE_LAW, MODEL_G),
        ("chernoff", "best Chernoff bound of a pair", "p[i, j]", "p_{ij}", theorems.CHERNOFF, f"{MODEL_G}; r > 0"),
    ]
    pairs = [
        stated(name, title, left, "<=" if name == "chernoff" else "=", value, edition="sharp", left_latex=latex, conditions=conditions)
        for name, title, left, latex, value, conditions in law
    ]
    return [*pairs, *_bounds("sharp", dict.fromkeys(BOUNDS, MODEL_G))]


def conditional() -> list[Entry]:
    """Return the conditional edition: the sharp argument given the representative and one selected token."""
    counted = stated(
        "conditional_count",
        symbols.MEANINGS["count"].meaning,
        symbols.count[symbols.i],
        "=",
        SumOver(symbols.beat[symbols.i, symbols.j], symbols.j, symbols.J),
        edition="conditional",
        conditions=f"i ∈ I_N; {MODEL_G}",
    )
    return [counted, *_bounds("conditional", dict.fromkeys(BOUNDS, f"{MODEL_G}; means over s and y_i"))]


def _bounds(edition: Edition, conditions: Mapping[str, str]) -> list[Entry]:
    """Return the bounds of an edition, in the order of their conditions; its expressions are `theory.symbolic.theorems.EDITION_QUANTITY_SIDE`."""
    return [
        bound(
            f"{edition}_{name}",
            "",
            name.rsplit("_", 1)[0],
            getattr(theorems, f"{edition}_{name}".upper()),
            edition,
            condition,
            relation="<~" if edition == "repaired" and name.endswith("upper") else None,
        )
        for name, condition in conditions.items()
    ]
