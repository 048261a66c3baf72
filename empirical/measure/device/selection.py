"""Top-N selection and separability of all heads of a layer at once, by torch on any device.

Source: arXiv 2602.01893, Definitions 1-2, (1)-(3), (18); `measure.selection` is the reference.
Contributions stand in the order of selection, so I_N is the first N columns of the squared
distances D_l − ‖s‖² = ‖y_l‖² − 2⟨s, y_l⟩, one batched product for all N, tokens and heads. These
are float32 as in the reference, s(N) is summed in the type of sums (`grids.wide`), and radii are
those of the token that is farthest or nearest, taken anew in that type. Numbers differ from the
reference by rounding alone: P and R where two compared distances lie within it, as those of equal
contributions do, for a batched product need not sum each column in the same order.

No shape depends on a number that is measured, and none is read. Imports torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from empirical.measure.convention import Convention
from empirical.measure.device import grids
from empirical.measure.device.grids import Grid
from empirical.measure.selection import MEASURES

DISTANCE: Final = 10
"""Bytes of one distance while its ball is counted: inside, outside, and twice whether it counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """Some heads with their tokens in the order of selection."""

    order: Tensor
    """Tokens of each head, (head, rank) int64."""
    weight: Tensor
    """α in that order, (head, rank)."""
    y: Tensor
    """Contributions αv in that order, (head, rank, dimension)."""
    s: Tensor
    """Representatives s(N), (head, n, dimension), in the type of sums."""


def by_weight(alpha: Tensor) -> Tensor:
    """Return each head's tokens, largest weight first, ties by lower index, (head, token) int64."""
    return alpha.sort(dim=-1, descending=True, stable=True).indices


def select(alpha: Tensor, values: Tensor, kv_head: Tensor, order: Tensor, grid: Grid) -> Selected:
    """Put the tokens of some heads in order and sum the first N contributions for every N.

    alpha and order are (head, token), values (kv_head, token, dimension); kv_head tells each
    head's, (head) int64.
    """
    tokens, dimension = values.shape[1:]
    rows = (order + kv_head[:, None] * tokens).reshape(-1)
    weight = alpha.gather(1, order)
    y = values.reshape(-1, dimension).index_select(0, rows).view(*order.shape, dimension)
    y = y * weight[..., None]
    return Selected(order=order, weight=weight, y=y, s=_representatives(y, grid))


def _representatives(y: Tensor, grid: Grid) -> Tensor:
    """Return s(N) of each head; (1). What each N adds is summed first, then from N to N: the long
    dimension is read once.
    """
    first = y[:, : grid.most].to(grids.wide(y.device)).reshape(-1, y.shape[-1])
    every = torch.arange(len(first), device=y.device)
    starts = grid.starts[: len(y) * len(grid.n)]
    added = embedding_bag(every, first, starts, mode="sum")
    return added.view(len(y), len(grid.n), -1).cumsum(dim=1)


def balls(selected: Selected, grid: Grid, convention: Convention, budget: int) -> Tensor:
    """Return `MEASURES` of some heads at every distinct N ≤ T, (measure, head, n); (2), (3), (18).

    Sizes are taken in chunks whose distances fill `budget` bytes at most.
    """
    y, s = selected.y, selected.s
    squares = torch.linalg.vector_norm(y, dim=-1, dtype=s.dtype).square().to(y.dtype)
    columns = torch.arange(grid.tokens, device=y.device)
    strict = convention is Convention.FOLLOWUP
    step = max(budget // (len(y) * grid.tokens * DISTANCE), 1)
    parts = [
        _some_sizes(y, part, squares, size, columns, strict)
        for part, size in zip(s.split(step, dim=1), grid.n.split(step), strict=True)
    ]
    measured = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
    measured[MEASURES.index("r_min")].masked_fill_(grid.whole, torch.nan)
    if strict:
        measured[:2].masked_fill_(grid.whole, torch.nan)
    return measured


def _some_sizes(
    y: Tensor, s: Tensor, squares: Tensor, n: Tensor, columns: Tensor, strict: bool
) -> Tensor:
    tokens = y.shape[1]
    h = torch.baddbmm(squares[:, None, :], s.to(y.dtype), y.mT, alpha=-2)
    chosen = columns < n[:, None]
    outside = h.masked_fill(chosen, torch.inf)
    inside = h.masked_fill_(~chosen, -torch.inf)
    inner, nearest = outside.min(dim=-1)
    outer, farthest = inside.max(dim=-1)
    near = (outside <= outer[..., None]).sum(dim=-1)
    held = inside < inner[..., None] if strict else inside <= inner[..., None]
    kept = held.sum(dim=-1) - (tokens - n)  # those that are not selected count too, as −∞
    precision = n.to(y.dtype) / (n + near).to(y.dtype)
    recall = kept.to(y.dtype) / n.to(y.dtype)
    radii = (_distance(y, s, token).to(y.dtype) for token in (nearest, farthest))
    return torch.stack([precision, recall, *radii])


def _distance(y: Tensor, s: Tensor, token: Tensor) -> Tensor:
    """Return ‖s − y‖ of one token for each head and N, (head, n)."""
    heads, tokens, dimension = y.shape
    row = token + torch.arange(heads, device=y.device)[:, None] * tokens
    chosen = y.reshape(-1, dimension).index_select(0, row.reshape(-1)).view_as(s)
    return torch.linalg.vector_norm(s - chosen, dim=-1)


def heads_a_chunk(grid: Grid, dimension: int, heads: int, budget: int) -> int:
    """Return how many heads fit into `budget` bytes: contributions in float32 and, for sums, in
    float64; representatives in float64, with what is taken off them; distances to all tokens.
    """
    of_size = 24 * dimension + DISTANCE * grid.tokens
    one = 20 * grid.tokens * dimension + len(grid.n) * of_size
    return min(max(budget // one, 1), heads)


def separability(
    alpha: Tensor,
    values: Tensor,
    n: object,
    *,
    order: Tensor | None = None,
    convention: Convention = Convention.PAPER,
    budget: int = grids.BYTES,
) -> Tensor:
    """Return precision, recall, r_min and r_max of every head of a layer, (measure, head, n); NaN
    as of `measure.selection.separability`.

    Args:
        alpha: (head, token), on the device of `values`, (kv_head, token, dimension).
        n: sizes N, positive integers; None: the default grid.
        order: each head's tokens in the order of selection, (head, token) int64; by weight unless
            given.
        convention: how balls are counted.
        budget: bytes of temporary memory.
    """
    heads = len(alpha)
    grid = grids.grid(n, alpha.shape[1], heads, alpha.device)
    order = by_weight(alpha) if order is None else order
    kv_head = grids.own_head(heads, len(values), alpha.device)
    step = heads_a_chunk(grid, values.shape[-1], heads, budget)
    parts = []
    for low in range(0, heads if len(grid.n) else 0, step):
        some = slice(low, low + step)
        selected = select(alpha[some], values, kv_head[some], order[some], grid)
        parts.append(balls(selected, grid, convention, budget))
    if not parts:
        parts = [alpha.new_empty(len(MEASURES), heads, 0)]
    return grid.scatter(parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))
