import numpy as np
import pytest

from geostat.statistics.mixture import share_of_heads

K, HEADS = 8, 90


def share(effect, random, noise=1.0):
    """Return the plain share of heads whose mean is not positive, and the mixture's."""
    x = effect + noise * random.standard_normal((K, effect.size))
    mean, se = x.mean(axis=0), x.std(axis=0, ddof=1) / np.sqrt(K)
    replicates = (x.sum(axis=0) - x) / (K - 1)
    return (mean <= 0).mean(), share_of_heads(mean, se, replicates, lambda value: value <= 0)


@pytest.mark.parametrize(("low", "high", "within"), [(-0.4, 1.0, 0.7), (-0.3, -0.3, 1.0)])
def test_the_share_is_unbiased_and_covered_where_the_plain_share_is_biased(low, high, within):
    random = np.random.default_rng(0)
    effect = np.where(np.arange(HEADS) < 0.7 * HEADS, low, high)
    plain, result = zip(*(share(effect, random) for _ in range(40)), strict=True)
    ends = np.array([(e.value, e.lower - 1e-9, e.upper + 1e-9) for e in result], dtype=float)
    value, lower, upper = ends.T
    assert abs(np.mean(plain) - within) > 0.05
    assert value.mean() == pytest.approx(within, abs=0.05)
    assert ((lower <= within) & (within <= upper)).mean() >= 0.85


def test_without_noise_the_share_equals_the_plain_share():
    effect = np.linspace(-1.005, 1.0, HEADS)
    plain, result = share(effect, np.random.default_rng(1), 1e-6)
    assert result.value == pytest.approx(plain, abs=0.01)
    assert result.upper - result.lower <= 1.5 / HEADS


@pytest.mark.parametrize(("documents", "heads"), [(8, 0), (2, 2)])
def test_without_heads_or_documents_the_share_is_nan(documents, heads):
    values = np.linspace(0.1, 0.2, heads)
    replicates = np.tile(values, (documents, 1))
    assert np.isnan(share_of_heads(values, values, replicates, lambda x: x <= 0).value)
