"""What workers hold for the stages that measure nothing: a function with its data, and the task
that calls it. Imports distributed and numba.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import numba
from distributed import Client, Worker, WorkerPlugin, get_worker
from threadpoolctl import threadpool_limits

from empirical.errors import InputError

LIBRARIES: Final = ("numpy", "scipy", "numba", "lmfit", "xarray")
"""Whose versions can move a number that is made of measured ones."""


TIMES: Final = 4
"""How often workers are told what is to be done, should one go away each time."""

PAUSE: Final = 0.5
"""Seconds between, until the scheduler has seen that one is gone."""


def versions() -> dict[str, str]:
    """Those of geostat and of LIBRARIES here."""
    try:
        own = version("attention-geostat")
    except PackageNotFoundError:
        own = "unknown"
    return {"geostat": own} | {name: version(name) for name in LIBRARIES}


class SameVersions(WorkerPlugin):
    """A plugin that refuses workers with other versions of the libraries, whose numbers may differ.

    Dask reports the refusal of a worker that is there already. One that joins later is given tasks
    all the same, so each task asks for its plugin by `serving`.
    """

    refusal = ""

    def __init__(self, versions: Mapping[str, str]) -> None:
        self.versions = versions

    def compare(self, worker: Worker, own: Mapping[str, str]) -> None:
        """Refuse a worker with other versions.

        Raises:
            InputError: naming the first library that differs.
        """
        for name, wanted in self.versions.items():
            if own.get(name) != wanted:
                self.refusal = (
                    f"worker {worker.address}: has {name} {own.get(name)}, this run has {wanted}."
                    " Install the same version there."
                )
                raise InputError(self.refusal)


def serving(name: str) -> Any:
    """Return this worker's plugin of that name.

    Raises:
        InputError: if it refuses this worker.
    """
    plugin = get_worker().plugins[name]
    if plugin.refusal:
        raise InputError(plugin.refusal)
    return plugin


@contextmanager
def given(client: Client, plugin: WorkerPlugin, name: str) -> Iterator[None]:
    """Give every worker a plugin until the block ends.

    A worker that dies as it is told of it ends the call, though the scheduler keeps the plugin for
    those that come; so all are told again.

    Raises:
        InputError: if workers go away every time, or the scheduler has.
    """
    try:
        _tell(client, plugin, name)
        yield
    finally:
        with suppress(Exception):  # it is gone with the cluster
            client.unregister_worker_plugin(name)


def _tell(client: Client, plugin: WorkerPlugin, name: str) -> None:
    for left in reversed(range(TIMES)):
        try:
            client.register_plugin(plugin, name=name)
            return
        except OSError as error:  # of a connection that is closed, or is not made
            if not left:
                raise InputError(
                    f"the cluster: was told {TIMES} times what is to be done, and each time a"
                    " worker or its scheduler went away. What was complete is kept: start workers,"
                    " and run the same command again."
                ) from error
            time.sleep(PAUSE)


class Held(SameVersions):
    """Keeps a function in every worker, in those that come later too.

    Args:
        work: the function, with the data that it needs.
        versions: those that each worker must have, too.
        threads: of the kernels, in a worker that this run started; None leaves a worker as whoever
            started it wants it.
    """

    def __init__(
        self, work: Callable[[Any], Any], versions: Mapping[str, str], threads: int | None
    ) -> None:
        super().__init__(versions)
        self.work, self.threads = work, threads

    def setup(self, worker: Worker) -> None:
        """Refuse other versions; leave Ctrl-C to the first process."""
        self.compare(worker, versions())
        if self.threads is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def call(name: str, task: Any) -> Any:
    """Do one piece of work with the function of that name; BLAS has one thread, as in the process
    that asked, for the number of threads moves a sum's last digits.
    """
    held: Held = serving(name)
    if held.threads is not None:
        numba.set_num_threads(held.threads)
    with threadpool_limits(1, user_api="blas"):
        return held.work(task)
