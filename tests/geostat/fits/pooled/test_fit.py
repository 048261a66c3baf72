"""Heads pooled by layer and over the model: what was planted is found, documents are the unit of
every error, and the libraries' own reports are at hand.
"""

import numpy as np
import pytest
import xarray as xr
from support.synthetic import Sizes, Spread, Truth, capture

import geostat as gs
from geostat.errors import InputError
from geostat.fits.pooled.depth import line, mixed
from geostat.fits.pooled.fit import POOLED, fit_pooled
from geostat.fits.pooled.values import (
    TRENDS,
    Values,
    depth_of,
    pooled_cosines,
    pooled_log_weights,
    pooled_values,
)
from geostat.fits.similarity.fit import layer_cosines
from geostat.statistics.jackknife import jackknife

TRUTH = Truth(beta=0.3, offset=0.1)
LAYERS = 8


@pytest.fixture(scope="module")
def data():
    return capture(TRUTH, Spread(), Sizes(layers=LAYERS, heads=4, kv_heads=2), seed=3)


@pytest.fixture(scope="module")
def pooled(data):
    return fit_pooled(data)


@pytest.fixture(scope="module")
def run(data):
    return xr.DataTree.from_dict({"/capture": data})


def test_pooled_cosines_are_means_over_all_pairs(data):
    windows = capture(sizes=Sizes(layers=2, window=(128, 40)), seed=1)
    one, both = pooled_cosines(data, [2]), pooled_cosines(windows, [0, 1])
    assert one.cosine[:, 0] == pytest.approx(layer_cosines(data, 2).cosine.mean(axis=1))
    parts = [layer_cosines(windows, layer) for layer in (0, 1)]
    at = 10  # both layers have this lag; at 60 only the first does
    expected = sum(part.pairs[at] * part.cosine[..., at].mean(axis=1) for part in parts) / sum(
        part.pairs[at] for part in parts
    )
    assert both.cosine[:, 0, at] == pytest.approx(expected)
    assert both.cosine[:, 0, 60] == pytest.approx(parts[0].cosine[..., 60].mean(axis=1))
    assert both.pairs[at] == parts[0].pairs[at] + parts[1].pairs[at]


def test_what_was_planted_is_found_in_every_layer_and_in_the_model(pooled):
    offset = pooled.sel(gram="offset")
    for name, planted in (("beta", 0.3), ("offset", 0.1)):
        inside = (offset[f"{name}_lower"] <= planted) & (offset[f"{name}_upper"] >= planted)
        assert int(inside.sum()) >= LAYERS - 1
        assert (
            float(offset[f"overall_{name}_lower"])
            <= planted
            <= float(offset[f"overall_{name}_upper"])
        )
        assert float(offset[f"overall_{name}_se"]) < 0.2 * planted
    chosen = [POOLED[k] for k in pooled["chosen"].values]
    assert chosen.count("offset") >= LAYERS - 1
    assert float(pooled["mae_by_lag"].sel(gram="offset").max()) < 0.5 * float(
        pooled["mae_by_lag"].sel(gram="exponential").min()
    )


def test_pooled_parameters_are_those_planted_and_do_not_change_with_depth(pooled):
    planted = {
        "C": 2.0,
        "lam": 0.25,
        "rho0": 0.12,
        "p_sink": 0.4,
        "beta_offset": 0.3,
        "offset": 0.1,
    }
    for name, value in planted.items():
        at = pooled.sel(parameter=name)
        assert float(at["whole"]) == pytest.approx(value, abs=4.5 * float(at["whole_se"])), name
        assert abs(float(at["change"])) <= 4.5 * float(at["change_se"]), (
            name
        )  # t with 7 degrees: 0.3%
        assert int(at["layers_used"]) == LAYERS
    assert float(pooled["by_layer"].sel(parameter="cv_token").mean()) == pytest.approx(
        TRUTH.cv, abs=0.02
    )


def test_a_change_with_depth_is_found(data):
    """Norms grow by a factor of e from the first layer to the last."""
    grown = data.copy(deep=True)
    grown["value_norm"] = grown["value_norm"] * xr.DataArray(
        np.exp(np.linspace(0, 1, LAYERS)), dims="layer"
    )
    at = fit_pooled(grown).sel(parameter="C")
    assert bool(at["logarithm"])
    assert float(at["change_lower"]) <= 1.0 <= float(at["change_upper"])
    assert float(at["change_se"]) < 0.05
    line_ = gs.depth_trend(xr.DataTree.from_dict({"/capture": grown}), "C")
    assert line_.params["depth"] == pytest.approx(float(at["change"]))
    assert line_.bse["depth"] == pytest.approx(float(at["change_se_hac"]))


def test_errors_come_from_leaving_documents_out(data, pooled):
    """Of a mean, the jackknife is the standard error of the mean over documents; documents
    alone, however many heads and layers.
    """
    own = data["sink_cosine"][..., 1:].mean(("kv_head", "position")).values.astype(float)
    se = own.std(axis=0, ddof=1) / np.sqrt(own.shape[0])
    assert pooled["by_layer_se"].sel(parameter="rho0").values == pytest.approx(se, rel=1e-4)
    slopes = np.polyfit(np.linspace(0, 1, LAYERS), own.T, 1)[0]
    at = pooled.sel(parameter="rho0")
    assert float(at["change"]) == pytest.approx(slopes.mean(), rel=1e-4)
    assert float(at["change_se"]) == pytest.approx(
        slopes.std(ddof=1) / np.sqrt(slopes.size), rel=1e-4
    )


def test_a_curve_s_replicates_are_fits_to_the_other_documents(data):
    values = pooled_values(data, "beta_offset")
    less = data.isel(document=[k for k in range(8) if k != 3])
    again = pooled_values(less, "beta_offset")
    assert values.replicates[3] == pytest.approx(again.estimate, rel=1e-6)
    assert jackknife(values.estimate, values.replicates).se.shape == (LAYERS + 1,)


def test_parameters_at_a_bound_are_left_out_of_the_line(data):
    flat = data.copy(deep=True)
    flat["cosine_mean"][:, 0] = 0.0  # β of the exponential at its bound in the first layer
    at = fit_pooled(flat).sel(parameter="beta")
    assert int(at["layers_used"]) == LAYERS - 1
    assert np.isnan(at["by_layer"].values[0])
    assert np.isfinite(float(at["change_se"]))


def test_lmfit_s_own_result_is_one_call_away(run, pooled):
    result = gs.pooled_fit(run, layer=2, form="offset")
    assert "[[Variables]]" in result.fit_report()
    assert result.params["beta"].value == pytest.approx(
        float(pooled["beta"].sel(gram="offset", layer=2)), rel=1e-9
    )
    whole = gs.pooled_fit(run, "similarity", form="offset")
    assert whole.params["offset"].value == pytest.approx(
        float(pooled["overall_offset"].sel(gram="offset")), rel=1e-9
    )
    weights = gs.pooled_fit(run, "weights", layer=1)
    assert weights.params["eta"].value == pytest.approx(
        float(pooled["by_layer"].sel(parameter="eta", layer=1)), rel=1e-3
    )
    norms = gs.pooled_fit(run, "norms")
    assert norms.params["C"].value == pytest.approx(
        float(pooled["whole"].sel(parameter="C")), rel=1e-6
    )


def test_its_errors_are_those_of_documents(data, run, pooled):
    result = gs.pooled_fit(run, layer=2, form="offset")
    for name in ("beta", "offset"):
        assert result.params[name].stderr == pytest.approx(
            float(pooled[f"{name}_se"].sel(gram="offset", layer=2)), rel=1e-6
        )
    assert result.fit_report().startswith("[[Errors]]\n    ± is a jackknife over 8 documents; ")
    norms, weights = gs.pooled_fit(run, "norms"), gs.pooled_fit(run, "weights", layer=1)
    for name in ("C", "lam"):  # there means over heads, here of the mean over heads
        assert norms.params[name].stderr == pytest.approx(
            float(pooled["whole_se"].sel(parameter=name)), rel=0.02
        )
    growth = pooled_values(
        data, "eta"
    )  # whose error in /pooled is that of its logarithm, carried over
    assert weights.params["eta"].stderr == pytest.approx(
        jackknife(growth.estimate, growth.replicates).se[1], rel=1e-3
    )


def test_statsmodels_own_results_are_one_call_away(run):
    assert "Covariance Type:                  HAC" in str(gs.depth_trend(run, "p_sink").summary())
    result = gs.depth_trend(run, "p_sink", "mixed")
    assert "Mixed Linear Model" in str(result.summary())
    assert "document x depth Var" in str(result.summary())
    assert isinstance(result.notes, tuple)


def test_the_mixed_model_finds_what_was_planted():
    random = np.random.default_rng(0)
    depth = depth_of(20)
    each = (
        1.0
        + 2.0 * depth
        + random.normal(0, 0.5, (12, 1))
        + random.normal(0, 0.4, (12, 1)) * (depth - 0.5)
        + random.normal(0, 0.1, (12, 20))
    )
    result = mixed(each)
    assert result.params["depth"] == pytest.approx(2.0, abs=4 * result.bse["depth"])
    assert 0.25 < np.sqrt(result.vcomp[0]) < 0.9
    assert np.sqrt(result.vcomp[1]) > 0.15
    assert result.params["depth"] == pytest.approx(
        line(each.mean(axis=0)).params["depth"], rel=1e-3
    )  # balanced: the same line


def test_layers_that_see_less_are_left_out_of_pooled_weights():
    windows = capture(sizes=Sizes(layers=3, window=(128, 40, 128)), seed=2)
    seen, log_weight = pooled_log_weights(windows, [0, 1, 2])
    assert seen.tokens == 128
    expected = np.log(windows["attention_weight"][:, [0, 2], :, 1:].values.astype(float)).mean(
        axis=(1, 2)
    )
    assert log_weight == pytest.approx(expected)


def test_one_document_has_estimates_and_no_errors(data):
    alone = fit_pooled(data.isel(document=[0]))
    assert np.isfinite(alone["by_layer"].sel(parameter="C").values).all()
    assert np.isnan(alone["by_layer_se"].values).all()
    assert np.isnan(alone["change_se"].values).all()
    assert np.isfinite(alone["change"].sel(parameter=["C", "lam", "rho0", "p_sink"])).all()


def test_bad_questions_are_answered_in_one_line(run):
    with pytest.raises(InputError, match=r"what='beta'.*norms, similarity, weights"):
        gs.pooled_fit(run, "beta")
    with pytest.raises(InputError, match=r"form='cubic'.*exponential, offset"):
        gs.pooled_fit(run, form="cubic")
    with pytest.raises(InputError, match=r"layer 9 is not in this run, expected one of 0 to 7"):
        gs.pooled_fit(run, layer=9)
    with pytest.raises(
        InputError, match=rf"'gamma' is no pooled parameter, expected one of {', '.join(TRENDS)}\."
    ):
        gs.depth_trend(run, "gamma")
    with pytest.raises(InputError, match=r"model='cubic' is unknown, expected one of line, mixed"):
        gs.depth_trend(run, "C", "cubic")
    one = xr.DataTree.from_dict({"/capture": run["capture"].to_dataset().isel(document=[0])})
    with pytest.raises(InputError, match=r"values in fewer than two documents"):
        gs.depth_trend(one, "C", "mixed")
    with pytest.raises(InputError, match=r"in 2 layers, expected 3"):
        gs.depth_trend(
            xr.DataTree.from_dict({"/capture": run["capture"].to_dataset().isel(layer=[0, 1])}), "C"
        )


def test_logarithms_of_what_has_none_are_unknown():
    scaled = Values(
        estimate=np.array([0.0, np.e]), replicates=np.ones((1, 2)), each=-np.ones((1, 2))
    ).scaled(True)
    assert np.isnan(scaled.estimate[0])
    assert scaled.estimate[1] == pytest.approx(1)
    assert np.isnan(scaled.each).all()
