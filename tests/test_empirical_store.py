"""The store: what is written is read back, nothing half-written counts, damage is found."""

import asyncio
import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.core import sync as sync_module

from empirical import store as module
from empirical.errors import InputError, StoreError
from empirical.layout import GroupPlan
from empirical.schema import Coordinate, Variable, with_f_scores
from empirical.store import Store, put_back

WORDS = {"long_name": "a measured thing", "units": "1", "symbol": "x", "equation": "(1)"}
PLAN = {
    "capture": GroupPlan(
        variables={
            "token_id": Variable(dims=("position",), dtype="int32", **WORDS),
            "weight": Variable(dims=("layer", "position"), **WORDS),
            "count": Variable(dims=("layer",), dtype="int32", **WORDS),
        },
        coordinates={
            "layer": Coordinate(dims=("layer",), values=np.arange(2), long_name="layer"),
            "tokens": Coordinate(dims=("layer",), values=np.array([5, 3]), long_name="visible tokens"),
            "label": Coordinate(dims=("layer",), values=np.array(["a", "bb"]), long_name="label"),
        },
        sizes={"layer": 2, "position": 5},
        attributes={"dimension": 4},
    )
}


def arrays(seed: int) -> dict[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((2, 5)).astype(np.float32)
    weight[1, :2] = np.nan
    return {"capture": {"token_id": rng.integers(0, 9, 5, dtype=np.int32), "weight": weight, "count": np.array([0, seed], dtype=np.int32)}}


def row(name: str) -> dict[str, str]:
    return {"name": name, "sha256": f"hash of {name}"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store.create(tmp_path / "run.zarr", provenance={"model": {"model": "m"}}, plan=PLAN, documents=3)
    made.append(row("one"), arrays(1))
    made.append(row("two, longer"), arrays(2))
    return made


NORMS = xr.Dataset({"C": ("layer", [1.0, 2.0])})


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


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
            "beta": (("gram", "layer"), np.array([[1.0, np.nan], [3.0, 4.0]]), {"units": "1", "symbol": r"\beta"}),
            "ok": ("layer", [True, False]),
        },
        coords={"gram": np.array(["exponential", "offset"], dtype=object)},
        attrs={"sentences": ["one", "two"]},
    )
    store.write("similarity", dataset)
    store.write("similarity", dataset)
    found = Store.open(store.path).read("similarity")
    xr.testing.assert_identical(found.assign_coords(gram=found["gram"].values.astype(object)), dataset)
    assert Store.open(store.path).results == ["similarity"]


def test_equal_runs_give_equal_bytes_however_they_were_interrupted(tmp_path: Path, store: Store) -> None:
    other = Store.create(tmp_path / "other.zarr", provenance={"model": {"model": "m"}}, plan=PLAN, documents=3)
    other.append(row("one"), arrays(1))
    again = Store.open(other.path)
    root = module.zarr.open_group(other.path, mode="r+")
    root["capture"]["weight"][1] = 7.0  # what a run killed while writing leaves behind
    again.append(row("two, longer"), arrays(2))
    assert contents(other.path) == contents(store.path)


def test_extending_makes_room_and_keeps_what_is_there(tmp_path: Path, store: Store) -> None:
    before = store.read("capture")
    store.extend(5)
    for index in range(3, 6):
        store.append(row(f"document {index}"), arrays(index))
    found = Store.open(store.path).read("capture")
    assert found.sizes["document"] == 5
    xr.testing.assert_equal(found.isel(document=slice(0, 2)), before)


def test_a_document_that_is_not_in_the_manifest_does_not_count(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "digest", stop)
    with pytest.raises(KeyboardInterrupt):
        store.append(row("three"), arrays(3))
    monkeypatch.undo()
    found = Store.open(store.path)
    assert found.read("capture").sizes["document"] == 2
    found.verify()


def test_a_full_disk_is_one_line_and_keeps_the_documents(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module, "flush", full)
    with pytest.raises(InputError, match=r"no space left.*run the same again, without --fresh"):
        store.append(row("three"), arrays(3))
    monkeypatch.undo()
    assert Store.open(store.path).read("capture").sizes["document"] == 2


@pytest.mark.parametrize("name", ["weight", "token_id", "document"])
def test_a_flipped_bit_is_found(store: Store, name: str) -> None:
    chunk = sorted(file for file in (store.path / "capture" / name / "c" / "1").rglob("*") if file.is_file()) or [
        store.path / "capture" / name / "c" / "1"
    ]
    data = bytearray(chunk[0].read_bytes())
    data[len(data) // 2] ^= 4
    chunk[0].write_bytes(bytes(data))
    found = Store.open(store.path)
    with pytest.raises(StoreError, match="damaged"):
        found.read("capture")
    with pytest.raises(StoreError, match="two, longer"):
        found.verify()


def test_a_missing_chunk_is_found(store: Store) -> None:
    next(file for file in (store.path / "capture" / "weight" / "c" / "0").rglob("*") if file.is_file()).unlink()
    with pytest.raises(StoreError, match="'one' are missing"):
        Store.open(store.path)


def test_a_damaged_manifest_is_said(store: Store) -> None:
    (store.path / "zarr.json").write_text('{"attributes": {')
    with pytest.raises(StoreError, match="manifest is damaged"):
        Store.open(store.path)


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
    made.write("norms", NORMS)
    found = Store.open(path)
    found.verify()
    assert (len(found.documents), found.results) == (2, ["norms"])


def test_a_fresh_store_leaves_the_old_one_until_its_first_document_is_complete(store: Store) -> None:
    before = contents(store.path)
    fresh = Store.create(store.path, provenance={"new": True}, plan=PLAN, documents=1, fresh=True)
    assert contents(store.path) == before
    fresh.append(row("other"), arrays(3))
    found = Store.open(store.path)
    found.verify()
    assert [entry["name"] for entry in found.documents] == ["other"]
    assert found.attributes["new"]
    assert names(store.path.parent) == ["run.zarr"]


@pytest.mark.parametrize("where", ["create", "_save_attributes", "flush", "the move"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()], ids=["full", "ctrl-c"])
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
    elif where == "_save_attributes":
        monkeypatch.setattr(Store, "_save_attributes", fail)
    elif where == "flush":
        monkeypatch.setattr(module, "flush", fail)
    else:
        monkeypatch.setattr(module.os, "replace", fail_to_take_the_place)
    with pytest.raises((InputError, KeyboardInterrupt)):
        Store.create(store.path, provenance={}, plan=PLAN, documents=1, fresh=True).append(row("other"), arrays(3))
    monkeypatch.undo()
    assert contents(store.path) == before
    assert names(store.path.parent) == ["run.zarr"]


def test_a_process_killed_between_the_two_moves_loses_nothing(store: Store) -> None:
    before = contents(store.path)
    aside = store.path.with_name(".run.zarr.old")
    put_back(store.path)
    store.path.rename(aside)
    put_back(store.path)
    assert contents(store.path) == before
    assert names(store.path.parent) == ["run.zarr"]
    shutil.copytree(store.path, aside)  # killed behind the second move
    put_back(store.path)
    assert contents(store.path) == before
    assert names(store.path.parent) == ["run.zarr"]


def test_what_is_no_run_is_told_apart_from_a_damaged_one(tmp_path: Path) -> None:
    zarr.create_group(store=tmp_path / "foreign.zarr", zarr_format=3, attributes={"mine": 1})
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("{}")
    for name in ("foreign.zarr", "folder", "file"):
        with pytest.raises(InputError, match="is not a run of geostat"):
            Store.open(tmp_path / name)
    for text in ("", "[]", "{}", '{"zarr_format": 3, "attributes": {"manifest": []}}', '{"attributes": {'):
        (tmp_path / "folder" / "zarr.json").write_text(text)
        with pytest.raises(StoreError, match="manifest is damaged"):
            Store.open(tmp_path / "folder")


def test_a_run_that_may_not_be_read_is_not_called_damaged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*args: object, **keywords: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "a file")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", denied)
        with pytest.raises(InputError, match=r"a file: cannot be read \(Permission denied\). Check its permissions"):
            Store.open(store.path)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", denied)
        with pytest.raises(InputError, match="cannot be read"):
            store.verify()
    with monkeypatch.context() as patched:
        patched.setattr(xr, "open_zarr", denied)
        with pytest.raises(InputError, match="cannot be read"):
            store.read("capture")


def test_a_damaged_read_leaves_no_task_of_zarr_under_way(tmp_path: Path) -> None:
    big = GroupPlan(variables={"big": Variable(dims=("position",), **WORDS)}, coordinates={}, sizes={"position": 1_000_000})
    made = Store.create(tmp_path / "big.zarr", provenance={}, plan={"capture": big}, documents=12)
    for index in range(12):
        made.append(row(str(index)), {"capture": {"big": np.random.default_rng(index).standard_normal(1_000_000).astype(np.float32)}})
    chunk = made.path / "capture" / "big" / "c" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"!")
    with pytest.raises(StoreError, match="damaged"):
        made.read("capture")
    assert len(asyncio.all_tasks(sync_module._get_loop())) == 0


def test_a_result_that_cannot_be_written_leaves_the_old_one_and_no_draft(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write("norms", NORMS)
    before = contents(store.path.parent)

    def full(*args: object, **keywords: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for broken in ((xr.Dataset, "to_zarr"), (module, "flush")):
        with monkeypatch.context() as patched:
            patched.setattr(*broken, full)
            with pytest.raises(InputError, match="no space left"):
                store.write("norms", NORMS * 2)
        assert contents(store.path.parent) == before
        assert names(store.path.parent) == ["run.zarr"]
    with monkeypatch.context() as patched:
        patched.setattr("empirical.disk.os.replace", full)
        with pytest.raises(InputError, match="no space left"):
            store.note(more=1)
    assert contents(store.path.parent) == before


@pytest.mark.parametrize("after", ["append", "write"])
def test_a_process_killed_while_results_are_dropped_leaves_none_that_count(
    store: Store, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    store.write("norms", NORMS)

    def kill(*args: object, **keywords: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(module.shutil, "rmtree", kill)
        with pytest.raises(SystemExit):
            store.append(row("three"), arrays(3))
    assert (store.path / "norms").exists()
    found = Store.open(store.path)
    found.verify()
    assert found.results == []
    assert list(found.tree().children) == ["capture"]
    if after == "append":
        found.append(row("three"), arrays(3))
    else:
        found.write("weights", NORMS)
    assert not (store.path / "norms").exists()
    assert "stale" not in Store.open(store.path).attributes["manifest"]


def test_a_group_of_the_users_own_is_left_alone(store: Store) -> None:
    NORMS.to_zarr(store.path, group="mine", zarr_format=3, consolidated=False)
    store.write("norms", NORMS)
    store.append(row("three"), arrays(3))
    assert (store.path / "mine" / "zarr.json").exists()


def test_results_are_dropped_when_a_document_is_added(store: Store) -> None:
    store.write("norms", xr.Dataset({"C": ("layer", [1.0, 2.0])}))
    store.append(row("three"), arrays(3))
    found = Store.open(store.path)
    assert found.results == []
    assert not (store.path / "norms").exists()
    found.verify()


@pytest.mark.parametrize("convention", ["paper", "followup"])
def test_f_scores_are_derived_by_the_runs_convention(convention: str) -> None:
    curves = xr.Dataset({"precision": ("n", [1.0, 0.5, 0.0]), "recall": ("n", [1.0, 0.25, 0.0])}, attrs={"convention": convention})
    found = with_f_scores(curves)
    expected = ([1, 2 / 3, 0], [1, 0.4, 0]) if convention == "paper" else ([1, 1 / 3, 0], [1, 1 / 3, 0])
    np.testing.assert_allclose(found["f_outer"], expected[0])
    np.testing.assert_allclose(found["f_inner"], expected[1])
