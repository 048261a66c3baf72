import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from support.synthetic import Sizes, Truth, capture

from geostat.errors import InputError
from geostat.fits.pooled import (
    POOLED,
    TRENDS,
    Values,
    depth_of,
    depth_trend,
    fit_pooled,
    line,
    mixed,
    pooled_cosines,
    pooled_fit,
    pooled_log_weights,
    pooled_values,
)
from geostat.fits.similarity.fit import layer_cosines
from geostat.statistics.jackknife import jackknife

TRUTH = Truth(beta=0.3, offset=0.1)
LAYERS = 8


@pytest.fixture(scope="module")
def data():
    return capture(TRUTH, sizes=Sizes(layers=LAYERS), seed=3)


@pytest.fixture(scope="module")
def pooled(data):
    return fit_pooled(data)


def test_pooled_cosines_are_means_over_all_pairs(data):
    of_layer = pooled_cosines(data, [2]).cosine[:, 0]
    assert_allclose(of_layer, layer_cosines(data, 2).cosine.mean(axis=1))
    windows = capture(sizes=Sizes(layers=2, window=(128, 40)), seed=1)
    both = pooled_cosines(windows, [0, 1])
    parts = [layer_cosines(windows, layer) for layer in (0, 1)]
    # Both layers have the lag with index 10; only the first has that with index 60.
    total = sum(part.pairs[10] * part.cosine[..., 10].mean(axis=1) for part in parts)
    pairs = parts[0].pairs[10] + parts[1].pairs[10]
    assert both.pairs[10] == pairs
    assert_allclose(both.cosine[:, 0, 10], total / pairs)
    assert_allclose(both.cosine[:, 0, 60], parts[0].cosine[..., 60].mean(axis=1))


def test_planted_values_are_recovered_in_every_layer_and_in_the_model(pooled):
    offset = pooled.sel(gram="offset")
    for name, planted in (("beta", 0.3), ("offset", 0.1)):
        inside = (offset[f"{name}_lower"] <= planted) & (offset[f"{name}_upper"] >= planted)
        assert int(inside.sum()) >= LAYERS - 1
        assert offset[f"overall_{name}_lower"] <= planted <= offset[f"overall_{name}_upper"]
        assert offset[f"overall_{name}_se"] < 0.2 * planted
    assert (pooled["chosen"] == POOLED.index("offset")).sum() >= LAYERS - 1
    mae = pooled["mae_by_lag"]
    assert mae.sel(gram="offset").max() < 0.5 * mae.sel(gram="exponential").min()


def test_pooled_parameters_are_recovered_and_do_not_change_with_depth(pooled):
    planted = {"C": 2.0, "lam": 0.25, "rho0": 0.12, "p_sink": 0.4, "beta_offset": 0.3}
    for name, value in (planted | {"offset": 0.1}).items():
        selected = pooled.sel(parameter=name)
        # t with 7 degrees: 0.3%
        assert abs(selected["whole"] - value) <= 4.5 * selected["whole_se"], name
        assert abs(selected["change"]) <= 4.5 * selected["change_se"], name
        assert int(selected["layers_used"]) == LAYERS
    variation = pooled["by_layer"].sel(parameter="cv_token").mean()
    assert_allclose(variation, TRUTH.cv, atol=0.02)


def test_a_planted_change_with_depth_is_recovered(data):
    """Norms grow by a factor of e from the first layer to the last."""
    factor = xr.DataArray(np.exp(np.linspace(0, 1, LAYERS)), dims="layer")
    grown = data.assign(value_norm=data["value_norm"] * factor)
    selected = fit_pooled(grown).sel(parameter="C")
    assert selected["logarithm"]
    assert selected["change_lower"] <= 1.0 <= selected["change_upper"]
    assert selected["change_se"] < 0.05
    result = depth_trend(grown, "C")
    assert_allclose(result.params["depth"], selected["change"])
    assert_allclose(result.bse["depth"], selected["change_se_hac"])


def test_errors_are_over_documents(data, pooled):
    """The jackknife of a mean is its standard error over documents, for any number of heads."""
    selected = pooled.sel(parameter="rho0")
    by_document = data["sink_cosine"][..., 1:].mean(("kv_head", "position")).values.astype(float)
    se = by_document.std(axis=0, ddof=1) / np.sqrt(8)
    assert_allclose(selected["by_layer_se"], se, rtol=1e-4)
    slopes = np.polyfit(np.linspace(0, 1, LAYERS), by_document.T, 1)[0]
    assert_allclose(selected["change"], slopes.mean(), rtol=1e-4)
    assert_allclose(selected["change_se"], slopes.std(ddof=1) / np.sqrt(8), rtol=1e-4)


def test_replicates_are_fits_to_the_other_documents(data):
    values = pooled_values(data, "beta_offset")
    refit = pooled_values(data.isel(document=[k for k in range(8) if k != 3]), "beta_offset")
    assert_allclose(values.replicates[3], refit.estimate, rtol=1e-6)
    assert jackknife(values.estimate, values.replicates).se.shape == (LAYERS + 1,)


def test_parameters_at_a_bound_are_excluded_from_the_line(data):
    flat = data.isel(layer=slice(4)).copy(deep=True)
    flat["cosine_mean"][:, 0] = 0.0  # β of the exponential at its bound in the first layer
    selected = fit_pooled(flat).sel(parameter="beta")
    assert int(selected["layers_used"]) == 3
    assert np.isnan(selected["by_layer"][0])
    assert np.isfinite(selected["change_se"])


def test_pooled_fit_is_an_lmfit_result_with_the_values_and_errors_of_all_layers(data, pooled):
    result = pooled_fit(data, layer=2, form="offset")
    of_layer = pooled.sel(gram="offset", layer=2)
    for name in ("beta", "offset"):
        se = float(of_layer[f"{name}_se"])
        assert abs(result.params[name].value - float(of_layer[name])) < 1e-6 * se
        assert result.params[name].stderr == pytest.approx(se, rel=1e-6)
    offset = pooled_fit(data, "similarity", form="offset").params["offset"]
    overall = pooled.sel(gram="offset")
    error = float(overall["overall_offset_se"])
    assert abs(offset.value - float(overall["overall_offset"])) < 1e-6 * error
    norms = pooled_fit(data, "norms").params
    assert_allclose(norms["C"].value, pooled["whole"].sel(parameter="C"), rtol=1e-6)
    for name in ("C", "lam"):  # mean of the heads' estimates, and estimate of the heads' mean
        assert_allclose(norms[name].stderr, pooled["whole_se"].sel(parameter=name), rtol=0.02)
    eta = pooled_fit(data, "weights", layer=1).params["eta"]
    assert_allclose(eta.value, pooled["by_layer"].sel(parameter="eta", layer=1), rtol=1e-3)
    # /pooled has the error of the logarithm, transformed to η.
    growth = pooled_values(data, "eta")
    assert_allclose(eta.stderr, jackknife(growth.estimate, growth.replicates).se[1], rtol=1e-3)


def test_depth_trend_returns_the_statsmodels_result(data):
    assert "Covariance Type:                  HAC" in str(depth_trend(data, "p_sink").summary())
    result = depth_trend(data, "p_sink", "mixed")
    for words in ("Mixed Linear Model", "document x depth Var"):
        assert words in str(result.summary())
    assert isinstance(result.notes, tuple)


def test_the_mixed_model_recovers_planted_effects():
    random = np.random.default_rng(0)
    depth = depth_of(20)
    level, slope = random.normal(0, 0.5, (12, 1)), random.normal(0, 0.4, (12, 1))
    by_document = 1.0 + 2.0 * depth + level + slope * (depth - 0.5)
    by_document = by_document + random.normal(0, 0.1, (12, 20))
    result = mixed(by_document)
    assert result.params["depth"] == pytest.approx(2.0, abs=4 * result.bse["depth"])
    assert 0.25 < np.sqrt(result.vcomp[0]) < 0.9
    assert np.sqrt(result.vcomp[1]) > 0.15
    # Balanced: the same line.
    of_mean = line(by_document.mean(axis=0)).params["depth"]
    assert result.params["depth"] == pytest.approx(of_mean, rel=1e-3)


def test_layers_with_fewer_tokens_are_excluded_from_pooled_weights():
    windows = capture(sizes=Sizes(layers=3, window=(128, 40, 128)), seed=2)
    visible, log_weight = pooled_log_weights(windows, [0, 1, 2])
    assert visible.tokens == 128
    logs = np.log(windows["attention_weight"][:, [0, 2], :, 1:].values.astype(float))
    assert_allclose(log_weight, logs.mean(axis=(1, 2)))


def test_one_document_has_estimates_and_no_errors(data):
    alone = fit_pooled(data.isel(document=[0], layer=slice(3)))
    assert np.isfinite(alone["by_layer"].sel(parameter="C")).all()
    assert np.isnan(alone["by_layer_se"]).all()
    assert np.isnan(alone["change_se"]).all()
    assert np.isfinite(alone["change"].sel(parameter=["C", "lam", "rho0", "p_sink"])).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda data: pooled_fit(data, "beta"), "what='beta'.*norms, similarity, weights"),
        (lambda data: pooled_fit(data, form="cubic"), "form='cubic'.*exponential, offset"),
        (lambda data: pooled_fit(data, layer=9), "layer 9 is not in this run"),
        (lambda data: depth_trend(data, "gamma"), rf"'gamma'.*one of {', '.join(TRENDS)}\."),
        (lambda data: depth_trend(data, "C", "cubic"), "model='cubic'.*one of line, mixed"),
        (
            lambda data: depth_trend(data.isel(document=[0]), "C", "mixed"),
            "values in fewer than two documents",
        ),
        (
            lambda data: depth_trend(data.isel(layer=[0, 1]), "C"),
            "in 2 layers, expected at least 3",
        ),
    ],
)
def test_what_cannot_be_pooled_is_refused(data, call, message):
    with pytest.raises(InputError, match=message):
        call(data)


def test_logarithms_of_nonpositive_values_are_nan():
    ones = np.ones((1, 2))
    scaled = Values(estimate=np.array([0.0, np.e]), replicates=ones, by_document=-ones).scaled(True)
    assert np.isnan(scaled.estimate[0])
    assert scaled.estimate[1] == pytest.approx(1)
    assert np.isnan(scaled.by_document).all()
