from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import loops

from empirical.errors import InputError
from empirical.measure import pairs as pairs_module
from empirical.measure.layer import (
    cosine_bins,
    lag_bins,
    measure_layer,
    position_blocks,
    principal_components,
)
from empirical.measure.selection import separability
from empirical.measure.sizes import default_n
from empirical.schema import CAPTURE


def layer(
    seed: int,
    heads: int,
    kv_heads: int,
    tokens: int,
    dimension: int,
    *,
    offset: float = 0.3,
    kind: type = np.float64,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of a wide range, and values that share a direction, as heads of real models do."""
    generator = np.random.default_rng(seed)
    alpha = np.exp(2 * generator.normal(size=(heads, tokens)))
    return (alpha / alpha.sum(axis=1, keepdims=True)).astype(kind), (
        generator.normal(size=(kv_heads, tokens, dimension)) + offset
    ).astype(kind)


layers = st.builds(
    lambda seed, kv_heads, group, tokens, dimension: layer(
        seed, kv_heads * group, kv_heads, tokens, dimension
    ),
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 24),
    st.integers(1, 10),
)


def expect_curves(
    measured: dict[str, np.ndarray],
    alpha: np.ndarray,
    values: np.ndarray,
    sizes: list[int],
    *,
    sink: bool,
    rel: float,
) -> None:
    group = len(alpha) // len(values)
    for h in range(len(alpha)):
        for index, size in enumerate(sizes):
            expected = loops.separability(alpha[h], values[h // group], size) | loops.curves(
                alpha[h], values[h // group], size, sink=sink
            )
            for name, value in expected.items():
                if name not in ("f_outer", "f_inner"):
                    assert measured[name][h, index] == pytest.approx(
                        value, rel=rel, abs=rel, nan_ok=True
                    ), (name, h, size)


def expect_lags(
    measured: dict[str, np.ndarray], values: np.ndarray, *, sink: bool, offset: int = 0
) -> None:
    tokens = values.shape[1]
    bins, blocks = (
        lag_bins(tokens + offset, sink=sink or offset > 0),
        position_blocks(tokens + offset),
    )
    assert measured["cosine_mean"].shape == (len(values), max(tokens - 1 - sink, 0))
    for k in range(len(values)):
        found = loops.pairs(values[k], sink=sink)
        for index in range(measured["cosine_mean"].shape[1]):
            here = np.array([c for i, j, c in found if j - i == index + 1])
            nothing = here.size == 0
            for name, value in (
                ("cosine_mean", np.nan if nothing else here.mean()),
                ("cosine_std", np.nan if nothing else here.std()),
                ("cosine_negative_fraction", np.nan if nothing else (here < 0).mean()),
            ):
                assert measured[name][k, index] == pytest.approx(value, abs=1e-7, nan_ok=True), (
                    name,
                    index + 1,
                )
        for index, (start, stop) in enumerate(bins):
            inside = np.array([c for i, j, c in found if start <= j - i <= stop])
            np.testing.assert_array_equal(
                measured["cosine_histogram"][k, index], np.histogram(inside, cosine_bins())[0]
            )
            for block, (first, last) in enumerate(blocks):
                part = [
                    c for i, j, c in found if start <= j - i <= stop and first <= j + offset <= last
                ]
                expected = np.mean(part) if part else np.nan
                assert measured["cosine_block_mean"][k, block, index] == pytest.approx(
                    expected, abs=1e-12, nan_ok=True
                )


def expect_positions(measured: dict[str, np.ndarray], values: np.ndarray, *, sink: bool) -> None:
    for k, states in enumerate(values):
        for i, state in enumerate(states):
            assert measured["value_norm"][k, i] == pytest.approx(np.linalg.norm(state))
            to_sink = loops.cosine(states[0], state) if sink and i > 0 else np.nan
            assert measured["sink_cosine"][k, i] == pytest.approx(to_sink, abs=1e-12, nan_ok=True)
            assert measured["cosine_to_last_value"][k, i] == pytest.approx(
                loops.cosine(states[-1], state), abs=1e-12, nan_ok=True
            )


@pytest.mark.parametrize("sink", [True, False])
@settings(max_examples=40)
@given(head=layers)
def test_float64_equals_the_definitions(head: tuple[np.ndarray, np.ndarray], sink: bool) -> None:
    alpha, values = head
    sizes = list(range(1, alpha.shape[1] + 1))
    measured = measure_layer(alpha, values, sizes, sink=sink)
    expect_curves(measured, alpha, values, sizes, sink=sink, rel=1e-9)
    expect_lags(measured, values, sink=sink)
    expect_positions(measured, values, sink=sink)


@pytest.mark.parametrize("sink", [True, False])
@pytest.mark.parametrize("tokens", [1, 2, 3, 5])
def test_short_documents(tokens: int, sink: bool) -> None:
    alpha, values = layer(tokens, 4, 2, tokens, 3)
    sizes = list(range(1, tokens + 1))
    measured = measure_layer(alpha, values, [*sizes, tokens + 1], sink=sink)
    expect_curves(measured, alpha, values, sizes, sink=sink, rel=1e-9)
    expect_lags(measured, values, sink=sink)
    for name in ("precision", "s_in", "rho_in", "rho_out", "representative_norm"):
        assert np.isnan(measured[name][:, -1]).all()


def test_float32_is_close_to_float64() -> None:
    alpha, values = layer(1, 6, 2, 150, 64, kind=np.float32)
    single = measure_layer(alpha, values, None, sink=True)
    double = measure_layer(alpha.astype(np.float64), values.astype(np.float64), None, sink=True)
    for name, array in single.items():
        if name in ("precision", "recall", "cosine_histogram"):
            continue
        assert array.dtype == np.float32
        np.testing.assert_allclose(array, double[name], rtol=2e-6, atol=2e-6, err_msg=name)
    assert np.abs(single["cosine_histogram"] - double["cosine_histogram"]).sum() <= 4
    assert (single["precision"] != double["precision"].astype(np.float32)).mean() < 0.01
    assert (single["recall"] != double["recall"].astype(np.float32)).mean() < 0.01


@pytest.mark.parametrize("convention", ["paper", "followup"])
def test_a_walk_over_cosines_equals_the_public_separability(convention: str) -> None:
    alpha, values = layer(2, 6, 3, 200, 16)
    walked = measure_layer(alpha, values, None, sink=True, convention=convention)
    for name, expected in separability(alpha, values, convention=convention).items():
        if name in walked:
            np.testing.assert_allclose(walked[name], expected, rtol=1e-10, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_equal_tokens_tie_exactly(kind: type) -> None:
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


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("sink", [True, False])
def test_blocks_of_columns_give_what_a_whole_matrix_gives(
    monkeypatch: pytest.MonkeyPatch, sink: bool, kind: type
) -> None:
    alpha, values = layer(3, 4, 2, 210, 12, kind=kind)
    values[0, 100] = 0
    whole = measure_layer(alpha, values, None, sink=sink)
    monkeypatch.setattr(pairs_module, "CELLS", 80 * 210)
    monkeypatch.setattr(pairs_module, "WHOLE", 80 * 210)
    blocked = measure_layer(alpha, values, None, sink=sink)
    tolerance = 1e-10 if kind is np.float64 else 1e-6
    for name, array in whole.items():
        if name == "cosine_histogram" or (kind is np.float64 and name in ("precision", "recall")):
            np.testing.assert_array_equal(blocked[name], array, err_msg=name)
        elif name in ("precision", "recall"):
            assert (blocked[name] != array).mean() < 0.01
        else:
            np.testing.assert_allclose(
                blocked[name], array, rtol=tolerance, atol=tolerance, err_msg=name
            )


def test_a_batch_of_kv_heads_gives_what_all_at_once_give(monkeypatch: pytest.MonkeyPatch) -> None:
    alpha, values = layer(4, 6, 3, 100, 8, kind=np.float32)
    whole = measure_layer(alpha, values, None, sink=True)
    monkeypatch.setattr(pairs_module, "CELLS", 2 * 112 * 112)
    for name, array in measure_layer(alpha, values, None, sink=True).items():
        assert array.tobytes() == whole[name].tobytes()


def test_layers_measured_at_once_share_no_room() -> None:
    measure_layer(*layer(3, 2, 2, 50, 8), None, sink=True)
    assert pairs_module.ROOMS  # one is there, for one of them alone
    rooms = [
        [block.cosine for block in next(pairs.batches())]
        for pairs in (of_layer(seed) for seed in range(3))
    ]
    for first, second in combinations(rooms, 2):
        assert not np.shares_memory(first[0], second[0])


def of_layer(seed: int) -> pairs_module.Pairs:
    values = layer(seed, 2, 2, 50, 8)[1]
    return pairs_module.Pairs(
        values, sink=True, offset=0, bins=lag_bins(50), blocks=position_blocks(50)
    )


def test_room_is_taken_again_by_the_next_layer_and_its_numbers_are_as_before() -> None:
    given = layer(11, 4, 2, 90, 8, kind=np.float32)
    pairs_module.ROOMS.clear()
    alone = measure_layer(*given, None, sink=True)
    measure_layer(*layer(12, 2, 1, 200, 8), None, sink=True)  # a larger one, in another type
    (room,) = pairs_module.ROOMS
    room[:] = 255  # NaN
    again = measure_layer(*given, None, sink=True)
    assert pairs_module.ROOMS[0] is room
    for name, array in again.items():
        assert array.tobytes() == alone[name].tobytes(), name


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    alpha, values = layer(5, 6, 2, 400, 64, kind=np.float32)
    one = measure_layer(alpha, values, None, sink=True, threads=1)
    for threads in (2, 3, 8):
        for name, array in measure_layer(alpha, values, None, sink=True, threads=threads).items():
            assert array.tobytes() == one[name].tobytes(), name


def test_a_sliding_window_refers_to_the_documents_positions() -> None:
    # 30 of 50 positions are visible: bins of lags and blocks of positions are the document's.
    alpha, values = layer(6, 2, 1, 30, 5)
    measured = measure_layer(alpha, values, [1, 30, 31], sink=False, positions=50)
    assert measured["cosine_histogram"].shape[1] == len(lag_bins(50))
    assert np.isnan(measured["cosine_block_mean"][:, :3]).all()
    expect_lags(measured, values, sink=False, offset=20)
    expect_curves(measured, alpha, values, [1, 30], sink=False, rel=1e-9)


@pytest.mark.parametrize("sink", [True, False])
def test_zero_vectors_have_no_cosine(sink: bool) -> None:
    alpha, values = layer(7, 4, 2, 40, 5)
    values[0, [0, 7, 20]] = 0
    values[1, [39]] = 0
    sizes = list(range(1, 41))
    measured = measure_layer(alpha, values, sizes, sink=sink)
    expect_curves(measured, alpha, values, sizes, sink=sink, rel=1e-9)
    expect_lags(measured, values, sink=sink)
    expect_positions(measured, values, sink=sink)


def test_zero_weights() -> None:
    alpha = np.array([[0, 0.75, 0, 0.25, 0]])
    values = np.random.default_rng(0).normal(size=(1, 5, 4))
    expect_curves(
        measure_layer(alpha, values, [1, 2, 3, 4, 5], sink=True),
        alpha,
        values,
        [1, 2, 3, 4, 5],
        sink=True,
        rel=1e-9,
    )


def test_equal_values_have_cosine_one_at_every_lag() -> None:
    values = np.tile(np.random.default_rng(1).normal(size=(1, 1, 6)).astype(np.float32), (1, 20, 1))
    measured = measure_layer(np.full((1, 20), 0.05), values, [3], sink=True)
    np.testing.assert_allclose(measured["cosine_mean"], 1, atol=1e-6)
    assert (measured["cosine_std"] < 1e-3).all()
    assert measured["cosine_histogram"][0, :, -1].tolist() == [18 - lag for lag in range(16)] + [
        2,
        1,
    ]
    assert measured["rho_in"].item() <= 1


def test_every_schema_variable_is_measured() -> None:
    alpha, values = layer(8, 2, 1, 20, 4, kind=np.float32)
    measured = measure_layer(torch.tensor(alpha), torch.tensor(values), None, sink=True)
    assert set(measured) == set(CAPTURE) - {"token_id"}
    for name, array in measured.items():
        assert array.dtype == CAPTURE[name].dtype
    np.testing.assert_array_equal(measured["attention_weight"], alpha)
    assert measured["precision"].shape == (2, len(default_n(20)))


@pytest.mark.parametrize("tokens", [1, 2, 3, 10, 18, 19, 20, 100, 1025, 8193])
@pytest.mark.parametrize("sink", [True, False])
def test_lag_bins_cover_every_lag_once(tokens: int, sink: bool) -> None:
    bins = lag_bins(tokens, sink=sink)
    covered = [lag for start, stop in bins for lag in range(start, stop + 1)]
    assert covered == list(range(1, tokens - 1 if sink else tokens))
    assert all(start == stop for start, stop in bins[:16])
    assert len(bins) <= 48


@pytest.mark.parametrize("tokens", [1, 7, 8, 100, 1025])
def test_position_blocks_cover_every_position_once(tokens: int) -> None:
    blocks = position_blocks(tokens)
    assert len(blocks) == 8
    assert [p for start, stop in blocks for p in range(start, stop + 1)] == list(range(tokens))
    lengths = blocks[:, 1] - blocks[:, 0] + 1
    assert lengths.max() - lengths.min() <= 1


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), tokens=st.integers(1, 30), dimension=st.integers(1, 8))
def test_principal_components_add_up_to_the_representative(
    seed: int, tokens: int, dimension: int
) -> None:
    alpha, values = layer(seed, 1, 1, tokens, dimension)
    components = principal_components(alpha[0], values[0])
    assert components.shape == (tokens, 3)
    y = alpha[0, :, None] * values[0]
    centred = components - components.mean(axis=0)
    # The first axis keeps the largest variance a direction can: the top eigenvalue of the
    # covariance.
    assert centred[:, 0] @ centred[:, 0] == pytest.approx(
        np.linalg.eigvalsh((y - y.mean(axis=0)).T @ (y - y.mean(axis=0)))[-1], abs=1e-12
    )
    assert abs(centred[:, 0] @ centred[:, 1]) < 1e-9
    if dimension <= 3 and tokens >= 3:
        np.testing.assert_allclose(
            np.linalg.norm(components[:2].sum(axis=0)),
            np.linalg.norm(y[:2].sum(axis=0)),
            atol=1e-12,
        )


def test_bad_input_is_refused() -> None:
    alpha, values = layer(9, 2, 1, 6, 3)
    with pytest.raises(InputError, match="positions = 5, but 6 tokens are visible"):
        measure_layer(alpha, values, None, sink=True, positions=5)
    with pytest.raises(InputError, match="expected the row of one head"):
        principal_components(alpha, values[0])
    alpha[1, 2] = np.nan
    with pytest.raises(InputError, match="head 1: NaN or infinity"):
        measure_layer(alpha, values, None, sink=True)
