"""Damage is found and named; moves of a killed writer are finished where they began, only there."""

import errno
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.damage import KINDS, damaged, files, flipped, restated
from support.faults import killed_at
from support.places import contents
from support.raising import raising
from support.stores import NORMS, arrays, chunks_changed, row, small_store

from empirical.caches import place_in_cache
from empirical.errors import InputError, StoreError
from empirical.store import integrity, manifest, stored_run
from empirical.store.disk import sidecar_path
from empirical.store.store import Store
from empirical.store.stored_run import StoredRun


def complete(path: Path, **groups: xr.Dataset) -> Store:
    """Three documents of three, and these results."""
    made = small_store(path)
    made.append(row("three"), arrays(3))
    made.put(groups)
    return made


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    kinds = {"kind": np.array(["a", "b"], dtype=object)}
    groups = {"norms": NORMS, "summary": xr.Dataset({"share": ((), 0.5)}, coords=kinds)}
    return complete(tmp_path_factory.mktemp("finished") / "run.zarr", **groups).path


@pytest.fixture
def store(finished, tmp_path, monkeypatch) -> Store:
    monkeypatch.setenv("GEOSTAT_CACHE", str(tmp_path / "cache"))
    return Store.open(shutil.copytree(finished, tmp_path / "run.zarr"))


def first_norm(path: Path) -> float:
    return float(StoredRun.open(path).read("norms")["C"][0])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_damaged_file_is_found_and_named(store, kind):
    every = files(store.path)
    assert len(every) > 20
    for file in every:
        with damaged(file, kind), pytest.raises(StoreError) as caught:
            Store.open(store.path)
        assert str(file) in str(caught.value) or file == store.path / "zarr.json", caught.value
        assert "\n" not in str(caught.value)
    Store.open(store.path)


def test_every_byte_of_the_roots_metadata_counts(store):
    file = store.path / "zarr.json"
    assert file.stat().st_size > 4000
    harms = [partial(flipped, at=at) for at in np.linspace(0, 1, 30).tolist()]
    for harm in (*harms, lambda root: root.write_bytes(root.read_bytes() + b" ")):
        with damaged(file, harm), pytest.raises(StoreError, match="manifest is damaged"):
            Store.open(store.path)


def test_results_to_be_replaced_may_be_damaged(store):
    flipped(store.path / "norms/C/c/0")
    remedy = r"run `geostat fit .*run.zarr --fresh`, then `geostat confront"
    with pytest.raises(StoreError, match=rf"norms/C/c/0: damaged.* {remedy}"):
        Store.open(store.path)
    found = Store.open(store.path, results=False)
    assert (found.results, list(found.tree().children)) == ([], ["capture"])
    with found.alone():
        found.put({"weights": NORMS})
    assert Store.open(store.path).results == ["weights"]
    assert not (store.path / "norms").exists()
    flipped(store.path / "capture/layer/c/0")
    remedy = r"measure again with `--fresh` \(of `geostat run` or `geostat capture`\)"
    with pytest.raises(StoreError, match=f"capture/layer/c/0: damaged.*{remedy}"):
        Store.open(store.path, results=False)


@pytest.mark.parametrize("linked", [False, True])
def test_results_are_replaced_even_if_their_folder_is_something_else(store, *, linked):
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
    assert not sidecar_path(store.path, "removed").is_symlink()


@pytest.mark.parametrize(
    "name",
    [
        *("norms/stray", "norms/C/c/1", "summary/new/zarr.json"),
        *("capture/new/zarr.json", "capture/layer/c/1"),
    ],
)
def test_a_foreign_file_is_found(store, name):
    (store.path / name).parent.mkdir(exist_ok=True)
    (store.path / name).write_text("{", encoding="utf-8")
    with pytest.raises(StoreError, match=f"{name}: damaged, .* does not belong .* Remove it"):
        Store.open(store.path)
    (store.path / name).unlink()
    Store.open(store.path)


def test_further_faults_are_counted(store):
    for name in ("norms/C/c/0", "norms/zarr.json", "capture/layer/c/0"):
        (store.path / name).write_bytes(b"")
    with pytest.raises(StoreError, match=r"capture/layer/c/0: damaged.*Further faults: 2\.$"):
        Store.open(store.path)


def test_every_chunk_of_a_result_is_written(store):
    store.put({"weights": NORMS * np.nan})
    assert (store.path / "weights/C/c/0").exists()


def test_a_swapped_chunk_is_found(store):
    chunks_changed(store.path / "capture/count/c/0/0", lambda held: [held[1], *held[1:]], held=3)
    with pytest.raises(StoreError, match="damaged, because document 'one' is not what was written"):
        Store.open(store.path)


def test_a_run_with_an_older_layout_is_refused_by_version(store):
    file = store.path / "zarr.json"
    root = json.loads(file.read_text(encoding="utf-8"))
    root["attributes"]["geostat_version"] = "0.0.9"
    root["attributes"]["manifest"]["documents"] = [row("one"), row("two")]
    del root["attributes"]["manifest"]["rows"]
    file.write_text(json.dumps(root), encoding="utf-8")
    with pytest.raises(StoreError, match=r"older geostat \(0.0.9\).*`--fresh` \(of `geostat run`"):
        Store.open(store.path)
    assert manifest.read_root(store.path, damaged=True)["geostat_version"] == "0.0.9"


def test_plain_xarray_ignores_files_that_are_no_zarr(tmp_path):
    made = small_store(tmp_path / "run.zarr")
    made.append(row("three"), arrays(3))  # in the journal
    with (
        warnings.catch_warnings(action="error"),
        xr.open_datatree(made.path, engine="zarr", consolidated=False) as tree,
    ):
        assert list(tree.children) == ["capture"]


def test_a_complete_run_opens_in_plain_xarray_without_warnings(store):
    with warnings.catch_warnings(action="error"):
        tree = xr.open_datatree(store.path, engine="zarr", mask_and_scale=False)
        group = xr.open_zarr(store.path, group="capture", mask_and_scale=False)
    assert set(tree.children) == {"capture", "norms", "summary"}
    for found in (tree["capture"].to_dataset(), group):
        np.testing.assert_array_equal(found["weight"], store.read("capture")["weight"])
    store.put({}, drops=["summary"])
    assert set(xr.open_datatree(store.path, engine="zarr").children) == {"capture", "norms"}


def test_a_read_during_a_write_is_repeated(store, monkeypatch):
    reader, writer = Store.open(store.path), Store.open(store.path)
    read, calls = reader._read, []

    def interrupted(group):
        if group == "summary" and not calls:  # norms were read before
            calls.append(group)
            with writer.alone():
                writer.put({"norms": NORMS * 5, "summary": NORMS * 6})
        return read(group)

    monkeypatch.setattr(reader, "_read", interrupted)
    tree = reader.tree()
    assert [float(tree[name]["C"][0]) for name in ("norms", "summary")] == [5.0, 6.0]


def test_a_group_removed_during_listing_is_missing(store, monkeypatch):
    monkeypatch.setattr(integrity, "files_below", raising(FileNotFoundError()))
    with pytest.raises(StoreError, match="capture: damaged, because it is missing"):
        Store.open(store.path)


@pytest.mark.parametrize("group", ["capture", "norms"])
def test_metadata_that_zarr_cannot_read_is_damage_even_if_its_digest_is_right(store, group):
    file = store.path / group / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"x": None}), encoding="utf-8")
    restated(store.path)
    with pytest.raises(StoreError, match=rf"/{group}/zarr.json: is no metadata"):
        Store.open(store.path).read(group)


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
def test_an_edited_manifest_is_damaged_even_if_it_states_its_digest(store, part, value):
    restated(store.path, **{part: value})
    with pytest.raises(StoreError, match=r"zarr\.json: the manifest is damaged\."):
        Store.open(store.path)


# ── moves that did not come to their end ──


@contextmanager
def killed_before_moving(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kill the writer in the block before its first move; later readers do not wait for it."""
    monkeypatch.setattr(stored_run, "PATIENCE", 0.1)
    with monkeypatch.context() as patched:
        patched.setattr(manifest, "finish", raising(SystemExit()))
        with pytest.raises(SystemExit):
            yield


@pytest.fixture
def killed(store, monkeypatch) -> Path:
    """A run whose writer was killed before its first move."""
    with killed_before_moving(monkeypatch):
        store.put({"norms": NORMS * 2, "weights": NORMS}, drops=["summary"])
    return store.path


def refuses(open_run: Callable[[], object], folder: Path) -> None:
    """Expect a refusal because of the moves, and an unchanged folder."""
    before = contents(folder)
    with pytest.raises(InputError, match="a command was stopped while it put results in place"):
        open_run()
    assert contents(folder) == before


def test_a_linked_run_is_finished_beside_the_run_itself(store, monkeypatch):
    link = store.path.with_name("elsewhere") / "linked.zarr"
    link.parent.mkdir()
    link.symlink_to(store.path)
    with killed_before_moving(monkeypatch):
        Store.open(link).put({"norms": NORMS * 3}, drops=["summary"])
    Store.open(link)
    wanted = complete(store.path.with_name("wanted.zarr"), norms=NORMS * 3)
    assert contents(store.path) == contents(wanted.path)
    assert [path.name for path in link.parent.iterdir()] == ["linked.zarr"]


@pytest.mark.slow
def test_a_killed_move_is_finished_by_the_next_writer_that_opens_the_run(tmp_path):
    new: Any = {"weights": NORMS * 2, "norms": NORMS * 3}
    wanted = complete(tmp_path / "wanted.zarr", **new)
    step, was_killed = 0, True
    while was_killed:
        step += 1
        again = complete(tmp_path / f"{step}.zarr", norms=NORMS, summary=NORMS)
        was_killed = killed_at(
            step,
            lambda: again.put(new, drops=["summary"]),  # noqa: B023
            [(os, "replace")],
            lambda old, new: not str(old).endswith(".partial"),  # zarr's, in threads that go on
        )
        found = Store.open(again.path)
        assert found.results in (["norms", "summary"], ["norms", "weights"])
        with found.alone():
            found.put(new, drops=["summary"])
        assert contents(again.path) == contents(wanted.path)
        assert not list(tmp_path.glob(f".{step}.zarr.*"))
    assert step > 6


@pytest.mark.parametrize("opens", [StoredRun, Store], ids=["a reader", "a writer"])
def test_moves_that_began_elsewhere_are_never_carried_out(store, monkeypatch, opens):
    attributes = manifest.read_root(store.path)
    attributes["manifest"]["pending"] = {"moves": ["norms"], "drops": ["summary"], "then": {}}
    manifest.save(store.path, attributes)
    ready = sidecar_path(store.path, "ready") / "norms"
    ready.mkdir(parents=True)
    (ready / "zarr.json").write_text("{}")
    monkeypatch.setattr(stored_run, "PATIENCE", 0.1)
    refuses(lambda: opens.open(store.path), store.path.parent)


@pytest.mark.parametrize("step", ["save", "_remove"])
def test_recorded_moves_are_finished_after_a_failed_step(store, monkeypatch, step):
    """As if the folder cannot be flushed after the root was replaced, or a group not moved."""
    whole = getattr(manifest, step)

    def fails_behind(*arguments):
        whole(*arguments)
        monkeypatch.setattr(manifest, step, whole)
        raise OSError(errno.EIO, "the disk fails")

    monkeypatch.setattr(manifest, step, fails_behind)
    with pytest.raises(InputError, match="the disk fails"):
        store.put({"norms": NORMS * 2}, drops=["summary"])
    assert store.results == StoredRun.open(store.path).results == ["norms"]
    assert first_norm(store.path) == 2.0
    assert not list(store.path.parent.glob(f".{store.path.name}.*"))
    assert not list(place_in_cache("moves").glob("*"))


def test_moves_of_a_killed_writer_are_finished_by_the_next_writer_and_shown_to_a_reader(killed):
    refuses(lambda: StoredRun.open(killed), killed.parent)
    assert Store.open(killed).results == ["norms", "weights"]
    assert first_norm(killed) == 2.0
    assert not list(place_in_cache("moves").glob("*"))


@pytest.mark.parametrize("moved_in", [False, True], ids=["elsewhere", "in its place"])
def test_a_copied_run_does_not_carry_out_moves_of_the_original(killed, moved_in):
    copied = killed.with_name("copied.zarr")
    shutil.copytree(killed, copied)
    aside, own = killed.parent / "aside", (killed, sidecar_path(killed, "ready"))
    aside.mkdir()
    if moved_in:
        for place in own:
            shutil.move(place, aside / place.name)
        copied = shutil.move(copied, killed)
    refuses(lambda: Store.open(copied), copied)
    if moved_in:
        shutil.rmtree(killed)
        for place in own:
            shutil.move(aside / place.name, place)
    assert Store.open(killed).results == ["norms", "weights"]


def test_moves_with_a_missing_file_are_not_begun(killed):
    lost = next((sidecar_path(killed, "ready") / "norms").rglob("c/*"))
    data = lost.read_bytes()
    lost.unlink()
    refuses(lambda: Store.open(killed), killed)
    lost.write_bytes(data)
    assert Store.open(killed).results == ["norms", "weights"]


@pytest.mark.parametrize("moved", [0, 1])
def test_moves_that_extend_the_arrays_are_never_abandoned(store, monkeypatch, moved):
    with killed_before_moving(monkeypatch):
        store.extend(4)
    ready = sidecar_path(store.path, "ready")
    for file in sorted(ready.rglob("zarr.json"))[:moved]:
        os.replace(file, store.path / file.relative_to(ready))
    with monkeypatch.context() as patched:
        patched.setenv("GEOSTAT_CACHE", str(store.path.parent / "another cache"))
        refuses(lambda: Store.open(store.path, results=False), store.path.parent)
        assert not manifest.give_up(store.path)
    found = Store.open(store.path)
    found.append(row("three"), arrays(3))
    assert len(StoredRun.open(store.path).documents) == len(store.documents) + 1


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_unfinishable_moves_are_abandoned_when_results_are_replaced(killed, monkeypatch, moves):
    for name in ("norms", "weights")[:moves]:
        shutil.rmtree(killed / name, ignore_errors=True)
        shutil.move(sidecar_path(killed, "ready") / name, killed / name)
    monkeypatch.setenv("GEOSTAT_CACHE", str(killed.parent / "another cache"))
    refuses(lambda: Store.open(killed), killed)
    Store.open(killed, results=False).put({"norms": NORMS * 3})
    assert not list(killed.parent.glob(f".{killed.name}.*"))
    assert StoredRun.open(killed).results == ["norms"]
    assert first_norm(killed) == 3.0
    assert sorted(file.name for file in killed.iterdir()) == ["capture", "norms", "zarr.json"]
