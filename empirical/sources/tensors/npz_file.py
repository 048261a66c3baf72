""".npz archives, read from front to back: one layer is in memory at a time, whether the archive is
compressed or not, and no pickle is ever loaded.

Source: numpy.lib.format, the .npy format within the archive. Imports numpy.
"""

from __future__ import annotations

import math
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.lib import format as npy

from empirical.errors import InputError, boundary
from empirical.sources.paths import opened, shown

HEADERS: Final[dict[tuple[int, int], Callable[..., Any]]] = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
}
"""What reads the header of an array, by the version of its format."""
WHOLE: Final = "expected a whole file that np.savez wrote. Write it again."


@dataclass(frozen=True, slots=True)
class NpzFile:
    """Arrays of an archive."""

    path: Path

    @property
    def names(self) -> set[str]:
        """Names of the arrays."""
        with self._archive() as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()}

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array."""
        with self._member(name) as (_, _, shape):
            return shape

    def whole(self, name: str) -> np.ndarray:
        """Read an array."""
        with self._member(name) as (stream, dtype, shape):
            return self._read(name, stream, dtype, shape)

    def rows(self, name: str, axes: int) -> Iterator[np.ndarray]:
        """Read an array entry by entry along its first `axes` axes."""
        with self._member(name) as (stream, dtype, shape):
            for _ in range(math.prod(shape[:axes])):
                yield self._read(name, stream, dtype, shape[axes:])

    def _read(
        self, name: str, stream: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> np.ndarray:
        wanted = math.prod(shape) * dtype.itemsize
        data = stream.read(wanted)
        if len(data) < wanted:
            raise self._damaged(f"{name} is cut short")
        return np.frombuffer(data, dtype).reshape(shape)

    @contextmanager
    def _member(self, name: str) -> Iterator[tuple[IO[bytes], np.dtype[Any], tuple[int, ...]]]:
        """Open an array behind its header, which tells its type and shape."""
        with self._archive() as archive, archive.open(f"{name}.npy") as stream:
            version = npy.read_magic(stream)
            if version not in HEADERS:
                raise self._damaged(f"{name} is of version {version} of the format")
            shape, by_column, dtype = HEADERS[version](stream)
            if dtype.hasobject:
                raise InputError(
                    f"{shown(self.path)}: {name} holds Python objects, which are read as code,"
                    " expected numbers or text. Save it from an array of those."
                )
            if dtype.kind == "V":
                raise InputError(
                    f"{shown(self.path)}: {name} holds {dtype}, which is how .npz keeps bfloat16,"
                    " expected a type that NumPy has. Save float32, or a .safetensors file."
                )
            if by_column and len(shape) > 1:
                raise InputError(
                    f"{shown(self.path)}: {name} lies in Fortran order, expected C order. Save"
                    " np.ascontiguousarray of it."
                )
            size = archive.getinfo(f"{name}.npy").file_size
            if (
                min(shape, default=0) < 0
                or size != stream.tell() + math.prod(shape) * dtype.itemsize
            ):
                raise self._damaged(f"{name} is not as large as its shape {shape} tells")
            yield stream, dtype, shape

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        """Open the archive, and say of what cannot be read why, in one line."""
        with (
            boundary(f"{shown(self.path)}: cannot be read as .npz", WHOLE),
            opened(self.path, most=sys.maxsize) as file,
            zipfile.ZipFile(file) as archive,
        ):
            yield archive

    def _damaged(self, fault: str) -> InputError:
        return InputError(f"{shown(self.path)}: cannot be read as .npz ({fault}), {WHOLE}")
