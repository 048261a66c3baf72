"""Draws on a device: the distribution of those of the reference, and one seed, one result."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from support.devices import DEVICES
from support.layers import random_layer

from empirical.measure import nulls as reference
from empirical.measure.device import nulls
from empirical.measure.queries import Row


def heads(device: str = "cpu") -> tuple[list[Row], torch.Tensor]:
    alpha, values = (torch.from_numpy(array).to(device) for array in random_layer(4, 2, 40, 8))
    return [Row(position=39, first=0, alpha=alpha)], values


@pytest.mark.parametrize("device", DEVICES)
def test_orders_are_permutations_of_which_each_token_is_first_equally_often(device):
    alpha = torch.empty(4000, 8, device=device)
    orders = nulls.random_orders(alpha, nulls.generator((5,), alpha.device)).cpu().numpy()
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(8), (4000, 1)))
    first = np.bincount(orders[:, 0], minlength=8)
    assert stats.chisquare(first).pvalue > 1e-3


@pytest.mark.parametrize("device", DEVICES)
def test_directions_keep_norms_and_are_uniform(device):
    values = (torch.ones(1, 20000, 3) * torch.linspace(0, 2, 20000)[:, None]).to(device)
    drawn = nulls.random_directions(values, nulls.generator((5,), values.device))
    torch.testing.assert_close(drawn.norm(dim=-1), values.norm(dim=-1))
    # On a sphere of three dimensions each coordinate of a direction is uniform on [−1, 1].
    height = (drawn[0, 1:, 2] / drawn[0, 1:].norm(dim=-1)).cpu().numpy()
    assert stats.kstest(height, stats.uniform(-1, 2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("device", DEVICES)
def test_the_seed_determines_the_draws(device):
    one, same, other = (
        nulls.measure_layer(*heads(device), None, seeds=[seed]) for seed in ((1, 2), (1, 2), (1, 3))
    )
    for name in one:
        torch.testing.assert_close(one[name], same[name], rtol=0, atol=0, equal_nan=True)
    assert not torch.equal(one["r_max"], other["r_max"])


def test_layers_have_separate_seeds_and_heads_separate_orders():
    (row,), values = heads()
    alpha = row.alpha[:1].expand(4, -1).contiguous()
    both = nulls.measure_layer([replace(row, alpha=alpha)], values, None, seeds=[(1,), (2,)])
    for layer in (0, 1):
        in_layer, kv_head = slice(2 * layer, 2 * layer + 2), slice(layer, layer + 1)
        part = [replace(row, alpha=alpha[in_layer])]
        alone = nulls.measure_layer(part, values[kv_head], None, seeds=[(layer + 1,)])
        for name in both:
            torch.testing.assert_close(both[name][in_layer], alone[name], equal_nan=True)
    orders = both["r_max"][:, 0]
    assert not any(torch.equal(orders[0], orders[head]) for head in (1, 2, 3))


def test_mean_precision_matches_the_reference_within_its_error():
    alpha, values, sizes, lots = *heads(), [3, 10], range(60)
    found = [nulls.measure_layer(alpha, values, sizes, seeds=[(lot,)]) for lot in lots]
    expected = [reference.measure_layer(alpha, values, sizes, seed=(lot,)) for lot in lots]
    one, other = (
        np.stack([np.asarray(drawn["precision"]).mean(axis=0) for drawn in side])
        for side in (found, expected)
    )
    np.testing.assert_allclose(one[:, 2:], other[:, 2:], rtol=1e-5)  # equal permutations
    one, other = one[:, :2], other[:, :2]
    error = np.hypot(one.std(axis=0), other.std(axis=0)) / np.sqrt(len(lots))
    assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 4 * error).all()
