"""A stage of a run that is killed by SIGKILL, or whose disk fails, then run again: what is left,
beside what one that nothing befell leaves.

`python -m support.kills WAY WORK START NUMBERS… -- COMMAND…` begins each time with a copy of the
folder START; OUT in the command stands for the copy. Ways: `writes STRIDE FIRST` kills at every
STRIDE-th write from FIRST on (files opened to write, moves, removals, folders made); `moments COUNT
SEED` kills at moments drawn over as long as the stage takes; `faults STRIDE FIRST ERRNO` lets one
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


def begun(command: list[str], before: Callable[[], None], said: Path | None = None) -> int:
    """Run a command in a process of its own; returns its number. before: what it does first; said:
    the file of its stderr.
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
    """Wait for a process; its exit code, negative where a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def child(command: list[str], folder: Path, *, write: int | None, counter: Path | None) -> int:
    """Run a command, killed at a write; returns its exit code."""

    def before() -> None:
        if counter is not None:
            killed_at(write, folder, counter)

    return code_of(begun(command, before))


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


def unlike(out: Path, wanted: dict[str, bytes]) -> list[str]:
    """What differs below a folder from what is wanted."""
    found = contents(out)
    return [name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]


def at_writes(work: Path, start: Path, command: list[str], stride: int, first: int) -> dict:
    """Kill a stage at every so-many-th write, run it again, compare."""
    from geostat.runs import stages

    out, counter = work / "out", work / "count"
    for name in COMPUTED:
        setattr(stages, name, computed_once(getattr(stages, name), work / f"{name}.pickle"))
    for _ in range(2):  # the first computes
        code = child(command, started(start, out), write=None, counter=counter)
        assert code == 0, code
    wanted, writes = contents(out), int(counter.read_text())
    different: dict[int, list[str]] = {}
    kills = 0
    for write in range(first, writes + 1, stride):
        code = child(command, started(start, out), write=write, counter=counter)
        kills += code == -signal.SIGKILL
        code = child(command, out, write=None, counter=None)
        if (names := unlike(out, wanted)) or code:
            different[write] = [f"exit {code}", *names]
    return {"writes": writes, "kills": kills, "unlike": different}


def at_moments(work: Path, start: Path, command: list[str], count: int, seed: int) -> dict:
    """Kill a stage at `count` moments drawn over as long as it takes, run it again, compare. Where
    it ends before its moment, another is drawn, at most four times as many in all.
    """
    out, lengths = work / "out", []
    for _ in range(3):  # the first compiles
        began = time.perf_counter()
        process = begun(command, lambda: None) if started(start, out) else 0
        assert code_of(process) == 0
        lengths.append(time.perf_counter() - began)
    wanted, different, kills = contents(out), {}, 0
    for moment in np.random.default_rng(seed).uniform(0, min(lengths), 4 * count).tolist():
        if kills == count:
            break
        started(start, out)
        process = begun(command, lambda: None)
        time.sleep(moment)
        os.kill(process, signal.SIGKILL)
        kills += code_of(process) == -signal.SIGKILL
        code = code_of(begun(command, lambda: None))
        if (names := unlike(out, wanted)) or code:
            different[moment] = [f"exit {code}", *names]
    return {"seconds": min(lengths), "kills": kills, "unlike": different}


def at_faults(
    work: Path, start: Path, command: list[str], stride: int, first: int, error: int
) -> dict:
    """Let the disk fail at every so-many-th step of a stage, look at what it says and leaves, run
    it again, compare.
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
        code = code_of(begun(command, lambda: None))
        if (names := unlike(out, wanted)) or code:
            wrong += [f"again: exit {code}", *names]
        if wrong:
            different[step] = wrong
    return {"steps": steps, "codes": codes, "unlike": different}


def _quiet() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


WAYS = {"writes": at_writes, "moments": at_moments, "faults": at_faults}


def main() -> None:
    """Do what is asked, print what was found."""
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
