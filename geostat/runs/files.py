"""Where a run lies, whether it can be written there, and run.json beside its store.

run.json holds wall times, commands and the machine, which differ between equal runs and so must not
be in the store; the machine is that of the capture. Imports empirical for the disk, and for the
machine, with torch, where a capture has.
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
from empirical.store import bundle
from empirical.store.disk import replace, writing
from empirical.store.lock import alone
from empirical.store.remote.origin import called, copies, url_of
from empirical.store.working_copy import refuse_unreachable, working_copy
from geostat.errors import InputError

DIGITS: Final = 16
"""Hexadecimal digits of a URL's sha256 that name the folder of its working copy."""
STAGES: Final = ("capture", "fit", "confront", "effective", "ablation", "normaliser")


def store_path(out: Path) -> Path:
    """Where a run lies: `out` itself when it names a store, else run.zarr inside it; of a run at a
    URL its working copy in geostat's cache, brought up to date.

    >>> str(store_path(Path("report")))
    'report/run.zarr'
    """
    path = out if out.suffix == ".zarr" else out / "run.zarr"
    url = url_of(path)
    return path if url is None else working_copy(url, copies() / _name(url))


@contextmanager
def to_be_checked(run: Path) -> Iterator[Path]:
    """Where a run lies that is to be looked at file by file; of a run at a URL a copy that is
    fetched for that, and removed.
    """
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


def _name(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:DIGITS]


def page_place(store: Path) -> Path:
    """Where the page of a run goes, unless told: beside its store, of a run at a URL into report/.

    >>> str(page_place(Path("paper/run.zarr")))
    'paper'
    """
    return store.parent if called(store) == str(store) else Path("report")


def refuse_unwritable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written, before long work is done for it."""
    if url := url_of(folder):
        raise InputError(
            f"{url}: expected a folder of this machine, where pages, tables and figures go; at a"
            " URL a run may stand. Give --out a folder."
        )
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise InputError(
            f"{there}: is a file, expected a folder to write in. Choose another folder with --out."
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{there}: cannot be written. Choose another folder with --out.")


@contextmanager
def timed(path: Path, stage: str) -> Iterator[None]:
    """Record the wall time of a stage that makes its whole result anew, and the command that asked
    for it.
    """
    started = time.perf_counter()
    yield
    known = _known(path)
    known["seconds"] = _by_stage(known, "seconds") | {stage: _since(started)}
    commands = _by_stage(known, "commands")
    commands.pop(stage, None)
    known["commands"] = commands | _command(stage)
    _write(path, {name: value for name, value in known.items() if value or name != "commands"})


@contextmanager
def capture_session(path: Path) -> Iterator[list[int]]:
    """Record documents and wall time of a session of a capture, however it ends; one that measured
    nothing leaves what is known.

    One that had nothing left to measure, after one that was killed before it could record itself,
    records the machine alone.

    Yields:
        a list that is to get, for each document, how many the store then holds.
    """
    started = time.perf_counter()
    kept: list[int] = []
    try:
        yield kept
    except BaseException:
        with suppress(MeasurementError):  # what went wrong before is what is to be said
            _add_session(path, kept, _since(started))
        raise
    _add_session(path, kept, _since(started))
    lost = not path.with_suffix(".json").exists()
    if lost:
        _write(path, {"captures": [], "machine": _machine()})
    if (kept or lost) and called(path) != str(path):
        with alone(path):  # which sends the record, too
            pass


CENTURY: Final = 3.2e9
"""Seconds that no stage takes."""


def seconds_of(path: Path) -> dict[str, float] | None:
    """Wall time by stage, all sessions together; None where it is not known."""
    seconds = _known(path).get("seconds")
    if not isinstance(seconds, dict):
        return None
    return {str(name): float(value) for name, value in seconds.items() if _is_time(value)}


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < CENTURY


def commands_of(path: Path) -> list[str]:
    """The commands that made a run, in the order of its stages, each once; those of a run made from
    Python are not known.
    """
    commands = _by_stage(_known(path), "commands")
    return list(dict.fromkeys(str(commands[name]) for name in STAGES if name in commands))


def words_of(path: Path, stage: str) -> list[str] | None:
    """The words behind `geostat` of the command that made a stage of a run; None where they are not
    known.
    """
    try:
        program, *words = shlex.split(str(_by_stage(_known(path), "commands").get(stage, "")))
    except ValueError:  # nothing, or quotes that do not close
        return None
    return words if program == "geostat" and words else None


def _by_stage(known: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What run.json tells stage by stage, or nothing where it is damaged."""
    return dict(known[name]) if isinstance(known.get(name), dict) else {}


def _command(stage: str) -> dict[str, str]:
    """The command line of this process by the stage that it asks for; {} in another program."""
    program, *words = sys.argv or [""]
    if Path(program).stem != "geostat":
        return {}
    return {stage: shlex.join(["geostat", *words])}


def _add_session(path: Path, kept: Sequence[int], seconds: float) -> None:
    if not kept:
        return
    before = (
        _known(path).get("captures") if kept[0] > 1 else None
    )  # a run that starts anew starts its record anew
    sessions = [
        *(one for one in (before if isinstance(before, list) else []) if _is_session(one)),
        {"documents": len(kept), "seconds": seconds},
    ]
    total = round(sum(float(session["seconds"]) for session in sessions), 3)
    # the results of fewer documents, and their times, are gone
    known = {"captures": sessions, "seconds": {"capture": total}, "machine": _machine()}
    command = _command("capture")
    _write(path, known | ({"commands": command} if command else {}))


def _is_session(record: Any) -> bool:
    """Whether a record is that of a session; what else stands there was not written by geostat."""
    return isinstance(record, dict) and _is_time(record.get("seconds"))


def _machine() -> dict[str, Any]:
    from empirical.capture.identity import machine

    return machine()


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 3)


def _write(path: Path, known: Mapping[str, Any]) -> None:
    beside = path.with_suffix(".json")
    if not os.access(beside.parent, os.W_OK):  # of who reads another's run
        return
    with writing(beside):
        replace(beside, json.dumps(known, indent=1, sort_keys=True) + "\n")


def _known(path: Path) -> dict[str, Any]:
    """What run.json says, or nothing where it is absent or damaged: it is a convenience, not a
    result.
    """
    try:
        record = path.with_suffix(".json")
        known = bundle.parsed(bundle.content(record.parent, record.name))
    except (OSError, ValueError, StoreError):
        return {}
    return known if isinstance(known, dict) else {}
