"""A disk that is full, that refuses, or that loses power: nothing half-written counts, and what
was complete is kept.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
import xarray as xr
from support.damage import flipped
from support.places import contents
from support.stores import NORMS, PLAN, WORDS, arrays, names, row, small_store
from zarr.core import sync as sync_module

from empirical.errors import InputError, StoreError
from empirical.schema import Variable
from empirical.store import bundle, disk, journal, manifest, rows, shards
from empirical.store import store as module
from empirical.store.integrity import check
from empirical.store.journal import file_of
from empirical.store.layout import GroupPlan
from empirical.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return small_store(tmp_path / "run.zarr")


@pytest.mark.parametrize("where", ["document", "journal"])
def test_a_full_disk_is_one_line_and_keeps_the_documents(
    store: Store, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    flush = disk.flush

    def full(path: Path) -> None:
        if path.name == where:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(path)

    monkeypatch.setattr(disk, "flush", full)
    with pytest.raises(InputError, match=r"no space left.*run the same again, without --fresh"):
        store.append(row("three"), arrays(3))
    monkeypatch.undo()
    assert Store.open(store.path).read("capture").sizes["document"] == 2


@pytest.mark.parametrize("where", ["create", "save", "flush", "the move"])
@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()],
    ids=["full", "ctrl-c"],
)
def test_a_fresh_store_that_fails_leaves_the_old_one_and_nothing_else(
    store: Store, monkeypatch: pytest.MonkeyPatch, where: str, error: BaseException
) -> None:
    before = contents(store.path)
    moves = os.replace

    def fail(*args: object, **keywords: object) -> None:
        raise error

    def fail_to_take_the_place(old: Path, new: Path) -> None:
        if str(new) == str(store.path) and str(old).endswith(".draft"):
            raise error
        moves(old, new)

    if where == "create":
        monkeypatch.setattr(module, "lay_out", fail)
    elif where == "save":
        monkeypatch.setattr(module, "save", fail)
    elif where == "flush":
        monkeypatch.setattr(disk, "flush", fail)
    else:
        monkeypatch.setattr(module.os, "replace", fail_to_take_the_place)
    with pytest.raises((InputError, KeyboardInterrupt)):
        Store.create(store.path, provenance={}, plan=PLAN, documents=1, fresh=True).append(
            row("other"), arrays(3)
        )
    monkeypatch.undo()
    assert contents(store.path) == before
    assert names(store.path.parent) == ["run.zarr"]


REFUSALS = (
    *(errno.EACCES, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ENOMEM, errno.EIO),
    *(errno.ETIMEDOUT, errno.ENOTCONN, errno.EREMOTEIO, 9999),
)


@pytest.mark.parametrize("code", REFUSALS)
def test_a_run_that_may_not_be_read_is_not_called_damaged(
    store: Store, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refused(*args: object, **keywords: object) -> None:
        raise OSError(code, os.strerror(code), "a file")

    reason = re.escape(os.strerror(code))
    with monkeypatch.context() as patched:
        patched.setattr(bundle, "opened", refused)
        with pytest.raises(InputError, match=rf"a file: cannot be read \({reason}\). Check "):
            Store.open(store.path)
        with pytest.raises(InputError, match="cannot be read"):
            check(store.path, store.attributes)
    with monkeypatch.context() as patched:
        patched.setattr(xr, "open_zarr", refused)
        with pytest.raises(InputError, match="cannot be read"):
            store.read("capture")


class Unknown(Exception):
    """One that no list of exceptions has."""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 3 GiB"),
        RuntimeError("error during blosc decompression: -1"),
        ValueError("a codec"),
        Unknown("of a plugin"),
        RecursionError("too deep"),
        KeyError("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_a_library_raises_while_bytes_are_sound_is_not_called_damage(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*args: object, **keywords: object) -> None:
        raise error

    monkeypatch.setattr(xr, "open_zarr", fails)
    with pytest.raises(InputError, match=r"cannot be read here \(.*every file is what was written"):
        store.read("capture")
    flipped(store.path / "capture/weight/c/0/0/0", at=0.5)
    with pytest.raises(StoreError, match=r"weight/c/0/0/0: damaged"):
        store.read("capture")


def test_a_result_that_cannot_be_written_leaves_the_old_one_and_no_draft(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put({"norms": NORMS})
    before = contents(store.path.parent)

    def full(*args: object, **keywords: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for broken in ((xr.Dataset, "to_zarr"), (disk, "flush")):
        with monkeypatch.context() as patched:
            patched.setattr(*broken, full)
            with pytest.raises(InputError, match="no space left"):
                store.put({"norms": NORMS * 2})
        assert contents(store.path.parent) == before
        assert names(store.path.parent) == ["run.zarr"]
    with monkeypatch.context() as patched:
        patched.setattr("empirical.store.disk.os.replace", full)
        with pytest.raises(InputError, match="no space left"):
            store.note(more=1)
    assert contents(store.path.parent) == before


@pytest.mark.parametrize("after", ["append", "write"])
def test_a_process_killed_while_results_are_dropped_leaves_none_that_count(
    store: Store, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    store.put({"norms": NORMS})

    def kill(*args: object, **keywords: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(manifest, "_remove", kill)
        with pytest.raises(SystemExit):
            store.append(row("three"), arrays(3))
    assert (store.path / "norms").exists()
    found = Store.open(store.path)
    check(found.path, found.attributes)
    assert found.results == []
    assert list(found.tree().children) == ["capture"]
    if after == "append":
        found.append(row("three"), arrays(3))
    else:
        found.put({"weights": NORMS})
    assert not (store.path / "norms").exists()
    assert "stale" not in Store.open(store.path).attributes["manifest"]


def test_a_damaged_read_leaves_no_task_of_zarr_under_way(tmp_path: Path) -> None:
    big = GroupPlan(
        variables={"big": Variable(dims=("position",), **WORDS)},
        coordinates={},
        sizes={"position": 1_000_000},
    )
    made = Store.create(tmp_path / "big.zarr", provenance={}, plan={"capture": big}, documents=12)
    for index in range(12):
        made.append(
            row(str(index)),
            {
                "capture": {
                    "big": (
                        np.random.default_rng(index).standard_normal(1_000_000).astype(np.float32)
                    )
                }
            },
        )
    made.settle()
    chunk = made.path / "capture" / "big" / "c" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"!")
    with pytest.raises(StoreError, match="damaged"):
        made.read("capture")
    assert len(asyncio.all_tasks(sync_module._get_loop())) == 0


def flushed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What is flushed from now on, and every file that is moved into place, in this order."""
    seen: list[Path] = []
    flush, move = disk.flush, os.replace

    def flush_and_tell(path: Path) -> None:
        flush(path)
        seen.append(path)

    def move_and_tell(old: Path, new: Path) -> None:
        move(old, new)
        seen.append(new)

    monkeypatch.setattr(disk, "flush", flush_and_tell)
    monkeypatch.setattr(disk.os, "replace", move_and_tell)
    return seen


def test_to_flush_is_to_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(disk.os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"1")
    disk.flush(tmp_path / "file")
    disk.flush_folder(tmp_path / "folder")
    assert synced == [(tmp_path / name).stat().st_ino for name in ("file", "folder")]
    disk.replace(tmp_path / "new", "2")
    assert synced[2:] == [path.stat().st_ino for path in (tmp_path / "new", tmp_path)]


def test_a_document_is_on_the_disk_before_it_counts_and_its_folder_behind(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = flushed(monkeypatch)
    store.append(row("three"), arrays(3))
    file = file_of(store.path, 2)
    assert seen == [file.parent.parent, file, file.parent]


def test_shards_and_every_folder_that_names_them_are_on_the_disk_before_the_manifest(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append(row("three"), arrays(3))
    seen = flushed(monkeypatch)
    store.settle()
    shards = [file for file in store.path.glob("capture/*/c/0/**/*") if file.is_file()]
    shards = [file for file in shards if file.stat().st_size > 1000]
    shards.append(store.path / "capture" / "document" / "c" / "0")
    assert len(shards) == 4
    for shard in shards:
        draft = shard.with_name(f"{shard.name}.partial")
        assert seen.index(draft) < seen.index(shard) < seen.index(store.path / "zarr.json")
        named = seen[seen.index(shard) : seen.index(store.path / "zarr.json")]
        assert {folder for folder in shard.parents if folder.is_relative_to(store.path)} <= set(
            named
        )
    assert seen[-2:] == [store.path / "zarr.json", store.path], "the folder that names it last"


def test_a_first_document_brings_the_layout_of_the_store_to_the_disk_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Store.create(tmp_path / "run.zarr", provenance={}, plan=PLAN, documents=1)
    seen = flushed(monkeypatch)
    made.append(row("one"), arrays(1))
    draft = tmp_path / ".run.zarr.draft"
    for path in made.path.rglob("*"):
        assert draft / path.relative_to(made.path) in seen, path
    assert seen[-2:] == [made.path, tmp_path]


def test_a_result_and_its_folders_are_on_the_disk_before_the_manifest_names_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = flushed(monkeypatch)
    store.put({"norms": NORMS})
    draft = store.path.with_name(".run.zarr.ready") / "norms"
    before = seen[: seen.index(store.path / "norms")]
    for path in (store.path / "norms").rglob("*"):
        assert draft / path.relative_to(store.path / "norms") in before, path
    assert draft in before
    assert seen[-2:] == [store.path / "zarr.json", store.path]


@pytest.mark.parametrize(
    ("error", "passes"), [(errno.EINVAL, True), (errno.ENOTSUP, True), (errno.EIO, False)]
)
def test_a_disk_that_cannot_flush_folders_still_takes_files(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: int, passes: bool
) -> None:
    flush = disk.flush

    def files_only(path: Path) -> None:
        if path.is_dir():
            raise OSError(error, os.strerror(error))
        flush(path)

    monkeypatch.setattr(disk, "flush", files_only)
    if passes:
        store.append(row("three"), arrays(3))
        assert len(Store.open(store.path).documents) == 3
    else:
        with pytest.raises(
            InputError, match=r"the disk failed \(Input/output error\) while writing"
        ):
            store.append(row("three"), arrays(3))


def test_a_run_is_read_back_where_lines_end_otherwise(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_on_windows(file: Path, mode: str, **options: str) -> IO[Any]:
        return open(file, mode, **options if "b" in mode else {"newline": "\r\n", **options})

    for part in (disk, rows, shards, journal):
        monkeypatch.setattr(part, "open", as_on_windows, raising=False)
    store.append(row("three"), arrays(3))
    store.settle()
    assert len(Store.open(store.path).documents) == 3
