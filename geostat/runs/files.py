"""Paths of a run, and run.json next to its store.

run.json holds wall times, commands and the machine of the capture. They differ between equal runs
and are therefore not in the store. Imports torch only to describe the machine after a capture.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from empirical.errors import InputError as MeasurementError
from empirical.errors import StoreError
from empirical.sources.paths import path_of
from empirical.store import bundle
from empirical.store.disk import replace, writing
from empirical.store.lock import alone
from empirical.store.remote import called, copies, refuse_unreachable, url_of, working_copy
from geostat.errors import InputError
from geostat.runs.experiments import EXPERIMENTS

DIGITS: Final = 16
"""Hexadecimal digits of a URL's sha256 that name the folder of its working copy."""
STAGES: Final = (
    "capture",
    "control",
    "fit",
    "confront",
    *(experiment.group for experiment in EXPERIMENTS),
)


def store_path(out: Path) -> Path:
    """Return the path of a store: `out` if it ends in .zarr, else run.zarr in it.

    For a URL, return the path of its working copy in geostat's cache, brought up to date.

    >>> str(store_path(Path("report")))
    'report/run.zarr'
    """
    path = out if out.suffix == ".zarr" else out / "run.zarr"
    url = url_of(path)
    if url is None:
        return path
    return working_copy(url, copies() / hashlib.sha256(url.encode()).hexdigest()[:DIGITS])


@contextmanager
def checkable_copy(run: Path) -> Iterator[Path]:
    """Yield the path of a store to verify; a run at a URL is downloaded, and deleted afterwards."""
    path = run if run.suffix == ".zarr" else run / "run.zarr"
    url = url_of(path)
    if url is None:
        yield path
        return
    refuse_unreachable(url, copies())
    with writing(copies()):
        copies().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=copies(), prefix="check-") as folder:
        yield working_copy(url, Path(folder))


def default_report_folder(store: Path) -> Path:
    """Return the default folder of a report: the store's folder, or report/ for a run at a URL.

    >>> str(default_report_folder(Path("paper/run.zarr")))
    'paper'
    """
    return store.parent if called(store) == str(store) else Path("report")


def refuse_unwritable(folder: Path) -> None:
    """Refuse a folder that cannot be created or written, before any long computation."""
    if url := url_of(folder):
        raise InputError(
            f"{url}: is a URL, expected a local folder for pages, tables and figures. Give --out a"
            " folder."
        )
    existing = next(
        path for path in (folder.absolute(), *folder.absolute().parents) if path.exists()
    )
    if not existing.is_dir():
        raise InputError(
            f"{existing}: is a file, expected a folder to write in. Choose another folder with"
            " --out."
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"{existing}: cannot be written. Choose another folder with --out.")


@contextmanager
def timed(path: Path, stage: str) -> Iterator[None]:
    """Record the wall time and the command of a stage in run.json."""
    started = time.perf_counter()
    yield
    record = _record(path)
    seconds = round(time.perf_counter() - started, 3)
    record["seconds"] = _by_stage(record, "seconds") | {stage: seconds}
    _write(path, record | _with_command(record, stage))


@contextmanager
def capture_session(path: Path) -> Iterator[list[int]]:
    """Record the documents and the wall time of a capture session in run.json, however it ends.

    A session without new documents changes nothing; if run.json is missing because an earlier
    session was killed, it records the machine only.

    Yields:
        A list; append the number of documents in the store after each document.
    """
    started = time.perf_counter()
    counts: list[int] = []
    try:
        yield counts
    except BaseException:
        with suppress(MeasurementError):  # the first error is the one to report
            _add_session(path, counts, started)
        raise
    _add_session(path, counts, started)
    missing = not path.with_suffix(".json").exists()
    if missing:
        _write_with_machine(path, {"captures": []})
    if (counts or missing) and called(path) != str(path):
        with alone(path):  # releasing the lock uploads run.json
            pass


CENTURY: Final = 3.2e9
"""Upper limit of a plausible wall time, in seconds."""


def seconds_of(path: Path) -> dict[str, float] | None:
    """Return the wall time by stage, summed over sessions, in seconds; None if not recorded."""
    seconds = _record(path).get("seconds")
    if not isinstance(seconds, dict):
        return None
    return {str(name): float(value) for name, value in seconds.items() if _is_time(value)}


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < CENTURY


def commands_of(path: Path) -> list[str]:
    """Return the commands that made a run, in the order of its stages, without duplicates.

    The list is empty for a run made from Python.
    """
    commands = _by_stage(_record(path), "commands")
    return list(dict.fromkeys(str(commands[name]) for name in STAGES if name in commands))


def recorded_arguments(path: Path, stage: str) -> list[str] | None:
    """Return the arguments of the `geostat` command that made a stage; None if not recorded."""
    try:
        program, *arguments = shlex.split(str(_by_stage(_record(path), "commands").get(stage, "")))
    except ValueError:  # an empty command, or unbalanced quotes
        return None
    return arguments if program == "geostat" and arguments else None


def _by_stage(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an entry of run.json by stage; empty if damaged."""
    return dict(record[name]) if isinstance(record.get(name), dict) else {}


def _with_command(record: Mapping[str, Any], stage: str) -> dict[str, Any]:
    """Return the commands of a record with that of this process; no command in another program."""
    commands = _by_stage(record, "commands")
    commands.pop(stage, None)
    program, *arguments = sys.argv or [""]
    if Path(program).stem == "geostat":
        commands[stage] = shlex.join(["geostat", *arguments])
    return {"commands": commands}


def _add_session(path: Path, counts: Sequence[int], started: float) -> None:
    if not counts:
        return
    seconds = round(time.perf_counter() - started, 3)
    # A new run starts a new record.
    earlier = _record(path).get("captures") if counts[0] > 1 else None
    sessions = [  # entries of another form were not written by geostat
        session
        for session in (earlier if isinstance(earlier, list) else [])
        if isinstance(session, dict) and _is_time(session.get("seconds"))
    ]
    sessions.append({"documents": len(counts), "seconds": seconds})
    total = round(sum(float(session["seconds"]) for session in sessions), 3)
    # New documents delete the results of later stages, and with them their times.
    record = {"captures": sessions, "seconds": {"capture": total}}
    _write_with_machine(path, record | _with_command({}, "capture"))


def _write_with_machine(path: Path, record: Mapping[str, Any]) -> None:
    from empirical.capture.identity import machine

    _write(path, {**record, "machine": machine()})


def _write(path: Path, record: dict[str, Any]) -> None:
    file = path.with_suffix(".json")
    if not os.access(file.parent, os.W_OK):  # a run of another user
        return
    if not record.get("commands"):
        record.pop("commands", None)
    with writing(file):
        replace(file, json.dumps(record, indent=1, sort_keys=True) + "\n")


def _record(path: Path) -> dict[str, Any]:
    """Return the content of run.json; empty if it is missing or damaged, as it is not a result."""
    try:
        file = path.with_suffix(".json")
        record = bundle.parsed(bundle.content(file.parent, file.name))
    except (OSError, ValueError, StoreError):
        return {}
    return record if isinstance(record, dict) else {}


def matching_paths(pattern: str | Path) -> list[Path]:
    """Return the paths that match a file, a folder or a pattern such as notes/*.txt, sorted.

    Raises:
        InputError: if the pattern is invalid or matches nothing.
    """
    if not str(pattern):
        raise InputError(
            "a pattern is empty, expected a file, a folder or a pattern such as notes/*.txt."
            " Name one."
        )
    path = path_of(pattern)
    if path.exists():
        return [path]
    try:
        matches = sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor))))
    except (ValueError, NotImplementedError) as error:
        raise InputError(
            f"{pattern}: is not a pattern ({error}), expected one such as notes/*.txt. Correct it."
        ) from error
    if not matches:
        raise InputError(
            f"{pattern}: no such file or folder. Name a text file, a folder, a .jsonl file or a"
            " pattern."
        )
    return matches
