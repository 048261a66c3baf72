"""Parallel tasks: two threads in this process, or the workers of a Dask cluster; their
progress.

Python code of one task runs while the other is in a compiled loop, which releases the GIL. Imports
concurrent.futures and threadpoolctl, and Dask's cluster lazily.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from threadpoolctl import threadpool_limits

Progress = Callable[[float], None]
"""Callback with the fraction of work done, 0 to 1."""
T = TypeVar("T")


def tracked(work: Sequence[T], progress: Progress | None) -> Iterator[T]:
    """Yield each item of work, and report the fraction done after each.

    >>> list(tracked("ab", print))
    0.5
    1.0
    ['a', 'b']
    """
    for done, item in enumerate(work, 1):
        yield item
        if progress is not None:
            progress(done / len(work))


def part_of(progress: Progress | None, first: float, last: float) -> Progress | None:
    """Return a callback for a part of the work, between the fractions `first` and `last`."""
    return None if progress is None else lambda share: progress(first + (last - first) * share)


AT_ONCE: Final = 2
"""Tasks in progress at once; each may use all cores in its compiled loops."""

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_CLUSTER_MAP: ContextVar[Any] = ContextVar("cluster_map", default=None)
"""Maps tasks over a cluster (`empirical.capture.cluster.tasks`); None: this process."""


@contextmanager
def spread_over(cluster: Any) -> Iterator[None]:
    """Run `overlapped` tasks inside the block on the workers of a cluster.

    `cluster` is local:K, tcp://HOST:PORT or a Dask distributed client; None means this process.
    BLAS uses one thread, because the last digits of a sum depend on the number of threads.

    Raises:
        InputError: if there are no such workers, or one has other package versions.
    """
    if cluster is None:
        with threadpool_limits(1, user_api="blas"):
            yield
        return
    from empirical.capture.cluster.tasks import mapping

    with mapping(cluster) as cluster_map, threadpool_limits(1, user_api="blas"):
        token = _CLUSTER_MAP.set(cluster_map)
        try:
            yield
        finally:
            _CLUSTER_MAP.reset(token)


def overlapped(
    work: Callable[[Task], Answer], tasks: Iterable[Task], *, at_once: int = AT_ONCE
) -> Iterator[Answer]:
    """Yield work(task) for each task, in order; a new task starts when an earlier one has ended.

    Work and results are pickled for workers, and `work` changes nothing but its result. `at_once`
    tasks run at once in this process.

    >>> list(overlapped(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    if (cluster_map := _CLUSTER_MAP.get()) is not None:
        yield from cluster_map(work, tasks)
        return
    if at_once == 1:
        yield from map(work, tasks)
        return
    pending: deque[Future[Answer]] = deque()
    with ThreadPoolExecutor(at_once, thread_name_prefix="geostat-overlap") as pool:
        for task in tasks:
            pending.append(pool.submit(work, task))
            if len(pending) == at_once:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
