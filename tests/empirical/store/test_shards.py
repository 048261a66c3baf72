"""Shards: the bytes that zarr would write, whose every change is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr
from support.damage import KINDS, flipped

from empirical.errors import StoreError
from empirical.store.layout import COMPRESSORS
from empirical.store.shards import (
    DOCUMENTS,
    chunks_in,
    ends_in_checksum,
    lengths,
    parts,
    shard_key,
    shards_of,
    within,
)


@pytest.mark.parametrize("documents", [1, 3, DOCUMENTS - 1, DOCUMENTS])
@pytest.mark.parametrize("kind", ["float32", "int64", str])
def test_a_shard_is_what_zarr_writes(tmp_path: Path, documents: int, kind: str | type) -> None:
    rng = np.random.default_rng(documents)
    values = (
        np.array(["x" * index for index in range(documents)], dtype=object)
        if kind is str
        else rng.integers(0, 9, (documents, 3, 7)).astype(kind)
    )
    array = zarr.create_array(
        tmp_path,
        name="a/b",
        shape=values.shape,
        chunks=(1, *values.shape[1:]),
        shards=(DOCUMENTS, *values.shape[1:]),
        dtype=kind,
        compressors=COMPRESSORS,
        config={"write_empty_chunks": True},
    )
    array[...] = values
    shard = tmp_path / shard_key("a/b", values.ndim, 0)
    chunks = list(chunks_in(shard.parent, shard.name, documents))
    assert all(map(ends_in_checksum, chunks))
    assert [len(chunk) for chunk in chunks] == lengths(shard.parent, shard.name)
    assert b"".join(parts(chunks)) == shard.read_bytes()


def shard_of(path: Path, documents: int) -> Path:
    shard = path / "0"
    shard.write_bytes(b"".join(parts(bytes([index] * 9) for index in range(documents))))
    return shard


@pytest.mark.parametrize("documents", [1, DOCUMENTS])
@pytest.mark.parametrize("kind", KINDS[:-1], ids=lambda kind: kind.__name__)
def test_a_damaged_table_is_found(tmp_path: Path, documents: int, kind: object) -> None:
    shard = shard_of(tmp_path, documents)
    size = shard.stat().st_size
    start = documents * 9
    for byte in range(start, size) if kind is flipped else [start]:
        whole = shard.read_bytes()
        if kind is flipped:
            flipped(shard, at=(byte + 0.5) / (size - 1))
        else:
            kind(shard)
        with pytest.raises(StoreError, match="damaged, for the table at its end"):
            lengths(shard.parent, shard.name)
        shard.write_bytes(whole)
    assert len(lengths(shard.parent, shard.name)) == documents


def test_a_sound_table_over_other_bytes_is_found(tmp_path: Path) -> None:
    shard = shard_of(tmp_path, 3)
    whole = shard.read_bytes()
    shard.write_bytes(whole[:5] + whole[6:])
    with pytest.raises(StoreError, match="its table tells of another number"):
        lengths(shard.parent, shard.name)
    shard.write_bytes(whole)
    with pytest.raises(StoreError, match="holds 3 documents, expected 4"):
        list(chunks_in(shard.parent, shard.name, 4))


def test_documents_lie_in_shards_in_their_order() -> None:
    for first in (0, 5, DOCUMENTS - 1, DOCUMENTS, 3 * DOCUMENTS):
        for last in (first, first + 1, first + DOCUMENTS, first + 200):
            documents = range(first, last)
            held = [index for shard in shards_of(documents) for index in within(documents, shard)]
            assert held == list(documents)
