"""Commands that run.json has recorded are read back as the command line reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from geostat.cli.recorded import recorded
from geostat.errors import InputError


def told(tmp_path: Path, command: object) -> Path:
    (tmp_path / "run.json").write_text(json.dumps({"commands": {"capture": command}}))
    return tmp_path / "run.zarr"


def test_a_recorded_command_is_read_back(tmp_path: Path) -> None:
    path = told(tmp_path, "geostat run 'a model' --text b --text 'c d' --n 1,2 --no-null")
    name, given = recorded(path, "capture") or ("", {})
    assert name == "run"
    assert (given["model"], given["text"]) == ("a model", [Path("b"), Path("c d")])
    assert (given["n"], given["null"], given["documents"]) == ("1,2", False, 8)
    assert recorded(path, "confront") is None


@pytest.mark.parametrize(
    "command", ["", "geostat", "python x.py", "geostat 'run", 7, None, "geostat run --help", []]
)
def test_what_is_no_command_is_not_known(
    tmp_path: Path, command: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recorded(told(tmp_path, command), "capture") is None
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "command",
    [
        "geostat fit x",
        "geostat run --nowhere",
        "geostat run --length x",
        "geostat ingest",
        "geostat -",
    ],
)
def test_a_command_that_this_geostat_has_not_is_refused(tmp_path: Path, command: str) -> None:
    with pytest.raises(
        InputError, match=r"run\.json: tells of `geostat .*`, which is no command \("
    ):
        recorded(told(tmp_path, command), "capture")
