"""Places of workers: `local:K`, or the address of a scheduler of Dask distributed.

Imports the standard library.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from empirical.errors import InputError

EXPECTED = "expected local:K, K processes on this machine, or tcp://HOST:PORT, a Dask scheduler"
_LOCAL = re.compile(r"local:(\d{1,6})", re.ASCII)
_ADDRESS = re.compile(r"tcp://[^\s/:@]+:(\d{1,5})|tcp://\[[0-9a-fA-F:.]+\]:(\d{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Local:
    """Processes on this machine."""

    workers: int


@dataclass(frozen=True, slots=True)
class Remote:
    """A scheduler, and whatever workers it has."""

    address: str


def place(text: str) -> Local | Remote:
    """Read `--cluster`.

    Raises:
        InputError: if it is neither, or asks for more processes than there are cores, which would
            fight for them.

    >>> place("local:1"), place("tcp://node7:8786")
    (Local(workers=1), Remote(address='tcp://node7:8786'))
    """
    if local := _LOCAL.fullmatch(text):
        workers, cores = int(local[1]), cores_here()
        if not 1 <= workers <= cores:
            raise InputError(
                f"--cluster {text}: {workers} processes, expected 1 to {cores}, one for each core"
                f" of this machine. Use --cluster local:{min(max(workers, 1), cores)}."
            )
        return Local(workers)
    if (remote := _ADDRESS.fullmatch(text)) and 0 < int(remote[1] or remote[2]) < 2**16:
        return Remote(text)
    raise InputError(f"--cluster {text}: {EXPECTED}. Use one of those.")


def cores_here() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
