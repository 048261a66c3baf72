"""Worker plugins: version checks, and data kept on every worker for the tasks that use it. Imports
distributed and numba.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import numba
from distributed import Client, Worker, WorkerPlugin, get_worker
from threadpoolctl import threadpool_limits

from empirical.capture.versions import versions
from empirical.errors import InputError

TIMES: Final = 4
"""Attempts to send a plugin to the workers if a worker leaves each time."""

PAUSE: Final = 0.5
"""Seconds between attempts, until the scheduler notices a lost worker."""


class SameVersions(WorkerPlugin):
    """Worker plugin that refuses workers with other versions of the libraries, whose numbers may
    differ.

    Dask reports the refusal of an existing worker. A worker that joins later still gets tasks, so
    each task (`call`) checks its plugin. `threads` limits the threads of torch and of the kernels
    in a worker that this run started; None leaves a worker unchanged.
    """

    refusal = ""

    def __init__(self, versions: Mapping[str, str], threads: int | None) -> None:
        self.versions, self.threads = versions, threads

    def setup(self, worker: Worker) -> None:
        """Refuse a worker with other versions; the InputError names the first library that differs.
        Ctrl-C is left to the first process, which ends the workers that it started.
        """
        found = versions(self.versions)
        for name, wanted in self.versions.items():
            if found[name] != wanted:
                self.refusal = (
                    f"worker {worker.address}: has {name} {found[name]}, this run has {wanted}."
                    " Install the same version there."
                )
                raise InputError(self.refusal)
        if self.threads is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def call(name: str, method: str, *arguments: Any) -> Any:
    """Call a method of this worker's plugin; an InputError if the plugin refuses the worker."""
    plugin: Any = get_worker().plugins[name]
    if plugin.refusal:
        raise InputError(plugin.refusal)
    return getattr(plugin, method)(*arguments)


@contextmanager
def installed(client: Client, plugin: WorkerPlugin, name: str) -> Iterator[None]:
    """Register a plugin on every worker until the block ends.

    A worker that dies during the registration raises an error, although the scheduler keeps the
    plugin for later workers; the registration is then repeated.

    Raises:
        InputError: workers are lost at every attempt, or the scheduler is.
    """
    try:
        _register(client, plugin, name)
        yield
    finally:
        with suppress(Exception):  # the plugin is gone with the cluster
            client.unregister_worker_plugin(name)


def _register(client: Client, plugin: WorkerPlugin, name: str) -> None:
    for left in reversed(range(TIMES)):
        try:
            client.register_plugin(plugin, name=name)
            return
        except OSError as error:  # a connection failed or was closed
            if not left:
                raise InputError(
                    f"the cluster: the task was sent {TIMES} times, and each time a worker or the"
                    " scheduler was lost. Complete documents are kept: start workers, and run the"
                    " same command again."
                ) from error
            time.sleep(PAUSE)


class FunctionPlugin(SameVersions):
    """Worker plugin that keeps a function with its data, on present and later workers."""

    def __init__(
        self, work: Callable[[Any], Any], versions: Mapping[str, str], threads: int | None
    ) -> None:
        super().__init__(versions, threads)
        self.work = work

    def run(self, task: Any) -> Any:
        """Run one task. BLAS has one thread, because the number changes a sum's last digits."""
        if self.threads is not None:
            numba.set_num_threads(self.threads)
        with threadpool_limits(1, user_api="blas"):
            return self.work(task)
