"""The number of a key result in words. Imports the standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reports.text.number import MISSING


def number_in_words(number: Mapping[str, Any]) -> str:
    """A number with its 95% interval, what is expected of it and what is tolerated.

    >>> of = {"of": "CV", "value": 0.2168, "lower": 0.209, "upper": 0.225}
    >>> number_in_words(of | {"expected": None, "tolerated": 0.05})
    'CV: 0.217 (0.209 to 0.225); tolerated 0.05'
    """
    text = f"{number['of']}: {_digits(number['value'])}"
    if number["lower"] is not None and number["upper"] is not None:
        text += f" ({_digits(number['lower'])} to {_digits(number['upper'])})"
    for name in ("expected", "tolerated"):
        if number[name] is not None:
            text += f"; {name} {_digits(number[name])}"
    return text


CALLED: Final = {
    "holds": "hold",
    "undetermined": "undetermined",
    "fails": "fail",
    "no_estimate": "without an estimate",
}
OF_VALUES: Final = {"holds": "inside", "undetermined": "neither", "fails": "outside"}
"""What heads, and values of heads, are called by their state."""


def states(of: str) -> dict[str, str]:
    """How what is counted is called by its state.

    >>> states("heads")["holds"], states("values of heads and N")["holds"]
    ('hold', 'inside')
    """
    return CALLED | (OF_VALUES if of.startswith("values") else {})


def _digits(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3g}"
