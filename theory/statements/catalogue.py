"""Catalogue of statements and errata, with search by name, equation number or part of the paper.

A row of Table 1 is the derivative of the printed lower bound of recall, (14), whose sign its arrow
claims. A row of Table 2 is a set of sizes N. Verdicts are in `theory.paper_tables.table_1` and
`theory.paper_tables.table_2`. Source: arXiv 2602.01893, eq. (1)-(33), Definitions 1-3, Assumptions
1-3, Theorems 1-2, Corollary 1, Tables 1-2, and corrected and sharper statements; arXiv 2508.17821,
Lemmas 1-2, Theorems 1-2. `theory.statements.rendering` prints them. Imports sympy.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from types import ModuleType

import sympy as sp

from theory.errata.record import ERRATA, OF_NORMALISER, Erratum
from theory.errors import InputError
from theory.normaliser import expressions
from theory.paper_tables.table_2 import TABLE_2 as SETTLED
from theory.symbolic import approximations, definitions, margins, theorems
from theory.symbolic import symbols as s
from theory.symbolic.record import MEANINGS, Entry, stated

RECALL_LOWER = theorems.RECALL_LOWER.expression.doit().subs(margins.SPELLED_OUT).doit()
"""Eq. (14) in sums and extremes of a, and ρ_out."""

IMPROVES, WEAKENS, MIXED = "printed: improves", "printed: weakens", "printed: mixed"

SLOPES: tuple[tuple[str, str, str, str, tuple[int, ...]], ...] = (
    ("d", "dimension", f"{IMPROVES} exponentially", "both margins positive", (1, 16)),
    ("L", "length", f"{WEAKENS} linearly", "fixed weights a", (1, 3)),
    (
        "N",
        "size",
        f"{MIXED}; its counts improve",
        "fixed margins, only the counts change; N as a real number",
        (1, 25),
    ),
    (
        "a_0",
        "the effective weight of the sink",
        f"{IMPROVES}, often strongly",
        "B without the sink",
        (1, 15, 26),
    ),
    ("a_min_in", "the smallest selected weight", IMPROVES, "fixed S_in", (1,)),
    (
        "a_max_out",
        "the largest unselected weight",
        f"{IMPROVES} when smaller",
        "all else fixed",
        (1,),
    ),
    ("beta", "decay", IMPROVES, "ρ_out = e^{−β}, all else fixed", (1, 24)),
)
"""Rows of Table 1: parameter, its description, printed claim, conditions, errata."""

UNDEFINED = "m₁, m₂, m₃ undefined in print"

REGIMES: tuple[tuple[str, sp.Basic, str, tuple[int, ...]], ...] = (
    ("I", sp.Eq(s.N, 1), "the sink has the largest weight", (28,)),
    ("II", (s.N > 1) & (s.m_1 > s.N), UNDEFINED, (21, 22)),
    ("III", (s.m_1 <= s.N) & (s.m_2 > s.N), UNDEFINED, (21, 23)),
    ("IV", (s.m_2 <= s.N) & (s.m_3 > s.N), UNDEFINED, (21,)),
    ("V", s.m_3 <= s.N, UNDEFINED, (21,)),
)
"""Rows of Table 2: name, sizes N, conditions, errata; cells in `paper_tables.table_2`."""


def _regime_title(name: str) -> str:
    """Return the printed cells of a row of Table 2."""
    (row,) = (row for row in SETTLED if row.row == name)
    return (
        f"sizes of regime {name} (printed: composition of I_N: {row.composition}; trend of Δ/B:"
        f" {row.trend}; effect on statistics: {row.effect})"
    )


BOUNDARIES = {"m_1": s.L - s.T_2 + 2, "m_2": s.m_1 + s.n_plus, "m_3": s.L + 2 - s.n_minus}
"""Boundaries of the regimes in closed form."""


def _slope(name: str) -> sp.Expr:
    """Return the derivative of the lower bound of recall; β enters through ρ_out = e^{−β}."""
    lower = RECALL_LOWER.subs(s.rho_out, sp.exp(-s.beta)) if name == "beta" else RECALL_LOWER
    return sp.diff(lower, MEANINGS[name].symbol)


TABLE_1: tuple[Entry, ...] = (
    *(
        stated(
            f"table_1_row_{name}",
            f"effect of {raised} on the lower bounds ({claim})",
            part=f"Table 1 row {name}",
            errata=errata,
        )(
            (f"dR_lower/d{name}", rf"\partial R_{{\min}} / \partial {MEANINGS[name].latex}"),
            "=",
            _slope(name),
            conditions,
            "norm⁻¹" if MEANINGS[name].unit else "",
        )
        for name, raised, claim, conditions, errata in SLOPES
    ),
    stated(
        "table_1_row_profile",
        "change of Δ when the next token enters I_N (printed: peaks that enter improve, valleys"
        " that enter weaken the bounds)",
        part="Table 1 row profile",
        errata=(29,),
    )(
        ("Delta(N + 1) - Delta(N)", r"\Delta(N + 1) - \Delta(N)"),
        "=",
        margins.ENTRY_STEP,
        "C = 1; the largest unselected weight enters; ρ_out unchanged",
        "norm²",
    ),
)
"""Rows of Table 1; the last is the change of Δ when the next token enters."""

TABLE_2: tuple[Entry, ...] = (
    *(
        stated(
            f"table_2_row_{name}", _regime_title(name), part=f"Table 2 row {name}", errata=errata
        )((f"regime {name}", rf"\mathrm{{regime\ {name}}}"), "iff", sizes, conditions)
        for name, sizes, conditions, errata in REGIMES
    ),
    *(
        stated(name, MEANINGS[name].meaning, edition="repaired")(
            name, "=", value, "0 < η ≤ 1; sink rank ≤ L − T₂ + 1, T₁ ≥ 1, n₊ ≥ 1, n₋ ≥ 1"
        )
        for name, value in BOUNDARIES.items()
    ),
    stated("T", "number of tokens", errata=(3, 38), edition="repaired")(
        "T", "=", s.L + 1, "indices run 0..L"
    ),
)
"""Rows of Table 2, and the boundaries that the paper leaves undefined."""


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
    return close_names(query, NEAR, cutoff=0.4) or close_names(query, NEAR)


def close_names(query: str, most: int, *, cutoff: float = 0.0) -> list[str]:
    """Return names and parts similar to `query`, at most `most`, best first.

    Example:
        >>> close_names("theorm 1", 1)
        ['Theorem 1']
    """
    words = [word for entry in entries() for word in (entry.name, entry.part) if word]
    names = {word.lower(): word for word in words}
    close = get_close_matches(query.lower(), names, n=most, cutoff=cutoff)
    return [names[key] for key in close]


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
