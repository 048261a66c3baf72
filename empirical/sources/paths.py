"""Paths as users write them: what no disk can hold is refused in a line, and names that are not
UTF-8 are shown. Imports the standard library.
"""

from __future__ import annotations

import errno
from pathlib import Path

from empirical.errors import InputError


def path_of(text: str | Path, *, home: bool = False) -> Path:
    """Return the path that `text` names as the user wrote it, with `home` also from `~` on, whether
    or not something is there.

    Raises:
        InputError: it holds a NUL character, a name in it is too long for the disk, or the home
            folder is of nobody.

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
    r"""Return a path as text that can be printed and written: bytes that are not UTF-8 as `\xff`,
    and then each backslash twice.

    So that different names stay different, and names in UTF-8 are what they are.

    >>> shown("r\udce9sum\udce9.txt")
    'r\\xe9sum\\xe9.txt'
    """
    text = path.as_posix() if isinstance(path, Path) else path
    try:
        text.encode()
    except UnicodeEncodeError:
        escaped = text.replace("\\", "\\\\").encode("utf-8", "surrogateescape")
        return escaped.decode("utf-8", "backslashreplace")
    return text
