"""A finished run with one file damaged: every command says so and names the file."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.damage import KINDS, cut, damaged, emptied, files, flipped
from support.places import contents
from support.spine import LENGTH, Finished, geostat

import geostat as gs
from empirical.errors import StoreError
from empirical.store.journal import FILE as ROWS
from geostat.cli import doctor

PLACES = (
    ("null/precision/c/0/0/0/0/0", emptied),
    ("zarr.json", flipped),
    (ROWS, cut),
    ("norms/lam/c/0/0", Path.unlink),
    ("zarr.json", Path.unlink),
    ("capture/zarr.json", cut),
    ("capture/lag/c/0", Path.unlink),
    ("capture/tokens/zarr.json", flipped),
    ("summary/zarr.json", flipped),
)
"""One file of each kind with a kind of damage."""


@pytest.fixture(scope="module")
def copied(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a separate finished run of three documents."""
    return shutil.copytree(finished.out, tmp_path_factory.mktemp("damaged") / "report")


@pytest.mark.parametrize(
    ("name", "kind"),
    [PLACES[0], *(pytest.param(*place, marks=pytest.mark.slow) for place in PLACES[1:])],
    ids=lambda part: getattr(part, "__name__", part),
)
def test_every_command_names_the_damaged_file(
    copied: Path, model_folder: Path, text_folder: Path, name: str, kind: Callable[[Path], None]
) -> None:
    store = copied / "run.zarr"
    size = ["--documents", 3, "--length", LENGTH, "--out", copied, "--resume"]
    commands = [
        *([command, store] for command in ("doctor", "fit", "confront")),
        *([command, store] for command in ("report", "tables", "figures")),
        ["compare", copied, copied / "absent", "--quick"],
        ["whatif", "--from", store, "--head", "L0H0", "--out", copied / "whatif"],
        *([command, model_folder, "--text", text_folder, *size] for command in ("capture", "run")),
    ]
    before = contents(copied)
    with damaged(store / name, kind):
        for command in commands:
            result = geostat(*command)
            line = result.stderr.splitlines()[-1]
            assert (result.code, result.stdout) == (4, ""), (command, result)
            assert str(store / name) in line, (command, line)
        with pytest.raises(StoreError, match=name):
            gs.open(copied)
    assert contents(copied) == before


@pytest.mark.slow
def test_fresh_recomputes_damaged_results_byte_for_byte(copied: Path, tmp_path: Path) -> None:
    store = tmp_path / "run.zarr"
    shutil.copytree(copied / "run.zarr", store)
    wanted = contents(store)
    flipped(store / "norms" / "lam" / "c" / "0" / "0")
    assert geostat("fit", store, "--fresh", "--quiet").code == 0
    assert geostat("confront", store, "--quiet").code == 0
    assert contents(store) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_damage_to_any_file_of_a_run_is_detected(
    copied: Path, kind: Callable[[Path], None]
) -> None:
    store = copied / "run.zarr"
    every = files(store)
    assert len(every) > 1000
    for index, file in enumerate(every):
        with damaged(file, kind), pytest.raises(StoreError) as caught:
            (doctor.examine if index % 10 == 0 else gs.open)(store)
        assert str(file) in str(caught.value)
