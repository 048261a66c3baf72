"""Tasks whose results are taken in the order in which they were asked for, whatever order they are
finished in; a few are under way at a time.

Results that are early stay where they were made. So whoever takes them holds one, and a store gets
each document once and in its place, however often the task ran. Imports the standard library.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result", covariant=True)


class Task(Protocol[Result]):
    """Something that is done elsewhere."""

    def result(self) -> Result:
        """Wait for it; raises what it raised."""

    def cancel(self) -> None:
        """Give it up."""


def in_order(
    submit: Callable[[Item], Task[Result]], items: Iterable[Item], ahead: Callable[[], int]
) -> Generator[Result, None, None]:
    """Yield the result of each item, in order.

    Args:
        submit: hands an item over.
        items: taken one by one, as there is room.
        ahead: how many tasks may be under way now, at least one. The next is handed over only when
            the first of them was taken: whoever takes slowly is not overrun.
    """
    under_way: deque[Task[Result]] = deque()

    def first() -> Result:
        result = under_way[0].result()  # where Ctrl-C breaks in, it is still under way
        under_way.popleft()
        return result

    try:
        for item in items:
            while len(under_way) >= max(1, ahead()):
                yield first()
            under_way.append(submit(item))
        while under_way:
            yield first()
    finally:
        for task in under_way:
            task.cancel()
