"""What stands where a run is to be, what a killed process left there, and who may write."""

import fcntl
import shutil

import pytest
import zarr
from support.places import contents
from support.stores import NORMS, names

from empirical.errors import InputError, StoreError
from empirical.store.integrity import check
from empirical.store.lock import alone, recover
from empirical.store.store import Store

HELD = "another geostat command is writing there.* Wait until it ends"


def test_a_missing_run_is_distinguished_from_a_damaged_one(tmp_path):
    zarr.create_group(store=tmp_path / "foreign.zarr", zarr_format=3, attributes={"mine": 1})
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("{}")
    for name in ("foreign.zarr", "folder", "file"):
        with pytest.raises(InputError, match="is not a run of geostat"):
            Store.open(tmp_path / name)
    no_manifest = '{"zarr_format": 3, "attributes": {"manifest": []}}'
    for text in ("", "[]", "{}", no_manifest, '{"attributes": {'):
        (tmp_path / "folder/zarr.json").write_text(text)
        with pytest.raises(StoreError, match="manifest is damaged"):
            Store.open(tmp_path / "folder")


def test_a_process_killed_between_the_two_moves_loses_nothing(store):
    before, aside = contents(store.path), store.path.with_name(".run.zarr.old")
    recover(store.path)
    store.path.rename(aside)
    Store.open(store.path)
    assert contents(store.path) == before
    assert names(store.path.parent) == ["run.zarr"]
    shutil.copytree(store.path, aside)  # killed behind the second move
    recover(store.path)
    assert contents(store.path) == before
    assert names(store.path.parent) == ["run.zarr"]


def test_a_run_has_one_writer_at_a_time_under_all_its_names(store, tmp_path):
    link = tmp_path / "linked.zarr"
    link.symlink_to(store.path)
    with alone(store.path):
        for path in (store.path, link):
            with pytest.raises(InputError, match=f"{path.name}: {HELD}"), alone(path):
                pytest.fail("a second writer")
        assert names(tmp_path) == [".run.zarr.lock", "linked.zarr", "run.zarr"]
    with alone(link):
        pass
    assert names(tmp_path) == ["linked.zarr", "run.zarr"]


def test_a_refused_path_leaves_no_folder(tmp_path):
    with alone(tmp_path / "a/b/run.zarr"):
        assert (tmp_path / "a/b").is_dir()
    assert names(tmp_path) == []


def test_a_lock_that_was_removed_while_it_was_waited_for_is_not_held(tmp_path, monkeypatch):
    # Another process lets go and removes its file between our opening and our locking it: a third
    # could then lock a new one.
    path, flock, calls = tmp_path / "run.zarr", fcntl.flock, []

    def removed(descriptor, how):
        if not calls:
            (tmp_path / ".run.zarr.lock").unlink()
        calls.append(descriptor)
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", removed)
    with alone(path):
        with pytest.raises(InputError, match=HELD), alone(path):
            pytest.fail("a second writer")
        assert names(tmp_path) == [".run.zarr.lock"]
    assert len(calls) == 3


def test_a_writer_sees_what_another_wrote_before_it(store):
    other = Store.open(store.path)
    with store.alone():
        store.put({"norms": NORMS})
    with other.alone():
        assert other.results == ["norms"]
        other.put({"weights": NORMS})
    found = Store.open(store.path)
    check(found.path, found.attributes)
    assert found.results == ["norms", "weights"]
