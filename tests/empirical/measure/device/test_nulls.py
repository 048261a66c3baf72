"""Draws on a device: the distribution of those of the reference, and one seed, one result."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from support.devices import DEVICES

from empirical.measure import nulls as reference
from empirical.measure.device import nulls


def some(device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    generator = np.random.default_rng(0)
    alpha = generator.dirichlet(np.full(40, 0.3), size=4).astype(np.float32)
    values = generator.normal(size=(2, 40, 8)).astype(np.float32)
    return torch.from_numpy(alpha).to(device), torch.from_numpy(values).to(device)


@pytest.mark.parametrize("device", DEVICES)
def test_orders_are_permutations_of_which_each_token_is_first_equally_often(device: str) -> None:
    alpha = torch.empty(4000, 8, device=device)
    orders = nulls.random_orders(alpha, nulls.generator((5,), alpha.device)).cpu().numpy()
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(8), (4000, 1)))
    first = np.bincount(orders[:, 0], minlength=8)
    assert stats.chisquare(first).pvalue > 1e-3


@pytest.mark.parametrize("device", DEVICES)
def test_directions_keep_norms_and_are_uniform(device: str) -> None:
    values = (torch.ones(1, 20000, 3) * torch.linspace(0, 2, 20000)[:, None]).to(device)
    drawn = nulls.random_directions(values, nulls.generator((5,), values.device))
    torch.testing.assert_close(drawn.norm(dim=-1), values.norm(dim=-1))
    # On a sphere of three dimensions each coordinate of a direction is uniform on [−1, 1].
    height = (drawn[0, 1:, 2] / drawn[0, 1:].norm(dim=-1)).cpu().numpy()
    assert stats.kstest(height, stats.uniform(-1, 2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("device", DEVICES)
def test_one_seed_gives_one_result_and_another_gives_another(device: str) -> None:
    alpha, values = some(device)
    one, same, other = (
        nulls.measure_layer(alpha, values, None, seeds=[seed]) for seed in ((1, 2), (1, 2), (1, 3))
    )
    for name in one:
        torch.testing.assert_close(one[name], same[name], rtol=0, atol=0, equal_nan=True)
    assert not torch.equal(one["r_max"], other["r_max"])


def test_each_layer_has_draws_of_its_own_seed_and_each_head_an_order_of_its_own() -> None:
    alpha, values = some()
    alpha = alpha[:1].expand(4, -1).contiguous()
    both = nulls.measure_layer(alpha, values, None, seeds=[(1,), (2,)])
    for layer in (0, 1):
        heads, kv_head = slice(2 * layer, 2 * layer + 2), slice(layer, layer + 1)
        alone = nulls.measure_layer(alpha[heads], values[kv_head], None, seeds=[(layer + 1,)])
        for name in both:
            torch.testing.assert_close(both[name][heads], alone[name], equal_nan=True)
    orders = both["r_max"][:, 0]
    assert not any(torch.equal(orders[0], orders[head]) for head in (1, 2, 3))


def test_mean_precision_is_that_of_the_reference_within_its_error() -> None:
    alpha, values = some()
    found, expected = (
        np.stack(
            [
                np.asarray(measure(alpha, values, [3, 10], **seed(lot))["precision"]).mean(axis=0)
                for lot in range(150)
            ]
        )
        for measure, seed in (
            (nulls.measure_layer, lambda lot: {"seeds": [(lot,)]}),
            (reference.measure_layer, lambda lot: {"seed": (lot,)}),
        )
    )
    error = np.hypot(found.std(axis=0), expected.std(axis=0)) / np.sqrt(150)
    assert (np.abs(found.mean(axis=0) - expected.mean(axis=0)) < 4 * error).all()
