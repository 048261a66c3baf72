"""Comparisons for tests: a finished run and one with shorter windows of the same texts, compared
once a session; and made-up comparisons of more runs.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import xarray as xr
from support.shared import once
from support.spine import LENGTH

from geostat.comparison.compare import compare
from geostat.runs import measurement, pipeline
from geostat.runs.options import CaptureOptions

SHORTER = LENGTH - 8


@cache
def shorter(store: Path, model: Path, texts: Path) -> Path:
    """Return the store of the same run with shorter windows."""
    folder = store.parent.parent / "shorter"

    def make() -> Path:
        run = measurement.measure(
            CaptureOptions(model=str(model), text=(texts,), documents=3, length=SHORTER, out=folder)
        )
        pipeline.fit(run)
        pipeline.confront(run, swap=False)
        return run.path

    return once(folder, make)


@cache
def compared(first: Path, second: Path) -> xr.Dataset:
    """Return a comparison of two runs; not to be modified."""
    return compare([first, second])


def of_many(data: xr.Dataset, runs: int) -> xr.Dataset:
    """Return a comparison of more runs, made from those of two: run k is a renamed copy of one.
    Differences repeat those of the two runs.
    """
    letters = "ABCDEFGHIJ"[:runs]
    pairs = [(i, j) for i in range(runs) for j in range(i + 1, runs)]
    out = data.isel(run=[place % 2 for place in range(runs)], pair=[0] * len(pairs))
    out = out.assign_coords(
        run=np.array([f"model {letter} <b>&_$" for letter in letters], dtype=object),
        pair=np.array([f"{letters[i]} − {letters[j]}" for i, j in pairs], dtype=object),
    )
    return out.assign_attrs(
        data.attrs | {"letters": list(letters), "provenance": "[" + ", ".join(["{}"] * runs) + "]"}
    )
