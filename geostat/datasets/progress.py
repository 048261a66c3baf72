"""Progress of long computations. Imports nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

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
