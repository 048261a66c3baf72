"""Simulation by rank, against a simulation of the same matrix of cosines."""

import numpy as np
import pytest

from theory import InputError, RankParameters, fitted
from theory.evaluate.simulate import simulate
from theory.head.results import QUANTITIES

TOKENS, SIZES = 48, np.array([1, 2, 3, 5, 8, 13, 24, 40, 48])
HEADS = {
    "decaying": RankParameters(first=0.7, limit=0.2, gamma=0.6, rho=-0.3, dimension=16),
    "one cosine": RankParameters(first=0.3, limit=0.3, gamma=1.0, rho=0.2, dimension=6),
    "repeated": RankParameters(first=0.4, limit=0.1, gamma=1.0, rho=0, dimension=24, repeat=0.8),
}


def a_head() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Weights, norms, two sinks, and leaders: tokens 30 to 35 are equal, as are 5 and 44."""
    draw = np.random.default_rng(4)
    alpha = np.exp(1.5 * draw.normal(size=TOKENS))
    sinks = np.zeros(TOKENS, bool)
    sinks[[0, 20]] = True
    alpha[sinks] = alpha.max() * np.array([2.0, 1.2])
    norms = np.where(sinks, 0.2, 1 + 0.3 * draw.random(TOKENS))
    leaders = np.full(TOKENS, -1)
    for members in (np.arange(30, 36), np.array([5, 44])):
        first = members[alpha[members].argmax()]
        leaders[members[members != first]] = first
    return alpha / alpha.sum(), norms, sinks, leaders


def gram_of(head: RankParameters, alpha, sinks, leaders) -> np.ndarray:
    """The matrix of cosines, in the order of the tokens."""
    rank, gram = np.zeros(TOKENS), np.eye(TOKENS)
    content = [token for token in np.argsort(-alpha, kind="stable") if not sinks[token]]
    rank[content] = np.arange(1, len(content) + 1)
    octave = np.log2(np.maximum(rank, 1)).astype(int)
    coherence = head.coherence(1.5 * 2.0**octave - 0.5)
    group = np.where(leaders >= 0, leaders, np.arange(TOKENS))
    for i in range(TOKENS):
        for j in range(i):
            if sinks[i] and sinks[j]:
                value = 1.0
            elif sinks[i] or sinks[j]:
                value = head.rho
            else:
                value = min(coherence[i], coherence[j])
                if group[i] == group[j]:
                    value += head.repeat * np.sqrt((1 - coherence[i]) * (1 - coherence[j]))
            gram[i, j] = gram[j, i] = value
    return gram


@pytest.mark.parametrize("name", HEADS)
def test_draws_have_the_means_of_a_simulation_of_the_gram(name):
    alpha, norms, sinks, leaders = a_head()
    head = HEADS[name]
    gram = gram_of(head, alpha, sinks, leaders)
    dimension = int(head.dimension)
    found = fitted(alpha, norms, sinks, head, SIZES, draws=4000, leaders=leaders)
    expected = simulate(alpha, norms, gram, dimension, SIZES, draws=4000, seed=1, sink=None)
    for quantity in QUANTITIES:
        one, other = getattr(found, quantity), getattr(expected, quantity)
        error = np.hypot(getattr(found, f"{quantity}_se"), getattr(expected, f"{quantity}_se"))
        assert (np.abs(one - other) <= 4.5 * error + 1e-9).all(), quantity


def test_equal_seeds_give_equal_draws_in_any_order_of_tokens():
    alpha, norms, sinks, leaders = a_head()
    first = fitted(alpha, norms, sinks, HEADS["repeated"], SIZES, leaders=leaders)
    order = np.random.default_rng(0).permutation(TOKENS)
    place = np.argsort(order)
    moved = np.where(leaders >= 0, place[leaders], -1)[order]
    arguments = (alpha[order], norms[order], sinks[order], HEADS["repeated"], SIZES)
    second = fitted(*arguments, leaders=moved)
    np.testing.assert_array_equal(first.precision, second.precision)
    np.testing.assert_array_equal(first.recall_se, second.recall_se)
    assert (first.precision != fitted(*arguments, seed=1).precision).any()


def test_sizes_of_all_tokens_and_beyond():
    alpha, norms, sinks, _ = a_head()
    found = fitted(alpha, norms, sinks, HEADS["decaying"], [TOKENS, TOKENS + 1, 2, 2])
    assert found.precision[0] == found.recall[0] == 1.0
    assert found.precision_se[0] == 0.0
    assert np.isnan(found.f_outer[1])
    assert found.recall[2] == found.recall[3]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"norms": np.ones(3)}, "one length T"),
        ({"alpha": -np.ones(TOKENS)}, "weights >= 0"),
        ({"norms": np.zeros(TOKENS)}, "norms > 0"),
        ({"n": [0]}, "sizes >= 1"),
        ({"draws": 1}, "at least 2 draws"),
        ({"leaders": np.arange(TOKENS)}, "larger weight"),
    ],
)
def test_bad_input_is_refused(changed, words):
    alpha, norms, sinks, _ = a_head()
    arguments = {"alpha": alpha, "norms": norms, "sinks": sinks, "n": SIZES}
    arguments |= {"parameters": HEADS["decaying"]} | changed
    with pytest.raises(InputError, match=words):
        fitted(**arguments)


@pytest.mark.parametrize(
    "changed", [{"first": 0.1}, {"gamma": -1}, {"rho": 2}, {"dimension": 0}, {"repeat": 1}]
)
def test_parameters_out_of_range_are_refused(changed):
    with pytest.raises(InputError, match="0 <= limit <= first <= 1"):
        RankParameters(
            **{"first": 0.5, "limit": 0.2, "gamma": 1, "rho": 0, "dimension": 8} | changed
        )
