"""Rows of a run's documents: `documents.jsonl`, to which a line a document is appended, each with
a digest of itself and of all lines before it.

The first of them follows the run's identity (`manifest["run"]`), a digest of its provenance. The
root's metadata holds how many lines count, their bytes and the last digest (the *head*), so it
does not grow with the documents; what is cut, changed, of another run or in another order is
found. Imports the manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from empirical.errors import StoreError
from empirical.store import bundle
from empirical.store.disk import reading
from empirical.store.manifest import MEASURE_AGAIN
from empirical.store.manifest_shape import shaped_row

FILE: Final = "capture/document/documents.jsonl"
"""Within the array of the documents' names: anywhere else zarr warns of what is not its own."""
FILE_BEFORE: Final = "documents.jsonl"
"""Where it stood up to schema version 3."""

_DIGITS: Final = 16
"""Hexadecimal digits that are kept of a line's sha256: 64 bits, for damage is no forgery."""


def no_rows(run: str) -> dict[str, Any]:
    """Return the head of the file of a run, by its identity, when it has no line yet."""
    return {"count": 0, "bytes": 0, "chain": run}


def identity_of(provenance: Mapping[str, Any]) -> str:
    """Return the identity of a run: a digest of its model, corpus and settings."""
    text = json.dumps(provenance, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def link(chain: str, row: Mapping[str, Any]) -> str:
    """Return the digest of a row, and of all rows before it, whose digest is `chain`."""
    return chained(json.dumps(row, sort_keys=True), chain)[2]


def append_rows(
    folder: Path, head: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Write rows behind those that `head` tells of, in place of what a killed process left there;
    returns the head that tells of them too.
    """
    lines, chain = [], head["chain"]
    for row in rows:
        start, end, chain = chained(json.dumps(row, sort_keys=True), chain)
        lines.append(f"{start}{end}\n".encode())
    written = b"".join(lines)
    follow = getattr(os, "O_NOFOLLOW", 0)
    (folder / FILE).parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(folder / FILE, os.O_RDWR | os.O_CREAT | follow, 0o644), "r+b") as file:
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


def read_rows(
    folder: Path, head: Mapping[str, Any], *, more: bool, run: str = ""
) -> list[dict[str, Any]]:
    """Read the rows that `head` counts, of the run of this identity; `more` may stand behind them
    where a process that was to add some was killed.

    Raises:
        StoreError: if they are not what was written.
        InputError: if they may not be read.
    """
    older = not os.path.lexists(folder / FILE) and os.path.lexists(folder / FILE_BEFORE)
    name = FILE_BEFORE if older else FILE
    file, chain = folder / name, run
    rows: list[dict[str, Any]] = []
    size, number, longer = 0, 0, False
    with reading(file), suppress(FileNotFoundError), bundle.opened(folder, name) as opened:
        while size < head["bytes"] and (line := opened.readline(bundle.LINE)):
            size, number = size + len(line), number + 1
            try:
                body = "{" + line.decode("ascii").removesuffix("\n").partition(", ")[2]
                start, end, chain = chained(body, chain)
                rows.append(bundle.parsed(body))
                sound = f"{start}{end}\n".encode() == line and shaped_row(rows[-1])
            except ValueError:
                sound = False
            if not sound:
                raise _damaged(file, f"line {number} is not what was written")
        longer = bool(opened.read(1))
    if (len(rows), size, chain) != (head["count"], head["bytes"], head["chain"]):
        raise _damaged(file, f"it has {len(rows)} of {head['count']} lines")
    if longer and not more:
        raise _damaged(file, "there is more in it than was written")
    return rows


def chained(body: str, chain: str) -> tuple[str, str, str]:
    """Return what the line of a JSON object starts with, its rest, and its digest, which takes in
    that of the line before it.
    """
    chain = hashlib.sha256(f"{chain}{body}".encode()).hexdigest()[:_DIGITS]
    return f'{{"chain": "{chain}", ', body.removeprefix("{"), chain


def _damaged(file: Path, why: str) -> StoreError:
    return StoreError(f"{file}: damaged, for {why}. {MEASURE_AGAIN}")
