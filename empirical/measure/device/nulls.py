"""Null baselines of all heads of a layer, by torch on any device: random selections and random
directions.

Source: arXiv 2602.01893, §4; `measure.nulls` is the reference, and says what is drawn. Here both
are drawn on the device, by its own generator from the same seed, for a copy would wait: equal runs
on one kind of device give equal numbers, but not those of another kind, nor the reference's. They
are draws of the same distribution, and of the same draws both executions measure the same. Imports
numpy for the seed, torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from empirical.measure.convention import Convention
from empirical.measure.device import grids
from empirical.measure.device.selection import separability
from empirical.measure.selection import MEASURES


def generator(seed: Sequence[int], device: torch.device) -> torch.Generator:
    """Return the device's generator at a seed of non-negative integers."""
    state = np.random.SeedSequence([int(word) for word in seed]).generate_state(1, np.uint64)
    return torch.Generator(device=device).manual_seed(int(state[0] >> np.uint64(1)))


def random_orders(alpha: Tensor, source: torch.Generator) -> Tensor:
    """Return one random order of the tokens for each head of `alpha`, (head, token) int64."""
    # In the type of sums, of 2⁵³ numbers, none is drawn twice.
    kind, device = grids.wide(alpha.device), alpha.device
    return torch.rand(alpha.shape, dtype=kind, generator=source, device=device).argsort(dim=-1)


def random_directions(values: Tensor, source: torch.Generator) -> Tensor:
    """Return vectors of the norms of `values` in independent uniform directions."""
    drawn = torch.randn(values.shape, dtype=values.dtype, generator=source, device=values.device)
    return with_norms(drawn, values)


def with_norms(drawn: Tensor, values: Tensor) -> Tensor:
    """Scale each vector of `drawn` to the norm of the same of `values`."""
    kind = grids.wide(values.device)
    own, asked = (
        torch.linalg.vector_norm(each, dim=-1, keepdim=True, dtype=kind) for each in (drawn, values)
    )
    return (drawn * (asked / own)).to(values.dtype)


@torch.no_grad()
def measure_drawn(
    alpha: Tensor,
    values: Tensor,
    n: Any,
    *,
    orders: Tensor,
    drawn: Tensor,
    convention: Convention | str = Convention.PAPER,
    budget: int = grids.BYTES,
) -> dict[str, Tensor]:
    """Measure both baselines at given draws: `orders` of tokens, (head, token), and values in
    `drawn` directions, (kv_head, token, dimension). The rest is as of `measure_layer`.
    """
    convention = Convention(convention)
    with grids.full_products():
        selected = separability(
            alpha, values, n, order=orders, convention=convention, budget=budget
        )
        turned = separability(alpha, drawn, n, convention=convention, budget=budget)
    both = torch.stack([selected, turned], dim=2)
    return dict(zip(MEASURES, both.unbind(0), strict=True))


@torch.no_grad()
def measure_layer(
    alpha: Tensor,
    values: Tensor,
    n: Any,
    *,
    seeds: Sequence[Sequence[int]],
    convention: Convention | str = Convention.PAPER,
    budget: int = grids.BYTES,
) -> dict[str, Tensor]:
    """Measure both baselines of every head of one document's layer, or of several layers whose
    heads stand one behind the other.

    Args:
        alpha, values, n, convention, budget: as of `device.layer.measure_layer`.
        seeds: of each layer non-negative integers, for instance (seed of the run, hash of the
            window, layer).

    Returns:
        precision, recall, r_min, r_max, each (head, null, n), `null` as in `schema.NULLS`; NaN for
        N > T.

    >>> alpha, values = torch.tensor([[0.5, 0.3, 0.2]]), torch.eye(3)[None]
    >>> measure_layer(alpha, values, [1, 2], seeds=[[0]])["precision"].shape
    torch.Size([1, 2, 2])
    """
    orders, drawn = [], []
    count = len(seeds)
    for seed, a, v in zip(seeds, alpha.chunk(count), values.chunk(count), strict=True):
        source = generator(seed, alpha.device)
        orders.append(random_orders(a, source))
        drawn.append(random_directions(v, source))
    draws = {"orders": torch.cat(orders), "drawn": torch.cat(drawn)}
    return measure_drawn(alpha, values, n, **draws, convention=convention, budget=budget)
