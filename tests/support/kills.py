"""Stages of a run that are killed by SIGKILL, or whose disk fails, and then run again; the result
is compared with that of an undisturbed run.

`python -m support.kills WAY WORK START NUMBERS… -- COMMAND…` begins each time with a copy of the
folder START; OUT in the command stands for the copy. Ways: `writes STRIDE FIRST` kills at every
STRIDE-th write from FIRST on (files opened to write, moves, removals, folders made); `moments COUNT
SEED` kills at moments drawn over the duration of the stage; `faults STRIDE FIRST ERRNO` lets one
step on the disk fail (`support.faults`). Each child process is forked from one that has imported
everything and done nothing. Prints one JSON object.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from support.faults import failing_at

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "shutil.rmtree"}

COMPUTED = ("fit_norms", "fit_similarity", "fit_weights", "fit_pooled")
COMPUTED += ("envelope_dataset", "analyses", "give_verdicts", "summarise")
FEW = 6
"""Variables of a group that are kept."""


def killed_at(write: int | None, folder: Path, counter: Path) -> None:
    """Count writes below a folder; kill this process at the given one, or record their number."""
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
                os.pwrite(counted, f"{count:9d}".encode(), 0)

    lock, counted = threading.Lock(), os.open(counter, os.O_WRONLY | os.O_CREAT)
    sys.addaudithook(hook)


def begun(
    command: list[str], before: Callable[[], None] = lambda: None, said: Path | None = None
) -> int:
    """Run a command in a separate process; returns its id. before: called first; said: file for its
    stderr.
    """
    process = os.fork()
    if process == 0:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        if said is not None:
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        before()
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
    return process


def code_of(process: int) -> int:
    """Wait for a process; returns its exit code, negative after a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, without the times in run.json; with empty folders."""
    return {
        str(path.relative_to(folder)): (
            b"" if path.is_dir() or path.name == "run.json" else path.read_bytes()
        )
        for path in sorted(folder.rglob("*"))
    }


def computed_once(function: Callable[..., Any], file: Path) -> Callable[..., Any]:
    """Return a function whose result (a few variables) later processes read from a file: kills test
    writing, not computing.
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
    """Return a fresh copy of the start folder of a stage."""
    shutil.rmtree(out, ignore_errors=True)
    if start.exists():
        shutil.copytree(start, out)
    return out


def repeated(command: list[str], out: Path, wanted: dict[str, bytes]) -> list[str]:
    """Run a command again; returns its exit code and the files that differ, if any."""
    code, found = code_of(begun(command)), contents(out)
    names = [name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]
    return [f"again: exit {code}", *names] if code or names else []


def at_writes(work: Path, start: Path, command: list[str], stride: int, first: int) -> dict:
    """Kill a stage at every STRIDE-th write, run it again, compare."""
    from geostat.runs import stages

    out, counter = work / "out", work / "count"
    for name in COMPUTED:
        setattr(stages, name, computed_once(getattr(stages, name), work / f"{name}.pickle"))
    for _ in range(2):  # the first computes
        process = begun(command, lambda: killed_at(None, started(start, out), counter))
        assert code_of(process) == 0
    wanted, writes = contents(out), int(counter.read_text())
    different: dict[int, list[str]] = {}
    kills = 0
    for write in range(first, writes + 1, stride):
        started(start, out)
        kills += code_of(begun(command, lambda: killed_at(write, out, counter))) == -signal.SIGKILL  # noqa: B023
        if wrong := repeated(command, out, wanted):
            different[write] = wrong
    return {"writes": writes, "kills": kills, "unlike": different}


def at_moments(work: Path, start: Path, command: list[str], count: int, seed: int) -> dict:
    """Kill a stage at `count` random moments of its duration, run it again, compare.

    If the stage ends before its moment, another is drawn, up to four times `count` draws.
    """
    out, lengths = work / "out", []
    for _ in range(3):  # the first compiles
        began = time.perf_counter()
        process = begun(command) if started(start, out) else 0
        assert code_of(process) == 0
        lengths.append(time.perf_counter() - began)
    wanted, different, kills = contents(out), {}, 0
    for moment in np.random.default_rng(seed).uniform(0, min(lengths), 4 * count).tolist():
        if kills == count:
            break
        started(start, out)
        process = begun(command)
        time.sleep(moment)
        os.kill(process, signal.SIGKILL)
        kills += code_of(process) == -signal.SIGKILL
        if wrong := repeated(command, out, wanted):
            different[moment] = wrong
    return {"seconds": min(lengths), "kills": kills, "unlike": different}


def at_faults(
    work: Path, start: Path, command: list[str], stride: int, first: int, error: int
) -> dict:
    """Let the disk fail at every STRIDE-th step of a stage, check its message and files, run it
    again, compare.
    """
    out, counter, said = work / "out", work / "count", work / "said"
    for _ in range(2):
        process = begun(command, lambda: failing_at(None, error, started(start, out), counter))
        assert code_of(process) == 0
    wanted, steps = contents(out), int(counter.read_text())
    different: dict[int, list[str]] = {}
    codes: dict[int, int] = {}
    for step in range(first, steps + 1, stride):
        started(start, out)
        process = begun(command, lambda: failing_at(step, error, out, counter), said)  # noqa: B023
        code = code_of(process)
        codes[code] = codes.get(code, 0) + 1
        lines = said.read_text().splitlines()
        wrong = []
        if code not in (0, 2) or len(lines) != (code == 2):
            wrong = [f"exit {code}", *lines[-3:]]
        elif (out / "run.zarr").exists() and (bad := code_of(begun(["doctor", str(out)], _quiet))):
            wrong = [f"doctor: exit {bad}"]
        if wrong := wrong + repeated(command, out, wanted):
            different[step] = wrong
    return {"steps": steps, "codes": codes, "unlike": different}


def _quiet() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


WAYS = {"writes": at_writes, "moments": at_moments, "faults": at_faults}


def main() -> None:
    """Run the requested way and print the result."""
    for module in ("runs.measurement", "runs.pipeline", "runs.repair", "cli.doctor", "cli.app"):
        importlib.import_module(f"geostat.{module}")
    importlib.import_module("reports.page.page")
    way, work, start = sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3])
    dashes = sys.argv.index("--")
    command = [word.replace("OUT", str(work / "out")) for word in sys.argv[dashes + 1 :]]
    found = WAYS[way](work, start, command, *map(int, sys.argv[4:dashes]))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
