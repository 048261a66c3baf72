"""Catalogue of statements and errata: all of them in order, and finding one by name, equation
number or part of the paper.

Source: arXiv 2602.01893, eq. (1)-(33), Definitions 1-3, Assumptions 1-3, Theorems 1-2, Corollary 1,
Tables 1-2, and what is true beyond print; arXiv 2508.17821, Lemmas 1-2, Theorems 1-2.
`theory.statements.rendering` prints them. Imports sympy.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache

from theory.errata.record import ERRATA, OF_NORMALISER, Erratum
from theory.errors import InputError
from theory.statements.margins import APPENDIX, DEFINITIONS, REDUCTIONS, REPAIRED_MARGINS
from theory.statements.normaliser import NORMALISER
from theory.statements.predicted import PREDICTED
from theory.statements.record import Entry
from theory.statements.setting import ASSUMPTIONS, METRICS, NOTATION
from theory.statements.slopes import SLOPES
from theory.statements.tables import SINK_EFFECT, TABLE_1, TABLE_2
from theory.statements.theorems import CONDITIONAL, PRINTED, REPAIRED, SHARP

SPELLED = "α alpha  β beta  η eta  κ kappa  λ lam  μ mu  ξ xi  ρ rho  σ sigma  ω omega  Δ Delta"
GREEK = dict(re.findall(r"(\S) (\S+)", f"{SPELLED}  ₀ _0  ₁ _1  ₂ _2  ₃ _3  ₊ _plus  ₋ _minus"))
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
    r"(?P<word>[a-z]+|§)\.?[\s_-]*\(?(?P<number>a?\.?\d+(?:\.\d+)*)\)?(?:[\s_,:-]*(?:row[\s_-]*)?(?P<row>\S.*))?",
    re.IGNORECASE,
)
_EQUATION = re.compile(
    r"(?:(?:eq|eqn|eqs|equation|formula)\.?[\s_-]*)?\(?0*(\d+)\)?", re.IGNORECASE
)


@cache
def entries() -> tuple[Entry, ...]:
    """Return every statement, printed ones first, by equation number; rows of tables after them.

    Example:
        >>> next(entry.name for entry in entries() if entry.equation == "12")
        'precision_lower'
    """
    numbered = (
        *METRICS,
        *ASSUMPTIONS,
        *NOTATION,
        *REDUCTIONS,
        *DEFINITIONS,
        *PRINTED,
        *APPENDIX,
        *SINK_EFFECT,
    )
    in_order = sorted(
        numbered, key=lambda entry: (entry.edition != "printed", int(entry.equation or 0))
    )
    rest = (*REPAIRED_MARGINS, *REPAIRED, *SHARP, *CONDITIONAL, *PREDICTED, *NORMALISER, *SLOPES)
    return (*in_order, *TABLE_1, *TABLE_2, *rest)


def errata() -> tuple[Erratum, ...]:
    """Return all errata, by number; those from 101 on concern arXiv 2508.17821.

    Example:
        >>> errata()[0].title
        'Units'
    """
    return (*ERRATA, *OF_NORMALISER)


def find(name: str | int) -> tuple[Entry, ...]:
    """Return the statements of a name, or all that share a number: 12, "eq. (12)", "Theorem 1",
    "table1 row d", "Assumption 2".

    A name is the entry's own, the symbol on its left side, or the part of the paper; Greek letters
    may be written as such.

    Raises:
        InputError: if there is none, with the nearest names, a few.

    Example:
        >>> [entry.name for entry in find("Theorem 1")]
        ['precision_lower', 'precision_upper']
    """
    asked = part_of(str(name))
    number = _EQUATION.fullmatch(asked)
    if number:
        result = tuple(entry for entry in entries() if entry.equation == number.group(1))
        if not result:
            last = max(int(entry.equation) for entry in entries() if entry.equation)
            raise InputError(
                f"no statement has equation number {number.group(1)}, expected 1 to {last}. Use one"
                " of those."
            )
        return result
    plain = _plain(asked)
    for test in (
        lambda entry: entry.name == asked,
        lambda entry: _plain(entry.name) == plain,
        lambda entry: _plain(entry.left) == plain and entry.edition == "printed",
        lambda entry: re.match(re.escape(plain) + r"(?![0-9a-z])", _plain(entry.part)) is not None,
    ):
        result = tuple(entry for entry in entries() if plain and test(entry))
        if result:
            return result
    if not asked:
        raise InputError(
            "no name was given, expected one, or an equation number from 1 to 33. `geostat theory`"
            " lists all."
        )
    raise InputError(
        f"no statement is called {str(name)!r}, expected a name or an equation number. Near it:"
        f" {', '.join(_near(asked))}."
    )


def _near(asked: str) -> list[str]:
    """Return the names, parts and equation numbers most like what was asked, the nearest first,
    `NEAR` at most.
    """
    number = re.fullmatch(r"\(?(-?\d+(?:\.\d*)?)\)?", asked)
    if number:
        return sorted(
            {entry.equation for entry in entries() if entry.equation},
            key=lambda one: (abs(int(one) - float(number[1])), int(one)),
        )[:NEAR]
    known = [word for entry in entries() for word in (entry.name, entry.part) if word]
    names = {word.lower(): word for word in known}
    result = get_close_matches(asked.lower(), names, n=NEAR, cutoff=0.4) or get_close_matches(
        asked.lower(), names, n=NEAR, cutoff=0.0
    )
    return [names[key] for key in result]


def part_of(name: str) -> str:
    """Return a name with Greek letters spelled out and a part of the paper as the paper calls it:
    "thm1" is "Theorem 1".

    Example:
        >>> part_of("thm1")
        'Theorem 1'
    """
    asked = "".join(GREEK.get(sign, sign) for sign in name.strip())
    match = _PART.fullmatch(asked)
    word = PARTS.get(match["word"].lower()) if match else None
    if match is None or word is None:
        return asked
    number = match["number"].upper()
    return (
        f"{word} {number} row {match['row']}"
        if match["row"] and word == "Table"
        else f"{word} {number}"
        if not match["row"]
        else asked
    )


def statement(name: str | int) -> Entry:
    """Return the one statement of a name or number.

    Raises:
        InputError: if there is none, or several, with their names.

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
    """Return the erratum of a number: 17 or "erratum 17".

    Raises:
        InputError: if there is none.

    Example:
        >>> find_erratum("erratum 17").title
        'N = L'
    """
    digits = re.fullmatch(
        r"(?:(?:erratum|errata|err)\.?\s*)?(\d{1,9})", str(number).strip(), flags=re.IGNORECASE
    )
    out = [erratum for erratum in errata() if digits and erratum.number == int(digits[1])]
    if not out:
        raise InputError(
            f"no erratum has number {str(number).strip()}, expected 1 to {len(ERRATA)}, or"
            f" {OF_NORMALISER[0].number} to {OF_NORMALISER[-1].number}. Use one of those."
        )
    return out[0]


def errata_at(part: str) -> tuple[Erratum, ...]:
    """Return the errata that concern a part of the paper: "Figure 3", "§4.1", "Table 2 row I".

    Example:
        >>> [erratum.number for erratum in errata_at("fig. 3")]
        [35]
    """
    return tuple(erratum for erratum in errata() if part_of(part) in erratum.equations)


def _plain(text: str) -> str:
    return text.lower().replace(" ", "_").replace("-", "_")
