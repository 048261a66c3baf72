"""Bundle: the files of a run, all reached through one door.

A run may come from somebody else, by tar, git or a shared disk. So a file is opened below its
folder's descriptor, name by name: no link is followed, nothing blocks, only a regular file is read,
and never more of it than a limit. What else stands there does not belong to the run. What is read
of it as JSON is JSON: no NaN, no number without end. Imports the standard library.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import stat
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

from empirical.errors import StoreError

METADATA: Final = 1 << 26
"""Bytes of a file of metadata at most: of 10,000 documents it has less than one mebibyte."""
LINE: Final = 1 << 20
"""Bytes of the row of a document at most."""
MOST: Final = 1 << 36
"""Bytes of any file of a run at most: a shard of 1,024 heads and 1,024 positions has 256 MiB."""

REMEDY: Final = "Restore the run from a copy, or measure it again elsewhere."

_PIECE: Final = 1 << 20

_FOLLOWS: Final = os.open not in os.supports_dir_fd
"""Whether this system cannot open below a folder's descriptor (Windows): its names are looked at
first.
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
    """Whether a name is one of a file below a folder, such as geostat writes.

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
    """Open a file below a folder to read it.

    Raises:
        FileNotFoundError: if nothing stands there.
        StoreError: if what stands there, or a folder on the way, is none, or it is too large.
        OSError: if it cannot be read.
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
    """Return the bytes of a file; raises as `opened` does."""
    with opened(folder, name, limit=limit) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def sha256(folder: Path, name: str) -> str:
    """Return the digest of a file, of which a piece is held at a time; raises as `opened` does."""
    with opened(folder, name) as file:
        total = hashlib.sha256()
        while piece := file.read(_PIECE):
            total.update(piece)
        return total.hexdigest()


def parsed(text: str | bytes) -> Any:
    """Return what a text says as JSON.

    Raises:
        ValueError: if it is none, nested beyond any reason, or holds NaN or infinity.
    """
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def clear_away(place: Path) -> None:
    """Remove what stands under a name that is geostat's own: a link itself, never what it leads to.

    Raises:
        OSError: if it cannot be removed.
    """
    try:
        is_folder = stat.S_ISDIR(place.lstat().st_mode)
    except FileNotFoundError:
        return
    if is_folder:
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _descend(folder: Path, name: str) -> int:
    """Open what stands at a name below a folder, which itself may be reached through links."""
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
    """Open what stands at a place, below the descriptor of its folder."""
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
        raise  # of the kind expected: the disk's own refusal


def _refuse(place: Path, mode: int) -> NoReturn:
    kind = _KINDS.get(stat.S_IFMT(mode), "no folder")
    raise StoreError(f"{place}: is {kind}, expected what geostat wrote there. {REMEDY}")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")
