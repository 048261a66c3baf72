"""Groups too large to be held: mapped from nameless files, they are what they are in memory."""

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.damage import no_space
from support.raising import raising
from support.stores import MANY, names

from empirical.caches import place_in_cache
from empirical.errors import InputError
from empirical.store import stored_run
from empirical.store.store import Store


@pytest.fixture(autouse=True)
def _mapped(monkeypatch):
    monkeypatch.setattr(stored_run, "HELD", 0)


def in_memory(store: Store) -> xr.DataTree:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stored_run, "HELD", 1 << 30)
        return store.tree()


def is_mapped(array: xr.DataArray) -> bool:
    base: Any = array.values
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    return isinstance(base, np.memmap)


def test_a_mapped_group_equals_the_one_in_memory(waiting):
    held, before = in_memory(waiting)["capture"].to_dataset(), names(waiting.path.parent)
    found = waiting.read("capture")
    xr.testing.assert_identical(found, held)
    assert names(waiting.path.parent) == before
    assert is_mapped(found["weight"])
    assert not is_mapped(held["weight"])
    found["weight"][:] = 0.0  # stays in memory
    xr.testing.assert_identical(waiting.read("capture"), held)


def test_a_coordinate_of_documents_stays_one():
    coords = {
        "document": [f"document {index}" for index in range(MANY)],
        "query_position": (("document", "query"), np.arange(2 * MANY).reshape(MANY, 2)),
    }
    held = xr.Dataset({"x": (("document", "query"), np.ones((MANY, 2)))}, coords)
    xr.testing.assert_identical(stored_run.read_whole(held.copy(), lambda group: group), held)


def test_derived_variables_are_mapped(captured):
    store = Store.open(captured)
    found = store.tree()
    xr.testing.assert_identical(found, in_memory(store))
    assert is_mapped(found["capture"]["f_outer"])


def test_a_full_disk_is_reported_in_one_line(waiting, monkeypatch):
    monkeypatch.setattr(tempfile, "TemporaryFile", raising(no_space()))
    with pytest.raises(InputError, match="no space left"):
        waiting.read("capture")


def test_nothing_is_written_next_to_a_run(waiting, monkeypatch):
    where: list[Path] = []
    made = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda dir: where.append(dir) or made(dir=dir))
    waiting.read("capture")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    waiting.read("capture")
    assert set(where) == {place_in_cache("mapped"), Path(tempfile.gettempdir())}


def test_read_errors_are_not_reported_as_write_errors(waiting, monkeypatch):
    denied = raising(PermissionError(errno.EACCES, os.strerror(errno.EACCES), "a shard"))
    monkeypatch.setattr(stored_run, "with_f_scores", denied)
    with pytest.raises(InputError, match="a shard: cannot be read"):
        waiting.read("capture")
