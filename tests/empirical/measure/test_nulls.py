from __future__ import annotations

import numpy as np
import pytest
from support import loops

from empirical.errors import InputError
from empirical.measure.nulls import measure_layer, random_directions, random_orders
from empirical.measure.selection import order_by_weight
from empirical.schema import NULLS

MEASURES = ("precision", "recall", "r_min", "r_max")


def layer(
    seed: int = 0,
    *,
    heads: int = 6,
    kv_heads: int = 2,
    tokens: int = 40,
    dimension: int = 8,
    kind: type = np.float64,
) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.dirichlet(np.ones(tokens), size=heads).astype(kind), generator.normal(
        size=(kv_heads, tokens, dimension)
    ).astype(kind)


def streams(seed: tuple[int, ...], kv_heads: int) -> list[np.random.SeedSequence]:
    return np.random.SeedSequence(list(seed)).spawn(kv_heads + 1)


@pytest.mark.parametrize("convention", ["paper", "followup"])
def test_both_draws_equal_the_definitions(convention: str) -> None:
    alpha, values = layer()
    n = [1, 2, 7, 39, 40, 41]
    measured = measure_layer(alpha, values, n, seed=(1, 2, 3), convention=convention)
    seeds = streams((1, 2, 3), len(values))
    orders = random_orders(seeds[-1], len(alpha), alpha.shape[1])
    drawn = np.empty_like(values)
    for k in range(len(values)):
        random_directions(values[k], seeds[k], drawn[k])
    for h in range(len(alpha)):
        for index, size in enumerate(n):
            by_chance = loops.separability(
                alpha[h], values[h // 3], size, order=orders[h].tolist(), convention=convention
            )
            by_direction = loops.separability(alpha[h], drawn[h // 3], size, convention=convention)
            for name in MEASURES:
                assert measured[name][h, 0, index] == pytest.approx(
                    by_chance[name], rel=1e-10, nan_ok=True
                )
                assert measured[name][h, 1, index] == pytest.approx(
                    by_direction[name], rel=1e-10, nan_ok=True
                )


def test_equal_seeds_give_equal_bits_whatever_the_threads() -> None:
    alpha, values = layer(kind=np.float32, tokens=300, dimension=64)
    one = measure_layer(alpha, values, None, seed=(7, 0xFFFFFFFF, 29), threads=1)
    for threads in (2, 5):
        for name, measured in measure_layer(
            alpha, values, None, seed=(7, 0xFFFFFFFF, 29), threads=threads
        ).items():
            assert measured.tobytes() == one[name].tobytes()
    other = measure_layer(alpha, values, None, seed=(7, 0xFFFFFFFF, 30))
    for null in range(len(NULLS)):
        assert (other["r_max"][:, null] != one["r_max"][:, null]).any()


def test_a_draw_does_not_depend_on_the_sizes_asked_for() -> None:
    alpha, values = layer(kind=np.float32)
    every = measure_layer(alpha, values, np.arange(1, 41), seed=(0,))
    some = measure_layer(alpha, values, [5, 17], seed=(0,))
    for name in MEASURES:
        np.testing.assert_array_equal(some[name], every[name][..., [4, 16]])


def test_random_orders_are_permutations_of_their_own() -> None:
    orders = random_orders(np.random.SeedSequence(3), 50, 9)
    assert (np.sort(orders, axis=1) == np.arange(9)).all()
    assert len({tuple(order) for order in orders.tolist()}) > 45


def test_random_directions_keep_norms_and_are_uniform() -> None:
    tokens, dimension = 4000, 16
    values = (
        np.random.default_rng(1).normal(size=(tokens, dimension)).astype(np.float32)
        * np.linspace(0, 9, tokens, dtype=np.float32)[:, None]
    )
    drawn = np.empty_like(values)
    random_directions(values, np.random.SeedSequence(0), drawn)
    np.testing.assert_allclose(
        np.linalg.norm(drawn, axis=1), np.linalg.norm(values, axis=1), rtol=1e-5
    )
    unit = drawn[1:].astype(np.float64) / np.linalg.norm(drawn[1:], axis=1, keepdims=True)
    # Each coordinate of a uniform direction has mean 0, variance 1/d and variance of its square
    # 2(d−1)/(d²(d+2)): within 4 standard errors.
    assert np.abs(unit.mean(axis=0)).max() < 4 * np.sqrt(1 / dimension / tokens)
    of_square = np.sqrt(2 * (dimension - 1) / (dimension**2 * (dimension + 2)) / tokens)
    assert np.abs((unit**2).mean(axis=0) - 1 / dimension).max() < 4 * of_square
    consecutive = (unit[:-1] * unit[1:]).sum(axis=1)
    assert abs(consecutive.mean()) < 4 * np.sqrt(1 / dimension / tokens)


def test_weights_enter_random_directions_but_not_the_order_of_random_selection() -> None:
    # A sink of nearly all weight: by weight it comes first, at random in the middle on average.
    alpha = np.tile(np.concatenate([[0.99], np.full(19, 0.01 / 19)]), (200, 1))
    orders = random_orders(streams((5,), 1)[-1], 200, 20)
    places = (orders == 0).argmax(axis=1)
    assert abs(places.mean() - 9.5) < 4 * np.sqrt((20**2 - 1) / 12 / 200)
    assert (order_by_weight(alpha)[:, 0] == 0).all()
    measured = measure_layer(
        alpha, np.random.default_rng(0).normal(size=(1, 20, 4)), [1, 5], seed=(5,)
    )
    assert (measured["precision"][:, :, 0] == 1).all()
    np.testing.assert_array_equal(np.unique(measured["precision"][:, 1, 1]).size, 1)
    assert np.unique(measured["precision"][:, 0, 1]).size > 1


def test_shapes_and_missing_sizes() -> None:
    alpha, values = layer(kind=np.float32)
    measured = measure_layer(alpha, values, [40, 41], seed=(0,))
    assert set(measured) == set(MEASURES)
    for array in measured.values():
        assert array.shape == (6, 2, 2)
        assert array.dtype == np.float32
        assert np.isnan(array[..., 1]).all()
    assert not np.isnan(measured["precision"][..., 0]).any()


def test_values_without_a_number_are_refused() -> None:
    alpha, values = layer()
    values[1, 3, 0] = np.nan
    with pytest.raises(InputError, match="kv_head 1: NaN or infinity"):
        measure_layer(alpha, values, None, seed=(0,))
