"""The place of a run on disk: what stands there, what a killed process left, and who may write to
it. Imports the journal.

A run has one writer at a time. The lock is a file beside the store that goes with the process,
however that ends.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from empirical.errors import InputError, StoreError
from empirical.store import handed
from empirical.store.bundle import clear_away
from empirical.store.disk import drafts_of, writing
from empirical.store.manifest import ROOT, beside, can_finish, files_below, finish, read_root
from empirical.store.remote.mirror import held
from empirical.store.settling import settle

_HOW: Final = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""How a lock is opened: no link leads elsewhere, no pipe waits for who reads it."""


NO_LOCK: Final = "{lock}: is no file, expected the lock of the run or nothing. Remove it."


def recover(path: Path) -> None:
    """Put in order, holding the lock, what killed processes left: moves that can be finished
    are, what was not written whole is removed, documents of the journal are settled.

    Nothing is done in a run that is damaged, or in which something stands that is no file or folder
    of its own: who opens it says so.
    """
    with writing(path):
        aside = beside(path, "old")  # the run in whose place a new one was put
        if os.path.lexists(aside) and path.exists():
            clear_away(aside)
        elif aside.is_dir() and not aside.is_symlink():
            os.replace(aside, path)
        for what in ("draft", handed.FOLDER):
            clear_away(beside(path, what))
        for draft in drafts_of(path.with_suffix(".json")):
            clear_away(draft)
        try:
            attributes = read_root(path)
        except (InputError, StoreError):
            return
        if _unfinished(path, pending := attributes["manifest"].get("pending")):
            return
        if pending is not None:
            finish(path)
        for what in ("ready", "removed"):
            clear_away(beside(path, what))
        with suppress(StoreError):  # who opens the run says so
            settle(path)


def _unfinished(path: Path, pending: Mapping[str, Any] | None) -> bool:
    """Remove what was not written whole; say whether the run is to be left as it is: for a link or
    another odd entry, or for moves that cannot be finished here.
    """
    drafts: list[Path] = []
    for file in (*files_below(path, drafts), *files_below(beside(path, "ready"))):
        if not stat.S_ISREG(file.lstat().st_mode):
            return True
    for draft in (*drafts, *drafts_of(path / ROOT)):
        draft.unlink(missing_ok=True)
    return pending is not None and not can_finish(path, pending)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Be the one process that writes to the run at `path`, or where it will be, and put in order
    what others left; an InputError where another does.

    A link is followed, so that a run has one lock under all its names. Without file locks (Windows,
    some network disks) nothing is held. A working copy's run is held at its URL, too, and what
    changed is sent.
    """
    with locked(path), held(_target(path)):
        recover(_target(path))
        yield


def _target(path: Path) -> Path:
    """What a path leads to; itself where links lead in a circle, which whoever opens it says."""
    return Path(os.path.realpath(path))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a run on this machine; an InputError where another process does."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    target = _target(path)
    made = [folder for folder in target.parents if not folder.exists()]
    lock = beside(target, "lock")
    with ExitStack() as opened:
        held = False
        while not held:
            with writing(path):
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    descriptor = os.open(lock, _HOW | os.O_CREAT, 0o644)
                except IsADirectoryError as error:
                    raise InputError(NO_LOCK.format(lock=lock)) from error
            opened.callback(os.close, descriptor)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError(NO_LOCK.format(lock=lock))
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(
                    f"{path}: another geostat command is writing there, expected no other. Wait"
                    " until it ends, or use another run or --out."
                ) from error
            except OSError:  # a disk that has no locks
                pass
            with suppress(
                FileNotFoundError
            ):  # who held the lock before may have removed the file between our two steps
                held = os.path.samestat(os.fstat(descriptor), lock.lstat())
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            with suppress(OSError):  # a run that was refused leaves no empty folder
                for folder in made:
                    folder.rmdir()
