"""Journal of a run: every document that is complete but not yet in the shards, a file of its own
within the store.

A shard can only be written whole, so a document goes first to `journal/INDEX.zip`, by one step: its
row and its chunks, encoded as the shards will hold them. `settle` moves what stands there into the
shards and `documents.jsonl`; until then `Unsettled` shows it to zarr as if that were done. A
document's file stands by itself, so processes may write those of different documents at one time.
Imports the manifest, and zarr for its reads.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore

from empirical.errors import StoreError
from empirical.store.disk import DRAFT, flush_all, flush_folder, reading, replace, writing
from empirical.store.manifest import (
    MEASURE_AGAIN,
    UNFINISHED,
    by_document,
    read_root,
    save,
)
from empirical.store.rows import append_rows
from empirical.store.shards import chunks_in, parts, shard_key, shards_of, within

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
    """Digest of a document: of its chunks, encoded, by the names of their arrays in order."""
    total = hashlib.sha256()
    for name, chunk in chunks:
        take_in(total, name, chunk)
    return total.hexdigest()


def take_in(total: Any, name: str, chunk: bytes) -> None:
    """Take a chunk into the digest of a document."""
    total.update(name.encode())
    total.update(hashlib.sha256(chunk).digest())


@dataclass(frozen=True, slots=True)
class Entry:
    """One document as the journal holds it: its row, and the bytes of its file."""

    row: Mapping[str, Any]
    data: bytes


def entry_of(row: Mapping[str, Any], chunks: Mapping[str, bytes]) -> Entry:
    """Pack a document, whose digest its row gets."""
    row = dict(row) | {"digest": document_digest(sorted(chunks.items()))}
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
    """Write one document's file, in one step and flushed. It may replace an equal one."""
    if not (folder / FOLDER).exists():
        (folder / FOLDER).mkdir()
        flush_folder(folder)
    try:
        replace(_file(folder, index), entry.data)
    except BaseException:  # whoever is told that it failed must not find it counted
        _file(folder, index).unlink(missing_ok=True)
        raise


def _file(folder: Path, index: int) -> Path:
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
            row_of(_file(folder, index))
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
        raise _damaged(file, "it is missing") from error
    if hashlib.sha256(data[:-_DIGEST]).hexdigest().encode() != data[-_DIGEST:]:
        raise _damaged(file, "it is not what was written")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return json.loads(archive.read(ROW))


def journal_rows(folder: Path, first: int) -> list[dict[str, Any]]:
    """Return the rows of the documents from `first` on that stand in the journal.

    Raises:
        StoreError: if one is damaged, or missing while a later one is there.
        InputError: if one may not be read.
    """
    files, others = entries(folder, first)
    gone = _file(folder, first + len(files))
    if any(int(file.stem) > int(gone.stem) for file in others) and not gone.exists():
        raise _damaged(gone, "it is missing, and a later one is there")
    return [row_of(file) for file in files]


def _damaged(file: Path, why: str) -> StoreError:
    return StoreError(f"{file}: damaged, for {why}. {REMEDY.format(folder=file.parent)}")


def clear(folder: Path, first: int) -> None:
    """Remove the files of documents before `first`, which are settled, and what was not written
    whole; where nothing is left, the folder too.
    """
    for file in [*entries(folder, first)[1], *(folder / FOLDER).glob(f".*{DRAFT}")]:
        file.unlink()
    with suppress(OSError):  # it is not there, or not empty
        (folder / FOLDER).rmdir()


def settle(folder: Path) -> None:
    """Move the documents of the journal into the shards and `documents.jsonl`.

    One chunk is held at a time. The root's metadata is replaced last: a process killed before
    leaves everything to be settled again, to the same bytes.

    Raises:
        StoreError: if a shard or a file of the journal is damaged.
        InputError: if the disk is full.
    """
    attributes = read_root(folder)
    manifest = attributes["manifest"]
    head = manifest["rows"]
    rows = journal_rows(folder, head["count"])
    with writing(folder):
        if rows:
            documents = range(head["count"], head["count"] + len(rows))
            with Chunks(folder, documents) as chunks:
                _put_in_place(chunks)
            manifest["rows"] = append_rows(folder, head, rows)
            flush_folder(folder)
            save(folder, attributes)
        clear(folder, manifest["rows"]["count"])


class Chunks:
    """The chunks of each shard that documents of the journal belong to, settled ones first."""

    def __init__(self, folder: Path, documents: range) -> None:
        self.folder = folder
        self.documents = documents
        self._layout = read_root(folder)["manifest"]["layout"]
        self._opened = ExitStack()
        self._archives: dict[int, zipfile.ZipFile] = {}

    def __enter__(self) -> Chunks:
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    def shards(self) -> Iterator[tuple[str, str, int]]:
        """Yield each shard: key, array and number."""
        for name, shape in by_document(self.folder, self._layout):
            if all(shape[1:]):
                for shard in shards_of(self.documents):
                    yield shard_key(name, len(shape), shard), name, shard

    def of(self, key: str, name: str, shard: int) -> Iterator[bytes]:
        """Yield the chunks of one shard."""
        try:
            if settled := len(within(range(self.documents.start), shard)):
                yield from chunks_in(self.folder / key, settled)
            for index in within(self.documents, shard):
                yield self._archive(index).read(name)
        except (FileNotFoundError, KeyError, zipfile.BadZipFile) as error:
            raise StoreError(f"{self.folder / key}: damaged ({error}). {MEASURE_AGAIN}") from error

    def _archive(self, index: int) -> zipfile.ZipFile:
        if index not in self._archives:
            self._archives[index] = self._opened.enter_context(
                zipfile.ZipFile(_file(self.folder, index))
            )
        return self._archives[index]


def _put_in_place(chunks: Chunks) -> None:
    """Write every shard beside its place, then move all."""
    ready: list[tuple[Path, Path]] = []
    for key, name, shard in chunks.shards():
        target = chunks.folder / key
        draft = target.with_name(f"{target.name}{UNFINISHED}")
        draft.parent.mkdir(parents=True, exist_ok=True)
        with open(draft, "wb") as file:
            file.writelines(parts(chunks.of(key, name, shard)))
        ready.append((draft, target))
    flush_all([draft for draft, _ in ready], chunks.folder)
    for draft, target in ready:
        os.replace(draft, target)
    flush_all([target for _, target in ready], chunks.folder)


class Unsettled(LocalStore):
    """A store on disk as zarr sees it once its journal is settled. To be read only."""

    def __init__(self, root: Path, chunks: Chunks) -> None:
        super().__init__(root, read_only=True)
        self._chunks = chunks
        self._shards = {key: (name, shard) for key, name, shard in chunks.shards()}
        self._last: dict[str, Buffer] = {}

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return bytes of a file, or of the shard that will stand there."""
        if key not in self._shards:
            return await super().get(key, prototype, byte_range)
        kind = prototype or default_buffer_prototype()
        if key not in self._last:  # zarr asks for one shard's table, then for chunk after chunk
            data = b"".join(parts(self._chunks.of(key, *self._shards[key])))
            self._last = {key: kind.buffer.from_bytes(data)}
        return await MemoryStore(dict(self._last)).get(key, kind, byte_range)


@contextmanager
def as_settled(folder: Path, waiting: range) -> Iterator[Path | Unsettled]:
    """Give what zarr is to read of a run of which these documents stand in the journal."""
    if not waiting:
        yield folder
        return
    with Chunks(folder, waiting) as chunks:
        yield Unsettled(folder, chunks)
