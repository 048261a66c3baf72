"""Untrusted runs: every reading command leaves the run and its surroundings unchanged."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.foreign import CRAFTED, in_place, sent_elsewhere, untouched
from support.spine import Finished, geostat

import geostat as gs
from empirical.errors import InputError, StoreError
from empirical.store.disk import sidecar_path


@pytest.fixture
def run(finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a downloaded finished run, with another folder next to it."""
    monkeypatch.setenv("GEOSTAT_CACHE", str(tmp_path / "cache"))
    shutil.copytree(finished.out, tmp_path / "theirs" / "report")
    (tmp_path / "theirs" / "mine").mkdir()
    (tmp_path / "theirs" / "mine" / "secret.txt").write_text("a key")
    return tmp_path / "theirs" / "report" / "run.zarr"


def reading(run: Path, out: Path) -> list[list[object]]:
    """Return the commands that read a run."""
    return [
        ["doctor", run],
        ["tables", run, "--out", out / "tables"],
        ["figures", run, "--only", "claims", "--out", out / "figures"],
        ["report", run, "--out", out / "report"],
        ["compare", run, run.parent, "--quick", "--out", out / "comparison"],
        ["whatif", "--from", run, "--head", "L0H0", "--out", out / "whatif"],
    ]


@pytest.mark.parametrize("kind", ["moves of others", "a pipe"])
def test_every_command_refuses_a_crafted_run_and_touches_nothing(
    kind: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = run.parents[1] / "mine"
    craft = in_place("zarr.json", os.mkfifo) if kind == "a pipe" else CRAFTED[kind]
    craft(run, mine)
    with untouched(run.parents[1], monkeypatch):
        for command in reading(run, tmp_path / "out"):
            result = geostat(*command)
            assert result.code in (2, 4), (command, result)
            assert result.stderr.count("\n") == 1, result.stderr
        with pytest.raises((InputError, StoreError, gs.InputError)):
            gs.open(run)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("displayed", "read_once")
def test_output_of_a_linked_run_goes_next_to_the_link(run: Path, tmp_path: Path) -> None:
    (run.parent / "report.html").write_text("mine")
    before = sorted(run.parent.iterdir())
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "run.zarr").symlink_to(run)
    assert geostat("tables", tmp_path / "linked", "--only", "norms").code == 0
    names = {path.name for path in (tmp_path / "linked").iterdir()}
    assert names == {"run.zarr", "tables"}
    assert sorted(run.parent.iterdir()) == before
    assert (run.parent / "report.html").read_text() == "mine"


@pytest.mark.slow
def test_every_reading_command_leaves_an_intact_run_unchanged(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent_elsewhere(run, run.parents[1] / "mine")
    os.mkfifo(sidecar_path(run, "lock"))
    with untouched(run.parents[1], monkeypatch, seconds=300):
        for command in reading(run, tmp_path / "out"):
            if command[0] != "compare":
                result = geostat(*command)
                assert result.code == 0, (command, result)
        gs.open(run)
