import numpy as np
import pytest
from scipy import stats

from geostat.datasets.variable import join, mapped
from geostat.statistics.jackknife import (
    Estimate,
    document_mean,
    jackknife,
    leave_one_out_mean,
    skewness,
)


def test_standard_error_of_a_mean_is_the_textbook_one():
    x = np.random.default_rng(1).normal(3, 2, (9, 5))
    found = jackknife(x.mean(axis=0), leave_one_out_mean(x))
    np.testing.assert_allclose(found.se, x.std(axis=0, ddof=1) / 3, rtol=1e-12)


def test_interval_uses_students_t_on_documents_minus_one():
    x = np.array([[1.0], [2.0], [4.0], [7.0]])
    found = jackknife(x.mean(axis=0), leave_one_out_mean(x))
    # t(3) at 0.975, from any table.
    np.testing.assert_allclose((found.upper - found.lower) / 2 / found.se, 3.182446, rtol=1e-6)


def test_interval_covers_the_truth_as_often_as_it_says():
    x = np.random.default_rng(2).normal(0, 1, (8, 4000))
    found = jackknife(x.mean(axis=0), leave_one_out_mean(x))
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
    found = jackknife(np.ones(3), leave_one_out_mean(x) if documents else x)
    assert np.isnan([found.se, found.lower, found.upper]).all()


def test_a_document_that_does_not_carry_the_head_does_not_count():
    x = np.array([[1.0], [2.0], [4.0], [np.nan]])
    with_it = jackknife(np.array([7 / 3]), leave_one_out_mean(x), np.isfinite(x))
    without = jackknife(np.array([7 / 3]), leave_one_out_mean(x[:3]))
    np.testing.assert_allclose([with_it.se, with_it.upper], [without.se, without.upper], rtol=1e-12)


def test_a_failed_replicate_leaves_no_interval():
    found = jackknife(np.array([1.0, 1.0]), np.array([[1.0, 1.0], [np.nan, 1.1], [1.2, 0.9]]))
    assert np.isnan(found.se[0])
    assert found.se[1] > 0


def test_log_interval_becomes_one_of_the_value_itself():
    found = Estimate(
        value=np.log([4.0]), se=np.array([0.1]), lower=np.log([2.0]), upper=np.log([8.0])
    ).exp(np.array([4.0]))
    np.testing.assert_allclose(
        [found.value[0], found.se[0], found.lower[0], found.upper[0]], [4.0, 0.4, 2.0, 8.0]
    )


def test_the_skewness_of_a_mean_is_that_of_the_documents():
    x = np.random.default_rng(3).gamma(2.0, size=(8, 5))
    expected = stats.skew(x, axis=0, bias=False)
    assert np.abs(expected).min() > 0.05
    np.testing.assert_allclose(
        jackknife(x.mean(axis=0), leave_one_out_mean(x)).skew, expected, rtol=1e-9
    )
    y = np.vstack([x, np.full((1, 5), np.nan)])
    np.testing.assert_allclose(
        jackknife(x.mean(axis=0), leave_one_out_mean(y), np.isfinite(y)).skew, expected, rtol=1e-9
    )


def test_two_documents_have_no_skewness_and_equal_ones_none_to_speak_of():
    assert np.isnan(jackknife(np.ones(1), np.array([[1.0], [2.0]])).skew).all()
    assert skewness(np.zeros((4, 1)), np.array([4])) == 0
    one_of_eight = np.array([[7.0]] + [[-1.0]] * 7)
    assert skewness(one_of_eight, np.array([8])) == pytest.approx(np.sqrt(8))


def test_a_parameter_at_its_bound_keeps_its_value_and_its_replicates_but_no_error():
    x = np.random.default_rng(4).normal(size=(5, 3))
    found = document_mean(x).with_error_where(np.array([True, False, True]))
    np.testing.assert_array_equal(found.value, x.sum(axis=0) / 5)
    for part in (found.se, found.lower, found.upper, found.skew):
        assert part is not None
        np.testing.assert_array_equal(np.isnan(part), [False, True, False])
    assert found.without is not None
    np.testing.assert_array_equal(found.without.T, leave_one_out_mean(x))


def test_estimates_are_joined_array_by_array():
    x = np.random.default_rng(5).normal(size=(5, 3, 2))
    whole = document_mean(x)
    each = [mapped(whole, lambda array, k=k: array[k]) for k in range(3)]
    again = join(each, np.stack)
    assert isinstance(again, Estimate)
    parts = {"value", "se", "lower", "upper", "skew", "without", "documents"}
    assert set(again.arrays()) == parts
    for name, array in again.arrays().items():
        np.testing.assert_array_equal(array, whole.arrays()[name])
    assert set(Estimate(value=x, se=x, lower=x, upper=x).arrays()) == {
        "value",
        "se",
        "lower",
        "upper",
    }
