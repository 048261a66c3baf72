"""Store of one run in Zarr: checksummed chunks, documents appended atomically, and a manifest of
digests.

Every chunk carries a CRC-32C. The manifest in the root's metadata (`empirical.store.manifest`)
holds a digest of every file, which `open` verifies. A document counts once its file is in the
journal (`empirical.store.journal`), a single atomic step, so an interrupted run keeps its earlier
documents. When a shard is full, and at the end of a run, documents of the journal are settled:
moved into shards. Results are written next to the store and moved into place together: a reader
sees the old or the new ones. `empirical.store.stored_run` reads runs. Imports xarray and zarr.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

from empirical.errors import InputError, StoreError
from empirical.store import manifest
from empirical.store.bundle import clear_away
from empirical.store.disk import flush_all, flush_folder, sidecar_path, writing, zarr_awaited
from empirical.store.journal import Entry, enter, entry_of, identity_of, link, no_rows
from empirical.store.layout import Encoder, GroupPlan, lay_out, write_group
from empirical.store.lock import alone
from empirical.store.manifest import ROOT, below, digests, files_below, mark_of
from empirical.store.remote import send
from empirical.store.shards import DOCUMENTS, Drafting, drafted, settle
from empirical.store.stored_run import StoredRun


class Store(StoredRun):
    """A run on disk, open for writing. `create` or `open` it (opening finishes the work of a killed
    writer of this machine), `append` documents, `put` result groups.

    Raises:
        InputError: the disk is full, or the folder cannot be written.
    """

    def __init__(self, path: Path, attributes: dict[str, Any], draft: Path | None = None) -> None:
        super().__init__(path, attributes)
        self._folder = draft or self.path
        self._encoder: Encoder | None = None
        self.drafting: Drafting = drafted
        """Writes the shards whenever they are full; may be gone when the run ends."""

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        provenance: Mapping[str, Any],
        plan: Mapping[str, GroupPlan],
        documents: int,
        fresh: bool = False,
    ) -> Store:
        """Lay out a store for `documents` documents in a draft next to `path`; the draft replaces
        `path` with its first document.

        `path` must not exist, or with `fresh` hold a run that is then deleted. provenance:
        attributes of the root; plan: the captured groups.
        """
        if os.path.lexists(path) and not fresh:
            raise InputError(
                f"{path}: exists already. Remove it, use --fresh, or choose another --out."
            )
        run = identity_of(provenance)
        parts: dict[str, Any] = {"run": run, "rows": no_rows(run), "captured": sorted(plan)}
        parts |= {"documents": [], "layout": {}, "results": {}}
        attributes = dict(provenance) | {"manifest": parts}
        store = cls(path, attributes, draft=sidecar_path(path, "draft"))
        with store._or_nothing(), writing(path), zarr_awaited():
            path.parent.mkdir(parents=True, exist_ok=True)
            clear_away(store._folder)
            root = zarr.create_group(store=store._folder, zarr_format=3)
            for name, group in plan.items():
                lay_out(root.create_group(name), group, documents)
            parts["layout"] = digests(files_below(store._folder), store._folder)
            del parts["layout"][ROOT]
            store._save()
        return store

    def _recover(self) -> None:
        with alone(self.path):
            if self._results is False:  # results will be computed again
                manifest.give_up(self.path)

    def note(self, **attributes: Any) -> None:
        """Add attributes to the provenance, such as the result of the parity check."""
        self.attributes |= attributes
        with writing(self.path):
            self._save()

    def extend(self, documents: int) -> None:
        """Extend the arrays to `documents` documents in total; never shrinks them."""
        ready, known, files = sidecar_path(self.path, "ready"), self._manifest["layout"], []
        with writing(self.path):
            for name, shape in manifest.by_document(self.path, known):
                if shape[0] < documents:
                    node = manifest.node_of(self.path, f"{name}/{ROOT}")
                    node["shape"][0] = documents
                    files.append(ready / name / ROOT)
                    files[-1].parent.mkdir(parents=True, exist_ok=True)
                    files[-1].write_bytes(json.dumps(node, indent=2).encode())
            if files:
                self._exchange(files, then={"layout": known | digests(files, ready)})

    def append(
        self, row: Mapping[str, Any], arrays: Mapping[str, Mapping[str, np.ndarray]]
    ) -> None:
        """Add one document: `arrays` by group and name, each without the document axis. The
        document counts once this returns.

        Results of fewer documents are dropped. If the first document cannot be written, the store
        is removed.
        """
        with self._or_nothing(), writing(self.path):
            self._encoder = self._encoder or Encoder(self._folder, self._manifest["captured"])
            entry = entry_of(row, self._encoder.chunks(str(row["name"]), arrays))
        self.append_entry(entry)

    def append_entry(self, entry: Entry) -> None:
        """Add one document like `append`, already packed, possibly by another process."""
        waiting = self._waiting
        if waiting and waiting.stop % DOCUMENTS == 0:
            self.settle(self.drafting)
            waiting = self._waiting
        with self._or_nothing(), writing(self.path):
            if self._manifest["results"]:
                self._exchange([], drops=list(self._manifest["results"]), then={"results": {}})
            waiting_rows = self._manifest["documents"][waiting.start :]
            chain = reduce(link, waiting_rows, self._manifest["rows"]["chain"])
            enter(self._folder, waiting.stop, chain, entry)
            self._manifest["documents"].append(dict(entry.row))
            if self._folder != self.path:
                flush_all(files_below(self._folder), self._folder)
                self._take_place()
        send(self.path)

    def settle(self, drafting: Drafting = drafted) -> None:
        """Move the documents of the journal into shards."""
        if self._waiting:
            documents = self._manifest["documents"]
            settle(self.path, drafting, known=documents[self._waiting.start :])
            self._reread(documents)

    @contextmanager
    def _or_nothing(self) -> Iterator[None]:
        """Remove the draft of a store that fails before its first document is complete."""
        try:
            yield
        except BaseException:
            if self._folder != self.path:
                shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def _take_place(self) -> None:
        """Move the draft to `path`; an existing run is set aside until that is done."""
        aside = sidecar_path(self.path, "old")
        replaces = os.path.lexists(self.path)
        clear_away(aside)
        if replaces:
            os.replace(self.path, aside)
        try:
            os.replace(self._folder, self.path)
        except BaseException:
            if replaces:
                os.replace(aside, self.path)
            raise
        flush_folder(self.path.parent)
        self._folder = self.path
        self._seen = mark_of(self.path)
        clear_away(aside)

    def put(self, groups: Mapping[str, xr.Dataset], *, drops: Collection[str] = ()) -> None:
        """Write or replace result groups together, and drop others if they exist: a reader sees all
        old or all new groups.

        Groups that were not verified (`StoredRun.open`) are dropped unless they are written.
        """
        self.settle()
        with self._ready(groups) as (moves, made):
            held = self._manifest["results"]
            gone = {name for name in held if name in drops or name not in self.results}
            gone -= set(made)
            results = {name: files for name, files in held.items() if name not in gone} | made
            self._exchange(moves, drops=sorted(gone), then={"results": results})
        self._results = True

    def restore(self, groups: Mapping[str, xr.Dataset]) -> list[str]:
        """Write groups over damaged ones with equal digests; else return the names that differ."""
        held = self._manifest["results"]
        with self._ready(groups) as (moves, made):
            other = [name for name in groups if made[name] != held.get(name)]
            if not other:
                self._exchange(moves, then={"results": held})
        return other

    @contextmanager
    def _ready(
        self, groups: Mapping[str, xr.Dataset]
    ) -> Iterator[tuple[list[Path], dict[str, dict[str, str]]]]:
        """Write groups next to the store for the block; yields folders, and digests by group."""
        ready = sidecar_path(self.path, "ready")
        with writing(self.path), zarr_awaited():
            clear_away(ready)
            try:
                for name, dataset in groups.items():
                    write_group(dataset, ready / name)
                made = {name: digests(files_below(ready / name), ready) for name in groups}
                yield [ready / name for name in groups], made
            finally:
                if not manifest.under_way(self.path):
                    shutil.rmtree(ready, ignore_errors=True)

    def _exchange(
        self, moves: Collection[Path], *, then: dict[str, Any], drops: Collection[str] = ()
    ) -> None:
        """Move files and folders that are ready next to the store into place, and drop groups, as
        one recorded step. then: the replaced parts of the manifest.
        """
        ready = sidecar_path(self.path, "ready")
        if moves:
            flush_all(files_below(ready), ready)
        pending: dict[str, Any] = {"drops": list(drops), "then": then}
        pending["moves"] = [below(move, ready) for move in moves]
        documents = self._manifest["documents"]
        self._manifest["pending"] = pending
        manifest.begin(self.path, pending)
        try:
            self._save()
            manifest.finish(self.path)
        except (Exception, KeyboardInterrupt):
            del self._manifest["pending"]
            with suppress(InputError, StoreError, OSError):
                if manifest.under_way(self.path):  # until it is done, readers are refused
                    manifest.finish(self.path)
                self._reread(documents)
            if not manifest.under_way(self.path):
                manifest.forget(pending)
            raise
        self._reread(documents)

    def _reread(self, documents: list[dict[str, Any]]) -> None:
        """Reload the attributes from the root of a run with these documents."""
        self.attributes, self._seen = manifest.read_root(self.path), mark_of(self.path)
        self._manifest["documents"] = documents

    def _save(self) -> None:
        manifest.save(self._folder, self.attributes)
        self._seen = mark_of(self._folder)
