"""Null baselines: their two draws, against plain loops and against the theory of the draws."""

import numpy as np
import pytest
import torch
from support import loops
from support.layers import random_layer

from empirical.errors import InputError
from empirical.measure.nulls import measure_layer, random_directions, random_orders
from empirical.schema import NULLS

MEASURES = ("precision", "recall", "r_min", "r_max")


def layer(kind: type = np.float64, tokens: int = 40, dimension: int = 8):
    return random_layer(6, 2, tokens, dimension, concentration=1, kind=kind)


def streams(seed: tuple[int, ...], kv_heads: int) -> list[np.random.SeedSequence]:
    return np.random.SeedSequence(list(seed)).spawn(kv_heads + 1)


@pytest.mark.parametrize("convention", ["paper", "followup"])
def test_both_draws_equal_the_definitions(convention):
    alpha, values = layer()
    sizes = [1, 2, 7, 39, 40, 41]
    measured = measure_layer(alpha, values, sizes, seed=(1, 2, 3), convention=convention)
    seeds = streams((1, 2, 3), len(values))
    orders = random_orders(seeds[-1], len(alpha), alpha.shape[1])
    drawn = np.empty_like(values)
    for k in range(len(values)):
        random_directions(values[k], seeds[k], drawn[k])
    for h, index in np.ndindex(len(alpha), len(sizes)):
        draws = ((values, orders[h].tolist()), (drawn, None))
        for null, (states, order) in enumerate(draws):
            expected = loops.separability(
                alpha[h], states[h // 3], sizes[index], order=order, convention=convention
            )
            for name in MEASURES:
                same = pytest.approx(expected[name], rel=1e-10, nan_ok=True)
                assert measured[name][h, null, index] == same, (name, h, null, sizes[index])


def test_equal_seeds_give_equal_bits_whatever_the_threads(monkeypatch):
    alpha, values = layer(np.float32, tokens=300, dimension=64)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        measured = measure_layer(alpha, values, None, seed=(7, 0xFFFFFFFF, 29))
        found.append({name: array.tobytes() for name, array in measured.items()})
    assert found == found[:1] * 3
    other = measure_layer(alpha, values, None, seed=(7, 0xFFFFFFFF, 30))
    for null in range(len(NULLS)):
        assert (other["r_max"][:, null] != measured["r_max"][:, null]).any()


def test_random_orders_are_independent_permutations():
    orders = random_orders(np.random.SeedSequence(3), 50, 9)
    assert (np.sort(orders, axis=1) == np.arange(9)).all()
    assert len({tuple(order) for order in orders.tolist()}) > 45


def test_random_directions_keep_norms_and_are_uniform():
    tokens, dimension = 4000, 16
    values = np.random.default_rng(1).normal(size=(tokens, dimension)).astype(np.float32)
    values *= np.linspace(0, 9, tokens, dtype=np.float32)[:, None]
    drawn = np.empty_like(values)
    random_directions(values, np.random.SeedSequence(0), drawn)
    norms = np.linalg.norm(drawn, axis=1)
    np.testing.assert_allclose(norms, np.linalg.norm(values, axis=1), rtol=1e-5)
    unit = drawn[1:].astype(np.float64) / norms[1:, None]
    # Each coordinate of a uniform direction has mean 0, variance 1/d and variance of its square
    # 2(d−1)/(d²(d+2)): within 4 standard errors.
    assert np.abs(unit.mean(axis=0)).max() < 4 * np.sqrt(1 / dimension / tokens)
    of_square = np.sqrt(2 * (dimension - 1) / (dimension**2 * (dimension + 2)) / tokens)
    assert np.abs((unit**2).mean(axis=0) - 1 / dimension).max() < 4 * of_square
    consecutive = (unit[:-1] * unit[1:]).sum(axis=1)
    assert abs(consecutive.mean()) < 4 * np.sqrt(1 / dimension / tokens)


def test_values_without_a_number_are_refused():
    alpha, values = layer()
    values[1, 3, 0] = np.nan
    with pytest.raises(InputError, match="kv_head 1: NaN or infinity"):
        measure_layer(alpha, values, None, seed=(0,))
