"""The decoder of a model, found by what its modules are: what turns tokens into hidden states, its
layers, its embedding, and its longest input.

Imports torch and transformers only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from torch.nn import Embedding, Module, ModuleList
from transformers import PreTrainedConfig, PreTrainedModel

from empirical.errors import InputError

LONGEST: Final = re.compile(r"(?!.*(source|encoder|2d|grid))(max|n)_(\w+_)?(position|ctx|seq)")
"""Entries of a configuration that bound the tokens of an input; those of an encoder are others."""


def decoder_of(model: Any) -> PreTrainedModel:
    """Return the decoder of a model, with or without a head.

    It is what `get_decoder` returns. Where that returns the model with its head, or a layer of that
    head, it is the first module inside that is a model of transformers without a head, has layers,
    and reads tokens.

    Raises:
        InputError: there is none, or it attends to an encoder.
    """
    if entry(getattr(model, "config", None), "is_encoder_decoder"):
        raise InputError(
            f"{type(model).__name__}: attends to an encoder beside the text, expected a"
            " decoder-only model. Load its decoder alone (AutoModelForCausalLM), or another model."
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
        f"model={seen}: has no decoder of transformers, expected a PreTrainedModel, or a module"
        " whose get_decoder() returns one. Give the model inside it."
    )


def layers_of(decoder: Module, called: Collection[Module] = ()) -> list[Module]:
    """Return a decoder's layers in order; none where it has no list of modules.

    Of its lists that lie in no other list, that is the one with most of the attention modules that
    `called`; else the one that is nested least, and of those with most in it.
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
    """Return how many tokens a decoder knows, by the embedding that lies in its input embeddings,
    around which adapters may stand; None where that does not tell.
    """
    try:
        embeddings = decoder.get_input_embeddings()
    except Exception:  # families that embed in a way of their own
        return None
    tables = (module for module in embeddings.modules() if isinstance(module, Embedding))
    return next((table.num_embeddings for table in tables), None)


def longest_input(config: PreTrainedConfig) -> int | None:
    """Return how many tokens a decoder of this configuration reads, under whichever name;
    None where it is not.
    """
    names = ["max_position_embeddings", *sorted(filter(LONGEST.match, config.to_dict()))]
    told = (entry(config, name) for name in names)
    return next((one for one in told if isinstance(one, int) and one > 0), None)


def entry(config: object, name: str) -> Any:
    """Return an entry of a configuration; None where it has none, or one a layer."""
    try:
        return getattr(config, name, None)
    except RuntimeError:  # as transformers tells that layers differ in it
        return None
