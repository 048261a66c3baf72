"""What many heads share in compiled loops: the table of the sharp law, work arrays, a few threads.

The law is that of `theory.editions.sharp.sharp_law`, tabulated to 1e-8 absolute. Plain Python
threads and kernels that release the interpreter lock: no threading layer of numba is used, so any
one thread may call them. Imports numpy and scipy.special.
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
"""Smallest d the table serves: below it the law's density is too steep at r = ±1 for a cubic."""

Task = TypeVar("Task")
Answer = TypeVar("Answer")


@lru_cache(maxsize=8)
def law_table(dimension: int) -> FloatArray:
    """Return cubic Hermite coefficients, shape (cells + 1, 4), of the pairwise probability as a
    function of |r| in [0, 1].

    Cells of width 1/(64√d) or less keep the error near 1e-10 (fourth derivative of order d²).
    """
    # cells fine enough for the steepest part, of width 1/√d
    cells = max(512, int(2 ** np.ceil(np.log2(64 * np.sqrt(dimension)))))
    r = np.linspace(0.0, 1.0, cells + 1)
    rest = (1 - r) * (1 + r)
    with np.errstate(divide="ignore"):
        value = stdtr(dimension, -np.sqrt(dimension) * r / np.sqrt(rest))
    value[-1] = 0.0
    # values by Student's law, slopes by its density: a cubic Hermite piece in each cell
    slope = -np.exp(-betaln(dimension / 2, 0.5)) * rest ** (dimension / 2 - 1) / cells
    rise, here, there = value[1:] - value[:-1], slope[:-1], slope[1:]
    table = np.zeros((cells + 1, 4))
    table[:-1] = np.stack(
        [value[:-1], here, 3 * rise - 2 * here - there, here + there - 2 * rise], axis=1
    )
    table.flags.writeable = False
    return table


class WorkArrays:
    """T×T arrays that heads use one after another: fresh memory costs more to touch than a head's
    cosines cost to sort.

    Keeps arrays of one T only, and no more than were in use at once. Safe to call from several
    threads.

    Example:
        >>> arrays = WorkArrays()
        >>> arrays.take(3).shape
        (3, 3)
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._free: list[FloatArray] = []

    def take(self, tokens: int) -> FloatArray:
        """Return an array (tokens, tokens) with anything in it."""
        with self._lock:
            if self._free and len(self._free[-1]) != tokens:
                self._free = []
            if self._free:
                return self._free.pop()
        return np.empty((tokens, tokens))

    def give_back(self, arrays: Iterable[FloatArray]) -> None:
        """Hand back arrays that nobody reads any more."""
        with self._lock:
            self._free += [
                array for array in arrays if array.flags.owndata and array.flags.writeable
            ]


BY_RANK = WorkArrays()
"""Where cosines by rank go; whoever takes one gives it back."""


def workers() -> int:
    """Return how many threads to use: the CPUs this process may run on, at most 16.

    Example:
        >>> 1 <= workers() <= 16
        True
    """
    return max(
        1,
        min(
            16,
            (
                len(os.sched_getaffinity(0))
                if hasattr(os, "sched_getaffinity")
                else os.cpu_count() or 1
            ),
        ),
    )


def is_first() -> bool:
    """Whether this is the first thread, which has no others beside it."""
    return threading.current_thread() is threading.main_thread()


def in_threads(work: Callable[[Task], Answer], tasks: Iterable[Task]) -> list[Answer]:
    """Return [work(task) for task in tasks], run on a few threads; a single task in this one, and
    in a thread that is not the first one by one, for whoever started it has others beside it, and
    more would only wait for Python's lock.

    Example:
        >>> in_threads(abs, [-1, 2, -3])
        [1, 2, 3]
    """
    every = list(tasks)
    if not is_first() or len(every) < 2:
        return list(map(work, every))
    with ThreadPoolExecutor(workers()) as pool:
        return list(pool.map(work, every))
