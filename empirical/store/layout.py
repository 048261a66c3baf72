"""Layout of groups on disk: shuffled, compressed and checksummed; captured groups have one chunk
per document and variable, with the chunks of many documents in one file. Imports xarray and zarr.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr
import zarr
from zarr.abc.buffer import Buffer
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.storage import MemoryStore

from empirical.schema import Quantity
from empirical.store.shards import DOCUMENTS, shard_key

COMPRESSORS = (BloscCodec(cname="lz4", shuffle="shuffle"), Crc32cCodec())
"""Byte shuffle with LZ4, smaller and faster than Zstandard without shuffle on floats. The checksum
comes last, over the stored bytes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """Plan of a captured group: variables and coordinates by name."""

    variables: Mapping[str, Quantity]
    coordinates: Mapping[str, xr.Variable]
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Lengths of the dimensions without a coordinate of the same name."""
    attributes: Mapping[str, str | int] = field(default_factory=dict)

    def shape(self, variable: Quantity) -> tuple[int, ...]:
        """Return the lengths of a variable's dimensions, without `document`."""
        lengths = {name: len(labels) for name, labels in self.coordinates.items()}
        return tuple({**lengths, **self.sizes}[name] for name in variable.dims)


def lay_out(group: zarr.Group, plan: GroupPlan, documents: int) -> None:
    """Create the arrays of one captured group, with one chunk per document, and its coordinates."""
    create = partial(
        group.create_array, compressors=COMPRESSORS, config={"write_empty_chunks": True}
    )

    def create_by_document(name: str, inner: Sequence[int], **what: Any) -> None:
        chunk = [max(1, size) for size in inner]
        shape, shards = (documents, *inner), (DOCUMENTS, *chunk)
        create(name, shape=shape, chunks=(1, *chunk), shards=shards, **what)

    create_by_document("document", (), dtype=str, fill_value="", dimension_names=("document",))
    for name, variable in plan.variables.items():
        create_by_document(
            name,
            plan.shape(variable),
            dtype=variable.dtype,
            fill_value=variable.fill,
            dimension_names=("document", *variable.dims),
            attributes=variable.attributes,
        )
    for name, labels in plan.coordinates.items():
        values = labels.values.astype(object) if labels.dtype.kind == "U" else labels.values
        array = create(
            name,
            shape=labels.shape,
            chunks=tuple(max(1, size) for size in labels.shape),
            dtype=str if values.dtype == object else values.dtype,
            fill_value={"O": "", "f": float("nan")}.get(values.dtype.kind, 0),
            dimension_names=labels.dims,
            attributes=labels.attrs,
        )
        array[...] = values
    further = sorted(name for name, labels in plan.coordinates.items() if labels.dims != (name,))
    group.attrs.update({**plan.attributes, "coordinates": " ".join(further)})


AT_ONCE: Final = 4
"""Variables of a document packed in parallel; each is copied twice."""


class Encoder:
    """Encodes a document's values as the chunks of a store's shards, by zarr and in memory."""

    def __init__(self, store: Path | MemoryStore, groups: Sequence[str]) -> None:
        self._files: dict[str, Buffer] = {}
        self._arrays: dict[str, zarr.Array] = {}
        memory = MemoryStore(self._files)
        for group in groups:
            opened = zarr.open_group(store, path=group, mode="r", use_consolidated=False)
            for key, array in opened.arrays():
                if "document" not in (array.metadata.dimension_names or ()):
                    continue
                self._arrays[f"{group}/{key}"] = zarr.create_array(
                    memory,
                    name=f"{group}/{key}",
                    shape=(1, *array.shape[1:]),
                    chunks=array.chunks,
                    dtype=array.metadata.data_type,
                    fill_value=array.fill_value,
                    compressors=COMPRESSORS,
                    # Chunks of fill values are stored too, so that a missing chunk means damage.
                    config={"write_empty_chunks": True},
                )

    @classmethod
    def planned(cls, plan: Mapping[str, GroupPlan]) -> Encoder:
        """Return the encoder of a store with this layout, without the store."""
        memory = MemoryStore()
        root = zarr.create_group(store=memory, zarr_format=3)
        for name, group in plan.items():
            lay_out(root.create_group(name), group, 1)
        return cls(memory, sorted(plan))

    async def _set(self, values: Mapping[str, Any]) -> None:
        few = asyncio.Semaphore(AT_ONCE)

        async def set_one(name: str, value: Any) -> None:
            async with few:
                await self._arrays[name].async_array.setitem(0, value)

        await asyncio.gather(*(set_one(*item) for item in values.items()))

    def chunks(self, name: str, arrays: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, bytes]:
        """Return the chunks of the document `name` by array, except arrays without elements.

        arrays: by group and name, each without the document axis.
        """
        values = {
            f"{group}/{key}": value
            for group, held in arrays.items()
            for key, value in {"document": np.array(name, dtype=object), **held}.items()
        }
        asyncio.run(self._set(values))
        return {
            name: self._files.pop(shard_key(name, array.ndim, 0)).to_bytes()
            for name, array in self._arrays.items()
            if array.size
        }


def write_group(dataset: xr.Dataset, folder: Path) -> None:
    """Write a dataset as a group with checksummed chunks.

    The group is laid out in memory and then written file by file, because zarr's thread and move
    per small file would dominate the time.
    """
    encoding = {
        str(name): {"compressors": COMPRESSORS, "_FillValue": None} for name in dataset.variables
    }
    files: dict[str, Buffer] = {}
    dataset.drop_encoding().to_zarr(
        MemoryStore(files),
        mode="w",
        zarr_format=3,
        consolidated=False,
        encoding=encoding,
        write_empty_chunks=True,
    )
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.as_buffer_like())
