"""Separability against the loss over N, on curves that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr
from scipy.stats import spearmanr

from geostat.experiments.effective_geometry import LEAST, RANGES, VARIABLES, over_sizes
from geostat.experiments.effective_size import Cell

SIZES = np.array([1, 2, 3, 4, 5, 8, 16, 32, 64, 100, 128])
PLAIN = np.array([2.0, 1.0, 3.0, 1.5])
STATISTICS = ("precision", "recall", "f_outer", "f_inner")


def measured(sizes: np.ndarray = SIZES) -> xr.Dataset:
    """Curves of 4 documents, 2 layers, 3 heads; one head sees no such N."""
    chance = np.random.default_rng(0)
    dims = ("document", "layer", "head", "n")
    data = xr.Dataset(
        {name: (dims, chance.random((4, 2, 3, len(sizes)))) for name in STATISTICS},
        coords={"n": sizes},
    )
    data["recall"][:, 1, 2, -1] = np.nan
    data["f_inner"][:] = 0.5
    return data


def losses(mode: str = "deletion", *, scope: str = "all") -> dict[Cell, np.ndarray]:
    chance = np.random.default_rng(1)
    return {
        Cell(scope, "attention", mode, n): PLAIN * (1 + 3 * chance.random(4) / n)
        for n in (1, 2, 3, 4, 8, 16, 32, 64, 100, 128, 7)
    }


def test_correlations_are_those_of_scipy_over_powers_of_two() -> None:
    data, cuts = measured(), losses() | losses("renormalisation")
    found = over_sizes(data, PLAIN, cuts)
    assert found is not None
    for mode in ("deletion", "renormalisation"):
        for name, least in RANGES.items():
            powers = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n >= least]
            rise = np.array([cuts[Cell("all", "attention", mode, n)] / PLAIN - 1 for n in powers])
            assert int(found["sizes"].sel(mode=mode, range=name)) == len(powers)
            for statistic in STATISTICS[:3]:
                curves = data[statistic].sel(n=powers).mean(("layer", "head")).values
                at = found.sel(mode=mode, range=name, statistic=statistic)
                expected = spearmanr(curves.mean(axis=0), rise.mean(axis=1)).statistic
                assert at["rank_correlation"].item() == pytest.approx(expected)
                each = [
                    spearmanr(
                        np.delete(curves, k, axis=0).mean(axis=0),
                        np.delete(rise, k, axis=1).mean(axis=1),
                    ).statistic
                    for k in range(4)
                ]
                se = math.sqrt(3 / 4 * sum((one - np.mean(each)) ** 2 for one in each))
                assert at["rank_correlation_se"].item() == pytest.approx(se)
            level = found["rank_correlation"].sel(mode=mode, range=name, statistic="f_inner")
            assert math.isnan(level.item())
    for record in VARIABLES:
        for part in record.parts().values():
            assert found[part.name].dims == part.dims


def test_sizes_that_were_not_measured_are_left_out_and_few_tell_nothing() -> None:
    few = measured(np.array([1, 2, 4, 8, 20]))
    found = over_sizes(few, PLAIN, losses())
    assert found is not None
    assert found["sizes"].values.tolist() == [[4, 1]]
    assert LEAST == 4
    assert bool(found["rank_correlation"].sel(range="all", statistic="recall").notnull().all())
    assert bool(found["rank_correlation"].sel(range="from 8").isnull().all())


def test_a_size_that_no_head_has_leaves_that_statistic_unknown_alone() -> None:
    data = measured()
    data["precision"][..., -1] = np.nan
    found, before = (over_sizes(one, PLAIN, losses()) for one in (data, measured()))
    assert found is not None
    assert before is not None
    known = found["rank_correlation"].notnull()
    assert not bool(known.sel(statistic="precision", range="all").any())
    others = dict(statistic=["recall", "f_inner"])
    xr.testing.assert_equal(found.sel(others), before.sel(others))


def test_only_cuts_of_all_layers_by_weight_are_looked_at() -> None:
    assert over_sizes(measured(), PLAIN, losses(scope="layer 3")) is None
    other = {cell._replace(rule="recent"): loss for cell, loss in losses().items()}
    assert over_sizes(measured(), PLAIN, other) is None
    first, both = (over_sizes(measured(), PLAIN, cuts) for cuts in (losses(), losses() | other))
    assert first is not None
    assert both is not None
    xr.testing.assert_identical(first, both)
