"""The errors that geostat raises: for bad input, and for a verdict that was required and is not
there.
"""

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
    """What was seen, what was expected, and the remedy, in one line."""


class Unmet(Exception):
    """A verdict that was required is not met; says which, in one line."""


REFUSED: Final = (InputError, MeasurementError, TheoryError, ReportError)
"""What the rooms refuse, each with a line of its own."""


def refuse_unknown(value: str, known: Collection[str], seen: str, *, verb: str = "Choose") -> None:
    """Refuse a value that is none of those known; `seen` says what it is and is not, or, with a
    colon at its end, only where it stands.

    >>> refuse_unknown("mean", ("sum", "max"), "'mean' is no total")
    Traceback (most recent call last):
    geostat.errors.InputError: 'mean' is no total, expected one of sum, max. Choose one of those.
    """
    if value not in known:
        comma = "" if seen.endswith(":") else ","
        raise InputError(f"{seen}{comma} expected one of {', '.join(known)}. {verb} one of those.")


def refuse_no_flags(**flags: object) -> None:
    """Refuse what is no truth value, Python's or NumPy's: any text, "no" among them, would count
    as True.
    """
    for name, given in flags.items():
        if type(given).__name__ not in ("bool", "bool_"):
            raise InputError(f"{name} {given!r}: expected a truth value. Use True or False.")


KEYWORDS: Final = {
    "documents": "count",
    "text": "documents",
    "cluster": "client",
    "edition": "editions",
    "special-tokens": "special_tokens",
    "fresh": "fresh=True",
    "resume": "fresh=False",
    "allow-pickle": "allow_pickle=True",
    "trust-remote-code": "trust_remote_code=True",
    "predict": "predict=True",
    "rule": "rules",
    "head": "heads",
    "regime": "regimes",
    "part": "parts",
}
"""Options of the command that have another name in Python."""
ALIKE: Final = (
    *("length", "queries", "dtype", "device", "revision", "out", "field", "dataset", "split"),
    *("n", "batch", "measure", "convention", "seed", "tau", "mode", "target", "layers", "each"),
    *("tolerances", "sizes", "budgets", "draws", "contexts", "lengths"),
)
OPTION: Final = re.compile(rf"--({'|'.join((*KEYWORDS, *ALIKE))})\b")


def in_python(text: str) -> str:
    """Name keywords where a message names options of the command; whole commands stay.

    >>> in_python("Use --documents 3, or run `geostat fit run.zarr --fresh`.")
    'Use count 3, or run `geostat fit run.zarr --fresh`.'
    """
    parts = text.split("`")
    parts[::2] = [OPTION.sub(lambda m: KEYWORDS.get(m[1], m[1]), part) for part in parts[::2]]
    return "`".join(parts)


LONGEST: Final = 2000
"""Characters of a message, at most."""


def shortened(text: str) -> str:
    """A message without its middle, where that is long: its end tells the remedy.

    >>> len(shortened("one.jsonl:1: " + "a" * 10**6 + ". Use --field.")) <= LONGEST
    True
    """
    half = (LONGEST - 3) // 2
    return text if len(text) <= LONGEST else f"{text[:half]} … {text[-half:]}"


@contextmanager
def shown_whole(run: object) -> Iterator[None]:
    """Say in one line that what a run holds cannot be shown: a run of somebody else may hold
    anything. What is refused, and what a disk or the memory refuses, is raised as it is.
    """
    try:
        yield
    except (*REFUSED, StoreError, OSError, MemoryError):
        raise
    except Exception as error:
        seen = printable(" ".join(f"{type(error).__name__}: {error}".split())[:120])
        raise InputError(
            f"{run}: cannot be shown ({seen}), expected what this version of geostat writes. Run"
            " `geostat fit --fresh` and `geostat confront` on it to make its results anew."
        ) from error


def one_error(function: Callable[P, R]) -> Callable[P, R]:
    """Raise bad input of any room as the one InputError of geostat, in the words of Python."""

    @wraps(function)
    def guarded(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            return function(*args, **keywords)
        except REFUSED as error:
            raise InputError(in_python(shortened(str(error)))) from error

    return guarded
