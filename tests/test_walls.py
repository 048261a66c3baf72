"""The walls between the rooms, from the outside: what an import brings in."""

import subprocess
import sys

import pytest

ROOMS = {
    "theory": ("torch", "transformers", "xarray", "pandas", "matplotlib", "lmfit", "empirical", "reports", "geostat"),
    "reports": ("torch", "transformers", "sympy", "lmfit", "zarr", "empirical", "theory", "geostat"),
    "empirical": ("lmfit", "sympy", "matplotlib", "theory", "reports", "geostat"),
    "geostat": ("torch", "transformers", "matplotlib", "sympy"),
    "geostat.cli.app": ("torch", "transformers", "matplotlib", "sympy", "lmfit"),
    "geostat.cli.theory": ("torch", "transformers", "matplotlib", "lmfit", "numba"),
}


@pytest.mark.parametrize(("room", "absent"), ROOMS.items())
def test_an_import_brings_in_nothing_from_behind_the_wall(room: str, absent: tuple[str, ...]) -> None:
    code = f"import {room}, sys; print([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
