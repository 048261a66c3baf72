import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.noise import arma
from support.synthetic import capture

from geostat.fits.norms.fit import fit_norms
from geostat.fits.norms.trend import bandwidth, hac_errors, line_of_profile, trend


@given(st.floats(0.1, 100), st.floats(-0.9, 0.9), st.integers(3, 60))
def test_trend_of_a_line_is_its_relative_change(level, change, content):
    profile = level * (1 + change * np.linspace(-0.5, 0.5, content))
    assert float(trend(profile)) == pytest.approx(change, abs=1e-12)
    assert float(trend(profile[::-1])) == pytest.approx(-change, abs=1e-12)


def test_unknown_positions_are_ignored():
    random = np.random.default_rng(0)
    profile = random.uniform(1, 2, 40)
    profile[random.permutation(40)[:15]] = np.nan
    known = np.isfinite(profile)
    slope, _ = np.polyfit(np.arange(40)[known], profile[known], 1)
    assert float(trend(profile)) == pytest.approx(slope * 39 / profile[known].mean())


def test_trend_of_few_tokens_or_zero_norms_is_nan_and_of_a_constant_zero():
    assert np.isnan(trend(np.array([[1.0, 2.0], [np.nan, 1.0]]))).all()
    assert np.isnan(trend(np.array([1.0, np.nan, 2.0, np.nan])))
    assert np.isnan(trend(np.zeros(9)))
    assert np.isnan(trend(np.empty((3, 0)))).all()
    assert float(trend(np.full(9, 3.7))) == pytest.approx(0, abs=1e-15)


def newey_west(profile, lags):
    """Return the sandwich error of the slope of a regression on position."""
    x = np.column_stack([np.ones(profile.size), np.arange(profile.size)])
    inverse = np.linalg.inv(x.T @ x)
    scores = x * (profile - x @ (inverse @ x.T @ profile))[:, None]
    middle = scores.T @ scores
    for lag in range(1, lags + 1):
        product = scores[lag:].T @ scores[:-lag]
        middle += (1 - lag / (lags + 1)) * (product + product.T)
    return np.sqrt((inverse @ middle @ inverse)[1, 1])


def test_hac_error_equals_the_newey_west_formula():
    profile = 5 + np.random.default_rng(1).normal(size=200)
    assert bandwidth(200) == 19  # 1.3 √200 = 18.4
    assert bandwidth(4) == 3
    expected = newey_west(profile, 19) * 199 / profile.mean()
    assert hac_errors(profile[None])[0] == pytest.approx(expected, rel=1e-9)


def test_hac_error_is_right_under_autocorrelation_and_the_ols_error_too_small():
    profiles = 20 + arma(0.6, 0.0, 100, 600, seed=2)
    scatter = trend(profiles).std()
    lines = [line_of_profile(profile) for profile in profiles]
    robust = np.sqrt(np.mean([line.bse["trend"] ** 2 for line in lines]))
    by_ols = [line.mse_resid * line.normalized_cov_params["trend"]["trend"] for line in lines]
    ordinary = np.sqrt(np.mean(by_ols))
    margin = 4 * scatter / np.sqrt(2 * 100)  # four standard errors of a standard deviation
    assert 0.85 * scatter - margin < robust < scatter + margin  # Bartlett's kernel is biased low
    assert ordinary < 0.6 * scatter


def test_a_planted_trend_is_recovered():
    data = capture(seed=8)
    rise = 1 + 0.3 * np.linspace(-0.5, 0.5, 127)
    data["value_norm"][..., 1:] = data["value_norm"][..., 1:] * rise
    fit = fit_norms(data)
    assert (np.abs(fit["trend"] - 0.3) < 4 * fit["trend_se"]).all()
    assert (fit["trend_lower"] > 0.1).all()
