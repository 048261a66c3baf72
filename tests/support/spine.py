"""The `geostat` command called within this process, and its output; tiny runs with everything that
the main job captures.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from support.runs import small_run
from typer.testing import CliRunner

from empirical.capture.observers import Baselines, Geometry, Progress
from empirical.store.store import Store
from geostat.bounds.own_cosines import MeasuredEnvelope
from geostat.cli.app import app
from geostat.runs.console import Console
from geostat.runs.measurement import measure
from geostat.runs.options import CaptureOptions

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
    """Result of `geostat run`: its output, the folder, and the store as a tree."""

    said: Said
    out: Path
    tree: xr.DataTree

    @property
    def store(self) -> Path:
        return self.out / "run.zarr"

    def groups(self) -> dict[str, xr.Dataset]:
        """Return copies of all groups by path, to be modified."""
        return {
            f"/{name}": node.to_dataset().copy(deep=True)
            for name, node in self.tree.children.items()
        }


def argv(text: str) -> list[str]:
    """Return the words of a command line, as a shell splits them."""
    return shlex.split(text)


def geostat(*arguments: Any) -> Said:
    """Call the command; errors without an exit code are raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Said(code=result.exit_code, stdout=result.stdout, stderr=result.stderr)


def capturing(
    model: Path, text: Path, out: Path, *, documents: int = 2, n: str = "1,2,9"
) -> list[Any]:
    """Return the words of a capture, by default at three sizes N."""
    size = ["--documents", documents, "--length", LENGTH, "--n", n]
    return ["capture", model, "--text", text, *size, "--out", out]


def refused(said: Said, code: int = 2) -> str:
    """Return the one-line message of a refused call on stderr, after the lines of its stages;
    stdout must be empty.
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


def measured(options: CaptureOptions, console: Console | None = None, **changes: Any) -> Store:
    """Measure with changed options."""
    return measure(replace(options, **changes), console=console or Console())


def stopping_in_the_second_document() -> Console:
    """Return a console that interrupts the capture in layer 2 of the second document."""

    def stop(progress: Progress) -> None:
        if progress.documents == 1 and progress.layer == 2:
            raise KeyboardInterrupt

    return Console(captured=stop)


def run_tree(path: Path, *, null: bool = True, **more: Any) -> xr.DataTree:
    """Capture a tiny model with everything that the main job captures."""
    observers = [Geometry(), *([Baselines()] if null else []), MeasuredEnvelope()]
    more.setdefault("n", np.unique(np.geomspace(1, more.get("length", LENGTH), 14).astype(int)))
    return small_run(path, observers=observers, **more).tree()
