"""Settling: moving documents from a run's journal into its shards.

Each affected shard is written again as a draft next to its place; then all drafts are moved into
place. Until then `RunFiles` presents the future shards to zarr. Imports the journal, the manifest,
and zarr for its reads.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import LocalStore

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
from empirical.store.shards import chunks_in, parts, shard_key, shards_of, within


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


class Chunks:
    """Chunks of each shard affected by documents of the journal, settled ones first."""

    def __init__(self, folder: Path, documents: range) -> None:
        self.folder = folder
        self.documents = documents
        self._layout = read_root(folder)["manifest"]["layout"]
        self._names = journal.listed(folder)[0]
        self._opened = ExitStack()
        self._archives: dict[int, zipfile.ZipFile] = {}

    def __enter__(self) -> Chunks:
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

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
                file = self._opened.enter_context(bundle.opened(self.folder, place))
                self._archives[index] = self._opened.enter_context(zipfile.ZipFile(file))
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
        """Return bytes of a file, or of the future shard."""
        read = partial(self.get_sync, key, prototype=prototype, byte_range=byte_range)
        return read() if key in self._shards else await asyncio.to_thread(read)

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
