"""Heads drawn from Model G: what coverage a bound has where its assumptions are true."""

import numpy as np
import pytest
import xarray as xr

from geostat.bounds.calibration import clustered_share, drawn_curves
from geostat.bounds.head import FittedHead
from geostat.datasets.separability import WITH_F
from theory.audit.simulate import simulate
from theory.evaluate.envelopes import envelopes
from theory.head.similarity_decay import offset_exponential

TOKENS, DIMENSION, DRAWS = 24, 16, 4000
GRID = np.array([1, 2, 5, 12, TOKENS])
NORMS = np.r_[0.3, np.ones(TOKENS - 1)]
GRAM = offset_exponential(0.3, 0.1, 0.15, TOKENS)
MODEL = FittedHead(norms=NORMS, gram=GRAM, projected=False, distance=0.0)


def capture(convention: str = "paper") -> xr.Dataset:
    coords = {"tokens": ("layer", [TOKENS]), "sink_visible": ("layer", [True])}
    data = xr.Dataset(coords=coords | {"position": np.arange(TOKENS)})
    return data.assign_attrs(convention=convention, dimension=DIMENSION)


def weights(documents: int, heads: int = 1) -> np.ndarray:
    rows = np.random.default_rng(0).dirichlet(np.full(TOKENS, 0.3), heads)
    return np.broadcast_to(rows, (documents, heads, TOKENS)).copy()


@pytest.mark.parametrize("convention", ["paper", "followup"])
def test_curves_are_those_of_the_simulation_of_the_same_head(convention):
    alpha = weights(300)
    found = drawn_curves(capture(convention), 0, alpha, MODEL, GRID, seed=5)
    assert found.shape == (len(WITH_F), 300, 1, len(GRID))
    same = simulate(
        alpha[0, 0], NORMS, GRAM, DIMENSION, GRID[:-1], draws=300, seed=5, convention=convention
    )
    for at, statistic in enumerate(WITH_F):
        np.testing.assert_allclose(
            found[at, :, 0, :-1].mean(axis=0), getattr(same, statistic), atol=1e-12
        )
    assert np.isnan(found[..., -1]).all()  # N = T


def test_the_mean_of_many_draws_lies_inside_the_sharp_bounds():
    alpha = weights(DRAWS)
    found = drawn_curves(capture(), 0, alpha, MODEL, GRID[1:-1], seed=1)[:, :, 0]
    bounds = envelopes(alpha[:1, 0], NORMS[None], GRAM, DIMENSION, GRID[1:-1], edition="sharp")
    error = found.std(axis=1) / np.sqrt(DRAWS)
    for at, statistic in enumerate(WITH_F):
        mean = found[at].mean(axis=0)
        assert (mean >= getattr(bounds, f"{statistic}_lower")[0] - 4 * error[at]).all()
        assert (mean <= getattr(bounds, f"{statistic}_upper")[0] + 4 * error[at]).all()


def test_heads_of_one_value_head_share_their_values():
    alpha = np.repeat(weights(6), 2, axis=1)
    found = drawn_curves(capture(), 0, alpha, MODEL, GRID, seed=2)
    np.testing.assert_array_equal(found[:, :, 0], found[:, :, 1])
    assert len(np.unique(found[1, :, 0, 2])) > 1  # documents are drawn anew


def test_a_document_without_weights_has_no_curve():
    alpha = weights(3)
    alpha[1, 0, 4] = np.nan
    found = drawn_curves(capture(), 0, alpha, MODEL, GRID, seed=0)
    assert np.isnan(found[:, 1]).all()
    assert np.isfinite(found[:, [0, 2], :, :-1]).all()


def cells(values: np.ndarray) -> xr.DataArray:
    return xr.DataArray(values, dims=("layer", "head", "n_envelope"))


def test_the_error_of_a_share_is_over_value_heads():
    random = np.random.default_rng(3)
    cluster, shape = np.array([0, 0, 1, 1]), (40, 4, 10)
    effect = np.repeat(random.random((40, 2)), 2, axis=1)[..., None]  # what a value head has
    counted = random.random(shape) < 0.9
    true = (random.random(shape) < effect) & counted
    share, error = clustered_share(cells(true), cells(counted), cluster)
    assert float(share) == true.sum() / counted.sum()
    hits, sizes = (a.reshape(40, 2, 2, 10).sum(axis=(2, 3)).ravel() for a in (true, counted))
    ratios = np.array(
        [np.delete(hits, k).sum() / np.delete(sizes, k).sum() for k in range(80)]
    )  # jackknife over value heads, the same to first order
    spread = np.sqrt(79 / 80 * ((ratios - share.item()) ** 2).sum())
    assert float(error) == pytest.approx(spread, 0.02)
    alone = clustered_share(cells(true[:1, :2]), cells(counted[:1, :2]), cluster[:2])[1]
    assert np.isnan(alone)


@pytest.mark.slow
def test_intervals_of_a_share_cover_it():
    """Value heads of differing coverage: ± 1.96 errors hold the mean coverage in about 95%."""
    random = np.random.default_rng(4)
    covered = []
    for _ in range(400):
        effect = np.repeat(random.beta(2, 1, (30, 2)), 2, axis=1)[..., None]
        true = random.random((30, 4, 8)) < effect
        share, error = clustered_share(
            cells(true), cells(np.ones_like(true)), np.array([0, 0, 1, 1])
        )
        covered.append(abs(float(share) - 2 / 3) < 1.96 * float(error))
    assert 0.91 < np.mean(covered) < 0.98
