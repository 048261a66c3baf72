import numpy as np
import pytest
from scipy.stats import binom
from support.synthetic import Sizes, Spread, Truth, capture

from geostat.datasets.flags import reasons
from geostat.errors import InputError
from geostat.fits.norms import fit as norms
from geostat.fits.norms.fit import fit_norms
from geostat.statistics.least_squares import LMFIT_KEYWORDS

MANY = Sizes(layers=10, heads=6, kv_heads=6)


def least_expected(number, share=0.93):
    """Fewest successes of `number` at a true rate of `share` that chance allows once in a
    thousand.
    """
    return binom.ppf(1e-3, number, share)


@pytest.mark.parametrize(
    ("name", "truth"), [("C", Truth().C), ("lam", Truth().lam), ("cv_token", Truth().cv)]
)
def test_intervals_cover_the_planted_value(name, truth):
    fit = fit_norms(capture(sizes=MANY, seed=3))
    inside = (fit[f"{name}_lower"] < truth) & (fit[f"{name}_upper"] > truth)
    assert int(inside.sum()) >= least_expected(inside.size)


def test_closed_form_is_the_optimum_lmfit_finds_from_afar():
    norm = capture(seed=4)["value_norm"][0, 0, 0].values.astype(float)
    best = norms.estimate(norm, 1)
    result = norms.MODEL.fit(norm, C=9.0, lam=0.9, position=np.arange(norm.size), **LMFIT_KEYWORDS)
    for name in ("C", "lam"):
        assert result.params[name].value == pytest.approx(float(best[name]), rel=1e-6)


def test_variation_has_no_unit():
    data = capture(seed=5)
    scaled = data.assign(value_norm=data["value_norm"] * 10)
    a, b = fit_norms(data), fit_norms(scaled)
    np.testing.assert_allclose(b["C"], 10 * a["C"], rtol=1e-5)
    for name in ("lam", "cv_token", "cv_token_se", "cv_profile", "cv_profile_upper"):
        np.testing.assert_allclose(b[name], a[name], rtol=1e-5)


def test_spread_within_a_document_and_of_the_mean_profile_are_told_apart():
    fit = fit_norms(capture(sizes=MANY, seed=6))
    # Independent tokens: averaging 8 documents leaves 1/√8 of the spread.
    ratio = fit["cv_profile"] / fit["cv_token"]
    error = float(ratio.std()) / np.sqrt(ratio.size)
    assert abs(float(ratio.mean()) - 1 / np.sqrt(8)) < 4 * error + 0.005


def test_document_statistics_are_standard_deviation_over_mean_and_sink_over_median():
    data = capture(sizes=Sizes(documents=1, heads=1, kv_heads=1, positions=5))
    data["value_norm"][0, 0, 0] = [1.0, 2.0, 4.0, 6.0, 12.0]
    fit = fit_norms(data)
    assert float(fit["cv_document"][0, 0, 0]) == pytest.approx(np.sqrt(14.0) / 6.0)
    assert float(fit["lam_document"][0, 0, 0]) == pytest.approx(1.0 / 5.0)
    assert float(fit["C"][0, 0]) == pytest.approx(6.0)


def test_one_document_has_estimates_but_no_errors():
    fit = fit_norms(capture(sizes=Sizes(documents=1)))
    assert np.isfinite(fit["C"]).all()
    assert np.isnan(fit["C_se"]).all()
    assert (fit["documents"] == 1).all()


def test_a_window_without_the_sink_has_no_lambda_and_says_so():
    data = capture(sizes=Sizes(layers=2, window=(128, 40)))
    fit = fit_norms(data)
    assert list(fit["sink_visible"].values) == [True, False]
    assert np.isfinite(fit["lam"][0]).all()
    assert np.isnan(fit["lam"][1]).all()
    assert np.isnan(fit["lam_document"][:, 1]).all()
    np.testing.assert_allclose(
        fit["C"][1], data["value_norm"][:, 1, :, -40:].mean(("document", "position")), rtol=1e-6
    )


def test_a_head_that_is_not_there_is_not_a_number_and_rests_on_no_document():
    data = capture()
    data["value_norm"][:, 0, 1] = np.nan
    data["value_norm"][0, 0, 0] = np.nan
    fit = fit_norms(data)
    assert np.isnan(
        [float(fit[name][0, 1]) for name in ("C", "lam", "cv_token", "C_se", "rmse")]
    ).all()
    assert list(fit["documents"][0].values) == [7, 0]
    # The missing document must not count towards K.
    others = fit_norms(data.isel(document=slice(1, None)))
    assert float(fit["C_upper"][0, 0]) == pytest.approx(float(others["C_upper"][0, 0]), rel=1e-12)


def test_results_carry_their_names_units_and_float64():
    seen = []
    fit = fit_norms(capture(sizes=Sizes(layers=4)), progress=seen.append)
    assert seen == [0.25, 0.5, 0.75, 1.0]
    for name, variable in fit.data_vars.items():
        assert {"long_name", "units", "symbol", "equation"} <= set(variable.attrs), name
        assert variable.dtype in (np.float64, np.int64, np.bool_), name


def test_missing_variable_is_one_clear_line():
    with pytest.raises(InputError, match=r"no variable 'value_norm'.*geostat capture"):
        fit_norms(capture().drop_vars("value_norm"))
    with pytest.raises(InputError, match=r"value_norm has dims .* expected"):
        fit_norms(capture().transpose("layer", ...))
    with pytest.raises(InputError, match="value_norm is empty"):
        fit_norms(capture().isel(document=slice(0)))


def test_noiseless_head_is_recovered_exactly():
    truth = Truth(cv=0.0)
    fit = fit_norms(capture(truth, Spread(document_norm=0.0)))
    np.testing.assert_allclose(fit["C"], truth.C, rtol=1e-6)
    np.testing.assert_allclose(fit["lam"], truth.lam, rtol=1e-6)
    np.testing.assert_allclose(fit["cv_token"], 0, atol=1e-7)


def test_the_kind_of_the_papers_figure_is_said_where_it_stands():
    assert "paper's 0.02 to 0.03" in fit_norms(capture())["cv_profile"].attrs["note"]


def bad(case):
    """A capture with one thing wrong, and the flags that must say so."""
    data = capture(sizes=Sizes(positions=20), seed=7)
    norm = data["value_norm"].values
    if case == "one_document":
        return data.isel(document=[0]), {case}
    if case == "two_documents":
        return data.isel(document=[0, 1]), {case}
    if case == "constant":
        norm[:, 0, 0, 1:] = 2.0
    elif case == "no_norms":
        norm[:, 0, 0] = np.nan
    elif case == "zero_norms":
        norm[:, 0, 0] = 0.0
        return data, {case, "constant"}
    elif case == "infinite":
        norm[2, 0, 0, 5] = np.inf
        return data, {"holes"}
    elif case == "no_sink":
        norm[:, 0, 0, 0] = np.nan
    elif case == "holes":
        for document in range(8):
            norm[document, 0, 0, 1 + document :: 8] = np.nan
        return data, {case, "few_tokens"}
    return data, {case}


@pytest.mark.parametrize(
    "case",
    [
        "one_document",
        "two_documents",
        "constant",
        "no_norms",
        "zero_norms",
        "infinite",
        "no_sink",
        "holes",
    ],
)
def test_bad_data_is_flagged_and_accounts_for_every_missing_number(case):
    data, expected = bad(case)
    fit = fit_norms(data)
    assert expected <= set(reasons(fit["flags"][0, 0]))
    assert_told(fit)
    if case not in ("one_document", "two_documents"):
        untouched, clean = fit.isel(kv_head=1), fit_norms(bad("none")[0]).isel(kv_head=1)
        for name in ("C", "trend_se", "share_position", "compressed_share", "flags"):
            np.testing.assert_array_equal(untouched[name], clean[name])


@pytest.mark.parametrize("positions", [1, 2, 3, 4, 5])
def test_short_documents_are_flagged(positions):
    fit = fit_norms(
        capture(sizes=Sizes(positions=128))
        .isel(position=slice(0, positions))
        .assign_coords(tokens=("layer", [positions]))
    )
    assert_told(fit)
    said = set(reasons(fit["flags"][0, 0]))
    assert ("no_norms" in said) == (positions == 1)
    assert ("few_tokens" in said) == (positions in (2, 3))
    assert np.isfinite(fit["trend"]).all() == (positions > 3)


def assert_told(fit):
    """Whatever is not a number has a flag of its head."""
    for name, variable in fit.data_vars.items():
        if not {"layer", "kv_head"} <= set(variable.dims) or "compressed_token" in variable.dims:
            continue
        missing = ~np.isfinite(variable)
        assert not (missing & (fit["flags"] == 0)).any(), name
