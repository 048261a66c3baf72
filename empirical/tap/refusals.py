"""What the tap refuses: decoders, windows, layers and masks where weights could not be told; and
what interventions on it do: cuts, and targets of a loss, that there are not.

Each refusal is an InputError. Imports torch and transformers only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from empirical.errors import InputError
from empirical.tap.decoder import entry, known_tokens, longest_input
from empirical.tap.placed import device_of

KEYWORDS = frozenset({"scaling", "dropout", "softcap", "s_aux", "sliding_window", "is_causal"})
"""Keywords of the attention function that are understood."""

SILENT_KEYWORDS = frozenset(
    {
        "position_ids",
        "use_cache",
        "cache_position",
        "output_attentions",
        "output_hidden_states",
        "return_dict",
    }
)
"""Keywords that reach the attention function and change nothing in a forward without a cache."""

UNATTENDING: Final = frozenset({"linear_attention", "conv", "moe", "mlp"})
"""Entries of a model's `layer_types` whose layers surely weigh no positions by a softmax."""

ROWS: Final = 1024
"""Queries of a mask that are looked at at once."""

_SEES_AHEAD: Final = "{}: attends to later positions, expected a causal decoder. Use another model."


def refuse_unattending(config: PreTrainedConfig) -> None:
    """Refuse by an InputError a model whose configuration names layers that do not attend, before
    its weights are read. What it does not name, the tap sees.
    """
    others = sorted(UNATTENDING.intersection(entry(config, "layer_types") or ()))
    if others:
        raise InputError(
            f"{config.model_type}: has layers of type {', '.join(others)}, expected attention in"
            " every layer. Use another model."
        )


def refuse_too_long(config: PreTrainedConfig, length: int) -> None:
    """Refuse by an InputError windows of `length` tokens where a decoder of this configuration
    reads fewer.
    """
    told = config.to_dict().get("max_position_embeddings")
    if isinstance(told, int) and told < 1:
        raise InputError(
            f"{config.model_type}: its configuration says that it reads {told} tokens"
            " (max_position_embeddings), expected 1 or more. Mend its config.json."
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
    """Return the padding mask as bool, or None where nothing is padded, after all that can be
    refused before a forward.
    """
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
    known, largest = known_tokens(decoder), int(input_ids.max())
    if known is not None and largest >= known:
        raise InputError(
            f"{config.model_type}: knows {known} tokens, but token {largest} was given. Use the"
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
    seen = mask.any(dim=1)
    if not bool(seen.all()):
        raise InputError(
            f"attention_mask hides every token of document {int((~seen).nonzero()[0])}. Leave that"
            " document out."
        )
    return None if bool(mask.all()) else mask


def refuse_layer(
    seen: str,
    value: Tensor,
    decoder: PreTrainedModel,
    keywords: Mapping[str, object],
    *,
    again: bool,
) -> None:
    """Refuse a layer, `seen` in messages, that passes keywords which are not understood, drops
    weights, computes in a coarser type than the decoder's, or attends `again` in one forward.
    """
    unknown = sorted(
        name
        for name, given in keywords.items()
        if given is not None and name not in KEYWORDS | SILENT_KEYWORDS
    )
    if unknown:
        raise InputError(
            f"{seen}: passes {', '.join(unknown)}, which geostat does not understand. Use another"
            " model."
        )
    if again:
        raise InputError(
            f"{seen}: attends more than once in a forward, expected one attention a layer. Use"
            " another model."
        )
    if keywords.get("dropout"):
        raise InputError(
            f"{seen}: drops weights at random (dropout {keywords['dropout']}) outside of training."
            " Set its dropout to 0."
        )
    if torch.finfo(value.dtype).eps > torch.finfo(decoder.dtype).eps:
        raise InputError(
            f"{seen}: computes in {value.dtype}, but the model's weights are {decoder.dtype}, as"
            " under an autocast of its own. Convert the model instead, as with model.bfloat16()."
        )


def refuse_mask(
    seen: str,
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    *,
    asked: bool,
    tokens: tuple[int, int],
    padded: bool,
    window: int | None,
    causal: bool,
) -> None:
    """Refuse a layer, `seen` in messages, whose mask, as it got it, is not known to be what the
    model means.

    asked: whether the model asked transformers' mask interface for it; tokens: documents and
    positions of the forward; padded: whether documents are; window: tokens of a sliding window;
    causal: whether the layer is without a mask.
    """
    positions = query.shape[2]
    if not asked:
        raise InputError(
            f"{seen}: no mask was asked of transformers' mask interface, so what a query may see is"
            " unknown. Use another model."
        )
    if key.shape[2] != positions:
        raise InputError(
            f"{seen}: reads {key.shape[2]} keys for {positions} queries, expected self-attention."
            " Use another model."
        )
    if (query.shape[0], positions) != tokens:
        raise InputError(
            f"{seen}: has queries of {query.shape[0]} documents at {positions} positions, expected"
            f" those of the text, {tokens[0]} at {tokens[1]}. Use another model."
        )
    if mask is None:
        if not causal:
            raise InputError(_SEES_AHEAD.format(seen))
        if padded or (window is not None and window < positions):
            raise InputError(
                f"{seen}: got no mask, but there is padding or a sliding window. Use another model."
            )
    elif mask.dtype != torch.bool or mask.shape[1:] != (1, positions, positions):
        raise InputError(
            f"{seen}: its mask is {mask.dtype} of shape {tuple(mask.shape)}, expected torch.bool of"
            f" shape (document, 1, {positions}, {positions}). Use another model."
        )


def shows_ahead(mask: Tensor) -> Tensor:
    """Return whether a mask shows a query a later position, () bool on its device."""
    starts = range(0, mask.shape[-1], ROWS)  # a mask of all queries need not stand there twice
    return torch.stack([mask[..., at : at + ROWS, at:].triu(1).any() for at in starts]).any()


def refuse_ahead(seen: str, ahead: bool) -> None:
    """Refuse a layer, `seen` in messages, whose mask shows a query a later position."""
    if ahead:
        raise InputError(_SEES_AHEAD.format(seen))


def refuse_cut(
    layer: int, count: int, mode: str, modes: Sequence[str], heads: Sequence[int] | None
) -> None:
    """Refuse a cut of a layer of `count` heads in an unknown mode or of heads that it has not."""
    if mode not in modes:
        raise InputError(f"mode {mode}: expected {' or '.join(modes)}. Use one of those.")
    if heads is not None and not all(0 <= head < count for head in heads):
        raise InputError(
            f"heads {sorted(heads)}: layer {layer} has heads 0 to {count - 1}. Name those."
        )


def checked_sizes(given: object, sizes: Tensor | None, heads: int) -> Tensor:
    """Return how many tokens are kept, one number or (head,), after what can be refused: none told,
    not one of each of the heads, or under 1.
    """
    if sizes is None:
        raise InputError("n None: expected a number of tokens for a ranking rule. Give one.")
    if sizes.is_floating_point() or sizes.shape not in {(), (heads,)} or int(sizes.min()) < 1:
        raise InputError(
            f"n {given}: expected whole numbers of at least 1, one or one for each of {heads}"
            " heads. Give others."
        )
    return sizes


def refuse_targets(count: int, positions: int) -> None:
    """Refuse more tokens to predict than a window has, or none."""
    if not 1 <= count < positions:
        raise InputError(
            f"targets {count}: a window of {positions} tokens has 1 to {positions - 1} to predict."
            " Ask for fewer, or use longer windows."
        )


def refuse_headless(model: PreTrainedModel) -> None:
    """Refuse by an InputError a model that predicts no tokens."""
    head = getattr(model, "get_output_embeddings", lambda: None)()
    if head is None:
        raise InputError(
            f"{type(model).__name__}: has no head that predicts tokens, expected a causal language"
            " model. Load it as one (AutoModelForCausalLM)."
        )
