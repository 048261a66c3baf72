"""Statements and errata in every style: Python evaluates, JSON parses, LaTeX compiles."""

import json
import operator
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sympy as sp

from theory.normaliser.expressions import tokens
from theory.statements import catalogue, dimensions, rendering
from theory.symbolic import symbols
from theory.symbolic.operations import Indicator, Inner, Mean, Norm, spell_out
from theory.symbolic.record import MEANINGS

SETS = {symbols.I_N: [0, 1, 2], symbols.I_content: [1, 2], symbols.J: [3, 4]}
SETS |= {tokens: [0, 1, 2, 3, 4]}
NUMBERS = {
    **{"L": 9, "length": 9, "N": 3, "T": 10, "T_1": 2, "T_2": 5, "d": 6},
    **{"i": 1, "j": 3, "k": 2, "l": 4, "m": 1, "m_1": 6, "m_2": 8, "m_3": 9},
    **{"Gamma_ii": 1, "Gamma_jj": 2, "Gamma_ij": 0.25, "r": 0.25, "t": 0.75, "Y_std": 1},
    **{"total": 2.25, "kept": 1.75, "B": 1.5},
}
"""Values of symbols; the others are 0.5."""


class Family:
    """Any index, any number of them, gives a number."""

    def __getitem__(self, key: int | tuple[int, ...]) -> float:
        indices = key if isinstance(key, tuple) else (key,)
        weighed = sum((place + 2) * index for place, index in enumerate(indices))
        return len(indices) / 2 + weighed / 64


def scope() -> dict[str, Any]:
    """What the Python of a statement is given."""
    found: dict[str, Any] = {"norm": abs, "inner": operator.mul, "mean": lambda value: value}
    for name, meaning in MEANINGS.items():
        family = isinstance(meaning.symbol, sp.IndexedBase)
        found[str(meaning.symbol)] = Family() if family else NUMBERS.get(name, 0.5)
    return found | {str(tokens): members for tokens, members in SETS.items()}


@cache
def exact_numbers() -> dict[sp.Symbol, sp.Rational]:
    """The numbers of `scope` by their symbols, without rounding."""
    given = scope()
    plain = [x.symbol for x in MEANINGS.values() if isinstance(x.symbol, sp.Symbol)]
    return {symbol: sp.nsimplify(given[str(symbol)]) for symbol in plain if symbol not in SETS}


def by_sympy(expression: sp.Basic) -> Any:
    """The same numbers put into the symbols."""
    for kind, meant in ((Norm, sp.Abs), (Inner, sp.Mul), (Mean, lambda value: value)):
        if expression.has(kind):
            expression = expression.replace(kind, meant)
    found = numeric(spell_out(expression, SETS))
    found = found.replace(Indicator, lambda holds: sp.Integer(1) if holds else sp.Integer(0))
    return bool(found) if isinstance(found, sp.logic.boolalg.Boolean) else float(found.evalf())


def numeric(spelled: sp.Basic) -> sp.Basic:
    """All numbers are put in at once, sums first: maxima of symbols would be compared for long."""
    given: dict[sp.Basic, sp.Basic] = dict(exact_numbers())
    for node in spelled.atoms(sp.Indexed):
        given[node] = sp.nsimplify(Family()[tuple(int(i.xreplace(given)) for i in node.indices)])
    for total in spelled.atoms(sp.Sum):
        ((index, *ends),) = total.limits
        first, last = (int(end.xreplace(given)) for end in ends)
        parts = [total.function.xreplace({index: sp.Integer(k)}) for k in range(first, last + 1)]
        given[total] = sp.Add(*map(numeric, parts))
    return spelled.xreplace(given)


EVERY = pytest.mark.parametrize("entry", catalogue.entries(), ids=lambda entry: entry.name)


@EVERY
def test_the_python_of_every_statement_gives_the_number_of_its_symbol_from_what_it_needs(
    entry: catalogue.Entry,
) -> None:
    source = rendering.render(entry, "python")
    (line,) = [line for line in source.splitlines() if line.startswith("# of ")]
    needed = {name.split("(")[0] for name in line.removeprefix("# of ").split(", ")}
    given = {name: value for name, value in scope().items() if name in needed}
    exec(source, given)
    assert given[entry.name] == pytest.approx(by_sympy(entry.expression), rel=1e-12)


CHAINS = [entry for entry in catalogue.entries() if entry.chain]


@pytest.mark.parametrize("entry", CHAINS, ids=lambda entry: entry.name)
def test_the_printed_python_of_a_statement_evaluates_to_its_expression(
    entry: catalogue.Entry,
) -> None:
    printed = [by_sympy(member) for _, member in entry.chain]
    assert by_sympy(entry.expression) in [pytest.approx(value, rel=1e-12) for value in printed]


@EVERY
def test_every_statement_renders_in_every_style(entry: catalogue.Entry) -> None:
    assert "Over" not in rendering.render(entry, "text")
    latex = rendering.render(entry, "latex")
    assert latex.isascii()
    assert latex.count("{") == latex.count("}")
    record = json.loads(rendering.render(entry, "json"))
    assert (record["name"], record["source"]) == (entry.name, entry.source)
    assert set(record["errata"]) <= {*range(1, 45), *range(101, 108)}
    faults = [f"{fault.what}: {fault.where}" for fault in dimensions.check(entry)]
    assert record["dimension"] == faults


def test_the_latex_of_every_statement_and_erratum_compiles(tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("needs pdflatex")
    formulas = [
        rf"\texttt{{\detokenize{{{entry.name}}}}} \[ {rendering.render(entry, 'latex')} \]"
        for entry in catalogue.entries()
    ]
    errata = [rendering.render_erratum(erratum, "latex") for erratum in catalogue.errata()]
    head = r"\documentclass{article}\usepackage{amsmath,amssymb}\begin{document}"
    lines = [head, *formulas, rendering.preface("latex")]
    lines += [r"\begin{description}", *errata, r"\end{description}\end{document}"]
    (tmp_path / "all.tex").write_text("\n\n".join(lines), encoding="ascii")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "-no-shell-escape"]
    done = subprocess.run([*command, "all.tex"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-1500:]
    assert "Missing character" not in (tmp_path / "all.log").read_text(encoding="latin-1")
