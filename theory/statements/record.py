"""What a statement is: a frozen record, and short ways to write one.

Source: arXiv 2602.01893; equation numbers are the paper's. Imports sympy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import sympy as sp

from theory.symbolic import theorems
from theory.symbolic.meanings import MEANINGS, latex

PAPER = "arXiv 2602.01893"

MODEL_G = "Model G: contributions Gaussian with the assumed Gram matrix"

PAIR = "i ∈ I_N, j ∈ J"
"""Which pairs a statement is about, where no sum says so."""

WITH_SINK = "0 ∈ I_N"

UNIT = "independent uniform directions"

PRINTED_CONDITIONS = (
    "Δ > 0, Δ₀ > 0, ρ₀ ≥ 0, all cosines ≥ 0, N < L, 0 ∈ I_N, C = 1, Σα ≤ 1, κ ≤ 1/8, feasible Gram"
)
"""What the printed lower bounds of E P and E R need, most of it unsaid."""

NO_CONDITIONS = "Δ > 0; no condition given here makes it true"
"""Of the printed upper bounds (13) and (15) (erratum 7), and of the lower one of F(r_min) in (16)
(erratum 8).
"""

Edition = Literal["printed", "repaired", "sharp", "conditional", "predicted"]
"""Editions that are stated symbolically."""

Relation = Literal["=", ":=", "==", "<", "<=", ">=", "~", "<~", ">~", "iff"]
"""Where a side is approximate: "~" is about equal, "<~" about at most, ">~" about at least. ":=" is
a definition, "==" an identity.
"""

LATEX_RELATIONS: dict[str, str] = {
    "=": "=",
    ":=": ":=",
    "==": r"\equiv",
    "<": "<",
    "<=": r"\le",
    ">=": r"\ge",
    "~": r"\approx",
    "<~": r"\lesssim",
    ">~": r"\gtrsim",
    "iff": r"\iff",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One statement.

    name: plain, unique. left: of a side given as an expression, its text; left_latex: its LaTeX, by
    default that of the expression, or the text. relation: how `left` relates to the expression ("~"
    an approximation). units: of both sides, "" for none. equation: the paper's number, or "" where
    it has none. part: where the paper puts it, such as "Theorem 1" or "Table 1 row d". errata:
    numbers of the errata that concern it. chain: the signs and members that follow `left` in
    print, where they are more than `relation` and `expression`. paper: the one it is of.
    """

    name: str
    title: str
    left: str
    relation: Relation
    expression: sp.Basic
    conditions: str = ""
    units: str = ""
    left_latex: str = ""
    equation: str = ""
    part: str = ""
    edition: Edition = "printed"
    errata: tuple[int, ...] = ()
    chain: tuple[tuple[Relation, sp.Basic], ...] = ()
    paper: str = PAPER

    def __post_init__(self) -> None:
        for relation in (self.relation, *(sign for sign, _ in self.chain)):
            if relation not in get_args(Relation):
                raise ValueError(
                    f"{self.name}: relation {relation!r}, expected one of"
                    f" {', '.join(get_args(Relation))}."
                )
        own = self.left if isinstance(self.left, str) else latex(self.left)
        object.__setattr__(self, "left_latex", self.left_latex or own)
        object.__setattr__(self, "left", str(self.left))

    @property
    def members(self) -> tuple[tuple[Relation, sp.Basic], ...]:
        """Return the signs and members that follow `left`, as they stand in print."""
        return self.chain or ((self.relation, self.expression),)

    @property
    def as_written(self) -> bool:
        """Return whether terms and factors stand in the paper's own order; rows of tables, which
        print has in words, do not, nor what is of another paper.
        """
        of_print = self.edition == "printed" and self.paper == PAPER
        return of_print and not self.part.startswith("Table")

    @property
    def source(self) -> str:
        """Where the statement stands: the paper and its number there, or that it is not in
        print.
        """
        places = [
            place
            for place in (f"eq. ({self.equation})" if self.equation else "", self.part)
            if place
        ]
        if places:
            return f"{self.paper}, {', '.join(places)}"
        beside = "" if self.paper == PAPER else f" beside {self.paper}"
        return f"not in print; {self.edition} edition{beside}"


def definition(
    name: str,
    equation: str,
    expression: sp.Basic,
    errata: tuple[int, ...] = (),
    *,
    of: str = "",
    **changes: Any,
) -> Entry:
    """Return the definition of a symbol; `of` names it where the entry has a name of its own."""
    meaning = MEANINGS[of or name]
    fields: dict[str, Any] = {"left": str(meaning.symbol), "left_latex": meaning.latex} | changes
    return Entry(
        name,
        meaning.meaning,
        relation="=",
        expression=expression,
        units=meaning.unit,
        equation=equation,
        errata=errata,
        **fields,
    )


MEANS = {
    "precision": ("E P(r_max, N)", r"\mathbb{E}P(r_{\max}, N)"),
    "recall": ("E R(r_min, N)", r"\mathbb{E}R(r_{\min}, N)"),
    "f_outer": ("E F(r_max, N)", r"\mathbb{E}F(r_{\max}, N)"),
    "f_inner": ("E F(r_min, N)", r"\mathbb{E}F(r_{\min}, N)"),
}
"""What is bounded, in text and in LaTeX."""


IN_PRINT: dict[str, Relation] = {
    "precision_lower": ">~",
    "precision_upper": "<~",
    "recall_upper": "<~",
}
"""Signs of (12), (13) and (15), which print does not define (erratum 37)."""


def bound(edition: Edition, quantity_side: str, conditions: str, **source: Any) -> Entry:
    """Return a bound on the mean of a quantity, such as "recall_lower"; its expression is
    `theory.symbolic.theorems.EDITION_QUANTITY_SIDE`.

    The name and the expression of a printed one do without the edition. source: equation, part and
    errata of a printed one.
    """
    name = quantity_side if edition == "printed" else f"{edition}_{quantity_side}"
    quantity, side = quantity_side.rsplit("_", 1)
    left, latex = MEANS[quantity]
    approximate = edition == "repaired" and side == "upper"
    relation: Relation = ">=" if side == "lower" else "<~" if approximate else "<="
    if edition == "printed":
        relation = IN_PRINT.get(name, relation)
    title = f"{side} {'approximation' if approximate else 'bound'} of {left}"
    return Entry(
        name,
        title,
        left,
        relation,
        getattr(theorems, name.upper()),
        conditions,
        left_latex=latex,
        edition=edition,
        **source,
    )
