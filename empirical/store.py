"""One run is one Zarr store: checksummed chunks, one append a document, a manifest, and nothing half-written.

Every chunk carries a CRC-32C. The root attributes hold the provenance and the manifest: which documents are complete, with a digest of
their chunk files, and which result groups are. A document counts only once its row stands in the manifest, which is replaced atomically after
the chunks were flushed; so an interrupted run leaves the documents before it usable. Imports xarray and zarr.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from empirical.errors import InputError, StoreError
from empirical.schema import Coordinate, Variable, with_f_scores

COMPRESSORS = (BloscCodec(cname="lz4", shuffle="shuffle"), Crc32cCodec())
"""Shuffled bytes under LZ4: smaller than Zstandard on floats as they are, and faster. The checksum comes last, over what is on disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What a captured group will hold: variables by name, coordinates by name, and the length of every dimension but `document`."""

    variables: Mapping[str, Variable]
    coordinates: Mapping[str, Coordinate]
    sizes: Mapping[str, int]
    attributes: Mapping[str, str | int] = field(default_factory=dict)

    def shape(self, variable: Variable) -> tuple[int, ...]:
        """Lengths of a variable's dimensions, `document` left out."""
        return tuple(self.sizes[name] for name in variable.dims)


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    """Turn a full or read-only disk into one line with the remedy."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise InputError(
                f"{path}: no space left on the disk while writing. What was complete is kept: free some space and run again with --resume."
            ) from error
        if error.errno in {errno.EACCES, errno.EROFS, errno.EPERM}:
            raise InputError(f"{path}: cannot be written ({error.strerror}). Choose another folder with --out.") from error
        raise


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new text, never a part."""
    draft = path.with_name(f".{path.name}.draft")
    with open(draft, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    _flush(path.parent)


class Store:
    """A run on disk. `create` or `open` it; `append` documents; `write` result groups; `tree` to read.

    Raises:
        StoreError: when what is on disk contradicts the manifest.
        InputError: when the disk is full or the folder cannot be written.
    """

    def __init__(self, path: Path, attributes: dict[str, Any]) -> None:
        self.path = path
        self._attributes = attributes
        self._open: dict[tuple[str, str], zarr.Array] = {}

    @classmethod
    def create(cls, path: Path, *, provenance: Mapping[str, Any], plan: Mapping[str, GroupPlan], documents: int) -> Store:
        """Lay out an empty store for `documents` documents. Nothing may stand at `path`."""
        if path.exists():
            raise InputError(f"{path}: something stands there already. Remove it, use --fresh, or choose another --out.")
        draft = path.with_name(f".{path.name}.draft")
        with _disk(path):
            shutil.rmtree(draft, ignore_errors=True)
            draft.parent.mkdir(parents=True, exist_ok=True)
            root = zarr.create_group(store=draft, zarr_format=3)
            for name, group in plan.items():
                _lay_out(root.create_group(name), group, documents)
            attributes = dict(provenance) | {"manifest": {"documents": [], "captured": sorted(plan), "results": {}}}
            store = cls(draft, attributes)
            store._save_attributes()
            os.replace(draft, path)
        return cls(path, attributes)

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open what stands at `path`, checking that every chunk that the manifest names is there."""
        if not path.exists():
            raise InputError(f"{path}: no such run. Make one with `geostat run --out {path.parent}`.")
        try:
            attributes = json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"]
            manifest = attributes["manifest"]
            rows, captured = manifest["documents"], manifest["captured"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{path}: not a geostat run, or its manifest is damaged. Restore it from a copy or measure again with --fresh."
            ) from error
        store = cls(path, attributes)
        for index, row in enumerate(rows):
            if len(store._chunks(captured, index)) != row["chunks"]:
                raise StoreError(
                    f"{path}: chunks of document {row['name']!r} are missing. Restore them from a copy or measure again with --fresh."
                )
        return store

    @property
    def attributes(self) -> dict[str, Any]:
        """Provenance and manifest, as stored."""
        return self._attributes

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Manifest rows of the complete documents: name, source document, sha256 of the window, digest of the chunks."""
        return list(self._attributes["manifest"]["documents"])

    @property
    def results(self) -> list[str]:
        """Names of the complete result groups."""
        return sorted(self._attributes["manifest"]["results"])

    def note(self, **attributes: Any) -> None:
        """Add to the provenance (as the parity check's result does, once it is known)."""
        self._attributes |= attributes
        with _disk(self.path):
            self._save_attributes()

    def extend(self, documents: int) -> None:
        """Make room for `documents` documents in all; never cuts."""
        root = zarr.open_group(self.path, mode="r+")
        self._open.clear()
        with _disk(self.path):
            for name in self._attributes["manifest"]["captured"]:
                for _, array in _group(root, name).arrays():
                    if "document" in (array.metadata.dimension_names or ()) and array.shape[0] < documents:
                        array.resize((documents, *array.shape[1:]))

    def append(self, row: Mapping[str, Any], arrays: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Add one document: `arrays` by group and name, each without the document axis. It counts once this returns.

        Results were made from fewer documents, so they are dropped.
        """
        index = len(self.documents)
        captured = self._attributes["manifest"]["captured"]
        with _disk(self.path):
            self._drop_results()
            asyncio.run(self._set(index, str(row["name"]), arrays))
            chunks = self._chunks(captured, index)
            for chunk in chunks:
                _flush(chunk)
            entry = dict(row) | {"chunks": len(chunks), "digest": _digest(chunks, self.path)}
            self._attributes["manifest"]["documents"].append(entry)
            self._save_attributes()

    async def _set(self, index: int, name: str, arrays: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Write one document's chunks side by side; opening an array costs as much as writing it, so they stay open."""
        if not self._open:
            root = zarr.open_group(self.path, mode="r+")
            for group in self._attributes["manifest"]["captured"]:
                self._open |= {(group, key): _array(_group(root, group), key) for key in ("document", *arrays[group])}
        values = {
            (group, key): value for group in arrays for key, value in (("document", np.array(name, dtype=object)), *arrays[group].items())
        }
        await asyncio.gather(*(self._open[place].async_array.setitem(index, value) for place, value in values.items()))

    def _drop_results(self) -> None:
        stale = self.results
        if stale:
            self._attributes["manifest"]["results"] = {}
            self._save_attributes()
            for group in stale:
                shutil.rmtree(self.path / group, ignore_errors=True)

    def write(self, group: str, dataset: xr.Dataset) -> None:
        """Write or replace one result group; a reader sees the old one, none, or the whole new one."""
        draft = self.path.with_name(f".{self.path.name}.{group}.draft")
        final = self.path / group
        with _disk(self.path):
            shutil.rmtree(draft, ignore_errors=True)
            encoding = {str(name): {"compressors": COMPRESSORS, "_FillValue": None} for name in dataset.variables}
            plain = dataset.copy()
            for name in plain.variables:
                plain[name].encoding = {}
            plain.to_zarr(draft, mode="w", zarr_format=3, consolidated=False, encoding=encoding)
            self._attributes["manifest"]["results"].pop(group, None)
            self._save_attributes()
            shutil.rmtree(final, ignore_errors=True)
            os.replace(draft, final)
            files = sorted(path for path in final.rglob("*") if path.is_file())
            for file in files:
                _flush(file)
            self._attributes["manifest"]["results"][group] = _digest(files, self.path)
            self._save_attributes()

    def read(self, group: str, *, lazy: bool = False) -> xr.Dataset:
        """Read one group, complete documents only; every chunk's checksum is verified as it is read."""
        manifest = self._attributes["manifest"]
        if group not in manifest["captured"] and group not in manifest["results"]:
            raise InputError(f"{self.path}: holds no /{group}; it has {', '.join([*manifest['captured'], *self.results])}.")
        try:
            dataset = xr.open_zarr(
                self.path, group=group, consolidated=False, chunks=None, mask_and_scale=False, decode_times=False, decode_timedelta=False
            )
            if group in manifest["captured"]:
                dataset = dataset.isel(document=slice(0, len(self.documents)))
            return with_f_scores(dataset if lazy else dataset.load())
        except (ValueError, OSError, KeyError, RuntimeError) as error:
            raise StoreError(
                f"{self.path}/{group}: damaged ({_first_line(error)}). Restore it from a copy or measure again with --fresh."
            ) from error

    def tree(self, *, lazy: bool = False) -> xr.DataTree:
        """The whole run as a DataTree: captured groups and results, provenance at the root."""
        manifest = self._attributes["manifest"]
        groups = {name: self.read(name, lazy=lazy) for name in (*manifest["captured"], *self.results)}
        tree = xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})
        tree.attrs = dict(self._attributes)
        return tree

    def verify(self) -> None:
        """Compare every complete document and result with its digest.

        Raises:
            StoreError: naming the first that differs.
        """
        manifest = self._attributes["manifest"]
        for index, row in enumerate(self.documents):
            if _digest(self._chunks(manifest["captured"], index), self.path) != row["digest"]:
                raise StoreError(
                    f"{self.path}: document {row['name']!r} is not what was written. Restore it from a copy or measure again with --fresh."
                )
        for name, digest in manifest["results"].items():
            files = sorted(path for path in (self.path / name).rglob("*") if path.is_file())
            if _digest(files, self.path) != digest:
                raise StoreError(f"{self.path}: /{name} is not what was written. Run `geostat fit` and `geostat confront` again.")

    def _chunks(self, groups: Sequence[str], index: int) -> list[Path]:
        return sorted(file for name in groups for file in (self.path / name).glob(f"*/c/{index}/**/*") if file.is_file()) + sorted(
            file for name in groups for file in (self.path / name).glob(f"*/c/{index}") if file.is_file() and _per_document(file)
        )

    def _save_attributes(self) -> None:
        document = {"attributes": self._attributes, "node_type": "group", "zarr_format": 3}
        _replace(self.path / "zarr.json", json.dumps(document, indent=1, sort_keys=True, allow_nan=False))


def _per_document(chunk: Path) -> bool:
    """Whether a one-dimensional array's chunk belongs to a document (its only dimension is `document`)."""
    metadata = json.loads((chunk.parent.parent / "zarr.json").read_text(encoding="utf-8"))
    return bool(metadata.get("dimension_names") == ["document"])


def _lay_out(group: zarr.Group, plan: GroupPlan, documents: int) -> None:
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
            attributes={"long_name": coordinate.long_name, "units": coordinate.units} | coordinate.extra,
            **create,
        )
        array[...] = values.astype(object) if text else values
        if coordinate.dims != (name,):
            labels.append(name)
    group.attrs.update(dict(plan.attributes) | {"coordinates": " ".join(sorted(labels))})


def _group(root: zarr.Group, name: str) -> zarr.Group:
    node = root[name]
    assert isinstance(node, zarr.Group)
    return node


def _array(group: zarr.Group, name: str) -> zarr.Array:
    node = group[name]
    assert isinstance(node, zarr.Array)
    return node


def _digest(files: Sequence[Path], root: Path) -> str:
    """Digest of file names below `root` and contents, independent of where the store lies."""
    total = hashlib.sha256()
    for file in files:
        total.update(str(file.relative_to(root)).encode())
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
