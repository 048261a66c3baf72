import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom
from synthetic import Sizes, Spread, Truth, capture

from geostat import decay, similarity
from geostat.fitting import LMFIT_KEYWORDS
from geostat.similarity import Bins, by_lag, feasible_edges, fit_similarity, mae_by_pair

MANY = Sizes(layers=10, heads=6, kv_heads=6)


@pytest.fixture(scope="module")
def offset_heads():
    return fit_similarity(capture(sizes=MANY, seed=3))


def least_expected(number, share=0.92):
    """Fewest successes of `number` at a true rate of `share` that chance allows once in a thousand."""
    return binom.ppf(1e-3, number, share)


def rows(number=12, seed=0):
    random = np.random.default_rng(seed)
    lag = np.arange(1, 200.0)
    beta, offset = np.exp(random.uniform(np.log(0.01), np.log(1.5), (number, 1))), random.uniform(-0.2, 0.6, (number, 1))
    return lag, by_lag("offset", lag, beta, offset) + random.normal(0, 0.03, (number, lag.size)), 200 - lag


@pytest.mark.parametrize("form", decay.FORMS)
def test_batched_solver_finds_the_optimum_lmfit_finds_from_elsewhere(form):
    lag, cosine, pairs = rows()
    found = decay.solve(form, lag, cosine, pairs)
    assert found.converged.all()
    for row in range(cosine.shape[0]):
        parameters = decay.parameters(form, found, row)
        parameters["beta"].value *= 1.3
        if form == "offset":
            parameters["offset"].value += 0.05
        result = decay.MODELS[form].fit(cosine[row], parameters, lag=lag, weights=np.sqrt(pairs), **decay.KEYWORDS)
        assert result.params["beta"].value == pytest.approx(found.beta[row], rel=1e-6)
        if form == "offset":
            assert result.params["offset"].value == pytest.approx(found.offset[row], rel=1e-6)


def test_fewer_lags_than_parameters_leave_a_form_unfitted():
    data = capture(sizes=Sizes(layers=2, window=(128, 3), positions=128), seed=9)
    data["cosine_mean"][:, 1, :, 1:] = np.nan  # one lag is left
    found = fit_similarity(data).isel(layer=1)
    assert np.isfinite(found["beta"].sel(gram="exponential")).all()
    for name in ("beta", "offset", "mae_by_lag", "bic"):
        assert np.isnan(found[name].sel(gram="offset")).all(), name
    assert not found["converged"].sel(gram="offset").any()


def test_loss_counts_every_pair_and_not_every_lag():
    lag, cosine, pairs = rows(4, seed=1)
    found = decay.solve("offset", lag, cosine, pairs)
    for row in range(4):

        def loss(p, y=cosine[row]):
            return (pairs * (y - p[1] - (1 - p[1]) * np.exp(-p[0] * lag)) ** 2).sum()

        best = minimize(loss, [0.2, 0.1], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000})
        np.testing.assert_allclose([found.beta[row], found.offset[row]], best.x, rtol=1e-5)
        assert found.squares[row] == pytest.approx(best.fun, rel=1e-9)


@pytest.mark.parametrize(("name", "truth"), [("beta", Truth().beta), ("offset", Truth().offset)])
def test_intervals_of_the_offset_form_cover_the_planted_value(offset_heads, name, truth):
    fit = offset_heads.sel(gram="offset")
    inside = (fit[f"{name}_lower"] < truth) & (fit[f"{name}_upper"] > truth)
    assert int(inside.sum()) >= least_expected(inside.size)


def test_intervals_of_rho0_cover_the_planted_value(offset_heads):
    inside = (offset_heads["rho0_lower"] < Truth().rho0) & (offset_heads["rho0_upper"] > Truth().rho0)
    assert int(inside.sum()) >= least_expected(inside.size)
    spread = offset_heads["rho0_spread"]
    assert float(spread.mean()) == pytest.approx(Spread().sink, abs=4 * float(spread.std()) / np.sqrt(spread.size))


def test_offset_is_preferred_where_there_is_one_and_only_there(offset_heads):
    assert offset_heads["offset_preferred"].all()
    assert (offset_heads["mae_by_lag"].sel(gram="offset") < offset_heads["mae_by_lag"].sel(gram="exponential")).all()
    plain = fit_similarity(capture(Truth(offset=0.0), sizes=MANY, seed=4))
    # Left-out loss with the one-standard-error rule keeps a true exponential in more than 9 of 10 heads.
    assert float(plain["offset_preferred"].mean()) < 0.15
    inside = (plain["beta_lower"] < Truth().beta) & (plain["beta_upper"] > Truth().beta)
    assert int(inside.sel(gram="exponential").sum()) >= least_expected(60)


def test_left_out_loss_is_that_of_a_refit_by_lmfit():
    data = capture(sizes=Sizes(documents=3, kv_heads=1, heads=1, positions=40), seed=5)
    fit = fit_similarity(data)
    lag, pairs, cosine = np.arange(1, 39.0), 39 - np.arange(1, 39.0), data["cosine_mean"][:, 0, 0].values.astype(float)
    loss = []
    for k in range(3):
        others = np.delete(cosine, k, axis=0).mean(axis=0)
        result = decay.MODELS["exponential"].fit(others, beta=0.2, lag=lag, weights=np.sqrt(pairs), **LMFIT_KEYWORDS)
        loss.append((pairs * (cosine[k] - result.best_fit) ** 2).sum() / pairs.sum())
    assert float(fit["loss_left_out"].sel(gram="exponential").squeeze()) == pytest.approx(np.mean(loss), rel=1e-6)


def test_error_by_lag_weighs_lags_alike_and_negative_share_weighs_pairs():
    data = capture(sizes=Sizes(documents=2, kv_heads=1, heads=1, positions=6), seed=6)
    data["cosine_negative_fraction"][:, 0, 0] = [[0.0, 0.5, 1.0, 1.0], [0.2, 0.5, 0.0, 1.0]]
    fit = fit_similarity(data)
    mean = data["cosine_mean"][:, 0, 0].values.astype(float).mean(axis=0)
    beta = float(fit["beta"].sel(gram="exponential").squeeze())
    assert float(fit["mae_by_lag"].sel(gram="exponential").squeeze()) == pytest.approx(
        np.abs(mean - np.exp(-beta * np.arange(1, 5))).mean()
    )
    # Five content tokens: 4, 3, 2, 1 pairs at lags 1 to 4.
    assert float(fit["negative_fraction"].squeeze()) == pytest.approx((0.1 * 4 + 0.5 * 3 + 0.5 * 2 + 1.0) / 10)


def test_error_by_pair_is_the_integral_over_uniform_bins():
    random = np.random.default_rng(7)
    edges = np.linspace(-1, 1, 9)
    bins = Bins(left=edges[:-1], right=edges[1:], start=np.array([1.0, 3.0]), stop=np.array([2.0, 6.0]))
    counts = random.integers(0, 50, (2, 8)).astype(float)
    fine = (np.arange(2000) + 0.5) / 2000
    total = 0.0
    for at, lags in enumerate(([1, 2], [3, 4, 5, 6])):
        pairs = np.array([10 - k for k in lags])  # ten content tokens
        for lag, share in zip(lags, pairs / pairs.sum(), strict=True):
            x = bins.left[:, None] + fine * (bins.right - bins.left)[:, None]
            total += share * (counts[at] * np.abs(x - (0.2 + 0.8 * np.exp(-0.3 * lag))).mean(axis=1)).sum()
    assert mae_by_pair(counts, bins, 10, "offset", 0.3, 0.2) == pytest.approx(total / counts.sum(), rel=1e-5)


def test_error_by_pair_of_the_planted_model_is_that_of_its_noise():
    none = Spread(document_beta=0, document_offset=0)
    fit = fit_similarity(capture(Truth(beta=1.0), spread=none, sizes=Sizes(kv_heads=4), seed=8))
    # E|N(0, 0.1)| = 0.1 √(2/π); bins 0.025 wide add their uniform spread.
    expected = np.sqrt((0.1**2 + 0.025**2 / 12) * 2 / np.pi)
    np.testing.assert_allclose(fit["mae_by_pair"].sel(gram="offset"), expected, rtol=0.01)


@pytest.mark.parametrize("offset", [0.0, 0.3, -0.02])
def test_feasible_edge_is_where_the_smallest_eigenvalue_reaches_zero(offset):
    content, beta = 30, 0.4
    edge = float(feasible_edges(np.array(beta), np.array(offset), content))

    def smallest(rho0):
        lag = np.abs(np.subtract.outer(np.arange(content), np.arange(content)))
        gram = np.full((content + 1, content + 1), rho0)
        gram[1:, 1:] = by_lag("offset", lag, beta, offset)
        gram[0, 0] = 1.0
        return np.linalg.eigvalsh(gram)[0]

    assert smallest(edge * 1.001) < -1e-7 < 1e-12 < smallest(edge * 0.999)


def test_infeasible_grams_are_told():
    fit = fit_similarity(capture(Truth(rho0=0.6)))
    exponential, offset = (fit.sel(gram=form) for form in decay.FORMS)
    assert not exponential["feasible"].any()
    assert (abs(fit["rho0"]) > exponential["rho0_edge"]).all()
    assert (offset["rho0_edge"] > exponential["rho0_edge"]).all()
    negative = fit_similarity(capture(Truth(offset=-0.2))).sel(gram="offset")
    assert not negative["feasible"].any()
    assert np.isnan(negative["rho0_edge"]).all()


@pytest.mark.parametrize(("cosine", "beta"), [(1.0, 0.0), (0.0, 20.0), (-0.3, 20.0)])
def test_parameters_at_a_bound_are_flagged_and_have_no_error(cosine, beta):
    data = capture()
    data["cosine_mean"][:] = cosine
    fit = fit_similarity(data)
    assert (fit["beta"].sel(gram="exponential") == beta).all()
    assert fit["beta_at_bound"].all()
    assert fit["converged"].all()
    assert np.isnan(fit["beta_se"]).all()
    if cosine < 1:
        np.testing.assert_allclose(fit["offset"].sel(gram="offset"), cosine, atol=1e-6)


def test_one_document_has_estimates_but_no_errors():
    fit = fit_similarity(capture(sizes=Sizes(documents=1)))
    assert np.isfinite(fit["beta"]).all()
    assert np.isnan(fit["beta_se"]).all()
    assert np.isnan(fit["loss_left_out"]).all()
    assert fit["offset_preferred"].all()


def test_a_window_without_the_sink_has_no_rho0_and_counts_its_own_pairs():
    data = capture(sizes=Sizes(layers=2, window=(128, 40), positions=128), seed=9)
    data["cosine_mean"][:, 1, :, 39:] = 0.77  # beyond the window: must not be read
    fit = fit_similarity(data)
    assert np.isnan(fit["rho0"][1]).all()
    assert np.isnan(fit["rho0_edge"][:, 1]).all()
    assert fit["feasible"].sel(gram="offset")[1].all()
    pairs = 40 - np.arange(1, 40.0)
    cosine = data["cosine_mean"][:, 1, 0, :39].values.astype(float).mean(axis=0)[None]
    own = decay.solve("offset", np.arange(1, 40.0), cosine, pairs)
    assert float(fit["beta"].sel(gram="offset")[1, 0]) == pytest.approx(own.beta[0], rel=1e-9)
    model = by_lag("offset", np.arange(1, 40.0), own.beta[0], own.offset[0])
    assert float(fit["mae_by_lag"].sel(gram="offset")[1, 0]) == pytest.approx(np.abs(cosine[0] - model).mean(), rel=1e-9)


def test_five_tokens_and_a_missing_head_do_not_break_it():
    data = capture(sizes=Sizes(positions=5))
    data["cosine_mean"][:, 0, 1] = np.nan
    data["sink_cosine"][:, 0, 1] = np.nan
    fit = fit_similarity(data)
    assert np.isfinite(fit["beta"][:, 0, 0]).all()
    assert np.isnan(fit["beta"][:, 0, 1]).all()
    assert not fit["converged"][:, 0, 1].any()
    assert not fit["feasible"][:, 0, 1].any()
    assert np.isnan(fit["rho0"][0, 1])
    assert list(fit["documents"][0].values) == [8, 0]


def test_results_carry_their_names_units_and_float64(offset_heads):
    assert list(offset_heads["gram"].values) == list(similarity.FORMS)
    for name, variable in offset_heads.data_vars.items():
        assert {"long_name", "units", "symbol", "equation"} <= set(variable.attrs), name
        assert variable.dtype in (np.float64, np.int64, np.bool_), name
    assert (offset_heads["offset"].sel(gram="exponential") == 0).all()
