"""Tasks on workers of Dask distributed: processes on this machine (`local:K`), an external
scheduler, or the caller's client. Results are awaited while workers exist, and taken in order with
a bounded number in progress. `mapping` runs tasks that measure nothing, such as fits and bounds.

Early results stay on their workers. This process holds one result at a time, and a store gets each
document once and in order, however often its task ran. Imports distributed (optional extra
`cluster`) on demand.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from empirical.errors import InputError

if TYPE_CHECKING:
    from distributed import Client, Future

EXPECTED = "expected local:K, K processes on this machine, or tcp://HOST:PORT, a Dask scheduler"
_LOCAL = re.compile(r"local:(\d{1,6})", re.ASCII)
_ADDRESS = re.compile(r"tcp://[^\s/:@]+:(\d{1,5})|tcp://\[[0-9a-fA-F:.]+\]:(\d{1,5})", re.ASCII)


def place(text: str) -> int | str:
    """Parse `--cluster`: a number of processes on this machine, or the address of a scheduler.

    Raises:
        InputError: the text has neither form, or requests more processes than there are cores.

    >>> place("local:1"), place("tcp://node7:8786")
    (1, 'tcp://node7:8786')
    """
    if local := _LOCAL.fullmatch(text):
        workers, cores = int(local[1]), cores_here()
        if not 1 <= workers <= cores:
            raise InputError(
                f"--cluster {text}: {workers} processes, expected 1 to {cores}, one for each core"
                f" of this machine. Use --cluster local:{min(max(workers, 1), cores)}."
            )
        return workers
    if (remote := _ADDRESS.fullmatch(text)) and 0 < int(remote[1] or remote[2]) < 2**16:
        return text
    raise InputError(f"--cluster {text}: {EXPECTED}. Use one of those.")


def cores_here() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


ANSWER: Final = 10.0
"""Seconds to wait for a scheduler's answer, and then for a worker."""


@contextmanager
def connected(cluster: str | Client) -> Iterator[tuple[Client, int | None]]:
    """Connect to the workers in `cluster`. Local workers are started, and end with the block; a
    client is used unchanged.

    Yields:
        the client, and the number of workers started here; None if they were started elsewhere.

    Raises:
        InputError: distributed is not installed, `cluster` is invalid, nothing answers there, or
            there are no workers.
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
                " place such as local:2. Pass one of those."
            )
        yield cluster, None
        return
    with ExitStack() as opened:
        opened.enter_context(silence_logging_cmgr(logging.CRITICAL))
        if isinstance(where, str):
            yield opened.enter_context(_answering(where)), None
            return
        folder = opened.enter_context(
            tempfile.TemporaryDirectory(prefix="geostat-workers-", ignore_cleanup_errors=True)
        )
        started = opened.enter_context(
            LocalCluster(
                n_workers=where,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,  # a model may need more than an equal share of the memory
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # any free port
                worker_dashboard_address=None,
                local_directory=folder,
                silence_logs=logging.CRITICAL,
            )
        )
        client = opened.enter_context(Client(started, set_as_default=False))
        yield client, where


async def _greet(address: str) -> None:
    """Exchange a greeting; a client would wait for ever for a program other than a scheduler."""
    from distributed.comm import connect

    async with asyncio.timeout(ANSWER):
        await (await connect(address, timeout=ANSWER)).close()


@contextmanager
def _answering(address: str) -> Iterator[Client]:
    """Connect to a scheduler that has workers."""
    from distributed import Client

    try:
        asyncio.run(_greet(address))
    except Exception as error:  # another program's answer raises other errors than silence
        raise InputError(
            f"--cluster {address}: no Dask scheduler answered there within {ANSWER:.0f} s. Start"
            " one with `dask scheduler`, or check the address."
        ) from error
    with Client(address, timeout=ANSWER, set_as_default=False) as client:
        try:
            client.wait_for_workers(1, timeout=ANSWER)
        except TimeoutError as error:
            raise InputError(
                f"--cluster {address}: the scheduler has no workers, expected one or more. Start"
                f" them with `dask worker {address} --nthreads 1`."
            ) from error
        yield client


Item = TypeVar("Item")
Result = TypeVar("Result")

LOOK: Final = 1.0
"""Seconds between checks for workers while waiting."""

PATIENCE: Final = 60.0
"""Seconds that a task waits without any worker; a killed one restarts in about 5 s."""


class Awaited(Generic[Result]):
    """A task on a cluster whose result is awaited while workers exist."""

    def __init__(self, client: Client, future: Future, what: str) -> None:
        self.client, self.future, self.what = client, future, what

    def cancel(self) -> None:
        """Cancel the task."""
        with suppress(Exception):  # the task is gone with the cluster
            self.future.cancel(force=True)

    def result(self) -> Result:
        """Wait for the result; an InputError if the task killed its workers or none are left."""
        from distributed import KilledWorker

        try:
            return self._waited_for()
        except KilledWorker as error:
            raise InputError(
                f"{self.what}: {error.allowed_failures + 1} workers died while they measured it,"
                " often for lack of memory. Run the same command again with fewer workers per"
                " machine."
            ) from error
        except CancelledError as error:
            raise self._gone("has lost its scheduler") from error

    def _waited_for(self) -> Result:
        last_seen = time.monotonic()
        while True:
            try:
                return self.future.result(timeout=LOOK)
            except TimeoutError:
                if self.future.done():  # it finished just now, or itself raised TimeoutError
                    return self.future.result()
            if self._workers():
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen > PATIENCE:
                raise self._gone(f"has had no worker for {PATIENCE:.0f} s")

    def _workers(self) -> int:
        try:
            return len(self.client.nthreads())
        except (OSError, RuntimeError):  # the scheduler does not answer
            return 0

    def _gone(self, why: str) -> InputError:
        return InputError(
            f"{self.what}: the cluster {why}. Complete documents are kept: start workers, and run"
            " the same command again."
        )


def in_order(
    submit: Callable[[Item], Awaited[Result]], items: Iterable[Item], ahead: Callable[[], int]
) -> Generator[Result, None, None]:
    """Yield the result of each item, in order.

    Args:
        submit: starts the task of an item.
        items: taken one by one, as capacity allows.
        ahead: most tasks in progress now, at least one. The next starts only when the first result
            was taken, so a slow consumer is not overrun.
    """
    in_progress: deque[Awaited[Result]] = deque()

    def take_first() -> Result:
        result = in_progress[0].result()  # after Ctrl-C it is still in progress
        in_progress.popleft()
        return result

    try:
        for item in items:
            while len(in_progress) >= max(1, ahead()):
                yield take_first()
            in_progress.append(submit(item))
        while in_progress:
            yield take_first()
    finally:
        for task in in_progress:
            task.cancel()


AHEAD: Final = 2
"""Tasks in progress per worker: one running and one queued."""

Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Runs a function on each of some tasks, and yields the results in order."""


@contextmanager
def mapping(cluster: str | Client) -> Iterator[Mapper]:
    """Yield a function that runs tasks on the workers in `cluster`, until the block ends.

    cluster: local:K, tcp://HOST:PORT, or a client.

    Raises:
        InputError: there are no such workers, or one has other versions.
    """
    with connected(cluster) as (client, started):
        import numba

        from empirical.capture.cluster.plugins import FunctionPlugin, call, installed
        from empirical.capture.versions import DERIVING, versions

        threads = None if started is None else max(1, numba.config.NUMBA_NUM_THREADS // started)

        def mapped(work: Callable[[Any], Any], tasks: Iterable[Any]) -> Generator[Any, None, None]:
            name = f"geostat-{uuid.uuid4()}"

            def submit(task: Any) -> Awaited[Any]:
                return Awaited(
                    client, client.submit(call, name, "run", task, pure=False), "the run"
                )

            with installed(client, FunctionPlugin(work, versions(DERIVING), threads), name):
                yield from in_order(submit, tasks, lambda: AHEAD * len(client.nthreads()))

        yield mapped
