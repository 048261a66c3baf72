import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtri

from geostat.bounds.gaps import clustered_mean, drawn_curves
from geostat.bounds.head import FittedHead
from geostat.bounds.overall import band_limits
from geostat.datasets.separability import WITH_F
from theory.evaluate.simulate import simulate
from theory.head.gram import offset_exponential

TOKENS, DIMENSION = 24, 16
GRID = np.array([1, 2, 5, 12, TOKENS])
NORMS = np.r_[0.3, np.ones(TOKENS - 1)]
GRAM = offset_exponential(0.3, 0.1, 0.15, TOKENS)


def drawn(alpha: np.ndarray, grid: np.ndarray = GRID, seed: int = 0, convention: str = "paper"):
    """Return the curves of draws with weights (document, head, token)."""
    coords = {
        "tokens": ("layer", [TOKENS]),
        "sink_visible": ("layer", [True]),
        "position": np.arange(TOKENS),
    }
    capture = xr.Dataset(coords=coords, attrs={"convention": convention, "dimension": DIMENSION})
    model = FittedHead(norms=NORMS, gram=GRAM, projected=False, distance=0.0)
    return drawn_curves(capture, 0, alpha, model, grid, seed=seed)


def weights(documents: int) -> np.ndarray:
    row = np.random.default_rng(0).dirichlet(np.full(TOKENS, 0.3))
    return np.tile(row, (documents, 1, 1))


@pytest.mark.parametrize("convention", ["paper", "followup"])
def test_drawn_curves_equal_the_simulation(convention):
    alpha = weights(300)
    result = drawn(alpha, seed=5, convention=convention)
    assert result.shape == (len(WITH_F), 300, 1, len(GRID))
    how = {"draws": 300, "seed": 5, "convention": convention}
    expected = simulate(alpha[0, 0], NORMS, GRAM, DIMENSION, GRID[:-1], **how)
    for index, statistic in enumerate(WITH_F):
        mean = result[index, :, 0, :-1].mean(axis=0)
        assert_allclose(mean, getattr(expected, statistic), atol=1e-12)
    assert np.isnan(result[..., -1]).all()  # N = T


def test_heads_of_one_kv_head_share_their_values():
    result = drawn(np.repeat(weights(6), 2, axis=1), seed=2)
    assert_array_equal(result[:, :, 0], result[:, :, 1])
    assert len(np.unique(result[1, :, 0, 2])) > 1  # documents are independent draws


def test_a_document_without_weights_has_no_curve():
    alpha = weights(3)
    alpha[1, 0, 4] = np.nan
    result = drawn(alpha)
    assert np.isnan(result[:, 1]).all()
    assert np.isfinite(result[:, [0, 2], :, :-1]).all()


CLUSTER = np.array([0, 0, 1, 1])


def share_of(true: np.ndarray, counted: np.ndarray) -> tuple[float, float]:
    """Return the share of cells, (layer, head, n), and its error."""
    cells = (xr.DataArray(x, dims=("layer", "head", "n_envelope")) for x in (true, counted))
    sums = (array.sum("n_envelope") for array in cells)
    share, error, _ = clustered_mean(*sums, CLUSTER[: true.shape[1]])
    return float(share), float(error)


def test_the_error_of_a_share_is_clustered_by_kv_head():
    random = np.random.default_rng(3)
    shape = (40, 4, 10)
    effect = np.repeat(random.random((40, 2)), 2, axis=1)[..., None]  # effect of a KV head
    counted = random.random(shape) < 0.9
    true = (random.random(shape) < effect) & counted
    share, error = share_of(true, counted)
    assert share == true.sum() / counted.sum()
    hits, sizes = (a.reshape(40, 2, 2, 10).sum(axis=(2, 3)).ravel() for a in (true, counted))
    # Jackknife over KV heads, equal to first order.
    ratios = (hits.sum() - hits) / (sizes.sum() - sizes)
    assert error == pytest.approx(np.sqrt(79 / 80 * ((ratios - share) ** 2).sum()), 0.02)
    assert np.isnan(share_of(true[:1, :2], counted[:1, :2])[1])


@pytest.mark.slow
def test_intervals_of_a_share_cover_it():
    """KV heads differ in coverage: ± 1.96 errors contain the mean coverage in about 95%."""
    random = np.random.default_rng(4)
    covered = []
    for _ in range(400):
        effect = np.repeat(random.beta(2, 1, (30, 2)), 2, axis=1)[..., None]
        true = random.random((30, 4, 8)) < effect
        share, error = share_of(true, np.ones_like(true))
        covered.append(abs(share - 2 / 3) < 1.96 * error)
    assert 0.91 < np.mean(covered) < 0.98


def correlated(
    shares: np.ndarray, runs: int, layers: int, random: np.random.Generator
) -> xr.DataArray:
    """Return cells inside, (gram, layer, head, n_envelope), of `runs` runs, as Grams.

    A layer has nine heads of three KV heads. Half of the variance behind a cell is its KV head's;
    neighbouring sizes correlate by 0.9.
    """

    def along_sizes(heads: int) -> np.ndarray:
        z = random.standard_normal((runs, layers, heads, shares.size))
        for size in range(1, shares.size):
            z[..., size] = 0.9 * z[..., size - 1] + np.sqrt(1 - 0.81) * z[..., size]
        return z

    z = (np.repeat(along_sizes(3), 3, axis=2) + along_sizes(9)) / np.sqrt(2)
    return xr.DataArray(
        (z < ndtri(shares)).astype(float), dims=("gram", "layer", "head", "n_envelope")
    )


@pytest.mark.parametrize(("low", "high"), [(0.07, 0.95), (0.02, 0.99)])
def test_bands_cover_the_whole_curve_over_n(low, high):
    """Simultaneous coverage of 20 correlated sizes; t alone covers shares from 0.02 in 78%."""
    random, shares = np.random.default_rng(5), np.linspace(high, low, 20)
    inside, drawn = (correlated(shares, 200, 30, random) for _ in range(2))
    values = xr.concat(
        [inside, drawn - inside], xr.IndexVariable("measure", ["inside", "drawn_gap"])
    )
    limits = band_limits(
        *clustered_mean(values, xr.ones_like(values), np.repeat(range(3), 3)), "n_envelope"
    )
    truth = xr.DataArray([shares, 0 * shares], dims=("measure", "n_envelope"))
    covered = (limits["_lower"] <= truth) & (truth <= limits["_upper"])
    for coverage in covered.all("n_envelope").mean("gram"):
        assert float(coverage) >= 0.93
    assert float(covered.mean()) > 0.99  # a single size: far above 95%
    pointwise = abs(limits[""] - truth) < 1.96 * limits["_se"]
    assert (pointwise.all("n_envelope").mean("gram") < 0.75).all()


def test_a_share_of_one_has_an_interval_and_a_gap_of_no_error_has_none():
    values = xr.DataArray(
        np.ones((2, 4, 9, 3)),
        dims=("measure", "layer", "head", "n_envelope"),
        coords={"measure": ["inside", "drawn_gap"]},
    )
    limits = band_limits(
        *clustered_mean(values, xr.ones_like(values), np.repeat(range(3), 3)), "n_envelope"
    )
    assert_allclose(limits["_upper"].sel(measure="inside"), 1)
    assert (limits["_lower"].sel(measure="inside") < 0.7).all()  # 12 KV heads
    assert limits["_lower"].sel(measure="drawn_gap").isnull().all()
