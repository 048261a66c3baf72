"""The one error that the reports raise for input that they cannot render."""

from __future__ import annotations

from collections.abc import Iterable


class InputError(ValueError):
    """Bad input: one line with what was seen, what was expected, and the remedy."""


def refuse_unknown(asked: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuse a name that is none of those known.

    >>> refuse_unknown(["norm"], ["norms", "weights"], "table")
    Traceback (most recent call last):
    reports.errors.InputError: 'norm' is no table of this run, expected some of norms, weights. ...
    """
    there = list(dict.fromkeys(known))
    for name in asked:
        if name not in there:
            raise InputError(
                f"{name!r} is no {what} of this run, expected some of {', '.join(there)}. Name"
                " those that are wanted."
            )
