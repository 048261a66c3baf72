import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

from geostat.datasets.tokens import LayerTokens
from geostat.fits.similarity.drift import Blocks, drift, sink_cosines
from geostat.fits.similarity.forms import FORM, FORMS, feasible_edges, fitted_gram
from geostat.fits.similarity.pairs import (
    Bins,
    chance_by_lag,
    chance_by_pair,
    error_by_bin,
    mae_by_pair,
    pairs_by_lag,
    pooled,
    share_of_lags,
)
from theory.head.gram import smallest_eigenvalue


def edge_of(form, beta, offset, stretch, content):
    return feasible_edges(form, *(np.array([x]) for x in (beta, offset, stretch)), content)[0]


@pytest.mark.parametrize("offset", [0.0, 0.3, -0.02])
@pytest.mark.parametrize("form", FORMS)
def test_feasible_edge_is_where_the_smallest_eigenvalue_reaches_zero(form, offset):
    content, beta = 30, 0.4
    c, s = (offset if FORM[form].has("offset") else 0.0), (0.7 if form == "stretched" else 1.0)
    edge = edge_of(form, np.nan if form == "constant" else beta, c, s, content)

    def smallest(rho0):
        gram = fitted_gram(form, content + 1, beta, c, s, rho0)
        return smallest_eigenvalue(gram.matrix(content + 1), content + 1)

    assert smallest(edge * 1.001) < -1e-7 < 1e-12 < smallest(edge * 0.999)


def test_a_content_gram_that_is_not_psd_has_no_edge():
    # e^{−(k/5)^4} is not a characteristic function: its Toeplitz matrix has a negative eigenvalue.
    gram = fitted_gram("stretched", 40, 0.2, 0.0, 4.0, 0.0).matrix(40, sink=None)
    assert smallest_eigenvalue(gram, 40) < -1e-3
    for form, beta, offset, stretch in (
        ("offset_power", 3.0, -0.5, 1.0),
        ("constant", np.nan, -0.2, 1.0),
        ("stretched", 0.2, 0.0, 4.0),
        ("power", np.nan, 0.0, 1.0),  # not fitted
    ):
        assert np.isnan(edge_of(form, beta, offset, stretch, 40)), form
    assert edge_of("offset", 0.0, 0.0, 1.0, 40) == 1.0


@pytest.mark.parametrize(("beta", "stretch"), [(0.05, 2.0), (0.3, 0.5)])
def test_near_singular_grams_use_eigenvalues(beta, stretch):
    expected = fitted_gram("stretched", 60, beta, 0.0, stretch, 0.0).edge(60)
    assert edge_of("stretched", beta, 0.0, stretch, 60) == pytest.approx(expected, rel=1e-9)


def test_error_by_pair_equals_the_integral_over_uniform_bins():
    edges = np.linspace(-1, 1, 9)
    lag_bins = {"start": np.array([1.0, 3.0]), "stop": np.array([2.0, 6.0])}
    bins = Bins(left=edges[:-1], right=edges[1:], **lag_bins)
    counts = np.random.default_rng(7).integers(0, 50, (2, 8)).astype(float)
    x = bins.left[:, None] + (np.arange(2000) + 0.5) / 2000 * (bins.right - bins.left)[:, None]
    total = 0.0
    for count, lags in zip(counts, ([1, 2], [3, 4, 5, 6]), strict=True):
        pairs = np.array([10 - k for k in lags])  # ten content tokens
        for lag, share in zip(lags, pairs / pairs.sum(), strict=True):
            error = np.abs(x - (0.2 + 0.8 * np.exp(-0.3 * lag))).mean(axis=1)
            total += share * (count * error).sum()
    values = {"beta": np.array([0.3]), "offset": np.array([0.2]), "stretch": np.ones(1)}
    result = mae_by_pair([counts[None]], bins, 10, "offset", values).value
    assert result[0] == pytest.approx(total / counts.sum(), rel=1e-5)


def test_error_by_bin_of_a_model_outside_a_bin_is_the_distance_to_its_centre():
    one = np.ones(1)
    bins = Bins(left=np.array([0.0, 0.5]), right=np.array([0.5, 1.0]), start=one, stop=one)
    share = share_of_lags(bins, 2)
    for model, expected in ((-0.4, [0.65, 1.15]), (0.5, [0.25, 0.25]), (0.25, [0.125, 0.5])):
        assert_allclose(error_by_bin(bins, share, np.array([model])), [expected])


def test_pooled_share_leaves_documents_out_of_both_sides():
    part, whole = np.array([[1.0], [4.0], [0.0], [0.0]]), np.array([[10.0], [20.0], [30.0], [0.0]])
    result = pooled(part, whole)
    assert result.value[0] == pytest.approx(5 / 60)
    without = np.array([4 / 50, 1 / 40, 5 / 30])
    assert result.se[0] == pytest.approx(np.sqrt(2 / 3 * ((without - without.mean()) ** 2).sum()))


def test_chance_levels_are_those_of_random_directions():
    d, tokens, documents, draws = 16, 12, 2, 3000
    units = np.random.default_rng(3).normal(size=(draws, documents, tokens, d))
    units /= np.linalg.norm(units, axis=-1, keepdims=True)
    cosine = units @ units.swapaxes(-1, -2)
    pair = np.abs(cosine[:, 0, 0, 1])
    assert pair.mean() == pytest.approx(chance_by_pair(d), abs=4 * pair.std() / np.sqrt(draws))
    assert chance_by_pair(4096) == pytest.approx(np.sqrt(2 / (np.pi * 4096)), rel=1e-4)
    lag = np.arange(1, tokens - 1)
    by_lag = [np.diagonal(cosine, k, axis1=2, axis2=3).mean(axis=(1, 2)) for k in lag]
    floor = chance_by_lag(d, pairs_by_lag(lag, tokens), np.array([documents, 0]))
    # The normal approximation is within 2% at the longest lags.
    assert np.abs(by_lag).mean() == pytest.approx(floor[0], rel=0.02)
    assert np.isnan(floor[1])


WHOLE = LayerTokens(start=0, tokens=64, sink=True)
EDGES = (
    np.array([0, 16, 32, 48]),
    np.array([15, 31, 47, 63]),
    np.array([1, 2, 5, 20]),
    np.array([1, 4, 19, 40]),
)


@pytest.mark.parametrize("visible", [WHOLE, LayerTokens(start=20, tokens=44, sink=False)])
def test_pairs_of_a_block_are_counted_by_their_later_token(visible):
    blocks = Blocks.of(visible, *EDGES)
    first = visible.start + visible.first_content
    expected = np.zeros((4, 4))
    for later in range(first, 64):
        for lag in range(1, min(later - first, 40) + 1):
            expected[later // 16, np.searchsorted(EDGES[3], lag)] += 1
    np.testing.assert_array_equal(blocks.pairs, expected)


def drifting(slope, heads=1, documents=8, noise=0.0, document_spread=0.0):
    random = np.random.default_rng(0)
    blocks = Blocks.of(WHOLE, *EDGES)
    slopes = slope + document_spread * random.standard_normal((documents, heads, 1, 1))
    cosine = np.array([0.5, 0.3, 0.1, 0.05]) + slopes * blocks.centre[:, None]
    cosine = cosine + noise * random.standard_normal((documents, heads, 4, 4))
    return np.where(blocks.pairs > 0, cosine, np.nan), blocks


def test_a_planted_drift_is_recovered_and_levels_of_lags_do_not_count():
    cosine, blocks = drifting(0.08)
    result, document_rms = drift(cosine, blocks)
    assert_allclose(result["drift_slope"].value, 0.08)
    assert_allclose(result["drift_slope_by_lag"].value, [[0.08] * 4])
    pairs, centre = blocks.pairs, blocks.centre[:, None]
    middle = (pairs * centre).sum(axis=0) / pairs.sum(axis=0)
    spread = np.sqrt((pairs * (centre - middle) ** 2).sum() / pairs.sum())
    assert_allclose(result["drift_rms"].value, 0.08 * spread)
    assert_allclose(document_rms, 0.08 * spread)
    still, _ = drift(*drifting(0.0))
    assert abs(still["drift_slope"].value[0]) < 1e-12
    assert still["drift_rms"].value[0] < 1e-9


@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_intervals_of_drift_cover_and_noise_does_not_count(slope):
    result, document_rms = drift(*drifting(slope, heads=600, noise=0.03, document_spread=0.02))
    limits, root = result["drift_slope"], result["drift_rms"]
    inside = ((limits.lower <= slope) & (limits.upper >= slope)).sum()
    assert binom.ppf(1e-4, 600, 0.95) <= inside <= binom.ppf(1 - 1e-4, 600, 0.95)
    true = drift(*drifting(slope))[0]["drift_rms"].value[0]
    assert ((root.lower <= true) & (root.upper >= true)).mean() > 0.92
    assert np.median(root.value) == pytest.approx(true, abs=0.005)
    assert np.median(document_rms) > 0.02


def test_one_block_has_no_drift():
    cosine, _ = drifting(0.1)
    blocks = Blocks.of(WHOLE, *(edge[:1] for edge in EDGES[:2]), *EDGES[2:])
    result, document_rms = drift(cosine[:, :, :1], blocks)
    assert np.isnan([result["drift_slope"].value, result["drift_rms"].value, document_rms]).all()


def test_sink_slope_runs_from_the_first_content_token_to_the_last():
    depth = np.linspace(0, 1, 50)
    cosine = np.stack([0.1 + slope * (depth - 0.5) for slope in (0.2, 0.4)])[:, None]
    result = sink_cosines(cosine)
    assert_allclose(result["rho0"].value, 0.1)
    assert_allclose(result["sink_slope"].value, 0.3)
    assert_allclose(result["sink_slope"].se, 0.1)
    spread = np.sqrt((0.2**2 + 0.4**2) / 2 * depth.var())
    assert_allclose(result["rho0_spread"].value, spread)
    cosine[0, 0, 10:30] = np.nan
    assert_allclose(sink_cosines(cosine)["sink_slope"].value, 0.3)
    assert np.isnan(sink_cosines(cosine[..., :1])["sink_slope"].value).all()
    assert np.isnan(sink_cosines(cosine[..., :0])["rho0"].value).all()
