"""Decoder of a model, found by the types of its modules: its layers, embedding, longest input and
device.

Imports torch and transformers only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Final

import torch
from torch.nn import Embedding, Module, ModuleList
from transformers import PreTrainedConfig, PreTrainedModel

from empirical.errors import InputError

LONGEST: Final = re.compile(r"(?!.*(source|encoder|2d|grid))(max|n)_(\w+_)?(position|ctx|seq)")
"""Configuration entries that bound the number of input tokens, except those of an encoder."""


def decoder_of(model: Any) -> PreTrainedModel:
    """Return the decoder of a model, with or without a head; an InputError if there is none, or it
    attends to an encoder.

    This is the result of `get_decoder`. If that is the model with its head, or a layer of the head,
    the decoder is the first module inside that is a transformers model without a head, has layers,
    and reads tokens.
    """
    if entry(getattr(model, "config", None), "is_encoder_decoder"):
        raise InputError(
            f"{type(model).__name__}: attends to an encoder, expected a decoder-only model. Load"
            " its decoder alone (AutoModelForCausalLM), or another model."
        )
    find = getattr(model, "get_decoder", None)
    found = find() if callable(find) else None
    if isinstance(found, PreTrainedModel) and found.get_output_embeddings() is None:
        return found
    for root in (found, model):
        for module in root.modules() if found is not None and isinstance(root, Module) else ():
            if (
                isinstance(module, PreTrainedModel)
                and module.get_output_embeddings() is None
                and module.main_input_name == "input_ids"
                and layers_of(module)
            ):
                return decoder_of(module)
    seen = type(model).__name__ if found is None else f"a {type(found).__name__}"
    raise InputError(
        f"model={seen}: has no transformers decoder, expected a PreTrainedModel, or a module whose"
        " get_decoder() returns one. Pass the model inside it."
    )


def layers_of(decoder: Module, called: Collection[Module] = ()) -> list[Module]:
    """Return a decoder's layers in order; an empty list if it has no ModuleList.

    Of the outermost ModuleLists, it takes the one with most of the attention modules in `called`;
    without these, the least nested one with most modules.
    """

    def rank(found: tuple[int, ModuleList]) -> tuple[int, int, int]:
        depth, layers = found
        inside = list(layers.modules())
        return sum(module in called for module in inside), -depth, len(inside)

    return list(max(_lists(decoder), key=rank, default=(0, ()))[1])


def _lists(module: Module, depth: int = 0) -> Iterator[tuple[int, ModuleList]]:
    for child in module.children():
        if isinstance(child, ModuleList):
            yield depth, child
        else:
            yield from _lists(child, depth + 1)


def known_tokens(decoder: PreTrainedModel) -> int | None:
    """Return the size of a decoder's embedding, possibly inside adapters; None without a table."""
    try:
        embeddings = decoder.get_input_embeddings()
    except Exception:  # families without a standard embedding
        return None
    tables = (module for module in embeddings.modules() if isinstance(module, Embedding))
    return next((table.num_embeddings for table in tables), None)


def longest_input(config: PreTrainedConfig) -> int | None:
    """Return a decoder's longest input in tokens, under any name; None if unbounded."""
    names = ["max_position_embeddings", *sorted(filter(LONGEST.match, config.to_dict()))]
    lengths = (entry(config, name) for name in names)
    return next((length for length in lengths if isinstance(length, int) and length > 0), None)


def entry(config: object, name: str) -> Any:
    """Return an entry of a configuration; None if it is missing or differs between layers."""
    try:
        return getattr(config, name, None)
    except RuntimeError:  # transformers raises it if layers differ in the entry
        return None


def device_of(decoder: PreTrainedModel) -> torch.device:
    """Return the device of a decoder's input tokens."""
    if decoder.device.type != "meta":
        return decoder.device
    return offload_target(decoder) or torch.device("cpu")


def offload_target(model: torch.nn.Module) -> torch.device | None:
    """Return the device to which accelerate moves offloaded weights; None without offloading."""
    for module in model.modules():
        device = getattr(getattr(module, "_hf_hook", None), "execution_device", None)
        if device is not None:
            return torch.device(device)
    return None
