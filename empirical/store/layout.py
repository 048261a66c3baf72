"""How groups lie on disk, shuffled, compressed and checksummed; captured ones with one chunk a
document and variable. Imports xarray and zarr.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xarray as xr
import zarr
from zarr.abc.buffer import Buffer
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.storage import MemoryStore

from empirical.schema import Variable

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
            chunks=tuple(
                1 if dim == "document" else max(1, size)
                for dim, size in zip(dims, shape, strict=True)
            ),
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
