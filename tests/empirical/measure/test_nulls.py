"""Null baselines: their draws, against plain loops and against the theory of the draws."""

import numpy as np
import pytest
import torch
from support import loops
from support.layers import random_layer

from empirical.errors import InputError
from empirical.measure.nulls import measure_layer, random_directions, random_orders, seeds_of
from empirical.measure.permutations import Permutations
from empirical.measure.queries import Row
from empirical.measure.queries import measure_layer as measure_queries
from empirical.schema import NULLS

MEASURES = ("precision", "recall", "r_min", "r_max")


def layer(kind: type = np.float64, tokens: int = 40, dimension: int = 8):
    alpha, values = random_layer(6, 2, tokens, dimension, concentration=1, kind=kind)
    return [Row(position=tokens - 1, first=0, alpha=alpha)], values


def by_definition(alpha, values, order, n, convention):
    found = loops.separability(alpha, values, n, order=order, convention=convention)
    return [found[name] for name in MEASURES]


@pytest.mark.parametrize("convention", ["paper", "followup"])
def test_random_draws_equal_the_definitions(convention):
    rows, values = layer()
    alpha = rows[0].alpha
    sizes = [1, 2, 7, 39, 40, 41]
    measured = measure_layer(rows, values, sizes, seed=(1, 2, 3), convention=convention)
    directions, order_seed, _ = seeds_of((1, 2, 3), len(values))
    orders = random_orders(order_seed.spawn(1)[0], *alpha.shape)
    drawn = np.empty_like(values)
    for k in range(len(values)):
        random_directions(values[k], directions[k], drawn[k])
    for h, index in np.ndindex(len(alpha), len(sizes)):
        draws = ((values, orders[h].tolist()), (drawn, None))
        for null, (states, order) in enumerate(draws):
            expected = by_definition(alpha[h], states[h // 3], order, sizes[index], convention)
            found = [measured[name][h, null, index] for name in MEASURES]
            np.testing.assert_allclose(found, expected, rtol=1e-10)


def permuted_by_loops(alpha, values, draw, kv_head, group):
    """Return the values of one head under each permutation null, by moving values token by token;
    None for another KV head's weights.
    """
    content, whole = draw.content[kv_head], draw.whole[kv_head]
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    norm = np.linalg.norm(values, axis=1)
    own = int(np.flatnonzero(whole == 0)[0])
    states = {
        "permuted_values": values[content],
        "permuted_sink": values[whole].copy(),
        "permuted_octaves": values.copy(),
    }
    states["permuted_sink"][0] = norm[0] * unit[whole[0]]
    if own:
        states["permuted_sink"][own] = norm[whole[0]] * unit[0]
    order = [token for token in np.argsort(-alpha, kind="stable") if token != 0]
    for low in (1, 2, 4, 8, 16, 32, 64):
        octave = order[low - 1 : 2 * low - 1]
        shuffled = sorted(octave, key=lambda token: content[token])
        states["permuted_octaves"][octave] = values[shuffled]
    return states


def test_permutation_nulls_give_tokens_the_values_of_other_tokens():
    (row,), values = layer(tokens=70)
    sizes = [1, 2, 5, 12, 40, 64, 65]
    measured = measure_layer([row], values, sizes, seed=(1, 2, 3))
    draw = Permutations.draw(seeds_of((1, 2, 3), 2)[-1], 2, 70)
    for h, index in np.ndindex(6, len(sizes) - 1):
        alpha = row.alpha[h]
        states = permuted_by_loops(alpha, values[h // 3], draw, h // 3, 3)
        states["other_head"] = values[1 - h // 3]
        for name, moved in states.items():
            expected = by_definition(alpha, moved, None, sizes[index], "paper")
            found = [measured[measure][h, NULLS.index(name), index] for measure in MEASURES]
            np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=name)
    assert np.isnan(measured["precision"][:, 2:, -1]).all()


def test_a_query_sees_the_permutation_that_its_tokens_induce():
    draw = Permutations.draw(np.random.SeedSequence(4), 3, 50)
    for rows in (draw.content, draw.whole):
        np.testing.assert_array_equal(np.sort(rows, axis=1), np.tile(np.arange(50), (3, 1)))
    assert (draw.content[:, 0] == 0).all()
    for first, stop in ((0, 50), (0, 49), (20, 45)):
        seen = draw.seen(first, stop)
        np.testing.assert_array_equal(
            np.sort(seen.content, axis=1), np.tile(np.arange(stop - first), (3, 1))
        )
        assert (first > 0) or (seen.content[:, 0] == 0).all()
    whole, but_last = draw.seen(0, 50).content, draw.seen(0, 49).content
    assert (whole[:, :49] != but_last).sum() <= 3  # only the token whose image was the last


def test_layers_without_a_sink_or_with_one_kv_head_lack_a_null():
    alpha, values = random_layer(2, 1, 40, 8, kind=np.float64)
    rows = [Row(position=39, first=10, alpha=alpha[:, 10:])]
    precision = measure_layer(rows, values, [2, 5], seed=(0,))["precision"]
    missing = [name for i, name in enumerate(NULLS) if np.isnan(precision[:, i]).all()]
    assert missing == ["permuted_sink", "other_head"]


def test_values_exchangeable_given_weights_have_no_gain():
    """Measured and permuted curves agree in the mean over draws where values are independent of
    weights, but not where tokens of large weight share a direction; there permutation within
    octaves of rank keeps Precision.
    """
    generator = np.random.default_rng(0)
    differences: dict[str, list[np.ndarray]] = {"independent": [], "aligned": []}
    for draw in range(200):
        alpha = generator.dirichlet(np.full(40, 0.3), size=2)
        values = generator.normal(size=(2, 40, 8)) + 1.0  # a common mean: no isotropy
        order = np.argsort(-alpha[0])
        aligned = values.copy()
        aligned[0, order[:4]] += 4 * generator.normal(size=8)
        for name, states in (("independent", values), ("aligned", aligned)):
            rows = [Row(position=39, first=0, alpha=alpha)]
            measured = measure_queries(rows, states, [4])["precision"][0, 0]
            null = measure_layer(rows, states, [4], seed=(draw,))["precision"][0, :, 0]
            differences[name].append(measured - null)
    for name, rows_of in differences.items():
        mean, error = np.mean(rows_of, axis=0), np.std(rows_of, axis=0) / np.sqrt(200)
        t = dict(zip(NULLS, mean / error, strict=True))
        assert (abs(t["permuted_values"]) < 4) == (name == "independent"), t
        assert (abs(t["other_head"]) < 4) == (name == "independent"), t
        assert abs(t["random_directions"]) > 8, t


def test_equal_seeds_give_equal_bits_whatever_the_threads(monkeypatch):
    rows, values = layer(np.float32, tokens=300, dimension=64)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        measured = measure_layer(rows, values, None, seed=(7, 0xFFFFFFFF, 29))
        found.append({name: array.tobytes() for name, array in measured.items()})
    assert found == found[:1] * 3
    other = measure_layer(rows, values, None, seed=(7, 0xFFFFFFFF, 30))
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
    rows, values = layer()
    values[1, 3, 0] = np.nan
    with pytest.raises(InputError, match="kv_head 1: NaN or infinity"):
        measure_layer(rows, values, None, seed=(0,))
