"""Pieces of work side by side: two at a time in this process, so that what one does under Python's
lock goes on while the other is in a compiled loop; or on the workers of a cluster.

Imports concurrent.futures, threadpoolctl, and Dask's cluster when one is asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from threadpoolctl import threadpool_limits

AT_ONCE: Final = 2
"""Pieces under way at once; each may spread its own loops over all cores."""

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_ELSEWHERE: ContextVar[Any] = ContextVar("elsewhere", default=None)
"""Does pieces of work on a cluster (`empirical.capture.cluster.mapped`); None: this process."""


@contextmanager
def spread_over(cluster: Any) -> Iterator[None]:
    """Let what is `overlapped` in the block be done by the workers that `cluster` names: local:K,
    tcp://HOST:PORT, or a client of Dask distributed; by this process where it is None.

    BLAS has one thread meanwhile: with several, the last digits of a sum depend on how many.

    Raises:
        InputError: if there are no such workers, or one has other versions.
    """
    if cluster is None:
        with threadpool_limits(1, user_api="blas"):
            yield
        return
    from empirical.capture.cluster.mapped import mapping

    with mapping(cluster) as mapped, threadpool_limits(1, user_api="blas"):
        before = _ELSEWHERE.set(mapped)
        try:
            yield
        finally:
            _ELSEWHERE.reset(before)


def overlapped(
    work: Callable[[Task], Answer], tasks: Iterable[Task], *, at_once: int = AT_ONCE
) -> Iterator[Answer]:
    """Yield work(task) of each task, in their order; a task is taken from `tasks` when one before
    it has ended.

    Work and answers travel to workers and back: a piece changes nothing but what it returns.
    `at_once` pieces are under way in this process.

    >>> list(overlapped(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    if (elsewhere := _ELSEWHERE.get()) is not None:
        yield from elsewhere(work, tasks)
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
