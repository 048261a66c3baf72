"""Measurement of a batch: windows that go through a model together, from the source of their layers
to the arrays of each document.

A batch knows of no other, so it may be measured in any process: here, or elsewhere, which hands
what is to stand in the store. Imports torch, the observers and the store.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from empirical.capture.document import Document
from empirical.capture.layer_view import RunShape, layer_view
from empirical.capture.observers import Buffers, Observer
from empirical.capture.source import Described, Source
from empirical.sources.windows import Windows
from empirical.store.handed import Place
from empirical.store.journal import Entry
from empirical.store.layout import GroupPlan
from empirical.store.settling import Drafts
from empirical.store.store import Store
from empirical.tap.interface import whole_products
from empirical.tap.tap import TappedLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Windows that go through the model together."""

    documents: range
    """Their places in the run."""
    token_ids: NDArray[np.int32]
    """(document, position)"""
    rows: Sequence[dict[str, Any]]
    """What the run records of each, as far as its window tells."""

    @classmethod
    def of(cls, windows: Windows, documents: range) -> Batch:
        """Take some documents of a run's windows."""
        return cls(
            documents=documents,
            token_ids=windows.token_ids[documents.start : documents.stop],
            rows=[windows.row(one) for one in documents],
        )

    @property
    def sha256(self) -> tuple[str, ...]:
        """Digests of the windows, empty where their tokens are not known."""
        return tuple(row.get("sha256", "") for row in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The documents of a batch, measured."""

    rows: Sequence[dict[str, Any]]
    buffers: Sequence[Buffers]
    visible: tuple[int, ...]
    """Visible tokens of each layer."""

    def append(self, place: int, store: Store) -> None:
        """Add one of the documents to a store."""
        store.append(self.rows[place], self.buffers[place].arrays)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The documents of a batch, measured by another process and packed for the store."""

    entries: Sequence[Entry]
    visible: tuple[int, ...]
    """Visible tokens of each layer."""
    prepared: float
    """Seconds that the process took before it could measure, such as to load the model."""

    def append(self, place: int, store: Store) -> None:
        """Add one of the documents to a store."""
        store.append_entry(self.entries[place])


@runtime_checkable
class Elsewhere(Described, Protocol):
    """A source whose documents are measured elsewhere."""

    def measured(
        self, measuring: Measuring, batches: Iterable[Batch], place: Place
    ) -> Generator[Packed, None, None]:
        """Yield what was measured of each batch, in their order; at most a few are under way.

        place: where who shares the disk of the run writes its documents.
        """

    def drafted(self, place: Place, folder: Path, documents: range) -> Drafts:
        """Write the shards of some documents of the run's journal, as `settling.drafted` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """What is measured of every document of a run, and how."""

    observers: Sequence[Observer]
    shape: RunShape
    where: str
    """Where layers are measured: "cpu", "device" or "auto"."""

    def plans(self) -> dict[str, GroupPlan]:
        """Return the plan of each group; an InputError where an observer refuses the model."""
        return {observer.group: observer.plan(self.shape) for observer in self.observers}

    def queries(self, sha256: Sequence[str]) -> torch.Tensor:
        """Positions of the analysed queries of windows with these digests, (document, query)."""
        return torch.as_tensor(self.shape.queries.positions(self.shape.positions, sha256))

    def seeing(self, visible: tuple[int, ...]) -> Measuring:
        """Return the same once it is known how many tokens each layer sees."""
        return replace(self, shape=replace(self.shape, visible=visible))

    def batch(
        self,
        source: Source,
        batch: Batch,
        beside: Executor,
        on_layer: Callable[[int], None] = lambda layers: None,
    ) -> Measured:
        """Measure a batch of documents.

        Args:
            source: hands over their layers.
            batch: the documents.
            beside: a thread for what is measured on the CPU while the model goes on.
            on_layer: called after each layer with how many are measured.

        Raises:
            InputError: if a captured row holds NaN or infinity.
        """
        measured = [
            Document(str(row["name"]), self.observers, self.plans(), beside) for row in batch.rows
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
                )
                if slot == 0:
                    visible.append(self.shape.positions - view.first)
                measured[slot].observe(view)
            on_layer(tapped.index + 1)

        with whole_products():
            source.hand_over(batch.documents, batch.token_ids, queries, observe)
            buffers = [one.whole() for one in measured]
        for buffer, ids in zip(buffers, batch.token_ids, strict=True):
            for arrays in buffer.arrays.values():
                if "token_id" in arrays:
                    arrays["token_id"][...] = ids
        rows = [row | source.row(one) for one, row in zip(batch.documents, batch.rows, strict=True)]
        return Measured(rows=rows, buffers=buffers, visible=tuple(visible))
