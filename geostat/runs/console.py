"""Console: callbacks that report the progress of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from geostat.datasets.overlap import tracked

if TYPE_CHECKING:
    from empirical.capture.observers import Progress

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """Callbacks for each stage, and for progress within a stage; silent by default."""

    stage: Callable[[str], None] = field(default=lambda text: None)
    captured: Callable[[Progress], None] = field(default=lambda progress: None)
    fraction: Callable[[str, float], None] = field(default=lambda stage, fraction: None)
    note: Callable[[str], None] = field(default=lambda text: None)
    """Report a message without starting a stage."""

    def steps(self, stage: str, work: Sequence[T]) -> Iterator[T]:
        """Begin a stage, yield each item of its work, and report the fraction done after each."""
        self.stage(stage)
        yield from tracked(work, partial(self.fraction, stage))


QUIET = Console()


@contextmanager
def compilation_reported(console: Console) -> Iterator[None]:
    """Report when kernels are compiled in the block, which happens once on a machine."""
    from empirical.measure.compiled import compilation  # imports numba, which is slow

    message = "compile kernels, once on this machine; the time left excludes it"
    with compilation(lambda: console.note(message)):
        yield
