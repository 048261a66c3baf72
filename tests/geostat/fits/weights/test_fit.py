import numpy as np
import pytest
from scipy.special import stdtrit
from scipy.stats import binom
from support.synthetic import Sizes, Spread, Truth, capture, log_weights

from geostat.errors import InputError
from geostat.fits.weights import fit as weights
from geostat.fits.weights import forms
from geostat.fits.weights.break_point_kernels import scan
from geostat.fits.weights.break_points import FORMS, search
from geostat.fits.weights.fit import fit_weights
from geostat.fits.weights.forms import log_profile
from geostat.fits.weights.rivals import SIMPLE
from geostat.statistics.least_squares import LMFIT_KEYWORDS
from geostat.statistics.losses import mean_over_documents

MANY = Sizes(layers=2, heads=20, kv_heads=4)
MONOTONE, SHARED, SEPARATE = range(3)
NO_WAVE = Truth(eta=0.0, eta_tail=0.2, t1=110, t2=110)


@pytest.fixture(scope="module")
def four_phases():
    return fit_weights(capture(sizes=MANY, seed=3))


@pytest.fixture(scope="module")
def three_phases():
    return fit_weights(capture(NO_WAVE, Spread(token=0.5), MANY, seed=4))


def least_expected(number, share=0.9):
    """Fewest successes of `number` at a true rate of `share` that chance allows once in a
    thousand.
    """
    return binom.ppf(1e-3, number, share)


def planted(number, noise, seed, tokens=300):
    """Log profiles with all phases and white noise, and the parameters of each."""
    random = np.random.default_rng(seed)
    out, truths = [], []
    for _ in range(number):
        t1, t2 = (
            int(random.integers(tokens // 30, tokens // 4)),
            int(random.integers(tokens * 2 // 3, tokens - 4)),
        )
        eta, omega = random.uniform(0.2, 0.6), random.uniform(0.1, 3.1)
        truths.append(Truth(p_base=1e-3, eta=eta, eta_tail=eta, omega=omega, t1=t1, t2=t2))
        out.append(
            log_weights(truths[-1], np.arange(1, tokens + 1)) + random.normal(0, noise, tokens)
        )
    return np.array(out), truths


def profile(position, p_sink, p_base, *curve):
    """α of all tokens, the sink at position 0."""
    return np.where(position == 0, p_sink, np.exp(log_profile(position, np.log(p_base), *curve)))


def test_profile_is_the_one_in_print():
    truth = Truth(t1=4, t2=9)
    i = np.arange(13)
    expected = np.concatenate([[truth.p_sink], np.exp(log_weights(truth, i[1:]))])
    alpha = profile(i, truth.p_sink, truth.p_base, truth.eta, truth.eta_tail, truth.omega, 4, 9)
    np.testing.assert_allclose(alpha, expected, rtol=1e-14)
    np.testing.assert_allclose(
        log_profile(i[1:], np.log(0.1), 0.0, 0.5, np.nan, 9, 9)[-3:],
        np.log(0.1) + np.array([0.5, 1.0, 1.5]),
    )


@pytest.mark.parametrize("form", FORMS)
def test_search_finds_the_optimum_lmfit_finds_from_elsewhere(form):
    rows, _ = planted(6, 0.3, seed=5)
    found = search(rows, 1)
    position = np.arange(1.0, 301)
    assert (found["converged"] == 1).all()
    for row in range(6):
        start = {name: float(values[FORMS.index(form), row]) for name, values in found.items()}
        begin = start | {
            "b": start["b"] + 0.1,
            "eta_osc": start["eta_osc"] * 0.9,
            "eta_tail": start["eta_tail"] * 1.1,
        }
        value = forms.fit_row(
            form, position, rows[row], begin | {"omega": start["omega"] + 5e-4}
        ).params.valuesdict()
        pairs = [
            ("log_p_base", "b"),
            ("eta", "eta_tail" if form == "monotone" else "eta_osc"),
            ("omega", "omega"),
            ("eta_tail", "eta_tail"),
        ]
        for name, source in pairs:
            if name in value:
                assert value[name] == pytest.approx(start[source], rel=1e-6), name


def test_monotone_search_is_exact():
    rows, _ = planted(4, 0.5, seed=6, tokens=80)
    rows[0, [3, 40, 41]] = np.nan
    found = search(rows, 1)
    for row in range(4):
        known = np.isfinite(rows[row])
        best = np.inf
        for t2 in range(1, 81):
            columns = np.stack([np.ones(80), np.maximum(np.arange(1, 81) - t2, 0)], axis=1)[known]
            solution = np.linalg.lstsq(columns, rows[row, known], rcond=None)[0]
            if solution[1] >= 0:
                best = min(best, ((rows[row, known] - columns @ solution) ** 2).sum())
        assert found["squares"][MONOTONE, row] == pytest.approx(best, rel=1e-9)


def test_search_is_never_worse_than_the_planted_parameters():
    rows, truths = planted(40, 0.4, seed=7)
    squares = np.array(
        [
            ((row - log_weights(truth, np.arange(1, 301))) ** 2).sum()
            for row, truth in zip(rows, truths, strict=True)
        ]
    )
    found = search(rows, 1)
    for form in (SHARED, SEPARATE):
        assert (found["squares"][form] <= squares).all()
    assert (found["squares"][SEPARATE] <= found["squares"][SHARED] * (1 + 1e-6)).mean() > 0.9


def test_no_near_break_point_does_better():
    rows, _ = planted(12, 0.6, seed=16)
    found = search(rows, 1)
    for row in range(12):
        start = {name: float(values[SHARED, row]) for name, values in found.items()}
        for end in ("t1", "t2"):
            for move in (-4, -2, -1, 1, 2, 4):
                moved = start | {end: start[end] + move}
                if moved["t1"] >= 1 and moved["t2"] <= 300 and moved["t2"] - moved["t1"] >= 8:
                    assert forms.fit_row(
                        "shared", np.arange(1.0, 301), rows[row], moved
                    ).chisqr >= start["squares"] * (1 - 1e-9)


@pytest.mark.parametrize("shared", [True, False])
def test_scan_finds_the_best_pair_of_all_pairs(shared):
    rows, truths = planted(5, 0.3, seed=17, tokens=60)
    for row, truth in zip(rows, truths, strict=True):
        y = row - row.mean()
        theta = np.array([y[:10].mean(), truth.eta, truth.omega, 0.0])
        reach = max(8, int(np.ceil(2 * np.pi / truth.omega)))
        best = np.inf
        for j1 in range(60):
            for j2 in range(j1 + reach, 60):
                u = np.arange(1, 60 - j2)
                r = y[j2 + 1 :] - theta[0]
                slope = (
                    truth.eta if shared or not u.size else max(0.0, (u * r).sum() / (u * u).sum())
                )
                model = log_profile(
                    np.arange(1.0, 61), theta[0], truth.eta, slope, truth.omega, j1 + 1, j2 + 1
                )
                squares = ((y - model) ** 2).sum()
                if squares < best - 1e-9:
                    best, pair = squares, (j1, j2)
        assert scan(theta, y, np.ones(60), 1, shared) == pair


def test_noiseless_break_points_are_found_exactly():
    rows, truths = planted(30, 1e-6, seed=8)
    found = search(rows, 1)
    for form in (SHARED, SEPARATE):
        np.testing.assert_array_equal(found["t1"][form], [t.t1 for t in truths])
        np.testing.assert_array_equal(found["t2"][form], [t.t2 for t in truths])
        np.testing.assert_allclose(found["omega"][form], [t.omega for t in truths], atol=1e-5)
        np.testing.assert_allclose(found["eta_osc"][form], [t.eta for t in truths], rtol=1e-4)


def test_a_frequency_above_half_a_turn_is_reported_below_it():
    position = np.arange(1, 301)
    rows = np.stack(
        [
            log_weights(Truth(omega=omega, t1=20, t2=290), position)
            for omega in (1.1, 2 * np.pi - 1.1)
        ]
    )
    np.testing.assert_allclose(search(rows, 1)["omega"][SHARED], 1.1, rtol=1e-8)


@pytest.mark.parametrize("name", ["p_sink", "p_base", "eta", "omega"])
def test_intervals_cover_the_planted_value(four_phases, name):
    truth = getattr(Truth(), name)
    inside = (four_phases[f"{name}_lower"] < truth) & (four_phases[f"{name}_upper"] > truth)
    assert int(inside.sum()) >= least_expected(inside.size)


def test_break_points_are_recovered(four_phases):
    assert (four_phases["t2"] == Truth().t2).mean() > 0.95
    assert (abs(four_phases["t1"] - Truth().t1) <= 4).mean() > 0.9
    assert four_phases["oscillation_identified"].all()
    assert four_phases["growth_identified"].all()
    assert four_phases["converged"].all()


def test_absent_oscillation_is_reported_as_none(three_phases):
    fit = three_phases
    none = ~fit["oscillation_identified"]
    # Under one standard error of gain by chance alone: fewer than one head in ten.
    assert float(none.mean()) >= 0.9
    assert np.isnan(fit["omega"].values[none.values]).all()
    assert (fit["t1"] == fit["t2"]).values[none.values].all()
    assert fit["growth_identified"].all()
    inside = (fit["eta_lower"] < NO_WAVE.eta_tail) & (fit["eta_upper"] > NO_WAVE.eta_tail) & none
    assert int(inside.sum()) >= least_expected(int(none.sum()))


@pytest.mark.parametrize("documents", [1, 8])
def test_noise_alone_is_not_identified(documents):
    flat = Truth(eta=0.0, eta_tail=0.0, t1=127, t2=127)
    fit = fit_weights(
        capture(
            flat,
            Spread(token=0.7),
            Sizes(documents=documents, layers=1, heads=24, kv_heads=4),
            seed=9,
        )
    )
    assert float(fit["oscillation_identified"].mean()) <= 0.1
    assert float(fit["growth_identified"].mean()) <= 0.2
    assert float(fit["identified"].mean()) <= 0.2
    if documents > 1:
        gain, error = fit["growth_gain"], fit["growth_gain_se"]
        assert ((gain > 0) & (gain < error)).any()
        # Both tests: predicts better, and beats the surrogates.
        np.testing.assert_array_equal(
            fit["growth_identified"], (gain > error) & (fit["growth_p"] <= 0.05)
        )
    assert np.isnan(fit["t2_se"]).all()
    assert set(np.unique(fit["t2_reason"])) <= {3, 4, 5}


def test_strength_is_told_in_units_of_the_residuals_own_noise(four_phases):
    fit = four_phases.isel(form=SHARED)
    phi, theta = four_phases["noise_phi"], four_phases["noise_theta"]
    printed = four_phases["form_chosen"] == SHARED
    assert printed.mean() > 0.9  # the noise is that of the reported form
    fit, phi, theta = (one.where(printed) for one in (fit, phi, theta))
    np.testing.assert_allclose(
        fit["form_growth_to_noise"],
        fit["form_eta"] * (127 - fit["form_t2"]) / four_phases["long_run_noise"].where(printed),
        rtol=1e-9,
    )
    innovation = four_phases["long_run_noise"] ** 2 * (1 - phi) ** 2 / (1 + theta) ** 2
    turn = np.exp(-1j * fit["form_omega"])
    density = innovation * abs(1 + theta * turn) ** 2 / abs(1 - phi * turn) ** 2
    amplitude_error = np.sqrt(2 * density / (fit["form_t2"] - fit["form_t1"]))
    np.testing.assert_allclose(
        fit["form_oscillation_to_noise"], fit["form_eta"] / amplitude_error, rtol=1e-9
    )


@pytest.mark.slow
def test_a_swing_far_above_its_shared_rate_is_not_called_one():
    # The printed form lets the amplitude be no larger than the rate of growth, here 0.012: next to
    # nothing in noise of 0.3.
    truth = Truth(eta=0.6, eta_tail=0.012, t1=20, t2=60, p_base=1e-3)
    fit = fit_weights(capture(truth, Spread(token=0.8), Sizes(heads=8, positions=400), seed=18))
    assert fit["form_oscillation_identified"][SEPARATE].all()
    assert not fit["form_oscillation_identified"][MONOTONE].any()
    weak = fit["form_oscillation_to_noise"][SHARED] < 2
    assert weak.any()
    assert not fit["oscillation_identified"].values[weak.values].any()


def test_separate_slopes_win_where_they_differ():
    truth = Truth(eta=0.6, eta_tail=0.1, t2=100)
    fit = fit_weights(capture(truth, Spread(token=0.3), Sizes(heads=6), seed=10))
    best = fit["form_bic"].argmin("form")
    assert (best == SEPARATE).all()
    assert (fit["form_loss_left_out"][SEPARATE] < fit["form_loss_left_out"][SHARED]).all()
    np.testing.assert_allclose(fit["form_eta"][SEPARATE], 0.6, atol=0.15)
    np.testing.assert_allclose(fit["form_eta_tail"][SEPARATE], 0.1, atol=0.02)


def test_sink_and_total_rest_on_the_arithmetic_mean_and_the_profile_on_the_geometric(four_phases):
    data = capture(sizes=MANY, seed=3)["attention_weight"].astype(np.float64)
    np.testing.assert_allclose(four_phases["p_sink"], data[..., 0].mean("document"), rtol=1e-12)
    np.testing.assert_allclose(
        four_phases["total"], data.sum("position").mean("document"), rtol=1e-12
    )
    masses = sum(four_phases[f"mass_{phase}"] for phase in ("plateau", "oscillation", "tail"))
    np.testing.assert_allclose(masses + four_phases["p_sink"], four_phases["total"], rtol=1e-12)
    np.testing.assert_allclose(
        four_phases["log_weight_mean"][..., 1:], np.log(data[..., 1:]).mean("document"), rtol=1e-12
    )
    sse = ((four_phases["log_weight_mean"] - four_phases["log_weight_model"]) ** 2).mean("position")
    np.testing.assert_allclose(four_phases["rmse"] ** 2, sse, rtol=1e-9)
    parameters = [
        four_phases[name].values[0, 0]
        for name in ("p_sink", "p_base", "eta", "eta", "omega", "t1", "t2")
    ]
    assert float(four_phases["total_model"][0, 0]) == pytest.approx(
        profile(np.arange(128), *parameters).sum(), rel=1e-12
    )


def test_left_out_loss_is_that_of_a_refit_without_the_document():
    data = capture(sizes=Sizes(documents=3, heads=2, kv_heads=1), seed=11)
    fit = fit_weights(data)
    logs = np.log(data["attention_weight"].values[:, 0, 0, 1:].astype(float))
    loss = []
    for k in range(3):
        found = search(np.delete(logs, k, axis=0).mean(axis=0)[None], 1)
        parameters = [
            found[name][SHARED, 0] for name in ("b", "eta_osc", "eta_tail", "omega", "t1", "t2")
        ]
        loss.append(((logs[k] - log_profile(np.arange(1, 128), *parameters)) ** 2).mean())
    assert float(fit["form_loss_left_out"][SHARED, 0, 0]) == pytest.approx(np.mean(loss), rel=1e-9)


def test_zero_weights_are_left_out_and_counted():
    data = capture(sizes=Sizes(documents=4, heads=2, kv_heads=1), seed=12)
    clean = fit_weights(data)
    data["attention_weight"][:, 0, 0, [10, 20]] = 0.0
    fit = fit_weights(data)
    np.testing.assert_allclose(fit["zero_weight_share"], [[2 / 127, 0.0]])
    assert np.isnan(fit["log_weight_mean"][0, 0, [10, 20]]).all()
    assert float(fit["omega"][0, 0]) == pytest.approx(float(clean["omega"][0, 0]), abs=0.01)
    assert float(fit["total"][0, 0]) < float(clean["total"][0, 0])


def test_one_document_has_estimates_but_no_errors():
    fit = fit_weights(capture(spread=Spread(token=0.1), sizes=Sizes(documents=1), seed=13))
    assert fit["oscillation_identified"].all()
    np.testing.assert_allclose(fit["omega"], Truth().omega, atol=0.01)
    for name in (
        "p_sink_se",
        "p_base_se",
        "eta_se",
        "omega_lower",
        "t1_upper",
        "total_se",
        "total_model_upper",
        "mass_tail_se",
        "loss_left_out",
    ):
        assert np.isnan(fit[name]).all(), name
    assert fit["eta_identified"].all()
    assert (fit["eta_reason"] == 6).all()
    assert (fit["preferred"] == -1).all()
    assert np.isfinite(fit["eta_se_tokens"]).all()


def test_a_window_without_the_sink_counts_from_its_first_token():
    fit = fit_weights(
        capture(Truth(t1=5, t2=34, omega=1.2), sizes=Sizes(layers=2, window=(128, 40)), seed=14)
    )
    assert list(fit["sink_visible"].values) == [True, False]
    assert np.isnan(fit["p_sink"][1]).all()
    assert np.isfinite(fit["p_sink"][0]).all()
    assert (fit["t2"] == 34).all()
    np.testing.assert_allclose(fit["omega"][1], 1.2, atol=0.05)
    assert np.isfinite(fit["log_weight_mean"][1]).sum() == 4 * 40
    assert np.isnan(fit["log_weight_mean"][1, :, :88]).all()


@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_a_handful_of_tokens_has_no_oscillation_and_no_crash(tokens):
    fit = fit_weights(capture(Truth(t1=2, t2=3), sizes=Sizes(positions=tokens)))
    assert np.isnan(fit["omega"]).all()
    assert np.isnan(fit["form_p_base"][SHARED]).all()
    assert np.isfinite(fit["p_sink"]).all()
    assert np.isfinite(fit["p_base"]).all() == (tokens > 1)


def test_constant_and_missing_heads_are_flagged():
    data = capture(sizes=Sizes(heads=3, kv_heads=1))
    data["attention_weight"][:, 0, 0] = 1 / 128
    data["attention_weight"][:, 0, 1] = np.nan
    fit = fit_weights(data)
    assert float(fit["p_base"][0, 0]) == pytest.approx(1 / 128)
    assert float(fit["eta"][0, 0]) == 0
    assert bool(fit["eta_at_bound"][0, 0])
    assert np.isnan(fit["eta_se"][0, 0])
    assert not fit["identified"][0, 0]
    assert [
        int(fit[f"{name}_reason"][0, 0]) for name in ("p_base", "eta", "omega", "t1", "t2")
    ] == [0, 3, 3, 3, 3]
    assert [
        int(fit[f"{name}_reason"][0, 1]) for name in ("p_base", "eta", "omega", "t1", "t2")
    ] == [1, 1, 1, 1, 1]
    assert int(fit["preferred"][0, 1]) == -1
    assert np.isnan([float(fit["r2"][0, 0]), float(fit["bic"][0, 0])]).all()
    assert float(fit["rmse"][0, 0]) == 0
    for name in (
        "p_sink",
        "p_base",
        "eta",
        "t2",
        "total",
        "total_model",
        "mass_tail",
        "rmse",
        "loss_left_out",
    ):
        assert np.isnan(fit[name][0, 1]), name
    assert not fit["converged"][0, 1]
    assert list(fit["documents"][0].values) == [8, 0, 8]


def test_falling_weights_have_no_growth():
    data = capture(
        Truth(eta=0.0, eta_tail=-0.05, t1=60, t2=60), Spread(token=0.0), Sizes(heads=2, kv_heads=1)
    )
    fit = fit_weights(data)
    assert (fit["form_eta"][MONOTONE] == 0).all()
    assert (fit["form_t2"][MONOTONE] == 127).all()
    assert not fit["growth_identified"].any()


def test_results_carry_their_names_units_and_float64(four_phases):
    seen = []
    fit_weights(
        capture(sizes=Sizes(layers=2, heads=1, kv_heads=1, positions=40, documents=2)),
        progress=seen.append,
    )
    assert seen == [0.5, 1.0]
    for name, variable in four_phases.data_vars.items():
        assert {"long_name", "units", "symbol", "equation"} <= set(variable.attrs), name
        assert variable.dtype in (np.float64, np.int64, np.bool_), name


def test_negative_weights_are_refused():
    data = capture()
    data["attention_weight"][0, 0, 0, 3] = -0.1
    with pytest.raises(InputError, match=r"layer 0 has -0.1, expected weights of at least 0"):
        fit_weights(data)


def test_lmfit_never_sees_a_missing_token():
    rows, _ = planted(1, 0.3, seed=15)
    rows[0, 50] = np.nan
    found = {name: float(values[SHARED, 0]) for name, values in search(rows, 1).items()}
    assert forms.fit_row("shared", np.arange(1.0, 301), rows[0], found).ndata == 299
    assert LMFIT_KEYWORDS["nan_policy"] == "raise"


def test_lmfits_own_errors_stand_beside_the_jackknifes():
    data = capture(sizes=Sizes(heads=2, kv_heads=1), seed=19)
    fit = fit_weights(data).isel(layer=0, head=1)
    seen, _, log_weight = weights.layer_weights(data, 0)
    mean = mean_over_documents(log_weight[:, 1])
    position = seen.first_content + np.arange(mean.size, dtype=np.float64)
    for form, source in (("shared", "eta"), ("separate", "eta_tail")):
        start = {
            name: float(rows[weights.FORMS.index(form), 0])
            for name, rows in search(mean[None], seen.first_content).items()
        }
        own = forms.fit_row(form, position, mean, start).params
        assert float(fit["form_eta_tail_se_tokens"].sel(form=form)) == pytest.approx(
            own[source].stderr, rel=1e-6
        )
        expected = own["log_p_base"].stderr * float(fit["form_p_base"].sel(form=form))
        assert float(fit["form_p_base_se_tokens"].sel(form=form)) == pytest.approx(
            expected, rel=1e-6
        )
    assert np.isnan(fit["form_omega_se_tokens"].sel(form="monotone"))
    assert float(fit["eta_se_tokens"]) == float(fit["form_eta_se_tokens"].sel(form="shared"))


def test_a_phase_that_predicts_no_document_left_out_does_not_stand_out():
    # One document oscillates so loudly that the mean does too: surrogates are beaten, but the other
    # documents are predicted no better.
    position = np.arange(1, 200)
    data = capture(
        Truth(eta=0.0, eta_tail=0.0),
        Spread(token=0.2),
        Sizes(heads=8, kv_heads=2, positions=200),
        seed=20,
    )
    data["attention_weight"][0, ..., 1:] *= np.exp(
        3.0 * np.cos(0.9 * position) * ((position > 30) & (position < 170))
    )
    fit = fit_weights(data)
    assert (fit["oscillation_p"] <= 0.05).all()
    assert not fit["form_oscillation_identified"].any()


def test_break_points_have_the_wider_of_two_intervals(four_phases):
    half = four_phases["form_t2_half_width"]
    by_noise = half / stdtrit(7, 0.975)
    error = four_phases["form_t2_se"]
    there = np.isfinite(error.values)
    assert there.sum() > 40
    assert (error.values >= by_noise.values * (1 - 1e-12))[there].all()
    assert (error.values > by_noise.values * (1 + 1e-9))[there].any()
    assert np.isclose(error.values, by_noise.values)[there].any()


def test_noise_of_documents_is_told_about_their_own_level(four_phases):
    np.testing.assert_allclose(four_phases["document_noise"], 0.2, atol=0.02)
    np.testing.assert_allclose(four_phases["document_autocorrelation"], 0.0, atol=0.1)
    of_form = four_phases["form_chosen"] + len(SIMPLE)
    for name in ("residual_autocorrelation", "long_run_noise"):
        np.testing.assert_allclose(
            four_phases[name], four_phases[f"rival_{name}"].isel(rival=of_form).drop_vars("rival")
        )
    assert float(four_phases["long_run_noise"].median()) == pytest.approx(0.2 / np.sqrt(8), rel=0.2)
    assert float(four_phases["long_run_newey_west"].median()) == pytest.approx(
        0.2 / np.sqrt(8), rel=0.2
    )
