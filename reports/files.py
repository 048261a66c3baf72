"""Writing a file so that a reader sees the old one or the whole new one, never a part. Imports
the standard library only.
"""

from __future__ import annotations

import os
from pathlib import Path

from reports.errors import InputError


def replaced(path: Path, content: bytes | str) -> Path:
    """Put `content` at `path` in one step, making its folder; returns the path. An InputError where
    the folder cannot be made or written.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(draft, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}). Choose another folder, or free some"
            " space."
        ) from error
    return path
