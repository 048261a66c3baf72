"""Disk access of a run: its lock; atomic, flushed files; one-line messages for disk errors; and
waiting for zarr's pending work.

Imports the standard library, and zarr for its event loop.
"""

from __future__ import annotations

import asyncio
import errno
import glob
import os
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from zarr.core.sync import sync

from empirical.errors import DENIED, FULL, InputError

NO_FOLDERS = frozenset(
    {errno.EINVAL, errno.ENOTSUP} | ({errno.EACCES} if os.name == "nt" else set())
)
"""Error numbers of systems that can flush files but not folders: Windows and some network disks."""

AT_ONCE = 8
"""Files flushed in parallel. Sixty shards and two hundred folders then take no longer than the
shards alone in sequence.
"""

DRAFT: Final = ".draft"
"""Suffix of the hidden draft of a file."""


_NOT_READ: Final = {
    DENIED: "{file}: cannot be read ({reason}). Check its permissions.",
    None: (
        "{file}: cannot be read ({reason}). Check the disk and the limits of this machine, then run"
        " the same command again."
    ),
}
_NOT_WRITTEN: Final = {
    FULL: (
        "{path}: no space left on the disk while writing. Completed work is kept: free some space"
        " and run the same command again, without --fresh."
    ),
    DENIED: (
        "{path}: cannot be written ({reason}). Check its permissions, or choose another folder with"
        " --out."
    ),
    None: (
        "{path}: the disk failed ({reason}) while writing. Completed work is kept: check the disk,"
        " then run the same command again, without --fresh."
    ),
}
"""Messages by error numbers; None stands for any other. `file` is the path in the error."""

_ABSENT: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""Errors about missing or unexpected entries, which are no disk errors."""


@contextmanager
def _refused(
    lines: Mapping[frozenset[int] | None, str], passing: tuple[type[OSError], ...], path: Path
) -> Iterator[None]:
    """Turn OS errors, except those in `passing`, into the message for their error number."""
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
"""Turn read errors into one line with the remedy."""
writing = partial(_refused, _NOT_WRITTEN, ())
"""Turn errors of a full, read-only or failing disk into one line with the remedy."""


@contextmanager
def zarr_awaited() -> Iterator[None]:
    """If zarr fails, wait for its pending tasks: they would go on, or complain at exit."""
    try:
        yield
    except BaseException:
        sync(_others())
        raise


async def _others() -> None:
    """Wait for every other task of this event loop."""
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)


def flush(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(path: Path) -> None:
    """Wait until a folder's entries are on the disk; a power cut could lose the files."""
    try:
        flush(path)
    except OSError as error:
        if error.errno not in NO_FOLDERS:
            raise


def flush_all(files: Sequence[Path], top: Path) -> None:
    """Wait, in parallel, until files and their folders up to `top` are on the disk."""
    folders: set[Path] = set()
    for folder in {file.parent for file in files}:
        while folder not in folders and folder.is_relative_to(top):
            folders.add(folder)
            folder = folder.parent
    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="geostat-flush") as pool:
        for how, paths in ((flush, files), (flush_folder, folders)):
            list(pool.map(how, paths))


def replace(path: Path, content: str | bytes) -> None:
    """Write a file atomically: a reader sees the old or the new content."""
    data = content.encode() if isinstance(content, str) else content  # line ends stay unchanged
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}{DRAFT}")
    try:
        with open(draft, "xb") as file:  # never an existing file or link
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    flush_folder(path.parent)


def drafts_of(path: Path) -> list[Path]:
    """Return the incomplete drafts of a file; for the holder of its lock."""
    try:
        return list(path.parent.glob(f".{glob.escape(path.name)}.*{DRAFT}"))
    except OSError:
        return []


def sidecar_path(path: Path, what: str) -> Path:
    """Return a hidden file or folder next to the store at `path`."""
    return path.with_name(f".{path.name}.{what}")


def target_of(path: Path) -> Path:
    """Return the target of a path; the path itself if links form a circle."""
    return Path(os.path.realpath(path))


_HOW: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags for opening a lock: links are not followed, and a pipe does not block."""
NO_LOCK: Final = "{lock}: is no file, expected the lock of the run or nothing. Remove it."


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a run on this machine; an InputError if another process holds it."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    target = target_of(path)
    made = [folder for folder in target.parents if not folder.exists()]
    lock = sidecar_path(target, "lock")
    with ExitStack() as opened:
        holding = False
        while not holding:
            with writing(path):
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    descriptor = os.open(lock, _HOW, 0o644)
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
                    " until it ends, or use"
                    " another run or --out."
                ) from error
            except OSError:  # a disk without locks
                pass
            # the previous holder may have removed the file between open and flock
            with suppress(FileNotFoundError):
                holding = os.path.samestat(os.fstat(descriptor), lock.lstat())
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            with suppress(OSError):  # a refused run leaves no empty folders
                for folder in made:
                    folder.rmdir()
