"""Reading of a run: every file is verified against its digest, and readers see one state of the run
even during writes.

Imports xarray and zarr.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Self, TypeVar

import numpy as np
import xarray as xr
from zarr.core.sync import sync
from zarr.errors import ZarrUserWarning

from empirical.caches import place_in_cache
from empirical.errors import InputError, StoreError
from empirical.schema import SCHEMA_VERSION, with_current_names, with_f_scores
from empirical.store import bundle
from empirical.store.disk import reading, sidecar_path, writing, zarr_awaited
from empirical.store.integrity import Which, check, looked_at
from empirical.store.lock import alone
from empirical.store.manifest import FRESH, Mark, mark_of, read_root
from empirical.store.remote import called
from empirical.store.shards import DOCUMENTS, as_settled

Read = TypeVar("Read")

PATIENCE: Final = 2.0
"""Seconds that a reader waits for another process to move results into place, which takes
milliseconds.
"""
BETWEEN_LOOKS: Final = 0.02


RESULTS: Final = 1 << 33
"""Largest group of results, in bytes. The largest of the built-in model, /envelope, has 7.5 MB for
270 heads at 22 sizes N; 5,120 heads at 160 sizes need 1 GB.
"""


def _refuse_odd(results: xr.Dataset, place: Path) -> None:
    """Refuse a group of results with a foreign layout, or one that would fill the memory: a few
    bytes may decompress to many gigabytes.
    """
    sharded = any(variable.encoding.get("shards") for variable in results.variables.values())
    if sharded or results.nbytes > RESULTS:
        seen = "in shards" if sharded else f"of {results.nbytes:,} bytes"
        raise StoreError(
            f"{place}: its arrays are {seen}, expected at most {RESULTS:,} bytes, not in shards."
            f" {bundle.REMEDY}"
        )


HELD: Final = 1 << 30
"""Largest group kept in memory, in bytes."""


def read_whole(lazy: xr.Dataset, complete: Callable[[xr.Dataset], xr.Dataset]) -> xr.Dataset:
    """Return the result of `complete` on a lazily opened group: in memory up to HELD bytes,
    otherwise mapped from unnamed files in geostat's cache, or in the system's temporary folder if
    the cache cannot be written. Pages are loaded on access and evicted under memory pressure; a
    file disappears when the last process that maps it ends, however it ends.

    `complete` may add variables of a document that depend only on that document. Changes to a
    mapped array stay in memory.

    Raises:
        InputError: the disk is full.
    """
    documents = lazy.sizes.get("document", 0)
    if not documents or lazy.nbytes <= HELD:
        return complete(sync(lazy.load_async()))
    where = place_in_cache("mapped")
    with suppress(OSError):
        where.mkdir(parents=True, exist_ok=True)
    if not os.access(where, os.W_OK):
        where = Path(tempfile.gettempdir())
    files: dict[str, IO[bytes]] = {}
    rest: list[xr.Dataset] = []
    with ExitStack() as opened:
        for first in range(0, documents, DOCUMENTS):
            block = complete(lazy.isel(document=slice(first, first + DOCUMENTS)).load())
            arrays = {
                str(name): array for name, array in block.variables.items() if _by_document(array)
            }
            with writing(where):
                for name, array in arrays.items():
                    if name not in files:
                        files[name] = opened.enter_context(tempfile.TemporaryFile(dir=where))
                    files[name].write(np.ascontiguousarray(array.values).data)
                    files[name].flush()
            rest.append(block.drop_vars(arrays))
        mapped = {
            name: xr.Variable(array.dims, _map(files[name], array, documents), array.attrs)
            for name, array in arrays.items()
        }
    how: dict[str, Any] = dict.fromkeys(("data_vars", "coords"), "minimal")
    whole = xr.concat(rest, "document", compat="override", combine_attrs="override", **how)
    return whole.assign(mapped).set_coords(list(block.coords))


def _by_document(variable: xr.Variable) -> bool:
    """Return whether a variable is numeric with several values per document."""
    numbers = variable.dtype.kind in "biuf"
    return variable.ndim > 1 and variable.dims[0] == "document" and numbers


def _map(file: IO[bytes], block: xr.Variable, documents: int) -> np.ndarray:
    return np.memmap(file, dtype=block.dtype, mode="c", shape=(documents, *block.shape[1:]))


class StoredRun:
    """A run on disk, open for reading: `open` it, `read` a group or the whole `tree`.

    The run may come from elsewhere: nothing is written in it or next to it, and no recorded moves
    are carried out.

    Raises:
        StoreError: a file contradicts the manifest.
        InputError: there is no run, or it may not be read.
    """

    def __init__(self, path: Path, attributes: dict[str, Any]) -> None:
        self.named = path
        """As it was named: what is made of a run goes beside that, which may be a link."""
        self.path = Path(os.path.realpath(path)) if path.is_symlink() else path
        self.attributes = attributes
        """Provenance and manifest, as stored."""
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
            if sidecar_path(store.path, "old").exists():  # a new run was to take its place
                store._recover()
            elif (url := called(store.path)) != str(store.path):
                raise InputError(
                    f"{url}: no such run. Make one with `geostat capture --out {url}`."
                )
        store._load()
        return store

    def _load(self) -> None:
        """Read the manifest and compare every file; again if another process wrote meanwhile."""
        waited: tuple[Mark, float] | None = None
        while True:
            mark, attributes = mark_of(self.path), read_root(self.path)
            schema = attributes.get("schema_version")
            if isinstance(schema, int) and schema > SCHEMA_VERSION:
                raise InputError(
                    f"{self.path}: was written with schema {schema}, expected at most"
                    f" {SCHEMA_VERSION}. Install a newer geostat to read it."
                )
            if "pending" in attributes["manifest"]:
                waited = waited if waited and waited[0] == mark else (mark, time.monotonic())
                self._wait(time.monotonic() - waited[1])
                continue
            try:
                documents = check(self.path, attributes, results=self._results)
            except StoreError:
                if self._is_still(mark):
                    raise
                continue
            if self._is_still(mark):
                attributes["manifest"]["documents"] = documents
                self.attributes, self._seen = attributes, mark
                return

    def _is_still(self, mark: Mark) -> bool:
        """Return whether no other process changed the run since this mark."""
        return self._alone or mark_of(self.path) == mark

    def _wait(self, seconds: float) -> None:
        """Wait while another process moves results into place; refuse once nothing has moved for
        PATIENCE `seconds`, because that process was killed.
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
        """Finish the work of a killed writer, in writable runs."""

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the run's lock, with the current manifest; an InputError if another writes."""
        with alone(self.path):
            self._alone = True
            try:
                if mark_of(self.path) != self._seen:
                    self._load()
                yield
            finally:
                self._alone = False

    def _of_one_state(self, read: Callable[[], Read]) -> Read:
        """Return the result of `read` on one state; repeated if another process wrote."""
        while True:
            try:
                result = read()
            except StoreError:
                if self._is_still(self._seen):
                    raise
            else:
                if self._is_still(self._seen):
                    return result
            self._load()

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Rows of the complete documents: name, sha256 of window and text, digest of the chunks."""
        return list(self._manifest["documents"])

    @property
    def results(self) -> list[str]:
        """Names of the complete result groups."""
        return sorted(looked_at(self._manifest, self._results))

    @property
    def _waiting(self) -> range:
        """Indices of the documents in the journal; earlier ones are in shards."""
        return range(self._manifest["rows"]["count"], len(self._manifest["documents"]))

    @property
    def _manifest(self) -> dict[str, Any]:
        return self.attributes["manifest"]

    def read(self, group: str) -> xr.Dataset:
        """Read one group of the complete documents; every chunk's checksum is verified."""
        return self._of_one_state(lambda: self._read(group))

    def _read(self, group: str) -> xr.Dataset:
        captured = self._manifest["captured"]
        if group not in captured and group not in self.results:
            raise InputError(
                f"{self.path}: has no /{group}, only {', '.join([*captured, *self.results])}."
            )
        decoding = ("mask_and_scale", "decode_times", "decode_timedelta")
        as_written: dict[str, Any] = dict.fromkeys(decoding, False)
        try:
            with reading(self.path / group), zarr_awaited(), warnings.catch_warnings():
                # warnings about files that another process is moving; they are read again
                warnings.simplefilter("ignore", ZarrUserWarning)
                with as_settled(self.path, self._waiting) as where:
                    dataset = xr.open_zarr(
                        where,
                        group=group,
                        chunks=None,
                        consolidated=False,
                        zarr_format=3,
                        **as_written,
                    )
                    if group not in captured:
                        _refuse_odd(dataset, self.path / group)
                        dataset = with_current_names(group, dataset)
                    else:
                        dataset = dataset.isel(document=slice(0, len(self._manifest["documents"])))
                    return read_whole(dataset, with_f_scores)
        except (InputError, StoreError):
            raise
        except Exception as error:  # from zarr, a codec or the machine: damage only if bytes differ
            check(self.path, self.attributes, results=self._results)
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise InputError(
                f"{self.path}/{group}: cannot be read here ({reason}), although every file is"
                " intact. Free memory, raise the limits of this machine, or read it elsewhere."
            ) from error

    def tree(
        self, *, only: Collection[str] | None = None, known: Mapping[str, xr.Dataset] | None = None
    ) -> xr.DataTree:
        """Return the run as a DataTree: all groups, or those in `only`, with the provenance at the
        root. Groups in `known` are not read again.
        """
        return self._of_one_state(lambda: self._tree(only, known or {}))

    def _tree(self, only: Collection[str] | None, known: Mapping[str, xr.Dataset]) -> xr.DataTree:
        groups = {
            name: known[name] if name in known else self._read(name)
            for name in (*self._manifest["captured"], *self.results)
            if only is None or name in only
        }
        tree = xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})
        tree.attrs = {
            **self.attributes,
            "manifest": {name: self._manifest[name] for name in ("captured", "documents")},
        }
        return tree
