"""Drives a measurement: a source hands over layer by layer, observers turn each into numbers,
documents are appended to a store.

Only one layer's tensors live at a time, so memory does not grow with the number of layers.
Observers are functions of one layer of one document; a user adds a measurement by writing one. A
source that has its documents measured elsewhere (`empirical.capture.cluster`) hands them over
packed; they are written here, in their order, as any. Imports torch, and the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import tee
from pathlib import Path
from typing import Any

import numpy as np

from empirical.capture.identity import execution, provenance, refuse_other
from empirical.capture.layer_view import RunShape
from empirical.capture.measuring import Batch, Elsewhere, Measured, Measuring, Packed
from empirical.capture.observers import Observer, Progress
from empirical.capture.source import Source, Tapped
from empirical.measure.compilation import Compilation, compilation
from empirical.measure.convention import Convention
from empirical.sources.models import LoadedModel
from empirical.sources.queries import LAST, Queries
from empirical.sources.windows import Windows
from empirical.store.handed import Place, place_beside
from empirical.store.lock import alone
from empirical.store.manifest import read_root
from empirical.store.store import Store

_thread = partial(ThreadPoolExecutor, 1)


def capture(
    model: LoadedModel | Source | Elsewhere,
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
    """Measure every window with every observer, append it to the store at `path`, going on where an
    equal run stopped, and return that, complete.

    Args:
        model, windows: found and cut by `empirical.sources`; or another source of layers, here or
            elsewhere, and the windows that these are of.
        observers: one per group of the store.
        n: sizes N of the selected set, ascending, at most the number of positions.
        queries: which queries of a window are analysed.
        convention, seed, batch: of ties and balls, of null baselines, windows in a forward pass.
        measure: where layers are measured: "cpu", by compiled loops, "device", by torch on the
            device where each lives, "auto": so unless that is the CPU.
        settings: further provenance that makes two runs equal or not.
        fresh: measure anew. What stands at `path` must be a run; it is thrown away once the first
            document of the new one is complete.
        on_progress: called after each layer and document.
        on_kept: called by the thread that writes, with how many documents are safe in the store.

    Raises:
        InputError: if a store of other settings stands at `path` or something that is no run, an
            observer refuses the model, a captured row holds NaN or infinity, or the disk is full.
        StoreError: if the store at `path` is damaged.
        KeyboardInterrupt: passed on after the documents that were complete are safe.
    """
    options = {"n": n, "queries": queries, "convention": convention, "seed": seed, "batch": batch}
    source: Source | Elsewhere = (
        Tapped(model, windows.token_ids[:1]) if isinstance(model, LoadedModel) else model
    )
    where = execution(source.devices, measure)
    recorded = provenance(source, windows, measure=where, settings=settings or {}, **options)
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
    """The state of one capture: which documents are done, the one being measured, and the one
    being written behind it.
    """

    source: Source | Elsewhere
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
    """Where who measures elsewhere may write."""
    prepared: float = 0.0
    """Seconds that another process took before it could measure."""

    def complete(self) -> Store:
        """Check what stands at `path`, the observers and the source itself, then measure what is
        missing.
        """
        self.measuring.plans()  # an observer refuses here what it cannot measure
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
        """The run that stands at `path` and is to be completed."""
        if not self.path.exists():
            return None
        if self.fresh:
            read_root(self.path, damaged=True)  # refuses what is no run
            return None
        store = Store.open(self.path)
        refuse_other(store, self.recorded, self.windows)
        self.source.resume(store.documents)
        store.extend(len(self.windows.names))
        return store

    def _measure(self) -> None:
        """Measure what is missing; a document is written while the next one is measured."""
        total = len(self.windows.names)
        done = len(self.store.documents) if self.store else 0
        self.started = time.perf_counter()
        self._report(done, 0)
        elsewhere = isinstance(self.source, Elsewhere)
        with (
            place_beside(self.path) if elsewhere else nullcontext() as self.place,
            compilation() as self.compiled,
            _thread("geostat-store") as writer,
            _thread("geostat-beside") as beside,
        ):
            try:
                with closing(self._measured(done, total, beside)) as every:
                    for batch, measured in every:
                        self.measuring = self.measuring.seeing(measured.visible)
                        self.tokens += batch.token_ids.size
                        self._await_writer()
                        self.pending = writer.submit(self._append, len(batch.rows), measured)
                        self._report(batch.documents.stop, 0)
            except KeyboardInterrupt as error:
                self._await_writer()
                raise KeyboardInterrupt(self._interrupted()) from error
            finally:
                self._await_writer()
                if self.store is not None:
                    self.store.settle()

    def _measured(
        self, done: int, total: int, beside: Executor
    ) -> Generator[tuple[Batch, Measured | Packed], None, None]:
        """Yield each batch of the documents that are missing, measured here, or elsewhere."""
        batches = (
            Batch.of(self.windows, range(start, min(start + self.batch, total)))
            for start in range(done, total, self.batch)
        )
        if isinstance(self.source, Elsewhere):
            assert self.place is not None
            told, taken = tee(batches)
            with closing(self.source.measured(self.measuring, told, self.place)) as every:
                for batch, packed in zip(taken, every, strict=True):
                    self.prepared = max(self.prepared, packed.prepared)
                    yield batch, packed
            return
        for batch in batches:
            report = partial(self._report, batch.documents.start)
            yield batch, self.measuring.batch(self.source, batch, beside, report)

    def _await_writer(self) -> None:
        """Wait for the document that is being written, and pass on what went wrong with it."""
        if self.pending is not None:
            self.pending.exception()  # waits; where Ctrl-C breaks in, it is still pending
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
        how = "--resume in place of --fresh" if self.fresh else "--resume"
        return (
            f"interrupted: {kept} of {total} documents are kept in {self.path}. Run the same"
            f" command again with {how} to go on."
        )

    def _append(self, documents: int, measured: Measured | Packed) -> None:
        for place in range(documents):
            store = self.store or Store.create(
                self.path,
                provenance=self.recorded,
                plan=self.measuring.plans(),
                documents=len(self.windows.names),
                fresh=self.fresh,
            )
            if isinstance(self.source, Elsewhere) and self.place is not None:
                store.drafting = partial(self.source.drafted, self.place)
            measured.append(place, store)
            self.store = store
            if self.on_kept is not None:
                self.on_kept(len(store.documents))

    def _report(self, documents: int, layer: int) -> None:
        if self.on_progress is None:
            return
        total, positions = self.windows.token_ids.shape
        part = min(self.batch, total - documents) * positions * layer / self.measuring.shape.layers
        self.on_progress(
            Progress(
                documents=documents,
                total=total,
                layer=layer,
                layers=self.measuring.shape.layers,
                tokens=self.tokens + part,
                tokens_left=(total - documents) * positions - part,
                seconds=time.perf_counter()
                - self.started
                - (self.compiled.seconds if self.compiled else 0.0)
                - self.prepared,
            )
        )
