"""Rows of a run's documents: `documents.jsonl`, to which a line a document is appended, each with
a digest of itself and of all lines before it.

The root's metadata holds how many lines count, their bytes and the last digest (the *head*), so it
does not grow with the documents; what is cut, changed or put in another order is found. Imports
the manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from empirical.errors import StoreError
from empirical.store.disk import reading
from empirical.store.manifest import MEASURE_AGAIN
from empirical.store.manifest_shape import shaped_row

FILE: Final = "documents.jsonl"

NO_ROWS: Final[Mapping[str, Any]] = {"count": 0, "bytes": 0, "chain": ""}
"""The head of a file that is not there yet."""

_DIGITS: Final = 16
"""Hexadecimal digits that are kept of a line's sha256: 64 bits, for damage is no forgery."""


def append_rows(
    folder: Path, head: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Write rows behind those that `head` tells of, in place of what a killed process left there;
    returns the head that tells of them too.
    """
    lines, chain = [], head["chain"]
    for row in rows:
        start, end, chain = _line(json.dumps(row, sort_keys=True), chain)
        lines.append(f"{start}{end}\n".encode())
    written = b"".join(lines)
    with open(os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
        file.truncate(head["bytes"])
        file.seek(head["bytes"])
        file.write(written)
        file.flush()
        os.fsync(file.fileno())
    return {
        "count": head["count"] + len(lines),
        "bytes": head["bytes"] + len(written),
        "chain": chain,
    }


def read_rows(folder: Path, head: Mapping[str, Any], *, more: bool) -> list[dict[str, Any]]:
    """Read the rows that `head` tells of; `more` may stand behind them where a process that was to
    add some was killed.

    Raises:
        StoreError: if they are not what was written.
        InputError: if they may not be read.
    """
    file, chain, rows = folder / FILE, "", []
    try:
        with reading(file), open(file, "rb") as opened:
            # no more is asked for than is there: an edited manifest may tell of any number
            text = opened.read(min(head["bytes"], os.fstat(opened.fileno()).st_size))
            longer = bool(opened.read(1))
    except FileNotFoundError:
        text, longer = b"", False
    except IsADirectoryError:
        text, longer = b"", True
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            found = line.decode("ascii").removesuffix("\n")
            body = "{" + found.partition(", ")[2]
            start, end, chain = _line(body, chain)
            rows.append(json.loads(body))
            sound = f"{start}{end}\n".encode() == line and shaped_row(rows[-1])
        except ValueError:
            sound = False
        if not sound:
            raise _damaged(file, f"line {number} is not what was written")
    if (len(rows), len(text), chain) != (head["count"], head["bytes"], head["chain"]):
        raise _damaged(file, f"it has {len(rows)} of {head['count']} lines")
    if longer and not more:
        raise _damaged(file, "there is more in it than was written")
    return rows


def _line(body: str, chain: str) -> tuple[str, str, str]:
    """Return what a row's line starts with, its rest, and its digest."""
    chain = hashlib.sha256(f"{chain}{body}".encode()).hexdigest()[:_DIGITS]
    return f'{{"chain": "{chain}", ', body.removeprefix("{"), chain


def _damaged(file: Path, why: str) -> StoreError:
    return StoreError(f"{file}: damaged, for {why}. {MEASURE_AGAIN}")
