"""transformers' attention interface: a decoder runs as it is, and each layer's attention is what a
function of its queries, keys and values returns.

AttentionInterface calls `_attend` in each attention layer; the mask function stands in
AttentionMaskInterface under the same name, for a name that is not there gives a model no mask at
all, without a word. Imports torch and transformers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock, RLock
from typing import Any, Final
from weakref import WeakKeyDictionary

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
from empirical.tap.attention import Scoring, layer_output
from empirical.tap.placed import device_of
from empirical.tap.refusals import attention_layers, refuse_layer, refuse_mask

NAME = "geostat_tap"
"""The name under which both the attention and the mask function are registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """The attention of one layer, in one forward."""

    index: int
    """Number of the layer, from 0."""
    module: torch.nn.Module
    query: Tensor
    """(document, head, position, dimension)."""
    key: Tensor
    """(document, kv_head, position, dimension); head h reads kv_head h // (heads // kv_heads)."""
    value: Tensor
    """(document, kv_head, position, dimension), which may differ from the key's."""
    mask: Tensor | None
    """(document, 1, query, position) bool, True where a query sees a position; None: causal."""
    scoring: Scoring

    def output(self) -> Tensor:
        """Return the layer's own output, (document, position, head, dimension)."""
        return layer_output(self.module, self.query, self.key, self.value, self.mask, self.scoring)


Attend = Callable[[Attention], Tensor]
"""From a layer's attention to its output, (document, position, head, dimension)."""


@dataclass(slots=True)
class Session:
    """One forward through the interface."""

    attend: Attend
    padded: bool
    """Whether some document is shorter than the window."""
    layers: int = 0
    """How many attention modules called so far."""
    masks: int = 0
    """How often the model asked for a mask."""


_session: ContextVar[Session] = ContextVar("geostat_tap_session")


def run_decoder(
    decoder: PreTrainedModel,
    input_ids: Tensor,
    mask: Tensor | None,
    attend: Attend,
    first: int = 0,
    position: int = 0,
) -> Tensor:
    """Run a decoder once, with `attend` as the attention of every layer, in order.

    The attention implementation is put back afterwards, also when `attend` raises. mask: of
    padding, as `checked_mask` returns it. first: the layer at which the forward begins
    (`from_layer`). position: that of the first of the tokens (`from_position`).

    Returns:
        The last hidden states, (document, position, hidden), in the model's type; those of padded
        positions mean nothing.

    Raises:
        InputError: as `tap.tap` tells.
    """
    layers = attention_layers(decoder.config)
    session = Session(attend=attend, padded=mask is not None, layers=first)
    if decoder._can_set_attn_implementation():
        AttentionInterface.register(NAME, _attend)
        AttentionMaskInterface.register(NAME, _mask)
        with implementation(decoder, NAME):
            token = _session.set(session)
            try:
                hidden = forward(decoder, input_ids, mask, position)
            finally:
                _session.reset(token)
    if session.layers != layers:
        raise InputError(
            f"{decoder.config.model_type}: {session.layers} of {layers} layers call the attention"
            " interface of transformers, so the weights of the others are unknown. Use a model"
            " whose family supports AttentionInterface."
        )
    return hidden


@torch.no_grad()
def forward(
    decoder: PreTrainedModel, input_ids: Tensor, mask: Tensor | None, position: int = 0
) -> Tensor:
    """Return the decoder's last hidden states of tokens that stand from `position` on, without a
    cache.
    """
    ids, more = input_ids.to(device_of(decoder)), {}
    if position:
        count = ids.shape[1]
        more["position_ids"] = torch.arange(position, position + count, device=ids.device)[None]
    output = decoder(input_ids=ids, attention_mask=mask, use_cache=False, return_dict=True, **more)
    return output.last_hidden_state


@contextmanager
def implementation(decoder: PreTrainedModel, name: str) -> Iterator[None]:
    """Run the decoder's attention under `name`, and put back what stood there. Another thread with
    the same decoder waits until then.

    Each module asks its own configuration by name in every forward. `set_attn_implementation` would
    also ask whether the family may take PyTorch's kernel, and refuses those that need what the tap
    itself does beside that kernel.
    """
    configs = [
        module.config
        for module in decoder.modules()
        if isinstance(getattr(module, "config", None), PreTrainedConfig)
    ]
    with _one_at_a_time(decoder):
        before = [(config, config._attn_implementation) for config in configs]
        try:
            for config in configs:
                config._attn_implementation = name
            yield
        finally:
            for config, previous in before:
                config._attn_implementation = previous


def _one_at_a_time(decoder: PreTrainedModel) -> AbstractContextManager[Any]:
    """Return the decoder's lock."""
    with _LOCKS_ALONE:
        return _LOCKS.setdefault(decoder, RLock())


_LOCKS: Final[WeakKeyDictionary[PreTrainedModel, Any]] = WeakKeyDictionary()
_LOCKS_ALONE: Final = Lock()


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
    """Return one layer's output as the interface wants it; keywords are those of
    `refusals.KEYWORDS`, each of which may be missing.
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
    output = session.attend(
        Attention(
            index=index,
            module=module,
            query=query,
            key=key,
            value=value,
            mask=attention_mask,
            scoring=Scoring(factor, keywords.get("softcap"), sinks),
        )
    )
    return output, None
