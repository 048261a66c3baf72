"""run.json: the wall times and the machine of a run, beside its store."""

import dataclasses
import errno
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from support.places import contents
from support.runs import small_run
from support.spine import Finished

from empirical.errors import InputError as MeasurementError
from empirical.store.stored_run import StoredRun
from geostat.runs import files, measurement, pipeline, render
from geostat.runs.console import Console
from geostat.runs.files import capture_session, commands_of, seconds_of
from geostat.runs.settings import Settings


def test_run_json_lies_beside_the_store_and_tells_the_seconds_of_each_stage(finished: Finished):
    beside = json.loads((finished.out / "run.json").read_text())
    assert set(beside["seconds"]) == {"capture", "fit", "confront"}
    assert all(seconds >= 0 for seconds in beside["seconds"].values())
    assert "torch_threads" in beside["machine"]


def test_a_report_is_no_part_of_the_record(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """So a second report equals the first."""
    shutil.copytree(finished.out, tmp_path / "a")
    monkeypatch.setattr("sys.argv", ["/bin/geostat", "report", "a"])
    monkeypatch.setattr("reports.page.page.write_page", lambda tree, out, **known: out)
    before = contents(tmp_path)
    render.write_report(StoredRun.open(tmp_path / "a" / "run.zarr"))
    assert contents(tmp_path) == before


def recorded(out: Path) -> dict:
    return json.loads((out / "run.json").read_text())


@pytest.mark.slow
@pytest.mark.usefixtures("no_fits")
def test_run_json_adds_up_the_sessions_of_a_capture(tmp_path: Path, asked: Settings):
    def stop(progress) -> None:
        if progress.documents == 1 and progress.layer == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measurement.measure(asked, tmp_path, console=Console(captured=stop))
    assert [session["documents"] for session in recorded(tmp_path)["captures"]] == [1]
    pipeline.fit(measurement.measure(asked, tmp_path))
    two = recorded(tmp_path)
    assert [session["documents"] for session in two["captures"]] == [1, 1]
    assert two["seconds"]["capture"] == pytest.approx(
        sum(session["seconds"] for session in two["captures"])
    )
    assert set(two["seconds"]) == {"capture", "fit"}
    measurement.measure(asked, tmp_path)
    assert recorded(tmp_path) == two, "a repeat that measures nothing changes nothing"
    measurement.measure(dataclasses.replace(asked, documents=4), tmp_path)
    more = recorded(tmp_path)
    assert [session["documents"] for session in more["captures"]] == [1, 1, 2]
    assert set(more["seconds"]) == {"capture"}, (
        "the fits of fewer documents are gone, and so are their times"
    )
    measurement.measure(asked, tmp_path, fresh=True)
    assert [session["documents"] for session in recorded(tmp_path)["captures"]] == [2]


@pytest.mark.usefixtures("no_fits")
def test_a_capture_that_was_killed_before_it_could_record_itself_is_recorded_without_its_seconds(
    tmp_path: Path, asked: Settings
):
    measurement.measure(asked, tmp_path)
    machine = recorded(tmp_path)["machine"]
    (tmp_path / "run.json").unlink()
    measurement.measure(asked, tmp_path)
    assert recorded(tmp_path) == {"captures": [], "machine": machine}


@pytest.mark.usefixtures("no_fits")
@pytest.mark.parametrize("killed", ["before it recorded itself", "before it sent that", "after"])
def test_the_record_of_a_run_at_a_url_is_sent_after_a_kill(
    tmp_path: Path, asked: Settings, killed: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GEOSTAT_CACHE", str(tmp_path / "cache"))
    url = Path(f"file://{tmp_path}/far/run.zarr")
    there = tmp_path / "far/run.json"
    with monkeypatch.context() as patch, suppress(SystemExit):
        if killed == "before it recorded itself":  # nothing is written as the process is gone
            patch.setattr(files, "_add_session", _gone)
        elif killed == "before it sent that":
            patch.setattr(files, "alone", _gone)
        measurement.measure(asked, url)
    assert there.exists() == (killed == "after")
    measurement.measure(asked, url)
    sessions = json.loads(there.read_text())["captures"]
    assert sessions == [] if killed == "before it recorded itself" else len(sessions) == 1


def _gone(*_: object) -> None:
    raise SystemExit


@pytest.mark.usefixtures("no_fits")
def test_a_full_disk_leaves_run_json_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = small_run(tmp_path / "run.zarr", documents=1)
    (tmp_path / "run.json").write_text('{"seconds": {"capture": 5.0}}')
    before = contents(tmp_path)["run.json"]

    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("geostat.runs.files.replace", full)
    with pytest.raises(MeasurementError, match=r"run\.json: no space left"):
        pipeline.fit(store)
    assert contents(tmp_path)["run.json"] == before


@pytest.mark.usefixtures("no_fits")
@pytest.mark.parametrize("text", ["{", "[1]", ""])
def test_a_damaged_run_json_is_replaced(tmp_path: Path, text: str):
    store = small_run(tmp_path / "run.zarr", documents=1)
    (tmp_path / "run.json").write_text(text)
    pipeline.fit(store)
    assert set(json.loads((tmp_path / "run.json").read_text())["seconds"]) == {"fit"}


@pytest.mark.slow
@pytest.mark.usefixtures("no_fits")
def test_the_commands_that_made_a_run_are_kept_and_shown(
    tmp_path: Path, asked: Settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.argv", ["/bin/geostat", "capture", "a model", "--out", "x"])
    store = measurement.measure(asked, tmp_path)
    monkeypatch.setattr("sys.argv", ["/bin/geostat", "fit", "x"])
    pipeline.fit(store)
    assert commands_of(store.path) == ["geostat capture 'a model' --out x", "geostat fit x"]
    monkeypatch.setattr("sys.argv", ["/bin/pytest"])
    pipeline.fit(store)
    assert commands_of(store.path) == ["geostat capture 'a model' --out x"]
    measurement.measure(asked, tmp_path, fresh=True)
    assert commands_of(store.path) == []


def test_seconds_that_none_took_are_passed_over(tmp_path: Path):
    told = {"a": 10**400, "b": 1e308, "c": -5, "d": True, "e": "1", "capture": 1.5, "fit": 2}
    (tmp_path / "run.json").write_text(json.dumps({"seconds": told}))
    assert seconds_of(tmp_path / "run.zarr") == {"capture": 1.5, "fit": 2.0}


def test_records_that_are_none_are_passed_over(tmp_path: Path):
    known = {
        "captures": [None, {"seconds": "x"}, {"seconds": 10**400}, {"documents": 1, "seconds": 2.0}]
    }
    known["seconds"] = {"capture": None, "fit": 1.5}
    (tmp_path / "run.json").write_text(json.dumps(known), encoding="utf-8")
    assert seconds_of(tmp_path / "run.zarr") == {"fit": 1.5}
    with capture_session(tmp_path / "run.zarr") as kept:
        kept.append(2)
    assert [session["documents"] for session in recorded(tmp_path)["captures"]] == [1, 1]
