"""Reading of a run: every file compared with its digest, and one state of the run seen, whoever
writes to it meanwhile.

Imports xarray and zarr.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import xarray as xr
from zarr.errors import ZarrUserWarning

from empirical.errors import InputError, StoreError
from empirical.schema import with_f_scores
from empirical.store import bundle, mapped
from empirical.store.disk import reading, zarr_awaited
from empirical.store.integrity import Which, check, looked_at
from empirical.store.lock import alone
from empirical.store.manifest import FRESH, Mark, beside, mark_of, read_root
from empirical.store.remote.origin import called
from empirical.store.settling import as_settled

Read = TypeVar("Read")

PATIENCE: Final = 2.0
"""Seconds for which a reader waits until another process has moved its results into place, which
takes milliseconds.
"""
BETWEEN_LOOKS: Final = 0.02


RESULTS: Final = 1 << 33
"""Bytes of a group of results at most. The largest of the built-in model's, /envelope, has 7.5 MB,
of 270 heads at 22 sizes N; of 5,120 heads at 160 sizes it would have 1 GB."""


def _refuse_odd(results: xr.Dataset, place: Path) -> None:
    """Refuse a group of results that was packed otherwise than geostat does, or would fill the
    memory: a few bytes of somebody else's may stand for many gigabytes.
    """
    sharded = any(one.encoding.get("shards") for one in results.variables.values())
    if sharded or results.nbytes > RESULTS:
        seen = "in shards" if sharded else f"of {results.nbytes:,} bytes"
        raise StoreError(
            f"{place}: its arrays are {seen}, expected at most {RESULTS:,} bytes, not in shards."
            f" {bundle.REMEDY}"
        )


class StoredRun:
    """A run on disk, to be read: `open` it; `read` a group or the whole `tree`. Whoever made it:
    nothing is written, in it or beside it, and nothing of it is carried out.

    Raises:
        StoreError: when what is on disk contradicts the manifest.
        InputError: when there is no run, or it may not be read.
    """

    def __init__(self, path: Path, attributes: dict[str, Any]) -> None:
        self.named = path
        """As it was named: what is made of a run goes beside that, which may be a link."""
        self.path = Path(os.path.realpath(path)) if path.is_symlink() else path
        self.attributes = attributes  # provenance and manifest, as stored
        self._alone = False
        self._results: Which = True
        self._seen: Mark = None

    @classmethod
    def open(cls, path: Path, *, results: Which = True) -> Self:
        """Open what stands at `path`, comparing every file with its digest.

        Result groups other than `results` are not looked at and count as not there: for who makes
        them anew.
        """
        store = cls(path, {})
        store._results = results
        if not store.path.exists():
            if beside(store.path, "old").exists():  # a new run was to take its place
                store._recover()
            elif (url := called(store.path)) != str(store.path):
                raise InputError(
                    f"{url}: no such run. Make one with `geostat capture --out {url}`."
                )
        store._load()
        return store

    def _load(self) -> None:
        """Read the manifest and compare every file with it, once more where another process
        wrote meanwhile.
        """
        waited: tuple[Mark, float] | None = None
        while True:
            mark, attributes = mark_of(self.path), read_root(self.path)
            if "pending" in attributes["manifest"]:
                waited = waited if waited and waited[0] == mark else (mark, time.monotonic())
                self._wait(time.monotonic() - waited[1])
                continue
            try:
                documents = check(self.path, attributes, results=self._results)
            except StoreError:
                if self._alone or mark_of(self.path) == mark:
                    raise
                continue
            if self._alone or mark_of(self.path) == mark:
                attributes["manifest"]["documents"] = documents
                self.attributes, self._seen = attributes, mark
                return

    def _wait(self, seconds: float) -> None:
        """Let another process move its results into place; refuse once nothing has moved for
        some `seconds`, for it was killed.
        """
        if seconds < PATIENCE and not self._alone:
            time.sleep(BETWEEN_LOOKS)
            return
        if not self._alone:
            self._recover()
            if "pending" not in read_root(self.path)["manifest"]:
                return
        raise InputError(
            f"{self.path}: a command was stopped while it put results in place. Run that command"
            " again on the machine and in the folder where it ran, which finishes it; or give its"
            " results up: `geostat doctor --repair` on the run, `geostat fit` with --fresh, or"
            f" measure it again with {FRESH}."
        )

    def _recover(self) -> None:
        """Finish what a killed writer left, where this may write."""

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the one process that writes to this run, with the manifest as it stands on the disk
        now.

        Raises:
            InputError: if another process writes to it, or it is gone.
            StoreError: if it has been damaged since.
        """
        with alone(self.path):
            self._alone = True
            try:
                if mark_of(self.path) != self._seen:
                    self._load()
                yield
            finally:
                self._alone = False

    def _of_one_state(self, read: Callable[[], Read]) -> Read:
        """Return what `read` reads of one state of the run: again where another process wrote
        meanwhile.
        """
        while True:
            try:
                result = read()
            except StoreError:
                if self._alone or mark_of(self.path) == self._seen:
                    raise
            else:
                if self._alone or mark_of(self.path) == self._seen:
                    return result
            self._load()

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Manifest rows of the complete documents: name, sha256 of window and text, digest of
        the chunks.
        """
        return list(self._manifest["documents"])

    @property
    def results(self) -> list[str]:
        """Names of the complete result groups."""
        return sorted(looked_at(self._manifest, self._results))

    @property
    def _waiting(self) -> range:
        """Places of the documents that stand in the journal; those before lie in shards."""
        return range(self._manifest["rows"]["count"], len(self._manifest["documents"]))

    @property
    def _manifest(self) -> dict[str, Any]:
        return self.attributes["manifest"]

    def read(self, group: str) -> xr.Dataset:
        """Read one group, complete documents only; every chunk's checksum is verified as it is
        read.
        """
        return self._of_one_state(lambda: self._read(group))

    def _read(self, group: str) -> xr.Dataset:
        captured = self._manifest["captured"]
        if group not in captured and group not in self.results:
            raise InputError(
                f"{self.path}: holds no /{group}; it has {', '.join([*captured, *self.results])}."
            )
        options: dict[str, Any] = {
            "consolidated": False,
            "zarr_format": 3,
            "mask_and_scale": False,
            "decode_times": False,
            "decode_timedelta": False,
        }
        try:
            with reading(self.path / group), zarr_awaited(), warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", ZarrUserWarning
                )  # of what another process is moving just now: it is read again then
                with as_settled(self.path, self._waiting) as where:
                    dataset = xr.open_zarr(where, group=group, chunks=None, **options)
                    if group not in captured:
                        _refuse_odd(dataset, self.path / group)
                    else:
                        dataset = dataset.isel(document=slice(0, len(self._manifest["documents"])))
                    return mapped.read(dataset, with_f_scores)
        except (InputError, StoreError):
            raise
        except (
            Exception
        ) as error:  # zarr's, of a codec, of the machine: damage only if bytes differ
            check(self.path, self.attributes, results=self._results)
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise InputError(
                f"{self.path}/{group}: cannot be read here ({reason}), though every file is what"
                " was written. Free memory, raise the limits of this machine, or read it elsewhere."
            ) from error

    def tree(
        self, *, only: Collection[str] | None = None, known: Mapping[str, xr.Dataset] | None = None
    ) -> xr.DataTree:
        """The run as a DataTree: captured groups and results, of them `only` what is asked for,
        provenance at the root.

        Groups that are `known` from before are not read again.
        """
        return self._of_one_state(lambda: self._tree(only, known or {}))

    def _tree(self, only: Collection[str] | None, known: Mapping[str, xr.Dataset]) -> xr.DataTree:
        names = [
            name
            for name in (*self._manifest["captured"], *self.results)
            if only is None or name in only
        ]
        groups = {name: known[name] if name in known else self._read(name) for name in names}
        tree = xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})
        tree.attrs = {
            **self.attributes,
            "manifest": {name: self._manifest[name] for name in ("captured", "documents")},
        }
        return tree
