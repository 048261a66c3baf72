import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy import stats
from scipy.stats import binom
from support.synthetic import Sizes, Spread, Truth, assert_covered, capture

from geostat.datasets.variable import reasons
from geostat.errors import InputError
from geostat.fits.similarity import forms
from geostat.fits.similarity.fit import fit_similarity, layer_cosines
from geostat.fits.similarity.forms import FORM, FORMS, by_lag, solve

MANY = Sizes(layers=4, heads=6, kv_heads=6)
SMALL = Sizes(documents=3, kv_heads=1, heads=1, positions=40)
LAG = np.arange(1, 39.0)
PAIRS = 39 - LAG
WITH_RATE = ["exponential", "offset", "power"]


def small(seed):
    """Return a capture of SMALL and its mean cosines, (document, lag)."""
    data = capture(sizes=SMALL, seed=seed)
    return data, data["cosine_mean"][:, 0, 0].values.astype(float)


@pytest.fixture(scope="module")
def offset_heads():
    return fit_similarity(capture(sizes=MANY, seed=3))


def test_intervals_cover_the_planted_value(offset_heads):
    fit = offset_heads.sel(gram="offset")
    for name in ("beta", "offset", "rho0"):
        assert_covered(fit, name, getattr(Truth(), name), share=0.92)
    for name in ("beta", "offset"):
        # lmfit's errors, which treat lags as independent, are several times too small here.
        assert float((fit[f"{name}_se_lags"] / fit[f"{name}_se"]).median()) < 0.5
    spread = fit["rho0_spread"]
    error = float(spread.std()) / np.sqrt(spread.size)
    assert float(spread.mean()) == pytest.approx(Spread().sink, abs=4 * error)


def test_the_offset_form_is_preferred_only_where_planted(offset_heads):
    mae = offset_heads["mae_by_lag"]
    assert offset_heads["offset_preferred"].all()
    assert (mae.sel(gram="offset") < mae.sel(gram="exponential")).all()
    plain = fit_similarity(capture(Truth(offset=0.0), sizes=MANY, seed=4))
    # Held-out loss with the one-standard-error rule keeps a true exponential in more than 9 of 10
    # heads.
    assert float(plain["offset_preferred"].mean()) < 0.15
    assert_covered(plain.sel(gram="exponential"), "beta", Truth().beta, share=0.92)
    for fit, form in ((offset_heads, "offset"), (plain, "exponential")):
        chosen = fit["chosen"] == FORMS.index(form)
        assert int(chosen.sum()) >= binom.ppf(1e-3, chosen.size, 0.9), form
        assert fit["within_one_se"].sel(gram=form).values[chosen.values].all()


def test_held_out_loss_and_excess_equal_those_of_lmfit_refits():
    data, cosine = small(5)
    fit = fit_similarity(data).squeeze()
    loss = {}
    for form in ("exponential", "power", "constant"):
        start = dict.fromkeys(FORM[form].parameters, 0.2)
        keywords = {"lag": LAG, "weights": np.sqrt(PAIRS), **start, **forms.lmfit_keywords(form)}
        others = [np.delete(cosine, k, axis=0).mean(axis=0) for k in range(3)]
        models = np.stack([forms.MODEL[form].fit(mean, **keywords).best_fit for mean in others])
        loss[form] = (PAIRS * (cosine - models) ** 2).sum(axis=1) / PAIRS.sum()
        held_out, se = (fit[name].sel(gram=form) for name in ("loss_held_out", "loss_held_out_se"))
        assert_allclose(held_out, loss[form].mean(), rtol=1e-6)
        assert_allclose(se, loss[form].std(ddof=1) / np.sqrt(3), rtol=1e-5)
    excess = fit["loss_excess"]
    gap = (loss["power"] - loss["constant"]).mean()
    assert_allclose(excess.sel(gram="power") - excess.sel(gram="constant"), gap, rtol=1e-6)
    power = fit.sel(gram="power")
    test = stats.ttest_rel(loss["constant"], loss["power"], alternative="greater")
    assert_allclose(power["gain_over_constant"], -gap, rtol=1e-6)
    assert_allclose(power["gain_over_constant"] / power["gain_over_constant_se"], test.statistic)
    assert_allclose(power["gain_over_constant_p"], test.pvalue)
    assert excess.min() == fit["loss_excess_se"].values[excess.values.argmin()] == 0.0


def test_error_by_lag_weights_lags_equally_and_negative_share_weights_pairs():
    data = capture(sizes=Sizes(documents=2, kv_heads=1, heads=1, positions=6), seed=6)
    data["cosine_negative_fraction"][:, 0, 0] = [[0.0, 0.5, 1.0, 1.0], [0.2, 0.5, 0.0, 1.0]]
    fit = fit_similarity(data).squeeze()
    mean = data["cosine_mean"][:, 0, 0].values.astype(float).mean(axis=0)
    exponential = fit.sel(gram="exponential")
    errors = np.abs(mean - np.exp(-float(exponential["beta"]) * np.arange(1, 5)))
    assert_allclose(exponential["mae_by_lag"], errors.mean(), rtol=1e-6)
    # Five content tokens: 4, 3, 2, 1 pairs at lags 1 to 4.
    by_document = np.array([(0.5 * 3 + 1.0 * 2 + 1.0) / 10, (0.2 * 4 + 0.5 * 3 + 1.0) / 10])
    assert_allclose(fit["negative_fraction"], by_document.mean(), rtol=1e-6)
    assert_allclose(fit["negative_fraction_se"], by_document.std(ddof=1) / np.sqrt(2), rtol=1e-6)


def test_bic_and_aicc_equal_the_textbook_formulas():
    fit = fit_similarity(small(5)[0]).squeeze()
    n = LAG.size
    for form in FORMS:
        selected, p = fit.sel(gram=form), FORM[form].number
        base = n * np.log(selected["rmse"] ** 2 * PAIRS.sum() / n)
        k = p + 1  # the variance counts
        assert_allclose(selected["bic"], base + p * np.log(n))
        assert_allclose(selected["aicc"], base + 2 * k + 2 * k * (k + 1) / (n - k - 1))
        assert int(selected["parameters"]) == p


def test_standard_error_of_mae_is_the_jackknife_of_refits():
    data, cosine = small(7)
    without = np.stack([np.delete(cosine, k, axis=0).mean(axis=0) for k in range(3)])
    values = {n: v[:, None] for n, v in solve("offset", LAG, without, PAIRS).values.items()}
    mae = np.abs(without - by_lag("offset", LAG, **values)).mean(axis=1)
    expected = np.sqrt(2 / 3 * ((mae - mae.mean()) ** 2).sum())
    fit = fit_similarity(data).sel(gram="offset").squeeze()
    assert_allclose(fit["mae_by_lag_se"], expected, rtol=1e-6)


def test_infeasible_grams_are_flagged():
    fit = fit_similarity(capture(Truth(rho0=0.6)))
    exponential, offset = (fit.sel(gram=form) for form in ("exponential", "offset"))
    assert not exponential["feasible"].any()
    assert (abs(fit["rho0"]) > exponential["rho0_edge"]).all()
    assert (offset["rho0_edge"] > exponential["rho0_edge"]).all()
    negative = fit_similarity(capture(Truth(offset=-0.2))).sel(gram="offset")
    assert not negative["feasible"].any()
    assert np.isnan(negative["rho0_edge"]).all()
    assert "infeasible_content" in reasons(negative["flags"][0, 0])


@pytest.mark.parametrize(("cosine", "beta"), [(1.0, 0.0), (0.0, 20.0), (-0.3, 20.0)])
def test_parameters_at_a_bound_are_flagged_and_have_no_error(cosine, beta):
    data = capture()
    data["cosine_mean"][:] = cosine
    fit = fit_similarity(data)
    rates = fit.sel(gram=WITH_RATE)
    assert (fit["beta"].sel(gram="exponential") == beta).all()
    assert rates["beta_at_bound"].all()
    assert np.isnan(rates["beta_se"]).all()
    assert np.isnan(rates["beta_se_lags"]).all()
    assert fit["converged"].all()
    assert np.isnan(fit["r2"]).all()
    assert reasons(fit["flags"].sel(gram="exponential")[0, 0]) == ["at_bound"]
    assert reasons(fit["head_flags"][0, 0]) == ["steady_cosine", "no_dimension"]
    assert (fit["chosen"] >= 0).all()
    if cosine < 1:
        assert_allclose(fit["offset"].sel(gram=["offset", "constant"]), cosine, atol=1e-6)
    if cosine == -0.3:
        assert (fit["chosen"] == FORMS.index("constant")).all()


def test_one_document_has_estimates_but_no_errors():
    fit = fit_similarity(capture(sizes=Sizes(documents=1)))
    for form in FORMS:
        for name in FORM[form].parameters:
            assert np.isfinite(fit[name].sel(gram=form)).all()
    with_errors = ("beta", "mae_by_lag", "rho0", "drift_slope", "sink_slope", "negative_fraction")
    for name in (*(f"{name}_se" for name in with_errors), "loss_held_out"):
        assert np.isnan(fit[name]).all(), name
    assert np.isfinite(fit["beta_se_lags"].sel(gram="offset")).all()
    assert fit["offset_preferred"].all()
    assert (fit["chosen"] == fit["bic"].argmin("gram")).all()
    for flags in (fit["flags"].sel(gram="offset"), fit["head_flags"]):
        assert "one_document" in reasons(flags[0, 0])


def test_a_window_without_the_sink_has_no_rho0_and_uses_visible_pairs():
    data = capture(sizes=Sizes(window=(40,)), seed=9)
    fit = fit_similarity(data).isel(layer=0)
    for name in ("rho0", "sink_slope", "rho0_spread", "rho0_edge"):
        assert np.isnan(fit[name]).all(), name
    assert reasons(fit["head_flags"][0]) == ["no_sink_visible", "no_dimension"]
    assert fit["feasible"].sel(gram="offset").all()
    np.testing.assert_array_equal(layer_cosines(data, 0).pairs, 40 - np.arange(1, 40))
    data["cosine_mean"][:, 0, :, 39:] = 0.77  # outside the window
    xr.testing.assert_identical(fit, fit_similarity(data).isel(layer=0))


def test_the_fit_of_a_layer_does_not_depend_on_other_layers():
    data = capture(sizes=Sizes(layers=3), seed=9)
    together = fit_similarity(data)
    for layer in range(3):
        alone = fit_similarity(data.isel(layer=[layer]))
        xr.testing.assert_allclose(together.isel(layer=[layer]), alone, rtol=1e-9)


def test_layers_that_see_different_numbers_of_tokens_are_refused():
    data = capture(sizes=Sizes(layers=2, kv_heads=1, heads=1, positions=40), seed=0)
    data["tokens"] = ("layer", [40, 24])
    with pytest.raises(InputError, match="layers see 24 or 40 tokens, expected one number"):
        fit_similarity(data)


def test_five_tokens_and_a_missing_head_are_handled():
    data = capture(sizes=Sizes(positions=5))
    for name in ("cosine_mean", "sink_cosine", "cosine_block_mean", "cosine_negative_fraction"):
        data[name][:, 0, 1] = np.nan
    data["cosine_histogram"][:, 0, 1] = 0
    fit = fit_similarity(data).isel(layer=0)
    assert np.isfinite(fit["beta"].sel(gram=WITH_RATE, kv_head=0)).all()
    assert list(fit["documents"].values) == [8, 0]
    missing = fit.isel(kv_head=1)
    for name in (
        *("beta", "mae_by_lag", "mae_by_pair", "r2", "bic", "loss_held_out", "loss_excess"),
        *("rho0", "negative_fraction", "drift_slope", "drift_rms", "sink_slope", "rho0_spread"),
        "chance_by_lag",
    ):
        assert np.isnan(missing[name]).all(), name
    assert not missing["converged"].any()
    assert not missing["feasible"].any()
    assert int(missing["chosen"]) == -1
    assert reasons(missing["flags"].sel(gram="power")) == ["no_data"]
    expected = ["no_data", "no_sink_cosine", "no_drift", "no_dimension"]
    assert reasons(missing["head_flags"]) == expected


@pytest.mark.parametrize(("positions", "why"), [(2, "no_data"), (3, "too_few_lags")])
def test_too_few_tokens_for_any_pair_or_decay_are_flagged(positions, why):
    fit = fit_similarity(capture(sizes=Sizes(positions=positions)))
    assert np.isnan(fit["mae_by_lag"].sel(gram="offset")).all()
    assert reasons(fit["flags"].sel(gram="offset")[0, 0]) == [why]
    assert ((fit["chosen"] == -1) == (positions == 2)).all()


def test_chance_levels_need_the_dimension_and_decrease_with_documents():
    data = capture(sizes=Sizes(positions=20))
    assert np.isnan(fit_similarity(data)["chance_by_pair"])
    fit = fit_similarity(data.assign_attrs(dimension=64))
    assert_allclose(fit["chance_by_pair"], np.sqrt(2 / (np.pi * 64)), rtol=0.005)
    pairs = 19 - np.arange(1, 19.0)
    assert_allclose(fit["chance_by_lag"], np.sqrt(2 / (np.pi * 64 * 8 * pairs)).mean())
    assert_allclose(fit["rho0_spread_floor"], (1 - fit["rho0"] ** 2) / 8)


def test_absent_parameters_are_neutral(offset_heads):
    assert tuple(offset_heads["gram"].values) == FORMS
    assert (offset_heads["offset"].sel(gram="exponential") == 0).all()
    assert (offset_heads["stretch"].sel(gram="power") == 1).all()
    assert np.isnan(offset_heads["beta"].sel(gram="constant")).all()


@pytest.mark.parametrize(
    ("spoiled", "why"),
    [
        ({"covar": np.array([[1.0, 1.0 - 1e-13], [1.0 - 1e-13, 1.0]])}, "singular"),
        ({"covar": None}, "singular"),
        ({"covar": np.full((2, 2), np.nan)}, "singular"),
        ({"success": False}, "not_converged"),
    ],
)
def test_a_failed_or_singular_lmfit_fit_has_no_error(monkeypatch, spoiled, why):
    def spoiled_row(form, *rest):
        result = forms.fit_row(form, *rest)
        if form == "offset":
            vars(result).update(spoiled)
        return result

    monkeypatch.setattr("geostat.fits.similarity.one_form.fit_row", spoiled_row)
    fit = fit_similarity(capture(sizes=SMALL)).squeeze()
    offset, exponential = (fit.sel(gram=form) for form in ("offset", "exponential"))
    for name in ("beta_se", "beta_lower", "offset_se", "offset_upper"):
        assert np.isnan(offset[name]), name
    assert reasons(offset["flags"]) == [why]
    assert np.isfinite(offset["beta"])
    assert np.isfinite(exponential["beta_se"])
    assert reasons(exponential["flags"]) == []


@pytest.mark.parametrize("lags", [1, 2, 3])
def test_a_form_with_as_many_parameters_as_lags_has_no_errors_and_with_more_no_fit(lags):
    data, _ = small(5)
    data["cosine_mean"][..., lags:] = np.nan
    result = fit_similarity(data).squeeze()
    for form in FORMS:
        fit, number = result.sel(gram=form), FORM[form].number
        flags = reasons(fit["flags"])
        assert ("too_few_lags" in flags) == (number > lags)
        assert ("saturated" in flags) == (number == lags)
        for name in ("mae_by_lag", "mae_by_lag_se", "rmse", "bic"):
            assert np.isnan(fit[name]) == (number >= lags), (form, name)
        for name in ("loss_held_out", FORM[form].parameters[0]):
            assert np.isnan(fit[name]) == (number > lags), (form, name)
        assert fit["converged"] == (number <= lags), form


def test_failed_replicates_are_flagged():
    data, _ = small(5)
    data["cosine_mean"][0] = -1.0
    data["cosine_mean"][1:] = 0.02
    fit = fit_similarity(data).sel(gram="exponential").squeeze()
    assert "at_bound" in reasons(fit["flags"])
    assert "replicates" not in reasons(fit["flags"])  # the estimate is at the bound too
    data["cosine_mean"][:2] = 0.9
    data["cosine_mean"][2] = -1.0
    data["cosine_mean"][..., 1:] = np.nan
    fit = fit_similarity(data).sel(gram="exponential").squeeze()
    assert reasons(fit["flags"]) == ["replicates", "saturated"]
