"""Attention tap: runs a model's decoder unchanged and passes on, layer by layer, the analysed
queries' attention weights and the value states.

Source: arXiv 2602.01893, §2 (weights α and values v of one query, the last of its window). Each
layer's output comes from the fused kernel; the weights of each analysed query are recomputed from
its scores. Imports torch and transformers only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from empirical.errors import InputError
from empirical.tap.attention import analysed_row
from empirical.tap.decoder import decoder_of, device_of
from empirical.tap.interface import Attention, run_decoder
from empirical.tap.refusals import checked_mask, refuse_ahead, shows_ahead


@dataclass(frozen=True, slots=True, kw_only=True)
class TappedLayer:
    """Weights and values of one layer. The tensors are on the model's device, and are freed when
    the callback returns unless it keeps them.
    """

    index: int
    """Number of the layer, from 0."""
    module: torch.nn.Module | None = None
    """Attention module; None for tensors from another program."""
    alpha: Tensor
    """α, (document, query, head, position) float32, unitless; exactly 0 at invisible positions."""
    values: Tensor
    """(document, kv_head, position, dimension) float32; one per kv_head, never repeated."""
    visible: Tensor
    """Positions that the analysed queries see, (document, query, position) bool."""
    first: Sequence[Sequence[int]]
    """First position that each analysed query sees, (document, query). Reading it needs no device
    synchronisation if only causality hides positions.
    """


def tap(
    model: PreTrainedModel,
    input_ids: Tensor,
    on_layer: Callable[[TappedLayer], None],
    attention_mask: Tensor | None = None,
    queries: Tensor | None = None,
) -> Tensor:
    """Run the decoder of `model` once and pass each layer to `on_layer`.

    By default the analysed query is each document's last token: the last position, or, under
    `attention_mask`, the last that is not padding. Positions count from the start of the window,
    padding included, as in transformers. The model's attention implementation is restored
    afterwards, even if `on_layer` raises.

    Args:
        model: a decoder-only transformers model in evaluation mode; a head is not run.
        input_ids: (document, position) integers.
        on_layer: called once per layer, in order.
        attention_mask: (document, position), 0 where padded; None: no padding.
        queries: analysed positions, (document, query) integers without padding; None: the last.

    Returns:
        The last hidden states, (document, position, hidden), in the model's dtype; those at padded
        positions are meaningless.

    Raises:
        InputError: shapes do not fit, a window is too long for the model, or the attention weights
            cannot be recomputed: the model is in training mode, is not causal, uses an unsupported
            mask, bias or keyword, or its layers do not call the tap.
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
    """Compute the weights of the analysed queries at positions `rows`, (document, query).

    firsts: first visible positions by mask. A model makes one mask per kind of layer, so each mask
    is read once per forward pass.
    """
    visible = _visible(rows, layer.key.shape[2], layer.mask)
    documents = torch.arange(len(rows), device=rows.device)
    weights = [
        analysed_row(layer.query[documents, :, row], layer.key, seen, layer.scoring)
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
    """Return the positions of the analysed queries, (document, query); refuse invalid ones."""
    documents, positions = input_ids.shape
    if queries is None:
        last = torch.full((documents,), positions - 1) if mask is None else last_tokens(mask)
        return last[:, None]
    whole = queries.ndim == 2 and not queries.is_floating_point() and queries.numel()
    if (
        not (whole and len(queries) == documents)
        or not 0 <= int(queries.min()) <= int(queries.max()) < positions
        or (mask is not None and not bool(mask.cpu().gather(1, queries.cpu().long()).all()))
    ):
        raise InputError(
            f"queries {tuple(queries.shape)}: expected (document, query) positions from 0 to"
            f" {positions - 1} of {documents} documents, none of them padding. Name others."
        )
    return queries.long()


def last_tokens(mask: Tensor) -> Tensor:
    """Return the last position that is not padding, (document,); mask (document, position) bool."""
    return mask.shape[1] - 1 - mask.flip(1).int().argmax(dim=1)


def _visible(rows: Tensor, positions: int, mask: Tensor | None) -> Tensor:
    """Return which positions the analysed queries see, (document, query, position) bool."""
    if mask is None:
        return torch.arange(positions, device=rows.device) <= rows[..., None]
    documents = torch.arange(len(rows), device=rows.device)[:, None]
    return mask.expand(len(rows), -1, -1, -1)[documents, 0, rows]


def _firsts(
    known: dict[int, tuple[Tensor, list[list[int]]]], layer: Attention, visible: Tensor
) -> list[list[int]]:
    """Return the first visible position, (document, query); refuse visible later positions."""
    mask = layer.mask
    if mask is None:
        return [[0] * visible.shape[1]] * len(visible)
    if id(mask) not in known:
        first = visible.to(torch.int8).argmax(dim=-1)
        # Read in one transfer, because each waits for the device.
        ahead, *flat = torch.cat([shows_ahead(mask).long()[None], first.flatten()]).tolist()
        if ahead:
            refuse_ahead(layer.name)
        query_count = first.shape[1]
        rows = [flat[index : index + query_count] for index in range(0, len(flat), query_count)]
        known[id(mask)] = mask, rows  # keeping the mask keeps its id unique
    return known[id(mask)][1]
