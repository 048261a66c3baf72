"""Digests of a model: of its weights, and of what else its numbers follow from.

Imports torch and transformers.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

import torch
from transformers import PreTrainedModel

from empirical.errors import InputError

_UNUSED: Final = frozenset(
    {
        "architectures",
        "chunk_size_feed_forward",
        "dtype",
        "id2label",
        "initializer_range",
        "label2id",
        "output_attentions",
        "output_hidden_states",
        "problem_type",
        "return_dict",
        "transformers_version",
        "use_cache",
    }
)
"""Entries of a configuration that move no number of a forward, or stand elsewhere in a run."""


def weights_sha256(model: torch.nn.Module) -> str:
    """Return the sha256 of a model's weights: of name, type, shape and bytes of each entry of its
    state, in the order of names. On any device the same.

    Raises:
        InputError: a weight is not in memory, as of layers that were moved to the disk.
    """
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        if not isinstance(value, torch.Tensor):
            continue
        if value.is_meta:
            raise InputError(
                f"model: its weight {name} is not in memory, so it cannot be hashed. Give"
                " hash_weights=False."
            )
        told = f"{name} {value.dtype} {tuple(value.shape)}\n"
        digest.update(told.encode())
        flat = value.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def config_sha256(decoder: PreTrainedModel) -> str:
    """Return the sha256 of what a decoder's numbers follow from beside its weights: the entries of
    its configuration, and of each module with adapters, as peft's, which are active and how much
    they count.

    Names, versions and the attention implementation are left out.
    """
    told = {
        name: value
        for name, value in decoder.config.to_dict().items()
        if not name.startswith("_") and name not in _UNUSED
    }
    adapters = {
        name: [getattr(module, part, None) for part in ("disable_adapters", "scaling")]
        + [active, getattr(module, "merged_adapters", None)]
        for name, module in decoder.named_modules()
        if isinstance(active := getattr(module, "active_adapters", None), list)
    }
    text = json.dumps([told, adapters], sort_keys=True, default=_told)
    return hashlib.sha256(text.encode()).hexdigest()


def _told(value: Any) -> str:
    """Name what JSON does not know: a type by its name, any other thing by its kind."""
    return str(value) if isinstance(value, torch.dtype) else type(value).__name__
