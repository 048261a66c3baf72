import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.synthetic import Sizes, Truth, assert_covered, capture

from geostat.datasets.variable import reasons
from geostat.fits.norms.fit import fit_norms

MANY = Sizes(layers=5, heads=6, kv_heads=6)
SHORT = Sizes(positions=20)


def test_intervals_cover_the_planted_value():
    fit = fit_norms(capture(sizes=MANY, seed=3))
    for name, planted in (("C", Truth().C), ("lam", Truth().lam), ("cv_token", Truth().cv)):
        assert_covered(fit, name, planted, share=0.93)


def test_coefficients_of_variation_are_scale_invariant():
    data = capture(seed=5)
    fit, scaled = fit_norms(data), fit_norms(data.assign(value_norm=data["value_norm"] * 10))
    assert_allclose(scaled["C"], 10 * fit["C"], rtol=1e-5)
    for name in ("lam", "cv_token", "cv_token_se", "cv_profile", "cv_profile_upper"):
        assert_allclose(scaled[name], fit[name], rtol=1e-5)


def test_cv_of_the_mean_profile_is_smaller_than_cv_per_token_by_root_k():
    fit = fit_norms(capture(sizes=MANY, seed=6))
    # Independent tokens: averaging over 8 documents divides the spread by √8.
    ratio = fit["cv_profile"] / fit["cv_token"]
    error = float(ratio.std()) / np.sqrt(ratio.size)
    assert abs(float(ratio.mean()) - 1 / np.sqrt(8)) < 4 * error + 0.005
    assert "paper's 0.02 to 0.03" in fit["cv_profile"].attrs["note"]


def test_document_statistics_are_standard_deviation_over_mean_and_sink_over_median():
    data = capture(sizes=Sizes(documents=1, heads=1, kv_heads=1, positions=5))
    data["value_norm"][0, 0, 0] = [1.0, 2.0, 4.0, 6.0, 12.0]
    fit = fit_norms(data)
    assert_allclose(fit["cv_document"], np.sqrt(14.0) / 6.0)
    assert_allclose(fit["lam_document"], 1.0 / 5.0)
    assert_allclose(fit["C"], 6.0)


def test_a_window_without_the_sink_has_no_lambda():
    data = capture(sizes=Sizes(layers=2, window=(128, 40)))
    fit = fit_norms(data)
    assert list(fit["sink_visible"].values) == [True, False]
    assert np.isfinite(fit["lam"][0]).all()
    assert np.isnan(fit["lam"][1]).all()
    assert np.isnan(fit["lam_document"][:, 1]).all()
    visible = data["value_norm"][:, 1, :, -40:]
    assert_allclose(fit["C"][1], visible.mean(("document", "position")), rtol=1e-6)


def test_a_document_without_the_head_does_not_count():
    data = capture()
    data["value_norm"][:, 0, 1] = data["value_norm"][0, 0, 0] = np.nan
    fit, others = fit_norms(data), fit_norms(data.isel(document=slice(1, None)))
    assert list(fit["documents"][0].values) == [7, 0]
    assert_allclose(fit["C_upper"][0, 0], others["C_upper"][0, 0], rtol=1e-12)
    for name in ("C", "lam", "cv_token", "C_se", "rmse"):
        assert np.isnan(fit[name][0, 1]), name


def assert_nan_flagged(fit):
    for name, variable in fit.data_vars.items():
        if {"layer", "kv_head"} <= set(variable.dims) and "compressed_token" not in variable.dims:
            assert not (~np.isfinite(variable) & (fit["flags"] == 0)).any(), name


CONTENT = np.arange(19)


@pytest.mark.parametrize(
    ("spoiled", "value", "expected"),
    [
        pytest.param(np.s_[:, 0, 0, 1:], 2.0, {"constant"}, id="constant"),
        pytest.param(np.s_[:, 0, 0], np.nan, {"no_norms"}, id="no norms"),
        pytest.param(np.s_[:, 0, 0], 0.0, {"zero_norms", "constant"}, id="zero norms"),
        pytest.param(np.s_[2, 0, 0, 5], np.inf, {"holes"}, id="infinite"),
        pytest.param(np.s_[:, 0, 0, 0], np.nan, {"no_sink"}, id="no sink"),
        pytest.param(
            np.s_[CONTENT % 8, 0, 0, 1 + CONTENT], np.nan, {"holes", "few_tokens"}, id="holes"
        ),
    ],
)
def test_flags_explain_every_nan_of_a_spoiled_head(spoiled, value, expected):
    data = capture(sizes=SHORT, seed=7)
    clean = fit_norms(data)
    data["value_norm"].values[spoiled] = value
    fit = fit_norms(data)
    assert expected <= set(reasons(fit["flags"][0, 0]))
    assert_nan_flagged(fit)
    for name in ("C", "trend_se", "share_position", "compressed_share", "flags"):
        assert_array_equal(fit[name][:, 1], clean[name][:, 1])


@pytest.mark.parametrize(("documents", "flag"), [(1, "one_document"), (2, "two_documents")])
def test_few_documents_are_flagged_and_one_gives_no_errors(documents, flag):
    fit = fit_norms(capture(sizes=SHORT, seed=7).isel(document=slice(documents)))
    assert flag in reasons(fit["flags"][0, 0])
    assert_nan_flagged(fit)
    assert np.isfinite(fit["C"]).all()
    assert np.isnan(fit["C_se"]).all() == (documents == 1)
    assert (fit["documents"] == documents).all()


@pytest.mark.parametrize("positions", [1, 2, 3, 4, 5])
def test_short_documents_are_flagged(positions):
    data = capture().isel(position=slice(0, positions))
    fit = fit_norms(data.assign_coords(tokens=("layer", [positions])))
    assert_nan_flagged(fit)
    flags = set(reasons(fit["flags"][0, 0]))
    assert ("no_norms" in flags) == (positions == 1)
    assert ("few_tokens" in flags) == (positions in (2, 3))
    assert np.isfinite(fit["trend"]).all() == (positions > 3)
