"""The walls between the rooms, from the outside: what an import brings in."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import geostat
import theory

ROOMS = {
    "theory": (
        "torch",
        "transformers",
        "xarray",
        "pandas",
        "matplotlib",
        "lmfit",
        "empirical",
        "reports",
        "geostat",
    ),
    "reports": (
        "torch",
        "transformers",
        "sympy",
        "lmfit",
        "zarr",
        "empirical",
        "theory",
        "geostat",
    ),
    "empirical": ("lmfit", "sympy", "matplotlib", "theory", "reports", "geostat"),
    "geostat": ("torch", "transformers", "matplotlib", "sympy"),
    "geostat.cli.app": ("torch", "transformers", "matplotlib", "sympy", "lmfit"),
    "geostat.cli.theory": ("torch", "transformers", "matplotlib", "lmfit", "numba"),
    "geostat.runs.render, reports.topics.listed, reports.page.page": (
        "torch",
        "transformers",
        "lmfit",
        "sympy",
    ),
    "geostat.comparison.compare": ("torch", "transformers", "sympy"),
    "geostat.what_if.answer": ("torch", "transformers", "lmfit"),
}


@pytest.mark.parametrize(("room", "absent"), ROOMS.items())
def test_an_import_brings_in_nothing_from_behind_the_wall(
    room: str, absent: tuple[str, ...]
) -> None:
    code = f"import {room}, sys; print([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("room", [geostat, theory], ids=lambda room: room.__name__)
def test_no_module_hides_a_public_name(room: ModuleType) -> None:
    modules = {path.stem for path in Path(str(room.__file__)).parent.iterdir()}
    assert not modules & set(room.__all__)


def test_files_that_contributing_names_are_there() -> None:
    root = Path(__file__).parents[1]
    table = (
        (root / "CONTRIBUTING.md")
        .read_text(encoding="utf-8")
        .split("## Packages and import rules")[1]
        .split("\n## ")[0]
    )
    named = re.findall(r"`([a-z_0-9]+/[a-z_0-9/]+\.(?:py|toml))`", table)
    assert len(named) > 15
    assert [path for path in named if not (root / path).is_file()] == []
