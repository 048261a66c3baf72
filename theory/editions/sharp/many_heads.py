"""Shared resources of compiled loops over heads: the table of the sharp law, work arrays, threads.

The law is that of `theory.editions.sharp.sharp_law`, tabulated to 1e-8 absolute. Uses plain Python
threads and kernels that release the interpreter lock, not a threading layer of numba; any thread
may call them. Imports numpy and scipy.special.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from threading import Lock
from typing import TypeVar

import numpy as np
from scipy.special import betaln, stdtr

from theory.arrays import FloatArray

TABULATED_FROM = 7
"""Smallest d of the table: below it the density is too steep at r = ±1 for a cubic."""

Task = TypeVar("Task")
Answer = TypeVar("Answer")


@lru_cache(maxsize=8)
def law_table(dimension: int) -> FloatArray:
    """Return cubic Hermite coefficients, shape (cells + 1, 4), of the pairwise probability as a
    function of |r| in [0, 1].

    Cells of width 1/(64√d) or less keep the error near 1e-10 (fourth derivative of order d²).
    """
    # fine enough for the steepest part, of width 1/√d
    cells = max(512, int(2 ** np.ceil(np.log2(64 * np.sqrt(dimension)))))
    r = np.linspace(0.0, 1.0, cells + 1)
    rest = (1 - r) * (1 + r)
    with np.errstate(divide="ignore"):
        value = stdtr(dimension, -np.sqrt(dimension) * r / np.sqrt(rest))
    value[-1] = 0.0
    # values by Student's law, slopes by its density: a cubic Hermite piece in each cell
    slope = -np.exp(-betaln(dimension / 2, 0.5)) * rest ** (dimension / 2 - 1) / cells
    rise, left, right = value[1:] - value[:-1], slope[:-1], slope[1:]
    table = np.zeros((cells + 1, 4))
    table[:-1] = np.stack(
        [value[:-1], left, 3 * rise - 2 * left - right, left + right - 2 * rise], axis=1
    )
    table.flags.writeable = False
    return table


class WorkArrays:
    """Pool of T×T arrays that heads reuse: touching fresh memory costs more than sorting the
    cosines of a head.

    Keeps arrays of a single T, at most as many as were in use at once. Thread-safe.

    Example:
        >>> arrays = WorkArrays()
        >>> arrays.take(3).shape
        (3, 3)
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._free: list[FloatArray] = []

    def take(self, tokens: int) -> FloatArray:
        """Return an uninitialised array (tokens, tokens)."""
        with self._lock:
            if self._free and len(self._free[-1]) != tokens:
                self._free = []
            if self._free:
                return self._free.pop()
        return np.empty((tokens, tokens))

    def give_back(self, arrays: Iterable[FloatArray]) -> None:
        """Return arrays that are no longer in use to the pool."""
        with self._lock:
            self._free += [
                array for array in arrays if array.flags.owndata and array.flags.writeable
            ]


BY_RANK = WorkArrays()
"""Pool for cosines by rank. The caller of `take` calls `give_back`."""


def workers() -> int:
    """Return the number of threads to use: the CPUs available to this process, at most 16.

    Example:
        >>> 1 <= workers() <= 16
        True
    """
    affinity = getattr(os, "sched_getaffinity", None)  # not available on every system
    cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min(16, cpus))


def is_first() -> bool:
    """Return whether this is the main thread."""
    return threading.current_thread() is threading.main_thread()


def in_threads(work: Callable[[Task], Answer], tasks: Iterable[Task]) -> list[Answer]:
    """Return [work(task) for task in tasks], computed on several threads. A single task runs in the
    calling thread. All tasks do if the caller is not the main thread: it is one of several workers
    already, and more would wait for the interpreter lock.

    Example:
        >>> in_threads(abs, [-1, 2, -3])
        [1, 2, 3]
    """
    task_list = list(tasks)
    if not is_first() or len(task_list) < 2:
        return list(map(work, task_list))
    with ThreadPoolExecutor(workers()) as pool:
        return list(pool.map(work, task_list))
