"""Fingerprint of a model: a few numbers of what it does, which digests of its files and weights do
not tell.

A hook, another scaling, a replaced forward or edited code moves the numbers of a run and leaves
every weight as it was. So a short fixed input goes through the tap, and one number is kept of each
layer's weights α and of its value norms, of each token's last hidden state, and of each buffer.
Equal models give equal numbers on one machine; elsewhere the last bits may differ, so numbers are
compared within the rounding of the model's type. Of a model in memory, which what acts on later or
other tokens may change from call to call, the first document of a run tells as much. Imports torch
and transformers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Any, Final

import torch
from torch import Tensor
from transformers import PreTrainedModel

from empirical.sources.digests import plain_parts
from empirical.tap.decoder import decoder_of, entry, known_tokens, longest_input
from empirical.tap.tap import TappedLayer, tap

TOKENS: Final = 64
"""Length of the fixed input."""
GOLDEN: Final = (math.sqrt(5) - 1) / 2
"""Multiples of it, modulo 1, weigh the entries of a tensor: any order or entry that changes moves
their sum."""
OF_TEXT: Final = "text "
"""Before the names of numbers of a text."""
DIGITS: Final = 6
"""Decimals that are kept; float32 tells no more of these numbers."""
ROUNDING: Final = {"float32": 1e-4, "float16": 0.01, "bfloat16": 0.05}
"""By how much numbers of equal models may differ between machines, by the type of the model.
Rounding the weights of the built-in model to bfloat16 moves them by 0.02."""
OF_NORMS: Final = {"float32": 1e-4, "float16": 0.002, "bfloat16": 0.01}
"""The same for value norms, which are means over tokens: other kernels move those of the built-in
model by 0.0006 in float16 and 0.003 in bfloat16."""
OF_BUFFERS: Final = 1e-3
"""The same for buffers, which no layer rounds: a share of their size."""


def fingerprint(
    model: PreTrainedModel, on_layer: Callable[[TappedLayer], None] = lambda layer: None
) -> dict[str, list[float | None]]:
    """Return the numbers of a model in evaluation mode: "layers", of the α of each, "values", of
    the value norms of each, "tokens", of the last hidden state of each, and "buffers", of those
    that differ. None stands for a number that is not finite. Each layer is also handed to
    `on_layer`.

    Raises:
        InputError: the tap refuses the model.
    """
    told, hidden = _numbers(model, _fixed_tokens(model), on_layer)
    # only now: some rotary embeddings keep the frequencies of the longest input so far until then
    # now under one name, now under two
    buffers = dict.fromkeys(map(_of_buffer, decoder_of(model).buffers()))
    return {**told, "tokens": [*map(_of_activations, hidden)], "buffers": [*buffers]}


def fingerprint_of_text(model: PreTrainedModel, ids: Tensor) -> dict[str, list[float | None]]:
    """Return numbers of what a model makes of a text, (1, position): as `fingerprint`, under names
    of their own, of last hidden states those of `TOKENS` tokens each.
    """
    told, hidden = _numbers(model, ids)
    told["tokens"] = [*map(_of_activations, hidden.split(TOKENS))]
    return {OF_TEXT + name: numbers for name, numbers in told.items()}


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
    """Say where two fingerprints of models of a type begin to differ by more than rounding, None
    where they do not.
    """
    rounding, of_norms = (limits.get(dtype, limits["bfloat16"]) for limits in (ROUNDING, OF_NORMS))
    places = {
        "layers": ("attention of layer {}", rounding),
        "values": ("value norms of layer {}", of_norms),
        "tokens": ("the last hidden states", rounding),
        "buffers": ("buffer {}", OF_BUFFERS),
    }
    for name in ("layers", "values", "tokens"):
        words, limit = places[name]
        places[OF_TEXT + name] = f"{words} of the first document", limit
    for name, (words, limit) in places.items():
        if name not in old or name not in new:
            continue  # of a run that does not tell it
        pairs = zip_longest(old[name], new[name], fillvalue=math.inf)
        for place, (one, other) in enumerate(pairs):
            alike = one is not None and other is not None and abs(one - other) < limit
            if one != other and not alike:
                return words.format(place)
    return None


def _fixed_tokens(model: PreTrainedModel) -> Tensor:
    """Return tokens from all over the vocabulary, (1, position), as many as the model reads."""
    decoder = decoder_of(model)
    longest = longest_input(decoder.config) or TOKENS
    held = known_tokens(decoder) or 2
    known = min(held, entry(decoder.config, "vocab_size") or held)
    return (torch.arange(min(TOKENS, longest), device="cpu") * max(known // TOKENS, 1) % known)[
        None
    ]


def _of_activations(tensor: Tensor) -> float | None:
    """Return the weighted sum of a tensor in units of its length, plus the logarithm of that."""
    flat = tensor.detach().float().cpu().double().flatten()
    length = float(flat.norm())
    return _known(float(flat @ _weights(flat)) / length + math.log(length)) if length else 0.0


def _of_norms(values: Tensor) -> float | None:
    """Return the weighted sum over heads of the mean logarithm of the value norms,
    (document, kv_head, position, dimension), in units of the root of the number of heads; no head's
    weight is small.
    """
    norms = values.detach().float().cpu().double().norm(dim=-1)
    each = norms.clamp_min(torch.finfo(torch.float32).tiny).log().mean(dim=-1).flatten()
    return _known(float(each @ (1 + _weights(each))) / math.sqrt(len(each)))


def _of_buffer(buffer: Tensor) -> float | None:
    """Return the weighted sum of the logarithms of a buffer's entries, so that a small one counts
    as much as a large one, in units of the root of their number; of one of other than
    floating-point numbers its bytes.
    """
    if not buffer.is_floating_point():
        digest = hashlib.sha256()
        for _, part in plain_parts("", buffer):
            digest.update(part.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return float(int(digest.hexdigest()[:8], 16))
    flat = buffer.detach().float().cpu().double().flatten()
    smallest = torch.finfo(torch.float32).tiny
    logarithms = (flat.abs() + smallest).log() - math.log(smallest)
    return _known(float((flat.sign() * logarithms) @ _weights(flat)) / math.sqrt(len(flat) or 1))


def _weights(flat: Tensor) -> Tensor:
    return torch.arange(1, len(flat) + 1, dtype=torch.float64, device="cpu") * GOLDEN % 1 - 0.5


def _known(number: float) -> float | None:
    return round(number, DIGITS) if math.isfinite(number) else None
