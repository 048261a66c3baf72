"""Top-N selection and separability of all heads of a layer at once, by torch on any device.

Source: arXiv 2602.01893, Definitions 1-2, (1)-(3), (18); the reference is `measure.selection`.
Contributions are in the order of selection, so I_N is the first N columns of the squared distances
D_l − ‖s‖² = ‖y_l‖² − 2⟨s, y_l⟩, one batched product for all N, tokens and heads. These are float32
as in the reference. s(N) is summed in the accumulation dtype (`grids.wide`), in which the radii of
the farthest and nearest token are recomputed. Numbers differ from the reference by rounding only. P
and R may differ where two compared distances agree within rounding, as for equal contributions: a
batched product need not sum all columns in the same order.

No shape depends on a measured number, and none is read. Imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from empirical.measure.device import grids
from empirical.measure.device.grids import Grid, joined
from empirical.measure.selection import MEASURES, Convention

DISTANCE: Final = 10
"""Bytes per distance while balls are counted: inside, outside, and two comparisons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """Some heads, with their tokens in the order of selection."""

    kv_head: Tensor
    """kv_head of each head, (head) int64."""
    order: Tensor
    """Tokens of each head, (head, rank) int64."""
    weight: Tensor
    """α in that order, (head, rank)."""
    y: Tensor
    """Contributions αv in that order, (head, rank, dimension)."""
    s: Tensor
    """Representatives s(N), (head, n, dimension), in the accumulation dtype."""


def by_weight(alpha: Tensor) -> Tensor:
    """Return each head's tokens by descending weight, ties by lower index, (head, token) int64."""
    return alpha.sort(dim=-1, descending=True, stable=True).indices


def select(
    alpha: Tensor, values: Tensor, order: Tensor, grid: Grid, budget: int
) -> Iterator[Selected]:
    """Yield the heads of a layer in chunks that fit in `budget` bytes; none without any N ≤ T.

    alpha and order are (head, token), values (kv_head, token, dimension).
    """
    (heads, tokens), dimension = alpha.shape, values.shape[-1]
    every_kv_head = torch.arange(heads, device=alpha.device) // (heads // len(values))
    # Of one head: contributions in float32 and, for sums, float64; representatives in float64 with
    # their differences; distances to all tokens.
    per_size = 24 * dimension + DISTANCE * tokens
    per_head = 20 * tokens * dimension + len(grid.n) * per_size
    step = min(max(budget // per_head, 1), heads)
    for low in range(0, heads if len(grid.n) else 0, step):
        kv_head, ranked = every_kv_head[low : low + step], order[low : low + step]
        rows = (ranked + kv_head[:, None] * tokens).reshape(-1)
        weight = alpha[low : low + step].gather(1, ranked)
        y = values.reshape(-1, dimension).index_select(0, rows).view(*ranked.shape, dimension)
        y = y * weight[..., None]
        s = _representatives(y, grid)
        yield Selected(kv_head=kv_head, order=ranked, weight=weight, y=y, s=s)


def _representatives(y: Tensor, grid: Grid) -> Tensor:
    """Return s(N) of each head; (1). The contributions added by each N are summed first, then
    accumulated over N, so the long dimension is read once.
    """
    first = y[:, : grid.most].to(grids.wide(y.device)).reshape(-1, y.shape[-1])
    every = torch.arange(len(first), device=y.device)
    starts = grid.starts[: len(y) * len(grid.n)]
    added = embedding_bag(every, first, starts, mode="sum")
    return added.view(len(y), len(grid.n), -1).cumsum(dim=1)


def balls(selected: Selected, grid: Grid, convention: Convention, budget: int) -> Tensor:
    """Return `MEASURES` of some heads at every distinct N ≤ T, (measure, head, n); (2), (3), (18).

    Sizes are processed in chunks whose distances fill at most `budget` bytes.
    """
    y, s = selected.y, selected.s
    squares = torch.linalg.vector_norm(y, dim=-1, dtype=s.dtype).square().to(y.dtype)
    columns = torch.arange(grid.tokens, device=y.device)
    strict = convention == Convention.FOLLOWUP
    step = max(budget // (len(y) * grid.tokens * DISTANCE), 1)
    parts = [
        _some_sizes(y, part, squares, size, columns, strict)
        for part, size in zip(s.split(step, dim=1), grid.n.split(step), strict=True)
    ]
    measured = joined(parts, -1)
    measured[MEASURES.index("r_min")].masked_fill_(grid.whole, torch.nan)
    if strict:
        measured[:2].masked_fill_(grid.whole, torch.nan)
    return measured


def _some_sizes(
    y: Tensor, s: Tensor, squares: Tensor, n: Tensor, columns: Tensor, strict: bool
) -> Tensor:
    tokens = y.shape[1]
    h = torch.baddbmm(squares[:, None, :], s.to(y.dtype), y.mT, alpha=-2)
    selected = columns < n[:, None]
    outside = h.masked_fill(selected, torch.inf)
    inside = h.masked_fill_(~selected, -torch.inf)
    inner, nearest = outside.min(dim=-1)
    outer, farthest = inside.max(dim=-1)
    near = (outside <= outer[..., None]).sum(dim=-1)
    in_inner_ball = inside < inner[..., None] if strict else inside <= inner[..., None]
    recalled = in_inner_ball.sum(dim=-1) - (tokens - n)  # unselected tokens count too, as −∞
    precision = n.to(y.dtype) / (n + near).to(y.dtype)
    recall = recalled.to(y.dtype) / n.to(y.dtype)
    radii = (_distance(y, s, token).to(y.dtype) for token in (nearest, farthest))
    return torch.stack([precision, recall, *radii])


def _distance(y: Tensor, s: Tensor, token: Tensor) -> Tensor:
    """Return ‖s − y‖ of one token for each head and N, (head, n)."""
    heads, tokens, dimension = y.shape
    row = token + torch.arange(heads, device=y.device)[:, None] * tokens
    contribution = y.reshape(-1, dimension).index_select(0, row.reshape(-1)).view_as(s)
    return torch.linalg.vector_norm(s - contribution, dim=-1)


def separability(
    alpha: Tensor,
    values: Tensor,
    n: object,
    order: Tensor | None = None,
    convention: Convention = Convention.PAPER,
    budget: int = grids.BYTES,
) -> Tensor:
    """Return precision, recall, r_min and r_max of every head of a layer, (measure, head, n); NaN
    as of `measure.selection.separability`.

    alpha: (head, token); values: (kv_head, token, dimension). order: each head's tokens in the
    order of selection, (head, token) int64; default by weight. budget: bytes of temporary memory.
    """
    grid = grids.grid(n, alpha.shape[1], len(alpha), alpha.device)
    order = by_weight(alpha) if order is None else order
    heads = select(alpha, values, order, grid, budget)
    parts = [balls(selected, grid, convention, budget) for selected in heads]
    none = alpha.new_empty(len(MEASURES), len(alpha), 0)
    return grid.scatter(joined(parts or [none], 1))
