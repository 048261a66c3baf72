"""A disk that fails at one step, or from it on: a file opened to write, bytes written, flushed, a
file moved, a folder made. Only what lies below a folder counts, and what is flushed.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
import threading
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
EVENTS = {"os.rename", "os.mkdir", "os.link"}


def failing_at(
    step: int | None, error: int, folder: Path, counter: Path, *, lasting: bool = False
) -> None:
    """From now on count the steps of this process; the given one fails, with `lasting` all after
    it, too; where none is given, the counter tells how many there were.
    """
    lock, told = threading.Lock(), os.open(counter, os.O_WRONLY | os.O_CREAT)
    flush, opened, count, below = os.fsync, io.open, 0, str(folder)

    def one(where: str) -> None:
        nonlocal count
        with lock:
            count += 1
            if step is None:
                os.pwrite(told, f"{count:9d}".encode(), 0)
            elif count == step or (lasting and count > step):
                raise OSError(error, os.strerror(error), where)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            if not isinstance(arguments[2], int) or not arguments[2] & WRITING:
                return
        elif event not in EVENTS:
            return
        if any(str(argument).startswith(below) for argument in arguments[:2]):
            one(str(arguments[0]))

    class Failing(io.FileIO):
        def write(self, data: Any) -> int:
            one(str(self.name))
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
        one("a file that is flushed")
        flush(descriptor)

    os.fsync = fsync
    builtins.open = io.open = open_failing  # type: ignore[assignment]
    sys.addaudithook(hook)
