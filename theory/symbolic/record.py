"""Record of a statement, shorthands to write one, and the registry of symbols: meaning, LaTeX and
unit, recorded when a symbol is created.

The symbols are in `theory.symbolic.symbols`, those of the predicted edition in
`theory.symbolic.approximations`. Source: arXiv 2602.01893; equation numbers are the paper's.
Imports sympy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import sympy as sp
from sympy.printing.latex import LatexPrinter


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """Meaning, LaTeX and unit of a symbol."""

    symbol: sp.Basic
    latex: str
    meaning: str
    unit: str


MEANINGS: dict[str, Meaning] = {}
"""Symbols by plain name."""


def symbol(name: str, latex: str, meaning: str, unit: str = "", **assumptions: bool) -> sp.Symbol:
    """Create a symbol and register its meaning."""
    result = sp.Symbol(name, **assumptions)
    MEANINGS[name] = Meaning(symbol=result, latex=latex, meaning=meaning, unit=unit)
    return result


def family(
    name: str, latex: str, meaning: str, unit: str = "", **assumptions: bool
) -> sp.IndexedBase:
    """Create an indexed symbol and register its meaning."""
    base = sp.IndexedBase(name, **assumptions)
    MEANINGS[name] = Meaning(symbol=base, latex=latex, meaning=meaning, unit=unit)
    return base


real = partial(symbol, real=True)
positive, nonnegative = partial(symbol, positive=True), partial(symbol, nonnegative=True)
integer = partial(symbol, integer=True, nonnegative=True)
positive_integer = partial(symbol, integer=True, positive=True)
reals, positives = partial(family, real=True), partial(family, positive=True)
nonnegatives = partial(family, nonnegative=True)
"""Symbols (plural: indexed symbols) with these assumptions."""


class _AsWritten(LatexPrinter):
    """LaTeX in the order of the arguments, with 1/N before a sum and (…)⁻¹ of a long one."""

    def _print_Mul(self, expr: sp.Mul) -> str:
        first, *rest = expr.args
        counts = isinstance(first, sp.Pow) and first.exp == -1 and not first.atoms(sp.Function)
        if counts and rest:
            with sp.evaluate(False):
                after = sp.Mul(*rest)
            return rf"\frac{{1}}{{{self._print(first.base)}}} {self._print(after)}"
        return str(super()._print_Mul(expr))

    def _print_Pow(self, expr: sp.Pow) -> str:
        if expr.exp == -1 and isinstance(expr.base, sp.Add) and len(expr.base.args) > 2:
            return rf"\left({self._print(expr.base)}\right)^{{-1}}"
        return str(super()._print_Pow(expr))


def latex(expression: sp.Basic, *, as_written: bool = False) -> str:
    """Return LaTeX with the registered letters; as_written: keep the order of terms and factors."""
    names = {getattr(item.symbol, "label", item.symbol): item.latex for item in MEANINGS.values()}
    if as_written:
        return str(_AsWritten({"symbol_names": names, "order": "none"}).doprint(expression))
    return str(sp.latex(expression, symbol_names=names))


PAPER = "arXiv 2602.01893"

MODEL_G = "Model G: contributions Gaussian with the assumed Gram matrix"

PAIR = "i ∈ I_N, j ∈ J"
"""Pairs that a statement concerns if no sum specifies them."""

WITH_SINK = "0 ∈ I_N"

UNIT = "independent uniform directions"

PRINTED_CONDITIONS = (
    "Δ > 0, Δ₀ > 0, ρ₀ ≥ 0, all cosines ≥ 0, N < L, 0 ∈ I_N, C = 1, Σα ≤ 1, κ ≤ 1/8, feasible Gram"
)
"""Conditions of the printed lower bounds of E P and E R, mostly unstated in the paper."""

NO_CONDITIONS = "Δ > 0; no listed condition makes it true"
"""Conditions of the printed upper bounds (13) and (15) (erratum 7), and of the lower bound of
F(r_min) in (16) (erratum 8).
"""

Edition = Literal["printed", "repaired", "sharp", "conditional", "predicted"]
"""Editions with symbolic statements."""

Relation = Literal["=", ":=", "==", "<", "<=", ">=", "~", "<~", ">~", "iff"]
"""Relations: "~" is approximately equal, "<~" approximately at most, ">~" approximately at least,
":=" a definition, "==" an identity.
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

    name: unique plain name. left: text of the left side, an expression, or text and LaTeX;
    left_latex: its LaTeX (default: from `left`). relation: relation of `left` to the expression
    ("~": approximation). units: units of both sides, "" for none. equation: number in the paper, or
    "". part: place in the paper, such as "Theorem 1" or "Table 1 row d". errata: numbers of the
    errata that concern it. chain: signs and members that follow `left` in print, if more than
    `relation` and `expression`. paper: source of the statement.
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
        left, left_latex = self.left, self.left_latex
        if isinstance(left, tuple):
            left, left_latex = left
        left_latex = left_latex or (left if isinstance(left, str) else latex(left))
        object.__setattr__(self, "left", str(left))
        object.__setattr__(self, "left_latex", left_latex)

    @property
    def members(self) -> tuple[tuple[Relation, sp.Basic], ...]:
        """Return the signs and members that follow `left`, as printed."""
        return self.chain or ((self.relation, self.expression),)

    @property
    def as_written(self) -> bool:
        """Return whether the printed order is kept: not for tables, which are words, nor others."""
        of_print = self.edition == "printed" and self.paper == PAPER
        return of_print and not self.part.startswith("Table")

    @property
    def evaluated(self) -> sp.Basic:
        """Return the expression in the default order of sympy."""
        return self.expression.doit() if self.as_written else self.expression

    @property
    def source(self) -> str:
        """Return the source: the paper and the place in it, or that it is not in print."""
        places = [
            place
            for place in (f"eq. ({self.equation})" if self.equation else "", self.part)
            if place
        ]
        if places:
            return f"{self.paper}, {', '.join(places)}"
        extends = "" if self.paper == PAPER else f", extends {self.paper}"
        return f"not in print; {self.edition} edition{extends}"


def stated(
    name: str, title: str, equation: str = "", part: str = "", **source: Any
) -> Callable[..., Entry]:
    """Return a function that takes the rest of a statement, from `left` on. source: its edition,
    errata and paper.
    """
    return partial(Entry, name, title, equation=equation, part=part, **source)


def definition(
    name: str, equation: str, errata: tuple[int, ...] = (), *, of: str = "", **changes: Any
) -> Callable[[sp.Basic], Entry]:
    """Return a function from an expression to the definition of a symbol; `of` names the symbol if
    the entry has another name.
    """
    meaning = MEANINGS[of or name]
    fields: dict[str, Any] = {"left": str(meaning.symbol), "left_latex": meaning.latex} | changes

    def defined(expression: sp.Basic) -> Entry:
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

    return defined


MEANS = {
    "precision": ("E P(r_max, N)", r"\mathbb{E}P(r_{\max}, N)"),
    "recall": ("E R(r_min, N)", r"\mathbb{E}R(r_{\min}, N)"),
    "f_outer": ("E F(r_max, N)", r"\mathbb{E}F(r_{\max}, N)"),
    "f_inner": ("E F(r_min, N)", r"\mathbb{E}F(r_{\min}, N)"),
}
"""Bounded quantities in text and LaTeX."""


IN_PRINT: dict[str, Relation] = {
    "precision_lower": ">~",
    "precision_upper": "<~",
    "recall_upper": "<~",
}
"""Signs of (12), (13) and (15), which the paper does not define (erratum 37)."""


def bound(
    edition: Edition, quantity_side: str, conditions: str, **source: Any
) -> Callable[[sp.Basic], Entry]:
    """Return a function from an expression to a bound on the mean of a quantity, such as
    "recall_lower"; the name of a printed one omits the edition. source: equation, part, errata.
    """
    name = quantity_side if edition == "printed" else f"{edition}_{quantity_side}"
    quantity, side = quantity_side.rsplit("_", 1)
    left, _ = MEANS[quantity]
    approximate = edition == "repaired" and side == "upper"
    relation: Relation = ">=" if side == "lower" else "<~" if approximate else "<="
    if edition == "printed":
        relation = IN_PRINT.get(name, relation)
    title = f"{side} {'approximation' if approximate else 'bound'} of {left}"
    head = stated(name, title, edition=edition, **source)
    return lambda expression: head(MEANS[quantity], relation, expression, conditions)
