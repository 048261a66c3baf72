"""What one attention layer is asked for: its output from the fused kernel, and the analysed query's
row of weights.

Source: arXiv 2602.01893, eq. (1): the row α of the last query. Scores follow the eager path of
transformers, in its order: scaling, soft-cap, mask, learned sinks, softmax. No weights of all
queries against all positions ever exist: a soft-cap or a learned sink, which the fused kernel does
not know, is computed in blocks of `QUERY_BLOCK` queries. Imports torch and transformers only.

Arguments that the functions share:
    key: (document, kv_head, position, dimension); head h reads kv_head h // (heads // kv_heads).
    value: (document, kv_head, position, dimension); its dimension may differ from the key's.
    mask: (document, 1, position, position) bool, True where the query (third) sees the position
        (fourth); None: causal.
    scaling: factor of the scores.
    softcap: bound of the scores, in nats, or None.
    sinks: logit of the learned sink of each head, (head,), or None.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers.integrations.sdpa_attention import sdpa_attention_forward

QUERY_BLOCK = 128
"""Queries whose scores may exist at once where the fused kernel cannot take the whole layer."""


def analysed_row(
    query: Tensor,
    key: Tensor,
    visible: Tensor | None,
    *,
    scaling: float,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Return the attention weights of one query a document, in float32.

    α = softmax(m + cap·tanh(q·k·scaling / cap)), with the logit of each head's learned sink, if
    there is one, as one more entry of the softmax that is then left out: such a row sums below 1.

    Args:
        query: the analysed query, (document, head, dimension).
        visible: (document, position) bool, or None where every position is visible.
        key, scaling, softcap, sinks: as above.

    Returns:
        α, (document, head, position) float32, unitless; exactly 0 where invisible.
    """
    documents, heads, dimension = query.shape
    kv_heads = key.shape[1]
    grouped = query.float().reshape(documents, kv_heads, heads // kv_heads, dimension)
    scores = torch.matmul(grouped, key.float().transpose(-1, -2)) * scaling
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if visible is not None:
        scores = scores.masked_fill(~visible[:, None, None, :], float("-inf"))
    if sinks is not None:
        logits = (
            sinks.float().reshape(1, kv_heads, heads // kv_heads, 1).expand(documents, -1, -1, -1)
        )
        scores = torch.cat([scores, logits], dim=-1)
    alpha = torch.softmax(scores, dim=-1)[..., : key.shape[2]]
    return alpha.reshape(documents, heads, -1)


def layer_output(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    scaling: float,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Return the layer's causal attention output, as the model's next line expects it.

    Args:
        module: the attention module; the fused path reads its grouping of heads.
        query: (document, head, position, dimension).
        key, value, mask, scaling, softcap, sinks: as above.

    Returns:
        (document, position, head, dimension of the value).
    """
    if softcap is not None:
        return _in_blocks(query, key, value, mask, scaling=scaling, softcap=softcap, sinks=sinks)
    width = value.shape[-1]
    # The fused kernel wants keys and values of one dimension; zeros change neither the scores nor
    # the rest of the output.
    if width < key.shape[-1]:
        value = pad(value, (0, key.shape[-1] - width))
    if sinks is not None:
        return _in_blocks(query, key, value, mask, scaling=scaling, softcap=None, sinks=sinks)[
            ..., :width
        ]
    output, _ = sdpa_attention_forward(
        module, query, key, value, mask, dropout=0.0, scaling=scaling, is_causal=True
    )
    return output[..., :width]


def _in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    scaling: float,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """Return `layer_output` block by block of queries; a block reads no key beyond its last
    query.
    """
    documents, heads, positions, _ = query.shape
    kv_heads = key.shape[1]
    output = query.new_empty(documents, positions, heads, value.shape[-1])
    for start in range(0, positions, QUERY_BLOCK):
        stop = min(start + QUERY_BLOCK, positions)
        # A group's heads stand as further queries of their one key, so that nothing is repeated:
        # (document, kv_head, head·row, dimension).
        rows = query[:, :, start:stop].reshape(documents, kv_heads, -1, query.shape[-1])
        seen = rows, key[:, :, :stop], value[:, :, :stop], _additive_mask(query, mask, start, stop)
        if softcap is None:
            assert sinks is not None
            block = _fused_with_sinks(*seen, scaling, sinks)
        else:
            block = _capped(*seen, scaling, softcap, sinks)
        output[:, start:stop] = block.reshape(documents, heads, stop - start, -1).transpose(1, 2)
    return output


def _additive_mask(query: Tensor, mask: Tensor | None, start: int, stop: int) -> Tensor:
    """Return the mask of queries start..stop against positions 0..stop: (document or 1, 1, row,
    position), 0 or the type's minimum.

    The minimum, not −∞, as in eager: a query that sees nothing then gets finite numbers and not
    NaN, which would spread.
    """
    causal = torch.ones(1, 1, stop - start, stop, dtype=torch.bool, device=query.device).tril(start)
    seen = causal if mask is None else mask[:, :, start:stop, :stop]
    return torch.zeros(seen.shape, dtype=query.dtype, device=query.device).masked_fill_(
        ~seen, torch.finfo(query.dtype).min
    )


def _fused_with_sinks(
    rows: Tensor, key: Tensor, value: Tensor, added: Tensor, scaling: float, sinks: Tensor
) -> Tensor:
    """Return the fused kernel's output with one more, zero, key and value whose additive mask is
    each head's sink logit.
    """
    documents, kv_heads, packed, _ = rows.shape
    group = sinks.numel() // kv_heads
    row_count, positions = added.shape[-2:]
    zero = key.new_zeros(documents, kv_heads, 1, 1)
    extended = added.new_empty(added.shape[0], kv_heads, group, row_count, positions + 1)
    extended[..., :-1] = added[:, :, None]
    extended[..., -1] = sinks.to(added.dtype).reshape(1, kv_heads, group, 1)
    return scaled_dot_product_attention(
        rows,
        torch.cat([key, zero.expand(-1, -1, -1, key.shape[-1])], dim=2),
        torch.cat([value, zero.expand(-1, -1, -1, value.shape[-1])], dim=2),
        attn_mask=extended.reshape(added.shape[0], kv_heads, packed, positions + 1),
        scale=scaling,
    )


def _capped(
    rows: Tensor,
    key: Tensor,
    value: Tensor,
    added: Tensor,
    scaling: float,
    softcap: float,
    sinks: Tensor | None,
) -> Tensor:
    """Return softmax(soft-capped scores)·value for one block of queries, in the order of
    transformers' eager path.
    """
    documents, kv_heads, packed, _ = rows.shape
    row_count, positions = added.shape[-2:]
    scores = torch.matmul(rows, key.transpose(-1, -2)) * scaling
    scores = torch.tanh(scores / softcap) * softcap
    scores = (
        scores.view(documents, kv_heads, packed // row_count, row_count, positions)
        + added[:, :, None]
    )
    if sinks is not None:
        logits = (
            sinks.to(scores.dtype)
            .reshape(1, kv_heads, -1, 1, 1)
            .expand(documents, -1, -1, row_count, -1)
        )
        scores = torch.cat([scores, logits], dim=-1)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)[..., :positions]
    return torch.matmul(weights.reshape(documents, kv_heads, packed, positions), value)
