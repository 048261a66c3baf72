"""Connection to workers: processes that are started here, a scheduler elsewhere, or a client that
the caller has. Imports distributed, the optional extra `cluster`, when it is asked for.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from empirical.capture.cluster.places import Remote, place
from empirical.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

PATIENCE: Final = 10.0
"""Seconds for which a scheduler is asked for an answer, and then for a worker."""


@contextmanager
def connected(cluster: str | Client) -> Iterator[tuple[Client, int | None]]:
    """Connect to the workers that `cluster` names, and start those that are to be on this machine,
    which end with the block; a client is used as it is.

    Yields:
        the client, and how many workers were started here; None where others did.

    Raises:
        InputError: if distributed is not there, `cluster` is no place, nothing answers there, or
            it has no workers.
    """
    where = place(cluster) if isinstance(cluster, str) else None
    try:
        from distributed import Client, LocalCluster
        from distributed.utils import silence_logging_cmgr
    except ImportError as error:
        raise InputError(
            "--cluster needs the library distributed, which is not installed. Get it with: pip"
            " install distributed"
        ) from error
    if where is None:
        if not isinstance(cluster, Client):
            raise InputError(
                f"client={type(cluster).__name__}: expected a Client of Dask distributed, or a"
                " place such as local:2. Give one of those."
            )
        yield cluster, None
        return
    with ExitStack() as opened:
        opened.enter_context(silence_logging_cmgr(logging.CRITICAL))
        if isinstance(where, Remote):
            yield opened.enter_context(_answering(where.address)), None
            return
        folder = opened.enter_context(
            tempfile.TemporaryDirectory(prefix="geostat-workers-", ignore_cleanup_errors=True)
        )
        started = opened.enter_context(
            LocalCluster(
                n_workers=where.workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,  # a model may need more than a share of the machine
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # any port that is free
                worker_dashboard_address=None,
                local_directory=folder,
                silence_logs=logging.CRITICAL,
            )
        )
        client = opened.enter_context(Client(started, set_as_default=False))
        yield client, where.workers


async def _greet(address: str) -> None:
    """Exchange a greeting; a client that finds another program there would wait for ever."""
    from distributed.comm import connect

    async with asyncio.timeout(PATIENCE):
        await (await connect(address, timeout=PATIENCE)).close()


@contextmanager
def _answering(address: str) -> Iterator[Client]:
    """Connect to a scheduler that has workers."""
    from distributed import Client

    try:
        asyncio.run(_greet(address))
    except Exception as error:  # what another program answers makes other errors than silence does
        raise InputError(
            f"--cluster {address}: no Dask scheduler answered there within {PATIENCE:.0f} s. Start"
            " one with `dask scheduler`, or check the address."
        ) from error
    with Client(address, timeout=PATIENCE, set_as_default=False) as client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise InputError(
                f"--cluster {address}: the scheduler has no workers, expected one or more. Start"
                f" them with `dask worker {address} --nthreads 1`."
            ) from error
        yield client
