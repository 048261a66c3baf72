"""Bundle: safe access to the files of a run.

A run may come from somebody else, by tar, git or a shared disk. Files are therefore opened relative
to their folder's descriptor, component by component. No link is followed, nothing blocks, and only
regular files are read, up to a limit. Other entries do not belong to the run. JSON is parsed
strictly, without NaN or infinity. Imports the standard library.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

from empirical.errors import StoreError

METADATA: Final = 1 << 26
"""Largest file of metadata, in bytes; that of 10,000 documents has less than one mebibyte."""
LINE: Final = 1 << 20
"""Largest row of a document, in bytes."""
MOST: Final = 1 << 36
"""Largest file of a run, in bytes; a shard of 1,024 heads and 1,024 positions has 256 MiB."""

REMEDY: Final = "Restore the run from a copy, or measure it again elsewhere."

_PIECE: Final = 1 << 20

_FOLLOWS: Final = os.open not in os.supports_dir_fd
"""Whether this system cannot open relative to a folder's descriptor (Windows); names are then
checked first.
"""
_FILE: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_FOLDER: Final = _FILE | getattr(os, "O_DIRECTORY", 0)
_SYSTEM: Final = getattr(os, "O_SYSTEM", 0) | getattr(os, "O_CLOEXEC", 0)

_KINDS: Final = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def plain(name: Any) -> bool:
    """Return whether a name is a valid file name of geostat below a folder.

    >>> plain("capture/recall/c/0"), plain("../a"), plain("/a"), plain("a//b"), plain(3)
    (True, False, False, False, False)
    """
    return (
        isinstance(name, str)
        and name.isprintable()
        and not {"\\", ":"} & {*name}
        and all(part and not part.startswith(".") for part in name.split("/"))
    )


def opened(folder: Path, name: str, *, limit: int = MOST) -> BinaryIO:
    """Open a file below a folder for reading.

    Raises:
        FileNotFoundError: there is no such entry.
        StoreError: the entry, or a parent, is irregular, or the file is too large.
        OSError: it cannot be read.
    """
    descriptor = _descend(folder, name)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            _refuse(folder / name, status.st_mode)
        if status.st_size > limit:
            raise StoreError(
                f"{folder / name}: has {status.st_size:,} bytes, expected at most {limit:,}."
                f" {REMEDY}"
            )
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def content(folder: Path, name: str, *, limit: int = METADATA) -> bytes:
    """Return the bytes of a file; raises the errors of `opened`."""
    with opened(folder, name, limit=limit) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def sha256(folder: Path, name: str) -> str:
    """Return the digest of a file, read in pieces; raises the errors of `opened`."""
    with opened(folder, name) as file:
        total = hashlib.sha256()
        for piece in pieces(file):
            total.update(piece)
        return total.hexdigest()


def pieces(file: BinaryIO, length: int = MOST) -> Iterator[bytes]:
    """Yield the next `length` bytes of a file, or as many as exist, at most 1 MiB at a time."""
    while length > 0 and (piece := file.read(min(length, _PIECE))):
        yield piece
        length -= len(piece)


def parsed(text: str | bytes) -> Any:
    """Parse strict JSON; a ValueError if it is none, too deep, or holds NaN or infinity."""
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def clear_away(place: Path) -> None:
    """Remove an entry under one of geostat's reserved names; a link itself, never its target."""
    try:
        is_folder = stat.S_ISDIR(place.lstat().st_mode)
    except FileNotFoundError:
        return
    if is_folder:
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _descend(folder: Path, name: str) -> int:
    """Open an entry below a folder; the folder itself may be reached through links."""
    *parents, last = name.split("/")
    place = folder
    if _FOLLOWS:
        for part in (*parents, last):
            place = place / part
            mode = place.lstat().st_mode
            if stat.S_ISLNK(mode) or (part is not last and not stat.S_ISDIR(mode)):
                _refuse(place, mode)
        return os.open(place, os.O_RDONLY | _SYSTEM)
    above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _SYSTEM)
    try:
        for part in parents:
            place = place / part
            below = _open(place, _FOLDER, above)
            os.close(above)
            above = below
        return _open(place / last, _FILE, above)
    finally:
        os.close(above)


def _open(place: Path, how: int, above: int) -> int:
    """Open an entry relative to the descriptor of its folder."""
    try:
        return os.open(place.name, how | _SYSTEM, dir_fd=above)
    except OSError as error:
        error.filename = str(place)
        if isinstance(error, FileNotFoundError):
            raise
        try:
            mode = os.stat(place.name, dir_fd=above, follow_symlinks=False).st_mode
        except OSError:
            raise error from None
        if stat.S_IFMT(mode) != (stat.S_IFREG if how == _FILE else stat.S_IFDIR):
            _refuse(place, mode)
        raise  # a regular entry: a disk error


def _refuse(place: Path, mode: int) -> NoReturn:
    kind = _KINDS.get(stat.S_IFMT(mode), "no folder")
    raise StoreError(f"{place}: is {kind}, expected what geostat wrote there. {REMEDY}")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")
