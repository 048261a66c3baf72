"""Allocation of a token budget among heads."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geostat.experiments.ablation.budgets import greedy, in_proportion, of_equal_mass

SHARES = st.lists(st.floats(0, 100), min_size=1, max_size=12)


@given(SHARES, st.integers(1, 30), st.integers(0, 30))
def test_shares_are_whole_within_limits_and_sum_to_the_budget(shares, budget, more):
    found = in_proportion(np.array(shares), budget, budget + more)
    assert found.sum() == budget * len(shares)
    assert found.min() >= 1
    assert found.max() <= budget + more


def test_shares_are_in_proportion_where_limits_allow():
    shares = np.array([1.0, 2.0, 3.0, 6.0])
    assert in_proportion(shares, 100, 1000).tolist() == [33, 67, 100, 200]
    assert in_proportion(np.array([0.0, 0.0]), 5, 9).tolist() == [5, 5]
    assert in_proportion(np.array([np.nan, 1.0, 3.0]), 4, 99).tolist() == [4, 2, 6]


def masses(seed: int, heads: int, tokens: int) -> np.ndarray:
    alpha = np.sort(np.random.default_rng(seed).exponential(size=(heads, tokens)) ** 2, axis=1)
    return np.cumsum(alpha[:, ::-1], axis=1) / alpha.sum(axis=1, keepdims=True)


@given(st.integers(0, 99), st.integers(1, 10), st.integers(1, 20))
def test_equal_mass_keeps_one_mass_within_a_token(seed, heads, budget):
    mass = masses(seed, heads, 20)
    found = of_equal_mass(mass, budget)
    assert found.sum() == budget * heads
    assert found.min() >= 1
    kept = mass[np.arange(heads), found - 1]
    before = np.where(found > 1, mass[np.arange(heads), np.maximum(found - 2, 0)], 0.0)
    # No head could give a token to a head with less selected mass.
    assert before.max() <= kept.min() + 1e-12


def test_greedy_is_the_best_of_all_shares_where_losses_are_convex():
    chance = np.random.default_rng(0)
    tokens, budget = 6, 3
    for _ in range(20):
        drops = np.sort(chance.exponential(size=(3, tokens - 1)), axis=1)[:, ::-1]
        curve = np.cumsum(drops[:, ::-1], axis=1)[:, ::-1]  # loss at N = 1 … T − 1, convex
        losses = {n: curve[:, n - 1] for n in range(1, tokens)}
        whole = np.concatenate([curve, np.zeros((3, 1))], axis=1)

        def cost(sizes: tuple[int, ...], whole: np.ndarray = whole) -> float:
            return float(sum(whole[head, n - 1] for head, n in enumerate(sizes)))

        best = min(
            cost(sizes)
            for sizes in itertools.product(range(1, tokens + 1), repeat=3)
            if sum(sizes) == 3 * budget
        )
        found = greedy(losses, budget, tokens)
        assert found.sum() == 3 * budget
        assert cost(tuple(found.tolist())) == pytest.approx(best)


def test_greedy_takes_steps_of_the_hull_and_spends_all():
    # The second head gains nothing until N = 8, so its first step leads to 8.
    losses = {1: np.array([0.5, 1.0]), 2: np.array([0.1, 1.0]), 8: np.array([0.05, 0.0])}
    assert greedy(losses, 5, 16).tolist() == [2, 8]
    worse = {1: np.array([-1.0, -1.0]), 4: np.array([-0.5, -0.5])}  # no token helps
    assert greedy(worse, 3, 16).sum() == 6
    with pytest.raises(ValueError, match="N = 1"):
        greedy({2: np.zeros(2)}, 3, 16)


def test_a_loss_that_rises_with_n_is_taken_to_be_level():
    # The first head has loss 0 at N = 1 and 0.3 at 8; it must not stay at 1.
    losses = {1: np.array([0.0, 0.1]), 8: np.array([0.3, 0.05])}
    assert greedy(losses, 4, 16).tolist() == [7, 1]
