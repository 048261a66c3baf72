"""Console: how a stage tells what it does."""

from __future__ import annotations

from collections.abc import Callable
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


QUIET = Console()
