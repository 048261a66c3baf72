"""The attention tap: runs a model's decoder as it is and hands over, layer by layer, the analysed
queries' weights and the values.

Source: arXiv 2602.01893, §2 (weights α and values v of one query, the last of its window).
transformers' AttentionInterface calls `_attend` in each attention layer, which takes the output
from the fused kernel and computes a row of weights for each analysed query beside it; the mask
function stands in AttentionMaskInterface under the same name, for a name that is not there gives a
model no mask at all, without a word. Imports torch and transformers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.masking_utils import sdpa_mask

from empirical.errors import InputError
from empirical.tap.attention import Scoring, analysed_row, layer_output
from empirical.tap.refusals import attention_layers, checked_mask, refuse_layer, refuse_mask

NAME = "geostat_tap"
"""The name under which both the attention and the mask function are registered."""


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


@dataclass(slots=True)
class Session:
    """One forward under the tap."""

    on_layer: Callable[[TappedLayer], None]
    rows: Tensor
    """Positions of each document's analysed queries, (document, query)."""
    padded: bool
    """Whether some document is shorter than the window."""
    layers: int = 0
    """How many attention modules called so far."""
    masks: int = 0
    """How often the model asked for a mask."""
    firsts: dict[int, tuple[Tensor, list[list[int]]]] = field(default_factory=dict)
    """Masks by identity, each with the first position that the analysed queries see under it. A
    model makes one for each kind of layer, so each is read once a forward.
    """


_session: ContextVar[Session] = ContextVar("geostat_tap_session")


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
    decoder = model.get_decoder()
    layers = attention_layers(decoder.config)
    mask = checked_mask(decoder, input_ids, attention_mask)
    rows = analysed_positions(input_ids, mask, queries).to(decoder.device)
    session = Session(on_layer=on_layer, rows=rows, padded=mask is not None)
    if decoder._can_set_attn_implementation():
        AttentionInterface.register(NAME, _attend)
        AttentionMaskInterface.register(NAME, _mask)
        with implementation(decoder, NAME):
            token = _session.set(session)
            try:
                hidden = forward(decoder, input_ids, mask)
            finally:
                _session.reset(token)
    if session.layers != layers:
        raise InputError(
            f"{decoder.config.model_type}: {session.layers} of {layers} layers call the attention"
            " interface of transformers, so the weights of the others are unknown. Use a model"
            " whose family supports AttentionInterface."
        )
    return hidden


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


@torch.no_grad()
def forward(decoder: PreTrainedModel, input_ids: Tensor, mask: Tensor | None) -> Tensor:
    """Return the decoder's last hidden states, without a cache."""
    output = decoder(input_ids=input_ids.to(decoder.device), attention_mask=mask, use_cache=False)
    return output.last_hidden_state


@contextmanager
def implementation(decoder: PreTrainedModel, name: str) -> Iterator[None]:
    """Run the decoder's attention under `name`, and put back what stood there.

    Each module asks its own configuration by name in every forward. `set_attn_implementation` would
    also ask whether the family may take PyTorch's kernel, and refuses those that need what the tap
    itself does beside that kernel.
    """
    configs = [
        module.config
        for module in decoder.modules()
        if isinstance(getattr(module, "config", None), PreTrainedConfig)
    ]
    before = [(config, config._attn_implementation) for config in configs]
    try:
        for config in configs:
            config._attn_implementation = name
        yield
    finally:
        for config, previous in before:
            config._attn_implementation = previous


def _mask(*args: object, **keywords: object) -> Tensor | None:
    """Make the mask as the fused kernel takes it: bool, or None where it is plainly causal; and
    count the request.
    """
    _session.get().masks += 1
    return sdpa_mask(*args, **keywords)


def _attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **keywords: Any,
) -> tuple[Tensor, None]:
    """Compute one layer's output, hand the layer over, and return the output as the interface
    wants it; keywords are those of `refusals.KEYWORDS`, each of which may be missing.
    """
    session = _session.get()
    index = session.layers
    seen = f"layer {index} of {type(module).__name__}"
    refuse_layer(seen, module, index, keywords)
    asked, padded = session.masks > 0, session.padded
    window, sinks = keywords.get("sliding_window"), keywords.get("s_aux")
    refuse_mask(seen, query, key, attention_mask, asked=asked, padded=padded, window=window)
    if sinks is not None and sinks.numel() != query.shape[1]:
        raise InputError(
            f"{seen}: has {sinks.numel()} learned sinks for {query.shape[1]} heads, expected one a"
            " head. Use another model."
        )
    session.layers += 1

    scaling = keywords.get("scaling")
    factor = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    scoring = Scoring(factor, keywords.get("softcap"), sinks)
    output = layer_output(module, query, key, value, attention_mask, scoring)
    analysed = session.rows.to(query.device)
    visible = _visible(analysed, key.shape[2], attention_mask)
    every = torch.arange(query.shape[0], device=query.device)
    rows = [
        analysed_row(query[every, :, row], key, seen, scoring)
        for row, seen in zip(analysed.T, visible.unbind(1), strict=True)
    ]
    session.on_layer(
        TappedLayer(
            index=index,
            module=module,
            alpha=torch.stack(rows, dim=1),
            values=value.float(),
            visible=visible,
            first=_firsts(session, attention_mask, visible),
        )
    )
    return output, None


def _visible(rows: Tensor, positions: int, mask: Tensor | None) -> Tensor:
    """Return what the analysed queries see, (document, query, position) bool."""
    if mask is None:
        return torch.arange(positions, device=rows.device) <= rows[..., None]
    every = torch.arange(len(rows), device=rows.device)[:, None]
    return mask.expand(len(rows), -1, -1, -1)[every, 0, rows]


def _firsts(session: Session, mask: Tensor | None, visible: Tensor) -> list[list[int]]:
    """Return the first position that each analysed query sees, (document, query)."""
    if mask is None:
        return [[0] * visible.shape[1]] * len(visible)
    if id(mask) not in session.firsts:
        first = visible.to(torch.int8).argmax(dim=-1).tolist()
        session.firsts[id(mask)] = mask, first  # the mask is kept, so that its identity stays its
    return session.firsts[id(mask)][1]
