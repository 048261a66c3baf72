import numpy as np
import pytest
from support.noise import arma

from geostat.fits.weights.autocorrelation import autocovariance, background, lag_one, long_run_noise


def test_autocovariance_uses_pairs_of_known_tokens():
    row = np.array([[1.0, 2.0, np.nan, 3.0, 5.0]])
    assert autocovariance(row, 0)[0] == pytest.approx((1 + 4 + 9 + 25) / 4)
    assert autocovariance(row, 1)[0] == pytest.approx((2 + 15) / 2)
    assert np.isnan(autocovariance(row, 5)[0])


def density(rows, frequency):
    return np.median(background(rows).density(np.full(1, frequency)))


@pytest.mark.parametrize(
    ("phi", "theta"), [(0.0, 0.0), (0.55, 0.0), (0.9, 0.0), (-0.3, 0.0), (0.94, -0.7)]
)
def test_the_background_recovers_planted_noise(phi, theta):
    rows = arma(phi, theta, 200, 1024)
    result = background(rows)
    assert np.sqrt(density(rows, 0.0)) == pytest.approx((1 + theta) / (1 - phi), rel=0.12)
    assert np.median(result.variance) == pytest.approx(1.0, abs=0.03)
    frequency = 2 * np.pi * np.arange(4096) / 4096
    total = np.median(result.density(frequency).mean(axis=1))
    assert total == pytest.approx((rows**2).mean(), rel=0.05)


@pytest.mark.parametrize("phi", [0.0, 0.55, 0.8])
def test_newey_west_recovers_the_long_run_noise_of_an_autoregression(phi):
    rows = arma(phi, 0.0, 300, 1024)
    assert np.median(long_run_noise(rows)) == pytest.approx(1 / (1 - phi), rel=0.06)
    assert np.median(lag_one(rows)) == pytest.approx(phi, abs=0.02)


def test_newey_west_bandwidth_covers_dependence_after_prewhitening():
    # Two-step dependence: lag-one prewhitening alone would give 1.30; the long-run noise is 1.9.
    rows = arma(0.0, 0.0, 300, 2048)
    rows = rows[:, 2:] + 0.3 * rows[:, 1:-1] + 0.6 * rows[:, :-2]
    assert np.median(long_run_noise(rows)) == pytest.approx(1.9, rel=0.08)


@pytest.mark.parametrize("frequency", [0.0, 2.0])
def test_a_pure_tone_does_not_change_the_background(frequency):
    rows = arma(0.55, 0.0, 100, 1024)
    loud = rows + 1.5 * np.cos(2.0 * np.arange(1024))
    assert density(loud, frequency) == pytest.approx(density(rows, frequency), rel=0.1)


def test_gaps_exact_fits_and_empty_rows():
    rows = arma(0.55, 0.0, 100, 1024)
    rows[:, ::10] = np.nan
    assert np.nanmedian(lag_one(rows)) == pytest.approx(0.55, abs=0.03)
    exact, unknown = np.zeros((1, 40)), np.full((1, 40), np.nan)
    assert np.isnan(lag_one(exact)[0])
    assert long_run_noise(exact)[0] == background(exact).variance[0] == 0
    for result in (lag_one(unknown), long_run_noise(unknown), background(unknown).variance):
        assert np.isnan(result[0])
    short = background(np.array([[1.0, -1.0, 2.0]]))
    assert (short.phi[0], short.theta[0], short.variance[0]) == (0.0, 0.0, 2.0)
