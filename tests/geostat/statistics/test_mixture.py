"""Share of heads by a mixture: noise does not move it as it moves the estimates."""

import numpy as np
import pytest

from geostat.statistics.mixture import share_of_heads

K, HEADS = 8, 90


def share(effect: np.ndarray, random: np.random.Generator, noise: float = 1.0):
    x = effect + noise * random.standard_normal((K, effect.size))
    mean, se = x.mean(axis=0), x.std(axis=0, ddof=1) / np.sqrt(K)
    return (mean <= 0).mean(), share_of_heads(
        mean, se, (x.sum(axis=0) - x) / (K - 1), lambda value: value <= 0
    )


@pytest.mark.parametrize(("low", "high", "within"), [(-0.4, 1.0, 0.7), (-0.3, -0.3, 1.0)])
def test_a_share_is_found_that_estimates_get_wrong_and_its_interval_holds_it(low, high, within):
    random = np.random.default_rng(0)
    effect = np.where(np.arange(HEADS) < 0.7 * HEADS, low, high)
    plain, found = zip(*(share(effect, random) for _ in range(40)), strict=True)
    values = np.array([float(one.value) for one in found])
    assert abs(np.mean(plain) - within) > 0.05
    assert values.mean() == pytest.approx(within, abs=0.05)
    held = [float(one.lower) - 1e-9 <= within <= float(one.upper) + 1e-9 for one in found]
    assert np.mean(held) >= 0.85


def test_without_noise_it_is_the_plain_share():
    random = np.random.default_rng(1)
    effect = np.linspace(-1.005, 1.0, HEADS)
    plain, found = share(effect, random, 1e-6)
    assert found.value == pytest.approx(plain, abs=0.01)
    assert found.upper - found.lower <= 1.5 / HEADS


def test_without_heads_or_documents_there_is_none():
    empty = np.empty(0)
    assert np.isnan(share_of_heads(empty, empty, np.empty((8, 0)), lambda x: x <= 0).value)
    two = np.array([0.1, 0.2])
    assert np.isnan(share_of_heads(two, two, np.stack([two, two]), lambda x: x <= 0).value)
