"""Settling: documents that stand in a run's journal are moved into its shards.

Every shard that they belong to is written anew beside its place, as a draft; then all take their
places. Until then `Unsettled` shows zarr what will stand there. Imports the journal, the manifest,
and zarr for its reads.
"""

from __future__ import annotations

import errno
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore

from empirical.errors import StoreError
from empirical.store.disk import flush_all, flush_folder, writing
from empirical.store.journal import (
    chunk_digest,
    clear,
    damaged,
    document_digest,
    file_of,
    journal_rows,
)
from empirical.store.manifest import (
    MEASURE_AGAIN,
    UNFINISHED,
    by_document,
    read_root,
    save,
)
from empirical.store.rows import append_rows
from empirical.store.shards import DOCUMENTS, chunks_in, parts, shard_key, shards_of, within

OF_DAMAGE = (
    *(KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError),
    *(ValueError, EOFError, zlib.error),
)
"""What zipfile raises of a file that is not what was written."""


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
    rows = journal_rows(folder, head["count"]) if known is None else known
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
        except FileNotFoundError as error:
            raise StoreError(f"{self.folder / key}: damaged ({error}). {MEASURE_AGAIN}") from error
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
        reason: Exception
        try:
            return self._archive(index).read(name)
        except OSError as error:
            if not isinstance(error, FileNotFoundError) and error.errno != errno.EINVAL:
                raise  # the disk's own, not a place beyond the file
            reason = error
        except OF_DAMAGE as error:
            reason = error
        raise damaged(file_of(self.folder, index), f"it cannot be read ({reason})") from reason

    def _archive(self, index: int) -> zipfile.ZipFile:
        if index not in self._archives:
            self._archives[index] = self._opened.enter_context(
                zipfile.ZipFile(file_of(self.folder, index))
            )
        return self._archives[index]


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
