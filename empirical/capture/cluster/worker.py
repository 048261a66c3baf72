"""What runs in a worker: a plugin that loads the model once and measures batches, and the tasks
that ask it. Imports distributed.
"""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from distributed import Worker, get_worker
from numpy.typing import NDArray

from empirical.capture.cluster.held import SameVersions, serving
from empirical.capture.identity import differing, versions
from empirical.capture.measuring import Batch, Measuring, Packed
from empirical.capture.source import Tapped
from empirical.errors import InputError
from empirical.measure.compilation import compilation
from empirical.sources.models import LoadedModel
from empirical.store.disk import writing
from empirical.store.handed import Place
from empirical.store.journal import entry_of
from empirical.store.layout import Encoder
from empirical.store.settling import Drafts, drafted


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a worker tells of the model that it loaded."""

    sizes: Mapping[str, Any]
    devices: frozenset[str]
    provenance: Mapping[str, Any]


class Measurer(SameVersions):
    """Loads the model when it is first asked, and measures batches, one at a time.

    Args:
        load: loads the model.
        versions: those that this worker must have, too.
        threads: of torch and of the kernels, in a worker that this run started; None leaves a
            worker as whoever started it wants it.
    """

    def __init__(
        self, load: Callable[[], LoadedModel], versions: Mapping[str, str], threads: int | None
    ) -> None:
        super().__init__(versions)
        self.load, self.threads = load, threads

    def setup(self, worker: Worker) -> None:
        """Refuse other versions, whose numbers may be others."""
        self.compare(worker, versions())
        if self.threads is not None:
            # Ctrl-C in a terminal reaches all its processes; the first one ends the others.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.lock = threading.Lock()  # of one model one tap at a time
        self.beside = ThreadPoolExecutor(1, "geostat-beside")
        self.source: Tapped | None = None
        self.encoder: Encoder | None = None

    def teardown(self, worker: Worker) -> None:
        """Let the model go."""
        self.beside.shutdown()
        self.source = self.encoder = None

    def loaded(self) -> Tapped:
        """Return the model as a source of layers."""
        if self.source is None:
            if self.threads is not None:
                torch.set_num_threads(self.threads)
            self.source = Tapped(self.load())
        return self.source

    def measure(
        self, measuring: Measuring, batch: Batch, provenance: Mapping[str, Any], place: Place
    ) -> Packed:
        """Measure a batch and pack it, onto the disk of the run where this worker shares it.

        Raises:
            InputError: if the model is not the one with this `provenance`, a captured row holds
                NaN or infinity, or the disk is full.
        """
        started = time.perf_counter()
        source = self.loaded()
        prepared = time.perf_counter() - started
        for name, wanted, own in differing(provenance, source.provenance()):
            raise InputError(
                f"worker {get_worker().address}: its model has {name} = {own}, that of another"
                f" worker {wanted}. Give all workers the same model and kind of device."
            )
        with compilation() as compiled:
            measured = measuring.batch(source, batch, self.beside)
        self.encoder = self.encoder or Encoder.planned(measuring.plans())
        return Packed(
            entries=[
                place.hand_over(
                    entry_of(row, self.encoder.chunks(str(row["name"]), buffers.arrays))
                )
                for row, buffers in zip(measured.rows, measured.buffers, strict=True)
            ],
            visible=measured.visible,
            prepared=prepared + compiled.seconds,
        )


def _measurer(name: str) -> Measurer:
    plugin = serving(name)
    assert isinstance(plugin, Measurer)
    return plugin


def describe(name: str) -> Description:
    """Load the model and describe it."""
    measurer = _measurer(name)
    with measurer.lock:
        source = measurer.loaded()
    return Description(
        sizes=source.sizes, devices=frozenset(source.devices), provenance=source.provenance()
    )


def check(name: str, token_ids: NDArray[np.int32], queries: torch.Tensor) -> dict[str, Any]:
    """Compare the tap with the eager implementation."""
    measurer = _measurer(name)
    with measurer.lock:
        return measurer.loaded().check(token_ids, queries)


def measure(
    name: str, measuring: Measuring, provenance: Mapping[str, Any], batch: Batch, place: Place
) -> Packed:
    """Measure a batch and pack it."""
    measurer = _measurer(name)
    with measurer.lock:
        return measurer.measure(measuring, batch, provenance, place)


def draft(name: str, place: Place, folder: Path, documents: range, share: slice) -> Drafts | None:
    """Write a share of the shards of a run, of names that no other process writes; None where this
    worker does not share its disk.
    """
    _measurer(name)  # refuses another version
    if not place.shared():
        return None
    with writing(folder):
        return drafted(folder, documents, share, f".{uuid.uuid4()}")
