"""Pieces of work that measure nothing, such as fits and bounds, on workers of Dask distributed:
each worker is given the function with its data once, and then the pieces one by one.

Results are taken in the order of the pieces. Imports distributed when it is asked for.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from empirical.capture.cluster.awaited import Awaited
from empirical.capture.cluster.connection import connected
from empirical.capture.cluster.in_order import in_order

if TYPE_CHECKING:
    from distributed import Client

AHEAD: Final = 2
"""Pieces under way for each worker: one that it is at, and one that waits for it."""

Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Does a piece of work with each of some tasks, and yields the results in their order."""


@contextmanager
def mapping(cluster: str | Client) -> Iterator[Mapper]:
    """Give what does pieces of work on the workers that `cluster` names, until the block ends.

    cluster: local:K, tcp://HOST:PORT, or a client.

    Raises:
        InputError: if there are no such workers, or one has other versions.
    """
    with connected(cluster) as (client, started):
        import numba

        from empirical.capture.cluster.held import Held, call, given, versions

        threads = None if started is None else max(1, numba.config.NUMBA_NUM_THREADS // started)

        def mapped(work: Callable[[Any], Any], tasks: Iterable[Any]) -> Generator[Any, None, None]:
            name = f"geostat-{uuid.uuid4()}"

            def submit(task: Any) -> Awaited[Any]:
                return Awaited(client, client.submit(call, name, task, pure=False), "the run")

            with given(client, Held(work, versions(), threads), name):
                yield from in_order(submit, tasks, lambda: AHEAD * len(client.nthreads()))

        yield mapped
