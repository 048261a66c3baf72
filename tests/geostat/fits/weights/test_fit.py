import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.optimize import nnls
from scipy.special import stdtrit
from support.synthetic import Sizes, Spread, Truth, assert_covered, capture, log_weights

from geostat.fits.weights import break_points, forms
from geostat.fits.weights import fit as weights
from geostat.fits.weights.break_point_kernels import best_pair, tail_sums
from geostat.fits.weights.break_points import FORMS, MAX_GAP, search, search_twice
from geostat.fits.weights.fit import fit_weights
from geostat.fits.weights.forms import CURVE, log_profile
from geostat.fits.weights.identifiability import Reason
from geostat.fits.weights.rivals import SIMPLE
from geostat.statistics.losses import mean_over_documents
from studies.search import reference

MANY = Sizes(layers=2, heads=8, kv_heads=4)
TWO = Sizes(heads=2, kv_heads=1)
MONOTONE, SHARED, SEPARATE = range(3)
NO_WAVE = Truth(eta=0.0, eta_tail=0.2, t1=110, t2=110)
POSITION = np.arange(1.0, 301)


@pytest.fixture(scope="module")
def many():
    return capture(sizes=MANY, seed=5)


@pytest.fixture(scope="module")
def four_phases(many):
    return fit_weights(many)


def planted(number, noise, seed, tokens=300):
    """Return log profiles with all phases and white noise, and the parameters of each."""
    random = np.random.default_rng(seed)
    out, truths = [], []
    for _ in range(number):
        t1 = int(random.integers(tokens // 30, tokens // 4))
        t2 = int(random.integers(tokens * 2 // 3, tokens - 4))
        eta, omega = random.uniform(0.2, 0.6), random.uniform(0.1, 3.1)
        truths.append(Truth(p_base=1e-3, eta=eta, eta_tail=eta, omega=omega, t1=t1, t2=t2))
        profile = log_weights(truths[-1], np.arange(1, tokens + 1))
        out.append(profile + random.normal(0, noise, tokens))
    return np.array(out), truths


def of_row(result, form, row):
    return {name: float(values[form, row]) for name, values in result.items()}


def test_profile_equals_the_printed_formula():
    truth = Truth(t1=4, t2=9)
    i = np.arange(1, 13)
    log_alpha = log_profile(i, np.log(truth.p_base), truth.eta, truth.eta_tail, truth.omega, 4, 9)
    assert_allclose(log_alpha, log_weights(truth, i), rtol=1e-14)
    without_wave = log_profile(i, np.log(0.1), 0.0, 0.5, np.nan, 9, 9)
    assert_allclose(without_wave[-3:], np.log(0.1) + np.array([0.5, 1.0, 1.5]))


@pytest.mark.parametrize("form", FORMS)
def test_search_finds_the_lmfit_optimum(form):
    rows, _ = planted(6, 0.3, seed=5)
    result = search(rows, 1)
    assert (result["converged"] == 1).all()
    for row in range(6):
        best = of_row(result, FORMS.index(form), row)
        shifted = {
            "b": best["b"] + 0.1,
            "eta_osc": best["eta_osc"] * 0.9,
            "eta_tail": best["eta_tail"] * 1.1,
            "omega": best["omega"] + 5e-4,
        }
        value = forms.fit_row(form, POSITION, rows[row], best | shifted).params.valuesdict()
        for name, curve in forms.PARAMETERS_OF[form].items():
            assert value[name] == pytest.approx(best[curve[0]], rel=1e-6), name


def test_monotone_search_is_exact():
    rows, _ = planted(4, 0.5, seed=6, tokens=80)
    rows[0, [3, 40, 41]] = np.nan
    result = search(rows, 1)
    for index, row in enumerate(rows):
        known = np.isfinite(row)
        best = np.inf
        for t2 in range(1, 81):
            columns = np.stack([np.ones(80), np.maximum(np.arange(1, 81) - t2, 0)], axis=1)[known]
            solution = np.linalg.lstsq(columns, row[known], rcond=None)[0]
            if solution[1] >= 0:
                best = min(best, ((row[known] - columns @ solution) ** 2).sum())
        assert result["squares"][MONOTONE, index] == pytest.approx(best, rel=1e-9)


def test_search_is_never_worse_than_the_planted_parameters():
    rows, truths = planted(40, 0.4, seed=7)
    models = np.stack([log_weights(truth, POSITION) for truth in truths])
    squares = search(rows, 1)["squares"]
    for form in (SHARED, SEPARATE):
        assert (squares[form] <= ((rows - models) ** 2).sum(axis=1)).all()
    assert (squares[SEPARATE] <= squares[SHARED] * (1 + 1e-6)).mean() > 0.9


def test_no_neighbouring_break_point_is_better():
    rows, _ = planted(4, 0.6, seed=16)
    result = search(rows, 1)
    for row in range(4):
        best = of_row(result, SHARED, row)
        for end in ("t1", "t2"):
            for move in (-4, -2, -1, 1, 2, 4):
                shifted = best | {end: best[end] + move}
                if 1 <= shifted["t1"] <= shifted["t2"] - 8 <= 300 - 8:
                    fit = forms.fit_row("shared", POSITION, rows[row], shifted)
                    assert fit.chisqr >= best["squares"] * (1 - 1e-9)


@pytest.mark.parametrize("shared", [True, False])
def test_break_points_are_exact_at_a_frequency_and_amplitude(shared):
    rows, truths = planted(2, 0.3, seed=17, tokens=60)
    unknown = np.array([7, 30, 55])
    for row, truth in zip(rows, truths, strict=True):
        w = np.ones(60)
        w[unknown] = 0.0
        y = w * row
        reach = max(8, int(np.ceil(2 * np.pi / truth.omega)))
        best, i = np.inf, np.arange(60)
        for j1 in range(60):
            for j2 in range(j1 + reach, 60):
                wave = np.log1p(truth.eta * np.cos(truth.omega * (i + 1))) * ((i > j1) & (i <= j2))
                ramp = np.maximum(i - j2, 0.0)
                rest = y - w * (wave + (truth.eta * ramp if shared else 0.0))
                columns = w[:, None] * np.stack([np.ones(60), ramp], axis=1)
                nonnegative = np.column_stack([columns[:, 0], -columns[:, 0], columns[:, 1]])
                squares = nnls(nonnegative[:, : 2 if shared else 3], rest)[1]
                if squares**2 < best - 1e-9:
                    best, pair = squares**2, (j1, j2)
        theta = np.array([0.0, truth.eta, truth.omega, 0.0])
        loss, *found = best_pair(theta, y, w, 1, tail_sums(y, w), shared, (0, 0), (60, 60))
        assert tuple(found) == pair
        assert loss + (y * y).sum() == pytest.approx(best, rel=1e-9)


def bends(number, seed, tokens=200):
    """Return log profiles of a bend, large slow oscillations and autocorrelated noise."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(number, tokens))
    for t in range(1, tokens):
        rows[:, t] += 0.55 * rows[:, t - 1]
    for row in rows:
        t1, length = random.integers(0, tokens // 3), random.integers(tokens // 4, tokens // 2)
        omega = random.uniform(1.0, 3.0) * 2 * np.pi / length
        eta, slope = random.uniform(0.6, 0.99), random.uniform(0.005, 0.05)
        position = np.arange(1, tokens + 1)
        row *= 0.3
        row -= random.uniform(0.5, 1.5) * np.log(tokens + 1 - position)
        row += log_profile(position, 0.0, eta, slope, omega, t1, t1 + length)
    return rows


def test_two_searches_find_the_optimum_of_brute_force():
    rows = bends(16, seed=21)
    result = search_twice(rows, 1)
    for form in ("shared", "separate"):
        best = np.array([reference(row, 1, form)[0] for row in rows])
        index = FORMS.index(form)
        assert (1 - np.sqrt(best / result["squares"][index]) < MAX_GAP).all(), form
        flagged = result["converged"][index] == 0
        assert_array_equal(flagged, result["gap"][index] > MAX_GAP)


def test_searches_that_differ_have_a_gap_and_have_not_converged(monkeypatch):
    rows = np.random.default_rng(22).normal(size=(40, 200))
    thorough = search_twice(rows, 1)["squares"][SEPARATE]
    monkeypatch.setattr(break_points, "THOROUGH", 1)
    result = {name: values[SEPARATE] for name, values in search_twice(rows, 1).items()}
    missed = 1 - np.sqrt(thorough / result["squares"]) > MAX_GAP
    flagged = result["gap"] > MAX_GAP
    assert flagged.any()
    assert (result["converged"] == ~flagged).all()
    assert missed.sum() < flagged.sum()  # the better of two searches


def test_noiseless_break_points_are_found_exactly():
    rows, truths = planted(30, 1e-6, seed=8)
    result = search(rows, 1)
    for form in (SHARED, SEPARATE):
        assert_array_equal(result["t1"][form], [t.t1 for t in truths])
        assert_array_equal(result["t2"][form], [t.t2 for t in truths])
        assert_allclose(result["omega"][form], [t.omega for t in truths], atol=1e-5)
        assert_allclose(result["eta_osc"][form], [t.eta for t in truths], rtol=1e-4)


def test_a_frequency_above_pi_is_reported_below_pi():
    truths = [Truth(omega=omega, t1=20, t2=290) for omega in (1.1, 2 * np.pi - 1.1)]
    rows = np.stack([log_weights(truth, POSITION) for truth in truths])
    assert_allclose(search(rows, 1)["omega"][SHARED], 1.1, rtol=1e-8)


def test_planted_phases_are_recovered(four_phases):
    for name in ("p_sink", "p_base", "eta", "omega"):
        assert_covered(four_phases, name, getattr(Truth(), name))
    assert (four_phases["t2"] == Truth().t2).mean() > 0.95
    assert (abs(four_phases["t1"] - Truth().t1) <= 4).mean() > 0.9
    for name in ("oscillation_identified", "growth_identified", "converged"):
        assert four_phases[name].all(), name


def test_absent_oscillation_is_reported_as_none():
    three_phases = fit_weights(capture(NO_WAVE, Spread(token=0.5), MANY, seed=4))
    none = ~three_phases["oscillation_identified"].values.ravel()
    # By chance fewer than one head in ten gains more than one standard error.
    assert none.mean() >= 0.9
    assert three_phases["growth_identified"].all()
    parameters = three_phases[["omega", "t1", "t2", "eta_lower", "eta_upper"]]
    fit = parameters.stack(place=("layer", "head")).isel(place=none)
    assert np.isnan(fit["omega"]).all()
    assert (fit["t1"] == fit["t2"]).all()
    assert_covered(fit, "eta", NO_WAVE.eta_tail)


@pytest.mark.parametrize("documents", [1, 8])
def test_noise_alone_is_not_identified(documents):
    flat, sizes = Truth(eta=0.0, eta_tail=0.0), Sizes(documents=documents, heads=24, kv_heads=4)
    fit = fit_weights(capture(flat, Spread(token=0.7), sizes, seed=9))
    assert float(fit["oscillation_identified"].mean()) <= 0.1
    assert float(fit["growth_identified"].mean()) <= 0.2
    assert float(fit["identified"].mean()) <= 0.2
    if documents > 1:
        gain, error = fit["growth_gain"], fit["growth_gain_se"]
        assert ((gain > 0) & (gain < error)).any()
        # Both tests: it predicts better, and exceeds the surrogates.
        both = (gain > error) & (fit["growth_p"] <= 0.05)
        assert_array_equal(fit["growth_identified"], both)
    assert np.isnan(fit["t2_se"]).all()
    assert set(np.unique(fit["t2_reason"])) <= {
        Reason.PHASE_ABSENT,
        Reason.BELOW_THE_NOISE,
        Reason.PLACED_TOO_ROUGHLY,
    }


def test_strength_is_in_units_of_the_residual_noise(four_phases):
    printed = four_phases["form_chosen"] == SHARED
    assert printed.mean() > 0.9  # the noise is the reported form's
    fit = four_phases.isel(form=SHARED).where(printed)
    growth = fit["form_eta"] * (127 - fit["form_t2"]) / fit["long_run_noise"]
    assert_allclose(fit["form_growth_to_noise"], growth, rtol=1e-9)


@pytest.mark.slow
def test_the_shared_form_has_no_oscillation_far_above_its_growth_rate():
    # In the printed form the amplitude equals the growth rate, here 0.012: negligible in noise of
    # 0.3.
    truth = Truth(eta=0.6, eta_tail=0.012, t1=20, t2=60, p_base=1e-3)
    fit = fit_weights(capture(truth, Spread(token=0.8), Sizes(heads=8, positions=400), seed=18))
    assert fit["form_oscillation_identified"][SEPARATE].all()
    assert not fit["form_oscillation_identified"][MONOTONE].any()
    weak = fit["form_oscillation_to_noise"][SHARED] < 2
    assert weak.any()
    assert not fit["oscillation_identified"].values[weak.values].any()


def test_sink_and_total_use_the_arithmetic_mean_and_the_profile_the_geometric(many, four_phases):
    fit, weight = four_phases, many["attention_weight"].astype(np.float64)
    mean_log = np.log(weight[..., 1:]).mean("document")
    assert_allclose(fit["p_sink"], weight[..., 0].mean("document"), rtol=1e-12)
    assert_allclose(fit["total"], weight.sum("position").mean("document"), rtol=1e-12)
    masses = sum(fit[f"mass_{phase}"] for phase in ("plateau", "oscillation", "tail"))
    assert_allclose(masses + fit["p_sink"], fit["total"], rtol=1e-12)
    assert_allclose(fit["log_weight_mean"][..., 1:], mean_log, rtol=1e-12)
    squares = ((fit["log_weight_mean"] - fit["log_weight_model"]) ** 2).mean("position")
    assert_allclose(fit["rmse"] ** 2, squares, rtol=1e-9)
    head = {name: float(fit[name][0, 0]) for name in ("p_sink", "p_base", "eta", "omega")}
    breaks = (float(fit[name][0, 0]) for name in ("t1", "t2"))
    curve = (np.log(head["p_base"]), head["eta"], head["eta"], head["omega"], *breaks)
    total = head["p_sink"] + np.exp(log_profile(np.arange(1, 128), *curve)).sum()
    assert_allclose(fit["total_model"][0, 0], total, rtol=1e-12)


def test_held_out_loss_is_that_of_a_refit_without_the_document():
    data = capture(sizes=Sizes(documents=3, heads=2, kv_heads=1), seed=11)
    logs = np.log(data["attention_weight"].values[:, 0, 0, 1:].astype(float))
    loss, near = [], search_twice(logs.mean(axis=0)[None], 1)
    for k in range(3):
        result = search(np.delete(logs, k, axis=0).mean(axis=0)[None], 1, near=near)
        model = log_profile(np.arange(1, 128), *(result[name][SHARED, 0] for name in CURVE))
        loss.append(((logs[k] - model) ** 2).mean())
    fit = fit_weights(data).isel(layer=0, head=0)
    assert_allclose(fit["form_loss_held_out"][SHARED], np.mean(loss), rtol=1e-9)
    loss = []  # of a constant and of the reported form
    for k in range(3):
        means = np.delete(logs, k, axis=0).mean(axis=0)
        result = search(means[None], 1, near=near)
        model = log_profile(
            np.arange(1, 128), *(result[name][int(fit["form_chosen"]), 0] for name in CURVE)
        )
        loss.append([((logs[k] - line) ** 2).mean() for line in (means.mean(), model)])
    constant, reported = np.transpose(loss)
    test = stats.ttest_rel(constant, reported, alternative="greater")
    assert_allclose(fit["gain_over_constant"], (constant - reported).mean(), rtol=1e-9)
    assert_allclose(fit["gain_over_constant"] / fit["gain_over_constant_se"], test.statistic)
    assert_allclose(fit["gain_over_constant_p"], test.pvalue)


def test_zero_weights_are_ignored_and_counted():
    data = capture(sizes=Sizes(documents=4, heads=2, kv_heads=1), seed=12)
    clean = fit_weights(data).isel(layer=0)
    data["attention_weight"][:, 0, 0, [10, 20]] = 0.0
    fit = fit_weights(data).isel(layer=0)
    assert_allclose(fit["zero_weight_share"], [2 / 127, 0.0])
    assert np.isnan(fit["log_weight_mean"][0, [10, 20]]).all()
    assert_allclose(fit["omega"][0], clean["omega"][0], atol=0.01)
    assert fit["total"][0] < clean["total"][0]


def test_one_document_has_estimates_but_no_errors():
    fit = fit_weights(capture(spread=Spread(token=0.1), sizes=Sizes(documents=1), seed=13))
    assert fit["oscillation_identified"].all()
    assert_allclose(fit["omega"], Truth().omega, atol=0.01)
    for name in (
        *("p_sink_se", "p_base_se", "eta_se", "omega_lower", "t1_upper", "total_se"),
        *("total_model_upper", "mass_tail_se", "loss_held_out"),
    ):
        assert np.isnan(fit[name]).all(), name
    assert fit["eta_identified"].all()
    assert (fit["eta_reason"] == Reason.ONE_DOCUMENT_OR_FAILED_REPLICATE).all()
    assert (fit["preferred"] == -1).all()
    assert np.isfinite(fit["eta_se_tokens"]).all()


def test_a_window_without_the_sink_counts_from_its_first_token():
    sizes = Sizes(layers=2, heads=1, kv_heads=1, window=(128, 40))
    fit = fit_weights(capture(Truth(t1=5, t2=34, omega=1.2), sizes=sizes, seed=14))
    assert list(fit["sink_visible"].values) == [True, False]
    assert np.isnan(fit["p_sink"][1]).all()
    assert np.isfinite(fit["p_sink"][0]).all()
    assert (fit["t2"] == 34).all()
    assert_allclose(fit["omega"][1], 1.2, atol=0.05)
    assert np.isfinite(fit["log_weight_mean"][1, :, 88:]).all()
    assert np.isnan(fit["log_weight_mean"][1, :, :88]).all()


@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_few_tokens_have_no_oscillation(tokens):
    fit = fit_weights(capture(Truth(t1=2, t2=3), sizes=Sizes(positions=tokens)))
    assert np.isnan(fit["omega"]).all()
    assert np.isnan(fit["form_p_base"][SHARED]).all()
    assert np.isfinite(fit["p_sink"]).all()
    assert np.isfinite(fit["p_base"]).all() == (tokens > 1)


def test_constant_and_missing_heads_are_flagged():
    data = capture(sizes=Sizes(heads=3, kv_heads=1))
    data["attention_weight"][:, 0, 0] = 1 / 128
    data["attention_weight"][:, 0, 1] = np.nan
    fit = fit_weights(data).isel(layer=0)
    assert list(fit["documents"].values) == [8, 0, 8]
    constant, missing = fit.isel(head=0), fit.isel(head=1)
    for name, value in (("p_base", 1 / 128), ("eta", 0), ("rmse", 0)):
        assert_allclose(constant[name], value)
    assert constant["eta_at_bound"]
    assert not constant["identified"]
    assert np.isnan([constant["eta_se"], constant["r2"], constant["bic"]]).all()
    assert constant["p_base_reason"] == Reason.HAS_ONE
    for name in ("eta", "omega", "t1", "t2"):
        assert constant[f"{name}_reason"] == Reason.PHASE_ABSENT, name
    for name in ("p_base", "eta", "omega", "t1", "t2"):
        assert missing[f"{name}_reason"] == Reason.NOT_FITTED, name
    for name in (
        *("p_sink", "p_base", "eta", "t2", "total", "total_model", "mass_tail", "rmse"),
        "loss_held_out",
    ):
        assert np.isnan(missing[name]), name
    assert int(missing["preferred"]) == -1
    assert not missing["converged"]


def test_falling_weights_have_no_growth():
    truth = Truth(eta=0.0, eta_tail=-0.05, t1=60, t2=60)
    fit = fit_weights(capture(truth, Spread(token=0.0), TWO))
    assert (fit["form_eta"][MONOTONE] == 0).all()
    assert (fit["form_t2"][MONOTONE] == 127).all()
    assert not fit["growth_identified"].any()


def test_lmfit_errors_are_reported_in_addition_to_the_jackknife():
    data = capture(sizes=TWO, seed=19)
    fit = fit_weights(data).isel(layer=0, head=1)
    visible, _, log_weight = weights.layer_weights(data, 0)
    mean = mean_over_documents(log_weight[:, 1])
    result = search_twice(mean[None], visible.first_content)
    for form, source in (("shared", "eta"), ("separate", "eta_tail")):
        best = of_row(result, FORMS.index(form), 0)
        parameters = forms.fit_row(form, visible.position, mean, best).params
        of_form, log_p_base = fit.sel(form=form), parameters["log_p_base"]
        error = float(of_form["form_p_base"]) * log_p_base.stderr
        assert_allclose(of_form["form_eta_tail_se_tokens"], parameters[source].stderr, rtol=1e-6)
        assert_allclose(of_form["form_p_base_se_tokens"], error, rtol=1e-6)
    assert np.isnan(fit["form_omega_se_tokens"].sel(form="monotone"))
    assert fit["eta_se_tokens"] == fit["form_eta_se_tokens"].sel(form="shared")


def test_a_phase_of_one_document_is_not_significant():
    # One document oscillates so strongly that the mean does too: surrogates are exceeded, but the
    # other documents are not predicted better.
    position = np.arange(1, 128)
    sizes = Sizes(heads=1, kv_heads=1)
    data = capture(Truth(eta=0.0, eta_tail=0.0), Spread(token=0.2), sizes, seed=20)
    wave = 3.0 * np.cos(0.9 * position) * ((position > 30) & (position < 110))
    data["attention_weight"][0, ..., 1:] *= np.exp(wave)
    fit = fit_weights(data)
    assert (fit["oscillation_p"] <= 0.05).all()
    assert not fit["form_oscillation_identified"].any()


def test_break_points_have_the_wider_of_jackknife_and_noise_intervals(four_phases):
    by_noise = four_phases["form_t2_half_width"].values / stdtrit(7, 0.975)
    error = four_phases["form_t2_se"].values
    finite = np.isfinite(error)
    assert finite.sum() > 16
    assert (error >= by_noise * (1 - 1e-12))[finite].all()
    assert (error > by_noise * (1 + 1e-9))[finite].any()
    assert np.isclose(error, by_noise)[finite].any()


def test_document_noise_excludes_the_level_of_a_document(four_phases):
    assert_allclose(four_phases["document_noise"], 0.2, atol=0.02)
    assert_allclose(four_phases["document_autocorrelation"], 0.0, atol=0.1)
    of_form = four_phases["form_chosen"] + len(SIMPLE)
    for name in ("residual_autocorrelation", "long_run_noise"):
        assert_allclose(four_phases[name], four_phases[f"rival_{name}"].isel(rival=of_form))
    for name in ("long_run_noise", "long_run_newey_west"):
        assert float(four_phases[name].median()) == pytest.approx(0.2 / np.sqrt(8), rel=0.2)
