"""What other programs raise: exceptions of unknown classes, of no memory and of no stack, one that
cannot be printed, and a panic of a library in Rust, which is no Exception.
"""

from __future__ import annotations

from typing import Any, NoReturn


class Unknown(Exception):
    """Of a class that no code names."""


class Unprintable(Exception):
    """Fails once more when it is printed."""

    def __str__(self) -> str:
        raise RuntimeError("cannot be printed")


class Panic(BaseException):
    """As pyo3_runtime.PanicException is."""


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
    """A function that raises this."""

    def fail(*args: Any, **keywords: Any) -> NoReturn:
        raise error

    return fail
