"""Signals that stop a command: Ctrl-C, SIGTERM (of `kill`, a scheduler, a container's end) and SIGHUP (of a terminal that closes).

All raise KeyboardInterrupt, so that what Ctrl-C cleans up is cleaned up. Imports the standard library.
"""

from __future__ import annotations

import signal
import warnings
from types import FrameType
from typing import NoReturn

STOPS = ("SIGINT", "SIGTERM", "SIGHUP")
_heeded: list[int] = []
_received: list[int] = []


def heed() -> None:
    """Stop at each of these signals; one that is ignored, as under nohup, stays so."""
    for number in (getattr(signal, name) for name in STOPS if hasattr(signal, name)):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _stop)
            _heeded.append(number)


def exit_code() -> int:
    """Return 128 + the number of the first signal, as a shell gives it; while the command ends, which is now, further ones are ignored."""
    for number in _heeded:
        signal.signal(number, signal.SIG_IGN)
    if _heeded:
        warnings.simplefilter("ignore")  # that something was left half-done, such as a read of zarr's, is no news
    return 128 + (_received[0] if _received else signal.SIGINT)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    _received.append(number)
    raise KeyboardInterrupt
