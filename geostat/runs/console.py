"""Console: how a stage tells what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from empirical.capture.observers import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """How a stage tells what it does: a line for each stage, progress within it. Silent by
    default.
    """

    stage: Callable[[str], None] = field(default=lambda text: None)
    captured: Callable[[Progress], None] = field(default=lambda progress: None)
    fraction: Callable[[str, float], None] = field(default=lambda stage, fraction: None)
    note: Callable[[str], None] = field(default=lambda text: None)
    """A line beside the stage."""


QUIET = Console()


@contextmanager
def compilation_told(console: Console) -> Iterator[None]:
    """Say it when kernels are compiled in the block, as they are the first time on a machine."""
    from empirical.measure.compilation import compilation  # numba takes a while to import

    told = "compile kernels, once on this machine; the time left leaves it out"
    with compilation(lambda: console.note(told)):
        yield
