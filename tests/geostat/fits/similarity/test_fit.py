import numpy as np
import pytest
import xarray as xr
from scipy.stats import binom
from support.synthetic import Sizes, Spread, Truth, capture

from geostat.datasets.flags import reasons
from geostat.fits.similarity.fit import fit_similarity
from geostat.fits.similarity.forms import FORM, FORMS, PARAMETERS, by_lag, fit_row, keywords
from geostat.fits.similarity.solver import solve

MANY = Sizes(layers=10, heads=6, kv_heads=6)
SMALL = Sizes(documents=3, kv_heads=1, heads=1, positions=40)


@pytest.fixture(scope="module")
def offset_heads():
    return fit_similarity(capture(sizes=MANY, seed=3))


def least_expected(number, share=0.92):
    """Fewest successes of `number` at a true rate of `share` that chance allows once in a
    thousand.
    """
    return binom.ppf(1e-3, number, share)


def covered(fit, name, truth):
    return int(((fit[f"{name}_lower"] < truth) & (fit[f"{name}_upper"] > truth)).sum())


def test_fewer_lags_than_parameters_leave_a_form_unfitted():
    data = capture(sizes=Sizes(layers=2, window=(128, 3), positions=128), seed=9)
    data["cosine_mean"][:, 1, :, 1:] = np.nan  # one lag is left
    found = fit_similarity(data).isel(layer=1)
    assert np.isfinite(found["beta"].sel(gram="exponential")).all()
    for name in ("beta", "offset", "mae_by_lag", "bic", "aicc", "loss_left_out"):
        assert np.isnan(found[name].sel(gram="offset")).all(), name
    assert not found["converged"].sel(gram="offset").any()
    assert "too_few_lags" in reasons(found["flags"].sel(gram="offset")[0])
    assert "too_few_lags" not in reasons(found["flags"].sel(gram="exponential")[0])


@pytest.mark.parametrize(("name", "truth"), [("beta", Truth().beta), ("offset", Truth().offset)])
def test_intervals_of_the_offset_form_cover_the_planted_value(offset_heads, name, truth):
    fit = offset_heads.sel(gram="offset")
    assert covered(fit, name, truth) >= least_expected(fit[name].size)
    # lmfit's own, lags taken as independent, are several times too short here.
    assert float((fit[f"{name}_se_lags"] / fit[f"{name}_se"]).median()) < 0.5


def test_intervals_of_rho0_cover_the_planted_value(offset_heads):
    assert covered(offset_heads, "rho0", Truth().rho0) >= least_expected(offset_heads["rho0"].size)
    spread = offset_heads["rho0_spread"]
    assert float(spread.mean()) == pytest.approx(
        Spread().sink, abs=4 * float(spread.std()) / np.sqrt(spread.size)
    )


def test_offset_is_preferred_where_there_is_one_and_only_there(offset_heads):
    assert offset_heads["offset_preferred"].all()
    assert (
        offset_heads["mae_by_lag"].sel(gram="offset")
        < offset_heads["mae_by_lag"].sel(gram="exponential")
    ).all()
    plain = fit_similarity(capture(Truth(offset=0.0), sizes=MANY, seed=4))
    # Left-out loss with the one-standard-error rule keeps a true exponential in more than 9 of 10
    # heads.
    assert float(plain["offset_preferred"].mean()) < 0.15
    assert covered(plain.sel(gram="exponential"), "beta", Truth().beta) >= least_expected(60)
    for fit, form in ((offset_heads, "offset"), (plain, "exponential")):
        chosen = fit["chosen"] == FORMS.index(form)
        assert int(chosen.sum()) >= least_expected(60, 0.9), form
        assert fit["within_one_se"].sel(gram=form).values[chosen.values].all()


def test_left_out_loss_and_excess_are_those_of_refits_by_lmfit():
    data = capture(sizes=SMALL, seed=5)
    fit = fit_similarity(data)
    lag, pairs, cosine = (
        np.arange(1, 39.0),
        39 - np.arange(1, 39.0),
        data["cosine_mean"][:, 0, 0].values.astype(float),
    )
    loss = {"exponential": [], "power": [], "constant": []}
    for k in range(3):
        others = np.delete(cosine, k, axis=0).mean(axis=0)
        for form, each in loss.items():
            start = {name: 0.2 for name in FORM[form].parameters}
            result = FORM[form].model.fit(
                others, lag=lag, weights=np.sqrt(pairs), **start, **keywords(form)
            )
            each.append((pairs * (cosine[k] - result.best_fit) ** 2).sum() / pairs.sum())
    for form, each in loss.items():
        assert float(fit["loss_left_out"].sel(gram=form).squeeze()) == pytest.approx(
            np.mean(each), rel=1e-6
        )
        assert float(fit["loss_left_out_se"].sel(gram=form).squeeze()) == pytest.approx(
            np.std(each, ddof=1) / np.sqrt(3), rel=1e-5
        )
    excess, error = (fit[name].squeeze() for name in ("loss_excess", "loss_excess_se"))
    gap = np.subtract(loss["power"], loss["constant"])
    assert float(excess.sel(gram="power") - excess.sel(gram="constant")) == pytest.approx(
        gap.mean(), rel=1e-6
    )
    assert float(excess.min()) == 0.0
    assert float(error.values[excess.values.argmin()]) == 0.0


def test_error_by_lag_weighs_lags_alike_and_negative_share_weighs_pairs():
    data = capture(sizes=Sizes(documents=2, kv_heads=1, heads=1, positions=6), seed=6)
    data["cosine_negative_fraction"][:, 0, 0] = [[0.0, 0.5, 1.0, 1.0], [0.2, 0.5, 0.0, 1.0]]
    fit = fit_similarity(data)
    mean = data["cosine_mean"][:, 0, 0].values.astype(float).mean(axis=0)
    beta = float(fit["beta"].sel(gram="exponential").squeeze())
    misses = np.abs(mean - np.exp(-beta * np.arange(1, 5)))
    assert float(fit["mae_by_lag"].sel(gram="exponential").squeeze()) == pytest.approx(
        misses.mean()
    )
    # Five content tokens: 4, 3, 2, 1 pairs at lags 1 to 4.
    assert float(fit["negative_fraction"].squeeze()) == pytest.approx(
        (0.1 * 4 + 0.5 * 3 + 0.5 * 2 + 1.0) / 10
    )
    each = np.array([(0.5 * 3 + 1.0 * 2 + 1.0) / 10, (0.2 * 4 + 0.5 * 3 + 1.0) / 10])
    assert float(fit["negative_fraction_se"].squeeze()) == pytest.approx(
        each.std(ddof=1) / np.sqrt(2)
    )


def test_criteria_are_their_textbook_formulas():
    fit = fit_similarity(capture(sizes=SMALL, seed=5)).squeeze()
    n, total = 38, (39 - np.arange(1, 39.0)).sum()
    for form in FORMS:
        at, p = fit.sel(gram=form), FORM[form].number
        squares = float(at["rmse"]) ** 2 * total
        assert float(at["bic"]) == pytest.approx(n * np.log(squares / n) + p * np.log(n))
        k = p + 1  # the variance counts
        assert float(at["aicc"]) == pytest.approx(
            n * np.log(squares / n) + 2 * k + 2 * k * (k + 1) / (n - k - 1)
        )
        assert int(at["parameters"]) == p


def test_error_of_mae_is_the_jackknife_of_refits():
    data = capture(sizes=SMALL, seed=7)
    fit = fit_similarity(data).sel(gram="offset").squeeze()
    lag, pairs, cosine = (
        np.arange(1, 39.0),
        39 - np.arange(1, 39.0),
        data["cosine_mean"][:, 0, 0].values.astype(float),
    )
    without = []
    for k in range(3):
        others = np.delete(cosine, k, axis=0).mean(axis=0)
        own = solve("offset", lag, others[None], pairs)
        without.append(
            np.abs(others - by_lag("offset", lag, own.values["beta"], own.values["offset"])).mean()
        )
    expected = np.sqrt(2 / 3 * ((without - np.mean(without)) ** 2).sum())
    assert float(fit["mae_by_lag_se"]) == pytest.approx(expected, rel=1e-6)


def test_infeasible_grams_are_told():
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
    assert (fit["beta"].sel(gram="exponential") == beta).all()
    assert fit["beta_at_bound"].sel(gram=["exponential", "offset", "power"]).all()
    assert fit["converged"].all()
    assert np.isnan(fit["beta_se"].sel(gram=["exponential", "offset", "power"])).all()
    assert np.isnan(fit["beta_se_lags"].sel(gram=["exponential", "offset", "power"])).all()
    assert reasons(fit["flags"].sel(gram="exponential")[0, 0]) == ["at_bound"]
    assert reasons(fit["head_flags"][0, 0]) == ["steady_cosine", "no_dimension"]
    assert np.isnan(fit["r2"]).all()
    if cosine < 1:
        np.testing.assert_allclose(
            fit["offset"].sel(gram=["offset", "constant"]), cosine, atol=1e-6
        )
    assert (fit["chosen"] >= 0).all()
    if cosine == -0.3:
        assert (fit["chosen"] == FORMS.index("constant")).all()


def test_one_document_has_estimates_but_no_errors():
    fit = fit_similarity(capture(sizes=Sizes(documents=1)))
    for form in FORMS:
        for name in FORM[form].parameters:
            assert np.isfinite(fit[name].sel(gram=form)).all()
    for name in (
        "beta_se",
        "mae_by_lag_se",
        "rho0_se",
        "drift_slope_se",
        "sink_slope_se",
        "negative_fraction_se",
        "loss_left_out",
    ):
        assert np.isnan(fit[name]).all(), name
    assert np.isfinite(fit["beta_se_lags"].sel(gram="offset")).all()
    assert fit["offset_preferred"].all()
    assert (fit["chosen"] == fit["bic"].argmin("gram")).all()
    assert "one_document" in reasons(fit["flags"].sel(gram="offset")[0, 0])
    assert "one_document" in reasons(fit["head_flags"][0, 0])


def test_a_window_without_the_sink_has_no_rho0_and_counts_its_own_pairs():
    data = capture(sizes=Sizes(layers=2, window=(128, 40), positions=128), seed=9)
    data["cosine_mean"][:, 1, :, 39:] = 0.77  # beyond the window: must not be read
    fit = fit_similarity(data)
    for name in ("rho0", "sink_slope", "rho0_spread"):
        assert np.isnan(fit[name][1]).all()
    assert reasons(fit["head_flags"][1, 0]) == ["no_sink_visible", "no_dimension"]
    assert np.isnan(fit["rho0_edge"][:, 1]).all()
    assert fit["feasible"].sel(gram="offset")[1].all()
    pairs = 40 - np.arange(1, 40.0)
    cosine = data["cosine_mean"][:, 1, 0, :39].values.astype(float).mean(axis=0)[None]
    own = solve("offset", np.arange(1, 40.0), cosine, pairs)
    assert float(fit["beta"].sel(gram="offset")[1, 0]) == pytest.approx(
        own.values["beta"][0], rel=1e-9
    )
    model = by_lag("offset", np.arange(1, 40.0), own.values["beta"][0], own.values["offset"][0])
    assert float(fit["mae_by_lag"].sel(gram="offset")[1, 0]) == pytest.approx(
        np.abs(cosine[0] - model).mean(), rel=1e-9
    )


def test_layers_are_fitted_alike_whatever_layers_stand_beside_them():
    data = capture(sizes=Sizes(layers=3, window=(128, 40, 128), positions=128), seed=9)
    together = fit_similarity(data)
    for layer in range(3):
        alone = fit_similarity(data.isel(layer=[layer]))
        xr.testing.assert_allclose(together.isel(layer=[layer]), alone, rtol=1e-9)


def test_five_tokens_and_a_missing_head_do_not_break_it():
    data = capture(sizes=Sizes(positions=5))
    for name in ("cosine_mean", "sink_cosine", "cosine_block_mean", "cosine_negative_fraction"):
        data[name][:, 0, 1] = np.nan
    data["cosine_histogram"][:, 0, 1] = 0
    fit = fit_similarity(data)
    assert np.isfinite(fit["beta"].sel(gram=["exponential", "offset", "power"])[:, 0, 0]).all()
    for name in ("beta", "mae_by_lag", "mae_by_pair", "r2", "bic", "loss_left_out", "loss_excess"):
        assert np.isnan(fit[name][:, 0, 1]).all(), name
    for name in (
        "rho0",
        "negative_fraction",
        "drift_slope",
        "drift_rms",
        "sink_slope",
        "rho0_spread",
        "chance_by_lag",
    ):
        assert np.isnan(fit[name][0, 1]), name
    assert not fit["converged"][:, 0, 1].any()
    assert not fit["feasible"][:, 0, 1].any()
    assert list(fit["documents"][0].values) == [8, 0]
    assert int(fit["chosen"][0, 1]) == -1
    assert reasons(fit["flags"].sel(gram="power")[0, 1]) == ["no_data"]
    assert reasons(fit["head_flags"][0, 1]) == [
        "no_data",
        "no_sink_cosine",
        "no_drift",
        "no_dimension",
    ]


@pytest.mark.parametrize(("positions", "why"), [(2, "no_data"), (3, "too_few_lags")])
def test_too_few_tokens_for_any_pair_or_decay_are_flagged(positions, why):
    fit = fit_similarity(capture(sizes=Sizes(positions=positions)))
    assert np.isnan(fit["mae_by_lag"].sel(gram="offset")).all()
    assert reasons(fit["flags"].sel(gram="offset")[0, 0]) == [why]
    assert ((fit["chosen"] == -1) == (positions == 2)).all()


def test_floors_need_the_dimension_and_shrink_with_documents():
    data = capture(sizes=Sizes(positions=20))
    assert np.isnan(fit_similarity(data)["chance_by_pair"])
    fit = fit_similarity(data.assign_attrs(dimension=64))
    assert float(fit["chance_by_pair"]) == pytest.approx(np.sqrt(2 / (np.pi * 64)), rel=0.005)
    pairs = 19 - np.arange(1, 19.0)
    np.testing.assert_allclose(fit["chance_by_lag"], np.sqrt(2 / (np.pi * 64 * 8 * pairs)).mean())
    np.testing.assert_allclose(fit["rho0_spread_floor"], (1 - fit["rho0"] ** 2) / 8)


def test_results_carry_their_names_units_and_float64(offset_heads):
    assert tuple(offset_heads["gram"].values) == FORMS
    for name, variable in offset_heads.data_vars.items():
        assert {"long_name", "units", "symbol", "equation"} <= set(variable.attrs), name
        assert variable.dtype in (np.float64, np.int64, np.bool_), name
    for name in (
        *PARAMETERS,
        "rho0",
        "mae_by_lag",
        "mae_by_pair",
        "drift_slope",
        "drift_rms",
        "sink_slope",
        "rho0_spread",
        "negative_fraction",
    ):
        assert {name, f"{name}_se", f"{name}_lower", f"{name}_upper"} <= set(
            offset_heads.data_vars
        ), name
    assert (offset_heads["offset"].sel(gram="exponential") == 0).all()
    assert (offset_heads["stretch"].sel(gram="power") == 1).all()
    assert np.isnan(offset_heads["beta"].sel(gram="constant")).all()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ({"covar": np.array([[1.0, 1.0 - 1e-13], [1.0 - 1e-13, 1.0]])}, "singular"),
        ({"covar": None}, "singular"),
        ({"covar": np.full((2, 2), np.nan)}, "singular"),
        ({"success": False}, "not_converged"),
    ],
)
def test_what_lmfit_could_not_settle_has_no_error(monkeypatch, spoil, why):
    def spoiled(form, *rest):
        result = fit_row(form, *rest)
        if form == "offset":
            vars(result).update(spoil)
        return result

    monkeypatch.setattr("geostat.fits.similarity.one_form.fit_row", spoiled)
    fit = fit_similarity(capture(sizes=SMALL)).squeeze()
    for name in ("beta_se", "beta_lower", "offset_se", "offset_upper"):
        assert np.isnan(fit[name].sel(gram="offset")), name
    assert reasons(fit["flags"].sel(gram="offset")) == [why]
    assert np.isfinite(fit["beta"].sel(gram="offset"))
    assert np.isfinite(fit["beta_se"].sel(gram="exponential"))
    assert reasons(fit["flags"].sel(gram="exponential")) == []


@pytest.mark.parametrize("lags", [1, 2, 3])
def test_a_form_that_meets_every_lag_has_no_errors_to_judge(lags):
    data = capture(sizes=SMALL, seed=5)
    data["cosine_mean"][..., lags:] = np.nan
    found = fit_similarity(data).squeeze()
    for form in found["gram"].values:
        fit, number = found.sel(gram=form), FORM[str(form)].number
        assert ("too_few_lags" in reasons(fit["flags"])) == (number > lags)
        assert ("saturated" in reasons(fit["flags"])) == (number == lags)
        for name in ("mae_by_lag", "mae_by_lag_se", "rmse", "bic"):
            assert np.isnan(fit[name]) == (number >= lags), (str(form), name)


def test_errors_of_a_replicate_in_trouble_are_flagged():
    data = capture(sizes=SMALL, seed=5)
    data["cosine_mean"][0] = -1.0
    data["cosine_mean"][1:] = 0.02
    fit = fit_similarity(data).sel(gram="exponential").squeeze()
    assert "at_bound" in reasons(fit["flags"])
    assert "replicates" not in reasons(fit["flags"])  # the estimate itself is at the bound
    data["cosine_mean"][:] = [[[[0.9]]], [[[0.9]]], [[[-1.0]]]] * np.ones(data["cosine_mean"].shape)
    data["cosine_mean"][..., 1:] = np.nan
    fit = fit_similarity(data).sel(gram="exponential").squeeze()
    assert reasons(fit["flags"]) == ["replicates", "saturated"]


def test_a_capture_without_block_means_is_refused_in_one_line():
    from geostat.errors import InputError

    with pytest.raises(InputError, match="cosine_block_mean"):
        fit_similarity(capture().drop_vars("cosine_block_mean"))
