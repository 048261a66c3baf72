"""Writing a file so that a reader sees the old one or the whole new one, never a part. Imports
the standard library only.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from reports.errors import InputError

OLD: Final = 86_400.0
"""Seconds after which a draft is one that a killed process left."""


def replaced(path: Path, content: bytes | str) -> Path:
    """Put `content` at `path` in one step, making its folder; returns the path. Half a character is
    written as its code, as JSON has it.

    Raises:
        InputError: where the folder cannot be made or written.
    """
    whole = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _draft(path) as draft:
            with open(draft, "xb") as file:  # follows no link
                file.write(whole)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror or error}). Choose another folder, or free"
            " some space."
        ) from error
    return path


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """Where a draft of a file goes: beside it, under a name that no other process has. It goes
    however the writing ends, and so do those of killed processes.
    """
    for left in path.parent.glob(f".{path.name}.*.draft"):
        with suppress(OSError):
            if time.time() - left.lstat().st_mtime > OLD:
                left.unlink()
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.draft")
    try:
        yield draft
    finally:
        with suppress(OSError):
            draft.unlink()
