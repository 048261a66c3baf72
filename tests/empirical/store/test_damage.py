"""Every file of a store, flipped, cut or gone: found and named whenever the store is opened."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.damage import KINDS, damaged, files, flipped
from support.places import ROOT, contents
from support.stores import NORMS, arrays, chunks_changed, row, small_store

from empirical.caches import place_in_cache
from empirical.errors import InputError, StoreError
from empirical.store import integrity, manifest, stored_run
from empirical.store import store as module
from empirical.store.manifest import beside
from empirical.store.store import Store
from empirical.store.stored_run import StoredRun


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three documents of three, and two results."""
    made = small_store(tmp_path / "run.zarr")
    made.append(row("three"), arrays(3))
    made.put(
        {
            "norms": NORMS,
            "summary": xr.Dataset(
                {"share": ((), 0.5)}, coords={"kind": np.array(["a", "b"], dtype=object)}
            ),
        }
    )
    return made


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_damaged_file_is_found_and_named(store: Store, kind: Callable[[Path], None]) -> None:
    every = files(store.path)
    assert len(every) > 20
    for file in every:
        with damaged(file, kind), pytest.raises(StoreError) as caught:
            Store.open(store.path)
        assert str(file) in str(caught.value) or (
            file.name == "zarr.json" and file.parent == store.path
        ), caught.value
        assert "\n" not in str(caught.value)
    Store.open(store.path)


def test_every_byte_of_the_roots_metadata_counts(store: Store) -> None:
    file = store.path / "zarr.json"
    size = file.stat().st_size
    for at in np.linspace(0, 1, 400):
        with (
            damaged(file, lambda path, at=at: flipped(path, at=float(at))),
            pytest.raises(StoreError, match="manifest is damaged"),
        ):
            Store.open(store.path)
    assert size > 4000
    text = file.read_text(encoding="utf-8")
    file.write_text(text + " ", encoding="utf-8")
    with pytest.raises(StoreError, match="manifest is damaged"):
        Store.open(store.path)


def test_results_that_are_made_anew_may_be_damaged(store: Store) -> None:
    flipped(store.path / "norms" / "C" / "c" / "0")
    with pytest.raises(
        StoreError,
        match=(
            r"norms/C/c/0: damaged.* run `geostat fit .*run.zarr --fresh`, then `geostat confront"
        ),
    ):
        Store.open(store.path)
    found = Store.open(store.path, results=False)
    assert found.results == []
    assert list(found.tree().children) == ["capture"]
    with found.alone():
        found.put({"weights": NORMS})
    assert Store.open(store.path).results == ["weights"]
    assert not (store.path / "norms").exists()
    flipped(store.path / "capture" / "layer" / "c" / "0")
    with pytest.raises(
        StoreError,
        match=(
            r"capture/layer/c/0: damaged.*measure again with `--fresh` \(of `geostat run` or"
            r" `geostat capture`\)"
        ),
    ):
        Store.open(store.path, results=False)


@pytest.mark.parametrize("linked", [False, True])
def test_results_are_made_anew_where_something_else_took_their_folders_place(
    store: Store, *, linked: bool
) -> None:
    for name in ("norms", "summary"):
        there = store.path / name
        there.rename(store.path.with_name(name))
        there.symlink_to(store.path.with_name(name)) if linked else there.write_text("no folder")
    for _ in range(2):
        anew = Store.open(store.path, results=False)
        with anew.alone():
            anew.put({"norms": NORMS * 2})
    assert Store.open(store.path).results == ["norms"]
    assert not (store.path / "summary").exists()
    assert not beside(store.path, "removed").is_symlink()


@pytest.mark.parametrize(
    "name",
    [
        "norms/stray",
        "norms/C/c/1",
        "capture/new/zarr.json",
        "capture/layer/c/1",
        "summary/new/zarr.json",
    ],
)
def test_a_file_that_does_not_belong_to_the_run_is_found(store: Store, name: str) -> None:
    (store.path / name).parent.mkdir(exist_ok=True)
    (store.path / name).write_text("{", encoding="utf-8")
    with pytest.raises(
        StoreError, match=f"{name}: damaged, for this file does not belong to the run. Remove it"
    ):
        Store.open(store.path)
    (store.path / name).unlink()
    Store.open(store.path)


def test_it_is_told_how_much_more_is_damaged(store: Store) -> None:
    for name in ("norms/C/c/0", "norms/zarr.json", "capture/layer/c/0"):
        (store.path / name).write_bytes(b"")
    with pytest.raises(StoreError, match=r"capture/layer/c/0: damaged.*Faults beside it: 2\.$"):
        Store.open(store.path)


def test_every_chunk_of_a_result_is_written(store: Store) -> None:
    store.put({"weights": NORMS * np.nan})
    assert (store.path / "weights" / "C" / "c" / "0").exists()


def test_a_linked_run_is_finished_beside_the_run_itself(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = store.path.with_name("elsewhere")
    elsewhere.mkdir()
    link = elsewhere / "linked.zarr"
    link.symlink_to(store.path)
    wanted = small_store(store.path.with_name("wanted.zarr"))
    wanted.append(row("three"), arrays(3))
    wanted.put({"norms": NORMS * 3})

    def kill(path: Path) -> None:
        raise SystemExit

    found = Store.open(link)
    with monkeypatch.context() as patched:
        patched.setattr(module, "finish", kill)
        with pytest.raises(SystemExit):
            found.put({"norms": NORMS * 3}, drops=["summary"])
    Store.open(link)
    assert contents(store.path) == contents(wanted.path)
    assert [path.name for path in elsewhere.iterdir()] == ["linked.zarr"]


def test_a_document_added_through_a_link_lands_in_the_run_itself(store: Store) -> None:
    path = small_store(store.path.with_name("two.zarr")).path
    link = store.path.with_name("linked.zarr")
    link.symlink_to(path)
    Store.open(link).append(row("three"), arrays(3))
    assert link.is_symlink()
    assert len(Store.open(path).documents) == 3


def test_a_run_that_was_set_aside_for_a_new_one_that_never_came_is_put_back(store: Store) -> None:
    before = contents(store.path)
    store.path.rename(store.path.with_name(".run.zarr.old"))
    Store.open(store.path)
    assert contents(store.path) == before


def test_a_chunk_in_the_place_of_another_is_found(store: Store) -> None:
    shard = store.path / "capture" / "count" / "c" / "0" / "0"
    chunks_changed(shard, lambda held: [held[1], *held[1:]], held=3)
    with pytest.raises(StoreError, match=r"damaged, for document 'one' is not what was written"):
        Store.open(store.path)


def test_a_run_of_a_geostat_that_laid_it_out_otherwise_says_so(store: Store) -> None:
    root = json.loads((store.path / "zarr.json").read_text(encoding="utf-8"))
    root["attributes"]["geostat_version"] = "0.0.9"
    root["attributes"]["manifest"]["documents"] = [row("one"), row("two")]
    del root["attributes"]["manifest"]["rows"]
    (store.path / "zarr.json").write_text(json.dumps(root), encoding="utf-8")
    with pytest.raises(
        StoreError,
        match=r"older geostat \(0.0.9\).*`--fresh` \(of `geostat run` or `geostat capture`\)",
    ):
        Store.open(store.path)
    assert manifest.read_root(store.path, damaged=True)["geostat_version"] == "0.0.9"


@pytest.mark.parametrize("settled", [True, False])
def test_plain_xarray_says_nothing_of_what_is_no_zarr(tmp_path: Path, settled: bool) -> None:
    made = small_store(tmp_path / "run.zarr")
    made.append(row("three"), arrays(3))
    if settled:
        made.settle()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with xr.open_datatree(made.path, engine="zarr", consolidated=False) as tree:
            assert list(tree.children) == ["capture"]


def test_a_complete_run_opens_in_plain_xarray_without_a_word(store: Store) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = xr.open_datatree(store.path, engine="zarr", mask_and_scale=False)
        group = xr.open_zarr(store.path, group="capture", mask_and_scale=False)
    assert set(tree.children) == {"capture", "norms", "summary"}
    ours = store.read("capture")
    for found in (tree["capture"].to_dataset(), group):
        np.testing.assert_array_equal(found["weight"].values, ours["weight"].values)
    assert list(tree["capture"]["label"].values) == ["a", "bb"]
    store.put({}, drops=["summary"])
    assert set(xr.open_datatree(store.path, engine="zarr").children) == {"capture", "norms"}


@pytest.mark.slow
def test_a_killed_move_is_finished_by_who_opens_the_run_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = small_store(store.path.with_name("wanted.zarr"))
    wanted.append(row("three"), arrays(3))
    wanted.put({"weights": NORMS * 2, "norms": NORMS * 3})
    moves = manifest.os.replace
    killed, killed_at = True, 0
    while killed:
        killed_at += 1
        again = small_store(store.path.with_name(f"{killed_at}.zarr"))
        again.append(row("three"), arrays(3))
        again.put({"norms": NORMS, "summary": NORMS})
        count = 0

        def kill(old: Path, new: Path) -> None:
            nonlocal count
            count += (
                str(old).endswith(".partial") is False
            )  # zarr's own moves run in a thread that must go on
            if count == killed_at and not str(old).endswith(".partial"):  # noqa: B023
                raise SystemExit
            moves(old, new)

        with monkeypatch.context() as patched:
            patched.setattr(manifest.os, "replace", kill)
            try:
                again.put({"weights": NORMS * 2, "norms": NORMS * 3}, drops=["summary"])
            except SystemExit:
                killed = True
            else:
                killed = False
        found = Store.open(again.path)
        assert found.results in (["norms", "summary"], ["norms", "weights"])
        with found.alone():
            found.put({"weights": NORMS * 2, "norms": NORMS * 3}, drops=["summary"])
        assert contents(again.path) == contents(wanted.path)
        assert not list(store.path.parent.glob(f".{killed_at}.zarr.*"))
    assert killed_at > 6


def test_a_reader_who_read_while_another_wrote_reads_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = Store.open(store.path), Store.open(store.path)
    read, calls = reader._read, []

    def interrupted(group: str) -> xr.Dataset:
        if group == "summary" and not calls:  # norms were read before
            calls.append(group)
            with writer.alone():
                writer.put({"norms": NORMS * 5, "summary": NORMS * 6})
        return read(group)

    monkeypatch.setattr(reader, "_read", interrupted)
    tree = reader.tree()
    assert float(tree["norms"]["C"][0]) == 5.0
    assert float(tree["summary"]["C"][0]) == 6.0


@pytest.mark.parametrize("opens", [StoredRun, Store], ids=["a reader", "a writer"])
def test_moves_that_did_not_begin_on_this_machine_are_never_carried_out(
    store: Store, monkeypatch: pytest.MonkeyPatch, opens: type[StoredRun]
) -> None:
    attributes = manifest.read_root(store.path)
    attributes["manifest"]["pending"] = {"moves": ["norms"], "drops": ["summary"], "then": {}}
    manifest.save(store.path, attributes)
    ready = beside(store.path, "ready") / "norms"
    ready.mkdir(parents=True)
    (ready / "zarr.json").write_text("{}")
    monkeypatch.setattr(stored_run, "PATIENCE", 0.1)
    before = contents(store.path.parent)
    with pytest.raises(InputError, match="a command was stopped while it put results in place"):
        opens.open(store.path)
    assert contents(store.path.parent) == before


@pytest.mark.parametrize("where", ["root", "moves"])
def test_moves_that_stand_in_the_root_are_finished_though_a_step_failed(
    store: Store, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """As where the folder cannot be flushed after the root was replaced, or a folder not moved."""
    monkeypatch.setenv("GEOSTAT_CACHE", str(store.path.parent / "cache"))
    at, name = (module, "save") if where == "root" else (manifest, "_remove")
    own = getattr(at, name)

    def fails_behind(*given: Any) -> None:
        own(*given)
        monkeypatch.setattr(at, name, own)
        raise OSError(errno.EIO, "the disk fails")

    monkeypatch.setattr(at, name, fails_behind)
    with pytest.raises(InputError, match="the disk fails"):
        store.put({"norms": NORMS * 2}, drops=["summary"])
    found = StoredRun.open(store.path)
    assert store.results == found.results == ["norms"]
    assert float(found.read("norms")["C"][0]) == 2.0
    assert not list(store.path.parent.glob(f".{store.path.name}.*"))
    assert not list(place_in_cache("moves").glob("*"))


@contextmanager
def killed_before_moving(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within, a writer is killed before its first move; who reads it later does not wait long."""

    def killed(*args: object) -> None:
        raise SystemExit

    monkeypatch.setattr(stored_run, "PATIENCE", 0.1)
    with monkeypatch.context() as patched:
        patched.setattr(module, "finish", killed)
        with pytest.raises(SystemExit):
            yield


def test_moves_of_a_killed_writer_are_finished_by_the_next_writer_and_shown_to_a_reader(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOSTAT_CACHE", str(store.path.parent / "cache"))
    with killed_before_moving(monkeypatch):
        store.put({"norms": NORMS * 2}, drops=["summary"])
    before = contents(store.path.parent)
    with pytest.raises(InputError, match="was stopped while it put results in place"):
        StoredRun.open(store.path)
    assert contents(store.path.parent) == before
    assert Store.open(store.path).results == ["norms"]
    assert float(StoredRun.open(store.path).read("norms")["C"][0]) == 2.0
    assert not list(place_in_cache("moves").glob("*"))


@pytest.fixture
def killed_while_moving(store: Store, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose writer was killed before the first move."""
    with killed_before_moving(monkeypatch):
        store.put({"norms": NORMS * 2, "weights": NORMS}, drops=["summary"])
    return store.path


@pytest.mark.parametrize("moved_in", [False, True], ids=["elsewhere", "in its place"])
def test_a_copy_of_a_run_takes_no_part_in_the_moves_of_its_original(
    killed_while_moving: Path, moved_in: bool
) -> None:
    copied = killed_while_moving.with_name("copied.zarr")
    shutil.copytree(killed_while_moving, copied)
    if moved_in:
        aside = killed_while_moving.parent / "aside"
        aside.mkdir()
        for one in (killed_while_moving, beside(killed_while_moving, "ready")):
            shutil.move(one, aside / one.name)
        copied = shutil.move(copied, killed_while_moving)
    before = contents(copied)
    with pytest.raises(InputError, match="was stopped while it put results in place"):
        Store.open(copied)
    assert contents(copied) == before
    if moved_in:
        shutil.rmtree(killed_while_moving)
        for one in (killed_while_moving, beside(killed_while_moving, "ready")):
            shutil.move(aside / one.name, one)
    assert Store.open(killed_while_moving).results == ["norms", "weights"]


def test_moves_of_which_a_file_is_lost_are_not_begun(killed_while_moving: Path) -> None:
    lost = next((beside(killed_while_moving, "ready") / "norms").rglob("c/*"))
    kept, held = lost.read_bytes(), contents(killed_while_moving)
    lost.unlink()
    with pytest.raises(InputError, match="was stopped while it put results in place"):
        Store.open(killed_while_moving)
    assert contents(killed_while_moving) == held
    lost.write_bytes(kept)
    assert Store.open(killed_while_moving).results == ["norms", "weights"]


@pytest.mark.parametrize("moved", [0, 1])
def test_room_that_was_being_made_for_documents_is_never_given_up(
    store: Store, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    with killed_before_moving(monkeypatch):
        store.extend(4)
    ready = beside(store.path, "ready")
    for file in sorted(ready.rglob("zarr.json"))[:moved]:
        os.replace(file, store.path / file.relative_to(ready))
    before = contents(store.path.parent)
    with monkeypatch.context() as patched:
        patched.setenv("GEOSTAT_CACHE", str(store.path.parent / "another cache"))
        with pytest.raises(InputError, match="was stopped while it put results in place"):
            Store.open(store.path, results=False)
        assert not manifest.give_up(store.path)
    assert contents(store.path.parent) == before
    found = Store.open(store.path)
    found.append(row("three"), arrays(3))
    assert len(StoredRun.open(store.path).documents) == len(store.documents) + 1


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_moves_that_nobody_can_finish_are_given_up_by_who_makes_results_anew(
    killed_while_moving: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, moves: int
) -> None:
    path = killed_while_moving
    for name in ("norms", "weights")[:moves]:
        shutil.rmtree(path / name, ignore_errors=True)
        shutil.move(beside(path, "ready") / name, path / name)
    monkeypatch.setenv("GEOSTAT_CACHE", str(tmp_path / "another cache"))
    with pytest.raises(InputError, match="was stopped while it put results in place"):
        Store.open(path)
    found = Store.open(path, results=False)
    found.put({"norms": NORMS * 3})
    assert not list(path.parent.glob(f".{path.name}.*"))
    assert StoredRun.open(path).results == ["norms"]
    assert float(StoredRun.open(path).read("norms")["C"][0]) == 3.0
    assert sorted(one.name for one in path.iterdir()) == ["capture", "norms", "zarr.json"]


WRITER = """
import sys
import time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from support.stores import NORMS
from empirical.store.store import Store
from empirical.store.stored_run import StoredRun
store = Store.open(Path(sys.argv[1]))
for turn in range(12):
    with store.alone():
        store.put({"norms": NORMS * turn, "summary": NORMS * turn})
    time.sleep(0.3)
"""


@pytest.mark.slow
def test_a_reader_beside_a_writer_sees_one_state_whenever_it_looks(store: Store) -> None:
    with store.alone():
        store.put({"norms": NORMS * -1, "summary": NORMS * -1})
    seen = []
    program = [sys.executable, "-c", WRITER, str(store.path), str(ROOT / "tests")]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            tree = Store.open(store.path).tree()
            assert float(tree["norms"]["C"][0]) == float(tree["summary"]["C"][0])
            seen.append(float(tree["norms"]["C"][0]))
        assert process.returncode == 0, process.stderr.read() if process.stderr else ""
    assert seen == sorted(seen)
    assert len(set(seen)) > 2


def test_a_group_that_vanishes_while_it_is_listed_is_missing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanished(folder: Path) -> list[Path]:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))

    monkeypatch.setattr(integrity, "files_below", vanished)
    with pytest.raises(StoreError, match=r"capture: damaged, for it is missing"):
        Store.open(store.path)


def root_of(store: Store) -> dict[str, Any]:
    return json.loads((store.path / "zarr.json").read_text(encoding="utf-8"))


def state(store: Store, root: dict[str, Any]) -> None:
    """Write a root that states its own digest."""
    root["attributes"]["manifest"]["own_sha256"] = ""
    text = json.dumps(root)
    digest = hashlib.sha256(text.encode()).hexdigest()
    written = text.replace('"own_sha256": ""', f'"own_sha256": "{digest}"')
    (store.path / "zarr.json").write_text(written, encoding="utf-8")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("layout", 5),
        ("layout", {"../../x": "0"}),
        ("captured", None),
        ("captured", ["/etc"]),
        ("results", "norms"),
        ("results", {"norms": None}),
        ("rows", [{"name": "one"}]),
        ("rows", {"count": -1, "bytes": 0, "chain": ""}),
        ("pending", True),
        ("pending", {"moves": [], "drops": ["../elsewhere"], "then": {}}),
    ],
)
def test_an_edited_manifest_is_damaged_even_if_it_states_its_digest(
    store: Store, part: str, value: object
) -> None:
    root = root_of(store)
    root["attributes"]["manifest"] |= {part: value}
    state(store, root)
    with pytest.raises(StoreError, match=r"zarr\.json: the manifest is damaged\."):
        Store.open(store.path)


@pytest.mark.parametrize(("group", "of"), [("capture", "layout"), ("norms", "results")])
def test_metadata_that_zarr_cannot_read_is_damage_even_if_its_digest_is_right(
    store: Store, group: str, of: str
) -> None:
    file = store.path / group / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"x": None}), encoding="utf-8")
    root = root_of(store)
    root.pop("consolidated_metadata")
    known = root["attributes"]["manifest"][of]
    (known if of == "layout" else known[group])[f"{group}/zarr.json"] = hashlib.sha256(
        file.read_bytes()
    ).hexdigest()[: manifest.DIGITS]
    state(store, root)
    with pytest.raises(StoreError, match=rf"/{group}/zarr.json: is no metadata"):
        Store.open(store.path).read(group)
