"""What a layer's heads look like, measured where the layer lives: by position, by lag, over N.

Source: arXiv 2602.01893, (1)-(8), (18)-(20); `measure.layer` is the reference, whose names, shapes
and definitions these are, with another order of sums. Everything is a batched torch operation over
heads, in chunks of `grids.BYTES` of temporary memory; no number is read and no shape depends on
one, so the device is never waited for. Imports torch.

`torch.compile` is not used. On two CPU cores it took two minutes for one number of tokens, gave the
same numbers and was no faster; what it gains on a GPU `benchmarks/device.py --compile` would tell.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from empirical.measure.convention import Convention
from empirical.measure.device import cosines, grids
from empirical.measure.device.curves import curves
from empirical.measure.device.neighbours import Neighbours
from empirical.measure.device.selection import balls, by_weight, heads_a_chunk, select
from empirical.measure.layer import NAMES
from empirical.measure.selection import MEASURES


@torch.no_grad()
def measure_layer(
    alpha: Tensor,
    values: Tensor,
    n: Any,
    *,
    sink: bool,
    convention: Convention | str = Convention.PAPER,
    positions: int | None = None,
    budget: int = grids.BYTES,
) -> dict[str, Tensor]:
    """Measure what `measure.layer.measure_layer` does, on the tensors' device.

    NaN, infinity and negative weights are not looked for, which would wait for the device.

    Args:
        alpha: attention row of the last query, (head, T).
        values: value states, (kv_head, T, dimension), of the same device and type: float32, or
            float64 where the device has it.
        n, sink, convention, positions: as of the reference.
        budget: bytes of temporary memory beyond the arguments and what is returned.

    Returns:
        The variables of the reference, by name, on the device.

    >>> alpha = torch.tensor([[0.5, 0.3, 0.2]])
    >>> values = torch.tensor([[[1.0, 0.0], [-0.5, 0.5], [1.0, 0.2]]])
    >>> measure_layer(alpha, values, [1, 2], sink=False)["precision"]
    tensor([[1.0000, 0.6667]])
    """
    tokens = alpha.shape[1]
    lags = grids.lags(tokens, tokens if positions is None else positions, sink, alpha.device)
    grid = grids.grid(n, tokens, len(alpha), alpha.device)
    order = by_weight(alpha)
    with grids.full_products():
        norm, unit = cosines.reversed_units(values)
        sums = cosines.no_sums(unit, lags)
        neighbours = Neighbours(order, norm, grid, sink=sink)
        group = len(alpha) // len(values)
        for chunk in cosines.chunks(unit, len(grid.n), group, budget):
            if len(grid.n):
                neighbours.add(chunk)
            cosines.add_pairs(chunk, lags, sums)
        by_size = _by_size(alpha, values, norm, order, grid, Convention(convention), sink, budget)
        summaries = cosines.summaries(norm, unit, sums, lags)
    curved = grid.scatter(torch.cat([by_size, neighbours.measured()]))
    names = (*MEASURES, *NAMES, "rho_in", "rho_out")
    return {
        "attention_weight": alpha.clone(),  # not the rows of all queries, as long as it is kept
        **summaries,
        **dict(zip(names, curved.unbind(0), strict=True)),
    }


def _by_size(
    alpha: Tensor,
    values: Tensor,
    norm: Tensor,
    order: Tensor,
    grid: grids.Grid,
    convention: Convention,
    sink: bool,
    budget: int,
) -> Tensor:
    """Return `MEASURES` and `NAMES` of every head at every distinct N ≤ T, (name, head, n)."""
    heads = len(alpha)
    if not len(grid.n):
        return alpha.new_empty(len(MEASURES) + len(NAMES), heads, 0)
    kv_head = grids.own_head(heads, len(values), alpha.device)
    step = heads_a_chunk(grid, values.shape[-1], heads, budget)
    parts = []
    for low in range(0, heads, step):
        some = slice(low, low + step)
        own, ranked = kv_head[some], order[some]
        selected = select(alpha[some], values, own, ranked, grid)
        ordered = norm.index_select(0, own).gather(1, ranked)
        ends = torch.stack([values[:, 0], values[:, -1]], dim=1).index_select(0, own)
        parts.append(
            torch.cat(
                [
                    balls(selected, grid, convention, budget),
                    curves(selected, ordered, ends, grid, sink=sink),
                ]
            )
        )
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
