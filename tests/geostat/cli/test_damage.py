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
from empirical.store.rows import FILE as ROWS
from geostat.cli import doctor

PLACES = (
    ("zarr.json", flipped),
    ("null/precision/c/0/0/0/0/0", emptied),
    (ROWS, cut),
    ("norms/lam/c/0/0", Path.unlink),
    ("zarr.json", Path.unlink),
    ("capture/zarr.json", cut),
    ("capture/lag/c/0", Path.unlink),
    ("capture/tokens/zarr.json", flipped),
    ("summary/zarr.json", flipped),
)
"""One of each kind of file, with a kind of damage; the first four always."""


@pytest.fixture(scope="module")
def copied(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of three documents of its own."""
    out = tmp_path_factory.mktemp("damaged") / "report"
    shutil.copytree(finished.out, out)
    return out


def measuring(command: str, out: Path, model: Path, texts: Path) -> list[object]:
    return [
        command,
        model,
        "--text",
        texts,
        "--documents",
        3,
        "--length",
        LENGTH,
        "--out",
        out,
        "--resume",
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [*PLACES[:2], *(pytest.param(*place, marks=pytest.mark.slow) for place in PLACES[2:])],
    ids=lambda part: getattr(part, "__name__", part),
)
def test_every_command_names_a_damaged_file(
    copied: Path, model_folder: Path, text_folder: Path, name: str, kind: Callable[[Path], None]
) -> None:
    store = copied / "run.zarr"
    commands = [
        *(
            [command, store]
            for command in ("doctor", "fit", "confront", "report", "tables", "figures")
        ),
        ["compare", copied, copied / "absent", "--quick"],
        ["whatif", "--from", store, "--head", "L0H0", "--out", copied / "whatif"],
        *(measuring(command, copied, model_folder, text_folder) for command in ("capture", "run")),
    ]
    before = contents(copied)
    with damaged(store / name, kind):
        for command in commands:
            said = geostat(*command)
            line = said.stderr.splitlines()[-1]
            assert (said.code, said.stdout) == (4, ""), (command, said)
            assert str(store / name) in line, (command, line)
        with pytest.raises(StoreError, match=name):
            gs.open(copied)
    assert contents(copied) == before


@pytest.mark.slow
def test_damaged_results_are_made_anew_when_asked_equal_byte_by_byte(
    copied: Path, tmp_path: Path
) -> None:
    store = tmp_path / "run.zarr"
    shutil.copytree(copied / "run.zarr", store)
    wanted = contents(store)
    flipped(store / "norms" / "lam" / "c" / "0" / "0")
    assert geostat("fit", store, "--fresh", "--quiet").code == 0
    assert geostat("confront", store, "--quiet").code == 0
    assert contents(store) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_file_of_a_finished_run_counts(copied: Path, kind: Callable[[Path], None]) -> None:
    store = copied / "run.zarr"
    every = files(store)
    assert len(every) > 1000
    for at, file in enumerate(every):
        with damaged(file, kind), pytest.raises(StoreError) as caught:
            (doctor.examine if at % 10 == 0 else gs.open)(store)
        assert str(file) in str(caught.value)
