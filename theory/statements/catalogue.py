"""Catalogue of statements and errata, with search by name, equation number or part of the paper.

Source: arXiv 2602.01893, eq. (1)-(33), Definitions 1-3, Assumptions 1-3, Theorems 1-2, Corollary 1,
Tables 1-2, and corrected and sharper statements; arXiv 2508.17821, Lemmas 1-2, Theorems 1-2.
`theory.statements.rendering` prints them. Imports sympy.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from types import ModuleType

from theory.errata.record import ERRATA, OF_NORMALISER, Erratum
from theory.errors import InputError
from theory.normaliser import expressions
from theory.statements.tables import TABLE_1, TABLE_2
from theory.symbolic import approximations, definitions, margins, theorems
from theory.symbolic.record import Entry

SPELLED = "α alpha  β beta  η eta  κ kappa  λ lam  μ mu  ξ xi  ρ rho  σ sigma  ω omega  Δ Delta"
GREEK = dict(re.findall(r"(\S) (\S+)", f"{SPELLED}  ₀ _0  ₁ _1  ₂ _2  ₃ _3  ₊ _plus  ₋ _minus"))
"""Spelling of Greek letters and subscripts in names."""

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
"""Accepted spellings of the parts of the paper."""

NEAR = 8
"""Largest number of suggestions for an unknown name."""

_PART = re.compile(
    r"(?P<word>[a-z]+|§)\.?[\s_-]*\(?(?P<number>a?\.?\d+(?:\.\d+)*)\)?(?:[\s_,:-]*(?:row[\s_-]*)?(?P<row>\S.*))?",
    re.IGNORECASE,
)
_EQUATION = re.compile(
    r"(?:(?:eq|eqn|eqs|equation|formula)\.?[\s_-]*)?\(?0*(\d+)\)?", re.IGNORECASE
)


@cache
def entries() -> tuple[Entry, ...]:
    """Return every statement: printed ones by equation number, then rows of tables, then the other
    editions.

    Example:
        >>> next(entry.name for entry in entries() if entry.equation == "12")
        'precision_lower'
    """
    of_proofs = (*_stated_in(margins), *_stated_in(theorems))
    numbered = (*_stated_in(definitions), *(e for e in of_proofs if e.edition == "printed"))
    in_order = sorted(
        numbered, key=lambda entry: (entry.edition != "printed", int(entry.equation or 0))
    )
    others = (entry for entry in of_proofs if entry.edition != "printed")
    rest = (*others, *_stated_in(approximations), *_stated_in(expressions))
    return (*in_order, *TABLE_1, *TABLE_2, *rest)


def _stated_in(module: ModuleType) -> tuple[Entry, ...]:
    """Return the statements of a module: its constants, and groups of them, in order."""
    stated: list[Entry] = []
    for value in vars(module).values():
        groups = value.values() if isinstance(value, dict) else [value]
        for group in groups:
            members = group if isinstance(group, tuple) else (group,)
            stated += [entry for entry in members if isinstance(entry, Entry)]
    return tuple(stated)


def errata() -> tuple[Erratum, ...]:
    """Return all errata, by number; those from 101 on concern arXiv 2508.17821.

    Example:
        >>> errata()[0].title
        'Units'
    """
    return (*ERRATA, *OF_NORMALISER)


def find(name: str | int) -> tuple[Entry, ...]:
    """Return the statements with a name or number: 12, "eq. (12)", "Theorem 1", "table1 row d",
    "Assumption 2".

    A name is that of the entry, the symbol on its left side, or the part of the paper; Greek
    letters are accepted.

    Raises:
        InputError: if there is none; the message suggests similar names.

    Example:
        >>> [entry.name for entry in find("Theorem 1")]
        ['precision_lower', 'precision_upper']
    """
    query = part_of(str(name))
    number = _EQUATION.fullmatch(query)
    if number:
        result = tuple(entry for entry in entries() if entry.equation == number.group(1))
        if not result:
            last = max(int(entry.equation) for entry in entries() if entry.equation)
            raise InputError(
                f"no statement has equation number {number.group(1)}, expected 1 to {last}. Use one"
                " of those."
            )
        return result
    normalised = _plain(query)
    for matches in (
        lambda entry: entry.name == query,
        lambda entry: _plain(entry.name) == normalised,
        lambda entry: _plain(entry.left) == normalised and entry.edition == "printed",
        lambda entry: (
            re.match(re.escape(normalised) + r"(?![0-9a-z])", _plain(entry.part)) is not None
        ),
    ):
        result = tuple(entry for entry in entries() if normalised and matches(entry))
        if result:
            return result
    if not query:
        raise InputError(
            "no name was given, expected one, or an equation number from 1 to 33. `geostat theory`"
            " lists all."
        )
    raise InputError(
        f"no statement is called {str(name)!r}, expected a name or an equation number. Near it:"
        f" {', '.join(_near(query))}."
    )


def _near(query: str) -> list[str]:
    """Return up to `NEAR` names, parts or equation numbers most similar to `query`, best first."""
    number = re.fullmatch(r"\(?(-?\d+(?:\.\d*)?)\)?", query)
    if number:
        return sorted(
            {entry.equation for entry in entries() if entry.equation},
            key=lambda equation: (abs(int(equation) - float(number[1])), int(equation)),
        )[:NEAR]
    words = [word for entry in entries() for word in (entry.name, entry.part) if word]
    names = {word.lower(): word for word in words}
    result = get_close_matches(query.lower(), names, n=NEAR, cutoff=0.4) or get_close_matches(
        query.lower(), names, n=NEAR, cutoff=0.0
    )
    return [names[key] for key in result]


def part_of(name: str) -> str:
    """Return a name with Greek letters spelled out, or the canonical name of a part of the paper:
    "thm1" is "Theorem 1".

    Example:
        >>> part_of("thm1")
        'Theorem 1'
    """
    spelled = "".join(GREEK.get(sign, sign) for sign in name.strip())
    match = _PART.fullmatch(spelled)
    word = PARTS.get(match["word"].lower()) if match else None
    if match is None or word is None:
        return spelled
    number = match["number"].upper()
    return (
        f"{word} {number} row {match['row']}"
        if match["row"] and word == "Table"
        else f"{word} {number}"
        if not match["row"]
        else spelled
    )


def statement(name: str | int) -> Entry:
    """Return the unique statement with a name or number.

    Raises:
        InputError: if there is none, or several (the message lists them).

    Example:
        >>> statement(12).name
        'precision_lower'
    """
    result = find(name)
    if len(result) > 1:
        names = ", ".join(entry.name for entry in result)
        raise InputError(
            f"{name!r} holds {len(result)} statements, expected one. Name one of {names}, or use"
            " find."
        )
    return result[0]


def find_erratum(number: str | int) -> Erratum:
    """Return the erratum with a number: 17 or "erratum 17".

    Raises:
        InputError: if there is none.

    Example:
        >>> find_erratum("erratum 17").title
        'N = L'
    """
    digits = re.fullmatch(
        r"(?:(?:erratum|errata|err)\.?\s*)?(\d{1,9})", str(number).strip(), flags=re.IGNORECASE
    )
    matches = [erratum for erratum in errata() if digits and erratum.number == int(digits[1])]
    if not matches:
        raise InputError(
            f"no erratum has number {str(number).strip()}, expected 1 to {len(ERRATA)}, or"
            f" {OF_NORMALISER[0].number} to {OF_NORMALISER[-1].number}. Use one of those."
        )
    return matches[0]


def errata_at(part: str) -> tuple[Erratum, ...]:
    """Return the errata that concern a part of the paper: "Figure 3", "§4.1", "Table 2 row I".

    Example:
        >>> [erratum.number for erratum in errata_at("fig. 3")]
        [35]
    """
    return tuple(erratum for erratum in errata() if part_of(part) in erratum.equations)


def _plain(text: str) -> str:
    return text.lower().replace(" ", "_").replace("-", "_")
