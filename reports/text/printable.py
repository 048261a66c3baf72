"""Foreign text and data made fit to be shown: nothing in them moves, colours or turns what stands
around. Imports the standard library only.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final


def printable(text: str) -> str:
    r"""A text that is shown as it stands: what would move, colour or turn it, or cannot be written,
    is escaped.

    >>> printable("a\x1b[31m\u202eb")
    'a\\x1b[31m\\u202eb'
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text
    )


def printable_data(value: Any) -> Any:
    """Data for JSON: its texts are printable, and a number that is not finite is None, as JSON has
    none.

    >>> printable_data({"a": [1.5, float("nan"), "b"]})
    {'a': [1.5, None, 'b']}
    """
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {printable(str(name)): printable_data(one) for name, one in value.items()}
    return [printable_data(one) for one in value] if isinstance(value, list | tuple) else value


_NUMBER: Final = r"[-+]?\d[\d.,]*(?:e[-+]?\d+|×10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?"
_NUMBERS: Final = re.compile(rf"{_NUMBER}(?: (?:to|±) {_NUMBER})*")
"""A number, its error, or the limits of an interval."""


def no_formula(text: str) -> str:
    """A text that no spreadsheet evaluates: behind a quote where it begins as a formula does and is
    no number.

    >>> no_formula("=cmd()"), no_formula("-1.5 to 2×10⁻⁴")
    ("'=cmd()", '-1.5 to 2×10⁻⁴')
    """
    begins = unicodedata.normalize("NFKC", text[:1]) in tuple("=+-@\t\r")
    return f"'{text}" if begins and not _NUMBERS.fullmatch(text) else text
