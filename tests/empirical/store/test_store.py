"""The store: what is written is read back, nothing half-written counts, damage is found."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support.places import contents
from support.stores import NORMS, PLAN, WORDS, arrays, chunks_changed, names, row, small_store

from empirical.errors import InputError, StoreError
from empirical.schema import with_f_scores
from empirical.store import disk
from empirical.store.integrity import check
from empirical.store.manifest import files_below
from empirical.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return small_store(tmp_path / "run.zarr")


def test_what_is_written_is_read_back(store: Store) -> None:
    found = Store.open(store.path).read("capture")
    assert list(found["document"].values) == ["one", "two, longer"]
    assert found.attrs["dimension"] == 4
    assert found["tokens"].dims == ("layer",)
    assert "tokens" in found.coords
    assert list(found["label"].values) == ["a", "bb"]
    for index in range(2):
        for name, value in arrays(index + 1)["capture"].items():
            np.testing.assert_array_equal(found[name][index].values, value)
            assert found[name].dtype == value.dtype
    assert found["weight"].attrs == WORDS


def test_a_result_group_round_trips_with_attributes(store: Store) -> None:
    dataset = xr.Dataset(
        {
            "beta": (
                ("gram", "layer"),
                np.array([[1.0, np.nan], [3.0, 4.0]]),
                {"units": "1", "symbol": r"\beta"},
            ),
            "ok": ("layer", [True, False]),
        },
        coords={"gram": np.array(["exponential", "offset"], dtype=object)},
        attrs={"sentences": ["one", "two"]},
    )
    store.put({"similarity": dataset})
    store.put({"similarity": dataset})
    found = Store.open(store.path).read("similarity")
    xr.testing.assert_identical(
        found.assign_coords(gram=found["gram"].values.astype(object)), dataset
    )
    assert Store.open(store.path).results == ["similarity"]


def test_equal_runs_give_equal_bytes_however_they_were_interrupted(
    tmp_path: Path, store: Store
) -> None:
    other = Store.create(
        tmp_path / "other.zarr", provenance={"model": {"model": "m"}}, plan=PLAN, documents=3
    )
    other.append(row("one"), arrays(1))
    again = Store.open(other.path)
    stray = other.path / "capture" / "weight" / "c" / "0" / "0" / "0.partial"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"what a run killed while writing leaves behind")
    (other.path / "capture/document/journal" / ".1.zip.draft").write_bytes(b"the same")
    with again.alone():
        again.append(row("two, longer"), arrays(2))
        again.settle()
    assert contents(other.path) == contents(store.path)


def test_extending_makes_room_and_keeps_what_is_there(tmp_path: Path, store: Store) -> None:
    before = store.read("capture")
    store.extend(5)
    for index in range(3, 6):
        store.append(row(f"document {index}"), arrays(index))
    found = Store.open(store.path).read("capture")
    assert found.sizes["document"] == 5
    xr.testing.assert_equal(found.isel(document=slice(0, 2)), before)


def test_a_document_that_is_not_written_whole_does_not_count(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(disk.os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        store.append(row("three"), arrays(3))
    monkeypatch.undo()
    found = Store.open(store.path)
    assert found.read("capture").sizes["document"] == 2
    check(found.path, found.attributes)


def test_a_flipped_bit_that_comes_after_opening_is_found(store: Store) -> None:
    chunk = store.path / "capture" / "weight" / "c" / "0" / "0" / "0"
    data = bytearray(chunk.read_bytes())
    data[10] ^= 4
    chunk.write_bytes(bytes(data))
    with pytest.raises(StoreError, match="damaged"):
        store.read("capture")


def test_a_chunk_of_nothing_but_fill_is_written_too(store: Store) -> None:
    empty = arrays(3)
    empty["capture"]["weight"][...] = np.nan
    store.append(row("three"), empty)
    assert np.isnan(Store.open(store.path).read("capture")["weight"][2]).all()
    store.settle()
    shard = store.path / "capture" / "weight" / "c" / "0" / "0" / "0"
    chunks_changed(shard, lambda held: held[:2], held=3)
    with pytest.raises(StoreError, match="weight/c/0/0/0: damaged"):
        Store.open(store.path)


def test_files_below_a_folder_are_its_own_and_whole(tmp_path: Path) -> None:
    for name in ("group/c/1", "group/c/0", "group/zarr.json", "group/c/2.partial", "other/c/0"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    group = tmp_path / "group"
    (group / "beside").symlink_to(tmp_path / "other")
    (group / "linked").symlink_to(tmp_path / "other/c/0")
    (group / "lost").symlink_to(tmp_path / "nowhere")
    names = ("beside", "c/0", "c/1", "linked", "lost", "zarr.json")  # links are strangers to it
    drafts: list[Path] = []
    assert files_below(group, drafts) == [group / name for name in names]
    assert drafts == [group / "c/2.partial"]
    assert files_below(tmp_path / "absent") == []


def test_a_missing_run_and_an_unknown_group_are_said(tmp_path: Path, store: Store) -> None:
    with pytest.raises(InputError, match="no such run"):
        Store.open(tmp_path / "absent.zarr")
    with pytest.raises(InputError, match="holds no /norms; it has capture"):
        store.read("norms")


def test_nothing_is_created_over_what_stands_there(store: Store) -> None:
    with pytest.raises(InputError, match="stands there already"):
        Store.create(store.path, provenance={}, plan=PLAN, documents=1)


def test_a_created_store_takes_its_place_with_its_first_document(tmp_path: Path) -> None:
    path = tmp_path / "run.zarr"
    made = Store.create(path, provenance={}, plan=PLAN, documents=2)
    assert not path.exists()
    made.append(row("one"), arrays(1))
    assert names(tmp_path) == ["run.zarr"]
    made.append(row("two"), arrays(2))
    made.put({"norms": NORMS})
    found = Store.open(path)
    check(found.path, found.attributes)
    assert (len(found.documents), found.results) == (2, ["norms"])


def test_a_fresh_store_leaves_the_old_one_until_its_first_document_is_complete(
    store: Store,
) -> None:
    before = contents(store.path)
    fresh = Store.create(store.path, provenance={"new": True}, plan=PLAN, documents=1, fresh=True)
    assert contents(store.path) == before
    fresh.append(row("other"), arrays(3))
    found = Store.open(store.path)
    check(found.path, found.attributes)
    assert [entry["name"] for entry in found.documents] == ["other"]
    assert found.attributes["new"]
    assert names(store.path.parent) == ["run.zarr"]


def test_a_group_of_the_users_own_is_left_alone(store: Store) -> None:
    NORMS.to_zarr(store.path, group="mine", zarr_format=3, consolidated=False)
    store.put({"norms": NORMS})
    store.append(row("three"), arrays(3))
    assert (store.path / "mine" / "zarr.json").exists()


def test_results_are_dropped_when_a_document_is_added(store: Store) -> None:
    store.put({"norms": xr.Dataset({"C": ("layer", [1.0, 2.0])})})
    store.append(row("three"), arrays(3))
    found = Store.open(store.path)
    assert found.results == []
    assert not (store.path / "norms").exists()
    check(found.path, found.attributes)


@pytest.mark.parametrize("convention", ["paper", "followup"])
def test_f_scores_are_derived_by_the_runs_convention(convention: str) -> None:
    curves = xr.Dataset(
        {"precision": ("n", [1.0, 0.5, 0.0]), "recall": ("n", [1.0, 0.25, 0.0])},
        attrs={"convention": convention},
    )
    found = with_f_scores(curves)
    expected = (
        ([1, 2 / 3, 0], [1, 0.4, 0]) if convention == "paper" else ([1, 1 / 3, 0], [1, 1 / 3, 0])
    )
    np.testing.assert_allclose(found["f_outer"], expected[0])
    np.testing.assert_allclose(found["f_inner"], expected[1])
