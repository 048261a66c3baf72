"""Journal of a run: every document that is complete but not yet in the shards, a file of its own
within the store.

A shard can only be written whole, so a document goes first to `journal/INDEX-CHAIN.zip`, by one
step: its row and its chunks, encoded as the shards will hold them, until `empirical.store.settling`
moves what stands there. CHAIN is the digest that its row will have in `documents.jsonl`, of itself,
of all rows before it and of the run's identity: so a file of another run, of another place or of
an older state is found. A document's file stands by itself, so processes may write those of
different documents at one time. Imports the rows.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from empirical.errors import InputError, StoreError
from empirical.store import bundle
from empirical.store.disk import DRAFT, flush_folder, reading, replace
from empirical.store.manifest_shape import DOCUMENTS, shaped_row
from empirical.store.rows import link

FOLDER: Final = "capture/document/journal"
"""Within the array of the documents' names: anywhere else zarr warns of what is not its own."""
ROW: Final = "row.json"
"""The entry that holds a document's row; the others are chunks, by the names of their arrays."""

_DIGEST: Final = 64
"""Bytes of the archive's comment, which comes last: sha256 of what stands before it."""

NAME: Final = re.compile(r"(0|[1-9][0-9]{0,17})-([0-9a-f]{16})\.zip")
"""A document's place in the run, and the digest of its row."""

OF_DAMAGE: Final = (
    *(KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError),
    *(ValueError, EOFError, zlib.error),
)
"""What zipfile raises of a file that is not what was written."""

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
        take_in(total, name, digest)
    return total.hexdigest()


def take_in(total: Any, name: str, digest: bytes) -> None:
    """Take the digest of a chunk into that of a document."""
    total.update(name.encode())
    total.update(digest)


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


def enter(folder: Path, index: int, chain: str, entry: Entry) -> None:
    """Write one document's file, or move it there, in one step and flushed. It may replace an equal
    one. chain: the digest of the row before it.
    """
    place = folder / FOLDER / name_of(index, link(chain, entry.row))
    if not place.parent.exists():
        place.parent.mkdir(parents=True)
        flush_folder(place.parent.parent)
    try:
        if isinstance(entry.data, Path):
            if not entry.data.exists():
                raise InputError(
                    f"{entry.data}: a worker wrote a document there, and it is gone. Run the same"
                    " command again: it is measured anew."
                )
            os.replace(entry.data, place)
            flush_folder(place.parent)
        else:
            replace(place, entry.data)
    except BaseException:  # whoever is told that it failed must not find it counted
        place.unlink(missing_ok=True)
        raise


def name_of(index: int, chain: str) -> str:
    """Return the name of a document's file, by its place in the run and the digest of its row."""
    return f"{index}-{chain}.zip"


def _listed(folder: Path) -> tuple[dict[int, str], list[str]]:
    """Return the names of the documents' files by their places, and what else stands there but
    files that were not written whole.

    Raises:
        StoreError: if what stands in the journal's place is no folder.
    """
    found: dict[int, str] = {}
    others: list[str] = []
    place = folder / FOLDER
    if not os.path.lexists(place):
        return found, others
    if place.is_symlink() or not place.is_dir():
        raise damaged(place, "it is no folder")
    with reading(place):
        names = sorted(os.listdir(place))
    for name in names:
        match = NAME.fullmatch(name)
        if match and int(match[1]) < DOCUMENTS and int(match[1]) not in found:
            found[int(match[1])] = name
        elif not name.endswith(DRAFT) and not _left_by_a_system(place / name):
            others.append(name)
    return found, others


def _left_by_a_system(file: Path) -> bool:
    """Whether a file is hidden, such as systems leave in a folder; nothing reads it."""
    return file.name.startswith(".") and stat.S_ISREG(file.lstat().st_mode)


def file_of(folder: Path, index: int) -> Path:
    """Return a document's file, which stands there or is missing."""
    return folder / FOLDER / _listed(folder)[0].get(index, f"{index}-….zip")


def damaged_entries(folder: Path, head: Mapping[str, Any]) -> tuple[list[str], list[int]]:
    """Return the names of the files of the documents behind those that `head` counts, up to the
    last that is there, "" of one that is missing; and the places of those that are damaged or
    missing.
    """
    there, first, chain = _listed(folder)[0], head["count"], head["chain"]
    names = [there.get(index, "") for index in range(first, max([first - 1, *there]) + 1)]
    found = []
    for index, name in enumerate(names, start=first):
        try:
            row_of(folder, name or f"{index}-….zip", chain)
        except StoreError:
            found.append(index)
        chain = chain_of(name)
    return names, found


def row_of(folder: Path, name: str, before: str | None) -> dict[str, Any]:
    """Return the row of a document's file, whose every byte is compared with its digest, and its
    name with the digest of the row `before` it, unless that is not known (None).

    Raises:
        StoreError: if it is damaged, gone, or of another run or place.
        InputError: if it may not be read.
    """
    place = f"{FOLDER}/{name}"
    file = folder / place
    try:
        with reading(file), bundle.opened(folder, place) as opened:
            if not _is_whole(opened):
                raise damaged(file, "it is not what was written")
            with zipfile.ZipFile(opened) as archive:
                row = bundle.parsed(stored(archive, ROW, limit=bundle.LINE))
    except FileNotFoundError as error:
        raise damaged(file, "it is missing") from error
    except OF_DAMAGE as error:
        if isinstance(error, InputError | StoreError):
            raise
        raise damaged(file, "it is no document of a run") from error
    if not shaped_row(row):
        raise damaged(file, "it is no document of a run")
    if before is not None and link(before, row) != chain_of(name):
        raise damaged(file, "it is of another run, or of another place in this one")
    return row


def stored(archive: zipfile.ZipFile, name: str, *, limit: int = bundle.MOST) -> bytes:
    """Return a part of a document's file, which holds each as it is, not packed.

    Raises:
        KeyError: if there is no such part.
        ValueError: if it is packed, or larger than `limit`.
    """
    told = archive.getinfo(name)
    if told.compress_type != zipfile.ZIP_STORED or told.file_size > limit:
        raise ValueError(f"{name} is packed, or too large")
    return archive.read(told)


def _is_whole(file: BinaryIO) -> bool:
    """Whether a file ends in the digest of what stands before it; it is left at its beginning."""
    left = file.seek(0, os.SEEK_END) - _DIGEST
    file.seek(0)
    total = hashlib.sha256()
    while left > 0 and (piece := file.read(min(left, _PIECE))):
        total.update(piece)
        left -= len(piece)
    same = left == 0 and file.read() == total.hexdigest().encode()
    file.seek(0)
    return same


_PIECE: Final = 1 << 20


def chain_of(name: str) -> str | None:
    """Return the digest that a name has."""
    match = NAME.fullmatch(name)
    return match[2] if match else None


def journal_rows(folder: Path, head: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the documents behind those that `head` counts, which stand in the journal.

    Raises:
        StoreError: if one is damaged, of another run, or missing while a later one is there, or
            something else stands there.
        InputError: if one may not be read.
    """
    there, others = _listed(folder)
    if others:
        stranger = folder / FOLDER / others[0]
        raise StoreError(f"{stranger}: does not belong to the run. Remove it.")
    first, chain = head["count"], head["chain"]
    rows = []
    for index in range(first, max([first - 1, *there]) + 1):
        rows.append(row_of(folder, there.get(index, f"{index}-….zip"), chain))
        chain = link(chain, rows[-1])
    return rows


def damaged(file: Path, why: str) -> StoreError:
    """Return what tells that a document's file is damaged."""
    return StoreError(f"{file}: damaged, for {why}. {REMEDY.format(folder=file.parent)}")


def clear(folder: Path, first: int) -> None:
    """Remove the files of documents before `first`, which are settled, and what was not written
    whole; where nothing is left, the folder too.
    """
    place = folder / FOLDER
    there, _ = _listed(folder)
    settled = [place / name for index, name in there.items() if index < first]
    for file in [*settled, *place.glob(f".*{DRAFT}")]:
        file.unlink()
    with suppress(OSError):  # it is not there, or not empty
        place.rmdir()
