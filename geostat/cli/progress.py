"""What a person sees while a run is under way: a bar on a terminal, a line now and then elsewhere,
nothing with --quiet.

Foreign text is printed without markup. Imports rich.
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

from geostat.cli.process import say
from geostat.runs.console import QUIET, Console

if TYPE_CHECKING:
    from empirical.capture.observers import Progress

SECONDS_BETWEEN_LINES = 10.0
"""Where there is no terminal to draw on, a line this often."""


def rate(progress: Progress) -> str:
    """Documents, tokens a second and time left, as text; a layer counts as its share of a
    document.
    """
    text = f"{progress.documents}/{progress.total} documents"
    if progress.tokens > 0 and progress.seconds > 0:
        per_second = progress.tokens / progress.seconds
        text += f" · {per_second:.0f} tokens/s · {progress.tokens_left / per_second:.0f} s left"
    return text


@dataclass(slots=True)
class _Lines:
    """Plain lines on stderr."""

    last: float = 0.0

    def stage(self, text: str) -> None:
        say(text)
        self.last = time.monotonic()

    def note(self, text: str) -> None:
        say(text)

    def captured(self, progress: Progress) -> None:
        self._now_and_then(rate(progress), final=progress.documents == progress.total)

    def fraction(self, stage: str, fraction: float) -> None:
        self._now_and_then(f"{stage} {fraction:.0%}", final=fraction >= 1)

    def _now_and_then(self, text: str, *, final: bool = False) -> None:
        if final or time.monotonic() - self.last > SECONDS_BETWEEN_LINES:
            self.stage(text)


@dataclass(slots=True)
class _Bar:
    """One bar at the bottom of a terminal, a line for each stage that is over."""

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
            # what comes next may be the result, or the report, which tells nothing of how far it is
            self.bars.stop()


def talk(*, quiet: bool) -> Console:
    """The console for this process's stderr."""
    if quiet:
        return QUIET
    terminal = Terminal(file=sys.stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)
    talker: _Lines | _Bar = _Lines()
    if terminal.is_terminal:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
        )
        bars = Bars(*columns, console=terminal, transient=True, redirect_stdout=False)
        atexit.register(bars.stop)
        talker = _Bar(bars)
    return Console(
        stage=talker.stage,
        captured=talker.captured,
        fraction=talker.fraction,
        note=talker.note,
    )
