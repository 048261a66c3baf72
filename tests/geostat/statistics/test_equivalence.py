"""Equivalence tests: an answer is where the interval is, and wrong as seldom as it promises."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from geostat.statistics.equivalence import (
    FAILS,
    HOLDS,
    NO_ESTIMATE,
    UNDETERMINED,
    PValues,
    against,
    answers,
    intersection_union,
    mean_of_equals,
    with_presence,
)
from geostat.statistics.moderation import Errors

FINITE = st.floats(-3, 3, allow_nan=False)
ERROR = st.floats(0.01, 2)


def errors(se, documents=8, skew=0.0, degrees=None) -> Errors:
    se = np.asarray(se, dtype=float)
    count = np.full(se.shape, float(documents))
    return Errors(
        se=se,
        degrees=count - 1 if degrees is None else np.full(se.shape, float(degrees)),
        skew=np.broadcast_to(np.asarray(skew, dtype=float), se.shape),
        documents=count,
    )


def test_without_skewness_the_p_values_are_twice_those_of_student_s_t():
    p = against(np.array([0.03, 0.07]), errors([0.01, 0.01]), 0.05, "at_most")
    assert p.holds == pytest.approx([2 * stats.t(7).cdf(-2), 1])
    assert p.fails == pytest.approx([1, 2 * stats.t(7).sf(2)])
    upside = against(np.array([0.07]), errors([0.01]), 0.05, "at_least")
    assert upside.holds == pytest.approx(2 * stats.t(7).sf(2))
    within = against(np.array([-0.02]), errors([0.02], 4), 0.05, "within")
    assert within.holds == pytest.approx(2 * stats.t(3).cdf(-1.5))
    assert within.fails == pytest.approx(1)
    assert against(np.array([-0.1]), errors([0.02], 4), 0.05, "within").fails == pytest.approx(
        2 * stats.t(3).cdf(-2.5)
    )


@given(
    estimate=FINITE,
    se=ERROR,
    tolerance=st.floats(0, 2),
    skew=st.floats(-2.8, 2.8),
    documents=st.integers(3, 30),
    prior=st.floats(0, 300),
)
def test_an_answer_is_where_the_interval_lies(
    estimate: float, se: float, tolerance: float, skew: float, documents: int, prior: float
):
    one = errors([se], documents, skew, documents - 1 + prior)
    lower, upper = (float(end[0]) for end in one.limits(np.array([estimate])))
    assume(min(abs(abs(end) - tolerance) for end in (lower, upper)) > 1e-6)
    within = {
        "at_most": (upper < tolerance, lower > tolerance),
        "at_least": (lower > tolerance, upper < tolerance),
        "within": (max(-lower, upper) < tolerance, lower > tolerance or upper < -tolerance),
    }
    for side, (holds, fails) in within.items():
        p = against(np.array([estimate]), one, tolerance, side)  # type: ignore[arg-type]
        expected = HOLDS if holds else FAILS if fails else UNDETERMINED
        assert answers(p, np.array([True])).tolist() == [expected]


@given(estimate=FINITE, se=ERROR, skew=st.floats(-2.8, 2.8))
def test_a_mirrored_effect_is_judged_alike(estimate: float, se: float, skew: float):
    one, other = (
        against(np.array([sign * estimate]), errors([se], skew=sign * skew), 0.5, "within")
        for sign in (1, -1)
    )
    assert one.holds == pytest.approx(other.holds)
    assert one.fails == pytest.approx(other.fails)


def test_an_effect_known_exactly_is_judged_by_its_side():
    p = against(np.array([0.04, 0.05, 0.06]), errors(np.zeros(3)), 0.05, "at_most")
    assert p.holds.tolist() == [0, 1, 1]
    assert p.fails.tolist() == [1, 1, 0]


def test_without_a_standard_error_nothing_is_settled():
    p = against(np.array([0.01, np.nan, 0.01]), errors([np.nan, 0.1, 1e-9], 2), 0.05, "at_most")
    assert np.isnan(p.holds[:2]).all()
    assert np.isnan(p.fails[:2]).all()
    assert answers(p, np.array([True, False, True])).tolist() == [UNDETERMINED, NO_ESTIMATE, HOLDS]


@pytest.mark.parametrize(
    "effect", [0.02, 0.05, 0.09], ids=["inside", "at the tolerance", "outside"]
)
@pytest.mark.parametrize("side", ["at_most", "at_least", "within"])
def test_false_answers_are_given_to_at_most_one_head_in_forty(effect: float, side: str):
    """100,000 heads of 8 documents, each kind of false answer apart."""
    random, heads, documents = np.random.default_rng(5), 100_000, 8
    draws = effect + 0.03 * random.standard_normal((heads, documents))
    one = errors(draws.std(axis=-1, ddof=1) / np.sqrt(documents))
    p = against(draws.mean(axis=-1), one, 0.05, side)  # type: ignore[arg-type]
    given_answers = answers(p, np.ones(heads, bool))
    true = effect <= 0.05 if side != "at_least" else effect >= 0.05
    at_tolerance = effect == 0.05
    for answer, wrong in ((HOLDS, not true or at_tolerance), (FAILS, true)):
        if wrong:
            share = (given_answers == answer).mean()
            assert share <= 0.025 + 4 * np.sqrt(0.025 * 0.975 / heads)
    if not at_tolerance:
        assert (given_answers == (HOLDS if true else FAILS)).mean() > 0.3  # the test has power


def test_adjusted_p_values_are_benjamini_and_hochberg_s():
    holds = np.array(
        [[0.03, 0.001, np.nan], [0.012, 0.9, 0.2]]
    )  # n p / rank, none larger than those of larger p
    found = PValues(holds=holds, fails=1 - holds).adjusted()
    np.testing.assert_allclose(found.holds, [[0.05, 0.005, np.nan], [0.03, 0.9, 0.25]])
    np.testing.assert_allclose(found.fails, [[0.999, 0.999, np.nan], [0.999, 0.5, 0.999]])


def test_a_joint_claim_holds_if_every_part_does_and_fails_if_one_does():
    parts = PValues(
        holds=np.array([[0.01, 0.04, np.nan], [0.01, 0.02, 0.03]]),
        fails=np.array([[0.99, 0.96, np.nan], [0.001, 0.9, 0.9]]),
    )
    p = intersection_union(parts)
    assert p.holds == pytest.approx([0.04, 0.03])
    assert p.fails == pytest.approx([1.0, 0.003])
    nothing = intersection_union(
        PValues(holds=np.full((1, 2), np.nan), fails=np.full((1, 2), np.nan))
    )
    assert np.isnan(nothing.holds).all()
    assert np.isnan(nothing.fails).all()


def test_an_effect_that_was_searched_for_must_be_there_to_hold():
    p = PValues(
        holds=np.array([0.001, 0.02, np.nan, np.nan]), fails=np.array([0.999, 0.98, np.nan, np.nan])
    )
    joint = with_presence(
        p, np.array([0.3, 0.001, 0.8, np.nan]), np.array([True, True, False, False])
    )
    # 0.3 and 0.001 of three searched: 0.45 and 0.003.
    assert joint.holds[:3] == pytest.approx([0.45, 0.02, 1.0])
    assert joint.fails[:3].tolist() == [0.999, 0.98, 1.0]
    assert np.isnan(joint.holds[3])  # nothing was searched


def test_noise_that_passed_a_search_does_not_hold_though_its_estimate_is_large():
    """200 models of 270 heads without any effect: 5% pass a search, and then their estimates are
    far above the tolerance.
    """
    random = np.random.default_rng(7)
    false = []
    for _ in range(200):
        absent = random.uniform(size=270)
        known = absent <= 0.05
        surely = PValues(holds=np.where(known, 1e-6, np.nan), fails=np.where(known, 1.0, np.nan))
        assert (answers(surely, known) == HOLDS).any()  # judged by their estimates alone they would
        false.append((answers(with_presence(surely, absent, known), known) == HOLDS).any())
    assert np.mean(false) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 200)


@pytest.mark.parametrize(
    ("mean", "limit", "side"),
    [(0.93, 0.93, "at_most"), (0.6, 0.6, "at_least"), (0.97, 0.97, "at_most")],
)
def test_documents_that_agree_do_not_tell_a_mean_exactly(mean: float, limit: float, side: str):
    # A statistic that is 1 with probability `mean`, else 0: at the limit either answer may be given
    # in 5% of runs at most.
    values = (np.random.default_rng(0).random((40_000, 8)) < mean).astype(float)
    alike = values.std(axis=1) == 0
    found = mean_of_equals(values[alike, 0], np.full(alike.sum(), limit), 8, side)
    for p in (found.holds, found.fails):
        assert (p <= 0.05).sum() / len(values) <= 0.05
    assert alike.mean() > 0.01


def test_documents_that_agree_tell_a_mean_that_lies_far_off():
    found = mean_of_equals(
        np.array([1.0, 1.0, 0.2, 0.2]), np.array([0.5, 0.98, 0.9, 1.0]), 8, "at_most"
    )
    np.testing.assert_allclose(found.fails, [0.5**8, 0.98**8, 1, 1])
    np.testing.assert_allclose(found.holds, [1, 1, (0.1 / 0.8) ** 8, 0])
    turned = mean_of_equals(
        np.array([0.0, 0.0, 0.8, 0.8]), np.array([0.5, 0.02, 0.1, 0.0]), 8, "at_least"
    )
    np.testing.assert_allclose([turned.fails, turned.holds], [found.fails, found.holds])
