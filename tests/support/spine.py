"""The `geostat` command called within this process, and what it said; tiny runs with everything
the main job captures.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from support.runs import small_run
from typer.testing import CliRunner

from empirical.capture.observers import Baselines, Geometry
from geostat.bounds.own_cosines import MeasuredEnvelope
from geostat.cli.app import app

LENGTH = 40
"""Tokens of a window: enough for every assumption to be fitted."""


@dataclass(frozen=True)
class Said:
    """Exit code and output of one call."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Finished:
    """What `geostat run` left behind: what it printed, the folder, and the store as a tree."""

    said: Said
    out: Path
    tree: xr.DataTree

    @property
    def store(self) -> Path:
        return self.out / "run.zarr"


def geostat(*arguments: Any) -> Said:
    """Call the command; what it does not turn into an exit code is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Said(code=result.exit_code, stdout=result.stdout, stderr=result.stderr)


def capturing(model: Path, text: Path, out: Path, *, documents: int = 2) -> list[Any]:
    """The words of a capture at three sizes N."""
    size = ["--documents", documents, "--length", LENGTH, "--n", "1,2,9"]
    return ["capture", model, "--text", text, *size, "--out", out]


def refused(said: Said, code: int = 2) -> str:
    """The one line that a refused call leaves on stderr behind the lines of its stages; nothing
    goes to stdout.
    """
    assert said.code == code, said
    assert said.stdout == ""
    *stages, line = said.stderr.splitlines()
    assert {stage.removeprefix("geostat: ") for stage in stages} <= {
        "load the model",
        "read the text",
        "capture",
    }, stages
    assert line.startswith("geostat: ")
    return line.removeprefix("geostat: ")


def run_tree(path: Path, *, null: bool = True, **more: Any) -> xr.DataTree:
    """Capture a tiny model with everything the main job captures."""
    observers = [Geometry(), *([Baselines()] if null else []), MeasuredEnvelope()]
    more.setdefault("n", np.unique(np.geomspace(1, more.get("length", LENGTH), 14).astype(int)))
    return small_run(path, observers=observers, **more).tree()
