"""Edition `sharp`: the exact pairwise law under Model G, and bounds from its probabilities.

Model G: each of the d coordinates of the contributions (y_0..y_L) is an independent N(0, C/d),
C_kl = a_k a_l ρ_kl. With w_l = s − y_l and Γ_kl = E⟨w_k, w_l⟩ = σ_ss − σ_k − σ_l + C_kl,
exactly

    P{D_j ≤ D_i} = F_t(−√d (Γ_jj − Γ_ii) / (2√(Γ_ii Γ_jj − Γ_ij²)); d),

with F_t Student's distribution function. Unit-free; neither κ nor the sign of ρ enters. It replaces
eq. (9) and (30)-(31) of arXiv 2602.01893.

Loops over many heads share a table of the law (to 1e-8 absolute), work arrays and threads. The
threads are Python's, with kernels that release the interpreter lock, not a threading layer of
numba, so any thread may call them. Imports numpy and scipy.special.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import TypeVar

import numpy as np
from scipy.special import betaln, stdtr

from theory.arrays import FloatArray
from theory.errors import InputError
from theory.head.ranked import Ranked, Summary

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


SUM_ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""Relative rounding of long sums: a determinant within it of 0 is 0, tokens within it are tied."""

GRAM_ROUNDING = 1e-5
"""Largest negative determinant, relative to its terms, of a feasible float32 Gram."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairwiseLaw:
    """P{D_j ≤ D_i} (closed) and P{D_j < D_i} (strict), (N, M), i∈I, j∈J; unequal only at ties."""

    closed: FloatArray
    strict: FloatArray


def pairwise_law(head: Ranked, summary: Summary, index: int, dimension: int) -> PairwiseLaw:
    """Return the exact law of D_j − D_i for the selection `summary.n[index]`.

    From ‖w_i − w_j‖² = E‖y_i − y_j‖² (`apart`), ‖w_i + w_j‖² (`opposite`) and their inner product
    Γ_jj − Γ_ii (`rise`), since 4(Γ_ii Γ_jj − Γ_ij²) = apart·opposite − rise²: exact to rounding for
    arbitrarily small a_i and a_j.

    Raises:
        InputError: if a 2×2 determinant is clearly negative (the Gram is not PSD).
    """
    n = int(summary.n[index])
    square = head.a**2
    moment = square - 2 * summary.sigma[index]
    square_i, square_j = square[:n, None], square[None, n:]
    cross = head.a[:n, None] * head.a[None, n:] * head.cosines[:n, n:]
    rise = moment[None, n:] - moment[:n, None]
    size = (head.a[:n].sum() + head.a[n:]) ** 2
    apart = square_i + square_j - 2 * cross
    opposite = (
        4 * summary.sigma_ss[index]
        + 2 * (moment[:n, None] + moment[None, n:])
        - square_i
        - square_j
        + 2 * cross
    )
    determinant = apart * opposite - rise**2
    slack = (
        (square_i + square_j) * np.abs(opposite)
        + apart * size
        + np.abs(rise) * (np.abs(moment[:n, None]) + np.abs(moment[None, n:]))
    )
    if (determinant < -GRAM_ROUNDING * slack).any():
        raise infeasible(float((determinant / np.maximum(slack, np.finfo(float).tiny)).min()))
    flat = determinant <= SUM_ROUNDING * slack
    ratio = rise / np.sqrt(np.where(flat, 1.0, determinant))
    closed = np.where(
        flat, np.where(rise > 0, 0.0, 1.0), stdtr(dimension, -np.sqrt(dimension) * ratio)
    )
    tie = (apart <= SUM_ROUNDING * (square_i + square_j)) | (opposite <= SUM_ROUNDING * size)
    return PairwiseLaw(closed=np.where(tie, 1.0, closed), strict=np.where(tie, 0.0, closed))


def infeasible(worst: float) -> InputError:
    """Return the error for an infeasible Gram; `worst`: negative determinant over its scale."""
    return InputError(
        f"the Gram is infeasible: a 2x2 determinant is {worst:.2g} of its scale, expected >= 0."
        " Project it first with theory.project."
    )


def pairwise_bounds(law: PairwiseLaw, *, followup: bool) -> FloatArray:
    """Return bounds from pairwise probabilities alone, `BOUNDS` (8,) in [0, 1].

    Not the best ones: a linear programme over the orderings of all tokens can raise the lower
    sides. Lower bounds by Jensen on the integers, upper bounds by the comonotone coupling; reversed
    for F(r_min), which is concave. followup: inner balls are open, a tied token is outside (its
    rows are `closed`), and there is one F.
    """
    rows = law.closed if followup else law.strict
    precision, precision_steps, outer, outer_steps, inner, inner_steps = _at_counts(*rows.shape)
    covered = float(np.minimum(1.0, law.closed.sum(axis=0)).sum())
    largest = np.sort(law.closed.max(axis=0))[::-1]
    inside_low = np.sort(1 - np.minimum(1.0, rows.sum(axis=1)))[::-1]
    inside_high = 1 - rows.max(axis=1)
    p = (_between(covered, precision), 1 - float(precision_steps @ largest))
    r = (float(inside_low.mean()), float(inside_high.mean()))
    if followup:
        return np.array([*p, *r, *followup_f(p, r), *followup_f(p, r)])
    f_outer = (_between(covered, outer), 1 - float(outer_steps @ largest))
    f_inner = (float(inner_steps @ inside_low), _between(float(inside_high.sum()), inner))
    return np.array([*p, *r, *f_outer, *f_inner])


@lru_cache(maxsize=64)
def _at_counts(rows: int, columns: int) -> tuple[FloatArray, ...]:
    """Return P and F(r_max) by the number of unselected tokens in the ball, F(r_min) by the number
    of selected tokens, and the absolute change of each from one count to the next.
    """
    outside, inside = np.arange(columns + 1), np.arange(rows + 1)
    precision = rows / (rows + outside)
    outer = 2 * rows / (2 * rows + outside)
    inner = 2 * inside / (rows + inside)
    return precision, -np.diff(precision), outer, -np.diff(outer), inner, np.diff(inner)


def followup_f(p: tuple[float, float], r: tuple[float, float]) -> tuple[float, float]:
    """Return bounds on 2PR/(P+R) from those on E P, E R: F ≥ P + R − 1, F is concave."""
    return max(0.0, p[0] + r[0] - 1), 2 * p[1] * r[1] / (p[1] + r[1]) if p[1] + r[1] > 0 else 0.0


def _between(x: float, at_integers: FloatArray) -> float:
    """Return the linear interpolation of values at 0, 1, 2, … at x."""
    return float(np.interp(x, np.arange(len(at_integers)), at_integers))
