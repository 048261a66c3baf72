"""Largest cosines among the selected, and between them and the rest, of all heads of a layer, by
torch on any device.

Source: arXiv 2602.01893, (7), (8); `cosine_kernels.running_maxima` is the reference. Of the rows
that each N adds the largest is taken column by column, then from N to N; ρ_in is the largest of
that among the columns in I_N, ρ_out among the others. Tokens that have no say, the sink among the
selected and zero vectors, are put in as a row of cosines below all. Imports torch.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from empirical.measure.cosine_kernels import NO_PAIR
from empirical.measure.device.cosines import Chunk
from empirical.measure.device.grids import Grid


class Neighbours:
    """ρ_in and ρ_out of every head of a layer, raised chunk by chunk of its cosines."""

    def __init__(self, order: Tensor, norm: Tensor, grid: Grid, *, sink: bool) -> None:
        heads, tokens = order.shape
        self.group, self.grid = heads // len(norm), grid
        known = (norm > 0).repeat_interleave(self.group, dim=0)
        content = known.clone()
        if sink:
            content[:, 0].fill_(False)
        last, every = tokens - 1, torch.arange(tokens, device=order.device)
        rank = torch.empty_like(order).scatter_(1, order, every.expand_as(order))
        # In reverse, as cosines are. What is no neighbour is never within, or never beyond.
        self.within = rank.masked_fill(~content, tokens).flip(1)
        self.beyond = rank.masked_fill(~known, -1).flip(1)
        # Rows of cosines in the order of selection; one more, below all, for tokens without a say.
        rows = torch.where(content.gather(1, order), last - order, tokens)[:, : grid.most]
        self.rows = rows.to(torch.int32).view(len(norm), self.group, -1)
        self.rho = torch.full(
            (2, heads, len(grid.n)), NO_PAIR, dtype=norm.dtype, device=order.device
        )

    def add(self, chunk: Chunk) -> None:
        """Raise ρ_in and ρ_out by a chunk, whose cosines of tokens with themselves are lost."""
        cosine, n = chunk.columns, self.grid.n
        kv_heads, tall, wide = cosine.shape
        cosine[:, -1].fill_(NO_PAIR)
        own = cosine[:, chunk.start : chunk.start + wide]
        own.diagonal(dim1=1, dim2=2).fill_(NO_PAIR)
        some = chunk.kv_heads
        every = torch.arange(kv_heads, dtype=torch.int32, device=cosine.device)
        rows = (self.rows[some] + (every * tall)[:, None, None]).reshape(-1)
        heads = slice(some.start * self.group, some.stop * self.group)
        starts = self.grid.starts[: kv_heads * self.group * len(n)].to(torch.int32)
        # Of the rows that each N adds the largest; then of all rows in I_N, (head, n, column).
        added = embedding_bag(rows, cosine.view(-1, wide), starts, mode="max")
        highest = added.view(-1, len(n), wide).cummax(dim=1)[0]
        columns = slice(chunk.start, chunk.start + wide)
        within, beyond = self.within[heads, None, columns], self.beyond[heads, None, columns]
        bound = n[:, None]
        inside = highest.masked_fill(within >= bound, NO_PAIR).amax(dim=-1)
        outside = highest.masked_fill_(beyond < bound, NO_PAIR).amax(dim=-1)
        here = self.rho[:, heads]
        torch.maximum(here, torch.stack([inside, outside]), out=here)

    def measured(self) -> Tensor:
        """Return ρ_in and ρ_out, (2, head, n): 0 and NaN where there is no pair."""
        none = self.rho == NO_PAIR
        rho = self.rho.clamp(-1, 1)
        return torch.stack([rho[0].masked_fill(none[0], 0), rho[1].masked_fill(none[1], torch.nan)])
