"""What workers hold for the stages that measure nothing: a function with its data, and the task
that calls it. Imports distributed and numba.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, Final

import numba
from distributed import Worker, WorkerPlugin, get_worker
from threadpoolctl import threadpool_limits

from empirical.errors import InputError

LIBRARIES: Final = ("numpy", "scipy", "numba", "lmfit", "xarray")
"""Whose versions can move a number that is made of measured ones."""


def versions() -> dict[str, str]:
    """Those of LIBRARIES here."""
    return {name: version(name) for name in LIBRARIES}


class Held(WorkerPlugin):
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
        self.work, self.versions, self.threads = work, versions, threads

    def setup(self, worker: Worker) -> None:
        """Refuse other versions, whose numbers may be others; leave Ctrl-C to the first process."""
        for name, own in versions().items():
            if own != self.versions[name]:
                raise InputError(
                    f"worker {worker.address}: has {name} {own}, this run has"
                    f" {self.versions[name]}. Install the same version there."
                )
        if self.threads is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def call(name: str, task: Any) -> Any:
    """Do one piece of work with the function of that name; BLAS has one thread, as in the process
    that asked, for the number of threads moves a sum's last digits.
    """
    held = get_worker().plugins[name]
    assert isinstance(held, Held)
    if held.threads is not None:
        numba.set_num_threads(held.threads)
    with threadpool_limits(1, user_api="blas"):
        return held.work(task)
