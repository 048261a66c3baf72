"""Errors of geostat: bad input, and verdicts that do not meet a requirement."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from empirical.errors import InputError as MeasurementError
from empirical.errors import StoreError
from reports.errors import InputError as ReportError
from reports.text.printable import printable as printable
from theory.errors import InputError as TheoryError

P = ParamSpec("P")
R = TypeVar("R")


class InputError(ValueError):
    """Bad input; the message states what was seen, what was expected and the remedy, in one
    line.
    """


class UnmetRequirement(Exception):
    """A required verdict is not met; the message names it in one line."""


INPUT_ERRORS: Final = (InputError, MeasurementError, TheoryError, ReportError)
"""Errors that the packages raise for bad input."""


def refuse_unknown(value: str, known: Collection[str], seen: str, *, verb: str = "Choose") -> None:
    """Refuse a value that is not among the known ones.

    `seen` opens the message. It describes the bad value, or ends with a colon and names only the
    option that holds the value.

    >>> refuse_unknown("mean", ("sum", "max"), "'mean' is not a total")
    Traceback (most recent call last):
    geostat.errors.InputError: 'mean' is not a total, expected one of sum, max. Choose one of those.
    """
    if value not in known:
        comma = "" if seen.endswith(":") else ","
        raise InputError(f"{seen}{comma} expected one of {', '.join(known)}. {verb} one of those.")


def refuse_no_flags(**flags: object) -> None:
    """Refuse values that are not Python or NumPy booleans: any text, even "no", counts as True."""
    for name, value in flags.items():
        if type(value).__name__ not in ("bool", "bool_"):
            raise InputError(f"{name} {value!r}: expected a truth value. Use True or False.")


KEYWORDS: Final = {"resume": "fresh=False"}
"""Keywords in Python of command-line options; each options class adds its own."""


def in_python(text: str) -> str:
    """Replace command-line options in a message by Python keywords; quoted commands stay.

    >>> in_python("Use --documents 3, or run `geostat fit run.zarr --fresh`.")
    'Use count 3, or run `geostat fit run.zarr --fresh`.'
    """
    parts = text.split("`")
    parts[::2] = [
        re.sub(r"--(\w+(?:-\w+)*)", lambda match: KEYWORDS.get(match[1], match[0]), part)
        for part in parts[::2]
    ]
    return "`".join(parts)


LONGEST: Final = 2000
"""Maximum number of characters in a message."""


def shortened(text: str) -> str:
    """Return a message with its middle cut out if it is too long; the end states the remedy.

    >>> len(shortened("one.jsonl:1: " + "a" * 10**6 + ". Use --field.")) <= LONGEST
    True
    """
    half = (LONGEST - 3) // 2
    return text if len(text) <= LONGEST else f"{text[:half]} … {text[-half:]}"


@contextmanager
def shown_whole(run: object) -> Iterator[None]:
    """Turn an unexpected error while rendering a run into a one-line InputError.

    Results written by another program may hold anything. Errors that already explain themselves
    (bad input, a damaged store, disk, memory) pass through.
    """
    try:
        yield
    except (*INPUT_ERRORS, StoreError, OSError, MemoryError):
        raise
    except Exception as error:
        seen = printable(" ".join(f"{type(error).__name__}: {error}".split())[:120])
        raise InputError(
            f"{run}: cannot be shown ({seen}), expected results of this version of geostat. Run"
            " `geostat fit --fresh` and `geostat confront` on it to replace its results."
        ) from error


def one_error(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that raises every input error as geostat's InputError, naming keywords."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except INPUT_ERRORS as error:
            raise InputError(in_python(shortened(str(error)))) from error

    return wrapped
