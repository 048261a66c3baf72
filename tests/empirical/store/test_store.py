"""The store: what is written is read back, and nothing half-written counts."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support.places import contents
from support.raising import raising
from support.stores import NORMS, PLAN, WORDS, arrays, chunks_changed, names, row

from empirical.errors import InputError, StoreError
from empirical.schema import Quantity, with_f_scores
from empirical.store import disk
from empirical.store.integrity import check
from empirical.store.journal import FOLDER
from empirical.store.layout import GroupPlan
from empirical.store.manifest import files_below
from empirical.store.store import Store


def checked(path: Path) -> Store:
    """Open a run and verify every file of it."""
    found = Store.open(path)
    check(found.path, found.attributes)
    return found


def test_written_data_are_read_back(store):
    found = Store.open(store.path).read("capture")
    assert list(found["document"].values) == ["one", "two, longer"]
    assert found.attrs["dimension"] == 4
    assert found.coords["tokens"].dims == ("layer",)
    assert list(found["label"].values) == ["a", "bb"]
    for index in range(2):
        for name, value in arrays(index + 1)["capture"].items():
            np.testing.assert_array_equal(found[name][index].values, value)
            assert found[name].dtype == value.dtype
    assert found["weight"].attrs == WORDS


def test_a_result_group_round_trips_with_attributes(store):
    beta, words = np.array([[1.0, np.nan], [3.0, 4.0]]), {"units": "1", "symbol": r"\beta"}
    dataset = xr.Dataset(
        {"beta": (("gram", "layer"), beta, words), "ok": ("layer", [True, False])},
        coords={"gram": np.array(["exponential", "offset"], dtype=object)},
        attrs={"sentences": ["one", "two"]},
    )
    for _ in range(2):
        store.put({"similarity": dataset})
    found = Store.open(store.path).read("similarity")
    found = found.assign_coords(gram=found["gram"].values.astype(object))
    xr.testing.assert_identical(found, dataset)
    assert Store.open(store.path).results == ["similarity"]


def test_equal_runs_give_equal_bytes_however_they_were_interrupted(tmp_path, store):
    path = tmp_path / "other.zarr"
    other = Store.create(path, provenance={"model": {"model": "m"}}, plan=PLAN, documents=3)
    other.append(row("one"), arrays(1))
    again = Store.open(path)
    stray = path / "capture/weight/c/0/0/0.partial"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"what a run killed while writing leaves behind")
    (path / FOLDER / ".1.zip.draft").write_bytes(b"the same")
    with again.alone():
        again.append(row("two, longer"), arrays(2))
        again.settle()
    assert contents(path) == contents(store.path)


def test_a_document_is_intact_for_any_variable_names(tmp_path):
    variables = {name: Quantity(name, dims=("layer",), **WORDS) for name in ("a", "a-b", "a_b")}
    plan = {"capture": GroupPlan(variables=variables, coordinates={}, sizes={"layer": 2})}
    made = Store.create(tmp_path / "run.zarr", provenance={}, plan=plan, documents=1)
    made.append(row("one"), {"capture": {name: np.ones(2, np.float32) for name in variables}})
    assert Store.open(made.path).documents == made.documents
    made.settle()
    assert Store.open(made.path).documents == made.documents


def test_an_incomplete_document_does_not_count(store, monkeypatch):
    monkeypatch.setattr(disk.os, "replace", raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        store.append(row("three"), arrays(3))
    monkeypatch.undo()
    assert checked(store.path).read("capture").sizes["document"] == 2


def test_a_chunk_of_fill_values_is_written(store):
    empty = arrays(3)
    empty["capture"]["weight"][...] = np.nan
    store.append(row("three"), empty)
    assert np.isnan(Store.open(store.path).read("capture")["weight"][2]).all()
    store.settle()
    chunks_changed(store.path / "capture/weight/c/0/0/0", lambda held: held[:2], held=3)
    with pytest.raises(StoreError, match="weight/c/0/0/0: damaged"):
        Store.open(store.path)


def test_files_below_lists_complete_files_only(tmp_path):
    for name in ("group/c/1", "group/c/0", "group/zarr.json", "group/c/2.partial", "other/c/0"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    group = tmp_path / "group"
    for name, target in (("beside", "other"), ("linked", "other/c/0"), ("lost", "nowhere")):
        (group / name).symlink_to(tmp_path / target)  # links are strangers to it
    found = ("beside", "c/0", "c/1", "linked", "lost", "zarr.json")
    drafts: list[Path] = []
    assert files_below(group, drafts) == [group / name for name in found]
    assert drafts == [group / "c/2.partial"]
    assert files_below(tmp_path / "absent") == []


def test_a_missing_run_an_unknown_group_and_an_existing_run_are_reported(tmp_path, store):
    with pytest.raises(InputError, match="no such run"):
        Store.open(tmp_path / "absent.zarr")
    with pytest.raises(InputError, match="has no /norms, only capture"):
        store.read("norms")
    with pytest.raises(InputError, match="exists already"):
        Store.create(store.path, provenance={}, plan=PLAN, documents=1)


def test_a_fresh_store_leaves_the_old_one_until_its_first_document_is_complete(store):
    before = contents(store.path)
    fresh = Store.create(store.path, provenance={"new": True}, plan=PLAN, documents=1, fresh=True)
    assert contents(store.path) == before
    fresh.append(row("other"), arrays(3))
    found = checked(store.path)
    assert [entry["name"] for entry in found.documents] == ["other"]
    assert found.attributes["new"]
    assert names(store.path.parent) == ["run.zarr"]


def test_a_users_group_is_not_changed(store):
    NORMS.to_zarr(store.path, group="mine", zarr_format=3, consolidated=False)
    store.put({"norms": NORMS})
    store.append(row("three"), arrays(3))
    assert (store.path / "mine" / "zarr.json").exists()


@pytest.mark.parametrize(
    ("convention", "outer", "inner"),
    [("paper", [1, 2 / 3, 0], [1, 0.4, 0]), ("followup", [1, 1 / 3, 0], [1, 1 / 3, 0])],
)
def test_f_scores_are_derived_by_the_runs_convention(convention, outer, inner):
    curves = {"precision": ("n", [1.0, 0.5, 0.0]), "recall": ("n", [1.0, 0.25, 0.0])}
    found = with_f_scores(xr.Dataset(curves, attrs={"convention": convention}))
    np.testing.assert_allclose(found["f_outer"], outer)
    np.testing.assert_allclose(found["f_inner"], inner)
