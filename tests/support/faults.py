"""Disk faults: a step on the disk that fails, and a process killed at a step."""

from __future__ import annotations

import builtins
import io
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from unittest import mock

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
EVENTS = {"os.rename", "os.mkdir", "os.link"}
STEPS = (
    *((os, "replace"), (os, "fsync"), (os, "mkdir"), (shutil, "copyfile")),
    *((Path, "unlink"), (Path, "rmdir")),
)


def failing_at(
    step: int | None, error: int, folder: Path, counter: Path, *, lasting: bool = False
) -> None:
    """Count the steps of this process from now on: files below a folder opened for writing, writes,
    moves and new folders there, and every flush. The given step fails, with `lasting` all later
    ones too; without a step, the counter gives their number.
    """
    lock, total = threading.Lock(), os.open(counter, os.O_WRONLY | os.O_CREAT)
    flush, opened, count, below = os.fsync, io.open, 0, str(folder)

    def take(where: str) -> None:
        nonlocal count
        with lock:
            count += 1
            if step is None:
                os.pwrite(total, f"{count:9d}".encode(), 0)
            elif count == step or (lasting and count > step):
                raise OSError(error, os.strerror(error), where)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            if not isinstance(arguments[2], int) or not arguments[2] & WRITING:
                return
        elif event not in EVENTS:
            return
        if any(str(argument).startswith(below) for argument in arguments[:2]):
            take(str(arguments[0]))

    class Failing(io.FileIO):
        def write(self, data: Any) -> int:
            take(str(self.name))
            return super().write(data)

    def open_failing(
        file: Any, mode: str = "r", buffering: int = -1, *more: Any, **how: Any
    ) -> Any:
        name = file if isinstance(file, int) else os.fspath(file)
        counts = isinstance(name, int) or str(name).startswith(below)
        if not counts or not set(mode) & set("wax+") or buffering == 0:
            return opened(file, mode, buffering, *more, **how)
        raw = Failing(file, mode.replace("b", "").replace("t", ""))
        both = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return both if "b" in mode else io.TextIOWrapper(both, *more, **how)

    def fsync(descriptor: int) -> None:
        take("a file that is flushed")
        flush(descriptor)

    os.fsync = fsync
    builtins.open = io.open = open_failing  # type: ignore[assignment]
    sys.addaudithook(hook)


def killed_at(
    step: int,
    act: Callable[[], object],
    steps: Iterable[tuple[Any, str]] = STEPS,
    counts: Callable[..., bool] = lambda *arguments: True,
) -> bool:
    """Return whether `act` was killed at a step on the disk; False if it came to its end before.
    counts: tells by its arguments whether a call is a step.
    """
    number = 0

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **keywords: Any) -> Any:
            nonlocal number
            if counts(*arguments):
                number += 1
                if number == step:
                    raise SystemExit
            return call(*arguments, **keywords)

        return run

    with ExitStack() as patches, suppress(SystemExit):
        for owner, name in steps:
            patches.enter_context(mock.patch.object(owner, name, counted(getattr(owner, name))))
        act()
        return False
    return True
