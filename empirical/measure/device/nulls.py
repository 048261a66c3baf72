"""Null baselines of all heads of a layer, by torch on any device: random selections and random
directions.

Source: arXiv 2602.01893, §4; the reference, with the definitions, is `measure.nulls`. Draws come
from the device's generator with the same seed, because a copy would wait. Equal runs on one kind of
device give equal numbers, which differ from those of another kind and of the reference. The
distribution is the same, and for given draws both implementations agree. Imports numpy for the
seed, and torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from empirical.measure.device import grids
from empirical.measure.device.selection import separability
from empirical.measure.selection import MEASURES, Convention


def generator(seed: Sequence[int], device: torch.device) -> torch.Generator:
    """Return the device's generator, seeded by non-negative integers."""
    state = np.random.SeedSequence([int(word) for word in seed]).generate_state(1, np.uint64)
    return torch.Generator(device=device).manual_seed(int(state[0] >> np.uint64(1)))


def random_orders(alpha: Tensor, source: torch.Generator) -> Tensor:
    """Return one random order of the tokens for each head of `alpha`, (head, token) int64."""
    # float64 has 2⁵³ values in [0, 1), so ties are negligible.
    dtype, device = grids.wide(alpha.device), alpha.device
    return torch.rand(alpha.shape, dtype=dtype, generator=source, device=device).argsort(dim=-1)


def random_directions(values: Tensor, source: torch.Generator) -> Tensor:
    """Return vectors of the norms of `values` in independent uniform directions."""
    drawn = torch.randn(values.shape, dtype=values.dtype, generator=source, device=values.device)
    return with_norms(drawn, values)


def with_norms(drawn: Tensor, values: Tensor) -> Tensor:
    """Scale each vector of `drawn` to the norm of the corresponding vector of `values`."""
    norm = partial(torch.linalg.vector_norm, dim=-1, keepdim=True, dtype=grids.wide(values.device))
    return (drawn * (norm(values) / norm(drawn))).to(values.dtype)


@torch.no_grad()
def measure_drawn(
    alpha: Tensor,
    values: Tensor,
    n: Any,
    *,
    orders: Tensor,
    drawn: Tensor,
    convention: Convention = Convention.PAPER,
) -> dict[str, Tensor]:
    """Measure both baselines for given draws: `orders` of tokens, (head, token), and values in
    `drawn` directions, (kv_head, token, dimension). Other arguments as of `measure_layer`.
    """
    selected = separability(alpha, values, n, orders, convention)
    with_directions = separability(alpha, drawn, n, convention=convention)
    both = torch.stack([selected, with_directions], dim=2)
    return dict(zip(MEASURES, both.unbind(0), strict=True))


@torch.no_grad()
def measure_layer(
    alpha: Tensor,
    values: Tensor,
    n: Any,
    *,
    seeds: Sequence[Sequence[int]],
    convention: Convention = Convention.PAPER,
) -> dict[str, Tensor]:
    """Measure both baselines of every head of one document's layer, or of several layers with
    concatenated heads and a seed each, as of the reference.

    >>> alpha, values = torch.tensor([[0.5, 0.3, 0.2]]), torch.eye(3)[None]
    >>> measure_layer(alpha, values, [1, 2], seeds=[[0]])["precision"].shape
    torch.Size([1, 2, 2])
    """
    orders, drawn, count = [], [], len(seeds)
    for seed, a, v in zip(seeds, alpha.chunk(count), values.chunk(count), strict=True):
        source = generator(seed, alpha.device)
        orders.append(random_orders(a, source))
        drawn.append(random_directions(v, source))
    draws = {"orders": torch.cat(orders), "drawn": torch.cat(drawn)}
    return measure_drawn(alpha, values, n, **draws, convention=convention)
