"""Attention output and analysed rows of one layer: the output from the fused kernel, and the
weights of the analysed query.

Source: arXiv 2602.01893, eq. (1): the row α of the last query. Scores follow the eager path of
transformers, in its order: scaling, soft-cap, mask, learned sinks, softmax. The full weight matrix
never exists. Soft-caps and learned sinks, which the fused kernel does not support, are computed in
blocks of `QUERY_BLOCK` queries. Imports torch and transformers only.

Arguments that the functions share:
    key: (document, kv_head, position, dimension); head h reads kv_head h // (heads // kv_heads).
    value: (document, kv_head, position, dimension); its dimension may differ from the key's.
    mask: (document, 1, query, position) bool, True where the query sees the position; None: causal.
        If there are fewer queries than positions, they belong to the last positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers.integrations.sdpa_attention import sdpa_attention_forward

QUERY_BLOCK = 128
"""Queries whose scores exist at once if the fused kernel cannot compute the layer."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a layer scores positions."""

    scaling: float
    softcap: float | None = None
    """Bound of the scores, in nats."""
    sinks: Tensor | None = None
    """Logit of the learned sink of each head, (head,)."""

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """Return cap·tanh(q·k·scaling / cap), or q·k·scaling without a soft-cap."""
        scores = torch.matmul(query, key.transpose(-1, -2)) * self.scaling
        return scores if self.softcap is None else torch.tanh(scores / self.softcap) * self.softcap


def analysed_row(query: Tensor, key: Tensor, visible: Tensor, scoring: Scoring) -> Tensor:
    """Return α of one query per document, (document, head, position) float32, unitless; exactly 0
    at invisible positions.

    α = softmax(m + scores). The logit of a head's learned sink enters the softmax as one more
    entry, which is then dropped, so such a row sums to less than 1. query: (document, head,
    dimension); visible: (document, position) bool.
    """
    documents, heads, dimension = query.shape
    kv_heads = key.shape[1]
    grouped = query.float().reshape(documents, kv_heads, heads // kv_heads, dimension)
    scores = scoring.scores(grouped, key.float())
    scores = scores.masked_fill(~visible[:, None, None, :], float("-inf"))
    if scoring.sinks is not None:
        logits = scoring.sinks.float().reshape(1, kv_heads, heads // kv_heads, 1)
        logits = logits.expand(documents, -1, -1, -1)
        scores = torch.cat([scores, logits], dim=-1)
    alpha = torch.softmax(scores, dim=-1)[..., : key.shape[2]]
    return alpha.reshape(documents, heads, -1)


def layer_output(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scoring: Scoring,
) -> Tensor:
    """Return the layer's causal attention output, (document, position, head, value dimension), as
    the model expects it. The fused path reads the head grouping from `module`.
    """
    if scoring.softcap is not None:
        return in_blocks(query, key, value, mask, lambda block: block.output(block.alpha(scoring)))
    width = value.shape[-1]
    queries, positions = query.shape[2], key.shape[2]
    if mask is None and queries < positions:  # the fused kernel assumes the first positions
        mask = _causal(positions - queries, positions, query.device)
    # The fused kernel needs keys and values of one dimension. Zero padding changes neither scores
    # nor output.
    if width < key.shape[-1]:
        value = pad(value, (0, key.shape[-1] - width))
    if scoring.sinks is not None:
        output = in_blocks(query, key, value, mask, partial(_fused_with_sinks, scoring=scoring))
        return output[..., :width]
    output, _ = sdpa_attention_forward(
        module, query, key, value, mask, dropout=0.0, scaling=scoring.scaling, is_causal=True
    )
    return output[..., :width]


@dataclass(frozen=True, slots=True)
class Block:
    """Some queries of a layer, with the keys and values up to the last of them."""

    start: int
    """Position of the first query."""
    rows: Tensor
    """(document, kv_head, head·query, dimension): heads of a group share a key, not repeated."""
    key: Tensor
    """(document, kv_head, position, dimension)."""
    value: Tensor
    """(document, kv_head, position, dimension)."""
    added: Tensor
    """Additive mask, (document or 1, 1, query, position): 0, or the dtype's minimum."""

    def alpha(self, scoring: Scoring) -> Tensor:
        """Return α, (document, kv_head, head of the group, query, position), at least float32, in
        the order of eager attention; with learned sinks, rows sum to less than 1.
        """
        documents, kv_heads, packed, _ = self.rows.shape
        row_count, positions = self.added.shape[-2:]
        by_query = documents, kv_heads, packed // row_count, row_count, positions
        scores = scoring.scores(self.rows, self.key).view(by_query) + self.added[:, :, None]
        if scoring.sinks is not None:
            logits = scoring.sinks.to(scores.dtype).reshape(1, kv_heads, -1, 1, 1)
            logits = logits.expand(documents, -1, -1, row_count, -1)
            scores = torch.cat([scores, logits], dim=-1)
        dtype = torch.promote_types(scores.dtype, torch.float32)
        return torch.softmax(scores, dim=-1, dtype=dtype)[..., :positions]

    def output(self, alpha: Tensor) -> Tensor:
        """Return α·value, (document, kv_head, head·query, dimension), in the value's type."""
        flat = alpha.to(self.value.dtype).reshape(*self.rows.shape[:3], -1)
        return torch.matmul(flat, self.value)


def in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    output: Callable[[Block], Tensor],
) -> Tensor:
    """Return a layer's output, (document, query, head, value dimension), from that of each block of
    queries, (document, kv_head, head·query, dimension). Blocks end at multiples of `QUERY_BLOCK`
    positions, whatever the first query.
    """
    documents, heads, queries, _ = query.shape
    kv_heads, positions = key.shape[1:3]
    first = positions - queries
    whole = query.new_empty(documents, queries, heads, value.shape[-1])
    for begin in range(first // QUERY_BLOCK * QUERY_BLOCK, positions, QUERY_BLOCK):
        start, stop = max(begin, first), min(begin + QUERY_BLOCK, positions)
        span = slice(start - first, stop - first)
        rows = query[:, :, span].reshape(documents, kv_heads, -1, query.shape[-1])
        seen = _causal(start, stop, query.device) if mask is None else mask[:, :, span, :stop]
        # As in eager attention, the dtype's minimum hides a position: a query that sees nothing
        # then gets finite numbers; with −∞ it would get NaN.
        added = torch.zeros(seen.shape, dtype=query.dtype, device=seen.device)
        added.masked_fill_(~seen, torch.finfo(query.dtype).min)
        block = output(Block(start, rows, key[:, :, :stop], value[:, :, :stop], added))
        whole[:, span] = block.reshape(documents, heads, stop - start, -1).transpose(1, 2)
    return whole


def _causal(start: int, stop: int, device: torch.device) -> Tensor:
    """Return which of positions 0..stop queries start..stop see, (1, 1, query, position) bool."""
    return torch.ones(1, 1, stop - start, stop, dtype=torch.bool, device=device).tril(start)


def _fused_with_sinks(block: Block, scoring: Scoring) -> Tensor:
    """Return the fused output with one more, zero key and value, masked by each sink's logit."""
    sinks, added = scoring.sinks, block.added
    assert sinks is not None
    documents, kv_heads, packed, _ = block.rows.shape
    group = sinks.numel() // kv_heads
    row_count, positions = added.shape[-2:]
    zero = block.key.new_zeros(documents, kv_heads, 1, 1)
    extended = added.new_empty(added.shape[0], kv_heads, group, row_count, positions + 1)
    extended[..., :-1] = added[:, :, None]
    extended[..., -1] = sinks.to(added.dtype).reshape(1, kv_heads, group, 1)
    key, value = block.key, block.value
    return scaled_dot_product_attention(
        block.rows,
        torch.cat([key, zero.expand(-1, -1, -1, key.shape[-1])], dim=2),
        torch.cat([value, zero.expand(-1, -1, -1, value.shape[-1])], dim=2),
        attn_mask=extended.reshape(added.shape[0], kv_heads, packed, positions + 1),
        scale=scoring.scaling,
    )
