"""Journal of a run: every document that is complete but not yet in the shards, a file of its own
within the store.

A shard can only be written whole, so a document goes first to `journal/INDEX.zip`, by one step: its
row and its chunks, encoded as the shards will hold them, until `empirical.store.settling` moves
what stands there. A document's file stands by itself, so processes may write those of different
documents at one time. Imports the disk.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from empirical.errors import InputError, StoreError
from empirical.store.disk import DRAFT, flush_folder, reading, replace

FOLDER: Final = "journal"
ROW: Final = "row.json"
"""The entry that holds a document's row; the others are chunks, by the names of their arrays."""

_DIGEST: Final = 64
"""Bytes of the archive's comment, which comes last: sha256 of what stands before it."""

REMEDY: Final = (
    "Run `geostat doctor --repair` on the run, or remove {folder} and run the same capture again:"
    " it measures what stood there anew."
)


def document_digest(chunks: Iterable[tuple[str, bytes]]) -> str:
    """Digest of a document: of the digests of its chunks, encoded, by the names of their arrays in
    order.
    """
    total = hashlib.sha256()
    for name, digest in chunks:
        total.update(name.encode())
        total.update(digest)
    return total.hexdigest()


def take_in(total: Any, name: str, chunk: bytes) -> None:
    """Take a chunk into the digest of a document."""
    total.update(name.encode())
    total.update(chunk_digest(chunk))


def chunk_digest(chunk: bytes) -> bytes:
    """Digest of a chunk, encoded."""
    return hashlib.sha256(chunk).digest()


@dataclass(frozen=True, slots=True)
class Entry:
    """One document as the journal holds it: its row, and the bytes of its file, or a file with
    them that is to be moved there.
    """

    row: Mapping[str, Any]
    data: bytes | Path


def entry_of(row: Mapping[str, Any], chunks: Mapping[str, bytes]) -> Entry:
    """Pack a document, whose digest its row gets."""
    digests = sorted((name, chunk_digest(chunk)) for name, chunk in chunks.items())
    row = dict(row) | {"digest": document_digest(digests)}
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr(zipfile.ZipInfo(ROW), json.dumps(row, sort_keys=True))
        for name in sorted(chunks):
            archive.writestr(zipfile.ZipInfo(name), chunks[name])
        archive.comment = bytes(_DIGEST)
    # in place: copies of a document that is measured at every N weigh tens of megabytes
    with written.getbuffer() as data:
        data[-_DIGEST:] = hashlib.sha256(data[:-_DIGEST]).hexdigest().encode()
    return Entry(row, written.getvalue())


def enter(folder: Path, index: int, entry: Entry) -> None:
    """Write one document's file, or move it there, in one step and flushed. It may replace an equal
    one.
    """
    if not (folder / FOLDER).exists():
        (folder / FOLDER).mkdir()
        flush_folder(folder)
    try:
        if isinstance(entry.data, Path):
            if not entry.data.exists():
                raise InputError(
                    f"{entry.data}: a worker wrote a document there, and it is gone. Run the same"
                    " command again: it is measured anew."
                )
            os.replace(entry.data, file_of(folder, index))
            flush_folder(folder / FOLDER)
        else:
            replace(file_of(folder, index), entry.data)
    except BaseException:  # whoever is told that it failed must not find it counted
        file_of(folder, index).unlink(missing_ok=True)
        raise


def file_of(folder: Path, index: int) -> Path:
    """Where a document's file stands, or will."""
    return folder / FOLDER / f"{index}.zip"


def entries(folder: Path, first: int) -> tuple[list[Path], list[Path]]:
    """Return the files of the documents from `first` on, as far as there is one for each, and every
    other one.
    """
    there = _there(folder)
    found: list[Path] = []
    while first + len(found) in there:
        found.append(there.pop(first + len(found)))
    return found, [there[index] for index in sorted(there)]


def _there(folder: Path) -> dict[int, Path]:
    """Return the files of documents by their places."""
    files = (folder / FOLDER).glob("[0-9]*.zip")
    return {int(file.stem): file for file in files if file.stem.isdecimal()}


def damaged_entries(folder: Path, first: int) -> tuple[int, list[int]]:
    """Return how many documents from `first` on the journal has, up to the last that is there, and
    the places of those that are damaged or missing.
    """
    stop = max([first - 1, *_there(folder)]) + 1
    found = []
    for index in range(first, stop):
        try:
            row_of(file_of(folder, index))
        except StoreError:
            found.append(index)
    return stop - first, found


def row_of(file: Path) -> dict[str, Any]:
    """Return the row of a document's file, whose every byte is compared with its digest.

    Raises:
        StoreError: if it is damaged, or gone.
        InputError: if it may not be read.
    """
    try:
        with reading(file):
            data = file.read_bytes()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise damaged(file, "it is missing") from error
    if hashlib.sha256(data[:-_DIGEST]).hexdigest().encode() != data[-_DIGEST:]:
        raise damaged(file, "it is not what was written")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return json.loads(archive.read(ROW))


def journal_rows(folder: Path, first: int) -> list[dict[str, Any]]:
    """Return the rows of the documents from `first` on that stand in the journal.

    Raises:
        StoreError: if one is damaged, or missing while a later one is there.
        InputError: if one may not be read.
    """
    files, others = entries(folder, first)
    gone = file_of(folder, first + len(files))
    if any(int(file.stem) > int(gone.stem) for file in others) and not gone.exists():
        raise damaged(gone, "it is missing, and a later one is there")
    return [row_of(file) for file in files]


def damaged(file: Path, why: str) -> StoreError:
    """Return what tells that a document's file is damaged."""
    return StoreError(f"{file}: damaged, for {why}. {REMEDY.format(folder=file.parent)}")


def clear(folder: Path, first: int) -> None:
    """Remove the files of documents before `first`, which are settled, and what was not written
    whole; where nothing is left, the folder too.
    """
    for file in [*entries(folder, first)[1], *(folder / FOLDER).glob(f".*{DRAFT}")]:
        file.unlink()
    with suppress(OSError):  # it is not there, or not empty
        (folder / FOLDER).rmdir()
