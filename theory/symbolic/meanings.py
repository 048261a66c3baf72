"""Meanings of symbols: what each stands for, its LaTeX and its unit, kept as a symbol is made.

The symbols are in `theory.symbolic.symbols`, those of the predicted edition alone in
`theory.symbolic.approximations`. Imports sympy only.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a symbol stands for."""

    symbol: sp.Basic
    latex: str
    meaning: str
    unit: str


MEANINGS: dict[str, Meaning] = {}
"""Every symbol by its plain name."""


def symbol(name: str, latex: str, meaning: str, unit: str = "", **assumptions: bool) -> sp.Symbol:
    """Return a symbol and keep what it means."""
    result = sp.Symbol(name, **assumptions)
    MEANINGS[name] = Meaning(symbol=result, latex=latex, meaning=meaning, unit=unit)
    return result


def family(
    name: str, latex: str, meaning: str, unit: str = "", **assumptions: bool
) -> sp.IndexedBase:
    """Return an indexed symbol and keep what it means."""
    base = sp.IndexedBase(name, **assumptions)
    MEANINGS[name] = Meaning(symbol=base, latex=latex, meaning=meaning, unit=unit)
    return base


def latex(expression: sp.Basic) -> str:
    """Return LaTeX with this room's own letters."""
    names = {getattr(item.symbol, "label", item.symbol): item.latex for item in MEANINGS.values()}
    return str(sp.latex(expression, symbol_names=names))
