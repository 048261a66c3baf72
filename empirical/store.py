"""One run is one Zarr store: checksummed chunks, one append a document, a manifest, and nothing half-written.

Every chunk carries a CRC-32C. The root attributes hold the provenance and the manifest: which documents are complete, with a digest of
their chunk files, and which result groups are. A document counts only once its row stands in the manifest, which is replaced atomically after
the chunks were flushed; so an interrupted run leaves the documents before it usable. Imports xarray and zarr.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

from empirical.disk import digest, flush_all, flush_folder, reading, replace, settled, writing
from empirical.errors import InputError, StoreError
from empirical.layout import COMPRESSORS, GroupPlan, array_of, group_of, lay_out
from empirical.place import alone, beside, stored
from empirical.schema import with_f_scores

__all__ = ["GroupPlan", "Store"]

MADE_AGAIN = "Run `geostat fit` and `geostat confront` again."
"""What to do where a result is damaged and what was captured is not."""


class Store:
    """A run on disk. `create` or `open` it; `append` documents; `write` result groups; `tree` to read.

    Raises:
        StoreError: when what is on disk contradicts the manifest.
        InputError: when the disk is full, or the folder cannot be read or written.
    """

    def __init__(self, path: Path, attributes: dict[str, Any], draft: Path | None = None) -> None:
        self.path = path
        self._lies = draft or path
        self._attributes = attributes
        self._open: dict[tuple[str, str], zarr.Array] = {}

    @classmethod
    def create(
        cls, path: Path, *, provenance: Mapping[str, Any], plan: Mapping[str, GroupPlan], documents: int, fresh: bool = False
    ) -> Store:
        """Lay out a store for `documents` documents in a draft beside `path`, whose place it takes with its first document.

        Args:
            path: where nothing stands, or with `fresh` a run that is thrown away then.
            provenance: what the root says of the run.
            plan: the captured groups.
            documents: how many there is room for.
            fresh: whether a run may stand at `path`.
        """
        if path.exists() and not fresh:
            raise InputError(f"{path}: something stands there already. Remove it, use --fresh, or choose another --out.")
        attributes = dict(provenance) | {"manifest": {"documents": [], "captured": sorted(plan), "results": {}}}
        store = cls(path, attributes, draft=beside(path, "draft"))
        with store._or_nothing(), writing(path), settled():
            shutil.rmtree(store._lies, ignore_errors=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            root = zarr.create_group(store=store._lies, zarr_format=3)
            for name, group in plan.items():
                lay_out(root.create_group(name), group, documents)
            store._save_attributes()
        return store

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open what stands at `path`, checking that every chunk that the manifest names is there."""
        store = cls(path, stored(path))
        captured = store._manifest["captured"]
        for index, row in enumerate(store.documents):
            if len(store._chunks(captured, index)) != row["chunks"]:
                raise StoreError(
                    f"{path}: chunks of document {row['name']!r} are missing. Restore them from a copy or measure again with --fresh."
                )
        return store

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the one process that writes to this run, with the manifest as it stands on the disk now.

        Raises:
            InputError: if another process writes to it, or it is gone.
            StoreError: if it has been damaged since.
        """
        with alone(self.path):
            self._attributes = stored(self.path)
            self._open.clear()
            yield

    @property
    def attributes(self) -> dict[str, Any]:
        """Provenance and manifest, as stored."""
        return self._attributes

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Manifest rows of the complete documents: name, sha256 of window and text, digest of the chunks."""
        return list(self._manifest["documents"])

    @property
    def results(self) -> list[str]:
        """Names of the complete result groups."""
        return sorted(self._manifest["results"])

    @property
    def _manifest(self) -> dict[str, Any]:
        manifest: dict[str, Any] = self._attributes["manifest"]
        return manifest

    def note(self, **attributes: Any) -> None:
        """Add to the provenance (as the parity check's result does, once it is known)."""
        self._attributes |= attributes
        with writing(self.path):
            self._save_attributes()

    def extend(self, documents: int) -> None:
        """Make room for `documents` documents in all; never cuts."""
        root = zarr.open_group(self._lies, mode="r+")
        self._open.clear()
        with writing(self.path), settled():
            for name in self._manifest["captured"]:
                for _, array in group_of(root, name).arrays():
                    if "document" in (array.metadata.dimension_names or ()) and array.shape[0] < documents:
                        array.resize((documents, *array.shape[1:]))

    def append(self, row: Mapping[str, Any], arrays: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Add one document: `arrays` by group and name, each without the document axis. It counts once this returns.

        Results were made from fewer documents, so they are dropped. A first document that cannot be written leaves nothing of the store.
        """
        index = len(self.documents)
        captured = self._manifest["captured"]
        with self._or_nothing(), writing(self.path):
            self._drop(self.results)
            asyncio.run(self._set(index, str(row["name"]), arrays))
            chunks = self._chunks(captured, index)
            flush_all(chunks if self._lies == self.path else _files(self._lies), self._lies)
            entry = dict(row) | {"chunks": len(chunks), "digest": digest(chunks, self._lies)}
            self._manifest["documents"].append(entry)
            self._save_attributes()
            if self._lies != self.path:
                self._take_place()

    async def _set(self, index: int, name: str, arrays: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Write one document's chunks side by side; opening an array costs as much as writing it, so they stay open."""
        if not self._open:
            root = zarr.open_group(self._lies, mode="r+")
            for group in self._manifest["captured"]:
                self._open |= {(group, key): array_of(group_of(root, group), key) for key in ("document", *arrays[group])}
        values = {
            (group, key): value for group in arrays for key, value in (("document", np.array(name, dtype=object)), *arrays[group].items())
        }
        await asyncio.gather(*(self._open[place].async_array.setitem(index, value) for place, value in values.items()))

    @contextmanager
    def _or_nothing(self) -> Iterator[None]:
        """Remove the draft of a store that fails before its first document is complete."""
        try:
            yield
        except BaseException:
            if self._lies != self.path:
                shutil.rmtree(self._lies, ignore_errors=True)
            raise

    def _take_place(self) -> None:
        """Move the draft to `path`; the run that stands there is set aside until that is done."""
        aside = beside(self.path, "old")
        replaces = self.path.exists()
        if replaces:
            os.replace(self.path, aside)
        try:
            os.replace(self._lies, self.path)
        except BaseException:
            if replaces:
                os.replace(aside, self.path)
            raise
        flush_folder(self.path.parent)
        self._lies = self.path
        self._open.clear()
        shutil.rmtree(aside, ignore_errors=True)

    def _drop(self, groups: Sequence[str]) -> None:
        """Remove result groups: first from the manifest, which names them as stale until their folders are gone."""
        stale = sorted({*groups, *self._manifest.get("stale", ())})
        if not stale:
            return
        for group in groups:
            self._manifest["results"].pop(group, None)
        self._manifest["stale"] = stale
        self._save_attributes()
        for group in stale:
            shutil.rmtree(self._lies / group, ignore_errors=True)
        del self._manifest["stale"]  # on disk with the next save: until then a folder of these names is none of the run's

    def drop(self, groups: Sequence[str]) -> None:
        """Take result groups away; those that are not there are left out."""
        held = [group for group in groups if group in self.results]
        if held:
            with writing(self.path), settled():
                self._drop(held)
                self._save_attributes()

    def write(self, group: str, dataset: xr.Dataset) -> None:
        """Write or replace one result group; a reader sees the old one, none, or the whole new one."""
        draft = beside(self.path, f"{group}.draft")
        final = self.path / group
        encoding = {str(name): {"compressors": COMPRESSORS, "_FillValue": None} for name in dataset.variables}
        plain = dataset.copy()
        for name in plain.variables:
            plain[name].encoding = {}
        try:
            with writing(self.path), settled():
                shutil.rmtree(draft, ignore_errors=True)
                plain.to_zarr(draft, mode="w", zarr_format=3, consolidated=False, encoding=encoding)
                files = _files(draft)
                flush_all(files, draft)
                self._drop([group])
                os.replace(draft, final)
                self._manifest["results"][group] = digest([final / file.relative_to(draft) for file in files], self.path)
                self._save_attributes()
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def read(self, group: str, *, lazy: bool = False) -> xr.Dataset:
        """Read one group, complete documents only; every chunk's checksum is verified as it is read."""
        manifest = self._manifest
        if group not in manifest["captured"] and group not in manifest["results"]:
            raise InputError(f"{self.path}: holds no /{group}; it has {', '.join([*manifest['captured'], *self.results])}.")
        options: dict[str, Any] = {"consolidated": False, "mask_and_scale": False, "decode_times": False, "decode_timedelta": False}
        try:
            with reading(self.path / group), settled():
                dataset = xr.open_zarr(self.path, group=group, chunks=None, **options)
                if group in manifest["captured"]:
                    dataset = dataset.isel(document=slice(0, len(self.documents)))
                return with_f_scores(dataset if lazy else dataset.load())
        except InputError:
            raise
        except (ValueError, OSError, KeyError, RuntimeError) as error:
            remedy = "Restore it from a copy or measure again with --fresh." if group in manifest["captured"] else MADE_AGAIN
            raise StoreError(f"{self.path}/{group}: damaged ({_first_line(error)}). {remedy}") from error

    def tree(self, *, lazy: bool = False, known: Mapping[str, xr.Dataset] | None = None) -> xr.DataTree:
        """The whole run as a DataTree: captured groups and results, provenance at the root. Groups `known` from before are not read again."""
        held = known or {}
        names = (*self._manifest["captured"], *self.results)
        groups = {name: held[name] if name in held else self.read(name, lazy=lazy) for name in names}
        tree = xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})
        tree.attrs = dict(self._attributes)
        return tree

    def verify(self) -> None:
        """Compare every complete document and result with its digest.

        Raises:
            StoreError: naming the first that differs.
        """
        manifest = self._manifest
        for index, row in enumerate(self.documents):
            with reading(self.path):
                found = digest(self._chunks(manifest["captured"], index), self.path)
            if found != row["digest"]:
                raise StoreError(
                    f"{self.path}: document {row['name']!r} is not what was written. Restore it from a copy or measure again with --fresh."
                )
        for name, written in manifest["results"].items():
            with reading(self.path):
                found = digest(_files(self.path / name), self.path)
            if found != written:
                raise StoreError(f"{self.path}: /{name} is not what was written. {MADE_AGAIN}")

    def _chunks(self, groups: Sequence[str], index: int) -> list[Path]:
        return sorted(file for name in groups for file in (self._lies / name).glob(f"*/c/{index}/**/*") if file.is_file()) + sorted(
            file for name in groups for file in (self._lies / name).glob(f"*/c/{index}") if file.is_file() and _per_document(file)
        )

    def _save_attributes(self) -> None:
        document = {"attributes": self._attributes, "node_type": "group", "zarr_format": 3}
        replace(self._lies / "zarr.json", json.dumps(document, indent=1, sort_keys=True, allow_nan=False))


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _per_document(chunk: Path) -> bool:
    """Whether a one-dimensional array's chunk belongs to a document (its only dimension is `document`)."""
    metadata = json.loads((chunk.parent.parent / "zarr.json").read_text(encoding="utf-8"))
    return bool(metadata.get("dimension_names") == ["document"])


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
