import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from geostat.datasets.variable import join, mapped
from geostat.statistics.jackknife import (
    Estimate,
    document_mean,
    jackknife,
    leave_one_out_mean,
    skewness,
)


def test_error_of_a_mean_is_the_textbook_formula_and_its_interval_student_s_t():
    x = np.random.default_rng(1).normal(3, 2, (9, 5))
    result = document_mean(x)
    se = x.std(axis=0, ddof=1) / 3
    assert_allclose(result.se, se, rtol=1e-12)
    limits = stats.t(8, x.mean(axis=0), se).interval(0.95)
    assert_allclose([result.lower, result.upper], limits, rtol=1e-9)


def test_leave_one_out_mean_ignores_nan():
    x = np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan], [8.0, np.nan, np.nan]])
    expected = np.array([[5.5, 5.0, np.nan], [4.5, np.nan, np.nan], [2.0, 5.0, np.nan]])
    assert_array_equal(leave_one_out_mean(x), expected)


def test_one_huge_document_does_not_affect_the_mean_of_the_others():
    assert leave_one_out_mean(np.array([[1e20], [1.0], [2.0]]))[0, 0] == 1.5


@pytest.mark.parametrize("documents", [0, 1])
def test_fewer_than_two_documents_have_no_interval(documents):
    x = np.ones((documents, 3))
    result = jackknife(np.ones(3), leave_one_out_mean(x) if documents else x)
    assert np.isnan([result.se, result.lower, result.upper]).all()


def test_a_document_that_does_not_carry_the_head_does_not_count():
    x = np.random.default_rng(3).gamma(2.0, size=(8, 5))
    without, with_missing = document_mean(x), document_mean(np.vstack([x, np.full((1, 5), np.nan)]))
    for name in ("se", "upper", "skew", "documents"):
        assert_allclose(getattr(with_missing, name), getattr(without, name), rtol=1e-9)


def test_a_failed_replicate_gives_no_interval():
    result = jackknife(np.array([1.0, 1.0]), np.array([[1.0, 1.0], [np.nan, 1.1], [1.2, 0.9]]))
    assert np.isnan(result.se[0])
    assert result.se[1] > 0


def test_exp_transforms_a_log_interval():
    log = {"value": 4.0, "lower": 2.0, "upper": 8.0}
    arrays = {name: np.log([x]) for name, x in log.items()}
    result = Estimate(se=np.array([0.1]), **arrays).exp(np.array([4.0]))
    for name, expected in (log | {"se": 0.4}).items():
        assert_allclose(getattr(result, name), [expected])


def test_skewness_of_a_mean_equals_the_skewness_of_documents():
    x = np.random.default_rng(3).gamma(2.0, size=(8, 5))
    expected = stats.skew(x, axis=0, bias=False)
    assert np.abs(expected).min() > 0.05
    assert_allclose(document_mean(x).skew, expected, rtol=1e-9)


def test_skewness_of_two_documents_is_nan_and_of_equal_documents_zero():
    assert np.isnan(jackknife(np.ones(1), np.array([[1.0], [2.0]])).skew).all()
    assert skewness(np.zeros((4, 1)), np.array([4])) == 0
    one_of_eight = np.array([[7.0]] + [[-1.0]] * 7)
    assert skewness(one_of_eight, np.array([8])) == pytest.approx(np.sqrt(8))


def test_with_error_where_keeps_value_and_replicates():
    x = np.random.default_rng(4).normal(size=(5, 3))
    arrays = document_mean(x).with_error_where(np.array([True, False, True])).arrays()
    assert_array_equal(arrays["value"], x.sum(axis=0) / 5)
    assert_array_equal(arrays["without"].T, leave_one_out_mean(x))
    for name in ("se", "lower", "upper", "skew"):
        assert_array_equal(np.isnan(arrays[name]), [False, True, False])


def test_estimates_are_joined_array_by_array():
    x = np.random.default_rng(5).normal(size=(5, 3, 2))
    estimate = document_mean(x)
    joined = join([mapped(estimate, lambda array, k=k: array[k]) for k in range(3)], np.stack)
    assert isinstance(joined, Estimate)
    always = {"value", "se", "lower", "upper"}
    assert set(joined.arrays()) == always | {"skew", "without", "documents"}
    for name, array in joined.arrays().items():
        assert_array_equal(array, estimate.arrays()[name])
    assert set(Estimate(value=x, se=x, lower=x, upper=x).arrays()) == always
