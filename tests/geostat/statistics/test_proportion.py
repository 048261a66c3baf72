import numpy as np
import pytest

from geostat.statistics.proportion import wilson

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
