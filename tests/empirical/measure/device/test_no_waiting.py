"""A measurement on a device never waits for it: it reads no number, and no shape depends on one.
What it holds at a time stays in its budget.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from support.devices import DEVICES
from support.dispatched import Living, Operations
from support.layers import random_layer

from empirical.measure.device import grids, layer, nulls, queries, ranks
from empirical.measure.permutations import Permutations
from empirical.measure.queries import Row

TOKENS = 90
Measure = Callable[[torch.Tensor, torch.Tensor], dict]


def heads(tokens: int = TOKENS, device: str = "cpu") -> list[torch.Tensor]:
    alpha, values = random_layer(6, 2, tokens, 8)
    values[0, 3] = 0
    return [torch.from_numpy(array).to(device) for array in (alpha, values)]


@contextmanager
def no_waiting() -> Iterator[None]:
    """Make CUDA raise where a call waits for it; of what torch asks inside one operation, a
    dispatcher sees nothing.
    """
    if not torch.cuda.is_available():
        yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def at_the_last_query(alpha: torch.Tensor, values: torch.Tensor) -> dict:
    return layer.measure_layer(alpha, values, None, sink=True)


def in_chunks(alpha: torch.Tensor, values: torch.Tensor) -> dict:
    return layer.measure_layer(alpha, values, None, sink=False, positions=99, budget=1 << 16)


def of_drawn(alpha: torch.Tensor, values: torch.Tensor) -> dict:
    row = Row(position=alpha.shape[1] - 1, first=0, alpha=alpha)
    draw = Permutations.draw(np.random.SeedSequence(0), *values.shape[:2])
    draws = {"orders": [alpha.argsort()], "drawn": values, "permutations": [draw]}
    return nulls.measure_drawn([row], values, None, **draws)


def of_queries(alpha: torch.Tensor, values: torch.Tensor) -> dict:
    rows = [Row(position=at - 1, first=0, alpha=alpha[:, :at]) for at in (50, TOKENS - 1, TOKENS)]
    return queries.measure_layer(rows, values, [1, 2, 50, TOKENS])


def of_random_draws(alpha: torch.Tensor, values: torch.Tensor) -> dict:
    row = Row(position=alpha.shape[1] - 1, first=0, alpha=alpha)
    return nulls.measure_layer([row], values, [1, 2, 5], seeds=[(1, 2)])


def by_rank(alpha: torch.Tensor, values: torch.Tensor) -> dict:
    rows = [Row(position=at - 1, first=0, alpha=alpha[:, :at]) for at in (50, TOKENS - 1, TOKENS)]
    return ranks.measure_layer(rows, values, np.arange(TOKENS) // 2)


MEASURES = [at_the_last_query, in_chunks, of_drawn, of_queries, by_rank]


@pytest.mark.parametrize("measure", MEASURES)
def test_tensors_without_data_give_the_same_shapes(measure):
    alpha, values = heads()
    without = measure(alpha.to("meta"), values.to("meta"))  # a look at a number would raise
    assert {name: tensor.shape for name, tensor in without.items()} == {
        name: tensor.shape for name, tensor in measure(alpha, values).items()
    }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("measure", [*MEASURES, of_random_draws])
def test_no_operation_reads_a_number_or_copies_to_another_device(measure, device):
    alpha, values = heads(device=device)
    measure(alpha, values)  # grids and bins are laid out once
    with Operations() as seen, no_waiting():
        measure(alpha, values)
    assert len(seen.names) > 30
    assert seen.waiting == []


def test_temporary_memory_stays_in_its_budget():
    alpha, values = heads(300)
    peaks = {}
    for budget in (grids.BYTES, 1 << 20, 1 << 17):  # all, some heads, some N of one head
        with Living() as memory:
            found = layer.measure_layer(alpha, values, None, sink=True, budget=budget)
        peaks[budget] = memory.most
    own = sum(tensor.nbytes for tensor in (alpha, values, *found.values()))
    assert peaks[1 << 20] < (1 << 20) + 3 * own
    assert peaks[1 << 17] < (1 << 17) + 4 * own
    assert peaks[grids.BYTES] > 3 * peaks[1 << 20]  # what all at once would take


def test_products_of_equal_tokens_stay_in_their_budget():
    alpha, values = heads(1000)
    rows, ids = [Row(position=999, first=0, alpha=alpha)], np.zeros(1000, int)
    peaks = []
    for budget in (grids.BYTES, 1 << 18):
        with Living() as memory:
            ranks.measure_layer(rows, values, ids, budget=budget)
        peaks.append(memory.most)
    assert peaks[1] < 0.8 * peaks[0]


def test_sums_are_float64_if_the_device_has_it():
    kinds = [grids.wide(torch.device(name)) for name in ("cpu", "cuda", "mps")]
    assert kinds == [torch.float64, torch.float64, torch.float32]


def test_sums_in_float32_are_close(monkeypatch):
    alpha, values = heads()
    wide = at_the_last_query(alpha, values)
    monkeypatch.setattr(grids, "wide", lambda device: torch.float32)
    grids.lags.cache_clear()
    narrow = at_the_last_query(alpha, values)
    grids.lags.cache_clear()
    for name, expected in wide.items():
        slack = 3e-4 if name == "cosine_std" else 1e-5
        torch.testing.assert_close(
            narrow[name], expected, rtol=slack, atol=slack, equal_nan=True, msg=name
        )
