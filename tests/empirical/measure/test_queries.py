"""Means over several queries of a document, each with its own visible tokens."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from empirical.errors import InputError
from empirical.measure import queries
from empirical.measure.device import queries as device_queries
from empirical.measure.nulls import measure_layer as null_layer
from empirical.measure.queries import Row, measure_layer
from empirical.measure.selection import separability
from empirical.schema import NULLS

N = [1, 2, 5, 9, 20, 28, 29, 30, 31]


def rows_from(firsts: dict[int, int], length: int = 30) -> tuple[list[Row], np.ndarray]:
    """Rows of four random heads by position, each from its first visible token; values of two KV
    heads.
    """
    generator = np.random.default_rng(0)
    values = generator.normal(size=(2, length, 8))
    rows = []
    for position, first in firsts.items():
        alpha = generator.dirichlet(np.full(position + 1 - first, 0.3), size=4)
        rows.append(Row(position=position, first=first, alpha=alpha))
    return rows, values


def rows(*positions: int, window: int = 30) -> tuple[list[Row], np.ndarray]:
    return rows_from({position: max(position + 1 - window, 0) for position in positions})


@pytest.mark.parametrize("convention", ["paper", "followup"])
@pytest.mark.parametrize("window", [30, 12])
def test_curves_are_means_over_queries_of_their_visible_tokens(window, convention):
    found, values = rows(19, 27, 29, window=window)
    measured = measure_layer(found, values, N, convention=convention)
    curves = [
        separability(
            np.asarray(row.alpha), values[:, row.first : row.position + 1], N, convention=convention
        )
        for row in found
    ]
    for name in ("precision", "recall", "f_outer", "f_inner"):
        stacked = np.stack([curve[name] for curve in curves])
        known = np.isfinite(stacked).any(axis=0)
        np.testing.assert_array_equal(np.isfinite(measured[name]), known)
        mean = np.nanmean(stacked[:, known], axis=0)
        np.testing.assert_allclose(measured[name][known], mean, rtol=1e-12)
        if name in ("precision", "recall"):
            by_query = np.moveaxis(stacked, 0, 1)
            np.testing.assert_allclose(measured[f"{name}_by_query"], by_query, rtol=1e-12)
    spread = np.stack([curve["precision"] for curve in curves])[..., 1].std(axis=0, ddof=1)
    np.testing.assert_allclose(measured["precision_sd"][:, 1], spread, rtol=1e-10)
    if window == 30:
        assert measured["counted"].tolist() == [3, 3, 3, 3, 3, 2, 1, 1, 0]


def test_cosines_that_do_not_fit_in_memory_change_nothing(monkeypatch):
    found, values = rows(24, 29)
    whole = measure_layer(found, values, N)
    monkeypatch.setattr(queries, "WHOLE", 100)
    for name, measured in measure_layer(found, values, N).items():
        np.testing.assert_allclose(measured, whole[name], rtol=1e-12)


def test_weights_are_aligned_with_the_last_query_at_both_ends():
    found, values = rows(28, 29)
    measured = measure_layer(found, values, N)
    short, long = (np.asarray(row.alpha) for row in found)
    aligned = np.full(long.shape, np.nan)
    aligned[:, :14], aligned[:, 15:] = short[:, :14], short[:, 14:]
    both = np.stack([aligned, long])
    sinks = np.stack([short[:, 0], long[:, 0]]).std(axis=0, ddof=1)
    for name, expected in (
        ("attention_weight", np.nanmean(both, axis=0)),
        ("log_attention_weight", np.nanmean(np.log(both), axis=0)),
        ("sink_weight_sd", sinks),
    ):
        np.testing.assert_allclose(measured[name], expected, rtol=1e-10, err_msg=name)


@pytest.mark.parametrize(("window", "count"), [(30, 2), (10, 3)])
def test_weights_of_much_shorter_queries_are_excluded(window, count):
    assert int(measure_layer(*rows(14, 28, 29, window=window), N)["weight_queries"]) == count


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize(("length", "chunk"), [(40, 16), (33, 16), (34, 16), (48, 16), (41, 8)])
def test_weights_of_an_earlier_chunk_are_excluded(length, chunk, on_device):
    """Each of the last 16 queries sees the tokens of its chunk."""
    last = range(length - 16, length)
    found, values = rows_from({position: position // chunk * chunk for position in last}, length)
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


def test_queries_that_differ_in_seeing_the_sink_are_excluded():
    found, values = rows(16, 25, 29, window=20)
    measured = measure_layer(found, values, N)
    alone = measure_layer(found[1:], values, N)
    assert measured["counted"].tolist() == [2, 2, 2, 2, 2, 0, 0, 0, 0]
    for name, array in measured.items():
        seen = array
        if name.endswith("_by_query"):
            assert np.isnan(array[:, 0]).all()
            seen = array[:, 1:]
        np.testing.assert_array_equal(seen, alone[name])
    assert np.isnan(measured["sink_weight_sd"]).all()


def test_weights_of_zero_have_no_logarithm():
    found, values = rows(28, 29)
    np.asarray(found[1].alpha)[:, 3] = 0.0
    measured = measure_layer(found, values, N)
    logs = np.log(np.asarray(found[0].alpha)[:, 3])
    np.testing.assert_allclose(measured["log_attention_weight"][:, 3], logs)
    assert (measured["attention_weight"][:, 3] > 0).all()


def test_nulls_are_means_over_queries():
    found, values = rows(19, 29)
    measured = null_layer(found, values, N, seed=(1, 2))
    assert measured["precision"].shape == (4, len(NULLS), len(N))
    # Directions and permutations are those of the whole document, shared by its queries.
    alone = [null_layer([row], values, N, seed=(1, 2))["recall"][:, 1:, :5] for row in found]
    np.testing.assert_allclose(measured["recall"][:, 1:, :5], np.mean(alone, axis=0), rtol=1e-12)
    # A random selection of N of T holds on average few of the tokens near its sum.
    assert np.isnan(measured["precision"][..., -1]).all()
    np.testing.assert_array_equal(measured["precision"][..., 0], 1.0)
    again, other = (null_layer(found, values, N, seed=seed)["recall"] for seed in ((1, 2), (1, 3)))
    np.testing.assert_array_equal(again, measured["recall"])
    assert (other != measured["recall"]).any()


def test_bits_do_not_depend_on_the_threads(monkeypatch):
    found, values = rows(19, 25, 29)
    bits = []
    for threads in (1, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        measured = measure_layer(found, values.astype(np.float32), N)
        bits.append({name: array.tobytes() for name, array in measured.items()})
    assert bits[0] == bits[1]


def test_a_weight_that_is_no_number_is_refused():
    found, values = rows(28, 29)
    np.asarray(found[0].alpha)[1, 2] = np.nan
    with pytest.raises(InputError, match="head 1: NaN or infinity"):
        measure_layer(found, values, N)
