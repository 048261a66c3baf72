import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from geostat.statistics.equivalence import (
    FAILS,
    HOLDS,
    HOLDS_TRIVIALLY,
    NO_ESTIMATE,
    UNDETERMINED,
    PValues,
    against,
    answers,
    beyond_flat,
    intersection_union,
    mean_of_equals,
    with_presence,
)
from geostat.statistics.moderation import Errors

FINITE = st.floats(-3, 3, allow_nan=False)
ERROR = st.floats(0.01, 2)
SKEW = st.floats(-2.8, 2.8)
nan = np.nan


def errors(se, documents=8, skew=0.0, degrees=None) -> Errors:
    se = np.asarray(se, dtype=float)
    degrees = documents - 1 if degrees is None else degrees
    parts = {"degrees": degrees, "skew": skew, "documents": documents}
    return Errors(se=se, **{name: np.full(se.shape, float(x)) for name, x in parts.items()})


def p_values(holds, fails) -> PValues:
    return PValues(holds=np.array(holds), fails=np.array(fails))


def test_without_skewness_the_p_values_are_twice_those_of_student_s_t():
    p = against(np.array([0.03, 0.07]), errors([0.01, 0.01]), 0.05, "at_most")
    assert p.holds == pytest.approx([2 * stats.t(7).cdf(-2), 1])
    assert p.fails == pytest.approx([1, 2 * stats.t(7).sf(2)])
    upside = against(np.array([0.07]), errors([0.01]), 0.05, "at_least")
    assert upside.holds == pytest.approx(2 * stats.t(7).sf(2))
    within = against(np.array([-0.02, -0.1]), errors([0.02, 0.02], 4), 0.05, "within")
    assert within.holds[0] == pytest.approx(2 * stats.t(3).cdf(-1.5))
    assert within.fails == pytest.approx([1, 2 * stats.t(3).cdf(-2.5)])


@given(
    estimate=FINITE,
    se=ERROR,
    tolerance=st.floats(0, 2),
    skew=SKEW,
    documents=st.integers(3, 30),
    prior=st.floats(0, 300),
)
def test_answers_agree_with_the_interval(estimate, se, tolerance, skew, documents, prior):
    of_head, value = errors([se], documents, skew, documents - 1 + prior), np.array([estimate])
    lower, upper = (float(end[0]) for end in of_head.limits(value))
    assume(min(abs(abs(end) - tolerance) for end in (lower, upper)) > 1e-6)
    within = {
        "at_most": (upper < tolerance, lower > tolerance),
        "at_least": (lower > tolerance, upper < tolerance),
        "within": (max(-lower, upper) < tolerance, lower > tolerance or upper < -tolerance),
    }
    for side, (holds, fails) in within.items():
        p = against(value, of_head, tolerance, side)
        expected = HOLDS if holds else FAILS if fails else UNDETERMINED
        assert answers(p, np.array([True])).tolist() == [expected]


@given(estimate=FINITE, se=ERROR, skew=SKEW)
def test_p_values_are_symmetric_under_reflection(estimate, se, skew):
    effect, reflected = (
        against(np.array([sign * estimate]), errors([se], skew=sign * skew), 0.5, "within")
        for sign in (1, -1)
    )
    assert effect.holds == pytest.approx(reflected.holds)
    assert effect.fails == pytest.approx(reflected.fails)


def test_an_effect_without_error_is_decided_by_its_side_of_the_tolerance():
    p = against(np.array([0.04, 0.05, 0.06]), errors(np.zeros(3)), 0.05, "at_most")
    assert p.holds.tolist() == [0, 1, 1]
    assert p.fails.tolist() == [1, 1, 0]


def test_an_effect_without_standard_error_is_undetermined():
    p = against(np.array([0.01, nan, 0.01]), errors([nan, 0.1, 1e-9], 2), 0.05, "at_most")
    assert np.isnan([p.holds[:2], p.fails[:2]]).all()
    assert answers(p, np.array([True, False, True])).tolist() == [UNDETERMINED, NO_ESTIMATE, HOLDS]


def test_a_form_that_does_not_beat_a_flat_one_holds_trivially():
    p = p_values([0.01, 0.01, 0.01, 0.9, 0.3, nan], [1, 1, 1, 0.01, 0.9, nan])
    flat = np.array([0.04, 0.06, nan, 0.9, 0.01, 0.01])
    given = answers(beyond_flat(p, flat), np.full(6, True), p.holds)
    expected = [HOLDS, HOLDS_TRIVIALLY, HOLDS_TRIVIALLY, FAILS, UNDETERMINED, UNDETERMINED]
    assert given.tolist() == expected


@pytest.mark.parametrize(
    "effect", [0.02, 0.05, 0.09], ids=["inside", "at the tolerance", "outside"]
)
@pytest.mark.parametrize("side", ["at_most", "at_least", "within"])
def test_false_answers_are_given_to_at_most_one_head_in_forty(effect, side):
    """20,000 heads of 8 documents; false *holds* and false *fails* are counted separately."""
    heads, documents = 20_000, 8
    draws = effect + 0.03 * np.random.default_rng(5).standard_normal((heads, documents))
    head_errors = errors(draws.std(axis=-1, ddof=1) / np.sqrt(documents))
    p = against(draws.mean(axis=-1), head_errors, 0.05, side)
    given_answers = answers(p, np.ones(heads, bool))
    true = effect >= 0.05 if side == "at_least" else effect <= 0.05
    at_tolerance = effect == 0.05
    for answer, wrong in ((HOLDS, not true or at_tolerance), (FAILS, true)):
        if wrong:
            share = (given_answers == answer).mean()
            assert share <= 0.025 + 4 * np.sqrt(0.025 * 0.975 / heads)
    if not at_tolerance:
        assert (given_answers == (HOLDS if true else FAILS)).mean() > 0.3  # the test has power


def test_adjusted_p_values_are_benjamini_hochberg():
    holds = np.array([[0.03, 0.001, nan], [0.012, 0.9, 0.2]])  # n p / rank, monotone in p
    result = p_values(holds, 1 - holds).adjusted()
    assert_allclose(result.holds, [[0.05, 0.005, nan], [0.03, 0.9, 0.25]])
    assert_allclose(result.fails, [[0.999, 0.999, nan], [0.999, 0.5, 0.999]])


def test_a_joint_claim_holds_if_every_part_holds_and_fails_if_any_part_fails():
    p = intersection_union(
        p_values(
            holds=[[0.01, 0.04, nan], [0.01, 0.02, 0.03], [nan, nan, nan]],
            fails=[[0.99, 0.96, nan], [0.001, 0.9, 0.9], [nan, nan, nan]],
        )
    )
    assert_allclose(p.holds, [0.04, 0.03, nan])
    assert_allclose(p.fails, [1.0, 0.003, nan])


def test_a_searched_effect_must_be_present_to_hold():
    p = p_values([0.001, 0.02, nan, nan], [0.999, 0.98, nan, nan])
    absent = np.array([0.3, 0.001, 0.8, nan])
    joint = with_presence(p, absent, np.array([True, True, False, False]))
    # Adjusted over three searched heads, 0.3 and 0.001 become 0.45 and 0.003.
    assert_allclose(joint.holds, [0.45, 0.02, 1.0, nan])  # no search was made in the last
    assert joint.fails[:3].tolist() == [0.999, 0.98, 1.0]


def test_noise_that_passes_a_search_does_not_hold_despite_a_large_estimate():
    """200 models of 270 heads without effect: 5% pass a search, with estimates far above the
    tolerance.
    """
    random = np.random.default_rng(7)
    false_holds = []
    for _ in range(200):
        absent = random.uniform(size=270)
        known = absent <= 0.05
        certain = p_values(np.where(known, 1e-6, nan), np.where(known, 1.0, nan))
        assert (answers(certain, known) == HOLDS).any()  # without the search test, some hold
        false_holds.append((answers(with_presence(certain, absent, known), known) == HOLDS).any())
    assert np.mean(false_holds) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 200)


@pytest.mark.parametrize(
    ("mean", "side"), [(0.93, "at_most"), (0.6, "at_least"), (0.97, "at_most")]
)
def test_mean_of_equal_documents_has_the_stated_error_rate(mean, side):
    # The statistic is 1 with probability `mean`, else 0: at the limit each answer may be given in
    # at most 5% of runs.
    values = (np.random.default_rng(0).random((40_000, 8)) < mean).astype(float)
    equal = values[values.std(axis=1) == 0, 0]
    result = mean_of_equals(equal, np.full(equal.size, mean), 8, side)
    for p in (result.holds, result.fails):
        assert (p <= 0.05).sum() / len(values) <= 0.05
    assert equal.size / len(values) > 0.01


def test_equal_documents_decide_about_a_distant_limit():
    value, limit = np.array([1.0, 1.0, 0.2, 0.2]), np.array([0.5, 0.98, 0.9, 1.0])
    result = mean_of_equals(value, limit, 8, "at_most")
    assert_allclose(result.fails, [0.5**8, 0.98**8, 1, 1])
    assert_allclose(result.holds, [1, 1, (0.1 / 0.8) ** 8, 0])
    reflected = mean_of_equals(1 - value, 1 - limit, 8, "at_least")
    assert_allclose([reflected.fails, reflected.holds], [result.fails, result.holds])
