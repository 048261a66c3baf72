"""Progress of long work. Imports nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Progress = Callable[[float], None]
"""Called with the share of the work done, 0 to 1."""
T = TypeVar("T")


def tracked(work: Sequence[T], progress: Progress | None) -> Iterator[T]:
    """Yield each piece of work, and report the share that is done after each.

    >>> list(tracked("ab", print))
    0.5
    1.0
    ['a', 'b']
    """
    for done, piece in enumerate(work, 1):
        yield piece
        if progress is not None:
            progress(done / len(work))


def part_of(progress: Progress | None, first: float, last: float) -> Progress | None:
    """Return the progress of a part of the work, between two shares of the whole."""
    return None if progress is None else lambda share: progress(first + (last - first) * share)
