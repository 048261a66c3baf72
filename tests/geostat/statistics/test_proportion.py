import numpy as np
import pytest

from geostat.statistics.proportion import share_over_documents, wilson

Z = 1.959964


@pytest.mark.parametrize("trials", [1, 3, 8, 100])
def test_limits_solve_wilson_s_equation(trials):
    """Wilson's limits are the p with (share − p)² = z² p(1 − p)/n."""
    for successes in {0, 1, trials // 2, trials}:
        share = successes / trials
        result = wilson(np.array([successes]), np.array([trials]))
        expected = np.sort(np.roots([1 + Z**2 / trials, -(2 * share + Z**2 / trials), share**2]))
        assert [result.lower[0], result.upper[0]] == pytest.approx(expected, abs=1e-7)
        assert result.value[0] == share
        assert result.se[0] == pytest.approx((expected[1] - expected[0]) / (2 * Z), rel=1e-6)


def test_a_share_without_trials_is_nan():
    result = wilson(np.array([0]), np.array([0]))
    assert all(np.isnan(array).all() for array in result.arrays().values())


@pytest.mark.parametrize("documents", [3, 5, 8])
def test_intervals_of_means_near_one_cover_them(documents):
    """Precision at small N: 1/(1 + a count that is mostly 0); Student's t covers 49% to 74%."""
    random, covered = np.random.default_rng(documents), []
    rate = np.exp(random.normal(-1.5, 1.0, 200))
    truth = (1 / (1 + random.poisson(rate, (20_000, 200)))).mean(axis=0)
    for _ in range(100):
        values = 1 / (1 + random.poisson(rate, (documents, 200)))
        share = share_over_documents(values[..., None])
        covered.append((share.lower[:, 0] <= truth) & (truth <= share.upper[:, 0]))
    assert 0.92 < np.mean(covered) < 0.98
    near_one = truth > 0.9
    assert near_one.sum() > 50
    assert np.mean(np.array(covered)[:, near_one]) > 0.9


def test_the_dispersion_is_that_of_all_heads_at_one_size():
    random = np.random.default_rng(0)
    values = random.beta(3.0, 1.0, (4000, 50, 2))  # variance p(1 − p)/(3 + 1 + 1)
    values[..., 1] = random.random((4000, 50)) < 0.75  # binary: φ = 1
    share = share_over_documents(values)
    assert share.value == pytest.approx(values.mean(axis=0))
    for size, trials in ((0, 5 * 4000), (1, 4000)):
        p = share.value[:, size]
        assert share.se[:, size] == pytest.approx(np.sqrt(p * (1 - p) / trials), rel=0.02)


def test_documents_without_a_value_do_not_count():
    values = np.full((3, 4, 2), 0.5)
    values[:, :, 0] = np.random.default_rng(1).random((3, 4))
    values[0, 0] = np.nan
    values[1:, 1] = np.nan
    share = share_over_documents(values)
    assert share.value[0, 0] == pytest.approx(values[1:, 0, 0].mean())
    assert share.lower[0, 0] < share.value[0, 0] < share.upper[0, 0]
    assert np.isnan(share.lower[1]).all()  # one document
    assert share.value[1, 0] == values[0, 1, 0]
    assert share.lower[2, 1] == share.upper[2, 1] == 0.5  # no head differs between documents
    assert np.isnan(share_over_documents(values * np.nan).value).all()
