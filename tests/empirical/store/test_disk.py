"""A disk that is full, refuses or loses power: what was complete is kept, nothing else counts."""

import asyncio
import errno
import os
import re
from pathlib import Path

import pytest
import xarray as xr
from support.damage import flipped, no_space
from support.places import contents
from support.raising import Unknown, raising
from support.stores import NORMS, PLAN, arrays, names, row, wide_store
from zarr.core import sync as sync_module

from empirical.errors import InputError, StoreError
from empirical.store import bundle, disk, journal, manifest, shards, stored_run
from empirical.store import store as module
from empirical.store.integrity import check
from empirical.store.journal import file_of
from empirical.store.store import Store


@pytest.mark.parametrize("where", ["document", "journal"])
def test_a_full_disk_is_one_line_and_keeps_the_documents(store, monkeypatch, where):
    flush = disk.flush

    def full(path):
        if path.name == where:
            raise no_space()
        flush(path)

    monkeypatch.setattr(disk, "flush", full)
    with pytest.raises(InputError, match=r"no space left.*same command again, without --fresh"):
        store.append(row("three"), arrays(3))
    monkeypatch.undo()
    assert Store.open(store.path).read("capture").sizes["document"] == 2


@pytest.mark.parametrize("where", ["create", "save", "flush", "the move"])
@pytest.mark.parametrize("error", [no_space(), KeyboardInterrupt()], ids=["full", "ctrl-c"])
def test_a_fresh_store_that_fails_leaves_the_old_one_and_nothing_else(
    store, monkeypatch, where, error
):
    before, move, fail = contents(store.path), os.replace, raising(error)

    def fail_to_take_the_place(old, new):
        fail() if str(new) == str(store.path) and str(old).endswith(".draft") else move(old, new)

    broken = {
        "create": (module, "lay_out", fail),
        "save": (manifest, "save", fail),
        "flush": (disk, "flush", fail),
        "the move": (os, "replace", fail_to_take_the_place),
    }
    monkeypatch.setattr(*broken[where])
    with pytest.raises((InputError, KeyboardInterrupt)):
        Store.create(store.path, provenance={}, plan=PLAN, documents=1, fresh=True).append(
            row("other"), arrays(3)
        )
    monkeypatch.undo()
    assert contents(store.path) == before
    assert names(store.path.parent) == ["run.zarr"]


@pytest.mark.parametrize(
    "code",
    [
        *(errno.EACCES, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ENOMEM, errno.EIO),
        *(errno.ETIMEDOUT, errno.ENOTCONN, errno.EREMOTEIO, 9999),
    ],
)
def test_an_unreadable_run_is_not_reported_as_damaged(store, monkeypatch, code):
    refused = raising(OSError(code, os.strerror(code), "a file"))
    line = rf"a file: cannot be read \({re.escape(os.strerror(code))}\). Check "
    with monkeypatch.context() as patched:
        patched.setattr(bundle, "opened", refused)
        with pytest.raises(InputError, match=line):
            Store.open(store.path)
        with pytest.raises(InputError, match=line):
            check(store.path, store.attributes)
    monkeypatch.setattr(xr, "open_zarr", refused)
    with pytest.raises(InputError, match=line):
        store.read("capture")


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
def test_a_library_error_on_intact_files_is_not_reported_as_damage(store, monkeypatch, error):
    monkeypatch.setattr(xr, "open_zarr", raising(error))
    with pytest.raises(InputError, match=r"cannot be read here \(.*every file is intact"):
        store.read("capture")
    flipped(store.path / "capture/weight/c/0/0/0")
    with pytest.raises(StoreError, match="weight/c/0/0/0: damaged"):
        store.read("capture")


def test_a_result_that_cannot_be_written_leaves_the_old_one_and_no_draft(store, monkeypatch):
    store.put({"norms": NORMS})
    before = contents(store.path.parent)
    for owner, name, write in (
        (xr.Dataset, "to_zarr", lambda: store.put({"norms": NORMS * 2})),
        (disk, "flush", lambda: store.put({"norms": NORMS * 2})),
        (os, "replace", lambda: store.note(more=1)),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, raising(no_space()))
            with pytest.raises(InputError, match="no space left"):
                write()
        assert contents(store.path.parent) == before
        assert names(store.path.parent) == ["run.zarr"]


@pytest.mark.parametrize("after", ["append", "write"])
def test_a_process_killed_while_results_are_dropped_leaves_none_that_count(
    store, monkeypatch, after
):
    store.put({"norms": NORMS})
    monkeypatch.setattr(stored_run, "PATIENCE", 0.1)
    with monkeypatch.context() as patched:
        patched.setattr(manifest, "_remove", raising(SystemExit()))
        with pytest.raises(SystemExit):
            store.append(row("three"), arrays(3))
    assert (store.path / "norms").exists()
    found = Store.open(store.path)
    check(found.path, found.attributes)
    assert (found.results, list(found.tree().children)) == ([], ["capture"])
    if after == "append":
        found.append(row("three"), arrays(3))
    else:
        found.put({"weights": NORMS})
    assert not (store.path / "norms").exists()


def test_a_damaged_read_leaves_no_task_of_zarr_under_way(tmp_path, monkeypatch):
    made = wide_store(tmp_path / "wide.zarr", documents=12, numbers=100_000)
    made.settle()
    flipped(made.path / "capture/wide/c/0/0", at=0.01)  # its first chunk, as others are read
    left = []

    def counted(*arguments, **options):
        left.append(len(asyncio.all_tasks(sync_module._get_loop())))
        check(*arguments, **options)

    monkeypatch.setattr(stored_run, "check", counted)
    with pytest.raises(StoreError, match="damaged"):
        made.read("capture")
    assert left == [0]


def flushed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """List what is flushed and what is moved into place from now on, in this order."""
    seen: list[Path] = []
    flush, move = disk.flush, os.replace

    def flush_and_note(path: Path) -> None:
        flush(path)
        seen.append(path)

    def move_and_note(old: Path, new: Path) -> None:
        move(old, new)
        seen.append(new)

    monkeypatch.setattr(disk, "flush", flush_and_note)
    monkeypatch.setattr(os, "replace", move_and_note)
    return seen


def test_flushing_waits_for_the_disk(tmp_path, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    folder, file, new = (tmp_path / name for name in ("folder", "file", "new"))
    folder.mkdir()
    file.write_bytes(b"1")
    disk.flush(file)
    disk.flush_folder(folder)
    disk.replace(new, "2")
    assert synced == [path.stat().st_ino for path in (file, folder, new, tmp_path)]


def test_a_document_is_on_the_disk_before_it_counts_and_its_folder_behind(store, monkeypatch):
    seen = flushed(monkeypatch)
    store.append(row("three"), arrays(3))
    file = file_of(store.path, 2)
    assert seen == [file.parent.parent, file, file.parent]


def test_shards_and_every_folder_that_names_them_are_on_the_disk_before_the_manifest(
    store, monkeypatch
):
    store.append(row("three"), arrays(3))
    seen = flushed(monkeypatch)
    store.settle()
    root = seen.index(store.path / "zarr.json")
    places = ("token_id/c/0/0", "weight/c/0/0/0", "count/c/0/0", "document/c/0")
    for shard in (store.path / "capture" / place for place in places):
        moved = seen.index(shard)
        assert seen.index(shard.with_name(f"{shard.name}.partial")) < moved < root
        folders = {folder for folder in shard.parents if folder.is_relative_to(store.path)}
        assert folders <= set(seen[moved:root])
    assert seen[-2:] == [store.path / "zarr.json", store.path], "the folder that names it last"


def test_a_first_document_brings_the_layout_of_the_store_to_the_disk_too(tmp_path, monkeypatch):
    made = Store.create(tmp_path / "run.zarr", provenance={}, plan=PLAN, documents=1)
    seen = flushed(monkeypatch)
    made.append(row("one"), arrays(1))
    draft = tmp_path / ".run.zarr.draft"
    assert {draft / path.relative_to(made.path) for path in made.path.rglob("*")} <= set(seen)
    assert seen[-2:] == [made.path, tmp_path]


def test_a_result_and_its_folders_are_on_the_disk_before_the_manifest_names_it(store, monkeypatch):
    seen = flushed(monkeypatch)
    store.put({"norms": NORMS})
    group, draft = store.path / "norms", store.path.with_name(".run.zarr.ready") / "norms"
    drafts = {draft / path.relative_to(group) for path in group.rglob("*")}
    assert {draft, *drafts} <= set(seen[: seen.index(group)])
    assert seen[-2:] == [store.path / "zarr.json", store.path]


@pytest.mark.parametrize(
    ("error", "passes"), [(errno.EINVAL, True), (errno.ENOTSUP, True), (errno.EIO, False)]
)
def test_a_disk_that_cannot_flush_folders_still_takes_files(store, monkeypatch, error, passes):
    flush = disk.flush

    def files_only(path):
        if path.is_dir():
            raise OSError(error, os.strerror(error))
        flush(path)

    monkeypatch.setattr(disk, "flush", files_only)
    if passes:
        store.append(row("three"), arrays(3))
        assert len(Store.open(store.path).documents) == 3
    else:
        with pytest.raises(InputError, match=r"the disk failed \(Input/output error\)"):
            store.append(row("three"), arrays(3))


def test_a_run_is_readable_with_other_line_ends(store, monkeypatch):
    def as_on_windows(file, mode, **options):
        return open(file, mode, **options if "b" in mode else {"newline": "\r\n", **options})

    for part in (disk, shards, journal):
        monkeypatch.setattr(part, "open", as_on_windows, raising=False)
    store.append(row("three"), arrays(3))
    store.settle()
    assert len(Store.open(store.path).documents) == 3
