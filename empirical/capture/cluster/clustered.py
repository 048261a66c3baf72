"""Clustered source: a model on workers of Dask distributed, where its documents are measured.

This process needs no model: a worker describes it, checks the tap against eager attention, and
packs each document for the store, on the run's disk if it is shared. Results are taken in document
order. Source: Dask distributed, which reassigns the tasks of a lost worker. Imports distributed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from empirical.capture.cluster.tasks import Awaited, connected, in_order
from empirical.capture.measuring import Batch, Measured, Measuring
from empirical.capture.versions import MEASURING, versions
from empirical.errors import InputError
from empirical.sources.models import LoadedModel
from empirical.store.journal import Entry, Place
from empirical.store.shards import Drafts, drafted

if TYPE_CHECKING:
    from distributed import Client

AHEAD: Final = 3
"""Batches in progress per worker: one being measured, one queued, and one finished but waiting for
a slower predecessor.
"""

SHARES: Final = 16
"""Most tasks that write shards. A run has about sixty shards, and each task opens all documents."""


class Clustered:
    """A model on workers, as a source."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._name = client, name
        self.sizes: Mapping[str, Any]
        self.devices: Collection[str]
        described = self._submit("the model", "describe").result()
        self.sizes, self.devices, self._provenance = described
        self._shared = False
        """Whether a worker wrote a document of the run on its disk."""

    def provenance(self) -> dict[str, Any]:
        """Return the model's identity."""
        return dict(self._provenance)

    def check(self, token_ids: NDArray[np.int32], queries: torch.Tensor) -> dict[str, Any]:
        """Compare the tap with the eager implementation on one worker."""
        checked: dict[str, Any] = self._submit(
            "the parity check", "check", token_ids, queries
        ).result()
        return checked

    def resume(self, held: Sequence[Mapping[str, Any]]) -> None:
        """Do nothing: the tokens identify the documents."""

    def measured(
        self, measuring: Measuring, batches: Iterable[Batch], place: Place
    ) -> Generator[Measured, None, None]:
        """Measure batches on workers; yield them in order."""

        def submit(batch: Batch) -> Awaited[Measured]:
            what = ", ".join(f"document {row['name']!r}" for row in batch.rows)
            return self._submit(what, "measure", measuring, batch, self._provenance, place)

        for measured in in_order(submit, batches, lambda: AHEAD * len(self._client.nthreads())):
            self._shared |= any(
                isinstance(entry, Entry) and isinstance(entry.data, Path)
                for entry in measured.contents
            )
            yield measured

    def drafted(self, place: Place, folder: Path, documents: range) -> Drafts:
        """Write the shards on workers that share the disk. Shares that workers cannot write are
        written here.

        These tasks precede queued batches, because the run waits for them.
        """
        if not self._shared:
            return drafted(folder, documents)
        tasks: list[Awaited[Drafts | None]] = []
        try:
            count = min(max(1, len(self._client.nthreads())), SHARES)
            shares = [slice(first, None, count) for first in range(count)]
            for share in shares:
                arguments = (place, folder, documents, share)
                tasks.append(self._submit("the store", "draft", *arguments, priority=1))
            results = [task.result() for task in tasks]
        except (InputError, OSError):
            for task in tasks:
                task.cancel()
            return drafted(folder, documents)
        return [
            draft
            for share, drafts in zip(shares, results, strict=True)
            for draft in (drafted(folder, documents, share) if drafts is None else drafts)
        ]

    def _submit(self, what: str, method: str, *arguments: Any, priority: int = 0) -> Awaited[Any]:
        """Call a method of `worker.Measurer` on a worker."""
        from empirical.capture.cluster.plugins import call

        options = {"pure": False, "priority": priority}
        future = self._client.submit(call, self._name, method, *arguments, **options)
        return Awaited(self._client, future, what)


@contextmanager
def clustered(cluster: str | Client, load: Callable[[], LoadedModel]) -> Iterator[Clustered]:
    """Yield a source with the model on the workers in `cluster`, for the duration of a measurement.

    cluster: local:K, tcp://HOST:PORT, or a client; load: loads the model, in a worker.

    Raises:
        InputError: there are no such workers, one has other versions, or the model cannot be loaded
            there.
    """
    with connected(cluster) as (client, started):
        from empirical.capture.cluster.plugins import installed
        from empirical.capture.cluster.worker import Measurer

        threads = None if started is None else max(1, torch.get_num_threads() // started)
        name = f"geostat-{uuid.uuid4()}"
        with installed(client, Measurer(load, versions(MEASURING), threads), name):
            yield Clustered(client, name)
