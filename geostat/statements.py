"""`geostat theory`: the statements of the theory room as text, LaTeX, Python or JSON. Imports theory only."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Literal, get_args

from geostat.errors import InputError
from geostat.terminal import Console
from theory import catalogue
from theory.errors import InputError as TheoryError

Style = Literal["text", "latex", "python", "json"]


def statement(name: str | None, *, style: str = "text", errata: bool = False) -> str:
    """Render one statement, the list of all, or the errata.

    Args:
        name: a statement's name or equation number; None lists them.
        style: text, latex, python or json.
        errata: print the errata instead: all, or with `name` the one of that number.

    Raises:
        InputError: for an unknown style, name or erratum; unknown equation numbers are refused by the catalogue.
    """
    chosen = next((known for known in get_args(Style) if known == style), None)
    if chosen is None:
        raise InputError(f"--as {style}: expected one of {', '.join(get_args(Style))}. Use one of those.")
    if errata:
        parts = [catalogue.render_erratum(erratum, chosen) for erratum in _errata(name)]
        return _joined(parts if name else _report(parts, chosen), chosen)
    if name is None and style == "text":
        width = max(len(entry.name) for entry in catalogue.entries())
        lines = [f"{entry.name:<{width}}  {_place(entry):<16} {entry.edition:<11} {entry.title}" for entry in catalogue.entries()]
        return "\n".join([*lines, "", "geostat theory NAME prints one, by name or equation number; --errata what is wrong in print."])
    entries = catalogue.entries() if name is None else _found(name)
    return _joined([catalogue.render(entry, chosen) for entry in entries], chosen)


def _found(name: str) -> tuple[catalogue.Entry, ...]:
    """The statements of a name or number; of an unknown name the nearest are named, however far they are."""
    try:
        return catalogue.find(name)
    except TheoryError as error:
        if not any(letter.isalpha() for letter in name):  # an equation number
            raise
        near = get_close_matches(name.strip().lower(), [entry.name for entry in catalogue.entries()], n=3, cutoff=0.0)
        raise InputError(f"no statement is called {name!r}. Near it: {', '.join(near)}. `geostat theory` lists all.") from error


def _errata(number: str | None) -> list[catalogue.Erratum]:
    known = list(catalogue.errata())
    if number is None:
        return known
    found = [erratum for erratum in known if str(erratum.number) == number.strip()]
    if not found:
        raise InputError(f"--errata {number}: expected a number from 1 to {len(known)}. Use one of those.")
    return found


def _place(entry: catalogue.Entry) -> str:
    """Return the equation's number, or the part of the paper that holds the statement."""
    part = entry.part if entry.part.startswith(("Assumption", "Table", "Definition")) else "–"
    return f"({entry.equation})" if entry.equation else part.split(" row")[0]


def _report(parts: list[str], style: Style) -> list[str]:
    """Return all errata with what stands before them; in LaTeX a list of items."""
    if style == "latex":
        return [catalogue.preface(style), r"\begin{description}", *parts, r"\end{description}"]
    return [catalogue.preface(style), *parts] if style == "text" else parts


def _joined(parts: list[str], style: Style) -> str:
    if style == "json":
        return parts[0] if len(parts) == 1 else "[" + ",\n".join(parts) + "]"
    return "\n\n".join(parts)


def audited(*, draws: int, every: int, console: Console) -> str:
    """Audit every edition against simulation and write the counts down as Markdown.

    Raises:
        InputError: for fewer than two draws, or a step below one.
    """
    from theory.audit import audit, markdown

    if draws < 2 or every < 1:
        raise InputError(f"--draws {draws} --every {every}: expected at least 2 draws and a step of at least 1. Change the number.")
    return markdown(audit(draws=draws, every=every, progress=lambda done, total: console.fraction("audit", done / total)))
