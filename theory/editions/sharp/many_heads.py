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
from theory.editions.sharp.sharp_law import (
    GRAM_ROUNDING,
    SUM_ROUNDING,
    PairSums,
    best_bounds,
    infeasible,
)
from theory.head.ranked import Ranked, Summary, rank_of, summary_of
from theory.head.results import BoundPairs

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
            self._free = [array for array in self._free if len(array) == tokens]
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


def in_threads(work: Callable[[Task], Answer], tasks: Iterable[Task]) -> list[Answer]:
    """Return [work(task) for task in tasks], run on a few threads; in a thread that is not the
    first one by one, for whoever started it has others beside it, and more would only wait for
    Python's lock.

    Example:
        >>> in_threads(abs, [-1, 2, -3])
        [1, 2, 3]
    """
    if threading.current_thread() is not threading.main_thread():
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
    a, rank, sizes = (alpha * norms)[order], rank_of(order, sink), np.unique(n)
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


def sharp_bounds(
    heads: list[tuple[Ranked, Summary]], dimension: int, *, followup: bool
) -> list[list[BoundPairs[float]]]:
    """Return the sharp bounds of every head (rows) at every size of its summary (columns).

    Raises:
        InputError: if some 2×2 determinant is clearly negative: no vectors have this Gram.
    """
    table = law_table(dimension)
    costs = sorted(
        (
            (-n * (head.tokens - n), h, k)
            for h, (head, summary) in enumerate(heads)
            for k, n in enumerate(summary.n.tolist())
        )
    )
    shares = [costs[share :: 2 * workers()] for share in range(2 * workers())]

    def work(share: list[tuple[int, int, int]]) -> list[tuple[int, int, BoundPairs[float]]]:
        return [
            (
                h,
                k,
                best_bounds(pair_sums(*heads[h], k, table, followup=followup), followup=followup),
            )
            for _, h, k in share
        ]

    answers = {(h, k): bounds for part in in_threads(work, shares) for h, k, bounds in part}
    return [[answers[h, k] for k in range(len(summary.n))] for h, (_, summary) in enumerate(heads)]


def pair_sums(
    head: Ranked, summary: Summary, at: int, table: FloatArray, *, followup: bool
) -> PairSums:
    """Return `sharp.pair_sums` of one selection from the tabulated law."""
    from theory.editions.sharp.sharp_kernels import sum_pairs

    n = int(summary.n[at])
    columns, rows = np.empty((2, head.tokens - n)), np.empty((2, n))
    sigma, sigma_ss, rounding = (
        summary.sigma[at],
        float(summary.sigma_ss[at]),
        (SUM_ROUNDING, GRAM_ROUNDING),
    )
    worst = sum_pairs(
        head.cosines, head.a, sigma, sigma_ss, n, table, rounding, followup, columns, rows
    )
    if worst < 0:
        raise infeasible(worst)
    return PairSums(
        column_total=columns[0], column_largest=columns[1], row_total=rows[0], row_largest=rows[1]
    )
