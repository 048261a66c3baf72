"""Overlap of pieces of work: two at a time, so that what one does under Python's lock goes on while
the other is in a compiled loop. Imports concurrent.futures.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

AT_ONCE: Final = 2
"""Pieces under way at once; each may spread its own loops over all cores."""

Task = TypeVar("Task")
Answer = TypeVar("Answer")


def overlapped(work: Callable[[Task], Answer], tasks: Iterable[Task]) -> Iterator[Answer]:
    """Yield work(task) of each task, in their order; a task is taken from `tasks` when one before
    it has ended.

    >>> list(overlapped(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    pending: deque[Future[Answer]] = deque()
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="geostat-overlap") as pool:
        for task in tasks:
            pending.append(pool.submit(work, task))
            if len(pending) == AT_ONCE:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
