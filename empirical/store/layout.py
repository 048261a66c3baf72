"""How groups lie on disk, shuffled, compressed and checksummed; captured ones with one chunk a
document and variable, the chunks of many documents in one file. Imports xarray and zarr.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr
import zarr
from zarr.abc.buffer import Buffer
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.storage import MemoryStore

from empirical.schema import Variable
from empirical.store.shards import DOCUMENTS, shard_key

COMPRESSORS = (BloscCodec(cname="lz4", shuffle="shuffle"), Crc32cCodec())
"""Shuffled bytes under LZ4: smaller than Zstandard on floats as they are, and faster. The
checksum comes last, over what is on disk.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What a captured group will hold: variables and coordinates by name."""

    variables: Mapping[str, Variable]
    coordinates: Mapping[str, xr.Variable]
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Lengths of the dimensions that have no coordinate of their name."""
    attributes: Mapping[str, str | int] = field(default_factory=dict)

    def shape(self, variable: Variable) -> tuple[int, ...]:
        """Lengths of a variable's dimensions, `document` left out."""
        lengths = {name: len(labels) for name, labels in self.coordinates.items()} | dict(
            self.sizes
        )
        return tuple(lengths[name] for name in variable.dims)


def lay_out(group: zarr.Group, plan: GroupPlan, documents: int) -> None:
    """Create the arrays of one captured group, a chunk a document, and its coordinates."""

    def lengths(dims: Sequence[Any], shape: Sequence[int], documents: int) -> tuple[int, ...]:
        return tuple(
            documents if dim == "document" else max(1, size)
            for dim, size in zip(dims, shape, strict=True)
        )

    def create(
        name: str,
        dims: Sequence[Any],
        shape: Sequence[int],
        kind: Any,
        fill: Any,
        attributes: Mapping[str, str],
    ) -> zarr.Array:
        return group.create_array(
            name,
            shape=shape,
            chunks=lengths(dims, shape, 1),
            shards=lengths(dims, shape, DOCUMENTS) if "document" in dims else None,
            dtype=kind,
            fill_value=fill,
            dimension_names=dims,
            attributes=attributes,
            compressors=COMPRESSORS,
            config={"write_empty_chunks": True},
        )

    create("document", ("document",), (documents,), str, "", {})
    for name, variable in plan.variables.items():
        shape = (documents, *plan.shape(variable))
        create(
            name,
            ("document", *variable.dims),
            shape,
            variable.dtype,
            variable.fill,
            variable.attributes(),
        )
    for name, labels in plan.coordinates.items():
        values = labels.values.astype(object) if labels.dtype.kind == "U" else labels.values
        fill = {"O": "", "f": float("nan")}.get(values.dtype.kind, 0)
        array = create(
            name,
            labels.dims,
            labels.shape,
            str if values.dtype == object else values.dtype,
            fill,
            labels.attrs,
        )
        array[...] = values
    further = sorted(name for name, labels in plan.coordinates.items() if labels.dims != (name,))
    group.attrs.update({**plan.attributes, "coordinates": " ".join(further)})


AT_ONCE: Final = 4
"""Variables of a document that are packed side by side: each is copied twice on the way."""


class Encoder:
    """Turns a document's values into the chunks that stand in the shards of a store, by zarr and in
    memory.
    """

    def __init__(self, store: Path | MemoryStore, groups: Sequence[str]) -> None:
        self._files: dict[str, Buffer] = {}
        self._arrays: dict[str, zarr.Array] = {}
        memory = MemoryStore(self._files)
        for group in groups:
            for key, array in zarr.open_group(
                store, path=group, mode="r", use_consolidated=False
            ).arrays():
                if "document" in (array.metadata.dimension_names or ()):
                    self._arrays[f"{group}/{key}"] = zarr.create_array(
                        memory,
                        name=f"{group}/{key}",
                        shape=(1, *array.shape[1:]),
                        chunks=array.chunks,
                        dtype=array.metadata.data_type,
                        fill_value=array.fill_value,
                        compressors=COMPRESSORS,
                        # What holds nothing but fill is kept too, so that its absence is damage.
                        config={"write_empty_chunks": True},
                    )

    @classmethod
    def planned(cls, plan: Mapping[str, GroupPlan]) -> Encoder:
        """Return the encoder of a store that is laid out so, wherever it lies."""
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
        """Return the chunks of the document `name` by array, none for one without elements.

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
    """Write a dataset as a group of its own, its chunks checksummed.

    It is laid out in memory, then written file by file: of a folder zarr hands every small file to
    a thread and moves it into place, which takes longer than all else.
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
