"""A model on workers of Dask distributed, as a source whose documents are measured there.

The numbers need no model here: a worker describes it, checks the tap against eager attention, and
packs each document as the store holds it, onto the disk of the run if it shares that. Results are
taken in the order of the documents.
Source: Dask distributed, where a task of a worker that is lost is given to another. Imports
distributed.
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

from empirical.capture.cluster.awaited import Awaited, Result
from empirical.capture.cluster.connection import connected
from empirical.capture.cluster.in_order import in_order
from empirical.capture.identity import versions
from empirical.capture.measuring import Batch, Measuring, Packed
from empirical.errors import InputError
from empirical.sources.models import LoadedModel
from empirical.store.handed import Place
from empirical.store.settling import Drafts, drafted

if TYPE_CHECKING:
    from distributed import Client

    from empirical.capture.cluster.worker import Description

AHEAD: Final = 3
"""Batches under way for each worker: one that it measures, one that waits for it, and one that is
done and waits for a slower one before it.
"""

SHARES: Final = 16
"""Tasks at most that write shards, of which there are some sixty: each opens all documents."""


class Clustered:
    """A model on workers."""

    def __init__(self, client: Client, name: str) -> None:
        from empirical.capture.cluster import worker

        self._client, self._name, self._worker = client, name, worker
        self._described: Description = self._submit("the model", worker.describe, name).result()
        self._shared = False
        """Whether a worker wrote a document of the run on its disk."""

    @property
    def sizes(self) -> Mapping[str, Any]:
        """Those of the model."""
        return self._described.sizes

    @property
    def devices(self) -> Collection[str]:
        """Those of its parameters."""
        return self._described.devices

    def provenance(self) -> dict[str, Any]:
        """Which model it is."""
        return dict(self._described.provenance)

    def check(self, token_ids: NDArray[np.int32], queries: torch.Tensor) -> dict[str, Any]:
        """Have one worker compare the tap with the eager implementation."""
        task = self._submit("the parity check", self._worker.check, self._name, token_ids, queries)
        return task.result()

    def resume(self, held: Sequence[Mapping[str, Any]]) -> None:
        """Do nothing: their tokens tell whether they are the same."""

    def measured(
        self, measuring: Measuring, batches: Iterable[Batch], place: Place
    ) -> Generator[Packed, None, None]:
        """Have workers measure batches; yield them in order."""

        def submit(batch: Batch) -> Awaited[Packed]:
            what = ", ".join(f"document {row['name']!r}" for row in batch.rows)
            asked = (self._name, measuring, self._described.provenance, batch, place)
            return self._submit(what, self._worker.measure, *asked)

        for packed in in_order(submit, batches, lambda: AHEAD * len(self._client.nthreads())):
            self._shared |= any(isinstance(entry.data, Path) for entry in packed.entries)
            yield packed

    def drafted(self, place: Place, folder: Path, documents: range) -> Drafts:
        """Have workers write the shards in shares, where they share the disk; what they do not, or
        cannot for they are gone, is done here.

        They come before batches that wait, for the run goes on only then.
        """
        if not self._shared:
            return drafted(folder, documents)
        tasks: list[Awaited[Drafts | None]] = []
        try:
            count = min(max(1, len(self._client.nthreads())), SHARES)
            shares = [slice(first, None, count) for first in range(count)]
            for share in shares:
                asked = (self._name, place, folder, documents, share)
                tasks.append(self._submit("the store", self._worker.draft, *asked, first=1))
            made = [task.result() for task in tasks]
        except (InputError, OSError):
            for task in tasks:
                task.cancel()
            return drafted(folder, documents)
        return [
            one
            for share, drafts in zip(shares, made, strict=True)
            for one in (drafted(folder, documents, share) if drafts is None else drafts)
        ]

    def _submit(
        self, what: str, task: Callable[..., Result], *asked: Any, first: int = 0
    ) -> Awaited[Result]:
        future = self._client.submit(task, *asked, pure=False, priority=first)
        return Awaited(self._client, future, what)


@contextmanager
def clustered(cluster: str | Client, load: Callable[[], LoadedModel]) -> Iterator[Clustered]:
    """Give the workers that `cluster` names a model for as long as it is measured.

    cluster: local:K, tcp://HOST:PORT, or a client; load: loads the model, in a worker.

    Raises:
        InputError: if there are no such workers, one has other versions, or the model cannot be
            loaded there.
    """
    with connected(cluster) as (client, started):
        from empirical.capture.cluster.held import given
        from empirical.capture.cluster.worker import Measurer

        threads = None if started is None else max(1, torch.get_num_threads() // started)
        name = f"geostat-{uuid.uuid4()}"
        with given(client, Measurer(load, versions(), threads), name):
            yield Clustered(client, name)
