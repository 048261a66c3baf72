"""The place of a run on disk: what stands there, what a killed process left, and who may write to
it. Imports the journal.

A run has one writer at a time. The lock is a file beside the store that goes with the process,
however that ends.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from empirical.errors import InputError, StoreError
from empirical.store import handed
from empirical.store.disk import writing
from empirical.store.manifest import UNFINISHED, beside, finish, read_root
from empirical.store.remote.mirror import held
from empirical.store.settling import settle


def recover(path: Path) -> None:
    """Put in order, holding the lock, what killed processes left: moves under way are finished,
    what was not written whole is removed, documents of the journal are settled.
    """
    with writing(path):
        aside = beside(path, "old")  # the run in whose place a new one was put
        if aside.exists() and path.exists():
            shutil.rmtree(aside)
        elif aside.exists():
            os.replace(aside, path)
        for what in ("draft", handed.FOLDER):
            shutil.rmtree(beside(path, what), ignore_errors=True)
        path.with_name(f".{path.stem}.json.draft").unlink(missing_ok=True)
        try:
            attributes = read_root(path)
        except (
            InputError,
            StoreError,
        ):  # no run, or a damaged one: who opens it says so, and nothing in it is touched
            return
        manifest = attributes["manifest"]
        finish(path)
        for what in ("ready", "removed"):
            shutil.rmtree(beside(path, what), ignore_errors=True)
        (path / ".zarr.json.draft").unlink(missing_ok=True)
        for group in (*manifest["captured"], *manifest["results"]):
            for file in (path / group).rglob(f"*{UNFINISHED}"):
                if file.is_file():
                    file.unlink()
        with suppress(StoreError):  # who opens the run says so
            settle(path)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Be the one process that writes to the run at `path`, or where it will be, and put in order
    what others left; an InputError where another does.

    A link is followed, so that a run has one lock under all its names. Without file locks (Windows)
    nothing is held. A working copy's run is held at its URL, too, and what changed is sent.
    """
    with locked(path), held(path.resolve()):
        recover(path.resolve())
        yield


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a run on this machine; an InputError where another process does."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    target = path.resolve()
    made = [folder for folder in target.parents if not folder.exists()]
    lock = beside(target, "lock")
    with ExitStack() as opened:
        held = False
        while not held:
            with writing(path):
                target.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT, 0o644)
            opened.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(
                    f"{path}: another geostat command is writing there, expected no other. Wait"
                    " until it ends, or use another run or --out."
                ) from error
            with suppress(
                FileNotFoundError
            ):  # who held the lock before may have removed the file between our two steps
                held = os.path.samestat(os.fstat(descriptor), lock.stat())
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            with suppress(OSError):  # a run that was refused leaves no empty folder
                for folder in made:
                    folder.rmdir()
