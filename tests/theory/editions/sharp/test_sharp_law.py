"""The exact pairwise law and the bounds that follow: 40-digit goldens, invariances, ties,
infeasible Grams.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from support.golden import array, given_selection, number
from support.places import GOLDEN
from support.strategies import DrawnHead, heads

from theory.editions.sharp.sharp_law import (
    PairSums,
    best_bounds,
    exact_bounds,
    pair_sums,
    pairwise_law,
)
from theory.errors import InputError
from theory.evaluate.envelopes import envelope
from theory.head.ranked import rank_tokens, summarise
from theory.head.results import QUANTITIES
from theory.head.similarity_decay import exponential

CASES = json.loads((GOLDEN / "sharp.json").read_text())["cases"]
GOLDEN_NAMES = {"precision": "P", "recall": "R", "f_outer": "F_outer", "f_inner": "F_inner"}


@pytest.mark.parametrize("name", sorted(CASES))
def test_pairwise_law_equals_forty_digit_arithmetic(name: str) -> None:
    head, summary = given_selection(CASES[name])
    law = pairwise_law(head, summary, 0, int(CASES[name]["d"]))
    # 1e-9 relative for tail probabilities; below 1e-300 they are 0 in float64.
    np.testing.assert_allclose(
        law.closed, array(CASES[name]["expected"]["p"]), rtol=1e-9, atol=1e-300
    )


@pytest.mark.parametrize("name", sorted(CASES))
def test_sharp_bounds_equal_forty_digit_arithmetic(name: str) -> None:
    head, summary = given_selection(CASES[name])
    bounds = exact_bounds(head, summary, 0, int(CASES[name]["d"]), followup=False)
    for quantity, golden in GOLDEN_NAMES.items():
        expected = [number(CASES[name]["expected"][f"{golden}_{side}"]) for side in ("lo", "hi")]
        np.testing.assert_allclose(getattr(bounds, quantity), expected, rtol=1e-10)


@given(heads())
@settings(max_examples=60)
def test_sharp_bounds_do_not_change_when_values_are_rescaled(head: DrawnHead) -> None:
    sizes = np.arange(1, head.tokens + 1)
    one, ten = (
        envelope(
            head.alpha,
            head.norms * scale,
            head.gram,
            head.dimension,
            sizes,
            edition="sharp",
            sink=head.sink,
        )
        for scale in (1.0, 8.0)
    )
    for quantity in QUANTITIES:
        for side in ("lower", "upper"):
            np.testing.assert_allclose(
                getattr(one, f"{quantity}_{side}"),
                getattr(ten, f"{quantity}_{side}"),
                rtol=1e-9,
                atol=1e-12,
            )


@given(heads())
@settings(max_examples=60)
def test_lower_never_exceeds_upper_under_either_convention(head: DrawnHead) -> None:
    sizes = np.arange(1, head.tokens)
    for convention in ("paper", "followup"):
        found = envelope(
            head.alpha,
            head.norms,
            head.gram,
            head.dimension,
            sizes,
            edition="sharp",
            sink=head.sink,
            convention=convention,
        )
        for quantity in QUANTITIES:
            low, high = getattr(found, f"{quantity}_lower"), getattr(found, f"{quantity}_upper")
            assert (low <= high + 1e-12).all()
            assert (low >= 0).all()
            assert (high <= 1 + 1e-12).all()


def test_law_at_given_ratio_is_students() -> None:
    # d = 2: the density of r is constant, so P{D_j ≤ D_i} = (1 − r)/2. T = 3, N = 2, a = (1,
    # 1, 0), ρ = 0: Γ_ii = 1, Γ_jj = 2, Γ_ij = 1.
    head = rank_tokens(np.array([1.0, 1.0, 0.0]), np.ones(3), np.eye(3), None)
    law = pairwise_law(head, summarise(head, np.array([2])), 0, 2)
    np.testing.assert_allclose(law.closed, (1 - 1 / np.sqrt(5)) / 2)


def test_exact_ties_count_for_closed_balls_only() -> None:
    # Three equal contributions of the same direction: every distance is equal.
    head = rank_tokens(np.full(3, 0.2), np.ones(3), np.ones((3, 3)), None)
    law = pairwise_law(head, summarise(head, np.array([1])), 0, 16)
    assert (law.closed == 1).all()
    assert (law.strict == 0).all()
    paper, followup = (best_bounds(pair_sums(law, followup=f), followup=f) for f in (False, True))
    assert paper.recall == (1.0, 1.0)
    assert followup.recall == (0.0, 0.0)
    assert paper.precision == followup.precision == pytest.approx((1 / 3, 1 / 3))


def test_zero_weights_tie_with_each_other_but_not_with_the_rest() -> None:
    head = rank_tokens(
        np.array([0.6, 0.4, 0.0, 0.0]), np.ones(4), exponential(1.0, 0.0, 4).matrix(4), 0
    )
    law = pairwise_law(head, summarise(head, np.array([3])), 0, 32)
    assert law.closed[2, 0] == 1
    assert law.strict[2, 0] == 0
    assert 0 < law.closed[0, 0] == law.strict[0, 0] < 0.5


def test_one_selected_token_is_always_separable() -> None:
    found = envelope([0.5, 0.3, 0.2], 1.0, exponential(1.0, 0.1, 3), 8, [1], edition="sharp")
    assert found.precision_lower[0] == found.recall_lower[0] == found.f_inner_lower[0] == 1.0


def test_clearly_negative_determinant_is_refused() -> None:
    gram = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    head = rank_tokens(np.array([0.5, 0.3, 0.2]), np.ones(3), gram, 0)
    with pytest.raises(InputError, match="infeasible: a 2x2 determinant"):
        pairwise_law(head, summarise(head, np.array([2])), 0, 8)


def test_followup_combines_outer_precision_with_strict_inner_recall() -> None:
    sums = PairSums(
        column_total=np.array([0.2, 0.6]),
        column_largest=np.array([0.1, 0.4]),
        row_total=np.array([0.3, 0.5]),
        row_largest=np.array([0.2, 0.3]),
    )
    bounds = best_bounds(sums, followup=True)
    (p_low, p_high), (r_low, r_high) = bounds.precision, bounds.recall
    assert (
        bounds.f_outer
        == bounds.f_inner
        == (max(0.0, p_low + r_low - 1), 2 * p_high * r_high / (p_high + r_high))
    )


def test_bounds_by_hand() -> None:
    # N = 2, M = 2: f = 1, 2/3, 1/2; F = 1, 4/5, 2/3; g = 0, 2/3, 1. u = (.2, .6), π = (.4,
    # .1), ν = (.7, .5), 1 − max = (.8, .7).
    sums = PairSums(
        column_total=np.array([0.2, 0.6]),
        column_largest=np.array([0.1, 0.4]),
        row_total=np.array([0.3, 0.5]),
        row_largest=np.array([0.2, 0.3]),
    )
    bounds = best_bounds(sums, followup=False)
    np.testing.assert_allclose(bounds.precision, [1 - 0.8 / 3, 1 - 0.4 / 3 - 0.1 / 6])
    np.testing.assert_allclose(bounds.recall, [0.6, 0.75])
    np.testing.assert_allclose(bounds.f_outer, [1 - 0.8 / 5, 1 - 0.4 / 5 - 0.1 * (4 / 5 - 2 / 3)])
    np.testing.assert_allclose(bounds.f_inner, [0.7 * 2 / 3 + 0.5 / 3, 2 / 3 + 0.5 / 3])
