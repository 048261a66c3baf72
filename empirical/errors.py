"""The errors of this room that a user can mend, and what a disk says of what a user can mend.
Imports the standard library.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""A disk without space."""
DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""A file or folder that may not be read or written."""


class InputError(ValueError):
    """Bad input, said in one line: what was seen, what was expected, the remedy."""


class StoreError(RuntimeError):
    """A store on disk is damaged, said in one line: what was seen, and how to get the run back."""


STOPS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""What ends a process or a generator, and is no fault of an input."""
LONGEST_QUOTE: Final = 200
"""Characters that a line quotes of another program's error."""


@contextmanager
def boundary(
    seen: str, expected: str, known: Callable[[BaseException], str | None] = lambda error: None
) -> Iterator[None]:
    """Turn whatever another program raises within into an InputError of one line.

    A panic of a library in Rust is no Exception; it is turned too. What stops a process passes, and
    so do errors that have their line already.

    Args:
        seen: what failed; what was raised follows it in brackets.
        expected: the rest of the line, up to the remedy.
        known: tells the whole line of an error that has a remedy of its own, or None.

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
    """Return what an error says, in one short line; its class, too, where that is one word.

    >>> quoted_error(ValueError("no such  line of text.")), quoted_error(KeyError("a"))
    ('no such line of text', "KeyError: 'a'")
    """
    short, name = message_of(error)[:LONGEST_QUOTE].rstrip(".: "), type(error).__name__
    return short if " " in short else f"{name}: {short}" if short else name


def message_of(error: BaseException) -> str:
    """Return all that an error says, in one line; nothing of one that cannot be printed."""
    try:
        return " ".join(str(error).split())
    except Exception:
        return ""
