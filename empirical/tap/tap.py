"""The attention tap: runs a model's decoder as it is and hands over, layer by layer, the analysed
queries' weights and the values.

Source: arXiv 2602.01893, §2 (weights α and values v of one query, the last of its window). Each
layer's output comes from the fused kernel, and a row of weights is computed beside it for each
analysed query. Imports torch and transformers only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from empirical.errors import InputError
from empirical.tap.attention import analysed_row
from empirical.tap.decoder import decoder_of
from empirical.tap.interface import Attention, run_decoder
from empirical.tap.placed import device_of
from empirical.tap.refusals import checked_mask, refuse_ahead, shows_ahead


@dataclass(frozen=True, slots=True, kw_only=True)
class TappedLayer:
    """What one layer hands over. The tensors live on the model's device, and only until the
    callback returns unless it keeps them.
    """

    index: int
    """Number of the layer, from 0."""
    module: torch.nn.Module | None = None
    """Its attention module; None of tensors that no model here made."""
    alpha: Tensor
    """α of the analysed queries, (document, query, head, position) float32, unitless; exactly 0
    where invisible.
    """
    values: Tensor
    """(document, kv_head, position, dimension) float32, one for each kv_head, never repeated."""
    visible: Tensor
    """(document, query, position) bool: what the analysed queries may see."""
    first: Sequence[Sequence[int]]
    """The first position that each of them sees, (document, query), known without a look at the
    device where nothing but causality hides positions.
    """


def tap(
    model: PreTrainedModel,
    input_ids: Tensor,
    on_layer: Callable[[TappedLayer], None],
    attention_mask: Tensor | None = None,
    queries: Tensor | None = None,
) -> Tensor:
    """Run the decoder of `model` once and hand each layer to `on_layer` while its tensors live.

    By default the analysed query is the last of each document's tokens: the last position, or,
    under `attention_mask`, the last that is not padding. Positions count from the start of the
    window, padding included, as transformers' own forward counts them. The model's attention
    implementation is put back afterwards, also when `on_layer` raises.

    Args:
        model: a decoder-only transformers model in evaluation mode, with or without a head; the
            head is not run.
        input_ids: (document, position) integers.
        on_layer: called once a layer, in order.
        attention_mask: (document, position), 0 where padded; None: no padding.
        queries: positions of the analysed queries, (document, query) integers, none of them
            padding; None: the last.

    Returns:
        The last hidden states, (document, position, hidden), in the model's type; those of padded
        positions mean nothing.

    Raises:
        InputError: shapes do not fit, a window is longer than the model reads, or the model is one
            whose weights cannot be told: it is in training mode, is not causal, uses a mask, bias
            or keyword that is not understood, or its layers do not call the tap.
    """
    decoder = decoder_of(model)
    mask = checked_mask(decoder, input_ids, attention_mask)
    rows = analysed_positions(input_ids, mask, queries).to(device_of(decoder))
    firsts: dict[int, tuple[Tensor, list[list[int]]]] = {}

    def attend(layer: Attention) -> Tensor:
        output = layer.output()
        on_layer(_tapped(layer, rows.to(layer.query.device), firsts))
        return output

    return run_decoder(decoder, input_ids, mask, attend, read=False)


def _tapped(
    layer: Attention, rows: Tensor, firsts: dict[int, tuple[Tensor, list[list[int]]]]
) -> TappedLayer:
    """Compute the weights of the analysed queries, at positions `rows`, (document, query).

    firsts: masks by identity, each with the first position that the analysed queries see under it;
    a model makes one for each kind of layer, so each is read once a forward.
    """
    visible = _visible(rows, layer.key.shape[2], layer.mask)
    every = torch.arange(len(rows), device=rows.device)
    weights = [
        analysed_row(layer.query[every, :, row], layer.key, seen, layer.scoring)
        for row, seen in zip(rows.T, visible.unbind(1), strict=True)
    ]
    return TappedLayer(
        index=layer.index,
        module=layer.module,
        alpha=torch.stack(weights, dim=1),
        values=layer.value.float(),
        visible=visible,
        first=_firsts(firsts, layer, visible),
    )


def analysed_positions(input_ids: Tensor, mask: Tensor | None, queries: Tensor | None) -> Tensor:
    """Return the positions of the analysed queries, (document, query); refuse those that are not
    there.
    """
    documents, positions = input_ids.shape
    if queries is None:
        last = torch.full((documents,), positions - 1) if mask is None else last_tokens(mask)
        return last[:, None]
    if (
        queries.ndim != 2
        or len(queries) != documents
        or queries.is_floating_point()
        or not queries.numel()
        or not 0 <= int(queries.min()) <= int(queries.max()) < positions
        or (mask is not None and not bool(mask.cpu().gather(1, queries.cpu().long()).all()))
    ):
        raise InputError(
            f"queries {tuple(queries.shape)}: expected (document, query) positions from 0 to"
            f" {positions - 1} of {documents} documents, none of them padding. Name others."
        )
    return queries.long()


def last_tokens(mask: Tensor) -> Tensor:
    """Return the last position of each document that is not padding, (document,), from a
    (document, position) bool mask.
    """
    return mask.shape[1] - 1 - mask.flip(1).int().argmax(dim=1)


def _visible(rows: Tensor, positions: int, mask: Tensor | None) -> Tensor:
    """Return what the analysed queries see, (document, query, position) bool."""
    if mask is None:
        return torch.arange(positions, device=rows.device) <= rows[..., None]
    every = torch.arange(len(rows), device=rows.device)[:, None]
    return mask.expand(len(rows), -1, -1, -1)[every, 0, rows]


def _firsts(
    known: dict[int, tuple[Tensor, list[list[int]]]], layer: Attention, visible: Tensor
) -> list[list[int]]:
    """Return the first position that each analysed query sees, (document, query); refuse a layer
    where any query sees a later one.
    """
    mask = layer.mask
    if mask is None:
        return [[0] * visible.shape[1]] * len(visible)
    if id(mask) not in known:
        first = visible.to(torch.int8).argmax(dim=-1)
        # Read together, for their device is waited for.
        ahead, *flat = torch.cat([shows_ahead(mask).long()[None], first.flatten()]).tolist()
        refuse_ahead(layer.seen, bool(ahead))
        wide = first.shape[1]
        rows = [flat[at : at + wide] for at in range(0, len(flat), wide)]
        known[id(mask)] = mask, rows  # the mask is kept, so that its identity stays its
    return known[id(mask)][1]
