import numpy as np
import pytest
from scipy import stats

from geostat.statistics.jackknife import PARTS, Interval, interval, interval_of, leave_one_out_mean, skewness, stored


def test_standard_error_of_a_mean_is_the_textbook_one():
    x = np.random.default_rng(1).normal(3, 2, (9, 5))
    found = interval(x.mean(axis=0), leave_one_out_mean(x))
    np.testing.assert_allclose(found.se, x.std(axis=0, ddof=1) / 3, rtol=1e-12)


def test_interval_uses_students_t_on_documents_minus_one():
    x = np.array([[1.0], [2.0], [4.0], [7.0]])
    found = interval(x.mean(axis=0), leave_one_out_mean(x))
    # t(3) at 0.975, from any table.
    np.testing.assert_allclose((found.upper - found.lower) / 2 / found.se, 3.182446, rtol=1e-6)


def test_interval_covers_the_truth_as_often_as_it_says():
    x = np.random.default_rng(2).normal(0, 1, (8, 4000))
    found = interval(x.mean(axis=0), leave_one_out_mean(x))
    covered = ((found.lower < 0) & (found.upper > 0)).mean()
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 4000)


def test_leave_one_out_mean_ignores_what_is_not_there():
    x = np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan], [8.0, np.nan, np.nan]])
    expected = np.array([[5.5, 5.0, np.nan], [4.5, np.nan, np.nan], [2.0, 5.0, np.nan]])
    np.testing.assert_array_equal(leave_one_out_mean(x), expected)


def test_one_huge_document_does_not_spoil_the_others_mean():
    x = np.array([[1e20], [1.0], [2.0]])
    assert leave_one_out_mean(x)[0, 0] == 1.5


@pytest.mark.parametrize("documents", [0, 1])
def test_fewer_than_two_documents_have_no_interval(documents):
    x = np.ones((documents, 3))
    found = interval(np.ones(3), leave_one_out_mean(x) if documents else x)
    assert np.isnan([found.se, found.lower, found.upper]).all()


def test_a_document_that_does_not_carry_the_head_does_not_count():
    x = np.array([[1.0], [2.0], [4.0], [np.nan]])
    with_it = interval(np.array([7 / 3]), leave_one_out_mean(x), np.isfinite(x))
    without = interval(np.array([7 / 3]), leave_one_out_mean(x[:3]))
    np.testing.assert_allclose([with_it.se, with_it.upper], [without.se, without.upper], rtol=1e-12)


def test_a_failed_replicate_leaves_no_interval():
    found = interval(np.array([1.0, 1.0]), np.array([[1.0, 1.0], [np.nan, 1.1], [1.2, 0.9]]))
    assert np.isnan(found.se[0])
    assert found.se[1] > 0


def test_log_interval_becomes_one_of_the_value_itself():
    found = Interval(se=np.array([0.1]), lower=np.log([2.0]), upper=np.log([8.0])).exp(np.array([4.0]))
    np.testing.assert_allclose([found.se[0], found.lower[0], found.upper[0]], [0.4, 2.0, 8.0])


def test_the_skewness_of_a_mean_is_that_of_the_documents():
    x = np.random.default_rng(3).gamma(2.0, size=(8, 5))
    expected = stats.skew(x, axis=0, bias=False)
    assert np.abs(expected).min() > 0.05
    np.testing.assert_allclose(interval(x.mean(axis=0), leave_one_out_mean(x)).skew, expected, rtol=1e-9)
    y = np.vstack([x, np.full((1, 5), np.nan)])
    np.testing.assert_allclose(interval(x.mean(axis=0), leave_one_out_mean(y), np.isfinite(y)).skew, expected, rtol=1e-9)


def test_two_documents_have_no_skewness_and_equal_ones_none_to_speak_of():
    assert np.isnan(interval(np.ones(1), np.array([[1.0], [2.0]])).skew).all()
    assert skewness(np.zeros((4, 1)), np.array([4])) == 0
    one_of_eight = np.array([[7.0]] + [[-1.0]] * 7)
    assert skewness(one_of_eight, np.array([8])) == pytest.approx(np.sqrt(8))


def test_what_is_stored_is_read_again():
    x = np.random.default_rng(4).normal(size=(5, 3))
    found = interval(x.mean(axis=0), leave_one_out_mean(x))
    kept = stored("x", x.mean(axis=0), found)
    assert set(kept) == {"x", "x_se", "x_lower", "x_upper", "x_skew", "x_without"}
    np.testing.assert_array_equal(kept["x_without"].T, leave_one_out_mean(x))
    assert all(np.array_equal(getattr(interval_of("x", kept), part), getattr(found, part)) for part in PARTS)
    assert set(stored("x", x[0], Interval(se=x[0], lower=x[0], upper=x[0]))) == {"x", "x_se", "x_lower", "x_upper"}
