"""Compilation of kernels while it happens: the seconds it takes, as numba's events tell them.

A kernel that an earlier process compiled is read from the disk, which takes moments and is not
told. Imports numba.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from numba.core.event import Event, Listener, install_listener


class _Announcer(Listener):
    """Calls `tell` when the first kernel begins to compile."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._told = False

    def on_start(self, event: Event) -> None:
        if not self._told:
            self._told = True
            self._tell()

    def on_end(self, event: Event) -> None:
        """Nothing: a kernel was compiled."""


@dataclass(slots=True)
class Compilation(Listener):
    """Seconds during which some thread compiled kernels, read or kept them, or waited for one that
    does: a kernel inside another, and threads side by side, count once.
    """

    seconds: float = 0.0
    _began: float = 0.0
    _inside: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on_start(self, event: Event) -> None:
        """Start the clock, unless it runs."""
        with self._lock:
            if self._inside == 0:
                self._began = time.perf_counter()
            self._inside += 1

    def on_end(self, event: Event) -> None:
        """Stop the clock with the last that ends."""
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self.seconds += time.perf_counter() - self._began


@contextmanager
def compilation(tell: Callable[[], None] = lambda: None) -> Iterator[Compilation]:
    """Watch what is compiled inside the block; `tell` is called when the first kernel is.

    >>> with compilation() as watched:
    ...     pass
    >>> watched.seconds
    0.0
    """
    with (
        install_listener("numba:compile", _Announcer(tell)),
        install_listener("numba:compiler_lock", Compilation()) as watched,
    ):
        yield watched
