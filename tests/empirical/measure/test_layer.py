"""Everything of /capture in a layer, against plain loops over tokens."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import loops
from support.layers import Layer, layers
from support.raising import refused

from empirical.measure import pairs as pairs_module
from empirical.measure.layer import (
    cosine_bins,
    lag_bins,
    measure_layer,
    position_blocks,
    principal_components,
)


def layer(
    seed: int, heads: int, kv_heads: int, tokens: int, dimension: int, kind: type = np.float64
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of a wide range, and values that share a direction, as heads of real models do."""
    generator = np.random.default_rng(seed)
    alpha = np.exp(2 * generator.normal(size=(heads, tokens)))
    values = generator.normal(size=(kv_heads, tokens, dimension)) + 0.3
    return (alpha / alpha.sum(axis=1, keepdims=True)).astype(kind), values.astype(kind)


def bits(measured: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in measured.items()}


def expect_curves(measured: dict[str, np.ndarray], of: Layer) -> None:
    """Compare at every N; nothing is defined beyond the tokens."""
    group = len(of.alpha) // len(of.values)
    for h, size in np.ndindex(len(of.alpha), of.tokens):
        head = of.alpha[h], of.values[h // group], size + 1
        expected = loops.separability(*head, convention=of.convention)
        expected |= loops.curves(*head, sink=of.sink)
        for name in expected.keys() - {"f_outer", "f_inner"}:
            found = measured[name][h]
            same = pytest.approx(expected[name], rel=1e-9, abs=1e-9, nan_ok=True)
            assert found[size] == same, (name, h, size + 1)
            assert np.isnan(found[of.tokens]), name


def expect_lags(measured: dict[str, np.ndarray], of: Layer) -> None:
    """Compare all that is by lag; some positions of the document may come before the tokens."""
    values, sink, hidden = of.values, of.sink, of.positions - of.tokens
    bins, blocks = lag_bins(of.positions, sink=sink or hidden > 0), position_blocks(of.positions)
    assert measured["cosine_mean"].shape == (len(values), max(of.tokens - 1 - sink, 0))
    assert measured["cosine_histogram"].shape[1] == len(bins)
    for k in range(len(values)):
        pairs = loops.pairs(values[k], sink=sink)
        for index in range(measured["cosine_mean"].shape[1]):
            here = np.array([c for i, j, c in pairs if j - i == index + 1])
            expected = {"mean": np.nan, "std": np.nan, "negative_fraction": np.nan}
            if here.size:
                negative = (here < 0).mean()
                expected = {"mean": here.mean(), "std": here.std(), "negative_fraction": negative}
            for name, value in expected.items():
                found = measured[f"cosine_{name}"][k, index]
                assert found == pytest.approx(value, abs=1e-7, nan_ok=True), (name, index + 1)
        for index, (start, stop) in enumerate(bins):
            inside = [(j + hidden, c) for i, j, c in pairs if start <= j - i <= stop]
            counts = np.histogram(np.clip([c for _, c in inside], -1, 1), cosine_bins())[0]
            np.testing.assert_array_equal(measured["cosine_histogram"][k, index], counts)
            for block, (first, last) in enumerate(blocks):
                part = [c for j, c in inside if first <= j <= last]
                expected_mean = np.mean(part) if part else np.nan
                found = measured["cosine_block_mean"][k, block, index]
                assert found == pytest.approx(expected_mean, abs=1e-12, nan_ok=True)


def expect_positions(measured: dict[str, np.ndarray], of: Layer) -> None:
    for k, i in np.ndindex(of.values.shape[:2]):
        states = of.values[k]
        expected = {
            "value_norm": np.linalg.norm(states[i]),
            "sink_cosine": loops.cosine(states[0], states[i]) if of.sink and i > 0 else np.nan,
            "cosine_to_last_value": loops.cosine(states[-1], states[i]),
        }
        for name, value in expected.items():
            assert measured[name][k, i] == pytest.approx(value, abs=1e-12, nan_ok=True), name


@settings(max_examples=30)
@given(of=layers(most=24))
def test_float64_equals_the_definitions(of):
    of = replace(of, alpha=of.alpha.astype(np.float64), values=of.values.astype(np.float64))
    measured = measure_layer(of.alpha, of.values, of.sizes, **of.options)
    expect_curves(measured, of)
    expect_lags(measured, of)
    expect_positions(measured, of)


def test_float32_is_close_to_float64():
    alpha, values = layer(1, 6, 2, 150, 64, np.float32)
    single = measure_layer(alpha, values, None, sink=True)
    double = measure_layer(alpha.astype(np.float64), values.astype(np.float64), None, sink=True)
    for name, array in single.items():
        if name == "cosine_histogram":
            assert np.abs(array - double[name]).sum() <= 4
        elif name in ("precision", "recall"):
            assert (array != double[name].astype(np.float32)).mean() < 0.01
        else:
            assert array.dtype == np.float32
            np.testing.assert_allclose(array, double[name], rtol=2e-6, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_equal_tokens_tie_exactly(kind):
    tokens = 203
    alpha = np.full((1, tokens), 1 / tokens, kind)
    values = np.tile(np.random.default_rng(0).normal(size=7).astype(kind), (1, tokens, 1))
    n = np.arange(1, tokens)
    paper, followup = (
        measure_layer(alpha, values, n, sink=True, convention=name)
        for name in ("paper", "followup")
    )
    assert (paper["precision"][0] == (n / tokens).astype(kind)).all()
    assert (paper["recall"] == 1).all()
    assert (followup["recall"] == 0).all()


@pytest.mark.parametrize(
    ("kind", "tolerance", "sink"), [(np.float32, 1e-6, True), (np.float64, 1e-10, False)]
)
def test_blocks_of_columns_equal_a_whole_matrix(monkeypatch, sink, kind, tolerance):
    alpha, values = layer(3, 4, 2, 210, 12, kind)
    values[0, 100] = 0
    whole = measure_layer(alpha, values, None, sink=sink)
    for name in ("CELLS", "WHOLE"):
        monkeypatch.setattr(pairs_module, name, 80 * 210)
    blocked = measure_layer(alpha, values, None, sink=sink)
    for name, array in whole.items():
        counted = name in ("precision", "recall")
        if name == "cosine_histogram" or (kind is np.float64 and counted):
            np.testing.assert_array_equal(blocked[name], array, err_msg=name)
        elif counted:
            assert (blocked[name] != array).mean() < 0.01
        else:
            close: Any = {"rtol": tolerance, "atol": tolerance, "err_msg": name}
            np.testing.assert_allclose(blocked[name], array, **close)


def test_batches_of_kv_heads_equal_all_at_once(monkeypatch):
    alpha, values = layer(4, 6, 3, 100, 8, np.float32)
    whole = measure_layer(alpha, values, None, sink=True)
    monkeypatch.setattr(pairs_module, "CELLS", 2 * 112 * 112)
    assert bits(measure_layer(alpha, values, None, sink=True)) == bits(whole)


def test_concurrent_layers_share_no_buffer():
    measure_layer(*layer(3, 2, 2, 50, 8), None, sink=True)
    assert pairs_module.ROOMS  # one is there, for one of them alone
    pairs = [
        pairs_module.Pairs(
            layer(seed, 2, 2, 50, 8)[1],
            sink=True,
            offset=0,
            bins=lag_bins(50),
            blocks=position_blocks(50),
        )
        for seed in range(3)
    ]
    first_blocks = [next(one.batches())[0].cosine for one in pairs]
    for first, second in combinations(first_blocks, 2):
        assert not np.shares_memory(first, second)


def test_the_next_layer_reuses_the_buffer_with_equal_results():
    given_ = layer(11, 4, 2, 90, 8, np.float32)
    pairs_module.ROOMS.clear()
    alone = measure_layer(*given_, None, sink=True)
    measure_layer(*layer(12, 2, 1, 200, 8), None, sink=True)  # a larger one, in another type
    (room,) = pairs_module.ROOMS
    room[:] = 255  # NaN
    assert bits(measure_layer(*given_, None, sink=True)) == bits(alone)
    assert pairs_module.ROOMS[0] is room


def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    alpha, values = layer(5, 6, 2, 400, 64, np.float32)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found.append(bits(measure_layer(alpha, values, None, sink=True)))
    assert found[0] == found[1]


def test_equal_values_have_cosine_one_at_every_lag():
    values = np.tile(np.random.default_rng(1).normal(size=(1, 1, 6)).astype(np.float32), (1, 20, 1))
    measured = measure_layer(np.full((1, 20), 0.05), values, [3], sink=True)
    np.testing.assert_allclose(measured["cosine_mean"], 1, atol=1e-6)
    assert (measured["cosine_std"] < 1e-3).all()
    pairs_by_bin = [18 - lag for lag in range(16)] + [2, 1]
    assert measured["cosine_histogram"][0, :, -1].tolist() == pairs_by_bin
    assert measured["rho_in"].item() <= 1


@pytest.mark.parametrize("tokens", [1, 2, 3, 10, 18, 19, 20, 100, 1025, 8193])
@pytest.mark.parametrize("sink", [True, False])
def test_lag_bins_cover_every_lag_once(tokens, sink):
    bins = lag_bins(tokens, sink=sink)
    covered = [lag for start, stop in bins for lag in range(start, stop + 1)]
    assert covered == list(range(1, tokens - 1 if sink else tokens))
    assert all(start == stop for start, stop in bins[:16])
    assert len(bins) <= 48


@pytest.mark.parametrize("tokens", [1, 7, 8, 100, 1025])
def test_position_blocks_cover_every_position_once(tokens):
    blocks = position_blocks(tokens)
    assert len(blocks) == 8
    assert [p for start, stop in blocks for p in range(start, stop + 1)] == list(range(tokens))
    assert np.ptp(blocks[:, 1] - blocks[:, 0]) <= 1


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), tokens=st.integers(1, 30), dimension=st.integers(1, 8))
def test_principal_components_add_up_to_the_representative(seed, tokens, dimension):
    (alpha,), (values,) = layer(seed, 1, 1, tokens, dimension)
    components = principal_components(alpha, values)
    assert components.shape == (tokens, 3)
    y = alpha[:, None] * values
    centred, spread = components - components.mean(axis=0), y - y.mean(axis=0)
    # The first axis keeps the largest variance a direction can: the top eigenvalue of the
    # covariance.
    largest = np.linalg.eigvalsh(spread.T @ spread)[-1]
    assert centred[:, 0] @ centred[:, 0] == pytest.approx(largest, abs=1e-12)
    assert abs(centred[:, 0] @ centred[:, 1]) < 1e-9
    if dimension <= 3 and tokens >= 3:
        kept, whole = (np.linalg.norm(rows[:2].sum(axis=0)) for rows in (components, y))
        assert kept == pytest.approx(whole, abs=1e-12)


def test_bad_input_is_refused():
    alpha, values = layer(9, 2, 1, 6, 3)
    with refused("positions = 5, but 6 tokens are visible"):
        measure_layer(alpha, values, None, sink=True, positions=5)
    with refused("expected the row of one head"):
        principal_components(alpha, values[0])
