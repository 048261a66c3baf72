"""Layer measurements on the layer's device, as batched torch operations: by position, by lag and
over N.

Source: arXiv 2602.01893, (1)-(8), (18)-(20), Figure 7. The reference is `measure.layer` with its
kernels; names, shapes and definitions are the same, the order of summation differs. All operations
are batched over heads, in chunks of `grids.BYTES` of temporary memory. No number is read and no
shape depends on one, so nothing waits for the device. Sums and norms use the accumulation dtype
(`grids.wide`). Imports torch.

`torch.compile` is not used. On two CPU cores it took two minutes per number of tokens, gave the
same numbers and was no faster; `benchmarks/device.py --compile` measures its gain on a GPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from empirical.measure.cosine_kernels import NO_PAIR
from empirical.measure.device import cosines, grids
from empirical.measure.device.cosines import Chunk
from empirical.measure.device.grids import Grid
from empirical.measure.device.selection import Selected, balls, by_weight, select
from empirical.measure.layer import NAMES
from empirical.measure.selection import MEASURES, Convention


@torch.no_grad()
def measure_layer(
    alpha: Tensor,
    values: Tensor,
    n: Any,
    *,
    sink: bool,
    convention: Convention = Convention.PAPER,
    positions: int | None = None,
    budget: int = grids.BYTES,
) -> dict[str, Tensor]:
    """Measure the quantities of `measure.layer.measure_layer` on the tensors' device.

    NaN, infinity and negative weights are not checked, which would wait for the device. `values`
    have the device and dtype of `alpha`: float32, or float64 if the device supports it. Temporary
    memory stays within `budget` bytes. Other arguments, and the result, are as of the reference.

    >>> alpha = torch.tensor([[0.5, 0.3, 0.2]])
    >>> values = torch.tensor([[[1.0, 0.0], [-0.5, 0.5], [1.0, 0.2]]])
    >>> measure_layer(alpha, values, [1, 2], sink=False)["precision"]
    tensor([[1.0000, 0.6667]])
    """
    tokens = alpha.shape[1]
    lags = grids.lags(tokens, tokens if positions is None else positions, sink, alpha.device)
    grid = grids.grid(n, tokens, len(alpha), alpha.device)
    order = by_weight(alpha)
    norm, unit = cosines.reversed_units(values)
    sums = cosines.Sums(unit, lags)
    neighbours = Neighbours(order, norm, grid, sink=sink)
    group = len(alpha) // len(values)
    for chunk in cosines.chunks(unit, len(grid.n), group, budget):
        if len(grid.n):
            neighbours.add(chunk)
        sums.add(chunk)
    by_size = _by_size(alpha, values, norm, order, grid, convention, sink, budget)
    summaries = sums.summaries(norm, unit)
    curved = grid.scatter(torch.cat([by_size, neighbours.measured()]))
    names = (*MEASURES, *NAMES, "rho_in", "rho_out")
    return {
        "attention_weight": alpha.clone(),  # a view would keep the rows of all queries
        **summaries,
        **dict(zip(names, curved.unbind(0), strict=True)),
    }


def _by_size(
    alpha: Tensor,
    values: Tensor,
    norm: Tensor,
    order: Tensor,
    grid: Grid,
    convention: Convention,
    sink: bool,
    budget: int,
) -> Tensor:
    """Return `MEASURES` and `NAMES` of every head at every distinct N ≤ T, (name, head, n)."""
    ends = torch.stack([values[:, 0], values[:, -1]], dim=1)
    parts = []
    for selected in select(alpha, values, order, grid, budget):
        ordered = norm.index_select(0, selected.kv_head).gather(1, selected.order)
        own_ends = ends.index_select(0, selected.kv_head)
        described = curves(selected, ordered, own_ends, grid, sink=sink)
        parts.append(torch.cat([balls(selected, grid, convention, budget), described]))
    none = alpha.new_empty(len(MEASURES) + len(NAMES), len(alpha), 0)
    return grids.joined(parts or [none], 1)


def curves(selected: Selected, norm: Tensor, ends: Tensor, grid: Grid, *, sink: bool) -> Tensor:
    """Return `layer.NAMES` of some heads at every distinct N ≤ T, (name, head, n), in α's dtype;
    NaN where undefined.

    norm: ‖v‖ in the order of selection, (head, rank). ends: values of the first and the last token,
    (head, 2, dimension). sink: whether token 0 is the sink; otherwise there is none.
    """
    named = _representatives(selected, ends, grid, sink=sink)
    named |= _effective_weights(selected, norm, grid, sink=sink)
    return torch.stack([named[name].to(norm.dtype) for name in NAMES])


def _representatives(
    selected: Selected, ends: Tensor, grid: Grid, *, sink: bool
) -> dict[str, Tensor]:
    """Return ‖s‖, also without the sink and without the last token, and cosines with both."""
    s = selected.s
    # Ranks of token 0 and of the last, and whether I_N holds them, (head, 2, n).
    ranks = [(selected.order == end).int().argmax(dim=-1) for end in (0, grid.tokens - 1)]
    rank = torch.stack(ranks, dim=1)
    has = rank[..., None] < grid.n
    # Rounded like contributions, so that s minus its only contribution is exactly 0.
    added = (selected.weight.gather(1, rank)[..., None] * ends).to(s.dtype)
    norm_s = torch.linalg.vector_norm(s, dim=-1)
    rest = [
        torch.linalg.vector_norm(s - has[:, end, :, None] * added[:, end, None], dim=-1)
        for end in (0, 1)
    ]
    long = torch.linalg.vector_norm(ends, dim=-1, dtype=s.dtype)
    # 0/0, a vector without a direction, is NaN.
    cosine = (torch.bmm(s, ends.mT.to(s.dtype)) / (norm_s[..., None] * long[:, None])).clamp(-1, 1)
    return {
        "representative_norm": norm_s,
        "representative_norm_without_sink": rest[0] if sink else norm_s,
        "representative_norm_without_last": rest[1],
        "cosine_to_sink": cosine[..., 0] if sink else torch.full_like(norm_s, torch.nan),
        "cosine_to_last": cosine[..., 1],
    }


def _effective_weights(
    selected: Selected, norm: Tensor, grid: Grid, *, sink: bool
) -> dict[str, Tensor]:
    """Return extremes of a = α‖v‖ over I_N, over I_N without the sink, and over J, and its sum."""
    a = selected.weight * norm
    apart = selected.order == 0 if sink else torch.zeros_like(selected.order, dtype=torch.bool)
    content = a.masked_fill(apart, 0)
    highest = torch.stack(
        [
            (-a).masked_fill(apart, -torch.inf),
            -a,
            a,
            a.masked_fill(apart, -torch.inf),
            a.flip(-1),  # from the last rank on: the maximum over J
        ]
    ).cummax(dim=-1)[0]
    within = highest[:4].index_select(-1, grid.n - 1)
    within = within.masked_fill(within == -torch.inf, torch.nan)
    beyond = highest[4].index_select(-1, (grid.tokens - 1 - grid.n).clamp(min=0))
    total = content.cumsum(dim=-1, dtype=selected.s.dtype).index_select(-1, grid.n - 1)
    return {
        "a_min_in": -within[0],
        "a_min_in_with_sink": -within[1],
        "a_max_in": within[2],
        "a_max_in_without_sink": within[3],
        "a_max_out": beyond.masked_fill(grid.whole, torch.nan),
        "s_in": total,
    }


class Neighbours:
    """ρ_in and ρ_out of every head of a layer, updated with each chunk of its cosines."""

    def __init__(self, order: Tensor, norm: Tensor, grid: Grid, *, sink: bool) -> None:
        heads, tokens = order.shape
        self.group, self.grid = heads // len(norm), grid
        known = (norm > 0).repeat_interleave(self.group, dim=0)
        content = known.clone()
        if sink:
            content[:, 0].fill_(False)
        last, every = tokens - 1, torch.arange(tokens, device=order.device)
        rank = torch.empty_like(order).scatter_(1, order, every.expand_as(order))
        # In reverse, like the cosines. Excluded tokens are never within, or never beyond.
        self.within = rank.masked_fill(~content, tokens).flip(1)
        self.beyond = rank.masked_fill(~known, -1).flip(1)
        # Rows of cosines in the order of selection; one more, below all, for excluded tokens.
        rows = torch.where(content.gather(1, order), last - order, tokens)[:, : grid.most]
        self.rows = rows.to(torch.int32).view(len(norm), self.group, -1)
        self.rho = norm.new_full((2, heads, len(grid.n)), NO_PAIR)

    def add(self, chunk: Chunk) -> None:
        """Update ρ_in and ρ_out with a chunk; overwrites its cosines of tokens with themselves."""
        cosine, n = chunk.columns, self.grid.n
        kv_heads, tall, wide = cosine.shape
        cosine[:, -1].fill_(NO_PAIR)
        diagonal_block = cosine[:, chunk.start : chunk.start + wide]
        diagonal_block.diagonal(dim1=1, dim2=2).fill_(NO_PAIR)
        every = torch.arange(kv_heads, dtype=torch.int32, device=cosine.device)
        rows = (self.rows[chunk.kv_heads] + (every * tall)[:, None, None]).reshape(-1)
        heads = slice(chunk.kv_heads.start * self.group, chunk.kv_heads.stop * self.group)
        starts = self.grid.starts[: kv_heads * self.group * len(n)].to(torch.int32)
        # Maximum over the rows that each N adds, then over all rows in I_N, (head, n, column).
        added = embedding_bag(rows, cosine.view(-1, wide), starts, mode="max")
        highest = added.view(-1, len(n), wide).cummax(dim=1)[0]
        columns = slice(chunk.start, chunk.start + wide)
        within, beyond = self.within[heads, None, columns], self.beyond[heads, None, columns]
        bound = n[:, None]
        inside = highest.masked_fill(within >= bound, NO_PAIR).amax(dim=-1)
        outside = highest.masked_fill_(beyond < bound, NO_PAIR).amax(dim=-1)
        target = self.rho[:, heads]
        torch.maximum(target, torch.stack([inside, outside]), out=target)

    def measured(self) -> Tensor:
        """Return ρ_in and ρ_out, (2, head, n); without any pair 0 and NaN."""
        none = self.rho == NO_PAIR
        rho = self.rho.clamp(-1, 1)
        return torch.stack([rho[0].masked_fill(none[0], 0), rho[1].masked_fill(none[1], torch.nan)])
