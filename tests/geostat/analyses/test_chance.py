import numpy as np
import pytest
import xarray as xr
from scipy import stats
from statsmodels.stats.multitest import multipletests
from support.experiments import captured

from empirical.schema import NULL
from geostat.analyses.chance import FLIPS, compare_with_nulls, sign_flip
from geostat.statistics.multiple_testing import adjusted
from geostat.statistics.t_test import two_sided

N = np.array([1, 2, 3, 5, 8, 16])
TOKENS, LAYERS, HEADS = 16, 2, 10
NULLS = ["random_selection", "random_directions"]


def run(seed=0, *, documents=8, gain=0.0, between_documents=0.05, constant=None):
    """Return a capture and its nulls: measured minus null is `gain` plus noise."""
    rng = np.random.default_rng(seed)
    data, null = {}, {}
    for name in ("precision", "recall"):
        base = rng.uniform(0.4, 0.6, (documents, LAYERS, HEADS, 2, N.size))
        shift = between_documents * rng.normal(size=(documents, 1, 1, N.size))
        shift = shift + 0.02 * rng.normal(size=(documents, LAYERS, HEADS, N.size))
        measured = base[..., 0, :] + gain + (shift if constant is None else constant)
        data[name], null[name] = measured, base
    coords = {"tokens": np.full(LAYERS, TOKENS), "sink_visible": np.full(LAYERS, True)}
    return captured(data, n=N, **coords), captured(null, NULL, n=N, null=NULLS)


def test_gains_and_p_values_are_those_of_scipy_paired_t():
    capture, null = run(gain=0.03)
    found = compare_with_nulls(capture, null)
    measured = capture["recall"].mean(("layer", "head")).values
    chance = null["recall"].sel(null="random_directions").mean(("layer", "head")).values
    test = stats.ttest_rel(measured, chance, axis=0)
    inner = slice(1, -1)
    holm = np.full(N.size, np.nan)
    holm[inner] = multipletests(test.pvalue[inner], method="holm")[1]
    for name, expected, sizes in (
        ("gain", (measured - chance).mean(axis=0), slice(None)),
        ("gain_se", stats.sem(measured - chance, axis=0), slice(None)),
        ("gain_lower", test.confidence_interval(0.95).low, slice(None)),
        ("p", test.pvalue, inner),
        ("p_holm", holm, inner),
        ("gain_band_upper", test.confidence_interval(1 - 0.05 / 4).high, inner),
    ):
        values = found[f"recall_{name}"].sel(null="random_directions").values
        np.testing.assert_allclose(values[sizes], expected[sizes], rtol=1e-9, err_msg=name)


def test_sizes_where_scores_are_1_by_definition_are_not_tested():
    found = compare_with_nulls(*run())
    for name in ("precision_p", "precision_p_holm", "precision_gain_band_lower", "precision_more"):
        assert np.isnan(found[name].sel(n=[1, TOKENS])).all()
        assert np.isfinite(found[name].sel(n=[2, 8])).all()
    tested = found["recall_heads"].sel(null=NULLS).sel(n=[1, 2, 8, TOKENS])
    assert (tested == [0, LAYERS * HEADS, LAYERS * HEADS, 0]).all()


@pytest.mark.parametrize("method", ["holm", "fdr_bh"])
def test_adjusted_p_values_are_those_of_statsmodels(method):
    p = np.random.default_rng(4).beta(0.3, 1, (40, 5))
    p[::7, 1] = np.nan
    p[3:9, 2] = 0.01  # ties
    found = adjusted(p, method)
    for values, given in zip(found.T, p.T, strict=True):
        known = np.isfinite(given)
        expected = multipletests(given[known], method=method)[1]
        np.testing.assert_allclose(values[known], expected)
    assert (np.isnan(found) == np.isnan(p)).all()
    assert np.isnan(adjusted(np.full(3, np.nan), method)).all()


@pytest.mark.slow
def test_the_familywise_error_rate_is_at_most_5_percent():
    alarms, outside = 0, 0
    draws = 300
    for seed in range(draws):
        found = compare_with_nulls(*run(seed, documents=5)).sel(null="random_selection")
        low, high = (found[f"precision_gain_band_{side}"] for side in ("lower", "upper"))
        alarms += bool((found["precision_p_holm"] <= 0.05).any())
        outside += bool(((low > 0) | (high < 0)).any())
    most = 0.05 + 4 * np.sqrt(0.05 * 0.95 / draws)
    assert alarms / draws <= most
    assert outside / draws <= most
    assert alarms + outside > 0


def test_a_difference_is_found_with_its_sign_and_size():
    every = LAYERS * HEADS
    for sign, counts in ((1, (every, 0, every)), (-1, (0, every, 0))):
        found = compare_with_nulls(*run(gain=sign * 0.1, between_documents=0.005))
        selected = found.sel(null="random_selection", n=[2, 3, 5, 8])
        assert (selected["recall_p_holm"] < 0.05).all()
        np.testing.assert_allclose(selected["recall_gain"], sign * 0.1, atol=0.02)
        counted = [int(selected[f"recall_{name}"].sel(n=3)) for name in ("more", "less", "above")]
        assert counted == list(counts)


def test_the_floor_is_a_null_of_precision_only():
    capture, null = run()
    found = compare_with_nulls(capture, null).sel(null="floor")
    measured = capture["precision"].mean(("document", "layer", "head")).values
    np.testing.assert_allclose(found["precision_gain"], measured - N / TOKENS, rtol=1e-9)
    assert np.isnan(found["recall_gain"]).all()


@pytest.mark.parametrize("documents", [6, 8])
def test_the_sign_flip_test_is_scipy_s_exact_permutation_test(documents):
    rng = np.random.default_rng(1)
    difference = rng.normal(0.4, 1, (documents, 3))
    difference[:, 2] = np.round(difference[:, 2])
    expected = stats.permutation_test(
        (difference,),
        lambda d, axis: d.mean(axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        axis=0,
    )
    np.testing.assert_allclose(sign_flip(difference), expected.pvalue)
    assert sign_flip(np.ones((documents, 1)))[0] == pytest.approx(2 / 2**documents)
    assert sign_flip(np.zeros((documents, 1)))[0] == 1


def test_a_mean_of_rounding_error_is_not_significant():
    difference = np.tile([0.1, 0.2, -0.3], 5)[:, None]
    assert difference[:6].sum() != 0
    assert sign_flip(difference[:6])[0] == 1
    assert sign_flip(difference)[0] == 1


def test_with_many_documents_sign_patterns_are_random_and_p_is_positive():
    rng = np.random.default_rng(2)
    difference = rng.normal(0.25, 1, (40, 50))
    drawn, t = sign_flip(difference), stats.ttest_1samp(difference, 0, axis=0).pvalue
    np.testing.assert_allclose(drawn, t, atol=0.04)
    assert sign_flip(np.ones((40, 1)))[0] == pytest.approx(1 / FLIPS)


def test_a_difference_without_spread_has_no_error():
    p = two_sided(np.array([0.0, 0.2, np.nan]), np.array([0.0, 0.0, 0.1]), np.array([3, 3, 3]))
    np.testing.assert_array_equal(p, [1.0, 0.0, np.nan])
    found = compare_with_nulls(*run(constant=0.0)).sel(null="random_selection", n=3)
    assert float(found["recall_p"]) == 1
    assert float(found["recall_above"]) == 0


def test_one_document_and_no_null_give_missing_values():
    capture, null = run(documents=1)
    found = compare_with_nulls(capture, null)
    assert np.isfinite(found["recall_gain"].sel(null=NULLS)).all()
    for name in ("recall_gain_se", "recall_p_holm", "recall_more", "recall_gain_band_lower"):
        assert np.isnan(found[name]).all()
    assert any("One document" in note for note in found.attrs["notes"])
    alone = compare_with_nulls(capture, None)
    assert alone["null"].values.tolist() == ["floor"]
    assert "No null" in alone.attrs["notes"][0]


def test_five_documents_are_too_few_to_test_single_heads():
    found = compare_with_nulls(*run(documents=5, gain=0.2))
    assert np.isnan(found["recall_more"]).all()
    assert np.isfinite(found["recall_p_holm"].sel(null=NULLS, n=[2, 3])).all()
    assert any("sign" in note or "exact test" in note for note in found.attrs["notes"])


def test_a_null_in_another_order_of_dims_is_the_same():
    capture, null = run(gain=0.1)
    turned = null.transpose("n", "null", "head", "document", "layer")
    found, expected = (compare_with_nulls(capture, given) for given in (turned, null))
    xr.testing.assert_allclose(found, expected)
