"""Shards: the bytes that zarr would write, whose every change is found."""

from pathlib import Path

import numpy as np
import pytest
import zarr
from support.damage import cut, emptied, flipped

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
def test_shards_equal_those_of_zarr(tmp_path, documents, kind):
    values = np.random.default_rng(documents).integers(0, 9, (documents, 3, 7))
    if kind is str:
        values = np.array(["x" * index for index in range(documents)], dtype=object)
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
    array[...] = values if kind is str else values.astype(kind)
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
@pytest.mark.parametrize("kind", [flipped, cut, emptied], ids=lambda kind: kind.__name__)
def test_a_damaged_table_is_found(tmp_path, documents, kind):
    shard = shard_of(tmp_path, documents)
    whole = shard.read_bytes()
    harms = [kind]
    if kind is flipped:  # bytes all over the table
        places = ((byte + 0.5) / (len(whole) - 1) for byte in range(documents * 9, len(whole), 5))
        harms = [lambda file, at=at: flipped(file, at=at) for at in places]
    for harm in harms:
        harm(shard)
        with pytest.raises(StoreError, match="damaged, because the table at its end"):
            lengths(shard.parent, shard.name)
        shard.write_bytes(whole)
    assert len(lengths(shard.parent, shard.name)) == documents


def test_a_valid_table_over_other_bytes_is_found(tmp_path):
    shard = shard_of(tmp_path, 3)
    whole = shard.read_bytes()
    shard.write_bytes(whole[:5] + whole[6:])
    with pytest.raises(StoreError, match="which contradicts its table"):
        lengths(shard.parent, shard.name)
    shard.write_bytes(whole)
    with pytest.raises(StoreError, match="holds 3 documents, expected 4"):
        list(chunks_in(shard.parent, shard.name, 4))


def test_documents_are_in_shards_in_order():
    for first in (0, 5, DOCUMENTS - 1, DOCUMENTS, 3 * DOCUMENTS):
        for count in (0, 1, DOCUMENTS, 200):
            documents = range(first, first + count)
            held = [index for shard in shards_of(documents) for index in within(documents, shard)]
            assert held == list(documents)
