"""Key results in words: their number, and a sentence to be quoted. Imports the standard library
only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reports.text.number import MISSING, percent


def number_in_words(number: Mapping[str, Any]) -> str:
    """A number with its 95% interval, what is expected of it and what is tolerated.

    >>> of = {"of": "CV", "value": 0.2168, "lower": 0.209, "upper": 0.225}
    >>> number_in_words(of | {"expected": None, "tolerated": 0.05})
    'CV: 0.217 (0.209 to 0.225); tolerated 0.05'
    """
    text = f"{number['of']}: {_digits(number['value'])}"
    if limits := limits_in_words(number):
        text += f" ({limits})"
    for name in ("expected", "tolerated"):
        if number[name] is not None:
            text += f"; {name} {_digits(number[name])}"
    return text


def limits_in_words(number: Mapping[str, Any]) -> str:
    """The ends of a number's 95% interval; nothing where it has none.

    >>> limits_in_words({"lower": 0.209, "upper": 0.225})
    '0.209 to 0.225'
    """
    if number["lower"] is None or number["upper"] is None:
        return ""
    return f"{_digits(number['lower'])} to {_digits(number['upper'])}"


SENTENCES: Final[Mapping[str, str]] = {
    "separability": "In {model}, the {of}, of the tokens with most weight over tokens chosen at"
    " random is {value}.",
    "norms": "Assumption 1, value vectors of one length: within a document their length varies by"
    " {value} of its mean{tolerated}.",
    "similarity": "Assumption 2, exponential decay of similarity: it misses the mean cosine by"
    " {value}{tolerated}.",
    "weights": "Assumption 3, four phases of the weights, noise of documents taken out: the {of} is"
    " {value} of heads.",
    "bounds": "Bounds: of the measured values of Recall {value} lie inside the sharp bounds of"
    " these assumptions{expected}.",
    "directions": "The {of}, over values of random direction is {value}.",
}
"""One sentence a key result, with one number and its interval, whatever its answer is."""
IN_PERCENT: Final = {"norms": 1, "weights": 0, "bounds": 0}
"""Decimals of numbers that are shares."""


def sentence(result: Mapping[str, Any], model: str) -> str:
    """A key result as a sentence with one number and its 95% interval; its verdict where nothing
    was measured.

    >>> number = {"of": "CV", "value": 0.2168, "lower": 0.209, "upper": 0.225}
    >>> number |= {"expected": None, "tolerated": 0.05}
    >>> sentence({"key": "norms", "number": number, "tokens": None}, "m").partition("varies ")[2]
    'by 21.7% (95%: 20.9% to 22.5%) of its mean; tolerated: 5.0%.'
    """
    number, key = result["number"], result["key"]
    if number["value"] is None or key not in SENTENCES:
        return str(result["verdict"])

    def shown(value: float) -> str:
        return percent(value, IN_PERCENT[key]) if key in IN_PERCENT else _digits(value)

    value, lower, upper = (number[name] for name in ("value", "lower", "upper"))
    known = lower is not None and upper is not None
    limits = f" (95%: {shown(lower)} to {shown(upper)})" if known else ""
    expected, tolerated = number["expected"], number["tolerated"]
    text = SENTENCES[key].format(
        model=model,
        of=number["of"][:1].lower() + number["of"][1:],
        value=f"{shown(value)}{limits}",
        tolerated="" if tolerated is None else f"; tolerated: {shown(tolerated)}",
        expected=""
        if expected is None
        else f"; {shown(expected)} would if the assumptions were true as fitted",
    )
    return f"Layers that see {result['tokens']:,} tokens: {text}" if result["tokens"] else text


CALLED: Final = {
    "holds": "hold",
    "undetermined": "undetermined",
    "fails": "fail",
    "no_estimate": "without an estimate",
}
OF_VALUES: Final = {
    "holds": "inside",
    "undetermined": "outside, not clearly",
    "fails": "clearly outside",
}
"""What heads, and values of heads, are called by their state."""


def states(of: str) -> dict[str, str]:
    """How what is counted is called by its state.

    >>> states("heads")["holds"], states("values of heads and N")["holds"]
    ('hold', 'inside')
    """
    return CALLED | (OF_VALUES if of.startswith("values") else {})


def _digits(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3g}"
