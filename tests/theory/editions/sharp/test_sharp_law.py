"""The exact pairwise law and its bounds: 40-digit goldens, ties; more stands in `test_edges`."""

import json
from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import linprog
from support.golden import array, given_selection, number
from support.places import GOLDEN

from theory.arrays import FloatArray
from theory.editions.sharp.sharp_law import PairwiseLaw, pairwise_bounds, pairwise_law
from theory.errors import InputError
from theory.evaluate.envelopes import envelope
from theory.head.gram import exponential
from theory.head.ranked import rank_tokens, summarise

CASES = json.loads((GOLDEN / "sharp.json").read_text())["cases"]


@pytest.mark.parametrize("name", sorted(CASES))
def test_law_and_sharp_bounds_equal_forty_digit_arithmetic(name: str) -> None:
    head, summary = given_selection(CASES[name])
    law, expected = pairwise_law(head, summary, 0, int(CASES[name]["d"])), CASES[name]["expected"]
    # 1e-9 relative for tail probabilities; below 1e-300 they are 0 in float64.
    np.testing.assert_allclose(law.closed, array(expected["p"]), rtol=1e-9, atol=1e-300)
    names = [f"{name}_{side}" for name in ("P", "R", "F_outer", "F_inner") for side in ("lo", "hi")]
    bounds = [number(expected[key]) for key in names]
    np.testing.assert_allclose(pairwise_bounds(law, followup=False), bounds, rtol=1e-10)


def law_of(alpha: list[float], gram: FloatArray, n: int, d: int, sink: int | None) -> PairwiseLaw:
    head = rank_tokens(np.array(alpha), np.ones(len(alpha)), gram, sink)
    return pairwise_law(head, summarise(head, np.array([n])), 0, d)


def test_law_at_a_fixed_ratio_is_student() -> None:
    # d = 2: the density of r is constant, so P{D_j ≤ D_i} = (1 − r)/2. T = 3, N = 2, a = (1,
    # 1, 0), ρ = 0: Γ_ii = 1, Γ_jj = 2, Γ_ij = 1.
    law = law_of([1.0, 1.0, 0.0], np.eye(3), 2, 2, None)
    np.testing.assert_allclose(law.closed, (1 - 1 / np.sqrt(5)) / 2)


def test_exact_ties_count_for_closed_balls_only() -> None:
    # Three equal contributions of the same direction: every distance is equal.
    law = law_of([0.2] * 3, np.ones((3, 3)), 1, 16, None)
    assert (law.closed == 1).all()
    assert (law.strict == 0).all()
    for followup, recall in ((False, 1.0), (True, 0.0)):
        bounds = pairwise_bounds(law, followup=followup)
        assert bounds[:4].tolist() == pytest.approx([1 / 3, 1 / 3, recall, recall])


def test_tokens_on_opposite_sides_of_s_at_one_distance_are_tied() -> None:
    # On a line: y = 1, −.6 selected and −.2 not, s = .4; the first and the last are .6 away.
    line = np.outer([1.0, -1.0, -1.0], [1.0, -1.0, -1.0])
    law = law_of([1.0, 0.6, 0.2], line, 2, 16, None)
    assert (law.closed[0, 0], law.strict[0, 0]) == (1, 0)


def test_zero_weights_tie_with_each_other_but_not_with_the_rest() -> None:
    law = law_of([0.6, 0.4, 0.0, 0.0], exponential(1.0, 0.0, 4).matrix(4), 3, 32, 0)
    assert law.closed[2, 0] == 1
    assert law.strict[2, 0] == 0
    assert 0 < law.closed[0, 0] == law.strict[0, 0] < 0.5


def test_one_selected_token_is_always_separable() -> None:
    found = envelope([0.5, 0.3, 0.2], 1.0, exponential(1.0, 0.1, 3), 8, [1], edition="sharp")
    assert found.precision_lower[0] == found.recall_lower[0] == found.f_inner_lower[0] == 1.0


def test_clearly_negative_determinant_is_refused() -> None:
    gram = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    with pytest.raises(InputError, match="infeasible: a 2x2 determinant"):
        law_of([0.5, 0.3, 0.2], gram, 2, 8, 0)


PROBABILITIES = np.array([[0.1, 0.2], [0.1, 0.4]])
BY_HAND = PairwiseLaw(closed=PROBABILITIES, strict=PROBABILITIES)


def test_followup_combines_outer_precision_with_strict_inner_recall() -> None:
    p_low, p_high, r_low, r_high, *f = pairwise_bounds(BY_HAND, followup=True)
    assert f == 2 * [max(0.0, p_low + r_low - 1), 2 * p_high * r_high / (p_high + r_high)]


def test_bounds_by_hand() -> None:
    # N = 2, M = 2: f = 1, 2/3, 1/2; F = 1, 4/5, 2/3; g = 0, 2/3, 1. u = (.2, .6), π = (.4,
    # .1), ν = (.7, .5), 1 − max = (.8, .6).
    precision = [1 - 0.8 / 3, 1 - 0.4 / 3 - 0.1 / 6]
    f_outer = [1 - 0.8 / 5, 1 - 0.4 / 5 - 0.1 * (4 / 5 - 2 / 3)]
    f_inner = [0.7 * 2 / 3 + 0.5 / 3, 2 / 3 + 0.4 / 3]
    expected = [*precision, 0.6, 0.7, *f_outer, *f_inner]
    np.testing.assert_allclose(pairwise_bounds(BY_HAND, followup=False), expected)


def over_orderings(p: FloatArray) -> dict[str, FloatArray]:
    """Return the least and the largest E P and E R, (2,) each, of all distributions over the
    orderings of N + M distances in which token j is nearer than i with probability p[i, j].
    """
    n, outside = p.shape
    nearer = np.array(
        [
            np.less.outer(place[n:], place[:n]).T
            for place in map(np.array, permutations(range(n + outside)))
        ]
    )
    given = np.vstack([nearer.reshape(len(nearer), -1).T, np.ones(len(nearer))])
    means = {
        "P": n / (n + nearer.any(axis=1).sum(axis=1)),
        "R": 1 - nearer.any(axis=2).mean(axis=1),
    }
    solved = {
        name: [linprog(sign * value, A_eq=given, b_eq=[*p.ravel(), 1]) for sign in (1, -1)]
        for name, value in means.items()
    }
    assert all(side.success for sides in solved.values() for side in sides)
    return {name: np.array([low.fun, -high.fun]) for name, (low, high) in solved.items()}


def test_a_linear_programme_over_orderings_is_narrower_than_the_pairwise_bounds() -> None:
    p = np.array([[0.245, 0.9], [0.372, 0.578]])
    p_low, p_high, r_low, r_high, *_ = pairwise_bounds(
        PairwiseLaw(closed=p, strict=p), followup=False
    )
    exact = over_orderings(p)
    np.testing.assert_allclose(exact["R"], [0.0885, r_high], atol=1e-9)
    assert r_low == pytest.approx(0.025)
    np.testing.assert_allclose(exact["P"], [p_low, p_high], atol=1e-9)


def test_pairwise_bounds_contain_every_distribution_over_orderings() -> None:
    rng = np.random.default_rng(0)
    narrower = 0
    for _ in range(40):
        orders = np.array([rng.permutation(4) for _ in range(6)])
        nearer = np.array([np.less.outer(place[2:], place[:2]).T for place in orders])
        p = np.tensordot(rng.dirichlet(np.full(6, 0.5)), nearer, 1)
        found = pairwise_bounds(PairwiseLaw(closed=p, strict=p), followup=False)
        exact = over_orderings(p)
        low, high = np.array([exact["P"], exact["R"]]).T
        assert (low >= found[[0, 2]] - 1e-9).all()
        assert (high <= found[[1, 3]] + 1e-9).all()
        narrower += bool((low > found[[0, 2]] + 1e-6).any())
    assert 0 < narrower < 40
