"""The sign of the printed lower bound's derivative in each parameter, decided by sympy where Δ and Δ₀ are positive.

Source: arXiv 2602.01893, eq. (8), (14), (29), Table 1. Imports sympy.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

import sympy as sp

from theory.symbolic import margins, symbols, theorems

Sign = Literal["+", "-", "0", "mixed"]


@cache
def printed_partials() -> Mapping[str, tuple[sp.Expr, ...]]:
    """Return, for each parameter, the terms of the derivative of 1 − (L−N)e^{…Δ…} − ((L−N)/N)e^{…Δ₀…}, eq. (14), by the chain rule.

    Δ and Δ₀ are positive symbols, L − N is one, a_max_in is apart from a₀ except in "a_0, sink in B".
    """
    delta, delta_0, outside = sp.symbols("Delta_plus Delta_0_plus outside", positive=True)
    recall = theorems.RECALL_LOWER
    positive = {symbols.Delta: delta, symbols.Delta_0: delta_0, symbols.L: symbols.N + outside}
    strict = {
        symbol: sp.Symbol(f"{symbol.name}_plus", positive=True)
        for symbol in (symbols.S_in, symbols.a_min_in, symbols.a_max_out, symbols.a_0, symbols.rho_out)
    }
    paths = {symbols.Delta: margins.DELTA, symbols.Delta_0: margins.DELTA_0_OUT, symbols.B: margins.SCALE}
    rho_of_beta = {symbols.rho_out: sp.exp(-symbols.beta)}

    def through(symbol: sp.Symbol, steps: Mapping[sp.Symbol, sp.Expr]) -> tuple[sp.Expr, ...]:
        direct = sp.diff(recall, symbol)
        terms = [direct, *(sp.diff(recall, middle) * sp.diff(step, symbol) for middle, step in steps.items())]
        return tuple(sp.simplify(term.subs(positive).subs(strict)) for term in terms if term != 0)

    least_moves_sum = {middle: step.subs(symbols.S_in, symbols.S_in + symbols.a_min_in) for middle, step in paths.items()}
    with_sink = paths | {symbols.B: margins.SCALE.subs(symbols.a_max_in, symbols.a_0)}
    return {
        "d": through(symbols.d, {}),
        "kappa": through(symbols.kappa, {}),
        "L": through(symbols.L, {}),
        "N": through(symbols.N, {}),
        "N, true counts": _true_counts(),
        "a_0": through(symbols.a_0, paths),
        "a_0, sink in B": through(symbols.a_0, with_sink),
        "a_min_in": through(symbols.a_min_in, paths),
        "a_min_in, S_in moves": through(symbols.a_min_in, least_moves_sum),
        "a_max_out": through(symbols.a_max_out, paths),
        "a_max_in": through(symbols.a_max_in, paths),
        "S_in": through(symbols.S_in, paths),
        "beta": through(symbols.beta, {middle: step.subs(rho_of_beta) for middle, step in paths.items()}),
        "rho_0": through(symbols.rho_0, paths),
    }


def _true_counts() -> tuple[sp.Expr, ...]:
    """Return minus the derivatives of the true counts of pairs in N: the content's rises up to N = √(L+1) (erratum 25)."""
    return tuple(sp.factor(-sp.diff(count, symbols.N)) for count in (theorems.COUNT_OF_LOSSES, theorems.COUNT_OF_SINK_LOSSES))


def sign_of(terms: tuple[sp.Expr, ...]) -> Sign:
    """Return the sign that all terms share under their symbols' assumptions; "mixed" where they disagree, "0" of none."""
    if not terms:
        return "0"
    if all(term.is_positive for term in terms):
        return "+"
    return "-" if all(term.is_negative for term in terms) else "mixed"
