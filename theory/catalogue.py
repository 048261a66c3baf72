"""Finding and printing statements and errata: as LaTeX, text, Python or JSON.

The statements themselves are in `theory.statements`, the errata in `theory.errata`. Imports sympy.
"""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from typing import Literal, get_args

import sympy as sp

from theory import symbols
from theory.errata import ERRATA, Erratum
from theory.errors import InputError
from theory.statements import Entry, entries

__all__ = ["Entry", "Erratum", "Style", "entries", "errata", "find", "render", "render_erratum"]

Style = Literal["latex", "text", "python", "json"]

_MATHEMATICS = {
    "κ": r"\kappa", "σ": r"\sigma", "ξ": r"\xi", "μ": r"\mu", "ρ": r"\rho", "φ": r"\varphi", "β": r"\beta", "η": r"\eta",
    "α": r"\alpha", "Δ": r"\Delta", "Σ": r"\Sigma", "≥": r"\ge", "≤": r"\le", "≠": r"\ne", "≲": r"\lesssim", "√": r"\surd",
    "−": "-", "½": r"\frac12", "²": "^{2}", "⁵": "^{5}", "⁻": "^{-}", "₀": "_{0}", "\u2119": r"\underline{p}",
}  # fmt: skip

TEX = {"_": r"\_", "%": r"\%", "&": r"\&", "^": r"\^{}", "{": r"\{", "}": r"\}"} | {x: rf"\({y}\)" for x, y in _MATHEMATICS.items()}
"""Signs of the errata's prose in LaTeX."""


def errata() -> tuple[Erratum, ...]:
    """Return all errata, by number."""
    return ERRATA


def find(name: str) -> tuple[Entry, ...]:
    """Return the statements of a name, or all that share an equation number such as "12", "(12)" or "eq. 12".

    Raises:
        InputError: if there is none, with the nearest names.
    """
    asked = name.strip()
    number = re.fullmatch(r"(?:eq\.?\s*)?\(?(\d+)\)?", asked, flags=re.IGNORECASE)
    if number:
        found = tuple(entry for entry in entries() if entry.equation == number.group(1))
        known = sorted({int(entry.equation) for entry in entries() if entry.equation})
        if not found:
            raise InputError(f"no statement has equation number {number.group(1)}, expected one of {', '.join(map(str, known))}.")
        return found
    exact = tuple(entry for entry in entries() if entry.name == asked)
    found = exact or tuple(entry for entry in entries() if entry.name.lower() == asked.lower().replace(" ", "_").replace("-", "_"))
    if not found:
        names = {entry.name.lower(): entry.name for entry in entries()}
        near = [names[key] for key in get_close_matches(asked.lower(), names, n=5, cutoff=0.4)] or list(names.values())
        raise InputError(f"no statement is called {name!r}, expected a name or an equation number. Near it: {', '.join(near)}.")
    return found


def render(entry: Entry, style: Style) -> str:
    """Return the statement as LaTeX, text, Python or JSON.

    Raises:
        InputError: if the style is unknown.
    """
    if style == "latex":
        relation = {"=": "=", "<=": r"\le", ">=": r"\ge"}[entry.relation]
        return f"{entry.left_latex} {relation} {symbols.latex(entry.expression)}"
    if style == "python":
        return f"{entry.name} = {_python(entry.expression)}"
    if style == "json":
        return json.dumps(_record(entry), ensure_ascii=False, allow_nan=False, indent=2)
    if style == "text":
        return _text(entry)
    raise InputError(f"style is {style!r}, expected one of {', '.join(get_args(Style))}.")


def render_erratum(erratum: Erratum, style: Style) -> str:
    """Return the erratum, with its counterexample evaluated, as text (also for `python`), LaTeX or JSON.

    Raises:
        InputError: if the style is unknown.
    """
    if style not in get_args(Style):
        raise InputError(f"style is {style!r}, expected one of {', '.join(get_args(Style))}.")
    found = erratum.counterexample()
    where = ", ".join(f"({x})" if x.isdigit() else x for x in erratum.equations)
    if style == "json":
        record = {name: getattr(erratum, name) for name in ("number", "title", "printed", "true", "equations")}
        record["counterexample"] = {"what": found.what, "printed": found.printed, "true": found.true}
        return json.dumps(record, ensure_ascii=False, allow_nan=False, indent=2)
    if style == "latex":
        return rf"\item[{erratum.number}.] \textbf{{{_tex(erratum.title)}}}, {where}. {_tex(erratum.printed)} {_tex(erratum.true)}"
    lines = [
        f"{erratum.number}. {erratum.title}, {where}",
        f"   printed: {erratum.printed}",
        f"   true:    {erratum.true}",
        f"   shown:   {found.what}: {found.printed:.6g} in print, {found.true:.6g} in truth",
    ]
    return "\n".join(lines)


def _tex(text: str) -> str:
    """Return prose as plain-ASCII LaTeX: signs beyond ASCII become mathematics (amssymb for one of them)."""
    return "".join(TEX.get(sign, sign) for sign in text.replace("p\u0332", "\u2119"))


def _python(expression: sp.Expr) -> str:
    """Return Python source; `numpy`-free, with the names of `symbols`, and scipy.special's name for the incomplete beta function."""
    beta = sp.Function("betainc")
    plain = expression.replace(sp.betainc_regularized, lambda a, b, _, upper: beta(a, b, upper))
    return str(sp.pycode(plain, user_functions={"betainc": "scipy.special.betainc"}))


def _used(entry: Entry) -> list[symbols.Meaning]:
    names = {symbol.name for symbol in entry.expression.atoms(sp.Symbol)}
    return [meaning for name, meaning in symbols.MEANINGS.items() if name in names]


def _text(entry: Entry) -> str:
    source = f"eq. ({entry.equation})" if entry.equation else "not in print"
    lines = [f"{entry.name}: {entry.title} [{entry.edition}, {source}]", f"  {entry.left} {entry.relation} {entry.expression}"]
    if entry.units:
        lines.append(f"  units: {entry.units}")
    if entry.conditions:
        lines.append(f"  conditions: {entry.conditions}")
    lines += [f"  {meaning.symbol}: {meaning.meaning}{f' [{meaning.unit}]' if meaning.unit else ''}" for meaning in _used(entry)]
    lines += [f"  erratum {item.number}: {item.title}. {item.true}" for item in ERRATA if item.number in entry.errata]
    return "\n".join(lines)


def _record(entry: Entry) -> dict[str, object]:
    return {
        "name": entry.name,
        "title": entry.title,
        "equation": entry.equation,
        "edition": entry.edition,
        "left": entry.left,
        "relation": entry.relation,
        "text": str(entry.expression),
        "latex": render(entry, "latex"),
        "python": render(entry, "python"),
        "conditions": entry.conditions,
        "units": entry.units,
        "errata": list(entry.errata),
        "symbols": {str(meaning.symbol): meaning.meaning for meaning in _used(entry)},
    }
