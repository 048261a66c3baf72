"""Model identity: digests of weights, configuration and code, and a fingerprint of the forward
pass.

A hook, another scaling, a replaced forward or edited code changes a run's numbers but not the
weights. The fingerprint therefore comes from a short fixed input through the tap: one number for
each layer's attention weights α and value norms, for each token's last hidden state, and for each
buffer. Equal models give equal numbers on one machine. Elsewhere the last bits may differ, so
numbers are compared within the rounding of the model's dtype. Changes that act only on later or
other tokens of a model in memory show in the same numbers of the run's first document. Imports
torch and transformers.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from transformers import PreTrainedModel

from empirical.errors import InputError
from empirical.tap.decoder import decoder_of, entry, known_tokens, longest_input
from empirical.tap.tap import TappedLayer, tap

_UNUSED: Final = """
architectures chunk_size_feed_forward dtype id2label initializer_range label2id output_attentions
output_hidden_states problem_type return_dict transformers_version use_cache
"""
"""Configuration entries that do not affect a forward pass, or that a run records elsewhere."""


def weights_sha256(model: torch.nn.Module) -> str:
    """Return the sha256 of a model's weights, on any device: name, dtype, shape and bytes of each
    entry of its state dict, sorted by name; packed and quantised entries by their parts. An
    InputError if a weight is not in memory, or its bytes cannot be read.
    """
    digest = hashlib.sha256()
    for key, value in sorted(model.state_dict().items(), key=lambda item: item[0]):
        try:
            for name, part in plain_parts(key, value):
                if part.is_meta:
                    raise InputError(
                        f"model: its weight {name} is not in memory, so it cannot be hashed. Pass"
                        " hash_weights=False."
                    )
                digest.update(f"{name} {part.dtype} {tuple(part.shape)}\n".encode())
                digest.update(_bytes_of(part))
        except (RuntimeError, TypeError, AttributeError) as error:  # depends on the weight's type
            raise InputError(
                f"model: its weight {key} is a {type(value).__name__}, whose bytes cannot be read"
                f" ({type(error).__name__}). Pass hash_weights=False."
            ) from error
    return digest.hexdigest()


def plain_parts(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the plain tensors, each with a name, that make up an entry of a state dict: a tuple of
    packed parameters, a quantised tensor, or a tensor subclass. Entries without tensors yield none.
    """
    if isinstance(value, tuple | list):
        for place, part in enumerate(value):
            yield from plain_parts(f"{name}.{place}", part)
    elif not isinstance(value, torch.Tensor):
        return
    elif hasattr(value, "__tensor_flatten__"):  # a subclass that wraps other tensors
        for part in value.__tensor_flatten__()[0]:
            yield from plain_parts(f"{name}.{part}", getattr(value, part))
    elif value.is_quantized:
        whole = value.detach()
        yield f"{name} {whole.dtype}", whole.int_repr()
        if whole.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            yield f"{name}.scale", torch.tensor([whole.q_scale(), whole.q_zero_point()])
        else:
            yield f"{name}.scale", whole.q_per_channel_scales()
            yield f"{name}.zero", whole.q_per_channel_zero_points()
    else:
        yield name, value.detach()


def _bytes_of(part: Tensor) -> memoryview:
    return part.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def code_sha256(model: torch.nn.Module) -> str | None:
    """Return the sha256 of the Python files that came with a model, as lines `sha256 name` sorted
    by name; None if all modules come from installed packages.
    """
    modules = {type(module).__module__ for module in model.modules()}
    remote = [name for name in modules if name.partition(".")[0] == "transformers_modules"]
    files = [getattr(sys.modules.get(name), "__file__", None) for name in remote]
    folders = {Path(file).parent for file in files if file}
    lines = sorted(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()} {file.name}\n"
        for folder in folders
        for file in folder.glob("*.py")
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest() if lines else None


def config_sha256(decoder: PreTrainedModel) -> str:
    """Return the sha256 of a decoder's configuration, without names, versions and the attention
    implementation, and of the active adapters (peft) of each module and their scaling.
    """
    entries = {
        name: value
        for name, value in decoder.config.to_dict().items()
        if not name.startswith("_") and name not in _UNUSED.split()
    }
    adapters = {
        name: [getattr(module, part, None) for part in ("disable_adapters", "scaling")]
        + [active, getattr(module, "merged_adapters", None)]
        for name, module in decoder.named_modules()
        if isinstance(active := getattr(module, "active_adapters", None), list)
    }

    def encoded(value: Any) -> str:  # values that JSON cannot encode
        return str(value) if isinstance(value, torch.dtype) else type(value).__name__

    text = json.dumps([entries, adapters], sort_keys=True, default=encoded)
    return hashlib.sha256(text.encode()).hexdigest()


TOKENS: Final = 64
"""Length of the fixed input, in tokens."""
GOLDEN: Final = (math.sqrt(5) - 1) / 2
"""Its multiples, modulo 1, weight the entries of a tensor, so any change moves their sum."""
OF_TEXT: Final = "text "
"""Prefix of the names of numbers from a text."""
DIGITS: Final = 6
"""Decimals kept; float32 does not resolve more."""
ROUNDING: Final = {"float32": 1e-4, "float16": 0.01, "bfloat16": 0.05}
"""Tolerance between machines for equal models, by dtype. Rounding the weights of the built-in model
to bfloat16 moves the numbers by 0.02.
"""
OF_NORMS: Final = {"float32": 1e-4, "float16": 0.002, "bfloat16": 0.01}
"""Tolerance for value norms, which are means over tokens. Other kernels move those of the built-in
model by 0.0006 in float16 and 0.003 in bfloat16.
"""
OF_BUFFERS: Final = 1e-3
"""Relative tolerance for buffers, which no layer rounds."""


def fingerprint(
    model: PreTrainedModel, on_layer: Callable[[TappedLayer], None] = lambda layer: None
) -> dict[str, list[float | None]]:
    """Return the fingerprint of a model in evaluation mode; an InputError if the tap refuses it.

    Its entries are "layers" (from α of each layer), "values" (value norms of each layer), "tokens"
    (each token's last hidden state) and "buffers" (distinct buffers). None stands for a number that
    is not finite. Each layer is also passed to `on_layer`.
    """
    decoder = decoder_of(model)
    count = min(TOKENS, longest_input(decoder.config) or TOKENS)
    embedded = known_tokens(decoder) or 2
    vocabulary = min(embedded, entry(decoder.config, "vocab_size") or embedded)
    # Token ids spread over the vocabulary, as many as the model can read.
    ids = torch.arange(count, device="cpu") * max(vocabulary // TOKENS, 1) % vocabulary
    numbers, hidden = _numbers(model, ids[None], on_layer)
    # Read after the forward: some rotary embeddings keep the frequencies of the longest input
    # so far. Duplicates are dropped: a buffer may have one name or two.
    buffers = dict.fromkeys(map(_of_buffer, decoder.buffers()))
    return {**numbers, "tokens": [*map(_of_activations, hidden)], "buffers": [*buffers]}


def fingerprint_of_text(model: PreTrainedModel, ids: Tensor) -> dict[str, list[float | None]]:
    """Return the numbers of `fingerprint` for a text, (1, position), with prefixed names. Each
    "tokens" number covers `TOKENS` tokens.
    """
    numbers, hidden = _numbers(model, ids)
    numbers["tokens"] = [*map(_of_activations, hidden.split(TOKENS))]
    return {OF_TEXT + name: column for name, column in numbers.items()}


def _numbers(
    model: PreTrainedModel,
    ids: Tensor,
    on_layer: Callable[[TappedLayer], None] = lambda layer: None,
) -> tuple[dict[str, list[float | None]], Tensor]:
    """Return the numbers of each layer for some tokens, and the last hidden states."""
    layers, values = [], []

    def keep(layer: TappedLayer) -> None:
        layers.append(_of_activations(layer.alpha))
        values.append(_of_norms(layer.values))
        on_layer(layer)

    hidden = tap(model, ids, keep)[0]
    return {"layers": layers, "values": values}, hidden


def other_output(old: Mapping[str, Any], new: Mapping[str, Any], dtype: str) -> str | None:
    """Return the first place where two fingerprints differ beyond rounding; None if they agree."""
    rounding, of_norms = (limits.get(dtype, limits["bfloat16"]) for limits in (ROUNDING, OF_NORMS))
    places = {
        "layers": ("attention of layer {}", rounding),
        "values": ("value norms of layer {}", of_norms),
        "tokens": ("the last hidden states", rounding),
    }
    of_text = {
        OF_TEXT + name: (f"{words} of the first document", limit)
        for name, (words, limit) in places.items()
    }
    places |= {"buffers": ("buffer {}", OF_BUFFERS)} | of_text
    for name, (words, limit) in places.items():
        if name not in old or name not in new:  # a run without these numbers
            continue
        pairs = zip_longest(old[name], new[name], fillvalue=math.inf)
        for index, (before, after) in enumerate(pairs):
            both = before is not None and after is not None
            if before != after and not (both and abs(before - after) < limit):
                return words.format(index)
    return None


def _of_activations(tensor: Tensor) -> float | None:
    """Return the weighted sum of a tensor in units of its norm, plus the logarithm of the norm."""
    flat = tensor.detach().float().cpu().double().flatten()
    length = float(flat.norm())
    return _known(float(flat @ _weights(flat)) / length + math.log(length)) if length else 0.0


def _of_norms(values: Tensor) -> float | None:
    """Return the weighted sum over heads of the mean log value norm, (document, kv_head, position,
    dimension), divided by the root of the number of heads. No head has a small weight.
    """
    norms = values.detach().float().cpu().double().norm(dim=-1)
    means = norms.clamp_min(torch.finfo(torch.float32).tiny).log().mean(dim=-1).flatten()
    return _known(float(means @ (1 + _weights(means))) / math.sqrt(len(means)))


def _of_buffer(buffer: Tensor) -> float | None:
    """Return the weighted sum of the logarithms of a buffer's entries, divided by the root of their
    number. Logarithms make small entries count as much as large ones. A buffer of integers gives a
    digest of its bytes.
    """
    if not buffer.is_floating_point():
        digest = hashlib.sha256()
        for _, part in plain_parts("", buffer):
            digest.update(_bytes_of(part))
        return float(int(digest.hexdigest()[:8], 16))
    flat = buffer.detach().float().cpu().double().flatten()
    smallest = torch.finfo(torch.float32).tiny
    logarithms = (flat.abs() + smallest).log() - math.log(smallest)
    return _known(float((flat.sign() * logarithms) @ _weights(flat)) / math.sqrt(len(flat) or 1))


def _weights(flat: Tensor) -> Tensor:
    return torch.arange(1, len(flat) + 1, dtype=torch.float64, device="cpu") * GOLDEN % 1 - 0.5


def _known(number: float) -> float | None:
    return round(number, DIGITS) if math.isfinite(number) else None
