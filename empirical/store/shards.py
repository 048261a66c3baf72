"""Shards of captured arrays: one file holds the chunks of up to 64 documents, one behind the other,
and a table of where each begins, so that one document is one range of bytes with a checksum of its
own.

Source: Zarr v3, codec `sharding_indexed` with its table at the end; a test holds these bytes to
those that zarr writes. Imports numpy, and google_crc32c for checksums.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import google_crc32c
import numpy as np

from empirical.errors import StoreError
from empirical.store import bundle
from empirical.store.manifest import MEASURE_AGAIN

DOCUMENTS: Final = 64
"""Documents a shard: a file for each array then costs a document 1/64 of a file, and a shard of
1,024 heads at 1,024 positions is 256 MB.
"""

CHECKSUM_BYTES: Final = 4
"""CRC-32C, little-endian, at the end of every chunk and of the table."""

_ENTRY: Final = np.dtype(("<i8", 2))
"""Where a chunk begins and how many bytes it has."""

_ABSENT: Final = -1
"""Stands twice in the entry of a document without a chunk; zarr calls these bits 2⁶⁴ - 1."""

_HEADER_BYTES: Final = 16
_WHOLE: Final = slice(12, 16)
"""A chunk is one frame of Blosc and a checksum. Its header has the bytes of the frame here,
little-endian (c-blosc, README_CHUNK_FORMAT).
"""

_TABLE_BYTES: Final = DOCUMENTS * _ENTRY.itemsize + CHECKSUM_BYTES


def shard_key(name: str, dims: int, shard: int) -> str:
    """Name of a shard's file below the store; `dims` counts the document axis.

    >>> shard_key("capture/recall", 4, 2)
    'capture/recall/c/2/0/0/0'
    """
    return "/".join([name, "c", str(shard), *["0"] * (dims - 1)])


def shards_of(documents: range) -> range:
    """Return the shards in which documents lie.

    >>> list(shards_of(range(60, 130)))
    [0, 1, 2]
    """
    return range(documents.start // DOCUMENTS, -(-documents.stop // DOCUMENTS))


def within(documents: range, shard: int) -> range:
    """Return those of some documents that lie in a shard.

    >>> within(range(60, 130), 1)
    range(64, 128)
    """
    first = shard * DOCUMENTS
    return range(max(documents.start, first), min(documents.stop, first + DOCUMENTS))


def ends_in_checksum(data: bytes) -> bool:
    """Whether bytes end in the CRC-32C of what stands before it."""
    own = google_crc32c.value(data[:-CHECKSUM_BYTES])
    return len(data) > CHECKSUM_BYTES and own.to_bytes(CHECKSUM_BYTES, "little") == data[-4:]


def parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a shard piece by piece: the chunks as they come, then the table."""
    table = np.full(DOCUMENTS, _ABSENT, dtype=_ENTRY)
    start = 0
    for slot, chunk in enumerate(chunks):
        table[slot] = start, len(chunk)
        start += len(chunk)
        yield chunk
    data = table.tobytes()
    yield data + google_crc32c.value(data).to_bytes(CHECKSUM_BYTES, "little")


def lengths(folder: Path, key: str) -> list[int]:
    """Return the lengths of the chunks that a shard holds, from its table.

    Raises:
        StoreError: if the table is damaged, or tells of other bytes than the file has.
        OSError: if the file cannot be read.
    """
    with bundle.opened(folder, key) as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - _TABLE_BYTES))
        data = opened.read()
    if len(data) < _TABLE_BYTES or not ends_in_checksum(data):
        raise _damaged(folder / key, "the table at its end is not what was written")
    table = np.frombuffer(data[:-CHECKSUM_BYTES], dtype=_ENTRY.base).reshape(DOCUMENTS, 2)
    held = DOCUMENTS - int((table == _ABSENT).all(axis=1).sum())
    stops = np.cumsum(table[:held, 1])
    if (table[:held] < 0).any() or (table[:held].sum(axis=1) != stops).any():
        raise _damaged(folder / key, "the table at its end is not of chunks in order")
    if size != _TABLE_BYTES + (stops[-1] if held else 0):
        raise _damaged(folder / key, f"it has {size} bytes, and its table tells of another number")
    return [int(length) for length in table[:held, 1]]


def _first(folder: Path, key: str, count: int) -> list[int]:
    """Return the lengths of the first `count` chunks of a shard; a StoreError if it holds fewer."""
    held = lengths(folder, key)
    if len(held) < count:
        raise _damaged(folder / key, f"it holds {len(held)} documents, expected {count}")
    return held[:count]


def chunks_in(folder: Path, key: str, count: int) -> Iterator[bytes]:
    """Yield the first `count` chunks of a shard, one at a time.

    Raises:
        StoreError: if it holds fewer, or its table is damaged.
        OSError: if the file cannot be read.
    """
    with bundle.opened(folder, key) as opened:
        for length in _first(folder, key, count):
            yield opened.read(length)


def sums_in(folder: Path, key: str, count: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the digest of each of the first `count` chunks of a shard, and whether it ends in its
    checksum; of a chunk a piece is held at a time. Raises as `chunks_in` does.
    """
    with bundle.opened(folder, key) as opened:
        for length in _first(folder, key, count):
            digest, own = hashlib.sha256(), google_crc32c.Checksum()
            left = length - CHECKSUM_BYTES
            while left > 0 and (piece := opened.read(min(left, _PIECE))):
                digest.update(piece)
                own.update(piece)
                left -= len(piece)
            end = opened.read(min(length, CHECKSUM_BYTES))
            digest.update(end)
            yield digest.digest(), length > CHECKSUM_BYTES and own.digest()[::-1] == end


_PIECE: Final = 1 << 20


def sound_chunks(folder: Path, key: str, count: int) -> Iterator[bytes | None]:
    """Yield the first `count` chunks of a shard, one at a time; None in place of one that does not
    end in its checksum.

    Where the table is damaged, the header of each chunk tells where the next one begins.

    Raises:
        OSError: if the file cannot be read.
    """
    try:
        opened = bundle.opened(folder, key)
    except (StoreError, FileNotFoundError):
        yield from [None] * count
        return
    with opened:
        try:
            told = lengths(folder, key)
        except StoreError:
            told = None
        for slot in range(count):
            if told is None:
                header = opened.read(_HEADER_BYTES)
                opened.seek(-len(header), os.SEEK_CUR)
                length = int.from_bytes(header[_WHOLE], "little") + CHECKSUM_BYTES
            else:
                length = told[slot] if slot < len(told) else 0
            chunk = opened.read(length)
            yield chunk if ends_in_checksum(chunk) else None


def chunk_at(folder: Path, key: str, slot: int) -> bytes:
    """Return one chunk of a sound shard."""
    held = lengths(folder, key)
    with bundle.opened(folder, key) as opened:
        opened.seek(sum(held[:slot]))
        return opened.read(held[slot])


def _damaged(file: Path, why: str) -> StoreError:
    return StoreError(f"{file}: damaged, for {why}. {MEASURE_AGAIN}")
