"""Stages killed at any write or moment, or with a disk failure at any step.

Repeating the command gives the result of an uninterrupted one.
"""

from __future__ import annotations

import errno
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.commands import called
from support.damage import emptied, first_file, flipped
from support.spine import LENGTH, Finished

from empirical.store.journal import FILE as ROWS
from empirical.store.store import Store

pytestmark = pytest.mark.slow

SEED, MOMENTS = 17, 30
FEW_CUTS = ("--sizes", "1,4", "--budgets", "4", "--draws", "2", "--tau", ".02")


def found(way: str, work: Path, start: Path, *numbers: int, command: tuple[object, ...]) -> Any:
    """Run `support.kills` and return its findings."""
    words = [way, work, start, *numbers, "--", *command]
    result = called(*words, code="from support.kills import main; main()", patience=None)
    assert result.code == 0, result.stderr
    print(result.stdout)  # shown by `pytest -rP`
    return json.loads(result.stdout.splitlines()[-1])


Stage = tuple[Path, tuple[object, ...]]


@pytest.fixture
def stages(
    tmp_path: Path, finished: Finished, model_folder: Path, text_folder: Path
) -> dict[str, Stage]:
    """Initial state and command of each stage."""
    captured, ready, harmed = (tmp_path / name for name in ("captured", "ready", "harmed"))
    for folder in (captured, ready, harmed):
        shutil.copytree(finished.store, folder / "run.zarr")
        shutil.copyfile(finished.out / "run.json", folder / "run.json")
    fitted = Store.open(captured / "run.zarr")
    fitted.put({}, drops=fitted.results)
    take = ("capture", model_folder, "--text", text_folder, "--length", LENGTH, "--out", "OUT")
    take = (*take, "--quiet", "--documents")
    harm(harmed, shlex.join(["geostat", *map(str, (*take, 3))]))
    return {
        "capture": (tmp_path / "nothing", (*take, 3)),
        "fit": (captured, ("fit", "OUT", "--quiet")),
        "confront": (ready, ("confront", "OUT", "--quiet")),
        "report": (ready, ("report", "OUT", "--quiet")),
        "effective": (ready, ("effective", *take[1:], 3, "--tau", ".3")),
        "ablate": (ready, ("ablate", *take[1:], 3, *FEW_CUTS)),
        "capture more": (ready, (*take, 5)),
        "repair": (harmed, ("doctor", "OUT", "--repair", "--json")),
    }


def harm(run: Path, command: str) -> None:
    """Damage a run in several places and record its capture command."""
    store = run / "run.zarr"
    known = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(known | {"commands": {"capture": command}}))
    flipped(first_file(store / "capture/recall/c/0"), at=0)
    for name in (ROWS, "capture/lag/zarr.json", "norms/lam/c/0/0"):
        emptied(store / name)


@pytest.mark.parametrize(
    "stage", ["capture", "fit", "confront", "effective", "ablate", "capture more"]
)
def test_a_stage_killed_at_every_tenth_write_and_repeated_equals_an_uninterrupted_one(
    tmp_path: Path, stages: dict[str, Stage], stage: str
) -> None:
    start, command = stages[stage]
    seen = found("writes", tmp_path, start, 10, 1, command=command)
    assert seen["kills"] >= seen["writes"] // 10
    assert seen["unlike"] == {}


@pytest.mark.parametrize(
    "stage",
    ["capture", "fit", "confront", "report", "effective", "ablate", "capture more", "repair"],
)
def test_a_stage_killed_at_any_moment_and_repeated_equals_an_uninterrupted_one(
    tmp_path: Path, stages: dict[str, Stage], stage: str
) -> None:
    start, command = stages[stage]
    seen = found("moments", tmp_path, start, MOMENTS, SEED, command=command)
    assert seen["kills"] == MOMENTS, "the stage was faster than when its length was taken"
    assert seen["unlike"] == {}


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])
@pytest.mark.parametrize(
    ("stage", "stride"),
    [
        *(("capture", 83), ("fit", 151), ("confront", 241), ("report", 59)),
        *(("effective", 61), ("capture more", 113)),
    ],
)
def test_a_disk_failure_at_any_step_is_one_line_and_loses_nothing(
    tmp_path: Path, stages: dict[str, Stage], stage: str, stride: int, error: int
) -> None:
    start, command = stages[stage]
    seen = found("faults", tmp_path, start, stride, 1 + error % stride, error, command=command)
    assert seen["codes"].get("2", 0) > 5, seen
    assert seen["unlike"] == {}
