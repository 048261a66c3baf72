"""Error for input that cannot be rendered."""

from __future__ import annotations

from collections.abc import Iterable


class InputError(ValueError):
    """Bad input, with a one-line message: what was seen, what was expected, and the remedy."""


def refuse_unknown(names: Iterable[str], known: Iterable[str], what: str) -> None:
    """Raise InputError for a name that is not among the known names.

    >>> refuse_unknown(["norm"], ["norms", "weights"], "table")
    Traceback (most recent call last):
    reports.errors.InputError: 'norm' is no table of this run, expected some of norms, weights. ...
    """
    choices = list(dict.fromkeys(known))
    for name in names:
        if name not in choices:
            raise InputError(
                f"{name!r} is no {what} of this run, expected some of {', '.join(choices)}. Choose"
                " among these."
            )
