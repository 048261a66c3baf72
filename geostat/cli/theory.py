"""`geostat theory`: statements of the theory as text, LaTeX, Python or JSON.

Imports theory only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, cast, get_args

from geostat.errors import InputError, refuse_unknown
from theory.errors import InputError as TheoryError
from theory.statements import catalogue, rendering

Style = Literal["text", "latex", "python", "json"]


def statement(name: str | None, *, style: str = "text", errata: bool = False) -> str:
    """Return a rendered statement, selected by name, equation number or place in the paper.

    Without a name return the list of statements. With `errata` return errata: all of them, or the
    one with the number `name`.

    Raises:
        InputError: for an unknown style, name, equation number or erratum.

    >>> print(statement("erratum 17").splitlines()[0])
    17. N = L, (12), (14) [undefined]
    """
    refuse_unknown(style, get_args(Style), f"--as {style}:", verb="Use")
    style_ = cast(Style, style)
    if name and (
        numbered := re.fullmatch(
            r"errat(?:um|a)(?:\s*\W?\s*(\d+))?", name.strip(), flags=re.IGNORECASE
        )
    ):
        name, errata = numbered[1], True
    if errata:
        listed = catalogue.errata() if name is None else [catalogue.find_erratum(name)]
        parts = [rendering.render_erratum(erratum, style_) for erratum in listed]
        if not name and style_ == "latex":
            parts = [r"\begin{description}", *parts, r"\end{description}"]
        if not name and style_ in ("text", "latex"):
            parts = [rendering.preface(style_), *parts]
        return _joined(parts, style_)
    if name is None and style == "text":
        width = max(len(entry.name) for entry in catalogue.entries())
        lines = [
            f"{entry.name:<{width}}  {_place(entry):<20} {entry.edition:<11} {entry.title}"
            for entry in catalogue.entries()
        ]
        note = (
            "geostat theory NAME prints one statement, by name or equation number; --errata"
            " prints the errata of the paper."
        )
        return "\n".join([*lines, "", note])
    entries = catalogue.entries() if name is None else _found(name)
    parts = [rendering.render(entry, style_) for entry in entries]
    if name is not None and style_ == "text":
        parts += _verdicts(entries)
    if not entries:  # a figure, or a section without statements
        found = catalogue.errata_at(name or "")
        parts = [rendering.render_erratum(erratum, style_) for erratum in found]
    return _joined(parts, style_)


def _verdicts(entries: Sequence[catalogue.Entry]) -> list[str]:
    """Return the verdict on Table 1 or 2 if `entries` are all its rows."""
    for number in (1, 2):
        if tuple(entries) == catalogue.find(f"Table {number}"):
            from theory.paper_tables import table_1, table_2

            recorded = table_1.markdown() if number == 1 else table_2.markdown()
            return [f"Verdict on this table:\n\n{recorded}"]
    return []


def _found(name: str) -> tuple[catalogue.Entry, ...]:
    """Return the statements with a name or number; none for a part with errata only.

    Raises:
        InputError: for an unknown name; the message lists the closest names.
    """
    try:
        return catalogue.find(name)
    except TheoryError as error:
        if catalogue.errata_at(name):
            return ()
        if not any(letter.isalpha() for letter in name):  # an equation number
            raise
        near = ", ".join(catalogue.close_names(catalogue.part_of(name), 3))
        raise InputError(
            f"no statement is called {name!r}. Close names: {near}. `geostat theory` lists all."
        ) from error


def _place(entry: catalogue.Entry) -> str:
    """Return the equation number, or the part of the paper that holds the statement."""
    named = ("Assumption", "Table", "Definition", "Normaliser")
    part = entry.part if entry.part.startswith(named) else "–"
    return f"({entry.equation})" if entry.equation else part.split(" row")[0]


def _joined(parts: list[str], style: Style) -> str:
    if style == "json":
        return parts[0] if len(parts) == 1 else "[" + ",\n".join(parts) + "]"
    if style == "python" and len(parts) > 1:  # imports are merged at the top
        lines = [line for part in parts for line in part.splitlines()]
        imports = [line for line in dict.fromkeys(lines) if line.startswith("import ")]
        rest = [
            "\n".join(line for line in part.splitlines() if line not in imports) for part in parts
        ]
        return "\n\n".join(["\n".join(imports), *rest] if imports else rest)
    return "\n\n".join(parts)
