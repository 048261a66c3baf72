"""Equivalence tests: their p-values are those of Student's t, and their answers are wrong as
seldom as they promise.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from geostat.statistics.equivalence import (
    FAILS,
    HOLDS,
    NO_ESTIMATE,
    UNDETERMINED,
    PValues,
    answers,
    intersection_union,
    mean_of_equals,
    one_sided,
    with_presence,
    without_skew,
)

FINITE = st.floats(-3, 3, allow_nan=False)
ERROR = st.floats(0.01, 2)


def test_the_p_values_are_those_of_student_s_t():
    p = one_sided(np.array([0.03, 0.07]), np.array([0.01, 0.01]), 7, 0.05, "at_most")
    assert p.holds == pytest.approx([stats.t(7).cdf(-2), stats.t(7).cdf(2)])
    assert p.fails == pytest.approx([stats.t(7).sf(-2), stats.t(7).sf(2)])
    upside = one_sided(np.array([0.07]), np.array([0.01]), 7, 0.05, "at_least")
    assert upside.holds == pytest.approx(stats.t(7).sf(2))
    within = one_sided(np.array([-0.02]), np.array([0.02]), 3, 0.05, "within")
    assert within.holds == pytest.approx(stats.t(3).cdf(-1.5))
    assert within.fails == pytest.approx(stats.t(3).sf(-1.5) + stats.t(3).cdf(-3.5))


def test_of_student_s_t_and_hall_s_the_larger_p_value_counts():
    # u = t/√8, and u + g u²/3 + g² u³/27 + g/48 at skewness g, three quarters of
    # √(6·8·7/(6·9·11)) above the estimate 1; worked out apart.
    g = 1 + 0.75 * np.sqrt(336 / 594)
    hall = np.sqrt(8) * (-0.5 + g * 0.25 / 3 - g**2 * 0.125 / 27 + g / 48)
    p = one_sided(
        np.array([0.05 - np.sqrt(2) * 0.01] * 3),
        np.full(3, 0.01),
        7,
        0.05,
        "at_most",
        np.array([1.0, -1.0, np.nan]),
    )
    assert p.holds == pytest.approx([stats.t(7).cdf(hall), *[stats.t(7).cdf(-np.sqrt(2))] * 2])
    assert p.holds[0] > p.holds[1] + 0.03
    mirrored = one_sided(
        np.array([0.05 + np.sqrt(2) * 0.01]),
        np.array([0.01]),
        7,
        0.05,
        "at_least",
        np.array([-1.0]),
    )
    assert mirrored.holds == pytest.approx(p.holds[:1])
    assert mirrored.fails == pytest.approx(p.fails[:1])


@pytest.mark.parametrize("skew", [-1.0, 1.0])
@pytest.mark.parametrize("estimate", [0.45, 0.55])
def test_far_from_the_other_end_a_range_is_judged_as_its_near_end(estimate: float, skew: float):
    parts = np.array([0.03]), 7, 0.5
    near = one_sided(np.array([estimate]), *parts, "at_most", np.array([skew]))
    for sign in (1, -1):
        within = one_sided(np.array([sign * estimate]), *parts, "within", np.array([sign * skew]))
        assert within.holds == pytest.approx(near.holds, rel=1e-6)
        assert within.fails == pytest.approx(near.fails, rel=1e-4)


@given(estimate=FINITE, se=ERROR, skew=st.floats(-2.8, 2.8))
def test_a_mirrored_effect_is_judged_alike(estimate: float, se: float, skew: float):
    one, other = (
        one_sided(
            np.array([sign * estimate]), np.array([se]), 7, 0.5, "within", np.array([sign * skew])
        )
        for sign in (1, -1)
    )
    assert one.holds == pytest.approx(other.holds)
    assert one.fails == pytest.approx(other.fails)


@given(
    t=st.floats(-1e3, 1e3),
    step=st.floats(0, 10),
    skew=st.floats(-2.8, 2.8),
    documents=st.integers(3, 50),
)
def test_more_evidence_is_never_taken_for_less(t: float, step: float, skew: float, documents: int):
    low, high = without_skew(np.array([t, t + step]), np.full(2, skew), documents - 1)
    assert low <= high + 1e-12 * (1 + abs(t)) ** 3  # rounding of u³
    assert low >= t


@given(
    t=st.floats(-40, 40),
    skew=st.floats(-2.8, 2.8),
    documents=st.integers(3, 50),
    reach=st.floats(0, 2),
)
def test_the_worst_skewness_within_reach_counts(
    t: float, skew: float, documents: int, reach: float
):
    """Against a search over a fine grid of skewnesses, each by Hall's formula as a cube."""
    error = np.sqrt(
        6 * documents * (documents - 1) / ((documents - 2) * (documents + 1) * (documents + 3))
    )
    g = np.linspace(skew, skew + reach * error, 2001)
    g = np.where(np.abs(g) < 1e-5, 1e-5, g)
    u = t / np.sqrt(documents)
    hall = np.sqrt(documents) * (((1 + g * u / 3) ** 3 - 1) / g + g / (6 * documents))
    found = without_skew(np.array([t]), np.array([skew]), documents - 1, reach)[0]
    assert found == pytest.approx(max(t, hall.max()), abs=1e-3, rel=1e-3)


@pytest.mark.parametrize(("documents", "by_t"), [(5, 0.15), (8, 0.13), (16, 0.11), (32, 0.09)])
def test_skewed_documents_give_few_false_answers_whatever_their_number(documents: int, by_t: float):
    """Exponential documents of mean 1 against a tolerance of 1, where *holds* is false;
    simulation errs by 0.11%.
    """
    x = np.random.default_rng(6).exponential(size=(documents, 40_000))
    se, skew = x.std(axis=0, ddof=1) / np.sqrt(documents), stats.skew(x, axis=0, bias=False)
    false, alone = (
        (one_sided(x.mean(axis=0), se, documents - 1, 1.0, "at_most", given).holds <= 0.05).mean()
        for given in (skew, None)
    )
    assert 0.04 < false < 0.055
    assert alone > by_t


@given(estimate=FINITE, se=ERROR, tolerance=st.floats(0, 2), skew=st.floats(-2.8, 2.8))
def test_one_effect_is_never_both_within_and_beyond(
    estimate: float, se: float, tolerance: float, skew: float
):
    for side in ("at_most", "at_least", "within"):
        p = one_sided(np.array([estimate]), np.array([se]), 7, tolerance, side, np.array([skew]))
        assert 0 <= p.holds[0] <= 1
        assert 0 <= p.fails[0] <= 1
        assert p.holds[0] + p.fails[0] >= 1 - 1e-9


@given(estimate=FINITE, se=ERROR)
def test_within_a_tolerance_is_the_same_for_either_sign(estimate: float, se: float):
    one, other = (
        one_sided(np.array([sign * estimate]), np.array([se]), 7, 0.5, "within") for sign in (1, -1)
    )
    assert one.holds == pytest.approx(other.holds)
    assert one.fails == pytest.approx(other.fails)


def test_an_effect_known_exactly_is_judged_by_its_side():
    p = one_sided(np.array([0.04, 0.05, 0.06]), np.zeros(3), 7, 0.05, "at_most")
    assert p.holds.tolist() == [0, 0.5, 1]
    assert p.fails.tolist() == [1, 0.5, 0]


def test_without_a_standard_error_nothing_is_settled():
    p = one_sided(np.array([0.01, np.nan, 0.01]), np.array([np.nan, 0.1, 1e-9]), 1, 0.05, "at_most")
    assert np.isnan(p.holds[:2]).all()
    assert np.isnan(p.fails[:2]).all()
    assert answers(p, np.array([True, False, True])).tolist() == [UNDETERMINED, NO_ESTIMATE, HOLDS]


@pytest.mark.parametrize(
    "effect", [0.02, 0.05, 0.09], ids=["inside", "at the tolerance", "outside"]
)
@pytest.mark.parametrize("side", ["at_most", "at_least", "within"])
def test_false_answers_are_given_to_at_most_one_head_in_twenty(effect: float, side: str):
    """2,000 models of 50 heads, 8 documents: the share of heads with a false answer, each kind
    apart, within its own simulation error.
    """
    random, models, heads, documents = np.random.default_rng(5), 2000, 50, 8
    draws = effect + 0.03 * random.standard_normal((models, heads, documents))
    estimate, se = draws.mean(axis=-1), draws.std(axis=-1, ddof=1) / np.sqrt(documents)
    p = one_sided(estimate, se, documents - 1, 0.05, side)  # type: ignore[arg-type]
    given_answers = np.stack(
        [
            answers(PValues(holds=h, fails=f), np.ones(heads, bool))
            for h, f in zip(p.holds, p.fails, strict=True)
        ]
    )
    true = effect <= 0.05 if side != "at_least" else effect >= 0.05
    at_tolerance = effect == 0.05
    for answer, wrong in ((HOLDS, not true or at_tolerance), (FAILS, true)):
        if wrong:
            share = (given_answers == answer).mean(axis=-1)
            assert share.mean() <= 0.05 + 4 * share.std() / np.sqrt(models)
    right = HOLDS if true else FAILS
    if not at_tolerance:
        assert (given_answers == right).mean() > 0.3  # the test has power


def test_answers_are_benjamini_and_hochberg_s():
    holds = np.array(
        [0.001, 0.012, 0.03, 0.2, 0.9]
    )  # thresholds .01 .02 .03 .04 .05: the first three
    p = PValues(holds=holds, fails=1 - holds)
    assert answers(p, np.ones(5, bool)).tolist() == [
        HOLDS,
        HOLDS,
        HOLDS,
        UNDETERMINED,
        UNDETERMINED,
    ]
    other = PValues(holds=1 - holds, fails=holds)
    assert answers(other, np.ones(5, bool)).tolist() == [
        FAILS,
        FAILS,
        FAILS,
        UNDETERMINED,
        UNDETERMINED,
    ]


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
    assert joint.holds[:3].tolist() == [0.3, 0.02, 1.0]
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
