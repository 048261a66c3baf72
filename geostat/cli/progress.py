"""Progress on stderr: a bar on a terminal, occasional lines elsewhere, nothing with --quiet.

Text is printed without markup. Imports rich.
"""

from __future__ import annotations

import atexit
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console as Terminal
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from geostat.cli.process import print_message
from geostat.runs.console import QUIET, Console

if TYPE_CHECKING:
    from empirical.capture.observers import Progress

SECONDS_BETWEEN_LINES = 10.0
"""Interval between progress lines without a terminal."""


def rate(progress: Progress) -> str:
    """Return documents done, tokens per second and time left, as text.

    A finished layer counts as a fraction of its document.
    """
    text = f"{progress.documents}/{progress.total} documents"
    if progress.tokens > 0 and progress.seconds > 0:
        per_second = progress.tokens / progress.seconds
        text += f" · {per_second:.0f} tokens/s · {progress.tokens_left / per_second:.0f} s left"
    return text


@dataclass(slots=True)
class _Lines:
    """Progress as plain lines on stderr."""

    last: float = 0.0

    def stage(self, text: str) -> None:
        print_message(text)
        self.last = time.monotonic()

    def note(self, text: str) -> None:
        print_message(text)

    def captured(self, progress: Progress) -> None:
        self._throttled(rate(progress), final=progress.documents == progress.total)

    def fraction(self, stage: str, fraction: float) -> None:
        self._throttled(f"{stage} {fraction:.0%}", final=fraction >= 1)

    def _throttled(self, text: str, *, final: bool = False) -> None:
        if final or time.monotonic() - self.last > SECONDS_BETWEEN_LINES:
            self.stage(text)


@dataclass(slots=True)
class _Bar:
    """Progress as one bar at the bottom of a terminal, and a line for each stage."""

    bars: Bars
    task: TaskID | None = None

    def stage(self, text: str) -> None:
        if self.task is not None:
            self.bars.remove_task(self.task)
        self.bars.console.print(f"geostat: {text}")
        self.bars.start()
        self.task = self.bars.add_task(text, total=1.0, note="")

    def note(self, text: str) -> None:
        self.bars.console.print(f"geostat: {text}")

    def captured(self, progress: Progress) -> None:
        done = progress.documents + progress.layer / max(progress.layers, 1)
        self._update(done / max(progress.total, 1), rate(progress))

    def fraction(self, stage: str, fraction: float) -> None:
        self._update(fraction, "")

    def _update(self, completed: float, note: str) -> None:
        if self.task is not None:
            self.bars.update(self.task, completed=completed, note=note)
        if completed >= 1:
            # the result or the report follows, which has no progress
            self.bars.stop()


def progress_console(*, quiet: bool) -> Console:
    """Return the console for this process's stderr."""
    if quiet:
        return QUIET
    terminal = Terminal(file=sys.stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)
    reporter: _Lines | _Bar = _Lines()
    if terminal.is_terminal:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
        )
        bars = Bars(*columns, console=terminal, transient=True, redirect_stdout=False)
        atexit.register(bars.stop)
        reporter = _Bar(bars)
    return Console(
        stage=reporter.stage,
        captured=reporter.captured,
        fraction=reporter.fraction,
        note=reporter.note,
    )
