import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import binom
from support.noise import arma

from geostat.fits.weights import surrogates
from geostat.fits.weights.autocorrelation import Background, background
from geostat.fits.weights.break_point_kernels import MIN_OSCILLATION
from geostat.fits.weights.break_points import search_monotone
from geostat.fits.weights.rivals import design, solve

POSITION = np.arange(1.0, 257)
WAVE = (POSITION > 40) & (POSITION < 215)
NOISE = Background(phi=np.array([0.4]), theta=np.array([-0.2]), variance=np.array([1.7]))


def residuals(rows, power_law=True):
    result = {name: values[:, None] for name, values in search_monotone(rows, 1).items()}
    position = np.arange(1.0, rows.shape[1] + 1)
    ramp = np.maximum(position - result["t2"], 0)
    monotone = rows - result["b"] - result["eta_tail"] * ramp
    if not power_law:
        return monotone
    b, slope = (values[:, None] for values in solve("power_law", position, rows))
    return surrogates.without_oscillation(
        monotone, rows - b - slope * design("power_law", position)
    )


def p_values_of(rows, power_law=True):
    residual = residuals(rows, power_law)
    return surrogates.p_values(rows, residual, background(residual), 1)


def whitened(row):
    """Return the innovations of a row in NOISE."""
    phi, theta = 0.4, -0.2
    out = np.empty(row.size)
    out[0] = row[0] / np.sqrt((1 + theta**2 + 2 * phi * theta) / (1 - phi**2))
    for t in range(1, out.size):
        out[t] = row[t] - phi * row[t - 1] - theta * out[t - 1]
    return out


def test_the_oscillation_statistic_is_the_largest_drop_over_blocks_and_frequencies():
    row = np.random.default_rng(1).normal(size=60)
    result = surrogates.statistics(row[None], row[None], NOISE, 1)["oscillation"][0]
    white = whitened(row) / np.sqrt(1.7)
    edges = np.unique(np.linspace(0, 60, surrogates.BLOCKS + 1).astype(int))
    best = 0.0
    for omega in np.pi * np.arange(1, 121) / 120:
        response = (1 - 0.4 * np.exp(-1j * omega)) / (1 - 0.2 * np.exp(-1j * omega))
        cosine = np.cos(omega * np.arange(1, 61) + np.angle(response))
        for a, begin in enumerate(edges):
            for end in edges[a + 1 :]:
                if end - begin >= max(MIN_OSCILLATION, 2 * np.pi / omega):
                    part, wave = white[begin:end], cosine[begin:end]
                    best = max(best, max(part @ wave, 0) ** 2 / (wave @ wave))
    assert result == pytest.approx(best, rel=1e-9)


def test_the_growth_statistic_is_the_largest_drop_by_a_rising_ramp():
    row = np.random.default_rng(2).normal(size=50) + 0.05 * np.maximum(np.arange(50) - 30, 0)
    result = surrogates.statistics(row[None], row[None], NOISE, 1)["growth"][0]
    white, level = whitened(row), whitened(np.ones(50))
    flat = ((white - level * (white @ level) / (level @ level)) ** 2).sum()
    best = 0.0
    for t2 in range(49):
        ramp = np.concatenate([np.zeros(t2), whitened(np.arange(50.0 - t2))])
        solution, squares = np.linalg.lstsq(np.stack([level, ramp], axis=1), white, rcond=None)[:2]
        if solution[1] > 0:
            best = max(best, (flat - squares[0]) / 1.7)
    assert result == pytest.approx(best, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("phi", "theta"), [(0.0, 0.0), (0.55, 0.0), (0.9, 0.0), (0.94, -0.7)])
def test_false_positives_in_noise_are_at_the_nominal_level(phi, theta):
    rows = arma(phi, theta, 400, 256, seed=3)
    result = p_values_of(rows)
    for phase in ("oscillation", "growth"):
        assert (result[f"{phase}_p"] <= 0.05).sum() <= binom.ppf(0.999, 400, 0.055), phase
    if phi == 0.9:  # under a white-noise null it would be detected
        residual, zeros = residuals(rows), np.zeros(400)
        white = Background(phi=zeros, theta=zeros, variance=(residual**2).mean(axis=1))
        under_white = surrogates.statistics(
            rows - rows.mean(axis=1, keepdims=True), residual, white, 1
        )
        for phase, least in (("oscillation", 0.7), ("growth", 0.2)):
            critical = np.quantile(surrogates.surrogates(256, 1)[phase], 0.95)
            assert (under_white[phase] > critical).mean() > least, phase


def test_planted_phases_are_detected():
    noise = arma(0.55, 0.0, 40, 256, seed=4)
    wave = np.where(WAVE, np.cos(1.3 * POSITION), 0)
    growth = 8 * np.maximum(POSITION - 200, 0) / 56
    planted, inverted = noise + 1.2 * wave + growth, noise - 1.2 * wave - growth
    both, growth_only, reflected = (
        p_values_of(rows) for rows in (planted, noise + growth, inverted)
    )
    assert (both["oscillation_p"] == 1 / (1 + surrogates.SURROGATES)).mean() > 0.9
    assert (both["growth_p"] <= 0.002).all()
    assert (growth_only["growth_p"] <= 0.002).all()
    assert (growth_only["oscillation_p"] > 0.05).mean() > 0.85
    # The paper's cosine has a fixed phase and sign, which excludes a falling profile and an
    # inverted wave.
    assert (reflected["growth_p"] > 0.05).mean() > 0.9
    drop, inverted_drop = (
        surrogates.statistics(rows, residual, background(residual), 1)["oscillation"].mean()
        for rows, residual in ((rows, residuals(rows)) for rows in (planted, inverted))
    )
    assert inverted_drop < 0.8 * drop


def test_a_bend_does_not_cause_or_hide_an_oscillation():
    bent = 0.3 * arma(0.55, 0.0, 60, 256, seed=5) - 2.0 * np.log(257 - POSITION)
    assert (p_values_of(bent)["oscillation_p"] <= 0.05).sum() <= binom.ppf(0.999, 60, 0.055)
    rows = bent + 0.3 * np.where(WAVE, np.cos(0.6 * POSITION), 0)
    assert (p_values_of(rows)["oscillation_p"] <= 0.05).mean() > 0.7
    # If the misfit of the monotone form counted as noise, few would be detected.
    assert (p_values_of(rows, power_law=False)["oscillation_p"] <= 0.05).mean() < 0.4


def test_short_exact_and_constant_rows():
    short = p_values_of(np.random.default_rng(6).normal(size=(2, surrogates.MIN_TOKENS - 1)))
    assert np.isnan([short["oscillation_p"], short["growth_p"]]).all()
    exact = np.stack([np.maximum(POSITION[:40] - 30, 0) * 0.25, np.full(40, -3.0)])
    result = surrogates.p_values(exact, np.zeros((2, 40)), background(np.zeros((2, 40))), 1)
    assert_array_equal(result["growth_p"], [1 / (1 + surrogates.SURROGATES), 1.0])
    assert_array_equal(result["oscillation_p"], [1.0, 1.0])
