import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom
from support.noise import arma

from geostat.fits.weights.autocorrelation import Background, background
from geostat.fits.weights.break_point_kernels import MIN_OSCILLATION
from geostat.fits.weights.break_points import search_monotone
from geostat.fits.weights.identifiability.surrogates import (
    BLOCKS,
    FEWEST,
    SURROGATES,
    p_values,
    statistics,
    surrogates,
    without_oscillation,
)
from geostat.fits.weights.rivals import design, solve


def residuals(rows, power_law=True):
    found = search_monotone(rows, 1)
    position = np.arange(1.0, rows.shape[1] + 1)
    monotone = (
        rows
        - found["b"][:, None]
        - found["eta_tail"][:, None] * np.maximum(position - found["t2"][:, None], 0)
    )
    if not power_law:
        return monotone
    b, slope = solve("power_law", position, rows)
    return without_oscillation(
        monotone, rows - b[:, None] - slope[:, None] * design("power_law", position)
    )


def judged(rows):
    left = residuals(rows)
    return p_values(rows, left, background(left), 1)


def filtered(rows, phi, theta):
    out = lfilter([1.0, -phi], [1.0, theta], rows)
    out[0] /= np.sqrt((1 + theta**2 + 2 * phi * theta) / (1 - phi**2))
    for t in range(1, out.size):
        out[t] = rows[t] - phi * rows[t - 1] - theta * out[t - 1]
    return out


def test_the_oscillation_is_the_largest_drop_over_blocks_and_frequencies():
    row = np.random.default_rng(1).normal(size=60)
    noise = Background(phi=np.array([0.4]), theta=np.array([-0.2]), variance=np.array([1.7]))
    found = statistics(row[None], row[None], noise, 1)["oscillation"][0]
    white = filtered(row, 0.4, -0.2) / np.sqrt(1.7)
    edges = np.unique(np.linspace(0, 60, BLOCKS + 1).astype(int))
    best = 0.0
    for omega in np.pi * np.arange(1, 121) / 120:
        response = (1 - 0.4 * np.exp(-1j * omega)) / (1 - 0.2 * np.exp(-1j * omega))
        cosine = np.cos(omega * np.arange(1, 61) + np.angle(response))
        for a, begin in enumerate(edges):
            for end in edges[a + 1 :]:
                if end - begin >= max(MIN_OSCILLATION, 2 * np.pi / omega):
                    part, wave = white[begin:end], cosine[begin:end]
                    best = max(best, max(part @ wave, 0) ** 2 / (wave @ wave))
    assert found == pytest.approx(best, rel=1e-9)


def test_growth_is_the_largest_drop_by_a_rising_ramp_beside_a_constant():
    row = np.random.default_rng(2).normal(size=50) + 0.05 * np.maximum(np.arange(50) - 30, 0)
    noise = Background(phi=np.array([0.4]), theta=np.array([-0.2]), variance=np.array([1.7]))
    found = statistics(row[None], row[None], noise, 1)["growth"][0]
    white, level = filtered(row, 0.4, -0.2), filtered(np.ones(50), 0.4, -0.2)
    flat = ((white - level * (white @ level) / (level @ level)) ** 2).sum()
    best = 0.0
    for t2 in range(49):
        ramp = np.concatenate([np.zeros(t2), filtered(np.arange(50.0 - t2), 0.4, -0.2)])
        solution, squares = np.linalg.lstsq(np.stack([level, ramp], axis=1), white, rcond=None)[:2]
        if solution[1] > 0:
            best = max(best, (flat - squares[0]) / 1.7)
    assert found == pytest.approx(best, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("phi", "theta"), [(0.0, 0.0), (0.55, 0.0), (0.9, 0.0), (0.94, -0.7)])
def test_noise_is_called_an_oscillation_no_more_often_than_stated(phi, theta):
    rows = arma(phi, theta, 400, 256, seed=3)
    found = judged(rows)
    most = binom.ppf(0.999, 400, 0.055)
    assert (found["oscillation_p"] <= 0.05).sum() <= most
    assert (found["growth_p"] <= 0.05).sum() <= most
    if phi == 0.9:  # taken as white noise, it would be
        left = residuals(rows)
        white = Background(phi=np.zeros(400), theta=np.zeros(400), variance=(left**2).mean(axis=1))
        taken = statistics(rows - rows.mean(axis=1, keepdims=True), left, white, 1)
        assert (
            taken["oscillation"] > np.quantile(surrogates(256, 1)["oscillation"], 0.95)
        ).mean() > 0.7
        assert (taken["growth"] > np.quantile(surrogates(256, 1)["growth"], 0.95)).mean() > 0.2


def test_what_is_planted_is_found():
    position = np.arange(1, 257)
    noise = arma(0.55, 0.0, 40, 256, seed=4)
    wave = np.where((position > 40) & (position < 215), np.cos(1.3 * position), 0)
    growth = 8 * np.maximum(position - 200, 0) / 56
    planted, inverted = noise + 1.2 * wave + growth, noise - 1.2 * wave - growth
    both, alone, upside_down = (judged(rows) for rows in (planted, noise + growth, inverted))
    assert (both["oscillation_p"] == 1 / (1 + SURROGATES)).mean() > 0.9
    assert (both["growth_p"] <= 0.002).all()
    assert (alone["growth_p"] <= 0.002).all()
    assert (alone["oscillation_p"] > 0.05).mean() > 0.85
    # The paper's cosine has a phase and a sign: neither a falling profile nor an inverted wave is
    # it.
    assert (upside_down["growth_p"] > 0.05).mean() > 0.9
    drops = [
        statistics(rows, left, background(left), 1)["oscillation"].mean()
        for rows, left in ((rows, residuals(rows)) for rows in (planted, inverted))
    ]
    assert drops[1] < 0.8 * drops[0]


def test_a_bend_neither_passes_for_an_oscillation_nor_hides_one():
    position = np.arange(1, 257)
    bent = 0.3 * arma(0.55, 0.0, 60, 256, seed=5) - 2.0 * np.log(257 - position)
    assert (judged(bent)["oscillation_p"] <= 0.05).sum() <= binom.ppf(0.999, 60, 0.055)
    wave = np.where((position > 40) & (position < 215), np.cos(0.6 * position), 0)
    rows = bent + 0.3 * wave
    assert (judged(rows)["oscillation_p"] <= 0.05).mean() > 0.7
    # Were the monotone form's misfit taken for noise, few would be found.
    left = residuals(rows, power_law=False)
    assert (p_values(rows, left, background(left), 1)["oscillation_p"] <= 0.05).mean() < 0.4


def test_short_exact_and_constant_rows():
    short = np.random.default_rng(6).normal(size=(2, FEWEST - 1))
    found = judged(short)
    assert np.isnan(found["oscillation_p"]).all()
    assert np.isnan(found["growth_p"]).all()
    position = np.arange(1.0, 41)
    exact = np.stack([np.maximum(position - 30, 0) * 0.25, np.full(40, -3.0)])
    found = p_values(exact, np.zeros((2, 40)), background(np.zeros((2, 40))), 1)
    np.testing.assert_array_equal(found["growth_p"], [1 / (1 + SURROGATES), 1.0])
    np.testing.assert_array_equal(found["oscillation_p"], [1.0, 1.0])
