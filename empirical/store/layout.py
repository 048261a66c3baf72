"""How groups lie on disk, shuffled, compressed and checksummed; captured ones with one chunk a document and variable. Imports xarray and zarr."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import xarray as xr
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from empirical.schema import Coordinate, Variable

COMPRESSORS = (BloscCodec(cname="lz4", shuffle="shuffle"), Crc32cCodec())
"""Shuffled bytes under LZ4: smaller than Zstandard on floats as they are, and faster. The checksum comes last, over what is on disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What a captured group will hold: variables and coordinates by name."""

    variables: Mapping[str, Variable]
    coordinates: Mapping[str, Coordinate]
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Lengths of the dimensions that have no coordinate of their name."""
    attributes: Mapping[str, str | int] = field(default_factory=dict)

    def shape(self, variable: Variable) -> tuple[int, ...]:
        """Lengths of a variable's dimensions, `document` left out."""
        lengths = {name: len(axis.values) for name, axis in self.coordinates.items()} | dict(self.sizes)
        return tuple(lengths[name] for name in variable.dims)


def lay_out(group: zarr.Group, plan: GroupPlan, documents: int) -> None:
    """Create the arrays of one captured group, a chunk a document, and its coordinates."""
    create = {"compressors": COMPRESSORS, "overwrite": False, "config": {"write_empty_chunks": True}}
    group.create_array("document", shape=(documents,), chunks=(1,), dtype=str, dimension_names=("document",), fill_value="", **create)
    for name, variable in plan.variables.items():
        shape = plan.shape(variable)
        group.create_array(
            name,
            shape=(documents, *shape),
            chunks=(1, *(max(1, size) for size in shape)),
            dtype=variable.dtype,
            fill_value=variable.fill,
            dimension_names=("document", *variable.dims),
            attributes=variable.attributes(),
            **create,
        )
    labels = []
    for name, coordinate in plan.coordinates.items():
        values = np.asarray(coordinate.values)
        text = values.dtype.kind in "UO"
        array = group.create_array(
            name,
            shape=values.shape,
            chunks=tuple(max(1, size) for size in values.shape),
            dtype=str if text else values.dtype,
            fill_value="" if text else (float("nan") if values.dtype.kind == "f" else 0),
            dimension_names=coordinate.dims,
            attributes=coordinate.attributes(),
            **create,
        )
        array[...] = values.astype(object) if text else values
        if coordinate.dims != (name,):
            labels.append(name)
    group.attrs.update(dict(plan.attributes) | {"coordinates": " ".join(sorted(labels))})


def write_group(dataset: xr.Dataset, folder: Path) -> None:
    """Write a dataset as a group of its own, its chunks checksummed."""
    encoding = {str(name): {"compressors": COMPRESSORS, "_FillValue": None} for name in dataset.variables}
    plain = dataset.copy()
    for name in plain.variables:
        plain[name].encoding = {}
    plain.to_zarr(folder, mode="w", zarr_format=3, consolidated=False, encoding=encoding, write_empty_chunks=True)
