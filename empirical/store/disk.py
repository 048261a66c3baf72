"""What a run asks of a disk: files that are whole or not there, flushed; one line where the disk
refuses; zarr's reads ended with ours.

Imports the standard library, and zarr for its event loop.
"""

from __future__ import annotations

import asyncio
import errno
import glob
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from zarr.core.sync import sync

from empirical.errors import DENIED, FULL, InputError

NO_FOLDERS = frozenset(
    {errno.EINVAL, errno.ENOTSUP} | ({errno.EACCES} if os.name == "nt" else set())
)
"""What a system says that can flush files but not folders: Windows and some network disks."""

AT_ONCE = 8
"""Files flushed side by side: sixty shards and two hundred folders then take no longer than the
shards one by one.
"""

DRAFT: Final = ".draft"
"""How the name of a file ends that is not written whole; it is hidden, too."""


_NOT_READ: Final = {
    DENIED: "{file}: cannot be read ({reason}). Check its permissions.",
    None: (
        "{file}: cannot be read ({reason}). Check the disk and the limits of this machine, then run"
        " the same again."
    ),
}
_NOT_WRITTEN: Final = {
    FULL: (
        "{path}: no space left on the disk while writing. What was complete is kept: free some"
        " space and run the same again, without --fresh."
    ),
    DENIED: (
        "{path}: cannot be written ({reason}). Check its permissions, or choose another folder with"
        " --out."
    ),
    None: (
        "{path}: the disk failed ({reason}) while writing. What was complete is kept: check the"
        " disk, then run the same again, without --fresh."
    ),
}
"""What is said where the system gives one of these reasons, or (None) any other; `file` is the one
that it names.
"""

_ABSENT: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""What is no refusal of the disk: something stands there, or does not, that was not expected."""


@contextmanager
def _refused(
    lines: Mapping[frozenset[int] | None, str], passing: tuple[type[OSError], ...], path: Path
) -> Iterator[None]:
    """Turn any refusal of the system but those that are `passing` into the line of its reason."""
    try:
        yield
    except passing:
        raise
    except OSError as error:
        found = (line for reasons, line in lines.items() if reasons and error.errno in reasons)
        line = next(found, lines[None])
        reason = error.strerror or str(error) or type(error).__name__
        text = line.format(path=path, file=error.filename or path, reason=reason)
        raise InputError(text) from error


reading = partial(_refused, _NOT_READ, _ABSENT)
"""Turn a file that cannot be read into one line with the remedy."""
writing = partial(_refused, _NOT_WRITTEN, ())
"""Turn a disk that is full, read-only or fails into one line with the remedy."""


@contextmanager
def zarr_awaited() -> Iterator[None]:
    """Where zarr fails, wait for what it left under way: it would write on behind our back, or
    complain on stderr as the process ends.
    """
    try:
        yield
    except BaseException:
        sync(_others())
        raise


async def _others() -> None:
    """End once every other task of this event loop has."""
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)


def flush(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can: without them what
    they name is lost in a power cut.
    """
    try:
        flush(path)
    except OSError as error:
        if error.errno not in NO_FOLDERS:
            raise


def flush_all(files: Sequence[Path], top: Path) -> None:
    """Wait until files, and the folders from them up to `top`, are on the disk; side by side,
    for those that wait together wait once.
    """
    folders: set[Path] = set()
    for folder in {file.parent for file in files}:
        while folder not in folders and folder.is_relative_to(top):
            folders.add(folder)
            folder = folder.parent
    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="geostat-flush") as pool:
        for how, paths in ((flush, list(files)), (flush_folder, list(folders))):
            shares = [paths[first::AT_ONCE] for first in range(AT_ONCE)]
            list(pool.map(partial(_each, how), shares))


def _each(how: Callable[[Path], None], paths: Sequence[Path]) -> None:
    for path in paths:
        how(path)


def replace(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader sees the old or the new content, never a part."""
    data = content.encode() if isinstance(content, str) else content  # no line end is changed
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}{DRAFT}")
    try:
        with open(draft, "xb") as file:  # nobody else's, and no link's
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    flush_folder(path.parent)


def drafts_of(path: Path) -> list[Path]:
    """Return the drafts of a file that were not written whole; for who holds its lock."""
    try:
        return list(path.parent.glob(f".{glob.escape(path.name)}.*{DRAFT}"))
    except OSError:
        return []
