import numpy as np
import pytest
import xarray as xr
from scipy.stats import binom

from geostat.datasets.flags import combined, flags, reasons
from geostat.datasets.tokens import LayerTokens
from geostat.datasets.variable import variables
from geostat.fits.similarity.drift import Blocks, drift, sink_cosines
from geostat.fits.similarity.feasible import feasible_edges
from geostat.fits.similarity.forms import FORM, FORMS, PARAMETERS, by_lag, fitted_gram
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
from geostat.statistics.one_standard_error import choose
from theory.head.gram import smallest_eigenvalue

NUMBERS = np.array([form.number for form in FORM.values()])


@pytest.mark.parametrize("offset", [0.0, 0.3, -0.02])
@pytest.mark.parametrize("form", FORMS)
def test_feasible_edge_is_where_the_smallest_eigenvalue_reaches_zero(form, offset):
    content, beta, stretch = 30, 0.4, 0.7
    has = FORM[form].parameters
    c, s = (offset if "offset" in has else 0.0), (stretch if "stretch" in has else 1.0)
    edge = float(
        feasible_edges(
            form, *(np.array([x]) for x in (np.nan if form == "constant" else beta, c, s)), content
        )[0]
    )

    def smallest(rho0):
        return smallest_eigenvalue(
            fitted_gram(form, content + 1, beta, c, s, rho0).matrix(content + 1), content + 1
        )

    assert smallest(edge * 1.001) < -1e-7 < 1e-12 < smallest(edge * 0.999)


def test_a_content_gram_without_vectors_has_no_edge():
    one = np.ones(1)
    assert np.isnan(feasible_edges("offset_power", 3 * one, -0.5 * one, one, 20)).all()
    assert np.isnan(feasible_edges("constant", np.nan * one, -0.2 * one, one, 20)).all()
    # e^{−(k/5)^4} is no characteristic function: its Toeplitz matrix has a negative eigenvalue.
    assert (
        smallest_eigenvalue(
            fitted_gram("stretched", 40, 0.2, 0.0, 4.0, 0.0).matrix(40, sink=None), 40
        )
        < -1e-3
    )
    assert np.isnan(feasible_edges("stretched", 0.2 * one, 0 * one, 4 * one, 40)).all()
    assert np.isnan(feasible_edges("power", np.nan * one, 0 * one, one, 40)).all()
    assert feasible_edges("offset", 0 * one, 0 * one, one, 40) == 1.0


def test_smooth_grams_beyond_double_precision_are_left_to_eigenvalues():
    found = feasible_edges(
        "stretched", np.array([0.05, 0.3]), np.zeros(2), np.array([2.0, 0.5]), 60
    )
    for edge, beta, stretch in zip(found, (0.05, 0.3), (2.0, 0.5), strict=True):
        assert edge == pytest.approx(
            fitted_gram("stretched", 60, beta, 0.0, stretch, 0.0).edge(60), rel=1e-9
        )


def test_error_by_pair_is_the_integral_over_uniform_bins():
    random = np.random.default_rng(7)
    edges = np.linspace(-1, 1, 9)
    bins = Bins(
        left=edges[:-1], right=edges[1:], start=np.array([1.0, 3.0]), stop=np.array([2.0, 6.0])
    )
    counts = random.integers(0, 50, (2, 8)).astype(float)
    fine = (np.arange(2000) + 0.5) / 2000
    total = 0.0
    for at, lags in enumerate(([1, 2], [3, 4, 5, 6])):
        pairs = np.array([10 - k for k in lags])  # ten content tokens
        for lag, share in zip(lags, pairs / pairs.sum(), strict=True):
            x = bins.left[:, None] + fine * (bins.right - bins.left)[:, None]
            total += (
                share
                * (counts[at] * np.abs(x - (0.2 + 0.8 * np.exp(-0.3 * lag))).mean(axis=1)).sum()
            )
    values = {"beta": np.array([0.3]), "offset": np.array([0.2]), "stretch": np.ones(1)}
    found = mae_by_pair([counts[None]], bins, 10, "offset", values).value
    assert found[0] == pytest.approx(total / counts.sum(), rel=1e-5)


def test_error_by_bin_of_a_model_beyond_the_bins_is_the_distance_to_their_centres():
    bins = Bins(
        left=np.array([0.0, 0.5]),
        right=np.array([0.5, 1.0]),
        start=np.array([1.0]),
        stop=np.array([1.0]),
    )
    share = share_of_lags(bins, 2)
    np.testing.assert_allclose(error_by_bin(bins, share, np.array([-0.4])), [[0.65, 1.15]])
    np.testing.assert_allclose(error_by_bin(bins, share, np.array([0.5])), [[0.25, 0.25]])
    np.testing.assert_allclose(error_by_bin(bins, share, np.array([0.25])), [[0.125, 0.5]])


def test_pooled_share_leaves_documents_out_of_both_sides():
    part, whole = (
        np.array([[1.0], [4.0], [0.0], [np.nan]]),
        np.array([[10.0], [20.0], [30.0], [0.0]]),
    )
    found = pooled(np.nan_to_num(part), whole)
    assert found.value[0] == pytest.approx(5 / 60)
    without = np.array([4 / 50, 1 / 40, 5 / 30])
    assert found.se[0] == pytest.approx(np.sqrt(2 / 3 * ((without - without.mean()) ** 2).sum()))


def test_chance_floors_are_those_of_random_directions():
    random = np.random.default_rng(3)
    d, tokens, documents, draws = 16, 12, 2, 3000
    units = random.normal(size=(draws, documents, tokens, d))
    units /= np.linalg.norm(units, axis=-1, keepdims=True)
    cosine = units @ units.swapaxes(-1, -2)
    one = np.abs(cosine[:, 0, 0, 1])
    assert one.mean() == pytest.approx(chance_by_pair(d), abs=4 * one.std() / np.sqrt(draws))
    assert chance_by_pair(4096) == pytest.approx(np.sqrt(2 / (np.pi * 4096)), rel=1e-4)
    lag = np.arange(1, tokens - 1)
    mean = np.stack(
        [np.diagonal(cosine, k, axis1=2, axis2=3).mean(axis=(1, 2)) for k in lag], axis=1
    )
    error = np.abs(mean).mean(axis=1)
    floor = chance_by_lag(d, pairs_by_lag(lag, tokens), np.array([documents, 0]))
    # The normal approximation of the longest lags is within 2%.
    assert error.mean() == pytest.approx(floor[0], rel=0.02)
    assert np.isnan(floor[1])


def test_the_simplest_form_within_one_standard_error_is_chosen():
    random = np.random.default_rng(0)
    base = 1.0 + random.normal(0, 0.3, 8)  # what documents share cancels in a paired difference
    noise = np.tile([1.0, -1.0], 4)

    def losses(**excess):
        return np.stack(
            [base + excess.get(form, 5.0) + 0.1 * noise * (form != "stretched") for form in FORMS]
        )[:, :, None]

    bic = np.zeros((len(FORMS), 1))
    error = 0.1 / np.sqrt(7)
    near = choose(
        losses(stretched=0.0, exponential=0.9 * error, power=0.8 * error, constant=1.1 * error),
        bic,
        NUMBERS,
    )
    assert FORMS[near.chosen[0]] == "power"  # as simple as the exponential, and of lower loss
    assert [FORMS[i] for i in np.flatnonzero(near.within[:, 0])] == [
        "exponential",
        "power",
        "stretched",
    ]
    assert near.excess[FORMS.index("exponential"), 0] == pytest.approx(0.9 * error)
    assert near.excess_se[FORMS.index("exponential"), 0] == pytest.approx(error)
    far = choose(losses(stretched=0.0, exponential=1.1 * error, offset=0.5 * error), bic, NUMBERS)
    assert FORMS[far.chosen[0]] == "stretched"  # the best itself, where nothing simpler is near


def test_with_one_document_bic_chooses_and_an_exact_fit_wins_by_simplicity():
    loss = np.full((len(FORMS), 1, 3), np.nan)
    bic = np.full((len(FORMS), 3), np.nan)
    bic[:, 0] = [5.0, -2.0, 1.0, 4.0, -1.0, 0.0]
    bic[:, 1] = [5.0, -np.inf, -np.inf, 4.0, -1.0, -np.inf]
    found = choose(loss, bic, NUMBERS)
    assert [int(i) for i in found.chosen] == [FORMS.index("offset"), FORMS.index("constant"), -1]
    assert np.isnan(found.excess).all()
    assert not found.within[:, 2].any()


WHOLE = LayerTokens(start=0, tokens=64, sink=True)
EDGES = (
    np.array([0, 16, 32, 48]),
    np.array([15, 31, 47, 63]),
    np.array([1, 2, 5, 20]),
    np.array([1, 4, 19, 40]),
)


@pytest.mark.parametrize("seen", [WHOLE, LayerTokens(start=20, tokens=44, sink=False)])
def test_pairs_of_a_block_are_counted_by_their_later_token(seen):
    blocks = Blocks.of(seen, *EDGES)
    first = seen.start + seen.first_content
    for b, (low, high) in enumerate(zip(*EDGES[:2], strict=True)):
        for at, (a, z) in enumerate(zip(*EDGES[2:], strict=True)):
            count = sum(
                1
                for j in range(max(low, first), high + 1)
                for i in range(first, j)
                if a <= j - i <= z
            )
            assert blocks.pairs[b, at] == count


def drifting(slope, heads=1, documents=8, noise=0.0, own=0.0, seed=0):
    random = np.random.default_rng(seed)
    blocks = Blocks.of(WHOLE, *EDGES)
    each = slope + own * random.standard_normal((documents, heads, 1, 1))
    level = np.array([0.5, 0.3, 0.1, 0.05])
    cosine = (
        level
        + each * blocks.centre[:, None]
        + noise * random.standard_normal((documents, heads, 4, 4))
    )
    return np.where(blocks.pairs > 0, cosine, np.nan), blocks


def test_a_planted_drift_is_found_and_levels_of_lags_are_not_drift():
    cosine, blocks = drifting(0.08)
    found, document_rms = drift(cosine, blocks)
    assert found["drift_slope"].value[0] == pytest.approx(0.08)
    np.testing.assert_allclose(found["drift_slope_by_lag"].value[0], 0.08)
    middle = (blocks.pairs * blocks.centre[:, None]).sum(axis=0) / blocks.pairs.sum(axis=0)
    spread = np.sqrt(
        (blocks.pairs * (blocks.centre[:, None] - middle) ** 2).sum() / blocks.pairs.sum()
    )
    assert found["drift_rms"].value[0] == pytest.approx(0.08 * spread)
    assert document_rms[0] == pytest.approx(0.08 * spread)
    still, _ = drift(*drifting(0.0))
    assert abs(still["drift_slope"].value[0]) < 1e-12
    assert still["drift_rms"].value[0] < 1e-9


@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_intervals_of_drift_cover_and_noise_is_no_drift(slope):
    cosine, blocks = drifting(slope, heads=600, noise=0.03, own=0.02)
    found, document_rms = drift(cosine, blocks)
    limits = found["drift_slope"]
    inside = ((limits.lower <= slope) & (limits.upper >= slope)).sum()
    assert binom.ppf(1e-4, 600, 0.95) <= inside <= binom.ppf(1 - 1e-4, 600, 0.95)
    root = found["drift_rms"]
    true = drift(*drifting(slope))[0]["drift_rms"].value[0]
    assert ((root.lower <= true) & (root.upper >= true)).mean() > 0.92
    assert np.median(root.value) == pytest.approx(true, abs=0.005)
    assert np.median(document_rms) > 0.02


def test_one_block_has_no_drift():
    cosine, _ = drifting(0.1)
    blocks = Blocks.of(WHOLE, *(edge[:1] for edge in EDGES[:2]), *EDGES[2:])
    found, document_rms = drift(cosine[:, :, :1], blocks)
    assert np.isnan([found["drift_slope"].value, found["drift_rms"].value, document_rms]).all()


def test_sink_slope_runs_from_the_first_content_token_to_the_last():
    place = np.linspace(0, 1, 50)
    cosine = np.stack([0.1 + slope * (place - 0.5) for slope in (0.2, 0.4)])[:, None]
    found = sink_cosines(cosine)
    assert found["rho0"].value[0] == pytest.approx(0.1)
    assert found["sink_slope"].value[0] == pytest.approx(0.3)
    assert found["sink_slope"].se[0] == pytest.approx(0.1)
    assert found["rho0_spread"].value[0] == pytest.approx(
        np.sqrt((0.2**2 + 0.4**2) / 2 * place.var())
    )
    cosine[0, 0, 10:30] = np.nan
    assert sink_cosines(cosine)["sink_slope"].value[0] == pytest.approx(0.3)
    one = sink_cosines(cosine[..., :1])
    assert np.isnan(one["sink_slope"].value).all()
    assert np.isnan(sink_cosines(cosine[..., :0])["rho0"].value).all()


def test_flags_hold_several_reasons_and_name_them():
    order = ("lost", "rough", "late")
    bits = combined({"late": np.array([True, False]), "lost": np.array([True, True])}, order)
    array = xr.DataArray(
        variables([flags("why", "why", dict.fromkeys(order, "…"), ("head",))], {"why": bits})["why"]
    )
    assert [reasons(array[0]), reasons(array[1])] == [["lost", "late"], ["lost"]]


def test_fitted_gram_of_every_form_is_the_fitted_curve():
    for form in FORMS:
        values = {"beta": 0.4, "offset": 0.1, "stretch": 0.8}
        own = {
            name: (
                values[name]
                if name in FORM[form].parameters
                else (1.0 if name == "stretch" else 0.0)
            )
            for name in PARAMETERS
        }
        gram = fitted_gram(form, 12, own["beta"], own["offset"], own["stretch"], 0.05)
        np.testing.assert_allclose(gram.by_lag[1:], by_lag(form, np.arange(1.0, 12), *own.values()))
