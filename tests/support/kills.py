"""A stage of a run killed by SIGKILL at chosen writes, then run again: what is left, beside what
one that was not killed leaves.

`python kills.py WORK START STRIDE FIRST COMMAND…` begins each time with a copy of the folder START,
and kills the command at write FIRST and then at every STRIDE-th; OUT in the command stands for the
copy. Each child process is forked from one that has imported everything and done nothing, counts
what it writes below its folder (files opened to write, moves, removals, folders made) and kills
itself at its time. Prints one JSON object.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "shutil.rmtree"}

COMPUTED = (
    "fit_norms",
    "fit_similarity",
    "fit_weights",
    "fit_pooled",
    "envelope_dataset",
    "experiments",
    "give_verdicts",
    "summarise",
)

FEW = 6
"""Variables of a group that are kept."""


def killed_at(write: int | None, folder: Path, counter: Path) -> None:
    """Count writes below a folder from now on; kill this process at the given one, or note how
    many there were.
    """
    count = 0
    process = os.getpid()

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event == "open":
            if not isinstance(arguments[2], int) or not arguments[2] & WRITING:
                return
        elif event not in EVENTS:
            return
        if not str(arguments[0]).startswith(str(folder)) or os.getpid() != process:
            return
        with lock:
            count += 1
            if count == write:
                os.kill(process, signal.SIGKILL)
            if write is None:
                os.pwrite(told, f"{count:9d}".encode(), 0)

    lock, told = threading.Lock(), os.open(counter, os.O_WRONLY | os.O_CREAT)
    sys.addaudithook(hook)


def child(command: list[str], folder: Path, *, write: int | None, counter: Path | None) -> int:
    """Run a command in a process of its own; returns its exit code, negative where a signal
    ended it.
    """
    process = os.fork()
    if process == 0:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        if counter is not None:
            killed_at(write, folder, counter)
        from geostat.cli.app import main

        sys.argv = ["geostat", *command]
        code = 1
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1 if ended.code else 0
        except BaseException as error:
            print(type(error), error, file=sys.stderr)
        finally:
            with contextlib.suppress(OSError):
                sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but the times in run.json; empty folders too."""
    return {
        str(path.relative_to(folder)): (
            b"" if path.is_dir() or path.name == "run.json" else path.read_bytes()
        )
        for path in sorted(folder.rglob("*"))
    }


def computed_once(function: Callable[..., Any], file: Path) -> Callable[..., Any]:
    """A function whose result, a few variables of it, every process after the first takes from a
    file: what is killed here is writing, not computing.
    """

    def kept(*arguments: Any, **keywords: Any) -> Any:
        if not file.exists():
            found = function(*arguments, **keywords)
            few = {
                name: part[list(part.data_vars)[:FEW]]
                for name, part in (found if isinstance(found, dict) else {"": found}).items()
            }
            file.write_bytes(pickle.dumps(few if isinstance(found, dict) else few[""]))
            return found
        return pickle.loads(file.read_bytes())

    return kept


def started(start: Path, out: Path) -> Path:
    """A fresh copy of where a stage starts from."""
    shutil.rmtree(out, ignore_errors=True)
    if start.exists():
        shutil.copytree(start, out)
    return out


def main() -> None:
    """Kill a stage at every so-many-th write, run it again, compare."""
    from geostat.runs import stages

    work, start, stride, first = (
        Path(sys.argv[1]).resolve(),
        Path(sys.argv[2]),
        int(sys.argv[3]),
        int(sys.argv[4]),
    )
    out, counter = work / "out", work / "count"
    command = [word.replace("OUT", str(out)) for word in sys.argv[5:]]
    for name in COMPUTED:
        setattr(stages, name, computed_once(getattr(stages, name), work / f"{name}.pickle"))
    for _ in range(2):  # the first computes
        code = child(command, started(start, out), write=None, counter=counter)
        assert code == 0, code
    wanted, writes = contents(out), int(counter.read_text())
    unlike: dict[int, list[str]] = {}
    kills = 0
    for write in range(first, writes + 1, stride):
        code = child(command, started(start, out), write=write, counter=counter)
        kills += code == -signal.SIGKILL
        code = child(command, out, write=None, counter=None)
        found = contents(out)
        different = [
            name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)
        ]
        if different or code:
            unlike[write] = [f"exit {code}", *different]
    print(json.dumps({"writes": writes, "kills": kills, "unlike": unlike}))


if __name__ == "__main__":
    main()
