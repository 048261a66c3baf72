"""Arrays packed into a page: typed arrays, compressed (gzip) and in base64, and a directory that
tells where each starts.

Quantities are kept as float32. Curves are kept as 16-bit integers, value = offset + scale·code,
exact to half of 1/65,534 of an array's range; the code −32768 is a value that is not known. Imports
numpy.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MISSING: Final = -32768
LARGEST: Final = 32767


@dataclass(slots=True)
class Pack:
    """Arrays one behind another, and what a page must know to read them back."""

    directory: dict[str, dict[str, Any]] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0

    def exactly(self, name: str, values: NDArray[Any]) -> None:
        """Keep an array as float32; what is beyond its range is infinite, which the page takes for
        not known.
        """
        with np.errstate(over="ignore"):
            self._keep(name, np.asarray(values, dtype="<f4"), {"kind": "float"})

    def coarsely(self, arrays: Mapping[str, NDArray[Any]], *, logarithm: bool = False) -> None:
        """Keep arrays as 16-bit integers of one scale, so that a limit stays on its side of a
        value; those of their logarithms for values of many orders of magnitude, where one that is
        not positive is not known.
        """
        numbers = {name: np.asarray(values, dtype=np.float64) for name, values in arrays.items()}
        if logarithm:
            numbers = {
                name: np.log(each, where=each > 0, out=np.full(each.shape, np.nan))
                for name, each in numbers.items()
            }
        known = np.concatenate([each[np.isfinite(each)] for each in numbers.values()])
        low, high = (known.min(), known.max()) if known.size else (0.0, 0.0)
        offset, scale = (low + high) / 2, (high - low) / (2 * LARGEST) or 1.0
        told = {"kind": "code", "offset": float(offset), "scale": float(scale)}
        for name, each in numbers.items():
            codes = np.full(each.shape, MISSING, dtype="<i2")
            there = np.isfinite(each)
            codes[there] = np.rint((each[there] - offset) / scale)
            self._keep(name, codes, told | {"logarithm": logarithm})

    def _keep(self, name: str, array: NDArray[Any], told: dict[str, Any]) -> None:
        piece = array.tobytes()
        piece += b"\0" * (-len(piece) % 4)  # the next array starts where one of float32 may
        self.directory[name] = told | {"shape": list(array.shape), "start": self.size}
        self.pieces.append(piece)
        self.size += len(piece)

    def base64(self) -> str:
        """All arrays, compressed, as one text; equal arrays give equal ones."""
        return base64.b64encode(gzip.compress(b"".join(self.pieces), mtime=0)).decode("ascii")


def unpacked(directory: dict[str, Any], text: str, name: str) -> NDArray[np.float64]:
    """Read an array back, as the page does.

    >>> pack = Pack()
    >>> pack.coarsely({"curve": np.array([0.0, np.nan, 1.0])})
    >>> unpacked(pack.directory, pack.base64(), "curve")
    array([ 0., nan,  1.])
    """
    told = directory[name]
    kind = "<f4" if told["kind"] == "float" else "<i2"
    data = np.frombuffer(
        gzip.decompress(base64.b64decode(text)),
        kind,
        count=int(np.prod(told["shape"])),
        offset=told["start"],
    )
    values = data.reshape(told["shape"]).astype(np.float64)
    if told["kind"] == "float":
        return values
    values = np.where(values == MISSING, np.nan, told["offset"] + told["scale"] * values)
    return np.exp(values) if told["logarithm"] else values
