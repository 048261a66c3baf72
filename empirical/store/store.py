"""One run is one Zarr store: checksummed chunks, one append a document, a manifest, and nothing
half-written.

Every chunk carries a CRC-32C; the manifest in the root's metadata (`empirical.store.manifest`)
holds a digest of every file, and `open` compares them. A document counts once its file stands in
the journal (`empirical.store.journal`), which is one step; so an interrupted run leaves the
documents before it usable. Whenever a shard is full, and when the run ends, documents of the
journal are settled: moved into shards. Results are written beside the store and take their places
together: a reader sees the old ones or the new ones. How a run is read stands in
`empirical.store.stored_run`. Imports xarray and zarr.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from zarr.core.buffer import default_buffer_prototype

from empirical.errors import InputError, StoreError
from empirical.store.bundle import clear_away
from empirical.store.disk import flush_all, flush_folder, writing, zarr_awaited
from empirical.store.journal import Entry, enter, entry_of
from empirical.store.layout import Encoder, GroupPlan, lay_out, write_group
from empirical.store.lock import alone
from empirical.store.manifest import (
    begin,
    below,
    beside,
    digests,
    files_below,
    finish,
    forget,
    give_up,
    layout,
    mark_of,
    read_root,
    save,
    under_way,
)
from empirical.store.remote.mirror import send
from empirical.store.rows import identity_of, link, no_rows
from empirical.store.settling import Drafting, drafted, settle
from empirical.store.shards import DOCUMENTS
from empirical.store.stored_run import StoredRun


class Store(StoredRun):
    """A run on disk, to be written too. `create` or `open` it, which finishes what a killed writer
    of this machine left; `append` documents; `put` result groups.

    Raises:
        StoreError: when what is on disk contradicts the manifest.
        InputError: when the disk is full, or the folder cannot be read or written.
    """

    def __init__(self, path: Path, attributes: dict[str, Any], draft: Path | None = None) -> None:
        super().__init__(path, attributes)
        self._folder = draft or self.path
        self._encoder: Encoder | None = None
        self.drafting: Drafting = drafted
        """Writes the shards whenever they are full; by what may be gone when the run ends."""

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
        """Lay out a store for `documents` documents in a draft beside `path`, whose place it takes
        with its first document.

        Nothing may stand at `path`, or with `fresh` a run that is thrown away then. provenance:
        what the root says; plan: the captured groups.
        """
        if os.path.lexists(path) and not fresh:
            raise InputError(
                f"{path}: something stands there already. Remove it, use --fresh, or choose another"
                " --out."
            )
        manifest: dict[str, Any] = {
            "documents": [],
            "run": (run := identity_of(provenance)),
            "rows": no_rows(run),
            "captured": sorted(plan),
            "layout": {},
            "results": {},
        }
        attributes = dict(provenance) | {"manifest": manifest}
        store = cls(path, attributes, draft=beside(path, "draft"))
        with store._or_nothing(), writing(path), zarr_awaited():
            path.parent.mkdir(parents=True, exist_ok=True)
            clear_away(store._folder)
            root = zarr.create_group(store=store._folder, zarr_format=3)
            for name, group in plan.items():
                lay_out(root.create_group(name), group, documents)
            manifest["layout"] = layout(store._folder, manifest["captured"])
            store._save()
        return store

    def _recover(self) -> None:
        with alone(self.path):
            if self._results is False:  # they are made anew
                give_up(self.path)

    def note(self, **attributes: Any) -> None:
        """Add to the provenance (as the parity check's result does, once it is known)."""
        self.attributes |= attributes
        with writing(self.path):
            self._save()

    def extend(self, documents: int) -> None:
        """Make room for `documents` documents in all; never cuts."""
        ready, known, files = beside(self.path, "ready"), self._manifest["layout"], []
        with writing(self.path), zarr_awaited():
            for name in self._manifest["captured"]:
                for key, array in zarr.open_group(
                    self.path / name, mode="r", use_consolidated=False
                ).arrays():
                    if (
                        "document" in (array.metadata.dimension_names or ())
                        and array.shape[0] < documents
                    ):
                        larger = array.metadata.update_shape((documents, *array.shape[1:]))
                        files.append(ready / name / key / "zarr.json")
                        files[-1].parent.mkdir(parents=True, exist_ok=True)
                        files[-1].write_bytes(
                            larger.to_buffer_dict(default_buffer_prototype())[
                                "zarr.json"
                            ].to_bytes()
                        )
            if files:
                self._exchange(files, then={"layout": known | digests(files, ready)})

    def append(
        self, row: Mapping[str, Any], arrays: Mapping[str, Mapping[str, np.ndarray]]
    ) -> None:
        """Add one document: `arrays` by group and name, each without the document axis. It counts
        once this returns.

        Results were made from fewer documents, so they are dropped. A first document that cannot be
        written leaves nothing of the store.
        """
        with self._or_nothing(), writing(self.path):
            self._encoder = self._encoder or Encoder(self._folder, self._manifest["captured"])
            entry = entry_of(row, self._encoder.chunks(str(row["name"]), arrays))
        self.append_entry(entry)

    def append_entry(self, entry: Entry) -> None:
        """Add one document as `append` does, packed already, here or by another process."""
        waiting = self._waiting
        if waiting and waiting.stop % DOCUMENTS == 0:
            self.settle(self.drafting)
            waiting = self._waiting
        with self._or_nothing(), writing(self.path):
            if self._manifest["results"]:
                self._exchange([], drops=list(self._manifest["results"]), then={"results": {}})
            chain = self._manifest["rows"]["chain"]
            for row in self._manifest["documents"][waiting.start :]:
                chain = link(chain, row)
            enter(self._folder, waiting.stop, chain, entry)
            self._manifest["documents"].append(dict(entry.row))
            if self._folder != self.path:
                flush_all(files_below(self._folder), self._folder)
                self._take_place()
        send(self.path)

    def settle(self, drafting: Drafting = drafted) -> None:
        """Move what stands in the journal into shards: when no more documents come for now, and
        whenever a shard is full.
        """
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
        """Move the draft to `path`; the run that stands there is set aside until that is done."""
        aside = beside(self.path, "old")
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
        """Write or replace result groups together, and take others away, as far as they are there:
        a reader sees what was there before or all that is there then.

        Groups that are not looked at (`StoredRun.open`) are taken away unless they are written.
        """
        self.settle()
        ready = beside(self.path, "ready")
        with writing(self.path), zarr_awaited():
            clear_away(ready)
            try:
                for name, dataset in groups.items():
                    write_group(dataset, ready / name)
                made = {name: digests(files_below(ready / name), ready) for name in groups}
                held = self._manifest["results"]
                gone = {name for name in held if name in drops or name not in self.results}
                gone -= set(made)
                then = {
                    "results": (
                        {name: value for name, value in held.items() if name not in gone} | made
                    )
                }
                self._exchange([ready / name for name in groups], drops=sorted(gone), then=then)
            finally:
                if not under_way(self.path):
                    shutil.rmtree(ready, ignore_errors=True)
        self._results = True

    def restore(self, groups: Mapping[str, xr.Dataset]) -> list[str]:
        """Write result groups in place of damaged ones that they are equal to, bit for bit; returns
        the names of those that differ, and writes none then.
        """
        ready, held = beside(self.path, "ready"), self._manifest["results"]
        with writing(self.path), zarr_awaited():
            clear_away(ready)
            try:
                for name, dataset in groups.items():
                    write_group(dataset, ready / name)
                other = [
                    name
                    for name in groups
                    if digests(files_below(ready / name), ready) != held.get(name)
                ]
                if not other:
                    self._exchange([ready / name for name in groups], then={"results": held})
            finally:
                if not under_way(self.path):
                    shutil.rmtree(ready, ignore_errors=True)
        return other

    def _exchange(
        self, moves: Collection[Path], *, then: dict[str, Any], drops: Collection[str] = ()
    ) -> None:
        """Let files and folders that lie ready beside the store take their places, and groups go,
        as one step: it is recorded, then done.

        moves: below `beside(path, "ready")`. then: what of the manifest is replaced.
        """
        ready = beside(self.path, "ready")
        if moves:
            flush_all(files_below(ready), ready)
        manifest = self._manifest
        manifest["pending"] = {
            "moves": [below(move, ready) for move in moves],
            "drops": list(drops),
            "then": then,
        }
        pending, documents = manifest["pending"], manifest["documents"]
        begin(self.path, pending)
        try:
            self._save()
            finish(self.path)
        except (Exception, KeyboardInterrupt):
            del manifest["pending"]
            with suppress(InputError, StoreError, OSError):
                if under_way(self.path):  # readers are refused until it is done
                    finish(self.path)
                self._reread(documents)
            if not under_way(self.path):
                forget(pending)
            raise
        self._reread(documents)

    def _reread(self, documents: list[dict[str, Any]]) -> None:
        """Take in what the root says now of a run of these documents."""
        self.attributes, self._seen = read_root(self.path), mark_of(self.path)
        self._manifest["documents"] = documents

    def _save(self) -> None:
        save(self._folder, self.attributes)
        self._seen = mark_of(self._folder)
