"""Lock and recovery of a run on disk: its single writer, and cleanup after killed processes.
Imports the journal.

A run has one writer at a time. The lock (`disk.locked`) is a file next to the store that the system
releases when the process ends, however it ends.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from empirical.errors import InputError, StoreError
from empirical.store.bundle import clear_away
from empirical.store.disk import drafts_of, locked, sidecar_path, target_of, writing
from empirical.store.journal import HANDED
from empirical.store.manifest import ROOT, can_finish, files_below, finish, read_root
from empirical.store.remote import held
from empirical.store.shards import settle


def recover(path: Path) -> None:
    """Clean up, holding the lock, after killed processes: finish moves that can be finished, remove
    incomplete files, and settle documents of the journal.

    A run that is damaged, or that contains links or other irregular entries, is left unchanged;
    opening it reports the problem.
    """
    with writing(path):
        aside = sidecar_path(path, "old")  # the run that a new one replaces
        if os.path.lexists(aside) and path.exists():
            clear_away(aside)
        elif aside.is_dir() and not aside.is_symlink():
            os.replace(aside, path)
        for what in ("draft", HANDED):
            clear_away(sidecar_path(path, what))
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
            clear_away(sidecar_path(path, what))
        with suppress(StoreError):  # opening the run reports it
            settle(path)


def _unfinished(path: Path, pending: Mapping[str, Any] | None) -> bool:
    """Remove incomplete files. Return whether the run must be left unchanged: it contains a link or
    another irregular entry, or moves that cannot be finished here.
    """
    drafts: list[Path] = []
    for file in (*files_below(path, drafts), *files_below(sidecar_path(path, "ready"))):
        if not stat.S_ISREG(file.lstat().st_mode):
            return True
    for draft in (*drafts, *drafts_of(path / ROOT)):
        draft.unlink(missing_ok=True)
    return pending is not None and not can_finish(path, pending)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock of the run at `path`, which need not exist yet, and clean up after killed
    processes.

    Links are followed, so a run has one lock under all its names. Without file locks (Windows, some
    network disks) nothing is held. The run of a working copy is also held at its URL, and changes
    are sent.

    Raises:
        InputError: another process writes to the run.
    """
    with locked(path), held(target_of(path)):
        recover(target_of(path))
        yield
