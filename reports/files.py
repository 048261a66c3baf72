"""Atomic replacement of a file: a reader sees the old or the complete new content. Imports the
standard library only.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from io import BufferedWriter
from pathlib import Path

from reports.errors import InputError


def replaced(path: Path, content: bytes | str) -> Path:
    """Write `content` to `path` in one step, create its folder, and return the path. Lone
    surrogates are written as escapes, as in JSON.

    Raises:
        InputError: if the folder cannot be created or written.
    """
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _draft(path) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror or error}). Choose another folder, or free"
            " some space."
        ) from error
    return path


@contextmanager
def _draft(path: Path) -> Iterator[BufferedWriter]:
    """Open a locked draft in the folder of a file, under a unique name. The draft is removed at the
    end; unlocked drafts of killed processes are removed first.
    """
    for stale in path.parent.glob(f".{path.name}.*.draft"):
        with suppress(OSError), open(stale, "r+b", opener=_no_link) as file:
            flock(file, LOCK_EX | LOCK_NB)
            stale.unlink()
    while True:
        draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.draft")
        with open(draft, "xb") as file:  # follows no link
            with suppress(OSError):  # some disks have no locks
                flock(file, LOCK_EX)
            if not os.fstat(file.fileno()).st_nlink:
                continue  # another process removed it as stale before it was locked
            try:
                yield file
            finally:
                with suppress(OSError):
                    draft.unlink()
            return


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
