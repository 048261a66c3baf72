"""numba's cache for the test suite, shared by all clones.

It lies in the user's cache directory and is valid while the sources of all kernels are equal.
`make test` selects it by NUMBA_CACHE_LOCATOR_CLASSES.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

from numba.core.caching import UserWideCacheLocator

ROOT = Path(__file__).parents[2]
ROOMS = ("empirical", "geostat", "theory", "reports")


@functools.cache
def digest() -> bytes:
    """Return the SHA-256 of every file with a compiled function; kernels of one file may call those
    of another.
    """
    sources = (path.read_bytes() for room in ROOMS for path in sorted(ROOT.glob(f"{room}/**/*.py")))
    return hashlib.sha256(b"".join(s for s in sources if b"compiled" in s)).digest()


class BySource(UserWideCacheLocator):
    """Locator of a folder that does not depend on the clone."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        folder = Path(self._cache_path).parent.parent / "geostat-tests"
        self._cache_path = str(folder / Path(py_file).parent.relative_to(ROOT))

    def get_source_stamp(self) -> bytes:
        """Return what must be equal for cached code to be used."""
        return digest()

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> BySource | None:
        """Return the locator of a function in one of the rooms, otherwise None."""
        if not any(Path(py_file).is_relative_to(ROOT / room) for room in ROOMS):
            return None
        return super().from_function(py_func, py_file)
