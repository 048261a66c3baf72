"""run.json: wall times, commands and machine of a run."""

import errno
import json
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from support.places import contents
from support.spine import Finished, measured, stopping_in_the_second_document

from empirical.errors import InputError as MeasurementError
from empirical.store.store import Store
from empirical.store.stored_run import StoredRun
from geostat.runs import files, pipeline, render
from geostat.runs.files import capture_session, commands_of, seconds_of
from geostat.runs.options import CaptureOptions


def recorded(out: Path) -> dict:
    return json.loads((out / "run.json").read_text())


def documents_of(record: dict) -> list[int]:
    return [session["documents"] for session in record["captures"]]


def test_run_json_next_to_the_store_records_seconds_by_stage(finished: Finished):
    record = recorded(finished.out)
    assert set(record["seconds"]) == {"capture", "control", "fit", "confront"}
    assert all(seconds >= 0 for seconds in record["seconds"].values())
    assert "torch_threads" in record["machine"]


def test_a_report_does_not_change_run_json(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A second report therefore equals the first."""
    shutil.copytree(finished.out, tmp_path / "a")
    monkeypatch.setattr("sys.argv", ["/bin/geostat", "report", "a"])
    monkeypatch.setattr(render, "with_display", lambda tree: tree)
    monkeypatch.setattr("reports.page.page.write_page", lambda tree, out, **known: out)
    before = contents(tmp_path)
    render.write_report(StoredRun.open(tmp_path / "a" / "run.zarr"))
    assert contents(tmp_path) == before


@pytest.mark.slow
@pytest.mark.usefixtures("no_fits")
def test_run_json_sums_the_sessions_of_a_capture(tmp_path: Path, capture_options: CaptureOptions):
    capture_options = replace(capture_options, out=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        measured(capture_options, stopping_in_the_second_document())
    assert documents_of(recorded(tmp_path)) == [1]
    pipeline.fit(measured(capture_options))
    two = recorded(tmp_path)
    assert documents_of(two) == [1, 1]
    seconds = sum(session["seconds"] for session in two["captures"])
    assert two["seconds"]["capture"] == pytest.approx(seconds)
    assert set(two["seconds"]) == {"capture", "fit"}
    measured(capture_options)
    assert recorded(tmp_path) == two, "a repeat that measures nothing changes nothing"
    measured(capture_options, documents=4)
    assert documents_of(recorded(tmp_path)) == [1, 1, 2]
    # The fits of fewer documents are gone, and so are their times.
    assert set(recorded(tmp_path)["seconds"]) == {"capture"}
    measured(capture_options, fresh=True)
    assert documents_of(recorded(tmp_path)) == [2]


@pytest.mark.usefixtures("no_fits")
def test_a_killed_capture_is_recorded_without_seconds(
    two_documents: Store, tmp_path: Path, capture_options: CaptureOptions
):
    machine = recorded(tmp_path)["machine"]
    (tmp_path / "run.json").unlink()
    measured(capture_options, out=tmp_path)
    assert recorded(tmp_path) == {"captures": [], "machine": machine}


def killed(*_: object) -> None:
    raise SystemExit


def test_the_record_of_a_remote_run_is_uploaded_after_a_kill(
    tmp_path: Path, capture_options: CaptureOptions, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GEOSTAT_CACHE", str(tmp_path / "cache"))
    url = Path(f"file://{tmp_path}/far/run.zarr")
    with monkeypatch.context() as patch, suppress(SystemExit):
        patch.setattr(files, "alone", killed)  # before it sends what it recorded of itself
        measured(capture_options, out=url)
    assert not (tmp_path / "far/run.json").exists()
    measured(capture_options, out=url)
    assert len(recorded(tmp_path / "far")["captures"]) == 1
    measured(capture_options, documents=3, out=url)
    assert len(recorded(tmp_path / "far")["captures"]) == 2


@pytest.mark.usefixtures("no_fits")
def test_a_full_disk_keeps_run_json_intact(
    two_documents: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = contents(tmp_path)["run.json"]

    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("geostat.runs.files.replace", full)
    with pytest.raises(MeasurementError, match=r"run\.json: no space left"):
        pipeline.fit(two_documents)
    assert contents(tmp_path)["run.json"] == before


@pytest.mark.usefixtures("no_fits")
@pytest.mark.parametrize("text", ["{", "[1]", ""])
def test_a_damaged_run_json_is_replaced(two_documents: Store, tmp_path: Path, text: str):
    (tmp_path / "run.json").write_text(text)
    pipeline.fit(two_documents)
    assert set(recorded(tmp_path)["seconds"]) == {"fit"}


@pytest.mark.slow
@pytest.mark.usefixtures("no_fits")
def test_the_commands_of_a_run_are_recorded_and_shown(
    tmp_path: Path, capture_options: CaptureOptions, monkeypatch: pytest.MonkeyPatch
):
    capture_options = replace(capture_options, out=tmp_path)
    called = partial(monkeypatch.setattr, "sys.argv")
    called(["/bin/geostat", "capture", "a model", "--out", "x"])
    store = measured(capture_options)
    called(["/bin/geostat", "fit", "x"])
    pipeline.fit(store)
    assert commands_of(store.path) == ["geostat capture 'a model' --out x", "geostat fit x"]
    called(["/bin/pytest"])
    pipeline.fit(store)
    assert commands_of(store.path) == ["geostat capture 'a model' --out x"]
    measured(capture_options, fresh=True)
    assert commands_of(store.path) == []


def test_invalid_seconds_and_sessions_are_ignored(tmp_path: Path):
    seconds = {"a": 10**400, "b": 1e308, "c": -5, "d": True, "e": "1", "f": None}
    sessions = [None, {"seconds": "x"}, {"seconds": 10**400}, {"documents": 1, "seconds": 2.0}]
    record = {"captures": sessions, "seconds": seconds | {"capture": 1.5, "fit": 2}}
    (tmp_path / "run.json").write_text(json.dumps(record), encoding="utf-8")
    assert seconds_of(tmp_path / "run.zarr") == {"capture": 1.5, "fit": 2.0}
    with capture_session(tmp_path / "run.zarr") as kept:
        kept.append(2)
    assert documents_of(recorded(tmp_path)) == [1, 1]
