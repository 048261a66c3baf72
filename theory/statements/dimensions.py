"""Dimensional analysis of a statement: the power of the unit of value norms on both sides.

Walks a sympy expression and reports every place where unequal powers are added, compared or
exponentiated. The exponents of eq. (12), (14) and (31) and the widths (10) and (30) of arXiv
2602.01893 fail (erratum 1). Imports sympy only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy as sp

from theory.symbolic.operations import Indicator, Inner, Mean, Norm, Over
from theory.symbolic.record import MEANINGS, Entry

POWERS: dict[str, int] = {"": 0, "norm": 1, "norm²": 2, "norm⁴": 4, "norm⁻¹": -1}
"""Power of the unit of value norms for each unit."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A place where dimensions do not agree: the inconsistent expression, and what is wrong."""

    where: sp.Basic
    what: str


@dataclass(slots=True)
class _Walk:
    """One pass through an expression that collects all faults."""

    wrong: list[Fault] = field(default_factory=list)

    def power(self, node: sp.Basic) -> sp.Expr | None:
        """Return the power of the unit; None for 0 and infinities, which have any dimension."""
        if node in (sp.S.Zero, sp.oo, -sp.oo):
            return None
        if isinstance(node, sp.Symbol | sp.Indexed):
            return self._unit(node)
        if isinstance(node, sp.Add | sp.Max | sp.Min):
            return self._alike(node, [self.power(part) for part in node.args])
        if isinstance(node, sp.Mul | Inner):
            return sp.Add(*[self.power(part) or 0 for part in node.args])
        if isinstance(node, sp.Pow):
            return self._of_power(node)
        if isinstance(node, sp.Piecewise):
            for _, condition in node.args:
                self.power(condition)
            return self._alike(node, [self.power(value) for value, _ in node.args])
        if isinstance(node, sp.core.relational.Relational):
            self._alike(node, [self.power(node.lhs), self.power(node.rhs)])
            return sp.S.Zero
        if isinstance(node, Over | sp.Sum | Norm | Mean | sp.Abs):
            return self.power(node.args[0])
        return self._unitless(node)

    def _unit(self, node: sp.Symbol | sp.Indexed) -> sp.Expr:
        label = node.base.label if isinstance(node, sp.Indexed) else node
        return (
            sp.Integer(POWERS[MEANINGS[label.name].unit]) if label.name in MEANINGS else sp.S.Zero
        )

    def _alike(self, node: sp.Basic, powers: list[sp.Expr | None]) -> sp.Expr | None:
        known = {power for power in powers if power is not None}
        if len(known) > 1:
            listed = ", ".join(map(str, sorted(known, key=str)))
            what = f"unequal powers of the norm, {listed}, are added or compared"
            self.wrong.append(Fault(node, what))
        return min(known, key=str) if known else None

    def _of_power(self, node: sp.Pow) -> sp.Expr | None:
        base, exponent = self.power(node.base), self.power(node.exp)
        if exponent not in (None, 0):
            what = f"an exponent in norm^{exponent}, expected a pure number"
            self.wrong.append(Fault(node.exp, what))
        return None if base is None else base * node.exp

    def _unitless(self, node: sp.Basic) -> sp.Expr:
        """Return 0 for numbers, logic and functions of pure numbers, and check their arguments."""
        for part in node.args:
            power = self.power(part)
            logic = isinstance(node, Indicator | sp.logic.boolalg.BooleanFunction)
            if power not in (None, 0) and not logic:
                argument = f"an argument of {node.func.__name__} in norm^{power}"
                self.wrong.append(Fault(part, f"{argument}, expected a pure number"))
        return sp.S.Zero


def check(entry: Entry) -> tuple[Fault, ...]:
    """Return every dimensional fault of a statement; empty if both sides have its units."""
    walk = _Walk()
    power = walk.power(entry.evaluated)
    expected = POWERS[entry.units]
    if power is not None and sp.simplify(power - expected) != 0:
        what = f"the right side is in norm^{power}, the left in norm^{expected}"
        walk.wrong.append(Fault(entry.expression, what))
    return tuple(walk.wrong)
