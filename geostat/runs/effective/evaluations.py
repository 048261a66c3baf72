"""Losses that were measured, kept one by one in a file beside the run until they stand in it, so
that what is interrupted is resumed. Each line has a digest of itself and of all before it: from a
damaged one on, losses are measured again. Imports the standard library, numpy and the store.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from empirical.errors import StoreError
from empirical.store import bundle
from empirical.store.disk import replace, writing
from empirical.store.rows import chained
from geostat.experiments.effective_size import Cell

FloatArray = NDArray[np.float64]

KEPT: Final = 1 << 30
"""Bytes of the file at most: a loss takes some twenty."""
_APPEND = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)


@dataclass(slots=True)
class Evaluations:
    """Losses by intervention, (document), and mean sizes of the sets that rules chose; the model
    as it is stands under `effective_size.PLAIN`.
    """

    path: Path
    of: Mapping[str, Any]
    """What they were measured of; a file of something else is begun anew."""
    losses: dict[Cell, FloatArray] = field(default_factory=dict)
    sizes: dict[Cell, FloatArray] = field(default_factory=dict)
    _begun: bool = False
    _chain: str = ""
    """Digest of the last line."""

    def read(self) -> None:
        """Take in what an interrupted command left."""
        place = self.path
        try:
            lines = bundle.content(place.parent, place.name, limit=KEPT).splitlines(True)
        except FileNotFoundError:
            return
        except StoreError:  # a link, or what no command left
            return
        if not lines or self._parsed(lines[0]) != json.loads(json.dumps({"of": self.of})):
            return
        self._begun = True
        for line in lines[1:]:
            row = self._parsed(line)
            if row is None or not self._taken(row):
                self._rewrite()
                return

    def add(self, cell: Cell, losses: FloatArray, sizes: FloatArray | None = None) -> None:
        """Keep the losses of one intervention, on the disk once this returns."""
        self._take(cell, losses, None if sizes is None else sizes.tolist())
        if not self._begun:
            self._rewrite()
        else:
            with writing(self.path), open(os.open(self.path, _APPEND), "ab") as file:
                file.write(self._line(self._row(cell)))
                file.flush()
                os.fsync(file.fileno())

    def forget(self) -> None:
        """Remove the file: what it holds stands in the run."""
        self.path.unlink(missing_ok=True)
        self._begun = False

    def _take(self, cell: Cell, losses: FloatArray, sizes: list[float] | None) -> None:
        if not np.isfinite(losses).all():
            raise ValueError(f"{cell}: losses are not finite")
        self.losses[cell] = np.asarray(losses, dtype=np.float64)
        if sizes is not None:
            self.sizes[cell] = np.asarray(sizes, dtype=np.float64)

    def _taken(self, row: Mapping[str, Any]) -> bool:
        """Take in a row of the file; False where it is none that was written."""
        with suppress(KeyError, TypeError, ValueError):
            cell, losses = Cell(*row["cell"]), np.array(row["losses"], np.float64)
            sizes = row.get("sizes")
            shaped = losses.ndim == 1 and (sizes is None or np.shape(sizes) == losses.shape)
            if shaped and all(isinstance(one, str) for one in cell[:3]) and type(cell.n) is int:
                self._take(cell, losses, sizes)
                return True
        return False

    def _row(self, cell: Cell) -> dict[str, Any]:
        row: dict[str, Any] = {"cell": list(cell), "losses": self.losses[cell].tolist()}
        if cell in self.sizes:
            row["sizes"] = self.sizes[cell].tolist()
        return row

    def _line(self, row: Mapping[str, Any]) -> bytes:
        """Return the line of a row behind those before it."""
        start, end, self._chain = chained(json.dumps(row), self._chain)
        return f"{start}{end}\n".encode()

    def _parsed(self, line: bytes) -> dict[str, Any] | None:
        """Return the row of the next line; None where it is not what was written."""
        with suppress(ValueError):
            row = bundle.parsed(line)
            if isinstance(row, dict) and row.pop("chain", None) is not None:
                before = self._chain
                if self._line(row) == line:
                    return row
                self._chain = before
        return None

    def _rewrite(self) -> None:
        self._chain = ""
        with writing(self.path):
            rows = [{"of": self.of}, *map(self._row, self.losses)]
            replace(self.path, b"".join(map(self._line, rows)))
        self._begun = True
