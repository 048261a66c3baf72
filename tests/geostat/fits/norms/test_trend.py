import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter
from support.synthetic import Sizes, capture

from geostat.fits.norms.fit import fit_norms
from geostat.fits.norms.trend import bandwidth, hac_errors, line_of_profile, trend
from geostat.fits.one_head import fit_head


@given(st.floats(0.1, 100), st.floats(-0.9, 0.9), st.integers(3, 60))
def test_trend_of_a_line_is_its_relative_change_over_the_document(level, change, content):
    profile = level * (1 + change * np.linspace(-0.5, 0.5, content))
    assert float(trend(profile)) == pytest.approx(change, abs=1e-12)
    assert float(trend(profile[::-1])) == pytest.approx(-change, abs=1e-12)


def test_unknown_positions_are_left_out_where_they_stand():
    random = np.random.default_rng(0)
    profile = random.uniform(1, 2, 40)
    profile[random.permutation(40)[:15]] = np.nan
    known = np.isfinite(profile)
    slope, _ = np.polyfit(np.arange(40)[known], profile[known], 1)
    assert float(trend(profile)) == pytest.approx(slope * 39 / profile[known].mean())


def test_too_few_tokens_or_no_length_have_no_trend_and_a_constant_has_none_to_speak_of():
    assert np.isnan(trend(np.array([[1.0, 2.0], [np.nan, 1.0]]))).all()
    assert np.isnan(trend(np.array([1.0, np.nan, 2.0, np.nan])))
    assert np.isnan(trend(np.zeros(9)))
    assert np.isnan(trend(np.empty((3, 0)))).all()
    assert float(trend(np.full(9, 3.7))) == pytest.approx(0, abs=1e-15)


def newey_west(profile, lags):
    """The sandwich of a regression on position, from the formula."""
    x = np.column_stack([np.ones(profile.size), np.arange(profile.size)])
    inverse = np.linalg.inv(x.T @ x)
    scores = x * (profile - x @ (inverse @ x.T @ profile))[:, None]
    middle = scores.T @ scores
    for lag in range(1, lags + 1):
        product = scores[lag:].T @ scores[:-lag]
        middle += (1 - lag / (lags + 1)) * (product + product.T)
    return np.sqrt((inverse @ middle @ inverse)[1, 1])


def test_robust_error_is_newey_and_wests_at_the_stated_bandwidth():
    profile = 5 + np.random.default_rng(1).normal(size=200)
    assert bandwidth(200) == 19  # 1.3 √200 = 18.4
    assert bandwidth(4) == 3
    expected = newey_west(profile, 19) * 199 / profile.mean()
    assert hac_errors(profile[None])[0] == pytest.approx(expected, rel=1e-9)


def test_under_autocorrelation_the_robust_error_is_the_scatter_of_slopes_and_the_plain_one_is_not():
    noise = lfilter([1.0], [1.0, -0.6], np.random.default_rng(2).normal(size=(300, 700)), axis=-1)[
        :, 100:
    ]
    profiles = 20 + noise
    scatter = trend(profiles).std()
    robust = np.sqrt(np.mean(hac_errors(profiles) ** 2))
    ordinary = np.sqrt(
        np.mean(
            [float(line.model.fit().bse["trend"]) ** 2 for line in map(line_of_profile, profiles)]
        )
    )
    margin = 4 * scatter / np.sqrt(2 * 300)  # four standard errors of a standard deviation
    assert 0.85 * scatter - margin < robust < scatter + margin  # Bartlett's kernel loses some of it
    assert ordinary < 0.6 * scatter


def test_statsmodels_report_of_a_head_is_one_call_away_and_the_same_fit():
    data = capture(sizes=Sizes(layers=2, heads=4, kv_heads=2), seed=1)
    fit = fit_norms(data).sel(layer=1, kv_head=1)
    result = fit_head(data, 1, 3, "norms", "trend")
    assert result.params["trend"] == pytest.approx(float(fit["trend"]), rel=1e-9)
    assert result.bse["trend"] == pytest.approx(float(fit["trend_se_hac"]), rel=1e-9)
    report = str(result.summary())
    assert "HAC" in report
    assert f"using {bandwidth(127)} lags" in report


def test_a_planted_trend_is_found_by_the_mean_over_documents():
    data = capture(seed=8)
    rise = 1 + 0.3 * np.linspace(-0.5, 0.5, 127)
    data["value_norm"][..., 1:] = data["value_norm"][..., 1:] * rise
    fit = fit_norms(data)
    assert (np.abs(fit["trend"] - 0.3) < 4 * fit["trend_se"]).all()
    assert (fit["trend_lower"] > 0.1).all()
