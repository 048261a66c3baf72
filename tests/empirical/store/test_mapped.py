"""Groups too large to be held: mapped from nameless files, they are what they are in memory."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.runs import small_run
from support.stores import PLAN, arrays, row

from empirical.caches import place_in_cache
from empirical.errors import InputError
from empirical.store import mapped, stored_run
from empirical.store.shards import DOCUMENTS
from empirical.store.store import Store

MANY = DOCUMENTS + 9


@pytest.fixture
def many(tmp_path: Path) -> Store:
    """More documents than a shard holds, some in the journal."""
    made = Store.create(tmp_path / "run.zarr", provenance={}, plan=PLAN, documents=MANY)
    for index in range(MANY):
        made.append(row(f"document {index}"), arrays(index))
    return made


def test_a_mapped_group_is_the_one_that_is_held(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = many.read("capture")
    monkeypatch.setattr(mapped, "HELD", 0)
    there = os.listdir(many.path.parent)
    found = many.read("capture")
    xr.testing.assert_identical(found, held)
    assert os.listdir(many.path.parent) == there
    assert is_mapped(found["weight"])
    assert not is_mapped(held["weight"])


def test_a_coordinate_of_documents_stays_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coords = {
        "document": [f"document {index}" for index in range(MANY)],
        "query_position": (("document", "query"), np.arange(2 * MANY).reshape(MANY, 2)),
    }
    held = xr.Dataset({"x": (("document", "query"), np.ones((MANY, 2)))}, coords)
    monkeypatch.setattr(mapped, "HELD", 0)
    xr.testing.assert_identical(mapped.read(held.copy(), lambda group: group), held)


def is_mapped(array: xr.DataArray) -> bool:
    base: Any = array.values
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    return isinstance(base, np.memmap)


def test_what_documents_derive_is_mapped_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = small_run(tmp_path / "run.zarr", documents=2, length=12)
    held = store.tree()
    monkeypatch.setattr(mapped, "HELD", 0)
    found = store.tree()
    xr.testing.assert_identical(found, held)
    assert is_mapped(found["capture"]["f_outer"])


def test_a_change_to_a_mapped_array_stays_in_memory(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped, "HELD", 0)
    found = many.read("capture")
    before = found["weight"].values.copy()
    found["weight"][:] = 0.0
    np.testing.assert_array_equal(many.read("capture")["weight"], before)


def test_a_full_disk_is_told_in_a_line(many: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(mapped, "HELD", 0)
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(InputError, match="no space left"):
        many.read("capture")


def test_beside_a_run_nothing_is_written(many: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    where: list[Path] = []
    made = tempfile.TemporaryFile
    monkeypatch.setattr(mapped, "HELD", 0)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda dir: where.append(dir) or made(dir=dir))
    many.read("capture")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    many.read("capture")
    assert set(where) == {place_in_cache("mapped"), Path(tempfile.gettempdir())}


def test_a_file_that_cannot_be_read_is_not_told_as_one_that_cannot_be_written(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(_: xr.Dataset) -> xr.Dataset:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "a shard")

    monkeypatch.setattr(mapped, "HELD", 0)
    monkeypatch.setattr(stored_run, "with_f_scores", denied)
    with pytest.raises(InputError, match="a shard: cannot be read"):
        many.read("capture")
