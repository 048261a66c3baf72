"""Worker side of a clustered capture: a plugin that loads the model once and measures batches.
Imports distributed.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from distributed import Worker, get_worker
from numpy.typing import NDArray

from empirical.capture.cluster.plugins import SameVersions
from empirical.capture.identity import differing
from empirical.capture.measuring import Batch, Measured, Measuring
from empirical.capture.observers import Buffers
from empirical.capture.source import Tapped
from empirical.errors import InputError
from empirical.measure.compiled import compilation
from empirical.sources.models import LoadedModel
from empirical.store.disk import writing
from empirical.store.journal import Place, entry_of
from empirical.store.layout import Encoder
from empirical.store.shards import Drafts, drafted


class Measurer(SameVersions):
    """Worker plugin that loads the model on first use, and measures one batch at a time."""

    def __init__(
        self, load: Callable[[], LoadedModel], versions: Mapping[str, str], threads: int | None
    ) -> None:
        super().__init__(versions, threads)
        self.load = load

    def setup(self, worker: Worker) -> None:
        """Refuse other versions; initialise the worker's state."""
        super().setup(worker)
        self.lock = threading.Lock()  # a model runs one tap at a time
        self.background = ThreadPoolExecutor(1, "geostat-background")
        self.source: Tapped | None = None
        self.encoder: Encoder | None = None

    def teardown(self, worker: Worker) -> None:
        """Release the model."""
        self.background.shutdown()
        self.source = self.encoder = None

    def loaded(self) -> Tapped:
        """Return the model as a source of layers; for the holder of the lock."""
        if self.source is None:
            if self.threads is not None:
                torch.set_num_threads(self.threads)
            self.source = Tapped(self.load())
        return self.source

    def describe(self) -> tuple[Mapping[str, Any], frozenset[str], dict[str, Any]]:
        """Return sizes, devices and provenance of the model."""
        with self.lock:
            source = self.loaded()
        return source.sizes, frozenset(source.devices), source.provenance()

    def check(self, token_ids: NDArray[np.int32], queries: torch.Tensor) -> dict[str, Any]:
        """Compare the tap with the eager implementation."""
        with self.lock:
            return self.loaded().check(token_ids, queries)

    def measure(
        self, measuring: Measuring, batch: Batch, provenance: Mapping[str, Any], place: Place
    ) -> Measured:
        """Measure a batch and pack it, on the run's disk if this worker shares it.

        Raises:
            InputError: the model differs from `provenance`, a captured row holds NaN or infinity,
                or the disk is full.
        """
        with self.lock:
            started = time.perf_counter()
            source = self.loaded()
            prepared = time.perf_counter() - started
            for name, wanted, found in differing(provenance, source.provenance()):
                raise InputError(
                    f"worker {get_worker().address}: its model has {name} = {found}, another"
                    f" worker's has {wanted}. Use the same model and kind of device on all workers."
                )
            with compilation() as compiled:
                measured = measuring.batch(source, batch, self.background)
            self.encoder = self.encoder or Encoder.planned(measuring.plans())
            packed = [
                entry_of(row, self.encoder.chunks(str(row["name"]), content.arrays))
                for row, content in zip(measured.rows, measured.contents, strict=True)
                if isinstance(content, Buffers)
            ]
            return replace(
                measured,
                contents=[place.hand_over(entry) for entry in packed],
                prepared=prepared + compiled.seconds,
            )

    def draft(self, place: Place, folder: Path, documents: range, share: slice) -> Drafts | None:
        """Write a share of a run's shards; None if this worker does not share the disk."""
        if not place.shared():
            return None
        with writing(folder):
            return drafted(folder, documents, share, f".{uuid.uuid4()}")
