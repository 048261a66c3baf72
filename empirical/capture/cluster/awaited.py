"""A task on a cluster, waited for as long as there is somebody to do it. Imports distributed when
one has failed.
"""

from __future__ import annotations

import time
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from empirical.errors import InputError

if TYPE_CHECKING:
    from distributed import Client, Future

Result = TypeVar("Result")

LOOK: Final = 1.0
"""Every how many seconds of waiting it is looked whether there are workers."""

PATIENCE: Final = 60.0
"""Seconds for which work waits without a worker: one that was killed is back in some five."""


class Awaited(Generic[Result]):
    """A task on a cluster, whose result is waited for as long as there is somebody to make it."""

    def __init__(self, client: Client, future: Future, what: str) -> None:
        self.client, self.future, self.what = client, future, what

    def cancel(self) -> None:
        """Give it up."""
        with suppress(Exception):  # it is gone with the cluster
            self.future.cancel(force=True)

    def result(self) -> Result:
        """Wait for the result.

        Raises:
            InputError: if workers died of it, or there are none left.
        """
        from distributed import KilledWorker

        try:
            return self._waited_for()
        except KilledWorker as error:
            raise InputError(
                f"{self.what}: {error.allowed_failures + 1} workers died while they were at it, as"
                " they do where memory is short. Run the same command again with fewer workers on a"
                " machine."
            ) from error
        except CancelledError as error:
            raise self._gone("has lost its scheduler") from error

    def _waited_for(self) -> Result:
        seen = time.monotonic()
        while True:
            try:
                return self.future.result(timeout=LOOK)
            except TimeoutError:
                if self.future.done():  # just now, or it raised this itself
                    return self.future.result()
            if self._workers():
                seen = time.monotonic()
            elif time.monotonic() - seen > PATIENCE:
                raise self._gone(f"has had no worker for {PATIENCE:.0f} s")

    def _workers(self) -> int:
        try:
            return len(self.client.nthreads())
        except (OSError, RuntimeError):  # the scheduler does not answer
            return 0

    def _gone(self, why: str) -> InputError:
        return InputError(
            f"{self.what}: the cluster {why}. What was complete is kept: start workers, and run the"
            " same command again."
        )
