"""What a statement is: a frozen record, and short ways to write one.

Source: arXiv 2602.01893; equation numbers are the paper's. Imports sympy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import sympy as sp

from theory.symbolic import symbols

PAPER = "arXiv 2602.01893"

UNITLESS = ""

MODEL_G = "Model G: contributions Gaussian with the assumed Gram matrix"

PAIR = "i ∈ I_N, j ∈ J"
"""Which pairs a statement is about, where no sum says so."""

PRINTED_CONDITIONS = "Δ > 0, Δ₀ > 0, ρ₀ ≥ 0, all cosines ≥ 0, N ≤ L, 0 ∈ I_N, C = 1, feasible Gram"
"""What the printed bounds need, most of it unsaid."""

Edition = Literal["printed", "repaired", "sharp", "conditional", "predicted"]
"""Editions that are stated symbolically."""

Relation = Literal["=", "<=", ">=", "~", "<~", "iff"]
"""Where a side is approximate: "~" is about equal, "<~" about at most."""

LATEX_RELATIONS: dict[str, str] = {"=": "=", "<=": r"\le", ">=": r"\ge", "~": r"\approx", "<~": r"\lesssim", "iff": r"\iff"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One statement.

    name: plain, unique. equation: the paper's number, or "" where it has none. part: where the paper puts it, such as "Theorem 1" or
    "Table 1 row d". relation: how `left` relates to the expression ("~" an approximation). units: of both sides, "" for none.
    errata: numbers of the errata that concern it.
    """

    name: str
    title: str
    equation: str
    part: str
    edition: Edition
    left: str
    left_latex: str
    relation: Relation
    expression: sp.Basic
    conditions: str
    units: str
    errata: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.relation not in get_args(Relation):
            raise ValueError(f"{self.name}: relation {self.relation!r}, expected one of {', '.join(get_args(Relation))}.")

    @property
    def source(self) -> str:
        """Where the statement stands: the paper and its number there, or that it is not in print."""
        places = [place for place in (f"eq. ({self.equation})" if self.equation else "", self.part) if place]
        return f"{PAPER}, {', '.join(places)}" if places else f"not in print; {self.edition} edition"


def definition(name: str, equation: str, expression: sp.Basic, errata: tuple[int, ...] = (), **changes: str) -> Entry:
    """Return the definition of a symbol; `of` names it where the entry has a name of its own."""
    meaning = symbols.MEANINGS[changes.get("of", name)]
    return Entry(
        name=name,
        title=changes.get("title", meaning.meaning),
        equation=equation,
        part=changes.get("part", ""),
        edition="printed",
        left=changes.get("left", str(meaning.symbol)),
        left_latex=changes.get("left_latex", meaning.latex),
        relation="=",
        expression=expression,
        conditions=changes.get("conditions", ""),
        units=meaning.unit,
        errata=errata,
    )


def stated(
    name: str,
    title: str,
    left: str | sp.Basic,
    relation: Relation,
    expression: sp.Basic,
    *,
    equation: str = "",
    part: str = "",
    edition: Edition = "printed",
    left_latex: str = "",
    conditions: str = "",
    units: str = UNITLESS,
    errata: tuple[int, ...] = (),
) -> Entry:
    """Return a statement whose left side is an expression, or text with its LaTeX."""
    return Entry(
        name=name,
        title=title,
        equation=equation,
        part=part,
        edition=edition,
        left=str(left),
        left_latex=left_latex or (str(left) if isinstance(left, str) else symbols.latex(left)),
        relation=relation,
        expression=expression,
        conditions=conditions,
        units=units,
        errata=errata,
    )


MEANS = {
    "precision": ("E P(r_max, N)", r"\mathbb{E}P(r_{\max}, N)"),
    "recall": ("E R(r_min, N)", r"\mathbb{E}R(r_{\min}, N)"),
    "f_outer": ("E F(r_max, N)", r"\mathbb{E}F(r_{\max}, N)"),
    "f_inner": ("E F(r_min, N)", r"\mathbb{E}F(r_{\min}, N)"),
}
"""What is bounded, in text and in LaTeX."""


def bound(
    name: str,
    equation: str,
    quantity: str,
    expression: sp.Expr,
    edition: Edition,
    conditions: str,
    errata: tuple[int, ...] = (),
    part: str = "",
    relation: Relation | None = None,
) -> Entry:
    """Return a bound on the mean of a quantity; the name says which side, and so the relation unless one is given."""
    side = "lower" if name.endswith("lower") else "upper"
    return Entry(
        name=name,
        title=f"{side} {'approximation' if relation == '<~' else 'bound'} of {MEANS[quantity][0]}",
        equation=equation,
        part=part,
        edition=edition,
        left=MEANS[quantity][0],
        left_latex=MEANS[quantity][1],
        relation=relation or (">=" if side == "lower" else "<="),
        expression=expression,
        conditions=conditions,
        units=UNITLESS,
        errata=errata,
    )
