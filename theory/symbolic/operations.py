"""Operations of the statements: indicator, inner product, norm, mean, and sums and extremes over
sets of tokens, with their printed forms.

Imports sympy only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import sympy as sp
from sympy.printing.precedence import PRECEDENCE


class Written(sp.Function):
    """A function with custom printing: `text` and `tex` are formats of its arguments."""

    is_commutative = True
    text = tex = ""

    def _sympystr(self, printer: Any) -> str:
        return self.text.format(*map(printer._print, self.args))

    _pythoncode = _numpycode = _sympystr

    def _latex(self, printer: Any, exp: Any = None) -> str:
        body = self.tex.format(*map(printer._print, self.args))
        return rf"{body}^{{{exp}}}" if exp else body


class Indicator(Written):
    """1 if the condition holds, else 0."""

    text, tex = "(1 if {} else 0)", r"\mathbf{{1}}\left\{{{}\right\}}"


class Inner(Written):
    """Inner product of two vectors."""

    text, tex = "inner({}, {})", r"\left\langle {}, {}\right\rangle"


class Norm(Written):
    """Length of a vector."""

    text, tex = "norm({})", r"\left\|{}\right\|"


class Mean(Written):
    """Expectation over the random parts of its argument."""

    text, tex = "mean({})", r"\mathbb{{E}}\left[{}\right]"


def _belongs(printer: Any, members: sp.Symbol) -> str:
    """Return LaTeX for membership in a set; the paper has no letter for the unselected tokens."""
    return r"\notin I_N" if members.name == "J" else rf"\in {printer._print(members)}"


class Over(sp.Function):
    """An operation over sets of tokens: Over(expression, index, set, …), indices distinct."""

    is_commutative = True
    python_name = latex_name = ""
    combined: type[sp.Expr]

    @classmethod
    def eval(cls, *args: Any) -> None:
        """Stay unevaluated until `spell_out`."""
        return

    def pairs(self) -> list[tuple[sp.Symbol, sp.Symbol]]:
        """Return (index, set) pairs."""
        return list(zip(self.args[1::2], self.args[2::2], strict=True))

    def within_one_set(self) -> bool:
        """Return whether several indices run over the same set and must be distinct."""
        return len(self.args) > 3 and len(set(self.args[2::2])) == 1

    def _sympystr(self, printer: Any) -> str:
        loops = " ".join(
            f"for {printer._print(index)} in {printer._print(members)}"
            for index, members in self.pairs()
        )
        indices = " != ".join(printer._print(index) for index, _ in self.pairs())
        return (
            f"{self.python_name}({printer._print(self.args[0])}"
            f" {loops}{f' if {indices}' if self.within_one_set() else ''})"
        )

    _pythoncode = _numpycode = _sympystr

    def _latex(self, printer: Any, exp: Any = None) -> str:
        if self.within_one_set():
            indices = r" \neq ".join(printer._print(index) for index, _ in self.pairs())
            under = rf"{indices} \in {printer._print(self.args[2])}"
        else:
            under = r",\,".join(
                f"{printer._print(index)} {_belongs(printer, members)}"
                for index, members in self.pairs()
            )
        body = (
            rf"{self.latex_name}_{{{under}}}"
            rf" {printer.parenthesize(self.args[0], PRECEDENCE['Mul'], strict=True)}"
        )
        return rf"\left({body}\right)^{{{exp}}}" if exp else body


class SumOver(Over):
    """A sum over tokens; 0 without terms."""

    python_name, latex_name, combined = "sum", r"\sum", sp.Add


class MaxOver(Over):
    """A maximum over tokens."""

    python_name, latex_name, combined = "max", r"\max", sp.Max


class MinOver(Over):
    """A minimum over tokens."""

    python_name, latex_name, combined = "min", r"\min", sp.Min


def as_written(build: Callable[[], sp.Expr]) -> sp.Expr:
    """Return the result of `build` with terms and factors in the order of the source.

    Nothing is simplified until the expression is differentiated, substituted into, or `doit`.

    Example:
        >>> x, y = sp.symbols("y x")
        >>> sp.sstr(as_written(lambda: 1 - x * y - 2 * x), order="none")
        '1 - y*x - 2*y'
    """
    with sp.evaluate(False):
        return _flat(build())


def _flat(node: sp.Basic) -> Any:
    """Flatten nested sums, and nested products without quotients."""
    if not node.args or isinstance(node, sp.Indexed):
        return node
    parts = [_flat(part) for part in node.args]
    quotient = any(isinstance(part, sp.Pow) and part.exp.is_negative for part in parts)
    if isinstance(node, sp.Add) or (isinstance(node, sp.Mul) and not quotient):
        whole = type(node)
        flat = [
            piece
            for part in parts
            for piece in (part.args if isinstance(part, whole) and _plain(part) else (part,))
        ]
        parts = flat if sum(piece.is_Number for piece in flat) < 2 else parts
    return node.func(*parts)


def _plain(node: sp.Basic) -> bool:
    """Return whether no factor is a reciprocal."""
    return isinstance(node, sp.Add) or not any(
        isinstance(part, sp.Pow) and part.exp.is_negative for part in node.args
    )


def spell_out(expression: sp.Expr, members: Mapping[sp.Symbol, Sequence[int]]) -> sp.Expr:
    """Return the expression with every sum and extreme expanded over the tokens of each set."""

    def written(node: Over) -> sp.Expr:
        indices = [index for index, _ in node.pairs()]
        choices = product(*(members[tokens] for _, tokens in node.pairs()))
        distinct = [choice for choice in choices if len(set(choice)) == len(choice)]
        body = spell_out(node.args[0], members)
        return node.combined(
            *(body.subs(dict(zip(indices, choice, strict=True))) for choice in distinct)
        )

    return expression.replace(lambda node: isinstance(node, Over), written)
