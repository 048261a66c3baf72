"""Writing a file so that a reader sees the old one or the whole new one, never a part. Imports
the standard library only.
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
    """Put `content` at `path` in one step, making its folder; returns the path. Half a character is
    written as its code, as JSON has it.

    Raises:
        InputError: where the folder cannot be made or written.
    """
    whole = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _draft(path) as file:
            file.write(whole)
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
    """Open a draft of a file: beside it, under a name that no other process has, and locked. It
    goes however the writing ends; those of killed processes, which nobody locks, go before.
    """
    for left in path.parent.glob(f".{path.name}.*.draft"):
        with suppress(OSError), open(left, "r+b", opener=_no_link) as file:
            flock(file, LOCK_EX | LOCK_NB)
            left.unlink()
    while True:
        draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.draft")
        with open(draft, "xb") as file:  # follows no link
            with suppress(OSError):  # some disks have no locks
                flock(file, LOCK_EX)
            if not os.fstat(file.fileno()).st_nlink:
                continue  # another process took it for left, before it was locked
            try:
                yield file
            finally:
                with suppress(OSError):
                    draft.unlink()
            return


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
