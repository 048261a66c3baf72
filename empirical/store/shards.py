"""Shards of captured arrays: one file with the chunks of up to 64 documents in sequence, and a
table of their offsets. One document is then one byte range with a separate checksum.

Source: Zarr v3, codec `sharding_indexed` with its table at the end; a test compares these bytes
with zarr's. Imports numpy, and google_crc32c for checksums.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import google_crc32c
import numpy as np

from empirical.errors import StoreError
from empirical.store import bundle
from empirical.store.manifest import damaged

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
