"""Losses that were measured, kept one by one in a file beside the run until they stand in it, so
that what is interrupted goes on. Imports the standard library and numpy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from empirical.store.disk import replace, writing
from geostat.experiments.effective_size import Cell

FloatArray = NDArray[np.float64]


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

    def read(self) -> None:
        """Take in what an interrupted command left."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        except (FileNotFoundError, UnicodeDecodeError):
            return
        rows = [row for line in lines if line.endswith("\n") and (row := _parsed(line)) is not None]
        if not rows or rows[0] != json.loads(json.dumps(self.of)):
            return
        self._begun = len(rows) == len(lines)  # else its last line was cut short: written anew
        for row in rows[1:]:
            try:
                self._take(Cell(*row["cell"]), np.array(row["losses"], float), row.get("sizes"))
            except (KeyError, TypeError, ValueError):  # none of ours: measured again
                self._begun = False
        if not self._begun:
            self._rewrite()

    def add(self, cell: Cell, losses: FloatArray, sizes: FloatArray | None = None) -> None:
        """Keep the losses of one intervention, on the disk once this returns."""
        self._take(cell, losses, None if sizes is None else sizes.tolist())
        if not self._begun:
            self._rewrite()
        else:
            with writing(self.path), self.path.open("a", encoding="utf-8") as file:
                file.write(self._line(cell))
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

    def _line(self, cell: Cell) -> str:
        row: dict[str, Any] = {"cell": list(cell), "losses": self.losses[cell].tolist()}
        if cell in self.sizes:
            row["sizes"] = self.sizes[cell].tolist()
        return json.dumps(row) + "\n"

    def _rewrite(self) -> None:
        with writing(self.path):
            replace(self.path, json.dumps(self.of) + "\n" + "".join(map(self._line, self.losses)))
        self._begun = True


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
