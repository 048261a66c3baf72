"""Parts of `predicted`: moments given ‖s‖, Clark's maximum, variance and functions of a count."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import betabinom, binom, multivariate_normal, norm

from theory.arrays import FloatArray
from theory.editions.predicted.clark import (
    Law,
    by_spread,
    covariances,
    group_maxima,
    in_runs,
    larger_of_two,
    largest,
    leading_probabilities,
    tabled_cdf,
)
from theory.editions.predicted.counts import all_below, of_count, shared_variance, waves_at
from theory.editions.predicted.predict import conditional_law
from theory.head.gram import LagGram
from theory.head.ranked import rank_tokens, summarise


def test_moments_given_the_length_of_s_are_exact() -> None:
    gram = LagGram(np.array([1.0, 0.5, 0.1, -0.2, 0.0]), -0.2).matrix(5)
    norms = np.array([0.5, 1.0, 1.3, 0.8, 1.0])
    head = rank_tokens(np.array([0.3, 0.05, 0.1, 0.25, 0.2]), norms, gram, 0)
    covariance = head.cosines * np.outer(head.a, head.a)
    d, ratio, draws = 6, 0.7, 200_000
    law = conditional_law(head, summarise(head, np.array([3])), 0, ratio, d, power=1.0)
    factor, rng = np.linalg.cholesky(covariance), np.random.default_rng(0)
    y = np.einsum("kl,mld->mkd", factor, rng.standard_normal((draws, 5, d))) / np.sqrt(d)
    s = y[:, :3].sum(axis=1)
    # Only the regression of y_l on s enters here: s is stretched to the given length, and the
    # y_l follow.
    stretched = s * np.sqrt(law.t) / np.linalg.norm(s, axis=1, keepdims=True)
    slope = covariance[:3].sum(axis=0) / covariance[:3, :3].sum()
    y += slope[None, :, None] * (stretched - s)[:, None, :]
    seen = ((stretched[:, None] - y) ** 2).sum(axis=2) / law.t - 1
    assert law.t == pytest.approx(ratio * covariance[:3, :3].sum())
    products = np.einsum("mk,ml->mkl", seen - law.mean, seen - law.mean)
    expected = np.empty((5, 5))
    for k in range(5):
        covariances(law, k, 0, expected[k])
    for drawn, exact in ((seen, law.mean), (products, expected)):
        error = drawn.std(axis=0) / np.sqrt(draws)
        assert (np.abs(drawn.mean(axis=0) - exact) < 4.5 * error).all()
    np.testing.assert_allclose(np.diagonal(expected), law.variance, rtol=1e-12)


@pytest.mark.parametrize(
    ("rise", "variance", "other", "covariance"),
    [(0.3, 1.0, 2.0, 0.5), (-1.0, 0.5, 0.7, 0.55), (0.0, 1.0, 1.0, -0.9)],
)
def test_clarks_larger_of_two_is_exact(
    rise: float, variance: float, other: float, covariance: float
) -> None:
    def density(y: float) -> float:
        """Density of max(X, Z), by which of the two it is."""
        x_given, z_given = covariance / variance, covariance / other
        x_rest = np.sqrt(other - x_given * covariance)
        z_rest = np.sqrt(variance - z_given * covariance)
        x_is = norm.pdf(y, rise, np.sqrt(variance)) * norm.cdf(y, x_given * (y - rise), x_rest)
        z_is = norm.pdf(y, 0, np.sqrt(other)) * norm.cdf(y, rise + z_given * y, z_rest)
        return float(x_is + z_is)

    mean = quad(lambda y: y * density(y), -15, 15)[0]
    square = quad(lambda y: y * y * density(y), -15, 15)[0]
    found = larger_of_two(rise, variance, other, covariance)
    np.testing.assert_allclose(found[:2], [mean, square - mean**2], rtol=1e-7)
    assert found[2] == pytest.approx(norm.cdf(rise / np.sqrt(variance + other - 2 * covariance)))


def test_equal_normals_have_the_larger_mean() -> None:
    assert larger_of_two(0.2, 1.0, 1.0, 1.0) == (0.2, 1.0, 1.0, 0.0)
    assert larger_of_two(-0.2, 1.0, 1.0, 1.0) == (0.0, 1.0, 0.0, 1.0)
    assert larger_of_two(0.0, 0.0, 0.0, 0.0) == (0.0, 0.0, 1.0, 0.0)


def plain_law(mean: FloatArray, scale: FloatArray, correlation: FloatArray) -> Law:
    """Return normals of these deviations and (non-negative) correlations: with t = 0 and d = 2
    covariances are C̃_kl².
    """
    size, zero = np.sqrt(scale), np.zeros(len(mean))
    return Law(np.sqrt(correlation), size, zero, zero, np.ones(len(mean)), mean, scale**2, 0.0, 2.0)


def test_clarks_maximum_of_three_and_its_covariances() -> None:
    correlation = np.array(
        [[1, 0.6, 0.2, 0.5], [0.6, 1, 0.4, 0.3], [0.2, 0.4, 1, 0.1], [0.5, 0.3, 0.1, 1]]
    )
    mean, scale = np.array([0.0, 0.4, -0.3, 9.0]), np.array([1.0, 0.7, 1.5, 1.2])
    law = plain_law(mean, scale, correlation)
    x = np.random.default_rng(1).multivariate_normal(
        mean, correlation * np.outer(scale, scale), 400_000
    )
    for members, slack in ([0, 1], 0.0), ([0, 1, 2], 0.01):
        rows, share = np.empty((len(members), 4)), np.empty(len(members))
        found, load = largest(law, np.array(members), rows, share), rows[0]
        y = x[:, members].max(axis=1)
        # Two are exact; with a third, Clark takes the larger of the first two as normal: off by a
        # hundredth.
        assert abs(y.mean() - found[0]) < 4.5 * y.std() / np.sqrt(len(y)) + slack
        assert abs(y.var() - found[1]) < 0.02 * found[1]
        products = (y - y.mean())[:, None] * (x - x.mean(axis=0))
        error = products.std(axis=0) / np.sqrt(len(y))
        assert (np.abs(products.mean(axis=0) - load) < 4.5 * error + 2 * slack).all()
        assert share.sum() == pytest.approx(1)


def test_neighbours_are_merged_first() -> None:
    # Twenty tokens in ten pairs of twins: within a pair nothing is lost, and a tree merges ten like
    # maxima instead of twenty.
    pairs = np.kron(np.eye(10), np.ones((2, 2)))
    law = plain_law(np.zeros(20), np.ones(20), pairs)
    order, rows = np.arange(20), np.empty((20, 20))
    mean, variance = largest(law, order, rows, np.empty(20))
    tops = np.random.default_rng(4).standard_normal((400_000, 10)).max(axis=1)
    assert mean == pytest.approx(tops.mean(), rel=0.01)
    assert variance == pytest.approx(tops.var(), rel=0.2)
    apart, _ = largest(law, np.r_[order[::2], order[1::2]], rows, np.empty(20))
    assert abs(mean - tops.mean()) < abs(apart - tops.mean())


def test_groups_are_of_like_spread_and_of_like_chances() -> None:
    mean = np.array([0.0, 0.1, 0.2, 0.1, 0.0, -40.0])
    law = plain_law(mean, np.array([5.0, 4.0, 0.5, 0.4, 4.5, 1.0]), np.eye(6))
    members, first = by_spread(law, 0, 6, 1.5, np.array([3.0, 2.0, 1.0, 0.0, 4.0, 5.0]))
    # The last token cannot lead; inside a group by place.
    np.testing.assert_array_equal(members, [1, 0, 4, 3, 2])
    np.testing.assert_array_equal(first, [0, 3, 5])
    # The wide ones lead nearly always, each about a third of the time.
    np.testing.assert_array_equal(in_runs(law, members, first, 3), [0, 1, 2, 3, 5])
    np.testing.assert_array_equal(in_runs(law, members, first, 1), [0, 3, 5])
    mean, spread = law.mean[members], np.sqrt(law.variance[members])
    alone = np.random.default_rng(3).normal(mean, spread, (200_000, 5)).argmax(axis=1)
    shares = np.bincount(alone, minlength=5) / 200_000
    np.testing.assert_allclose(leading_probabilities(mean, spread), shares, atol=0.02)


def test_groups_keep_their_moments_and_covariances() -> None:
    correlation = np.full((5, 5), 0.3) + 0.7 * np.eye(5)
    mean, scale = np.array([0.0, 0.1, 0.2, 0.1, 0.0]), np.array([1.0, 0.9, 1.1, 0.8, 1.0])
    law = plain_law(mean, scale, correlation)
    groups = group_maxima(law, np.array([3, 2, 1, 0, 4]), np.array([0, 2, 5]))
    covariance = correlation * np.outer(scale, scale)
    x = np.random.default_rng(2).multivariate_normal(mean, covariance, 400_000)
    tops = np.stack([x[:, [3, 2]].max(axis=1), x[:, [1, 0, 4]].max(axis=1)])
    np.testing.assert_allclose(groups.mean, tops.mean(axis=1), atol=0.01)
    np.testing.assert_allclose(groups.variance, tops.var(axis=1), rtol=0.02)
    np.testing.assert_allclose(groups.between[[0, 1], [1, 0]], np.cov(tops)[0, 1], atol=0.01)
    load = [np.cov(tops[0], x[:, k])[0, 1] for k in range(5)]
    np.testing.assert_allclose(groups.load[0], load, atol=0.01)


@pytest.mark.parametrize(
    ("correlation", "tolerance"),
    [(0.0, 1e-12), (0.2, 1e-4), (0.5, 0.003), (0.8, 0.01), (1.0, 1e-12)],
)
def test_shared_variance_of_a_count_is_that_of_two_normals(
    correlation: float, tolerance: float
) -> None:
    heights = np.array([-0.8, 0.3])
    matrix = np.array([[1, correlation], [correlation, 1]])
    law, density = plain_law(np.zeros(2), np.ones(2), matrix), norm.pdf(heights)
    second, third = heights / np.sqrt(2), (heights**2 - 1) / np.sqrt(6)
    waves = np.stack([density, density * second, density * third, norm.cdf(heights)])[None]
    found = shared_variance(law, 0, np.zeros((1, 2)), np.ones((1, 2)), np.array([0, 1]), waves)[0]
    pair = multivariate_normal(cov=matrix, allow_singular=True)
    both = norm.cdf(heights.min()) if correlation == 1 else pair.cdf(heights)
    assert found == pytest.approx(2 * (both - norm.cdf(heights).prod()), abs=2 * tolerance)


def test_shared_variances_of_several_maxima_are_those_of_each() -> None:
    rng = np.random.default_rng(4)
    factor = rng.uniform(size=(9, 3))
    correlation = factor @ factor.T + np.eye(9)
    correlation /= np.sqrt(np.outer(np.diag(correlation), np.diag(correlation)))
    law, load = plain_law(np.zeros(9), np.ones(9), correlation), rng.uniform(0, 0.6, (3, 9))
    rest, waves = np.sqrt(1 - load**2), np.empty((5, 4, 9), dtype=np.float32)
    for x, heights in enumerate(rng.normal(size=(5, 9))):
        waves_at(heights, np.ones(9), np.zeros(9, dtype=np.bool_), waves[x])
    first = np.array([0, 2, 2, 5])
    together = shared_variance(law, 0, load, rest, first, waves)
    for x, p in enumerate([0, 0, 2, 2, 2]):
        own = (load[p : p + 1], rest[p : p + 1], np.array([0, 1]), waves[x : x + 1])
        alone = shared_variance(law, 0, *own)
        assert together[x] == alone[0] != 0


def test_the_tabled_normal_law_has_ten_digits() -> None:
    x = np.concatenate([np.linspace(-6.5, 6.5, 100_001), [-np.inf, np.inf, -6.0, 6.0]])
    np.testing.assert_allclose([tabled_cdf(value) for value in x], norm.cdf(x), rtol=0, atol=1.1e-9)
    inside = x[np.abs(x) < 6]
    found = [tabled_cdf(value) for value in inside]
    np.testing.assert_allclose(found, norm.cdf(inside), rtol=0, atol=1e-10)


LAWS = (binom(20, 0.3), betabinom(20, 0.4, 1.1), betabinom(20, 3, 1))


def test_counts_with_known_laws() -> None:
    size, most, k = 3, 20, np.arange(21)
    outer = size / (size + k), 2 * size / (2 * size + k)
    known = [(law.mean(), law.var(), [float(law.pmf(k) @ f) for f in outer]) for law in LAWS]
    known.append((10.0, 100.0, [(1 + f[-1]) / 2 for f in outer]))  # all or nothing, half the time
    known.append((10.0, 0.0, [f[10] for f in outer]))  # half below surely
    known.append((0.0, 0.0, [1, 1]))  # none below
    for mean, variance, expected in known:
        found = of_count(mean, variance, most, size, False)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    # Inner radius: 2R/(1+R) at K = 1 of 3 outside is 4/5; to second order its curvature is
    # 4N/(2N−K)³.
    np.testing.assert_allclose(of_count(1.0, 0.0, 3, 3, True), [2 / 3, 4 / 5])
    np.testing.assert_allclose(of_count(1.0, 0.1, 3, 3, True), [2 / 3, 4 / 5 - 0.1 * 6 / 125])


@pytest.mark.parametrize("shared", [-0.15, 0.0, 0.3, 0.7, 0.95])
def test_chance_that_all_of_several_normals_stay_below(shared: float) -> None:
    heights = np.array([0.8, -0.2, 0.4, 1.5, 0.0])
    correlation = shared + (1 - shared) * np.eye(5)
    chained = 0.7 ** np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    tolerance = 0.012 if shared < 0.9 else 0.03
    for matrix in (correlation, chained):
        found = all_below(heights.copy(), matrix.copy(), *nothing_counted(5))
        assert found == pytest.approx(chance_below(matrix, heights), abs=tolerance)
    one = all_below(heights[:1].copy(), np.eye(1), *nothing_counted(1))
    assert one == pytest.approx(norm.cdf(0.8))
    assert all_below(np.array([-40.0, 1.0]), np.eye(2), *nothing_counted(2)) == 0.0


def chance_below(matrix: FloatArray, heights: FloatArray) -> float:
    law = multivariate_normal(cov=matrix, allow_singular=True)
    return law.cdf(heights, rng=np.random.default_rng(0))


def nothing_counted(rivals: int) -> tuple[FloatArray, FloatArray]:
    return np.empty(0), np.empty((rivals, 0))


@pytest.mark.parametrize("follow", [-0.6, 0.0, 0.4, 0.8])
def test_what_is_counted_follows_the_rivals_below(follow: float) -> None:
    # P{X <= h | two rivals below their heights}, of three normals; the tally is near the exact
    # one, and 0.2 off where rivals are ignored.
    rivals, h = np.array([-0.3, 0.5]), 0.2
    matrix = np.array([[1, 0.3, follow], [0.3, 1, follow / 2], [follow, follow / 2, 1]])
    whole, both = chance_below(matrix, np.array([*rivals, h])), chance_below(matrix[:2, :2], rivals)
    counted, shared = np.array([h, 9.0]), np.array([[follow, follow], [follow / 2, follow / 2]])
    assert all_below(rivals.copy(), matrix[:2, :2].copy(), counted, shared) == pytest.approx(
        both, abs=0.005
    )
    assert norm.cdf(counted[0]) == pytest.approx(whole / both, abs=0.02)
    assert counted[1] == 9.0  # beyond reach of any rival
