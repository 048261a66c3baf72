"""A run at a URL, and its working copies on machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.stores import small_store

from empirical.store.lock import alone
from empirical.store.working_copy import working_copy

Opens = Callable[[str], Path]


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Where the run stands: a disk, as the file system of a URL."""
    return tmp_path / "far" / "run.zarr"


@pytest.fixture
def on(tmp_path: Path, there: Path) -> Iterator[Opens]:
    """The working copy on a machine of that name, in the cache, where alone one may lie."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GEOSTAT_CACHE", str(tmp_path))
        yield lambda machine: working_copy(f"file://{there}", tmp_path / "runs" / machine)


@pytest.fixture
def sent(on: Opens) -> Path:
    """A working copy of two documents, which was sent."""
    path = on("here")
    with alone(path):
        small_store(path)
    return path
