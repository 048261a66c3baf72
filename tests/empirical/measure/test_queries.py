from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from empirical.errors import InputError
from empirical.measure import queries
from empirical.measure.device import queries as device_queries
from empirical.measure.queries import Row, measure_layer, null_layer
from empirical.measure.selection import separability

N = [1, 2, 5, 9, 20, 28, 29, 30, 31]


def rows(
    *positions: int, window: int | None = None, heads: int = 4, seed: int = 0
) -> tuple[list[Row], np.ndarray]:
    """Rows of random heads, in float64, that see `window` tokens or all; and values of 30
    positions.
    """
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(2, 30, 8))
    found = []
    for position in positions:
        first = 0 if window is None else max(position + 1 - window, 0)
        alpha = generator.dirichlet(np.full(position + 1 - first, 0.3), size=heads)
        found.append(Row(position=position, first=first, alpha=alpha))
    return found, values


def by_definition(row: Row, values: np.ndarray, convention: str = "paper") -> dict[str, np.ndarray]:
    seen = values[:, row.first : row.position + 1]
    return separability(np.asarray(row.alpha), seen, N, convention=convention)


@pytest.mark.parametrize("convention", ["paper", "followup"])
@pytest.mark.parametrize("window", [None, 12])
def test_curves_are_means_over_queries_of_those_of_each_over_the_tokens_it_sees(
    window: int | None, convention: str
) -> None:
    found, values = rows(19, 27, 29, window=window)
    measured = measure_layer(found, values, N, convention=convention)
    each = [by_definition(row, values, convention) for row in found]
    for name in ("precision", "recall", "f_outer", "f_inner"):
        stacked = np.stack([one[name] for one in each])
        known = np.isfinite(stacked).any(axis=0)
        np.testing.assert_array_equal(np.isfinite(measured[name]), known)
        mean = np.nanmean(stacked[:, known], axis=0)
        np.testing.assert_allclose(measured[name][known], mean, rtol=1e-12)
    spread = np.stack([one["precision"] for one in each])[..., 1].std(axis=0, ddof=1)
    np.testing.assert_allclose(measured["precision_sd"][:, 1], spread, rtol=1e-10)
    if window is None:
        assert measured["counted"].tolist() == [3, 3, 3, 3, 3, 2, 1, 1, 0]
    for name in ("precision", "recall"):
        own = np.stack([one[name] for one in each], axis=1)
        np.testing.assert_allclose(measured[f"{name}_by_query"], own, rtol=1e-12)


def test_cosines_that_do_not_fit_in_memory_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found, values = rows(24, 29)
    whole = measure_layer(found, values, N)
    monkeypatch.setattr(queries, "WHOLE", 100)
    for name, measured in measure_layer(found, values, N).items():
        np.testing.assert_allclose(measured, whole[name], rtol=1e-12)


def test_weights_are_laid_over_the_last_querys_from_both_ends() -> None:
    found, values = rows(28, 29)
    measured = measure_layer(found, values, N)
    short, long = (np.asarray(row.alpha) for row in found)
    laid = np.full(long.shape, np.nan)
    laid[:, :14], laid[:, 15:] = short[:, :14], short[:, 14:]
    expected = np.nanmean(np.stack([laid, long]), axis=0)
    np.testing.assert_allclose(measured["attention_weight"], expected, rtol=1e-12)
    logs = np.nanmean(np.log(np.stack([laid, long])), axis=0)
    np.testing.assert_allclose(measured["log_attention_weight"], logs, rtol=1e-12)
    np.testing.assert_allclose(measured["attention_weight"][:, 14], long[:, 14], rtol=1e-12)
    sinks = np.stack([short[:, 0], long[:, 0]]).std(axis=0, ddof=1)
    np.testing.assert_allclose(measured["sink_weight_sd"], sinks, rtol=1e-10)


def test_weights_of_queries_that_see_far_fewer_tokens_are_left_out() -> None:
    found, values = rows(14, 28, 29)
    assert int(measure_layer(found, values, N)["weight_queries"]) == 2
    windowed, values = rows(14, 28, 29, window=10)
    assert int(measure_layer(windowed, values, N)["weight_queries"]) == 3


def chunked(length: int, chunk: int) -> tuple[list[Row], np.ndarray]:
    """Rows of random heads at the last 16 positions of a window, each of its chunk's tokens."""
    generator = np.random.default_rng(0)
    found = []
    for position in range(length - 16, length):
        first = position // chunk * chunk
        alpha = generator.dirichlet(np.full(position + 1 - first, 0.3), size=4)
        found.append(Row(position=position, first=first, alpha=alpha))
    return found, generator.normal(size=(2, length, 8))


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize(("length", "chunk"), [(40, 16), (33, 16), (34, 16), (48, 16), (41, 8)])
def test_weights_of_an_earlier_chunk_are_not_averaged_with_the_last_s(
    length: int, chunk: int, on_device: bool
) -> None:
    found, values = chunked(length, chunk)
    if on_device:
        there = [replace(row, alpha=torch.as_tensor(row.alpha)) for row in found]
        measured = device_queries.measure_layer(there, torch.as_tensor(values), [1])
    else:
        measured = measure_layer(found, values, [1])
    tokens = (length - 1) % chunk + 1
    near = [row for row in found[-tokens:] if row.alpha.shape[1] >= 0.95 * tokens]
    assert int(measured["weight_queries"]) == len(near)
    mean = np.asarray(measured["attention_weight"])
    assert mean.shape == (4, tokens)
    np.testing.assert_allclose(np.nansum(mean, axis=-1), 1, atol=0.15 if len(near) > 1 else 1e-9)
    if len(near) == 1:
        np.testing.assert_allclose(mean, found[-1].alpha, rtol=1e-12)


def test_queries_that_see_the_sink_where_the_last_does_not_are_left_out() -> None:
    found, values = rows(16, 25, 29, window=20)
    measured = measure_layer(found, values, N)
    alone = measure_layer(found[1:], values, N)
    assert measured["counted"].tolist() == [2, 2, 2, 2, 2, 0, 0, 0, 0]
    for name, array in measured.items():
        if name.endswith("_by_query"):
            assert np.isnan(array[:, 0]).all()
        seen = array[:, 1:] if name.endswith("_by_query") else array
        np.testing.assert_array_equal(seen, alone[name])
    assert np.isnan(measured["sink_weight_sd"]).all()


def test_weights_of_zero_have_no_logarithm() -> None:
    found, values = rows(28, 29)
    np.asarray(found[1].alpha)[:, 3] = 0.0
    measured = measure_layer(found, values, N)
    np.testing.assert_allclose(
        measured["log_attention_weight"][:, 3], np.log(np.asarray(found[0].alpha)[:, 3])
    )
    assert (measured["attention_weight"][:, 3] > 0).all()


def test_both_nulls_are_means_over_queries() -> None:
    found, values = rows(19, 29)
    measured = null_layer(found, values, N, seed=(1, 2))
    assert measured["precision"].shape == (4, 2, len(N))
    # Directions are those of the whole document, drawn once: of one query alone they are its own.
    alone = [null_layer([row], values, N, seed=(1, 2))["recall"][:, 1] for row in found]
    np.testing.assert_allclose(
        measured["recall"][:, 1, :5], np.mean(alone, axis=0)[:, :5], rtol=1e-12
    )
    # A random selection of N of T holds on average few of the tokens near its sum.
    assert np.isnan(measured["precision"][..., -1]).all()
    np.testing.assert_array_equal(measured["precision"][..., 0], 1.0)
    again = null_layer(found, values, N, seed=(1, 2))
    np.testing.assert_array_equal(again["recall"], measured["recall"])
    other = null_layer(found, values, N, seed=(1, 3))
    assert (other["recall"] != measured["recall"]).any()


def test_bits_do_not_depend_on_the_threads() -> None:
    found, values = rows(19, 25, 29)
    one = measure_layer(found, values.astype(np.float32), N, threads=1)
    many = measure_layer(found, values.astype(np.float32), N, threads=5)
    assert all(one[name].tobytes() == many[name].tobytes() for name in one)


def test_a_weight_that_is_no_number_is_refused() -> None:
    found, values = rows(28, 29)
    np.asarray(found[0].alpha)[1, 2] = np.nan
    with pytest.raises(InputError, match="head 1: NaN or infinity"):
        measure_layer(found, values, N)
