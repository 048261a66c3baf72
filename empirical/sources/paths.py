"""File paths as users write them: unusable paths are refused in one line, and file names that are
not UTF-8 are made printable. Files are opened without blocking and read up to a size limit.

Imports the standard library.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import BinaryIO, Final

from empirical.errors import InputError

LARGEST: Final = 2**30
"""Largest number of bytes read from one file."""
WAIT: Final = 30
"""Seconds that a pipe may stay silent."""
_READING: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def path_of(text: str | Path, *, home: bool = False) -> Path:
    """Return the path that `text` names, whether or not it exists; with `home`, a leading `~` is
    expanded. An InputError for a NUL character, a name too long for the disk, or an unknown home.

    >>> path_of("notes/one.txt").name
    'one.txt'
    """
    if "\0" in str(text):
        raise InputError(
            f"{shown(str(text).replace(chr(0), '�'))}: holds a NUL character, expected a path."
            " Check it."
        )
    try:
        path = Path(text).expanduser() if home else Path(text)
        path.exists()
    except RuntimeError as error:
        raise InputError(f"{shown(text)}: no such home folder. Check the path.") from error
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise InputError(
            f"{shown(text)[:60]}…: a name of {len(str(text))} characters is too long for the disk."
            " Check the path."
        ) from error
    return path


def shown(path: str | Path) -> str:
    r"""Return a path as printable text. Bytes that are not UTF-8 become `\xff`, half characters
    (surrogates) `\ud800`, and backslashes of such a path are doubled.

    Different names stay different, and names in UTF-8 stay unchanged.

    >>> shown("r\udce9sum\udce9.txt")
    'r\\xe9sum\\xe9.txt'
    """
    text = path.as_posix() if isinstance(path, Path) else path
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        doubled = text.replace("\\", "\\\\")
    try:
        return doubled.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # surrogates that encode no byte
        return doubled.encode("utf-8", "backslashreplace").decode()


@contextmanager
def opened(path: Path, *, most: int = LARGEST) -> Iterator[BinaryIO]:
    """Open a regular file of at most `most` bytes for reading, without blocking; else an
    InputError, or an OSError. The checks apply to the opened file, not to an earlier state of the
    path.
    """
    with os.fdopen(os.open(path, _READING), "rb") as file:
        refuse_unbounded(path, os.fstat(file.fileno()), most)
        yield file


def read_whole(path: Path, *, most: int = LARGEST) -> bytes:
    """Read a regular file, or a pipe that ends (such as the shell's <(command)).

    Raises:
        InputError: the path is a device or a socket, holds more than `most` bytes, or is a pipe
            that stays silent for WAIT seconds.
        OSError: the file cannot be opened or read.
    """
    descriptor = os.open(path, _READING)
    try:
        status = os.fstat(descriptor)
        refuse_unbounded(path, status, most, pipes=True)
        parts: list[bytes] = []
        size = 0
        while size <= most:
            if stat.S_ISFIFO(status.st_mode) and not select([descriptor], [], [], WAIT)[0]:
                raise InputError(
                    f"{shown(path)}: is a pipe that gave nothing for {WAIT} s, expected a file."
                    " Write to a file first."
                )
            part = os.read(descriptor, min(most + 1 - size, 2**20))
            if not part:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
    finally:
        os.close(descriptor)
    raise _too_large(path, f"more than {most}", most)


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the regular files under a folder, recursively; hidden entries, linked folders and
    folders without read permission are skipped. An OSError for a folder that cannot be read
    otherwise.
    """
    waiting = [os.fspath(folder)]
    while waiting:
        try:
            entries = os.scandir(waiting.pop())
        except PermissionError:
            continue
        with entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif Path(entry.path).is_file():
                    yield Path(entry.path)


def refuse_unbounded(
    path: Path, status: os.stat_result, most: int = LARGEST, *, pipes: bool = False
) -> None:
    """Refuse, by its file status, anything that may have no end or that exceeds `most` bytes."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not (stat.S_ISREG(status.st_mode) or (pipes and stat.S_ISFIFO(status.st_mode))):
        raise InputError(
            f"{shown(path)}: is a pipe, a device or a socket, expected a file. Write to a file"
            " first."
        )
    if status.st_size > most:
        raise _too_large(path, str(status.st_size), most)


def _too_large(path: Path, size: str, most: int) -> InputError:
    return InputError(
        f"{shown(path)}: holds {size} bytes, expected at most {most}. Split it, or name another."
    )
