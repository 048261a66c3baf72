"""Memory by number of documents: no array has two document axes; chunked results are equal."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.runs import small_run

from geostat.analyses.chance import compare_with_nulls
from geostat.analyses.head_regimes import classify_heads
from geostat.analyses.kinds_of_text import OneWay, rows_of
from geostat.analyses.sink import correlate_with_sink
from geostat.bounds.envelope import envelope_dataset
from geostat.bounds.overall import overall
from geostat.fits.norms.fit import fit_norms
from geostat.fits.similarity.fit import fit_similarity
from geostat.runs.groups import joined, tree_of
from geostat.runs.stages import analyses, fitted
from geostat.statistics import arrays

FEW, MANY = 500, 2000
GROUPS = ("capture", "null")


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, xr.Dataset]:
    """Return one layer of three documents."""
    tree = small_run(tmp_path_factory.mktemp("memory") / "run.zarr", length=12).tree(only=GROUPS)
    return {name: tree[name].to_dataset().isel(layer=[0]) for name in GROUPS}


def fits_and_bounds(run: xr.DataTree) -> dict[str, xr.Dataset]:
    fits = fitted(run["capture"].to_dataset())
    bounds = {"envelope": envelope_dataset(joined(run, tree_of(fits)))}
    return fits | bounds | {"summary": overall(joined(run, tree_of(bounds)))}


@pytest.mark.slow
@pytest.mark.parametrize("compute", [fits_and_bounds, analyses])
def test_chunked_computation_equals_the_whole(
    compute: Callable[[xr.DataTree], dict[str, xr.Dataset]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = small_run(tmp_path / "run.zarr", length=16, n=np.array([1, 2, 5, 16])).tree()
    whole = compute(run)
    monkeypatch.setattr(arrays, "ENTRIES", 1)
    assert len(arrays.pieces(3, 10)) == 3
    parts = compute(run)
    assert whole
    for name, group in whole.items():
        xr.testing.assert_allclose(parts[name], group, rtol=1e-9)


def kinds(capture: xr.Dataset) -> tuple[float, float, float]:
    norms = capture["value_norm"].isel(layer=0, position=3).values.T
    return OneWay(rows_of(norms)[0], np.arange(norms.shape[1]) % 2).squares()


WORK: dict[str, Callable[[xr.Dataset, xr.Dataset], Any]] = {
    "norms": lambda capture, null: fit_norms(capture),
    "similarity": lambda capture, null: fit_similarity(capture),
    "sink": lambda capture, null: correlate_with_sink(capture, resamples=10),
    "regimes": lambda capture, null: classify_heads(capture, resamples=10),
    "chance": compare_with_nulls,
    "kinds": lambda capture, null: kinds(capture),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_memory_grows_linearly_with_documents(
    work: Callable[[xr.Dataset, xr.Dataset], Any], layer: dict[str, xr.Dataset]
) -> None:
    peaks = []
    for documents in (FEW, MANY):
        repeated = [
            layer[name]
            .isel(document=np.arange(documents) % 3)
            .assign_coords(document=np.arange(documents))
            for name in GROUPS
        ]
        tracemalloc.start()
        work(*repeated)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    power = np.log(peaks[1] / peaks[0]) / np.log(MANY / FEW)
    assert power < 1.2, f"{peaks[0] / 1e6:.1f} and {peaks[1] / 1e6:.1f} MB"
