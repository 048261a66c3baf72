"""Rendering of statements and errata as LaTeX, text, Python or JSON. Imports sympy."""

from __future__ import annotations

import json
import re
from textwrap import fill, indent
from typing import Literal, get_args

import sympy as sp

from theory.errata.record import ERRATA, OF_NORMALISER, PREFACE, Erratum, sentences
from theory.errors import InputError
from theory.statements.dimensions import check
from theory.symbolic.operations import Inner, Mean, Norm, Over
from theory.symbolic.record import LATEX_RELATIONS, MEANINGS, Entry, Meaning, latex

Style = Literal["latex", "text", "python", "json"]

_MATHEMATICS = r"""
α \alpha   β \beta   η \eta   κ \kappa   λ \lambda   μ \mu   ξ \xi   π \pi   ρ \rho   σ \sigma
φ \varphi   ω \omega   δ \delta   ε \varepsilon   ᾱ \bar{\alpha}   Δ \Delta   Σ \Sigma
ℙ \underline{p}   ⅆ \tilde{d}   ∇ \nabla   ± \pm   ∓ \mp   ∉ \notin
≥ \ge   ≤ \le   ≠ \ne   ≲ \lesssim   ≳ \gtrsim   ≡ \equiv   ≈ \approx   ∈ \in   ∖ \setminus
→ \to   ↦ \mapsto   ↑ \uparrow   ↓ \downarrow   √ \surd   · \cdot   × \times   … \ldots   − -
‖ \|   ⟨ \langle   ⟩ \rangle   ½ \frac12   ᵀ ^{T}
¹ ^{1}   ² ^{2}   ³ ^{3}   ⁴ ^{4}   ⁵ ^{5}   ⁶ ^{6}   ⁻ ^{-}
₀ _{0}   ₁ _{1}   ₂ _{2}   ₃ _{3}   ₊ _{+}   ₋ _{-}
"""
"""Characters of the errata prose, each followed by its LaTeX math command."""

TEX = (
    {sign: rf"\{sign}" for sign in "_%&#${}"}
    | {"^": r"\^{}"}
    | {sign: rf"\({word}\)" for sign, word in re.findall(r"(\S) (\S+)", _MATHEMATICS)}
    | {"“": "``", "”": "''"}
)
"""LaTeX for the special characters of the errata prose."""


def preface(style: Style) -> str:
    """Return the preface of the list of errata, for text and LaTeX.

    Example:
        >>> preface("text").split("“")[0]
        'Report on '
    """
    return "\n\n".join(
        _tex(paragraph) if style == "latex" else fill(paragraph, 140) for paragraph in PREFACE
    )


def render(entry: Entry, style: Style) -> str:
    """Return the statement as LaTeX, text, Python or JSON.

    Raises:
        InputError: if the style is unknown.

    Example:
        >>> from theory import render, statement
        >>> render(statement("Delta"), "python").splitlines()[-1]
        'Delta = -2*S_in*a_max_out*rho_out + a_min_in**2'
    """
    _check_style(style)
    if style == "latex":
        members = (
            f"{LATEX_RELATIONS[sign]} {latex(member, as_written=entry.as_written)}"
            for sign, member in entry.members
        )
        return " ".join([entry.left_latex, *members])
    if style == "python":
        source = _python(entry.evaluated)
        imports = [
            f"import {module}\n" for module in ("math", "scipy.special") if f"{module}." in source
        ]
        return f"{''.join(imports)}# of {', '.join(_free(entry))}\n{entry.name} = {source}"
    if style == "json":
        return json.dumps(_record(entry), ensure_ascii=False, allow_nan=False, indent=2)
    return _text(entry)


def render_erratum(erratum: Erratum, style: Style) -> str:
    """Return the erratum, with its example evaluated, as text (for `python` in comments),
    LaTeX or JSON.

    Raises:
        InputError: if the style is unknown.

    Example:
        >>> from theory import find_erratum, render_erratum
        >>> render_erratum(find_erratum(3), "text").splitlines()[-1].partition("Tokens")[2]
        ' outside I_N: 1 (as printed), 2 (correct).'
    """
    _check_style(style)
    if style == "json":
        return json.dumps(_erratum_record(erratum), ensure_ascii=False, allow_nan=False, indent=2)
    if style == "latex":
        body = " ".join(rf"\emph{{{label}:}} {_tex(text)}" for label, text in sentences(erratum))
        return (
            rf"\item[{erratum.number}.] \textbf{{{_tex(erratum.title)}}}, {_tex(erratum.where)}"
            rf" ({erratum.grade}). {body}"
        )
    paragraphs = [
        fill(
            text,
            width=130,
            initial_indent=f"   {label.lower() + ':':<9}",
            subsequent_indent=" " * 12,
            break_long_words=False,
        )
        for label, text in sentences(erratum)
    ]
    title = f"{erratum.number}. {erratum.title}, {erratum.where} [{erratum.grade}]"
    whole = "\n".join([title, *paragraphs])
    return indent(whole, "# ") if style == "python" else whole


def _erratum_record(erratum: Erratum) -> dict[str, object]:
    words = ("number", "title", "grade", "printed", "why", "true", "equations")
    numbers = erratum.counterexample()
    return {name: getattr(erratum, name) for name in words} | {
        "counterexample": {
            "what": erratum.filled(erratum.what),
            "given": erratum.filled(erratum.given),
            "printed": numbers.printed,
            "true": numbers.true,
            "compared": erratum.compared,
        }
    }


def _statement(entry: Entry) -> str:
    """Return the statement as one line of text."""
    order = "none" if entry.as_written else None
    members = (f"{sign} {sp.sstr(member, order=order)}" for sign, member in entry.members)
    return " ".join([entry.left, *members])


def _check_style(style: str) -> None:
    if style not in get_args(Style):
        raise InputError(f"style is {style!r}, expected one of {', '.join(get_args(Style))}.")


def _tex(text: str) -> str:
    """Return prose as ASCII LaTeX; other characters become math commands (one requires amssymb)."""
    single = text.replace("p\u0332", "\u2119").replace("d\u0303", "\u2146")
    return "".join(TEX.get(sign, sign) for sign in single)


def _python(expression: sp.Basic) -> str:
    """Return Python source without numpy, with `scipy.special.betainc`."""
    beta = sp.Function("betainc")
    renamed = expression.replace(sp.betainc_regularized, lambda a, b, _, upper: beta(a, b, upper))
    return str(sp.pycode(renamed, user_functions={"betainc": "scipy.special.betainc"})).replace(
        "builtins.", ""
    )


def _free(entry: Entry) -> list[str]:
    """Return the inputs of the Python source: symbols, sets, sequences, functions of vectors."""
    bound = {index for over in entry.expression.atoms(Over) for index, _ in over.pairs()}
    bound |= {index for total in entry.expression.atoms(sp.Sum) for index in total.variables}
    kinds = ((Norm, "norm(vector)"), (Inner, "inner(vector, vector)"), (Mean, "mean(value)"))
    names = [str(meaning.symbol) for meaning in _used(entry) if meaning.symbol not in bound]
    return [*names, *(name for kind, name in kinds if entry.expression.atoms(kind))] or ["nothing"]


def _used(entry: Entry) -> list[Meaning]:
    names = {symbol.name for symbol in entry.expression.atoms(sp.Symbol)}
    return [meaning for name, meaning in MEANINGS.items() if name in names]


def _legend(entry: Entry, meaning: Meaning) -> str:
    """Return the meaning of a symbol; an index over sets of tokens names its sets."""
    sets = {
        str(members)
        for over in entry.expression.atoms(Over)
        for index, members in over.pairs()
        if index == meaning.symbol
    }
    return f"{meaning.meaning} of {' or of '.join(sorted(sets))}" if sets else meaning.meaning


def _text(entry: Entry) -> str:
    lines = [
        f"{entry.name}: {entry.title} [{entry.edition}]",
        f"  {_statement(entry)}",
        f"  source: {entry.source}",
    ]
    lines += [
        f"  {label}: {getattr(entry, label)}"
        for label in ("units", "conditions")
        if getattr(entry, label)
    ]
    lines += [f"  dimension: {fault.what}: {fault.where}" for fault in check(entry)]
    lines += [
        f"  {meaning.symbol}:"
        f" {_legend(entry, meaning)}{f' [{meaning.unit}]' if meaning.unit else ''}"
        for meaning in _used(entry)
    ]
    lines += [
        f"  erratum {item.number}: {item.title}. {item.true}"
        for item in (*ERRATA, *OF_NORMALISER)
        if item.number in entry.errata
    ]
    return "\n".join(lines)


def _record(entry: Entry) -> dict[str, object]:
    fields = ("name", "title", "equation", "part", "source", "edition", "left", "relation")
    return {name: getattr(entry, name) for name in fields} | {
        "text": sp.sstr(entry.expression, order="none" if entry.as_written else None),
        "statement": _statement(entry),
        "latex": render(entry, "latex"),
        "python": render(entry, "python"),
        "conditions": entry.conditions,
        "units": entry.units,
        "dimension": [f"{fault.what}: {fault.where}" for fault in check(entry)],
        "errata": list(entry.errata),
        "symbols": {str(meaning.symbol): _legend(entry, meaning) for meaning in _used(entry)},
    }
