"""Escaping of foreign text and data for display, against control characters and spreadsheet
formulas. Imports the standard library only.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final


def printable(text: str) -> str:
    r"""Escape control characters, direction marks and other unprintable characters of a text.

    >>> printable("a\x1b[31m\u202eb")
    'a\\x1b[31m\\u202eb'
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def printable_data(value: Any) -> Any:
    """Return data for JSON: texts are escaped, and numbers that are not finite become None.

    >>> printable_data({"a": [1.5, float("nan"), "b"]})
    {'a': [1.5, None, 'b']}
    """
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {printable(str(name)): printable_data(item) for name, item in value.items()}
    return [printable_data(item) for item in value] if isinstance(value, list | tuple) else value


_NUMBER: Final = r"[-+]?\d[\d.,]*(?:e[-+]?\d+|×10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?"
_NUMBERS: Final = re.compile(rf"{_NUMBER}(?: (?:to|±) {_NUMBER})*")
"""A number, its error, or the limits of an interval."""


def no_formula(text: str) -> str:
    """Return a text that no spreadsheet evaluates: prefixed by a quote if it starts like a formula
    and is not a number.

    >>> no_formula("=cmd()"), no_formula("-1.5 to 2×10⁻⁴")
    ("'=cmd()", '-1.5 to 2×10⁻⁴')
    """
    begins = unicodedata.normalize("NFKC", text[:1]) in tuple("=+-@\t\r")
    return f"'{text}" if begins and not _NUMBERS.fullmatch(text) else text
