"""Finding and printing statements and errata: as LaTeX, text, Python or JSON.

The statements themselves are in `theory.statements`, the errata in `theory.errata`. Imports sympy.
"""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from textwrap import wrap
from typing import Literal, get_args

import sympy as sp

from theory.errata.record import ERRATA, PREFACE, Erratum
from theory.errata.report import shown
from theory.errors import InputError
from theory.statements.dimensions import check
from theory.statements.every import Entry, entries
from theory.statements.record import LATEX_RELATIONS
from theory.symbolic import symbols

__all__ = [
    "Entry",
    "Erratum",
    "Style",
    "entries",
    "errata",
    "find",
    "find_erratum",
    "preface",
    "render",
    "render_erratum",
    "statement",
]

Style = Literal["latex", "text", "python", "json"]

_MATHEMATICS = {
    "κ": r"\kappa", "σ": r"\sigma", "ξ": r"\xi", "μ": r"\mu", "ρ": r"\rho", "φ": r"\varphi", "β": r"\beta", "η": r"\eta",
    "α": r"\alpha", "Δ": r"\Delta", "Σ": r"\Sigma", "≥": r"\ge", "≤": r"\le", "≠": r"\ne", "≲": r"\lesssim", "≳": r"\gtrsim", "≡": r"\equiv", "√": r"\surd",
    "λ": r"\lambda", "π": r"\pi", "ω": r"\omega", "∈": r"\in", "∖": r"\setminus", "·": r"\cdot", "×": r"\times", "≈": r"\approx",
    "→": r"\to", "↦": r"\mapsto", "↑": r"\uparrow", "↓": r"\downarrow", "…": r"\ldots", "‖": r"\|", "⟨": r"\langle", "⟩": r"\rangle",
    "¹": "^{1}", "³": "^{3}", "⁶": "^{6}", "ᵀ": "^{T}", "₁": "_{1}", "₂": "_{2}", "₃": "_{3}", "₊": "_{+}", "₋": "_{-}",
    "−": "-", "½": r"\frac12", "²": "^{2}", "⁵": "^{5}", "⁻": "^{-}", "₀": "_{0}", "\u2119": r"\underline{p}",
}  # fmt: skip

GREEK = {
    "α": "alpha", "β": "beta", "η": "eta", "κ": "kappa", "λ": "lam", "μ": "mu", "ξ": "xi", "ρ": "rho", "σ": "sigma", "ω": "omega",
    "Δ": "Delta", "₀": "_0", "₁": "_1", "₂": "_2", "₃": "_3", "₊": "_plus", "₋": "_minus",
}  # fmt: skip
"""How a letter of the paper is spelled in a name."""

PARTS = {
    **dict.fromkeys(("theorem", "theorems", "thm", "thms", "theo", "th"), "Theorem"),
    **dict.fromkeys(("corollary", "coroll", "cor"), "Corollary"),
    **dict.fromkeys(("assumption", "assumptions", "assump", "ass", "asm"), "Assumption"),
    **dict.fromkeys(("definition", "definitions", "defn", "def"), "Definition"),
    **dict.fromkeys(("table", "tab", "tbl"), "Table"),
    **dict.fromkeys(("figure", "fig"), "Figure"),
    **dict.fromkeys(("section", "sect", "sec", "§"), "Section"),
    **dict.fromkeys(("appendix", "app"), "Appendix"),
}
"""How a part of the paper is spelled, and its name."""

NEAR = 8
"""Names offered at most where there is none."""

_PART = re.compile(
    r"(?P<word>[a-z]+|§)\.?[\s_-]*\(?(?P<number>a?\.?\d+(?:\.\d+)*)\)?(?:[\s_,:-]*(?:row[\s_-]*)?(?P<row>\S.*))?", re.IGNORECASE
)
_EQUATION = re.compile(r"(?:(?:eq|eqn|eqs|equation|formula)\.?[\s_-]*)?\(?0*(\d+)\)?", re.IGNORECASE)

TEX = (
    {"_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$", "^": r"\^{}", "{": r"\{", "}": r"\}"}
    | {x: rf"\({y}\)" for x, y in _MATHEMATICS.items()}
    | {"“": "``", "”": "''"}
)
"""Signs of the errata's prose in LaTeX."""


def errata() -> tuple[Erratum, ...]:
    """Return all errata, by number."""
    return ERRATA


def preface(style: Style) -> str:
    """Return what stands before the list of all errata, for text and LaTeX."""
    paragraphs = (
        [_tex(paragraph) for paragraph in PREFACE] if style == "latex" else ["\n".join(wrap(paragraph, 140)) for paragraph in PREFACE]
    )
    return "\n\n".join(paragraphs)


def find(name: str | int) -> tuple[Entry, ...]:
    """Return the statements of a name, or all that share a number: 12, "eq. (12)", "Theorem 1", "table1 row d", "Assumption 2".

    A name is the entry's own, the symbol on its left side, or the part of the paper; Greek letters may be written as such.

    Raises:
        InputError: if there is none, with the nearest names, a few.
    """
    asked = part_of(str(name))
    number = _EQUATION.fullmatch(asked)
    if number:
        found = tuple(entry for entry in entries() if entry.equation == number.group(1))
        if not found:
            raise InputError(f"no statement has equation number {number.group(1)}, expected 1 to {_last_number()}. Use one of those.")
        return found
    plain = _plain(asked)
    for test in (
        lambda entry: entry.name == asked,
        lambda entry: _plain(entry.name) == plain,
        lambda entry: _plain(entry.left) == plain and entry.edition == "printed",
        lambda entry: re.match(re.escape(plain) + r"(?![0-9a-z])", _plain(entry.part)) is not None,
    ):
        found = tuple(entry for entry in entries() if plain and test(entry))
        if found:
            return found
    if not asked:
        raise InputError("no name was given, expected one, or an equation number from 1 to 33. `geostat theory` lists all.")
    raise InputError(f"no statement is called {str(name)!r}, expected a name or an equation number. Near it: {', '.join(_near(asked))}.")


def _near(asked: str) -> list[str]:
    """Return the names, parts and equation numbers most like what was asked, the nearest first, `NEAR` at most."""
    number = re.fullmatch(r"\(?(-?\d+(?:\.\d*)?)\)?", asked)
    if number:
        return sorted(
            {entry.equation for entry in entries() if entry.equation}, key=lambda one: (abs(int(one) - float(number[1])), int(one))
        )[:NEAR]
    known = [word for entry in entries() for word in (entry.name, entry.part) if word]
    names = {word.lower(): word for word in known}
    found = get_close_matches(asked.lower(), names, n=NEAR, cutoff=0.4) or get_close_matches(asked.lower(), names, n=NEAR, cutoff=0.0)
    return [names[key] for key in found]


def part_of(name: str) -> str:
    """Return a name with Greek letters spelled out and a part of the paper as the paper calls it: "thm1" is "Theorem 1"."""
    asked = "".join(GREEK.get(sign, sign) for sign in name.strip())
    match = _PART.fullmatch(asked)
    word = PARTS.get(match["word"].lower()) if match else None
    if match is None or word is None:
        return asked
    number = match["number"].upper()
    return f"{word} {number} row {match['row']}" if match["row"] and word == "Table" else f"{word} {number}" if not match["row"] else asked


def statement(name: str | int) -> Entry:
    """Return the one statement of a name or number.

    Raises:
        InputError: if there is none, or several, with their names.
    """
    found = find(name)
    if len(found) > 1:
        names = ", ".join(entry.name for entry in found)
        raise InputError(f"{name!r} holds {len(found)} statements, expected one. Name one of {names}, or use find.")
    return found[0]


def find_erratum(number: str | int) -> Erratum:
    """Return the erratum of a number: 17 or "erratum 17".

    Raises:
        InputError: if there is none.
    """
    digits = re.fullmatch(r"(?:(?:erratum|errata|err)\.?\s*)?(\d+)", str(number).strip(), flags=re.IGNORECASE)
    found = [erratum for erratum in ERRATA if digits and erratum.number == int(digits[1])]
    if not found:
        raise InputError(f"no erratum has number {str(number).strip()}, expected 1 to {len(ERRATA)}. Use one of those.")
    return found[0]


def _plain(text: str) -> str:
    return text.lower().replace(" ", "_").replace("-", "_")


def _last_number() -> int:
    return max(int(entry.equation) for entry in entries() if entry.equation)


def render(entry: Entry, style: Style) -> str:
    """Return the statement as LaTeX, text, Python or JSON.

    Raises:
        InputError: if the style is unknown.
    """
    if style == "latex":
        return f"{entry.left_latex} {LATEX_RELATIONS[entry.relation]} {symbols.latex(entry.expression)}"
    if style == "python":
        source = _python(entry.expression)
        imports = [f"import {module}\n" for module in ("math", "scipy.special") if f"{module}." in source]
        return f"{''.join(imports)}# of {', '.join(_free(entry))}\n{entry.name} = {source}"
    if style == "json":
        return json.dumps(_record(entry), ensure_ascii=False, allow_nan=False, indent=2)
    if style == "text":
        return _text(entry)
    raise InputError(f"style is {style!r}, expected one of {', '.join(get_args(Style))}.")


def render_erratum(erratum: Erratum, style: Style) -> str:
    """Return the erratum, with its counterexample evaluated, as text (for `python` in comments), LaTeX or JSON.

    Raises:
        InputError: if the style is unknown.
    """
    if style not in get_args(Style):
        raise InputError(f"style is {style!r}, expected one of {', '.join(get_args(Style))}.")
    found = erratum.counterexample()
    if style == "json":
        record: dict[str, object] = {name: getattr(erratum, name) for name in ("number", "title", "printed", "why", "true", "equations")}
        record["counterexample"] = {"what": found.what, "given": found.given, "printed": found.printed, "true": found.true}
        return json.dumps(record, ensure_ascii=False, allow_nan=False, indent=2)
    if style == "latex":
        sentences = (erratum.printed, erratum.why, erratum.true, f"{shown(found)}.")
        labels = ("Printed:", "Why it fails:", "True:", "Counterexample:")
        body = " ".join(rf"\emph{{{label}}} {_tex(text)}" for label, text in zip(labels, sentences, strict=True))
        return rf"\item[{erratum.number}.] \textbf{{{_tex(erratum.title)}}}, {_tex(erratum.where)}. {body}"
    lines = [
        f"{erratum.number}. {erratum.title}, {erratum.where}",
        *_paragraph("printed", erratum.printed),
        *_paragraph("why", erratum.why),
        *_paragraph("true", erratum.true),
        *_paragraph("shown", f"{shown(found)}."),
    ]
    return "\n".join(f"# {line}" for line in lines) if style == "python" else "\n".join(lines)


def _paragraph(label: str, text: str) -> list[str]:
    return wrap(text, width=130, initial_indent=f"   {label + ':':<9}", subsequent_indent=" " * 12, break_long_words=False)


def _tex(text: str) -> str:
    """Return prose as plain-ASCII LaTeX: signs beyond ASCII become mathematics (amssymb for one of them)."""
    return "".join(TEX.get(sign, sign) for sign in text.replace("p\u0332", "\u2119"))


def _python(expression: sp.Basic) -> str:
    """Return Python source; `numpy`-free, with the names of `symbols`, and scipy.special's name for the incomplete beta function."""
    beta = sp.Function("betainc")
    plain = expression.replace(sp.betainc_regularized, lambda a, b, _, upper: beta(a, b, upper))
    return str(sp.pycode(plain, user_functions={"betainc": "scipy.special.betainc"})).replace("builtins.", "")


def _free(entry: Entry) -> list[str]:
    """Return what the Python of a statement has to be given: symbols, sets, sequences, and functions of vectors."""
    bound = {index for over in entry.expression.atoms(symbols.Over) for index, _ in over.pairs()}
    bound |= {index for total in entry.expression.atoms(sp.Sum) for index in total.variables}
    kinds = ((symbols.Norm, "norm(vector)"), (symbols.Inner, "inner(vector, vector)"), (symbols.Mean, "mean(value)"))
    names = [str(meaning.symbol) for meaning in _used(entry) if meaning.symbol not in bound]
    return [*names, *(name for kind, name in kinds if entry.expression.atoms(kind))] or ["nothing"]


def _used(entry: Entry) -> list[symbols.Meaning]:
    names = {symbol.name for symbol in entry.expression.atoms(sp.Symbol)}
    return [meaning for name, meaning in symbols.MEANINGS.items() if name in names]


def _said(entry: Entry, meaning: symbols.Meaning) -> str:
    """Return what a symbol means in a statement: an index that runs over sets of tokens is one of these, another is any token."""
    sets = {str(members) for over in entry.expression.atoms(symbols.Over) for index, members in over.pairs() if index == meaning.symbol}
    return f"{meaning.meaning} of {' or of '.join(sorted(sets))}" if sets else meaning.meaning


def _text(entry: Entry) -> str:
    lines = [
        f"{entry.name}: {entry.title} [{entry.edition}]",
        f"  {entry.left} {entry.relation} {entry.expression}",
        f"  source: {entry.source}",
    ]
    if entry.units:
        lines.append(f"  units: {entry.units}")
    if entry.conditions:
        lines.append(f"  conditions: {entry.conditions}")
    lines += [f"  dimension: {fault.what}: {fault.where}" for fault in check(entry)]
    lines += [f"  {meaning.symbol}: {_said(entry, meaning)}{f' [{meaning.unit}]' if meaning.unit else ''}" for meaning in _used(entry)]
    lines += [f"  erratum {item.number}: {item.title}. {item.true}" for item in ERRATA if item.number in entry.errata]
    return "\n".join(lines)


def _record(entry: Entry) -> dict[str, object]:
    return {
        "name": entry.name,
        "title": entry.title,
        "equation": entry.equation,
        "part": entry.part,
        "source": entry.source,
        "edition": entry.edition,
        "left": entry.left,
        "relation": entry.relation,
        "text": str(entry.expression),
        "latex": render(entry, "latex"),
        "python": render(entry, "python"),
        "conditions": entry.conditions,
        "units": entry.units,
        "dimension": [f"{fault.what}: {fault.where}" for fault in check(entry)],
        "errata": list(entry.errata),
        "symbols": {str(meaning.symbol): _said(entry, meaning) for meaning in _used(entry)},
    }
