"""Compiled kernels: kept between processes where a folder for them can be written, and spread over
threads.

numba looks for that folder beside the function's file, then in the user's cache, and refuses to
compile where it may write to neither. Kernels release the interpreter's lock, so plain Python
threads run them side by side. Unlike a compiler's own thread pool they sleep between calls, so they
do not take cores from the model's forward pass, and several callers may use them at once. What a
task writes must not depend on which thread runs it; then results do not depend on the number of
threads, bit for bit. Imports numba; torch, for the number of threads, where tasks are spread.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numba

Task = Callable[[], object]


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function when it is first called (options of
    `numba.njit`); it releases the interpreter's lock.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no folder can be written: each process compiles anew
            return numba.njit(nogil=True, **options)(function)

    return decorate


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """One pool a process: a forked child must not wait for its parent's threads."""
    return ThreadPoolExecutor(max_workers=threads, thread_name_prefix=f"geostat-kernels-{process}")


def spread(tasks: Iterable[Task], *, threads: int | None = None) -> None:
    """Run every task once, on `threads` threads (default: as many as torch uses), and return, or
    raise what one raised, when all have ended.

    Tasks are handed out in the given order, the next one to whoever is free: put the longest first.
    """
    import torch

    queue = deque(tasks)
    workers = min(threads if threads is not None else torch.get_num_threads(), len(queue))

    def work() -> None:
        while True:
            try:
                task = queue.popleft()
            except IndexError:
                return
            task()

    beside = [_pool(os.getpid(), workers - 1).submit(work) for _ in range(workers - 1)]
    try:
        work()
    finally:
        wait(beside)
    for future in beside:
        future.result()


def spread_rows(kernel: Callable[..., object], count: int, *given: object, parts: int = 4) -> None:
    """Call a kernel of `count` rows for a few ranges of them side by side; it takes what is given,
    and then the first row and the one after the last.
    """
    edges = [count * part // parts for part in range(parts + 1)]
    spread(partial(kernel, *given, *ends) for ends in pairwise(edges))
