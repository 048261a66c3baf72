"""Rank correlations of separability with the loss over N, on known curves."""

import math

import numpy as np
import pytest
import xarray as xr
from scipy.stats import spearmanr
from support.experiments import captured

from empirical.schema import F_SCORES, SEPARABILITY
from geostat.analyses.effective_size import Cell
from geostat.experiments.effective.dataset import GEOMETRY, LEAST, RANGES, over_sizes

SIZES = np.array([1, 2, 3, 4, 5, 8, 16, 32, 64, 100, 128])
PLAIN = np.array([2.0, 1.0, 3.0, 1.5])
STATISTICS = ("precision", "recall", "f_outer", "f_inner")


def measured(sizes: np.ndarray = SIZES) -> xr.Dataset:
    """Return curves of 4 documents, 2 layers and 3 heads; one head has no value at one N."""
    chance = np.random.default_rng(0)
    curves = {name: chance.random((4, 2, 3, len(sizes))) for name in STATISTICS}
    data = captured(curves, SEPARABILITY | F_SCORES, n=sizes)
    data["recall"][:, 1, 2, -1] = np.nan
    data["f_inner"][:] = 0.5
    return data


def losses(mode: str = "deletion", *, scope: str = "all") -> dict[Cell, np.ndarray]:
    chance = np.random.default_rng(1)
    return {
        Cell(scope, "attention", mode, n): PLAIN * (1 + 3 * chance.random(4) / n)
        for n in (1, 2, 3, 4, 8, 16, 32, 64, 100, 128, 7)
    }


def over(data: xr.Dataset, cuts: dict[Cell, np.ndarray]) -> xr.Dataset:
    found = over_sizes(data, PLAIN, cuts)
    assert found is not None
    return found


@pytest.mark.parametrize("mode", ["deletion", "renormalisation"])
@pytest.mark.parametrize("name", RANGES)
def test_correlations_are_those_of_scipy_over_powers_of_two(name, mode):
    data, cuts = measured(), losses() | losses("renormalisation")
    found = over(data, cuts).sel(mode=mode, range=name)
    powers = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n >= RANGES[name]]
    rise = np.array([cuts[Cell("all", "attention", mode, n)] / PLAIN - 1 for n in powers])
    assert int(found["sizes"]) == len(powers)
    for statistic in STATISTICS[:3]:
        curves = data[statistic].sel(n=powers).mean(("layer", "head")).values

        def rho(documents: list[int], curves: np.ndarray = curves) -> float:
            means = curves[documents].mean(axis=0), rise[:, documents].mean(axis=1)
            return float(spearmanr(*means).statistic)

        without = [rho([k for k in range(4) if k != left]) for left in range(4)]
        se = math.sqrt(3 / 4 * sum((value - np.mean(without)) ** 2 for value in without))
        selected = found.sel(statistic=statistic)
        assert selected["rank_correlation"].item() == pytest.approx(rho([0, 1, 2, 3]))
        assert selected["rank_correlation_se"].item() == pytest.approx(se)
    assert math.isnan(found["rank_correlation"].sel(statistic="f_inner").item())


def test_variables_have_the_dims_of_their_records():
    found = over(measured(), losses())
    for part in (part for record in GEOMETRY for part in record.parts().values()):
        assert found[part.name].dims == part.dims


def test_unmeasured_sizes_are_ignored_and_few_sizes_give_no_correlation():
    few = measured(np.array([1, 2, 4, 8, 20]))
    found = over(few, losses())
    assert found["sizes"].values.tolist() == [[4, 1]]
    assert LEAST == 4
    assert bool(found["rank_correlation"].sel(range="all", statistic="recall").notnull().all())
    assert bool(found["rank_correlation"].sel(range="from 8").isnull().all())


def test_a_size_without_values_affects_only_its_statistic():
    data = measured()
    data["precision"][..., -1] = np.nan
    found, before = over(data, losses()), over(measured(), losses())
    known = found["rank_correlation"].notnull()
    assert not bool(known.sel(statistic="precision", range="all").any())
    others = {"statistic": ["recall", "f_inner"]}
    xr.testing.assert_equal(found.sel(others), before.sel(others))


def test_only_interventions_on_all_layers_by_weight_are_used():
    assert over_sizes(measured(), PLAIN, losses(scope="layer 3")) is None
    other = {cell._replace(rule="recent"): loss for cell, loss in losses().items()}
    assert over_sizes(measured(), PLAIN, other) is None
    both = over(measured(), losses() | other)
    xr.testing.assert_identical(both, over(measured(), losses()))
