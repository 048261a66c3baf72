"""Memory by the number of documents: no array of fits and experiments has two axes of them, and
what is looked at in pieces is what it is as a whole.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.runs import small_run

from geostat.bounds.envelope import envelope_dataset
from geostat.bounds.overall import overall
from geostat.experiments.chance import compare_with_nulls
from geostat.experiments.head_regimes import classify_heads
from geostat.experiments.kinds_of_text import OneWay, rows_of
from geostat.experiments.sink import correlate_with_sink
from geostat.fits.norms.fit import fit_norms
from geostat.fits.similarity.fit import fit_similarity
from geostat.runs.groups import joined, tree_of
from geostat.runs.stages import experiments, fitted
from geostat.statistics import arrays

FEW, MANY = 500, 2000
GROUPS = ("capture", "null")


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, xr.Dataset]:
    """One layer of three documents."""
    tree = small_run(tmp_path_factory.mktemp("memory") / "run.zarr", length=12).tree(only=GROUPS)
    return {name: tree[name].to_dataset().isel(layer=[0]) for name in GROUPS}


def fits_and_bounds(run: xr.DataTree) -> dict[str, xr.Dataset]:
    fits = fitted(run["capture"].to_dataset())
    bounds = {"envelope": envelope_dataset(joined(run, tree_of(fits)))}
    return fits | bounds | {"summary": overall(joined(run, tree_of(bounds)))}


@pytest.mark.slow
@pytest.mark.parametrize("made", [fits_and_bounds, experiments])
def test_pieces_give_the_numbers_of_the_whole(
    made: Callable[[xr.DataTree], dict[str, xr.Dataset]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = small_run(tmp_path / "run.zarr", length=16, n=np.array([1, 2, 5, 16])).tree()
    whole = made(run)
    monkeypatch.setattr(arrays, "ENTRIES", 1)
    assert len(arrays.pieces(3, 10)) == 3
    parts = made(run)
    assert whole
    for name, group in whole.items():
        xr.testing.assert_allclose(parts[name], group, rtol=1e-9)


def kinds(capture: xr.Dataset) -> tuple[float, float, float]:
    given = capture["value_norm"].isel(layer=0, position=3).values.T
    return OneWay(rows_of(given)[0], np.arange(given.shape[1]) % 2).squares()


def fewer_resamples(what: Callable[..., Any], groups: dict[str, xr.Dataset]) -> Any:
    return what(groups["capture"], resamples=10)


WORK: dict[str, Callable[[dict[str, xr.Dataset]], Any]] = {
    "norms": lambda groups: fit_norms(groups["capture"]),
    "similarity": lambda groups: fit_similarity(groups["capture"]),
    "sink": partial(fewer_resamples, correlate_with_sink),
    "regimes": partial(fewer_resamples, classify_heads),
    "chance": lambda groups: compare_with_nulls(groups["capture"], groups["null"]),
    "kinds": lambda groups: kinds(groups["capture"]),
}


@pytest.mark.parametrize("what", WORK)
def test_memory_grows_as_the_documents_not_as_their_square(
    what: str, layer: dict[str, xr.Dataset]
) -> None:
    peaks = []
    for documents in (FEW, MANY):
        again = np.arange(documents) % 3
        groups = {
            name: data.isel(document=again).assign_coords(document=np.arange(documents))
            for name, data in layer.items()
        }
        tracemalloc.start()
        WORK[what](groups)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    power = np.log(peaks[1] / peaks[0]) / np.log(MANY / FEW)
    assert power < 1.2, f"{peaks[0] / 1e6:.1f} and {peaks[1] / 1e6:.1f} MB"
