"""What one attention layer is asked for: its output from the fused kernel, and the analysed query's
row of weights.

Source: arXiv 2602.01893, eq. (1): the row α of the last query. Scores follow the eager path of
transformers, in its order: scaling, soft-cap, mask, learned sinks, softmax. No weights of all
queries against all positions ever exist: a soft-cap or a learned sink, which the fused kernel does
not know, is computed in blocks of `QUERY_BLOCK` queries. Imports torch and transformers only.

Arguments that the functions share:
    key: (document, kv_head, position, dimension); head h reads kv_head h // (heads // kv_heads).
    value: (document, kv_head, position, dimension); its dimension may differ from the key's.
    mask: (document, 1, query, position) bool, True where the query sees the position; None: causal.
    Where there are fewer queries than positions, they are those of the last positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers.integrations.sdpa_attention import sdpa_attention_forward

QUERY_BLOCK = 128
"""Queries whose scores may exist at once where the fused kernel cannot take the whole layer."""


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
    """Return α of one query a document, (document, head, position) float32, unitless; exactly 0
    where invisible.

    α = softmax(m + scores), with the logit of each head's learned sink, if there is one, as one
    more entry of the softmax that is then left out: such a row sums below 1. query: (document,
    head, dimension); visible: (document, position) bool.
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
    """Return the layer's causal attention output, (document, position, head, dimension of the
    value), as the model's next line expects it.

    query: (document, head, position, dimension). The fused path reads the grouping of heads from
    `module`.
    """
    if scoring.softcap is not None:
        return _in_blocks(query, key, value, mask, scoring)
    width = value.shape[-1]
    queries, positions = query.shape[2], key.shape[2]
    if mask is None and queries < positions:  # the fused kernel would take them for the first
        mask = _causal(positions - queries, positions, query.device)
    # The fused kernel wants keys and values of one dimension; zeros change neither the scores nor
    # the rest of the output.
    if width < key.shape[-1]:
        value = pad(value, (0, key.shape[-1] - width))
    if scoring.sinks is not None:
        return _in_blocks(query, key, value, mask, scoring)[..., :width]
    output, _ = sdpa_attention_forward(
        module, query, key, value, mask, dropout=0.0, scaling=scoring.scaling, is_causal=True
    )
    return output[..., :width]


def _in_blocks(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scoring: Scoring
) -> Tensor:
    """Return `layer_output` block by block of queries."""

    def output(block: Block) -> Tensor:
        return (_fused_with_sinks if scoring.softcap is None else _capped)(block, scoring)

    return in_blocks(query, key, value, mask, output)


@dataclass(frozen=True, slots=True)
class Block:
    """A few queries of a layer, and what they can see: no key beyond the last of them."""

    start: int
    """Position of the first query."""
    rows: Tensor
    """Queries (document, kv_head, head·query, dimension): a group's heads stand as further queries
    of their one key, so that nothing is repeated.
    """
    key: Tensor
    """(document, kv_head, position, dimension)."""
    value: Tensor
    """(document, kv_head, position, dimension)."""
    added: Tensor
    """What is added to scores, (document or 1, 1, query, position): 0, or the type's minimum."""

    def weights(self, scoring: Scoring) -> Tensor:
        """Return α, (document, kv_head, head of the group, query, position), at least float32, in
        the order of transformers' eager path. With learned sinks rows sum below 1.
        """
        documents, kv_heads, packed, _ = self.rows.shape
        row_count, positions = self.added.shape[-2:]
        by_query = documents, kv_heads, packed // row_count, row_count, positions
        scores = scoring.scores(self.rows, self.key).view(by_query) + self.added[:, :, None]
        if scoring.sinks is not None:
            logits = scoring.sinks.to(scores.dtype).reshape(1, kv_heads, -1, 1, 1)
            logits = logits.expand(documents, -1, -1, row_count, -1)
            scores = torch.cat([scores, logits], dim=-1)
        kind = torch.promote_types(scores.dtype, torch.float32)
        return torch.softmax(scores, dim=-1, dtype=kind)[..., :positions]

    def weighted(self, weights: Tensor) -> Tensor:
        """Return weights·value, (document, kv_head, head·query, dimension), in the value's type."""
        documents, kv_heads, packed, _ = self.rows.shape
        flat = weights.to(self.value.dtype).reshape(documents, kv_heads, packed, -1)
        return torch.matmul(flat, self.value)


def in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    output: Callable[[Block], Tensor],
) -> Tensor:
    """Return a layer's output, (document, query, head, dimension of the value), from that of each
    block of queries, (document, kv_head, head·query, dimension).

    A block ends where its last position is a multiple of `QUERY_BLOCK`, whatever the first query.
    """
    documents, heads, queries, _ = query.shape
    kv_heads, positions = key.shape[1:3]
    first = positions - queries
    whole = query.new_empty(documents, queries, heads, value.shape[-1])
    for begin in range(first // QUERY_BLOCK * QUERY_BLOCK, positions, QUERY_BLOCK):
        start, stop = max(begin, first), min(begin + QUERY_BLOCK, positions)
        here = slice(start - first, stop - first)
        rows = query[:, :, here].reshape(documents, kv_heads, -1, query.shape[-1])
        seen = _causal(start, stop, query.device) if mask is None else mask[:, :, here, :stop]
        added = _additive_mask(seen, query.dtype)
        block = output(Block(start, rows, key[:, :, :stop], value[:, :, :stop], added))
        whole[:, here] = block.reshape(documents, heads, stop - start, -1).transpose(1, 2)
    return whole


def _causal(start: int, stop: int, device: torch.device) -> Tensor:
    """Return what queries start..stop see of positions 0..stop, (1, 1, query, position) bool."""
    return torch.ones(1, 1, stop - start, stop, dtype=torch.bool, device=device).tril(start)


def _additive_mask(seen: Tensor, kind: torch.dtype) -> Tensor:
    """Return what is added to scores: 0 where a query sees a position, else the type's minimum.

    The minimum, not −∞, as in eager: a query that sees nothing then gets finite numbers and not
    NaN, which would spread.
    """
    return torch.zeros(seen.shape, dtype=kind, device=seen.device).masked_fill_(
        ~seen, torch.finfo(kind).min
    )


def _fused_with_sinks(block: Block, scoring: Scoring) -> Tensor:
    """Return the fused kernel's output with one more, zero, key and value whose additive mask is
    each head's sink logit.
    """
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


def _capped(block: Block, scoring: Scoring) -> Tensor:
    """Return softmax(soft-capped scores)·value of a block."""
    return block.weighted(block.weights(scoring))
