"""Null baselines of all heads of a layer, by torch on any device.

Source: arXiv 2602.01893, §4; the reference, with the definitions, is `measure.nulls`. Orders and
directions come from the device's generator with the same seed, because a copy would wait. Equal
runs on one kind of device give equal numbers, which differ from those of another kind and of the
reference. The distribution is the same, and for given draws both implementations agree.
Permutations are the reference's. Imports numpy for the seed, and torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from empirical.measure.device import grids
from empirical.measure.device.queries import mean_of_finite, separability_by_query, weights_of
from empirical.measure.nulls import seeds_of
from empirical.measure.permutations import Permutations, permuted, small_sizes
from empirical.measure.queries import Row, alike
from empirical.measure.selection import MEASURES, Convention, Sizes
from empirical.schema import NULLS


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
    rows: Sequence[Row],
    values: Tensor,
    n: Any,
    *,
    orders: Sequence[Tensor],
    drawn: Tensor,
    permutations: Sequence[Permutations],
    convention: Convention = Convention.PAPER,
) -> dict[str, Tensor]:
    """Measure all baselines for given draws: `orders` of tokens by row, (head, token), values in
    `drawn` directions, (kv_head, position, dimension), and the permutations of each layer. Other
    arguments as of `measure_layer`.
    """
    sizes = small_sizes(Sizes(n, values.shape[1]).requested)
    moved = [_permuted(row, values, permutations) for row in rows]
    measure = partial(separability_by_query, convention=convention)
    by_null = {
        "random_selection": measure(rows, values, n, orders=orders),
        "random_directions": measure(rows, drawn, n),
    }
    for name in moved[0]:
        weights = [
            replace(row, alpha=nulls[name][0]) for row, nulls in zip(rows, moved, strict=True)
        ]
        by_null[name] = measure(weights, values, sizes, orders=[nulls[name][1] for nulls in moved])
    means = {name: mean_of_finite(curves) for name, curves in by_null.items()}
    if "other_head" in means:
        group = len(rows[0].alpha) // len(values)
        of_layers = means["other_head"].unflatten(1, (len(permutations), -1)).roll(-group, 2)
        means["other_head"] = of_layers.flatten(1, 2)
    nothing = torch.full_like(means["random_selection"], torch.nan)
    stacked = torch.stack([means.get(name, nothing) for name in NULLS], dim=2)
    return dict(zip(MEASURES, stacked.unbind(0), strict=True))


def _permuted(
    row: Row, values: Tensor, permutations: Sequence[Permutations]
) -> dict[str, tuple[Tensor, Tensor]]:
    """Return weights and orders of the permutation nulls of one row, layers concatenated."""
    first, stop, layers = row.first, row.position + 1, len(permutations)
    norms = torch.linalg.vector_norm(values[:, first:stop], dim=-1, dtype=grids.wide(values.device))
    of_layers = [
        permuted(alpha, norm, draw.seen(first, stop), sink=first == 0)
        for alpha, norm, draw in zip(
            weights_of(row).chunk(layers), norms.chunk(layers), permutations, strict=True
        )
    ]
    return {
        name: (
            torch.cat([nulls[name][0] for nulls in of_layers]),
            torch.cat([nulls[name][1] for nulls in of_layers]),
        )
        for name in of_layers[0]
    }


@torch.no_grad()
def measure_layer(
    rows: Sequence[Row],
    values: Tensor,
    n: Any,
    *,
    seeds: Sequence[Sequence[int]],
    convention: Convention = Convention.PAPER,
) -> dict[str, Tensor]:
    """Measure all baselines of every head of one document's layer, averaged over its queries, or of
    several layers with concatenated heads and a seed each, as of the reference.

    >>> row = Row(position=2, first=0, alpha=torch.tensor([[0.5, 0.3, 0.2]]))
    >>> measure_layer([row], torch.eye(3)[None], [1, 2], seeds=[[0]])["precision"].shape
    torch.Size([1, 6, 2])
    """
    rows = [rows[query] for query in alike(rows)]
    directions: list[Tensor] = []
    orders_by_layer: list[list[Tensor]] = []
    permutations: list[Permutations] = []
    for layer, seed in enumerate(seeds):
        source, states = generator(seed, values.device), values.chunk(len(seeds))[layer]
        directions.append(random_directions(states, source))
        alphas = [weights_of(row).chunk(len(seeds))[layer] for row in rows]
        orders_by_layer.append([random_orders(alpha, source) for alpha in alphas])
        permutation_seed = seeds_of(seed, len(states))[-1]
        permutations.append(Permutations.draw(permutation_seed, *states.shape[:2]))
    return measure_drawn(
        rows,
        values,
        n,
        orders=[torch.cat(of_query) for of_query in zip(*orders_by_layer, strict=True)],
        drawn=torch.cat(directions),
        permutations=permutations,
        convention=convention,
    )
