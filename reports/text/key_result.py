"""Key results in words: number with interval, and a sentence to quote. Imports the standard library
only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reports.text.number import MISSING, percent


def number_in_words(number: Mapping[str, Any]) -> str:
    """Return a number with its 95% interval, expected value and tolerance, in words.

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


def numbers_in_words(result: Mapping[str, Any]) -> str:
    """Return the number of a key result, and the same at other sizes N, in words."""
    return "; ".join(map(number_in_words, (result["number"], *result.get("also", ()))))


def limits_in_words(number: Mapping[str, Any]) -> str:
    """Return the limits of a number's 95% interval, in words; empty without an interval.

    >>> limits_in_words({"lower": 0.209, "upper": 0.225})
    '0.209 to 0.225'
    """
    if number["lower"] is None or number["upper"] is None:
        return ""
    return f"{_digits(number['lower'])} to {_digits(number['upper'])}"


SENTENCES: Final[Mapping[str, str]] = {
    "separability": "In {model}, the {of}, of the top-N selection over a random selection is"
    " {value}.",
    "norms": "Assumption 1, constant norm of value vectors: the coefficient of variation within a"
    " document is {value}{tolerated}.",
    "similarity": "Assumption 2, exponential decay of similarity: the mean absolute error of the"
    " mean cosine is {value}{tolerated}.",
    "weights": "Assumption 3, four phases of the weights, corrected for document noise: the {of} is"
    " {value} of heads.",
    "bounds": "Bounds: the share of {of} is {value}{expected}.",
    "geometry": "The {of}, over values permuted among content tokens is {value}.",
}
"""Sentence of each key result, with one number and its interval, for any answer."""
IN_PERCENT: Final = {"norms": 1, "weights": 0, "bounds": 0}
"""Decimals of numbers in percent."""


def sentence(result: Mapping[str, Any], model: str) -> str:
    """Return a key result as a sentence with one number and its 95% interval, followed by the same
    number at other N and that of the untrained model; the verdict if there is no number.

    >>> number = {"of": "CV", "value": 0.2168, "lower": 0.209, "upper": 0.225}
    >>> number |= {"expected": None, "tolerated": 0.05}
    >>> sentence({"key": "norms", "number": number, "tokens": None}, "m").partition("document ")[2]
    'is 21.7% (95%: 20.9% to 22.5%); tolerated: 5.0%.'
    """
    number, key = result["number"], result["key"]
    if number["value"] is None or key not in SENTENCES:
        return str(result["verdict"])

    def shown(value: float) -> str:
        return percent(value, IN_PERCENT[key]) if key in IN_PERCENT else _digits(value)

    def with_limits(number: Mapping[str, Any]) -> str:
        value, lower, upper = (number[name] for name in ("value", "lower", "upper"))
        known = lower is not None and upper is not None
        return shown(value) + (f" (95%: {shown(lower)} to {shown(upper)})" if known else "")

    expected, tolerated = number["expected"], number["tolerated"]
    text = SENTENCES[key].format(
        model=model,
        of=_within_sentence(number["of"]),
        value=with_limits(number),
        tolerated="" if tolerated is None else f"; tolerated: {shown(tolerated)}",
        expected=""
        if expected is None
        else f"; {shown(expected)} are expected if the fitted assumptions hold",
    )
    for other in result.get("also", ()):
        text += f" At {other['of']}: {with_limits(other)}"
        text += f"; expected: {shown(other['expected'])}." if other["expected"] is not None else "."
    untrained = (result.get("untrained") or {}).get("number")
    if untrained and untrained["value"] is not None:
        of = f" at {at}" if (at := untrained["of"].rpartition(" at ")[2]) != untrained["of"] else ""
        text += f" The untrained model{of}: {with_limits(untrained)}."
    return f"Layers that see {result['tokens']:,} tokens: {text}" if result["tokens"] else text


def _within_sentence(text: str) -> str:
    """Return a text with a small first letter, but for “Precision”, “Recall” and abbreviations.

    >>> _within_sentence("Pooled CV"), _within_sentence("Recall inside"), _within_sentence("CV: 5")
    ('pooled CV', 'Recall inside', 'CV: 5')
    """
    keeps = text.startswith(("Precision", "Recall")) or text[1:2].isupper()
    return text if keeps else text[:1].lower() + text[1:]


def untrained_in_words(result: Mapping[str, Any]) -> str:
    """Return sentences on the untrained model's answer; empty without a control.

    >>> number = {"of": "CV", "value": 0.05, "lower": None, "upper": None, "expected": None}
    >>> counts = {"of": "KV heads"} | dict.fromkeys(HEAD_STATES, 0) | {"holds": 12}
    >>> other = {"answer": "holds", "number": number | {"tolerated": None}, "counts": counts}
    >>> untrained_in_words({"answer": "holds", "untrained": other})
    ' Untrained model: holds (12 of 12 KV heads hold; CV: 0.05). This needs no training.'
    """
    other = result.get("untrained")
    if not other:
        return ""
    counts = other["counts"]
    total = sum(counts[state] for state in HEAD_STATES)
    words, trivially = states(counts["of"]), counts["holds_trivially"]
    also = f", {trivially:,} {words['holds_trivially']}" * (trivially > 0)
    held = f"{counts['holds']:,} of {total:,} {counts['of']} {words['holds']}{also}; "
    number = _within_sentence(numbers_in_words(other))
    text = (
        f" Untrained model: {other['answer']} ({held * (total > counts['no_estimate'])}{number})."
    )
    answers = {result["answer"], other["answer"]}
    if answers == {"holds"} or (result.get("key") == "geometry" and answers <= {"holds", "mixed"}):
        text += " This needs no training."
    return text


HEAD_STATES: Final = {
    "holds": "hold",
    "holds_trivially": "hold trivially",
    "undetermined": "undetermined",
    "fails": "fail",
    "no_estimate": "without an estimate",
}
VALUE_STATES: Final = {
    "holds": "inside",
    "undetermined": "outside, not significantly",
    "fails": "clearly outside",
}
"""Words for the states of heads, and of values of heads."""


def states(of: str) -> dict[str, str]:
    """Return the words for the states of the counted items.

    >>> states("heads")["holds"], states("values of heads and N")["holds"]
    ('hold', 'inside')
    """
    return HEAD_STATES | (VALUE_STATES if of.startswith("values") else {})


def _digits(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3g}"
