"""Refusals of the tap before a forward pass: decoders, windows and masks whose attention weights
cannot be recomputed. Each is an InputError. `interface` refuses layers. Imports torch and
transformers only.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from empirical.errors import InputError
from empirical.tap.decoder import device_of, entry, known_tokens, longest_input

UNATTENDING: Final = frozenset({"linear_attention", "conv", "moe", "mlp"})
"""Entries of `layer_types` whose layers have no softmax attention."""

ROWS: Final = 1024
"""Queries of a mask that are checked at once."""


def refuse_unattending(config: PreTrainedConfig) -> None:
    """Refuse a configuration with layers without attention; the tap detects unnamed ones."""
    others = sorted(UNATTENDING.intersection(entry(config, "layer_types") or ()))
    if others:
        raise InputError(
            f"{config.model_type}: has layers of type {', '.join(others)}, expected attention in"
            " every layer. Use another model."
        )


def refuse_too_long(config: PreTrainedConfig, length: int) -> None:
    """Refuse by an InputError windows longer than a decoder of this configuration can read."""
    longest = config.to_dict().get("max_position_embeddings")
    if isinstance(longest, int) and longest < 1:
        raise InputError(
            f"{config.model_type}: its configuration has max_position_embeddings {longest},"
            " expected 1 or more. Correct its config.json."
        )
    longest = longest_input(config)
    if longest is not None and length > longest:
        raise InputError(
            f"{config.model_type}: reads at most {longest} tokens, but a window has {length}. Use"
            f" --length {longest}."
        )


def checked_mask(
    decoder: PreTrainedModel, input_ids: Tensor, attention_mask: Tensor | None
) -> Tensor | None:
    """Check inputs before a forward pass; return the padding mask as bool, None without padding."""
    config = decoder.config
    if decoder.training:
        raise InputError(
            f"{config.model_type}: is in training mode, where dropout changes the weights. Call"
            " model.eval() first."
        )
    if input_ids.ndim != 2 or 0 in input_ids.shape:
        raise InputError(
            f"input_ids has shape {tuple(input_ids.shape)}, expected (document, position), neither"
            " empty."
        )
    refuse_too_long(config, input_ids.shape[1])
    vocabulary, largest = known_tokens(decoder), int(input_ids.max())
    if vocabulary is not None and largest >= vocabulary:
        raise InputError(
            f"{config.model_type}: has {vocabulary} tokens, but token {largest} was given. Use the"
            " model's own tokenizer."
        )
    if attention_mask is None:
        return None
    if attention_mask.shape != input_ids.shape:
        raise InputError(
            f"attention_mask has shape {tuple(attention_mask.shape)}, expected that of input_ids,"
            f" {tuple(input_ids.shape)}."
        )
    mask = attention_mask.to(device=device_of(decoder), dtype=torch.bool)
    has_tokens = mask.any(dim=1)
    if not bool(has_tokens.all()):
        raise InputError(
            f"attention_mask hides every token of document {int((~has_tokens).nonzero()[0])}. Leave"
            " that document out."
        )
    return None if bool(mask.all()) else mask


def shows_ahead(mask: Tensor) -> Tensor:
    """Return whether a mask shows any query a later position, () bool on its device."""
    starts = range(0, mask.shape[-1], ROWS)  # blocks of rows, to avoid a copy of the whole mask
    return torch.stack(
        [mask[..., start : start + ROWS, start:].triu(1).any() for start in starts]
    ).any()


def refuse_ahead(layer: str) -> None:
    """Refuse a layer, named in the message, in which a query sees a later position."""
    raise InputError(
        f"{layer}: attends to later positions, expected a causal decoder. Use another model."
    )
