"""Capture of a run: a source provides layers, observers turn each layer into numbers, and complete
documents are appended to a store.

Only one layer's tensors live at a time, so memory does not grow with the number of layers.
Observers are functions of one layer of one document; users add measurements by writing one.
Documents measured by workers (`empirical.capture.cluster`) arrive packed and are written here in
order. Imports torch and the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from empirical.capture.identity import execution, provenance, refuse_other
from empirical.capture.layer_view import RunShape
from empirical.capture.measuring import Batch, Measured, Measuring, WorkerSource
from empirical.capture.observers import Observer, Progress
from empirical.capture.source import Source, Tapped
from empirical.measure.compiled import Compilation, compilation
from empirical.measure.selection import Convention
from empirical.sources.models import LoadedModel
from empirical.sources.queries import LAST, Queries
from empirical.sources.windows import Windows
from empirical.store.journal import Entry, Place, place_beside
from empirical.store.lock import alone
from empirical.store.manifest import read_root
from empirical.store.store import Store

_thread = partial(ThreadPoolExecutor, 1)


def capture(
    model: LoadedModel | Source | WorkerSource,
    windows: Windows,
    path: Path,
    *,
    observers: Sequence[Observer],
    n: np.ndarray,
    queries: Queries = LAST,
    convention: Convention = Convention.PAPER,
    seed: int = 0,
    batch: int = 1,
    measure: str = "auto",
    settings: Mapping[str, Any] | None = None,
    fresh: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    on_kept: Callable[[int], None] | None = None,
) -> Store:
    """Measure every window with every observer and append it to the store at `path`. Resumes an
    equal run. Returns the complete store.

    Args:
        model, windows: found and cut by `empirical.sources`; or another source of layers, local or
            remote, and its windows.
        observers: one per group of the store.
        n: sizes N of the selected set, ascending, at most the number of positions.
        queries: analysed queries of a window.
        convention: treatment of ties and balls.
        seed: seed of the null baselines.
        batch: windows in one forward pass.
        measure: where layers are measured: "cpu" (compiled loops), "device" (torch, on each layer's
            device), or "auto" ("device" unless that is the CPU).
        settings: further provenance in which equal runs must agree.
        fresh: measure again. `path` must hold a run, which is deleted once the first document of
            the new run is complete.
        on_progress: called after each layer and document.
        on_kept: called by the writing thread with the number of documents stored safely.

    Raises:
        InputError: `path` holds a store with other settings or something that is no run, an
            observer refuses the model, a captured row holds NaN or infinity, or the disk is full.
        StoreError: the store at `path` is damaged.
        KeyboardInterrupt: raised again after the complete documents are stored safely.
    """
    source: Source | WorkerSource = (
        Tapped(model, windows.token_ids[:1]) if isinstance(model, LoadedModel) else model
    )
    recorded = provenance(
        source,
        windows,
        measure=execution(source.devices, measure),
        settings=settings or {},
        n=n,
        queries=queries,
        convention=convention,
        seed=seed,
        batch=batch,
    )
    shape = RunShape(
        **source.sizes,
        positions=windows.token_ids.shape[1],
        n=np.asarray(n, dtype=np.int64),
        convention=convention,
        seed=seed,
        queries=queries,
        token_ids=windows.known,
    )
    path = path.resolve() if path.is_symlink() else path
    measuring = Measuring(observers=observers, shape=shape, where=measure)
    run = _Run(source, windows, path, measuring, recorded, batch, fresh, on_progress, on_kept)
    with alone(path):
        return run.complete()


@dataclass(slots=True)
class _Run:
    """State of one capture: complete documents, and those being measured and written."""

    source: Source | WorkerSource
    windows: Windows
    path: Path
    measuring: Measuring
    recorded: Mapping[str, Any]
    batch: int
    fresh: bool
    on_progress: Callable[[Progress], None] | None
    on_kept: Callable[[int], None] | None
    store: Store | None = None
    started: float = 0.0
    tokens: int = 0
    pending: Future[None] | None = None
    compiled: Compilation | None = None
    place: Place | None = None
    """Folder for documents that workers write themselves."""
    prepared: float = 0.0
    """Seconds of preparation in another process."""

    def complete(self) -> Store:
        """Check the existing run, the observers and the source; measure missing documents."""
        self.measuring.plans()  # observers refuse here models that they cannot measure
        self.store = self._existing()
        checked = None
        if self.store is None or "parity" not in self.store.attributes:
            queries = self.measuring.queries(self.windows.sha256[:1])
            checked = self.source.check(self.windows.token_ids[:1], queries)
        self._measure()
        assert self.store is not None
        if checked is not None:
            self.store.note(parity=checked)
        if self.store.attributes.get("skipped") != self.windows.skipped:
            self.store.note(skipped=self.windows.skipped)
        return self.store

    def _existing(self) -> Store | None:
        """Return the run at `path` that is to be completed, or None."""
        if not self.path.exists():
            return None
        if self.fresh:
            read_root(self.path, damaged=True)  # refuses anything but a run
            return None
        store = Store.open(self.path)
        refuse_other(store, self.recorded, self.windows)
        self.source.resume(store.documents)
        store.extend(len(self.windows.names))
        return store

    def _measure(self) -> None:
        """Measure the missing documents; each is written while the next is measured."""
        done = len(self.store.documents) if self.store else 0
        self.started = time.perf_counter()
        self._report(done, 0)
        by_workers = isinstance(self.source, WorkerSource)
        with (
            place_beside(self.path) if by_workers else nullcontext() as self.place,
            compilation() as self.compiled,
            _thread("geostat-store") as writer,
            _thread("geostat-background") as background,
        ):
            try:
                with closing(self._measured(done, background)) as batches:
                    for measured in batches:
                        self.measuring = self.measuring.seeing(measured.visible)
                        self.prepared = max(self.prepared, measured.prepared)
                        self.tokens += len(measured.rows) * self.windows.token_ids.shape[1]
                        done += len(measured.rows)
                        self._await_writer()
                        self.pending = writer.submit(self._append, measured)
                        self._report(done, 0)
            except KeyboardInterrupt as error:
                self._await_writer()
                raise KeyboardInterrupt(self._interrupted()) from error
            finally:
                self._await_writer()
                if self.store is not None:
                    self.store.settle()

    def _measured(self, done: int, background: Executor) -> Generator[Measured, None, None]:
        """Yield each batch of missing documents, measured here or by workers."""
        total = len(self.windows.names)
        batches = (
            Batch.of(self.windows, range(start, min(start + self.batch, total)))
            for start in range(done, total, self.batch)
        )
        if isinstance(self.source, WorkerSource):
            assert self.place is not None
            yield from self.source.measured(self.measuring, batches, self.place)
            return
        for batch in batches:
            report = partial(self._report, batch.documents.start)
            yield self.measuring.batch(self.source, batch, background, report)

    def _await_writer(self) -> None:
        """Wait for the document being written, and raise its error if any."""
        if self.pending is not None:
            self.pending.exception()  # waits; after Ctrl-C it is still pending
            pending, self.pending = self.pending, None
            pending.result()

    def _interrupted(self) -> str:
        total = len(self.windows.names)
        if self.store is None and self.fresh and self.path.exists():
            return (
                f"interrupted before the first of {total} documents was complete: the run that"
                f" stood at {self.path} is kept."
            )
        kept = len(self.store.documents) if self.store else 0
        options = "--resume in place of --fresh" if self.fresh else "--resume"
        return (
            f"interrupted: {kept} of {total} documents are kept in {self.path}. Run the same"
            f" command again with {options} to go on."
        )

    def _append(self, measured: Measured) -> None:
        for row, content in zip(measured.rows, measured.contents, strict=True):
            store = self.store or Store.create(
                self.path,
                provenance=self.recorded,
                plan=self.measuring.plans(),
                documents=len(self.windows.names),
                fresh=self.fresh,
            )
            if isinstance(self.source, WorkerSource) and self.place is not None:
                store.drafting = partial(self.source.drafted, self.place)
            if isinstance(content, Entry):
                store.append_entry(content)
            else:
                store.append(row, content.arrays)
            self.store = store
            if self.on_kept is not None:
                self.on_kept(len(store.documents))

    def _report(self, documents: int, layer: int) -> None:
        if self.on_progress is None:
            return
        total, positions = self.windows.token_ids.shape
        part = min(self.batch, total - documents) * positions * layer / self.measuring.shape.layers
        compiling = self.compiled.seconds if self.compiled else 0.0
        self.on_progress(
            Progress(
                documents=documents,
                total=total,
                layer=layer,
                layers=self.measuring.shape.layers,
                tokens=self.tokens + part,
                tokens_left=(total - documents) * positions - part,
                seconds=time.perf_counter() - self.started - compiling - self.prepared,
            )
        )
