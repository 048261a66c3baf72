"""Errors of other programs: exceptions of unknown classes, of memory and recursion, one that cannot
be printed, and a Rust panic, which is no Exception; and the check of a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

from empirical.errors import InputError


class Unknown(Exception):
    """Exception of a class that no code names."""


class Unprintable(Exception):
    """Exception that fails again when printed."""

    def __str__(self) -> str:
        raise RuntimeError("cannot be printed")


class Panic(BaseException):
    """Like pyo3_runtime.PanicException."""


RAISED: tuple[BaseException, ...] = (
    Unknown("of several\nlines"),
    Unprintable(),
    Panic("called `Option::unwrap()` on a `None` value"),
    MemoryError(),
    RecursionError("maximum recursion depth exceeded"),
    ValueError("x" * 10**6),
    AssertionError(),
    StopIteration(),
)


def raising(error: BaseException) -> Any:
    """Return a function that raises this error."""

    def fail(*args: Any, **keywords: Any) -> NoReturn:
        raise error

    return fail


@contextmanager
def refused(said: str) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """Expect a one-line InputError that matches the pattern."""
    with pytest.raises(InputError, match=said) as caught:
        yield caught
    assert "\n" not in str(caught.value)
