"""Every numbered statement as a frozen record: name, equation, edition, expression, conditions, units, errata.

Source: arXiv 2602.01893, eq. (7)-(17), (29) and (31), and the repaired and sharp statements. Imports sympy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import sympy as sp

from theory import bounds, margins, symbols
from theory.results import Edition

PRINTED_CONDITIONS = "Δ > 0, Δ₀ > 0, ρ₀ ≥ 0, all cosines ≥ 0, N ≤ L, 0 ∈ I_N, C = 1, feasible Gram"
"""What the printed bounds need, most of it unsaid."""

PROBABILITY = ""
MODEL_G = "Model G: contributions Gaussian with the assumed Gram matrix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One statement.

    name: plain, unique. equation: the paper's number, or "" where the statement is not in print. relation: how `left` relates to the
    expression. errata: numbers of the errata that concern it.
    """

    name: str
    title: str
    equation: str
    edition: Edition
    left: str
    left_latex: str
    relation: Literal["=", "<=", ">="]
    expression: sp.Expr
    conditions: str
    units: str
    errata: tuple[int, ...]


def _definition(name: str, equation: str, expression: sp.Expr, errata: tuple[int, ...] = (), **changes: str) -> Entry:
    """Return the definition of a symbol; `of` names it where the entry has a name of its own."""
    meaning = symbols.MEANINGS[changes.get("of", name)]
    return Entry(
        name=name,
        title=changes.get("title", meaning.meaning),
        equation=equation,
        edition="printed",
        left=changes.get("left", str(meaning.symbol)),
        left_latex=changes.get("left_latex", meaning.latex),
        relation="=",
        expression=expression,
        conditions=changes.get("conditions", ""),
        units=meaning.unit,
        errata=errata,
    )


MEANS = {
    "precision": ("E P(r_max, N)", r"\mathbb{E}P(r_{\max}, N)"),
    "recall": ("E R(r_min, N)", r"\mathbb{E}R(r_{\min}, N)"),
    "f_inner": ("E F(r_min, N)", r"\mathbb{E}F(r_{\min}, N)"),
    "f_outer": ("E F(r_max, N)", r"\mathbb{E}F(r_{\max}, N)"),
}
"""What is bounded, in text and in LaTeX."""


def _bound(
    name: str, equation: str, quantity: str, expression: sp.Expr, edition: Edition, conditions: str, errata: tuple[int, ...]
) -> Entry:
    side = "lower" if name.endswith("lower") else "upper"
    return Entry(
        name=name,
        title=f"{side} bound of {MEANS[quantity][0]}",
        equation=equation,
        edition=edition,
        left=MEANS[quantity][0],
        left_latex=MEANS[quantity][1],
        relation=">=" if side == "lower" else "<=",
        expression=expression,
        conditions=conditions,
        units=PROBABILITY,
        errata=errata,
    )


def _printed_definitions() -> list[Entry]:
    content = "I_N without the sink is not empty"
    return [
        _definition("S_in", "7", margins.S_IN),
        _definition("a_min_in", "7", margins.A_MIN_IN, (12,), conditions=content),
        _definition("a_max_out", "7", margins.A_MAX_OUT),
        _definition("rho_out", "7", margins.RHO_OUT, (19,), conditions=content),
        _definition("rho_in", "8", margins.RHO_IN, (2,), conditions="used in (8), defined nowhere; 0 for fewer than two tokens"),
        _definition("a_max_in", "8", margins.A_MAX_IN_WITH_SINK, (15,), conditions="defined nowhere; default reading"),
        _definition(
            "a_max_in_without_sink", "8", margins.A_MAX_IN_WITHOUT_SINK, (15,), of="a_max_in", conditions="defined nowhere; other reading"
        ),
        _definition("Delta", "8", margins.DELTA, (1, 6), conditions=content),
        _definition("Delta_0_in", "8", margins.DELTA_0_IN, (2, 16, 19), of="Delta_0", conditions="to the letter of (8)"),
        _definition("Delta_0_out", "29", margins.DELTA_0_OUT, (2, 16, 19), of="Delta_0", conditions="reading of (29) and Table 1; default"),
        _definition("B", "8", margins.SCALE, (1, 15)),
        _definition("p_floor", "9", margins.P_FLOOR, (7, 11), left="p_floor[i, j]", left_latex=r"\underline{p}_{ij}"),
        _definition("xi", "9", margins.XI, (1, 4, 5), left_latex=r"\xi_{ij}"),
        _definition("mu", "10", margins.MU, (4, 5)),
        _definition("sigma", "10", margins.SIGMA, (1, 13), of="sigma_ij"),
        _definition("M", "11", margins.M_J, (4,), left="M[j]", left_latex="M_j"),
    ]


def _printed_bounds() -> list[Entry]:
    rows: list[tuple[str, str, str, sp.Expr, tuple[int, ...]]] = [
        ("precision_lower", "12", "precision", bounds.PRECISION_LOWER, (1, 3, 13, 16, 17, 19)),
        ("precision_upper", "13", "precision", bounds.PRECISION_UPPER, (4, 5, 7, 11)),
        ("recall_lower", "14", "recall", bounds.RECALL_LOWER, (1, 3, 13, 16, 17, 18, 19)),
        ("recall_upper", "15", "recall", bounds.RECALL_UPPER, (4, 5, 7, 11)),
        ("f_inner_lower", "16", "f_inner", bounds.F_INNER_LOWER, (8, 18)),
        ("f_inner_upper", "16", "f_inner", bounds.F_INNER_UPPER, (7,)),
        ("f_outer_lower", "17", "f_outer", bounds.F_OUTER_LOWER, (8,)),
        ("f_outer_upper", "17", "f_outer", bounds.F_OUTER_UPPER, (7,)),
    ]
    return [
        _bound(name, equation, of, expression, "printed", PRINTED_CONDITIONS, errata) for name, equation, of, expression, errata in rows
    ]


def _printed_tails() -> list[Entry]:
    rows = (("tail", "i", margins.TAIL, (1, 6, 13)), ("tail_sink", "0", margins.TAIL_SINK, (1, 13, 16)))
    return [
        Entry(
            name=name,
            title="printed tail of a pair: content token" if of == "i" else "printed tail of a pair: the sink",
            equation="31",
            edition="printed",
            left=f"P{{X_{of}j <= 0}}",
            left_latex=rf"\mathbb{{P}}\{{X_{{{of}j}} \le 0\}}",
            relation="<=",
            expression=expression,
            conditions=PRINTED_CONDITIONS,
            units=PROBABILITY,
            errata=errata,
        )
        for name, of, expression, errata in rows
    ]


def _beyond_print() -> list[Entry]:
    independent = "independent uniform directions; p[i, j] is the tail exp(−κ d (μ⁺/w)²), κ = 1/8"

    def stated(name: str, edition: Edition, left: str, left_latex: str, expression: sp.Expr, **rest: str) -> Entry:
        return Entry(
            name=name,
            title=rest["title"],
            equation="",
            edition=edition,
            left=left,
            left_latex=left_latex,
            relation="<=" if name == "chernoff" else "=",
            expression=expression,
            conditions=rest.get("conditions", ""),
            units=rest.get("units", ""),
            errata=(),
        )

    mean = "mean of the difference of squared distances, the sink's and the own term included"
    sharp = [
        stated("separation", "sharp", "r", "r_{ij}", bounds.SEPARATION, title="standardised separation of a pair", conditions=MODEL_G),
        stated("pairwise_law", "sharp", "p[i, j]", "p_{ij}", bounds.PAIRWISE_LAW, title="exact law of a pair", conditions=MODEL_G),
        stated(
            "chernoff", "sharp", "p[i, j]", "p_{ij}", bounds.CHERNOFF, title="best Chernoff bound of a pair", conditions=f"{MODEL_G}; r > 0"
        ),
    ]
    repaired = [
        stated("mu_exact", "repaired", "mu", r"\mu_{ij}", margins.MU_EXACT, title=mean, units="norm²"),
        stated("width", "repaired", "w[i, j]", "w_{ij}", margins.WIDTH, title="scale-free width of a pair", units="norm²"),
        stated(
            "Delta_with_sink",
            "repaired",
            "Delta",
            r"\Delta",
            margins.DELTA_WITH_SINK,
            title="Δ with the sink's terms",
            units="norm²",
            conditions="0 ∈ I_N",
        ),
        stated(
            "Delta_0_with_sink",
            "repaired",
            "Delta_0",
            r"\Delta_0",
            margins.DELTA_0_WITH_SINK,
            title="Δ₀ with the sink's terms",
            units="norm²",
            conditions="0 ∈ I_N",
        ),
    ]
    return [
        *sharp,
        _bound("sharp_recall_lower", "", "recall", bounds.REPAIRED_RECALL_LOWER, "sharp", MODEL_G, ()),
        _bound("sharp_recall_upper", "", "recall", bounds.SHARP_RECALL_UPPER, "sharp", MODEL_G, ()),
        *repaired,
        _bound("repaired_precision_lower", "", "precision", bounds.REPAIRED_PRECISION_LOWER, "repaired", independent, ()),
        _bound("repaired_recall_lower", "", "recall", bounds.REPAIRED_RECALL_LOWER, "repaired", independent, ()),
    ]


@cache
def entries() -> tuple[Entry, ...]:
    """Return every statement, printed ones first."""
    return (*_printed_definitions(), *_printed_tails(), *_printed_bounds(), *_beyond_print())
