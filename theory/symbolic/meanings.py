"""Registry of symbols: meaning, LaTeX and unit, recorded when a symbol is created.

The symbols are in `theory.symbolic.symbols`, those of the predicted edition in
`theory.symbolic.approximations`. Imports sympy only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

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
