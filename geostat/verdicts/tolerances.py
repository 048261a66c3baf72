"""Tolerances of the claims, with their sources: those of `tolerances.toml`, any of which a user's
own file replaces. Imports tomllib.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from empirical.sources.paths import read_whole
from geostat.errors import InputError, refuse_unknown
from geostat.verdicts.claims import CLAIMS, Claim, refuse_withdrawn

LARGEST: Final = 2**20
"""Bytes of a file of tolerances, at most."""
DEFAULT_TOLERANCES: Final = Path(__file__).with_name("tolerances.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """What a claim is held against, and where the number comes from."""

    value: float
    source: str


def read_tolerances(path: Path | None = None) -> dict[str, Tolerance]:
    """Read the tolerances, a user's file over the built-in one.

    Args:
        path: a TOML file with a table for each claim it changes: the claim's own side (at_most,
            at_least or within) and `source`.

    Raises:
        InputError: for a file that cannot be read, an unknown claim or a withdrawn one, another
            side than the claim's, or a value that is none.

    >>> read_tolerances()["norms.cv"].value
    0.05
    """
    result = _read(DEFAULT_TOLERANCES)
    return result if path is None else result | _read(path)


def _read(path: Path) -> dict[str, Tolerance]:
    try:
        data = read_whole(path, most=LARGEST)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}), expected a TOML file of tolerances. Check"
            " the path."
        ) from None
    try:
        tables = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # of numbers too long for Python, too
        reason = "nested too deep" if isinstance(error, RecursionError) else error
        raise InputError(
            f"{path}: is no TOML ({reason}). Start from a copy of {DEFAULT_TOLERANCES}."
        ) from None
    known = {claim.key: claim for claim in CLAIMS}
    out = {}
    for key, table in _flat(tables).items():
        refuse_withdrawn(f"{path}: [{key}]", key)
        refuse_unknown(key, known, f"{path}: [{key}] is no claim", verb="Name")
        out[key] = _tolerance(path, known[key], table)
    return out


def _flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Tables [a.b] by their full name "a.b"; anything that is no table within a table keeps its
    own name, and is refused as no claim.
    """
    flat: dict[str, Any] = {}
    for first, inner in tables.items():
        if (
            isinstance(inner, dict)
            and inner
            and all(isinstance(value, dict) for value in inner.values())
        ):
            flat |= {f"{first}.{second}": table for second, table in inner.items()}
        else:
            flat[first] = inner
    return flat


def _tolerance(path: Path, claim: Claim, table: object) -> Tolerance:
    if not isinstance(table, dict):
        raise InputError(
            f"{path}: {claim.key} = {table!r}, expected a table [{claim.key}] with {claim.side} ="
            " NUMBER and source = TEXT. Write it so."
        )
    odd = sorted(set(table) - {claim.side, "source"})
    if odd or claim.side not in table:
        seen = f"has {odd[0]!r}" if odd else f"has no {claim.side!r}"
        raise InputError(
            f"{path}: [{claim.key}] {seen}, expected {claim.side} = NUMBER and source = TEXT. Write"
            " it so."
        )
    value = table[claim.side]
    # Compared, not converted: a whole number may be beyond any float.
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= sys.float_info.max
    ):
        vast = isinstance(value, int) and abs(value) > sys.float_info.max
        seen = "a whole number beyond any float" if vast else repr(value)
        raise InputError(
            f"{path}: [{claim.key}] {claim.side} = {seen}, expected a number of at least 0. Give"
            " one."
        )
    return Tolerance(value=float(value), source=str(table.get("source", "the user's own")))
