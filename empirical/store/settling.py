"""Settling: documents that stand in a run's journal are moved into its shards.

Every shard that they belong to is written anew beside its place, as a draft; then all take their
places. Until then `RunFiles` shows zarr what will stand there. Imports the journal, the manifest,
and zarr for its reads.
"""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import LocalStore

from empirical.errors import StoreError
from empirical.store import bundle
from empirical.store.disk import flush_all, flush_folder, writing
from empirical.store.journal import (
    FOLDER,
    OF_DAMAGE,
    chunk_digest,
    clear,
    damaged,
    document_digest,
    file_of,
    journal_rows,
    stored,
)
from empirical.store.manifest import (
    MEASURE_AGAIN,
    ROOT,
    UNFINISHED,
    by_document,
    node_of,
    read_root,
    save,
)
from empirical.store.rows import FILE, append_rows
from empirical.store.shards import DOCUMENTS, chunks_in, parts, shard_key, shards_of, within


@dataclass(frozen=True, slots=True)
class Draft:
    """A shard that was written beside its place, flushed."""

    file: Path
    place: Path
    name: str
    """Of the array."""
    digests: dict[int, bytes]
    """Of the chunks that came from the journal, by their documents' places in the run."""


Drafts = list[Draft]
Drafting = Callable[[Path, range], Drafts]
"""Writes every shard that some documents of the journal of a run belong to, as a draft."""


def drafted(folder: Path, documents: range, share: slice = slice(None), mark: str = "") -> Drafts:
    """Write shards as drafts beside their places. One chunk is held at a time.

    Args:
        folder: the run.
        documents: those of its journal that are to be settled.
        share: which of the shards that they belong to.
        mark: what makes the drafts' names unlike those of another process that writes the same.

    Raises:
        StoreError: if a shard or a file of the journal is damaged.
    """
    ready: Drafts = []
    try:
        with Chunks(folder, documents) as chunks:
            for key, name, shard in list(chunks.shards())[share]:
                place = folder / key
                draft = place.with_name(f"{place.name}{mark}{UNFINISHED}")
                ready.append(Draft(draft, place, name, {}))
                draft.parent.mkdir(parents=True, exist_ok=True)
                with open(draft, "wb") as file:
                    file.writelines(parts(chunks.noted(key, name, shard, ready[-1].digests)))
        flush_all([draft.file for draft in ready], folder)
    except BaseException:
        discard(ready)
        raise
    return ready


def discard(drafts: Drafts) -> None:
    """Take drafts away."""
    for draft in drafts:
        with suppress(OSError):
            draft.file.unlink()


def settle(
    folder: Path,
    drafting: Drafting = drafted,
    *,
    known: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Move the documents of the journal into the shards and `documents.jsonl`.

    What goes into the shards is compared with the rows' digests as it is copied. The root's
    metadata is replaced last: a process killed before leaves everything to be settled again, to
    the same bytes.

    Args:
        folder: the run.
        drafting: writes the shards; here, one after the other, unless told.
        known: the rows of the journal, of who wrote it; else each of its files is compared with its
            own digest first.

    Raises:
        StoreError: if a shard or a file of the journal is damaged.
        InputError: if the disk is full.
    """
    folder = folder.absolute()  # another process may write the shards
    attributes = read_root(folder)
    manifest = attributes["manifest"]
    head = manifest["rows"]
    rows = journal_rows(folder, head) if known is None else known
    with writing(folder):
        if rows:
            documents = range(head["count"], head["count"] + len(rows))
            ready = sorted(drafting(folder, documents), key=lambda draft: draft.name)
            for index, row in zip(documents, rows, strict=True):
                chunks = ((one.name, one.digests[index]) for one in ready if index in one.digests)
                if document_digest(chunks) != row["digest"]:
                    discard(ready)
                    raise damaged(file_of(folder, index), "it is not what was written")
            for draft in ready:
                os.replace(draft.file, draft.place)
            for folder_of_shards in {draft.place.parent for draft in ready}:
                for left in folder_of_shards.glob(f"*{UNFINISHED}"):  # by one that was given up
                    left.unlink(missing_ok=True)
            flush_all([draft.place for draft in ready], folder)
            manifest["rows"] = append_rows(folder, head, rows)
            flush_folder((folder / FILE).parent)
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
                yield from chunks_in(self.folder, key, settled)
        except FileNotFoundError as error:
            raise StoreError(
                f"{self.folder / key}: damaged, for it is missing. {MEASURE_AGAIN}"
            ) from error
        for index in within(self.documents, shard):
            yield self._chunk(index, name)

    def noted(self, key: str, name: str, shard: int, digests: dict[int, bytes]) -> Iterator[bytes]:
        """Yield the chunks of one shard, and note the digests of those of the journal."""
        for index, chunk in enumerate(self.of(key, name, shard), shard * DOCUMENTS):
            if index in self.documents:
                digests[index] = chunk_digest(chunk)
            yield chunk

    def _chunk(self, index: int, name: str) -> bytes:
        """Return a chunk of a document of the journal."""
        try:
            return stored(self._archive(index), name)
        except FileNotFoundError as error:
            raise damaged(file_of(self.folder, index), "it is missing") from error
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise  # the disk's own, not a place before the file
            raise damaged(file_of(self.folder, index), "it is cut") from error
        except OF_DAMAGE as error:
            if isinstance(error, StoreError):
                raise
            why = f"it cannot be read ({error})"
            raise damaged(file_of(self.folder, index), why) from error

    def _archive(self, index: int) -> zipfile.ZipFile:
        if index not in self._archives:
            name = f"{FOLDER}/{file_of(self.folder, index).name}"
            file = self._opened.enter_context(bundle.opened(self.folder, name))
            self._archives[index] = self._opened.enter_context(zipfile.ZipFile(file))
        return self._archives[index]


class RunFiles(LocalStore):
    """The files of a run as zarr may read them: through the bundle's door, metadata of known shape
    alone, every chunk there, and shards as they will stand once the journal is settled.
    """

    def __init__(self, root: Path, chunks: Chunks | None = None) -> None:
        super().__init__(root, read_only=True)
        self._chunks = chunks
        self._shards = (
            {key: (name, shard) for key, name, shard in chunks.shards()} if chunks else {}
        )
        self._last: dict[str, bytes] = {}

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield what stands in a folder, but hidden files, such as systems leave."""
        async for name in super().list_dir(prefix):
            if not name.startswith("."):
                yield name

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return bytes of a file, or of the shard that will stand there."""
        if key in self._shards:
            return self.get_sync(key, prototype=prototype, byte_range=byte_range)
        return await asyncio.to_thread(
            self.get_sync, key, prototype=prototype, byte_range=byte_range
        )

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the same, in this thread."""
        if self._chunks is not None and key in self._shards:
            if key not in self._last:  # zarr asks for one shard's table, then for chunk after chunk
                made = self._chunks.of(key, *self._shards[key])
                self._last = {key: b"".join(parts(made))}
            data = _part(io.BytesIO(self._last[key]), byte_range)
        elif key.rpartition("/")[2] == ROOT:
            try:
                data = json.dumps(node_of(self.root, key)).encode()
            except FileNotFoundError:
                return None
        else:
            try:
                with bundle.opened(self.root, key) as file:
                    data = _part(file, byte_range)
            except FileNotFoundError as error:  # zarr would read fill in its place
                raise StoreError(
                    f"{self.root / key}: damaged, for it is missing. {MEASURE_AGAIN}"
                ) from error
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)


def _part(file: BinaryIO, wanted: ByteRequest | None) -> bytes:
    """Read what zarr asks for of a file."""
    if isinstance(wanted, RangeByteRequest):
        file.seek(wanted.start)
        return file.read(wanted.end - wanted.start)
    if isinstance(wanted, OffsetByteRequest):
        file.seek(wanted.offset)
    elif isinstance(wanted, SuffixByteRequest):
        file.seek(max(0, file.seek(0, os.SEEK_END) - wanted.suffix))
    return file.read()


@contextmanager
def as_settled(folder: Path, waiting: range) -> Iterator[RunFiles]:
    """Give what zarr is to read of a run of which these documents stand in the journal."""
    if not waiting:
        yield RunFiles(folder)
        return
    with Chunks(folder, waiting) as chunks:
        yield RunFiles(folder, chunks)
