"""The process of a command: standard streams that are closed, broken, full, or of an encoding that
lacks a letter, and signals that stop it.

Signals are Ctrl-C, SIGTERM (of `kill`, a scheduler, a container's end) and SIGHUP (of a terminal
that closes). All raise KeyboardInterrupt, so that what Ctrl-C cleans up is cleaned up. Imports the
standard library.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import warnings
from contextlib import suppress
from types import FrameType
from typing import NoReturn

STOPS = ("SIGINT", "SIGTERM", "SIGHUP")
_heeded: list[int] = []
_received: list[int] = []


def prepare() -> None:
    """Make every stream one that can be used: a closed one is the null device, a letter that it
    cannot encode is written as its code.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if (
            stream is None
            # in this order each gets back its own number, which the next file that is opened would
            # get otherwise
        ):
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(line: str) -> None:
    """Write a line on stderr, at once; one that cannot be written is not worth a stop."""
    with suppress(OSError):
        sys.stderr.write(f"geostat: {line}\n")
        sys.stderr.flush()


def settle() -> None:
    """Write what is left to write; where a stream takes no more it is dropped, of which Python
    would complain as it ends.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def heed() -> None:
    """Stop at each of these signals; one that is ignored, as under nohup, stays so."""
    for number in (getattr(signal, name) for name in STOPS if hasattr(signal, name)):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _stop)
            _heeded.append(number)


def exit_code() -> int:
    """Return 128 + the number of the first signal, as a shell gives it; while the command ends,
    which is now, further ones are ignored.
    """
    for number in _heeded:
        signal.signal(number, signal.SIG_IGN)
    if _heeded:
        warnings.simplefilter(
            "ignore"
        )  # that something was left half-done, such as a read of zarr's, is no news
    return 128 + (_received[0] if _received else signal.SIGINT)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    _received.append(number)
    raise KeyboardInterrupt
