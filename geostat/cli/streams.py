"""Standard streams that are closed, broken, full, or of an encoding that lacks a letter. Imports the standard library."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress


def prepare() -> None:
    """Make every stream one that can be used: a closed one is the null device, a letter that it cannot encode is written as its code."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # in this order each gets back its own number, which the next file that is opened would get otherwise
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(line: str) -> None:
    """Write a line on stderr, at once; one that cannot be written is not worth a stop."""
    with suppress(OSError):
        sys.stderr.write(f"geostat: {line}\n")
        sys.stderr.flush()


def settle() -> None:
    """Write what is left to write; where a stream takes no more it is dropped, of which Python would complain as it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
