"""Versions of the packages that can change a number. Imports the standard library."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Final

MEASURING: Final = ("geostat", "torch", "transformers", "numpy", "numba")
"""Packages whose version can change a measured number."""
DERIVING: Final = ("geostat", "numpy", "scipy", "numba", "lmfit", "xarray")
"""Packages whose version can change a number derived from measurements."""


def versions(names: Iterable[str]) -> dict[str, str]:
    """Return the version of each package here; "unknown" if it is not installed."""
    found = {}
    for name in names:
        try:
            found[name] = version("attention-geostat" if name == "geostat" else name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found
