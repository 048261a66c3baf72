"""Shards of captured arrays, and *settling*: the move of documents from a run's journal into them.

A shard is one file with the chunks of up to 64 documents in sequence, and a table of their offsets.
One document is then one byte range with a separate checksum. Source: Zarr v3, codec
`sharding_indexed` with its table at the end; a test compares these bytes with zarr's.

To settle, each affected shard is written again as a draft next to its place; then all drafts are
moved into place. Until then `RunFiles` presents the future shards to zarr. Imports the journal, the
manifest, numpy, google_crc32c for checksums, and zarr for its reads.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import zipfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

import google_crc32c
import numpy as np
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import LocalStore

from empirical.errors import StoreError
from empirical.store import bundle, journal
from empirical.store.disk import flush_all, flush_folder, writing
from empirical.store.manifest import (
    ROOT,
    UNFINISHED,
    by_document,
    damaged,
    node_of,
    read_root,
    save,
)

DOCUMENTS: Final = 64
"""Documents per shard. A document then costs 1/64 of a file per array, and a shard of 1,024 heads
at 1,024 positions has 256 MB.
"""

CHECKSUM_BYTES: Final = 4
"""CRC-32C, little-endian, at the end of every chunk and of the table."""

_ENTRY: Final = np.dtype(("<i8", 2))
"""Offset and number of bytes of a chunk."""

_ABSENT: Final = -1
"""Both values in the entry of a document without a chunk; zarr writes these bits as 2⁶⁴ - 1."""

_HEADER_BYTES: Final = 16
_WHOLE: Final = slice(12, 16)
"""A chunk is one Blosc frame and a checksum. Its header holds the frame's number of bytes here,
little-endian (c-blosc, README_CHUNK_FORMAT).
"""

_TABLE_BYTES: Final = DOCUMENTS * _ENTRY.itemsize + CHECKSUM_BYTES


def shard_key(name: str, dims: int, shard: int) -> str:
    """Return the name of a shard's file below the store; `dims` includes the document axis.

    >>> shard_key("capture/recall", 4, 2)
    'capture/recall/c/2/0/0/0'
    """
    return "/".join([name, "c", str(shard), *["0"] * (dims - 1)])


def shards_of(documents: range) -> range:
    """Return the shards that contain these documents.

    >>> list(shards_of(range(60, 130)))
    [0, 1, 2]
    """
    return range(documents.start // DOCUMENTS, -(-documents.stop // DOCUMENTS))


def within(documents: range, shard: int) -> range:
    """Return the documents that lie in a shard.

    >>> within(range(60, 130), 1)
    range(64, 128)
    """
    first = shard * DOCUMENTS
    return range(max(documents.start, first), min(documents.stop, first + DOCUMENTS))


def ends_in_checksum(data: bytes) -> bool:
    """Return whether bytes end in the CRC-32C of the bytes before it."""
    checksum = google_crc32c.value(data[:-CHECKSUM_BYTES]).to_bytes(CHECKSUM_BYTES, "little")
    return len(data) > CHECKSUM_BYTES and data.endswith(checksum)


def parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a shard in pieces: the chunks, then the table."""
    table = np.full(DOCUMENTS, _ABSENT, dtype=_ENTRY)
    start = 0
    for slot, chunk in enumerate(chunks):
        table[slot] = start, len(chunk)
        start += len(chunk)
        yield chunk
    data = table.tobytes()
    yield data + google_crc32c.value(data).to_bytes(CHECKSUM_BYTES, "little")


def lengths(folder: Path, key: str) -> list[int]:
    """Return the lengths of the chunks in a shard; a StoreError if its table is damaged."""
    with bundle.opened(folder, key) as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - _TABLE_BYTES))
        data = opened.read()
    if len(data) < _TABLE_BYTES or not ends_in_checksum(data):
        raise damaged(folder / key, "the table at its end is not what was written")
    table = np.frombuffer(data[:-CHECKSUM_BYTES], dtype=_ENTRY.base).reshape(DOCUMENTS, 2)
    held = DOCUMENTS - int((table == _ABSENT).all(axis=1).sum())
    stops = np.cumsum(table[:held, 1])
    if (table[:held] < 0).any() or (table[:held].sum(axis=1) != stops).any():
        raise damaged(folder / key, "the table at its end is not of chunks in order")
    if size != _TABLE_BYTES + (stops[-1] if held else 0):
        raise damaged(folder / key, f"it has {size} bytes, which contradicts its table")
    return [int(length) for length in table[:held, 1]]


def chunks_in(folder: Path, key: str, count: int) -> Iterator[bytes]:
    """Yield the first `count` chunks of a shard, one at a time; a StoreError if it has fewer."""
    held = lengths(folder, key)
    if len(held) < count:
        raise damaged(folder / key, f"it holds {len(held)} documents, expected {count}")
    with bundle.opened(folder, key) as opened:
        yield from map(opened.read, held[:count])


def found_lengths(folder: Path, key: str, count: int) -> list[int]:
    """Return the lengths of the first `count` chunks of a shard whose table may be damaged: the
    header of each chunk then gives the start of the next one. 0 for a missing chunk.
    """
    found: list[int] = []
    try:
        found = lengths(folder, key)[:count]
    except FileNotFoundError:
        pass
    except StoreError:
        with suppress(StoreError), bundle.opened(folder, key) as opened:
            while len(found) < count:
                opened.seek(sum(found))
                frame = int.from_bytes(opened.read(_HEADER_BYTES)[_WHOLE], "little")
                found.append(frame + CHECKSUM_BYTES)
    return found + [0] * (count - len(found))


def sums_in(folder: Path, key: str, held: Iterable[int]) -> Iterator[tuple[bytes, bool]]:
    """Yield digest and soundness of each chunk (lengths `held`) of a shard, read in pieces."""
    with bundle.opened(folder, key) as opened:
        for length in held:
            digest, checksum = hashlib.sha256(), google_crc32c.Checksum()
            for piece in bundle.pieces(opened, length - CHECKSUM_BYTES):
                digest.update(piece)
                checksum.update(piece)
            end = opened.read(min(length, CHECKSUM_BYTES))
            digest.update(end)
            yield digest.digest(), length > CHECKSUM_BYTES and checksum.digest()[::-1] == end


def chunk_at(folder: Path, key: str, held: Sequence[int], slot: int) -> bytes:
    """Return one chunk of a shard that holds chunks of the lengths `held`."""
    with bundle.opened(folder, key) as opened:
        opened.seek(sum(held[:slot]))
        return opened.read(held[slot])


@dataclass(frozen=True, slots=True)
class Draft:
    """A shard written next to its place, flushed."""

    file: Path
    place: Path
    name: str
    """Name of the array."""
    digests: dict[int, bytes]
    """Digests of the chunks from the journal, by document index."""


Drafts = list[Draft]
Drafting = Callable[[Path, range], Drafts]
"""Function that writes as drafts the shards for some documents of a run's journal."""


def drafted(folder: Path, documents: range, share: slice = slice(None), mark: str = "") -> Drafts:
    """Write shards for `documents` of the journal as drafts next to their places, one chunk in
    memory at a time; a StoreError if a shard or a file of the journal is damaged.

    share: selects some of the affected shards; mark: tells drafts of several processes apart.
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
                    file.writelines(parts(chunks.of(key, name, shard, ready[-1].digests)))
        flush_all([draft.file for draft in ready], folder)
    except BaseException:
        discard(ready)
        raise
    return ready


def discard(drafts: Drafts) -> None:
    """Remove drafts."""
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

    Copied chunks are verified against the rows' digests. The root's metadata is replaced last:
    after a kill, everything is settled again, to the same bytes. `drafting` writes the shards.
    `known` holds the rows of the journal, from the process that wrote it; without it, each file is
    first verified against its digest.

    Raises:
        StoreError: a shard or a file of the journal is damaged.
        InputError: the disk is full.
    """
    folder = folder.absolute()  # another process may write the shards
    attributes = read_root(folder)
    manifest = attributes["manifest"]
    head = manifest["rows"]
    rows = journal.journal_rows(folder, head) if known is None else known
    with writing(folder):
        if rows:
            documents = range(head["count"], head["count"] + len(rows))
            ready = sorted(drafting(folder, documents), key=lambda draft: draft.name)
            for index, row in zip(documents, rows, strict=True):
                chunks = (
                    (group.name, group.digests[index]) for group in ready if index in group.digests
                )
                if journal.document_digest(chunks) != row["digest"]:
                    discard(ready)
                    raise journal.damaged_file(
                        journal.file_of(folder, index), "it is not what was written"
                    )
            for draft in ready:
                os.replace(draft.file, draft.place)
            for folder_of_shards in {draft.place.parent for draft in ready}:
                for left in folder_of_shards.glob(f"*{UNFINISHED}"):  # from an abandoned process
                    left.unlink(missing_ok=True)
            flush_all([draft.place for draft in ready], folder)
            manifest["rows"] = journal.append_rows(folder, head, rows)
            flush_folder((folder / journal.FILE).parent)
            save(folder, attributes)
        journal.clear(folder, manifest["rows"]["count"])


class Chunks(ExitStack):
    """Chunks of each shard affected by documents of the journal, settled ones first. As a context,
    it holds the files of these documents open.
    """

    def __init__(self, folder: Path, documents: range) -> None:
        super().__init__()
        self.folder = folder
        self.documents = documents
        self._layout = read_root(folder)["manifest"]["layout"]
        self._names = journal.listed(folder)[0]
        self._archives: dict[int, zipfile.ZipFile] = {}

    def shards(self) -> Iterator[tuple[str, str, int]]:
        """Yield key, array and number of each shard."""
        for name, shape in by_document(self.folder, self._layout):
            if all(shape[1:]):
                for shard in shards_of(self.documents):
                    yield shard_key(name, len(shape), shard), name, shard

    def of(
        self, key: str, name: str, shard: int, digests: dict[int, bytes] | None = None
    ) -> Iterator[bytes]:
        """Yield the chunks of one shard; `digests` receives those of the journal's chunks."""
        try:
            if settled := len(within(range(self.documents.start), shard)):
                yield from chunks_in(self.folder, key, settled)
        except FileNotFoundError as error:
            raise damaged(self.folder / key, "it is missing") from error
        for index in within(self.documents, shard):
            chunk = self._chunk(index, name)
            if digests is not None:
                digests[index] = journal.chunk_digest(chunk)
            yield chunk

    def _chunk(self, index: int, name: str) -> bytes:
        """Return a chunk of a document in the journal."""
        place = f"{journal.FOLDER}/{self._names.get(index, f'{index}-….zip')}"
        with journal.damage_named(self.folder / place, "it cannot be read ({error})"):
            if index not in self._archives:
                file = self.enter_context(bundle.opened(self.folder, place))
                self._archives[index] = self.enter_context(zipfile.ZipFile(file))
            return journal.stored(self._archives[index], name)


class RunFiles(LocalStore):
    """Files of a run as zarr may read them: through the bundle, with metadata of known shape only,
    without missing chunks, and with shards in their settled state.
    """

    def __init__(self, root: Path, chunks: Chunks | None = None) -> None:
        super().__init__(root, read_only=True)
        self._chunks = chunks
        self._shards = (
            {key: (name, shard) for key, name, shard in chunks.shards()} if chunks else {}
        )
        self._last: dict[str, bytes] = {}

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the entries of a folder, except hidden files."""
        async for name in super().list_dir(prefix):
            if not name.startswith("."):
                yield name

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return bytes of a file, or of the future shard; parts of shards are read in a thread, as
        they may be large.
        """
        read = partial(self.get_sync, key, prototype=prototype, byte_range=byte_range)
        small = byte_range is None or key in self._shards
        return read() if small else await asyncio.to_thread(read)

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the same, in this thread."""
        if self._chunks is not None and key in self._shards:
            if key not in self._last:  # zarr reads one shard's table, then its chunks in turn
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
            except FileNotFoundError as error:  # zarr would return fill values instead
                raise damaged(self.root / key, "it is missing") from error
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)


def _part(file: BinaryIO, wanted: ByteRequest | None) -> bytes:
    """Read the range of a file that zarr requests."""
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
    """Yield the files of a run for zarr, with the documents `waiting` in the journal."""
    with Chunks(folder, waiting) if waiting else nullcontext() as chunks:
        yield RunFiles(folder, chunks)
