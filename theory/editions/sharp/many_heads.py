"""Sharp bounds for many heads that share one Gram: ranked once a head, pairs summed by a compiled
kernel on a few threads.

Same law as `theory.editions.sharp.sharp_law`, tabulated to 1e-8 absolute. Plain Python threads and
a kernel that releases the interpreter lock: no threading layer of numba is used, so any one thread
may call it. Imports numpy and scipy.special; numba on first use.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, stdtr

from theory.arrays import FloatArray, IntArray, selection_order
from theory.editions.sharp.sharp_law import GRAM_ROUNDING, SUM_ROUNDING, infeasible
from theory.head.ranked import Ranked, Summary, distinct, rank_of, summary_of

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
"""Where `prepare` puts the cosines by rank; whoever called it gives them back."""


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


def _first() -> bool:
    """Whether this is the first thread, which has no others beside it."""
    return threading.current_thread() is threading.main_thread()


def in_threads(work: Callable[[Task], Answer], tasks: Iterable[Task]) -> list[Answer]:
    """Return [work(task) for task in tasks], run on a few threads; in a thread that is not the
    first one by one, for whoever started it has others beside it, and more would only wait for
    Python's lock.

    Example:
        >>> in_threads(abs, [-1, 2, -3])
        [1, 2, 3]
    """
    if not _first():
        return list(map(work, tasks))
    with ThreadPoolExecutor(workers()) as pool:
        return list(pool.map(work, tasks))


def prepare(
    alpha: FloatArray,
    norms: FloatArray,
    cosines: npt.NDArray[Any],
    sink: int | None,
    n: IntArray,
    *,
    whole: bool,
) -> tuple[Ranked, Summary]:
    """Return `ranked.rank_tokens` and `ranked.summarise` of one head, in one compiled pass over its
    Gram.

    The cosines by rank lie in an array of `BY_RANK`: give it back when they have been read. Unless
    the `whole` of them is asked for, rows of tokens that no size selects hold anything.
    """
    from theory.editions.sharp.sharp_kernels import rank_and_sum

    order = selection_order(alpha)
    a, rank, (sizes, _) = (alpha * norms)[order], rank_of(order, sink), distinct(n)
    by_rank, sigma, extremes = (
        BY_RANK.take(len(a)),
        np.empty((len(sizes), len(a))),
        np.empty((3, len(sizes))),
    )
    rows = len(a) if whole else int(sizes.max(initial=0))
    at = -1 if rank is None else rank
    rank_and_sum(cosines, order, a, at, sizes, by_rank[:rows], sigma, extremes)
    head = Ranked(order=order, a=a, norms=norms[order], cosines=by_rank, sink=rank)
    return head, summary_of(head, n, sigma, extremes)


def sharp_bounds(head: Ranked, summary: Summary, dimension: int, *, followup: bool) -> FloatArray:
    """Return the sharp bounds of one head at the K sizes of its summary: (8, K), lower and upper
    of P, R, F(r_max) and F(r_min).

    Raises:
        InputError: if some 2×2 determinant is clearly negative: no vectors have this Gram.
    """
    from theory.editions.sharp.bound_kernels import bounds_of_head

    table, rounding = law_table(dimension), (SUM_ROUNDING, GRAM_ROUNDING)
    found, parts = np.empty((8, len(summary.n))), workers() if _first() else 1

    def work(first: int) -> float:
        """Every so many-th size, so that threads have alike much to do."""
        sizes = slice(first, None, parts)
        sums = (summary.sigma[sizes], summary.sigma_ss[sizes], summary.n[sizes])
        own = (head.cosines, head.a, *sums, table, rounding, followup)
        return float(bounds_of_head(*own, found[:, sizes]))

    worst = min(in_threads(work, range(parts)))
    if worst < 0:
        raise infeasible(worst)
    return found
