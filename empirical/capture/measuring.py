"""Measurement of a batch: windows that go through a model together, from the source of their layers
to the arrays of each document.

A layer on the CPU is finished when its call returns, except for observers that run in the
background thread. A layer on a device leaves its results there until the document is complete;
observers that need the CPU get a copy in the background thread. The choice does not change what a
thread writes, so equal runs give equal numbers. Batches are independent, so any process may measure
one. Imports torch, the observers and the store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from empirical.capture.layer_view import (
    LAYERS,
    Later,
    LayerView,
    RunShape,
    alike,
    fetched,
    layer_view,
    refuse_unless,
    refuse_unsound,
    sound_rows,
    together,
)
from empirical.capture.observers import Buffers, Observer
from empirical.capture.source import Described, Source
from empirical.sources.windows import Windows
from empirical.store.journal import Entry, Place
from empirical.store.layout import GroupPlan
from empirical.store.shards import Drafts
from empirical.tap.interface import whole_products
from empirical.tap.tap import TappedLayer

AHEAD: Final = 2
"""Layers that may wait for the background thread; more would fill the memory."""

CHECK: Final = ""
"""Group name for the results of checks on captured rows."""


class Document:
    """One document during its measurement: its buffers and its pending results."""

    def __init__(
        self,
        name: str,
        observers: Sequence[Observer],
        plans: Mapping[str, GroupPlan],
        background: Executor,
    ) -> None:
        self.name, self.observers, self.background = name, observers, background
        self.buffers = Buffers(plans)
        self.waiting: dict[tuple[str, int, str], torch.Tensor | Later] = {}
        self.gathered: list[LayerView] = []
        self.pending: deque[Future[None]] = deque()

    def observe(self, view: LayerView) -> None:
        """Measure a layer with every observer; an InputError if a row on the CPU is not finite."""
        if not view.on_device:
            self._measure_on_host(view)
            return
        for what, rows in sound_rows(view).items():
            self.waiting[CHECK, view.layer, what] = rows
        if self.gathered and not alike(self.gathered[0], view):
            self._measure_gathered()
        self.gathered.append(view)
        if len(self.gathered) == LAYERS:
            self._measure_gathered()
        on_cpu = [observer for observer in self.observers if not hasattr(observer, "on_device")]
        if on_cpu:
            self._await_but(self.background.submit(self._measure_copy, view, on_cpu, _now(view)))

    def whole(self) -> Buffers:
        """Wait for pending work and return all arrays; an InputError if a row is unsound."""
        self._measure_gathered()
        while self.pending:
            self.pending.popleft().result()
        arrays = fetched(self.waiting)
        self.waiting.clear()
        for (group, layer, name), array in arrays.items():
            if group == CHECK:
                refuse_unless(array, self.name, layer, name)
            else:
                self.buffers.put(group, layer, {name: array})
        return self.buffers

    def _measure_on_host(self, view: LayerView) -> None:
        """Measure a layer on the CPU; in this thread only if there is one core."""
        refuse_unsound(view, self.name)
        apart: list[Observer] = []
        here = list(self.observers)
        if torch.get_num_threads() > 1:
            apart = [observer for observer in here if getattr(observer, "in_background", False)]
            here = [observer for observer in here if observer not in apart]
        pending = self.background.submit(self._measure, view, apart) if apart else None
        self._measure(view, here)
        if pending is not None:
            self._await_but(pending)

    def _await_but(self, latest: Future[None]) -> None:
        """Wait until at most `AHEAD` layers are pending in the background thread."""
        self.pending.append(latest)
        while len(self.pending) > AHEAD:
            self.pending.popleft().result()

    def _measure_gathered(self) -> None:
        """Measure the gathered layers on their device."""
        if not self.gathered:
            return
        layers = together(self.gathered)
        for observer in self.observers:
            if not hasattr(observer, "on_device"):
                continue
            for view, measured in zip(layers.views, observer.on_device(layers), strict=True):
                for name, array in measured.items():
                    if isinstance(array, np.ndarray):
                        self.buffers.put(observer.group, view.layer, {name: array})
                    else:
                        self.waiting[observer.group, view.layer, name] = array
        self.gathered = []

    def _measure_copy(
        self, view: LayerView, observers: Sequence[Observer], ready: torch.cuda.Event | None
    ) -> None:
        if ready is not None:
            ready.synchronize()
        host_view = view.on_host()
        refuse_unsound(host_view, self.name)
        self._measure(host_view, observers)

    def _measure(self, view: LayerView, observers: Sequence[Observer]) -> None:
        for observer in observers:
            self.buffers.put(observer.group, view.layer, observer(view))


def _now(view: LayerView) -> torch.cuda.Event | None:
    """Record a CUDA event of the work queued so far, which another thread would not wait for."""
    if view.every.device.type != "cuda":
        return None
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(view.every.device))
    return event


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Windows that go through the model together."""

    documents: range
    """Indices of the documents in the run."""
    token_ids: NDArray[np.int32]
    """(document, position)"""
    rows: Sequence[dict[str, Any]]
    """A run's record of each document, as far as its window determines it."""

    @classmethod
    def of(cls, windows: Windows, documents: range) -> Batch:
        """Return a batch of some documents of a run's windows."""
        return cls(
            documents=documents,
            token_ids=windows.token_ids[documents.start : documents.stop],
            rows=[windows.row(document) for document in documents],
        )

    @property
    def sha256(self) -> tuple[str, ...]:
        """Digests of the windows; empty if their tokens are unknown."""
        return tuple(row.get("sha256", "") for row in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measured documents of a batch."""

    rows: Sequence[Mapping[str, Any]]
    contents: Sequence[Buffers | Entry]
    """Arrays of each document; from another process, a document packed for the store."""
    visible: tuple[int, ...]
    """Number of visible tokens of each layer."""
    prepared: float = 0.0
    """Seconds of preparation in another process, such as loading the model."""


@runtime_checkable
class WorkerSource(Described, Protocol):
    """A source whose documents are measured by workers."""

    def measured(
        self, measuring: Measuring, batches: Iterable[Batch], place: Place
    ) -> Generator[Measured, None, None]:
        """Yield the measurements of each batch, in order; a bounded number is in progress.

        place: where workers that share the run's disk write its documents.
        """

    def drafted(self, place: Place, folder: Path, documents: range) -> Drafts:
        """Write the shards of some documents of the run's journal, as `settling.drafted` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """The measurements of every document of a run, and how they are made."""

    observers: Sequence[Observer]
    shape: RunShape
    where: str
    """Where layers are measured: "cpu", "device" or "auto"."""

    def plans(self) -> dict[str, GroupPlan]:
        """Return the plan of each group; an InputError if an observer refuses the model."""
        return {observer.group: observer.plan(self.shape) for observer in self.observers}

    def queries(self, sha256: Sequence[str]) -> torch.Tensor:
        """Return positions of the queries of windows with these digests, (document, query)."""
        return torch.as_tensor(self.shape.queries.positions(self.shape.positions, sha256))

    def seeing(self, visible: tuple[int, ...]) -> Measuring:
        """Return a copy with the number of visible tokens of each layer."""
        return replace(self, shape=replace(self.shape, visible=visible))

    def batch(
        self,
        source: Source,
        batch: Batch,
        background: Executor,
        on_layer: Callable[[int], None] = lambda layers: None,
    ) -> Measured:
        """Measure a batch of documents, whose layers `source` provides.

        `background` is the thread for CPU measurements while the model continues; `on_layer` is
        called after each layer with the number of measured layers.

        Raises:
            InputError: a captured row holds NaN or infinity.
        """
        measured = [
            Document(str(row["name"]), self.observers, self.plans(), background)
            for row in batch.rows
        ]
        visible: list[int] = []
        queries = self.queries(batch.sha256)

        def observe(tapped: TappedLayer) -> None:
            on_device = self.where == "device" or (
                self.where == "auto" and tapped.values.device.type != "cpu"
            )
            for slot, document in enumerate(batch.documents):
                digest = int((batch.sha256[slot] or source.digest())[:8], 16)
                view = layer_view(
                    tapped,
                    slot,
                    queries[slot].tolist(),
                    self.shape,
                    on_device=on_device,
                    document=document,
                    seed=(self.shape.seed, digest, tapped.index),
                    token_ids=batch.token_ids[slot] if self.shape.token_ids else None,
                )
                if slot == 0:
                    visible.append(self.shape.positions - view.first)
                measured[slot].observe(view)
            on_layer(tapped.index + 1)

        with whole_products():
            source.hand_over(batch.documents, batch.token_ids, queries, observe)
            buffers = [document.whole() for document in measured]
        for buffer, ids in zip(buffers, batch.token_ids, strict=True):
            for arrays in buffer.arrays.values():
                if "token_id" in arrays:
                    arrays["token_id"][...] = ids
        rows = [
            row | source.row(document)
            for document, row in zip(batch.documents, batch.rows, strict=True)
        ]
        return Measured(rows=rows, contents=buffers, visible=tuple(visible))
