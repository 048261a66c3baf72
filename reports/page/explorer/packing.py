"""Arrays packed into a page: typed arrays, compressed (gzip) and in base64, and a directory that
tells where each starts.

Quantities are kept as float32. Curves are kept as 16-bit integers, value = offset + scale·code,
exact to half of 1/65,534 of an array's range; the code −32768 is a value that is not known. Imports
numpy.
"""

from __future__ import annotations

import base64
import gzip
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
        """Keep an array as float32."""
        self._keep(name, np.asarray(values, dtype="<f4"), {"kind": "float"})

    def coarsely(self, name: str, values: NDArray[Any], *, logarithm: bool = False) -> None:
        """Keep an array as 16-bit integers; those of its logarithm for values of many orders of
        magnitude, where one that is not positive is not known.
        """
        numbers = np.asarray(values, dtype=np.float64)
        if logarithm:
            numbers = np.log(numbers, where=numbers > 0, out=np.full(numbers.shape, np.nan))
        known = np.isfinite(numbers)
        low, high = (numbers[known].min(), numbers[known].max()) if known.any() else (0.0, 0.0)
        offset, scale = (low + high) / 2, (high - low) / (2 * LARGEST) or 1.0
        codes = np.full(numbers.shape, MISSING, dtype="<i2")
        codes[known] = np.rint((numbers[known] - offset) / scale)
        told = {"kind": "code", "offset": float(offset), "scale": float(scale)}
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
    >>> pack.coarsely("curve", np.array([0.0, np.nan, 1.0]))
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
