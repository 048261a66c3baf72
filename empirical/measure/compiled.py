"""Compiled kernels: cached between processes if a folder is writable, spread over threads, and
timed while they compile.

numba looks for a cache folder next to the function's file, then in the user's cache, and refuses to
compile if neither is writable. Kernels release the GIL, so plain Python threads run them in
parallel. Unlike a compiler's thread pool they sleep between calls, take no cores from the model's
forward pass, and serve several callers at once. A task's output must not depend on its thread; then
results are equal bit for bit for any number of threads. Imports numba; torch, for the number of
threads, if tasks are spread.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numba
from numba.core.event import Event, Listener, install_listener

Task = Callable[[], object]


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles at the first call (`numba.njit`) and releases the GIL."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no writable folder: each process compiles again
            return numba.njit(nogil=True, **options)(function)

    return decorate


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Return a process's thread pool; a forked child must not wait for its parent's threads."""
    return ThreadPoolExecutor(max_workers=threads, thread_name_prefix=f"geostat-kernels-{process}")


def spread(tasks: Iterable[Task]) -> None:
    """Run every task once, on as many threads as torch uses. Return, or raise a task's error, after
    all have ended.

    Tasks start in the given order on the next free thread, so put the longest first.
    """
    import torch

    queue = deque(tasks)
    workers = min(torch.get_num_threads(), len(queue))

    def work() -> None:
        while True:
            try:
                task = queue.popleft()
            except IndexError:
                return
            task()

    futures = [_pool(os.getpid(), workers - 1).submit(work) for _ in range(workers - 1)]
    try:
        work()
    finally:
        wait(futures)
    for future in futures:
        future.result()


def spread_rows(kernel: Callable[..., object], count: int, *args: object) -> None:
    """Call kernel(*args, start, stop) for four ranges of `count` rows in parallel."""
    edges = [count * part // 4 for part in range(5)]
    spread(partial(kernel, *args, *ends) for ends in pairwise(edges))


class _Announcer(Listener):
    """Calls `notify` when the first kernel begins to compile."""

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._notified = False

    def on_start(self, event: Event) -> None:
        if not self._notified:
            self._notified = True
            self._notify()

    def on_end(self, event: Event) -> None:
        """Do nothing."""


@dataclass(slots=True)
class Compilation(Listener):
    """Seconds in which any thread compiled, loaded or saved kernels; overlaps count once."""

    seconds: float = 0.0
    _began: float = 0.0
    _inside: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on_start(self, event: Event) -> None:
        """Start the clock unless it runs."""
        with self._lock:
            if self._inside == 0:
                self._began = time.perf_counter()
            self._inside += 1

    def on_end(self, event: Event) -> None:
        """Stop the clock when the last compilation ends."""
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self.seconds += time.perf_counter() - self._began


@contextmanager
def compilation(notify: Callable[[], None] = lambda: None) -> Iterator[Compilation]:
    """Time the compilations inside the block; `notify` is called at the first one.

    >>> with compilation() as watched:
    ...     pass
    >>> watched.seconds
    0.0
    """
    with (
        install_listener("numba:compile", _Announcer(notify)),
        install_listener("numba:compiler_lock", Compilation()) as watched,
    ):
        yield watched
