"""`geostat theory`: the statements of the theory room as text, LaTeX, Python or JSON. Imports theory only."""

from __future__ import annotations

from typing import Literal, get_args

from geostat.errors import InputError
from theory import catalogue

Style = Literal["text", "latex", "python", "json"]


def statement(name: str | None, *, style: str = "text", errata: bool = False) -> str:
    """Render one statement, the list of all, or the errata.

    Args:
        name: a statement's name or equation number; None lists them.
        style: text, latex, python or json.
        errata: print the errata instead: all, or with `name` the one of that number.

    Raises:
        InputError: for an unknown style or number; unknown names are refused by the catalogue.
    """
    chosen = next((known for known in get_args(Style) if known == style), None)
    if chosen is None:
        raise InputError(f"--as {style}: expected one of {', '.join(get_args(Style))}. Use one of those.")
    if errata:
        return _joined([catalogue.render_erratum(erratum, chosen) for erratum in _errata(name)], chosen)
    if name is None and style == "text":
        width = max(len(entry.name) for entry in catalogue.entries())
        lines = [f"{entry.name:<{width}}  ({entry.equation or '–'})  {entry.edition:<9} {entry.title}" for entry in catalogue.entries()]
        return "\n".join([*lines, "", "geostat theory NAME prints one, by name or equation number; --errata what is wrong in print."])
    entries = catalogue.entries() if name is None else catalogue.find(name)
    return _joined([catalogue.render(entry, chosen) for entry in entries], chosen)


def _errata(number: str | None) -> list[catalogue.Erratum]:
    known = list(catalogue.errata())
    if number is None:
        return known
    found = [erratum for erratum in known if str(erratum.number) == number.strip()]
    if not found:
        raise InputError(f"--errata {number}: expected a number from 1 to {len(known)}. Use one of those.")
    return found


def _joined(parts: list[str], style: Style) -> str:
    if style == "json":
        return parts[0] if len(parts) == 1 else "[" + ",\n".join(parts) + "]"
    return "\n\n".join(parts)
