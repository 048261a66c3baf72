"""Moderated errors: variances and skewnesses are shrunk as far as chance explains their spread, and
intervals hold the truth as often as they say.
"""

import numpy as np
import pytest
from scipy import stats

from geostat.statistics.jackknife import Estimate, document_mean, jackknife, leave_one_out_mean
from geostat.statistics.moderation import HEADS, Errors, moderated, over_heads

K = 8


def of_means(x: np.ndarray) -> Errors:
    """Documents (document, head)."""
    found = document_mean(x)
    assert found.skew is not None
    assert found.documents is not None
    return moderated(found.se, found.skew, found.documents)


def test_variances_that_differ_by_chance_alone_become_one():
    x = np.random.default_rng(0).standard_normal((K, 3000))
    found = of_means(x)
    assert found.se == pytest.approx(1 / np.sqrt(K), rel=0.05)
    assert found.degrees.min() > 100


def test_prior_degrees_of_freedom_are_those_planted():
    """Variances drawn as d₀s₀²/χ²(d₀), the law that the method assumes."""
    random = np.random.default_rng(1)
    scale = np.sqrt(6 * 4 / random.chisquare(6, 20_000))
    x = scale * random.standard_normal((K, 20_000))
    found = of_means(x)
    assert found.degrees == pytest.approx(6 + K - 1, abs=0.5)
    d, own = K - 1, x.var(axis=0, ddof=1)
    assert K * found.se**2 == pytest.approx((6 * 4 + d * own) / (6 + d), rel=0.05)


def test_a_skewness_that_all_heads_share_becomes_their_mean_and_one_of_their_own_stays():
    random = np.random.default_rng(2)
    same = random.standard_normal((K, 2000))
    assert of_means(same).skew == pytest.approx(stats.skew(same, bias=False).mean(), abs=0.15)
    each = np.where(np.arange(2000) % 2, 1, -1) * random.exponential(size=(K, 2000))
    found, own = of_means(each).skew, stats.skew(each, bias=False)
    assert np.corrcoef(found, own)[0, 1] > 0.999
    assert 0.3 < found.std() / own.std() < 0.9


@pytest.mark.parametrize("unlike", [0.0, 1.0])
@pytest.mark.parametrize(
    ("draw", "least"),
    [
        (lambda random, shape: random.standard_normal(shape), 0.94),
        (lambda random, shape: random.gamma(4, size=shape) - 4, 0.94),
        (lambda random, shape: random.exponential(size=shape) - 1, 0.93),
    ],
)
def test_intervals_of_ninety_heads_hold_the_truth(draw, least: float, unlike: float):
    random, held = np.random.default_rng(3), []
    for _ in range(150):
        x = draw(random, (K, 90)) * np.exp(unlike * random.standard_normal(90))
        found = over_heads(document_mean(x), [0])
        held.append(((found.lower < 0) & (found.upper > 0)).mean())
    assert least < np.mean(held) < 0.965


def test_limits_are_where_the_tails_are_two_and_a_half_percent():
    for skew in (-2.0, 0.0, 1e-12, 1.3):
        for degrees in (7.0, 20.0, 400.0):
            one = Errors(
                se=np.array([0.3]),
                degrees=np.array([degrees]),
                skew=np.array([skew]),
                documents=np.array([8.0]),
            )
            lower, upper = one.limits(np.array([1.0]))
            assert one.tails(1.0 - lower)[1] == pytest.approx(0.025, rel=1e-6)
            assert one.tails(1.0 - upper)[0] == pytest.approx(0.025, rel=1e-6)


def test_hall_s_transformation_where_a_variance_is_a_head_s_own():
    g, t = 0.8, np.array([-1.7])
    one = Errors(
        se=np.ones(1), degrees=np.full(1, 7.0), skew=np.full(1, g), documents=np.full(1, 8.0)
    )
    u = t / np.sqrt(8)
    expected = np.sqrt(8) * (u + g * u**2 / 3 + g**2 * u**3 / 27 + g / 48)
    assert one.without_skew(t) == pytest.approx(expected)


@pytest.mark.parametrize(("heads", "documents"), [(HEADS - 1, 8), (100, 2)])
def test_too_few_heads_or_documents_leave_student_s_t(heads: int, documents: int):
    x = np.random.default_rng(4).standard_normal((documents, heads))
    plain = document_mean(x)
    found = over_heads(plain, [0])
    assert np.array_equal(found.lower, plain.lower)
    assert np.array_equal(found.upper, plain.upper)


def test_a_head_without_an_error_or_with_one_of_nothing_stays_as_it_is():
    x = np.random.default_rng(5).standard_normal((K, 40))
    x[:, 0], x[:, 1] = 2.0, np.nan
    plain = document_mean(x)
    found = over_heads(plain, [0])
    assert found.lower[0] == found.upper[0] == 2.0
    assert np.isnan(found.lower[1])
    assert (found.lower[2:] != plain.lower[2:]).all()


def test_limits_are_made_on_the_scale_on_which_they_were_made():
    x = np.random.default_rng(6).standard_normal((K, 50))
    log = jackknife(x.mean(axis=0), leave_one_out_mean(x))
    carried = over_heads(log.exp(np.exp(log.value)), [0])
    assert carried.lower == pytest.approx(np.exp(over_heads(log, [0]).lower))
    assert carried.upper == pytest.approx(np.exp(over_heads(log, [0]).upper))


def test_forms_have_heads_of_their_own():
    x = np.random.default_rng(7).standard_normal((K, 2, 30)) * np.array([[1.0], [100.0]])
    whole = over_heads(document_mean(x), [1])
    for form in range(2):
        assert whole.lower[form] == pytest.approx(over_heads(document_mean(x[:, form]), [0]).lower)


def test_what_is_no_jackknife_keeps_its_limits():
    one = np.ones(30)
    plain = Estimate(value=one, se=one, lower=one - 1, upper=one + 1)
    assert over_heads(plain, [0]) is plain
