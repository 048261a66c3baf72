"""Errors that a user can fix, and the error numbers that say a disk is full or access is denied.

Imports the standard library.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers of a disk without space."""
DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""Error numbers of a file or folder that may not be read or written."""


class InputError(ValueError):
    """Bad input. The message is one line: what was seen, what was expected, the remedy."""


class StoreError(RuntimeError):
    """A damaged store. The message is one line: what was seen, and how to get the run back."""


STOPS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""Exceptions that end a process or a generator; they are never the fault of an input."""
LONGEST_QUOTE: Final = 200
"""Characters of another program's error that a message quotes."""


@contextmanager
def boundary(
    seen: str, expected: str, known: Callable[[BaseException], str | None] = lambda error: None
) -> Iterator[None]:
    """Turn any error that another program raises in the block into a one-line InputError.

    This includes a panic of a Rust library, which is not an Exception. Exceptions that stop the
    process pass through, and so do InputError and StoreError.

    Args:
        seen: what failed; the message quotes the original error after it, in brackets.
        expected: the rest of the line, up to the remedy.
        known: returns the whole message for an error with a specific remedy, else None.

    >>> with boundary("one.txt: cannot be read", "expected a text. Leave it out."):
    ...     {}["a"]
    Traceback (most recent call last):
    empirical.errors.InputError: one.txt: cannot be read (KeyError: 'a'), expected a text. Leave ...
    """
    try:
        yield
    except (InputError, StoreError, *STOPS):
        raise
    except BaseException as error:
        line = known(error) or f"{seen} ({quoted_error(error)}), {expected}"
        raise InputError(line) from error


def quoted_error(error: BaseException) -> str:
    """Return an error's message, shortened to one line; a message of one word is preceded by the
    class name.

    >>> quoted_error(ValueError("no such  line of text.")), quoted_error(KeyError("a"))
    ('no such line of text', "KeyError: 'a'")
    """
    short, name = message_of(error)[:LONGEST_QUOTE].rstrip(".: "), type(error).__name__
    return short if " " in short else f"{name}: {short}" if short else name


def message_of(error: BaseException) -> str:
    """Return an error's full message on one line; an empty string if it cannot be printed."""
    try:
        return " ".join(str(error).split())
    except Exception:
        return ""
