"""Untrained control: a model's architecture with its initial random weights.

What an untrained model shows too is a property of the architecture and of the measurement, not of
training. Imports torch and transformers.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from transformers import AutoModel, PreTrainedConfig

from empirical.errors import InputError
from empirical.sources.checkpoints import quiet
from empirical.sources.given import HeldModel, held


def untrained(
    config: PreTrainedConfig, *, layers: int, seed: int, dtype: torch.dtype, device: str
) -> HeldModel:
    """Return a decoder with initial weights and at most `layers` layers, each kind among them.

    Args:
        config: configuration of a model or of its decoder; not changed.
        layers: number of layers. Initial weights of all layers have one distribution, so a few
            layers stand for all.
        seed: seed of the weights.
        dtype, device: of the weights.

    Raises:
        InputError: the tap refuses the architecture, or transformers cannot make it without the
            model's own code.
    """
    shallow = deepcopy(config.get_text_config())
    shallow.__dict__.pop("quantization_config", None)
    kinds = list(getattr(shallow, "layer_types", None) or [])
    count = min(layers, int(shallow.num_hidden_layers))
    shallow.num_hidden_layers = count
    if kinds:
        first = [kinds.index(kind) for kind in dict.fromkeys(kinds)]
        chosen = sorted([*first, *(i for i in range(len(kinds)) if i not in first)][:count])
        shallow.layer_types = [kinds[index] for index in chosen]
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(seed)
        try:
            model = AutoModel.from_config(shallow, dtype=dtype)
        except ValueError as error:
            raise InputError(
                f"{type(shallow).__name__}: transformers cannot make this model with initial"
                f" weights ({str(error).splitlines()[0][:100]}). Use --control none."
            ) from error
    return held(model.to(device).eval().requires_grad_(False))
