"""Forwards that begin at a position: the tokens before it are read as in a pass before, so that an
intervention which leaves the first queries as they are computes the others alone. Imports torch and
transformers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from empirical.errors import InputError
from empirical.tap.from_layer import Below, run_from
from empirical.tap.interface import Attend, Attention

ROUNDING: Final = 1e-4
"""By how much, of their scale, hidden states of float32 may differ for products of other shapes."""


class Layer(NamedTuple):
    """What a layer's attention read, as `Attention` has it."""

    key: Tensor
    value: Tensor
    mask: Tensor | None


@dataclass(frozen=True, slots=True)
class Whole:
    """A pass over a window without padding in which nothing was intervened on."""

    layers: tuple[Layer, ...]
    hidden: Tensor
    """The last hidden states, (document, position, hidden)."""

    @property
    def size(self) -> int:
        """Bytes that it holds; a mask that layers share counts once."""
        tensors = [self.hidden, *(one for layer in self.layers for one in layer if one is not None)]
        storages = (one.untyped_storage() for one in tensors)
        return sum({one.data_ptr(): one.nbytes() for one in storages}.values())


def whole(decoder: PreTrainedModel, input_ids: Tensor) -> Whole:
    """Run a decoder and keep what its layers read."""
    layers: list[Layer] = []

    def attend(layer: Attention) -> Tensor:
        layers.append(Layer(_own(layer.key), _own(layer.value), layer.mask))
        return layer.output()

    hidden = run_from(decoder, input_ids, None, attend)
    return Whole(tuple(layers), hidden)


def _own(tensor: Tensor) -> Tensor:
    """Return a tensor that keeps nothing else in memory, as one does that is part of a product of
    queries, keys and values at once.
    """
    return tensor.clone() if tensor.untyped_storage().nbytes() > tensor.nbytes else tensor


def run_after(
    decoder: PreTrainedModel,
    input_ids: Tensor,
    attend: Attend,
    past: Whole,
    position: int,
    start: Below | None = None,
) -> Tensor:
    """Return the last hidden states of the tokens from `position` on, (document, position, hidden);
    those before it are as in `past`, of the same window.

    attend: called with queries of those tokens alone, and keys, values and masks of the whole
    window. start: what the layers below the first that is intervened on return for the whole
    window; None: they are run.
    """

    def joined(layer: Attention) -> Tensor:
        key, value, mask = past.layers[layer.index]
        return attend(
            replace(
                layer,
                key=torch.cat([key[:, :, :position], layer.key], dim=2),
                value=torch.cat([value[:, :, :position], layer.value], dim=2),
                mask=None if mask is None else mask[:, :, position:],
            )
        )

    return run_from(decoder, input_ids[:, position:], None, joined, start, position)


def reads_on(
    decoder: PreTrainedModel, input_ids: Tensor, past: Whole, start: Below | None = None
) -> bool:
    """Tell whether a forward that begins in the middle, and at `start` where that is given, returns
    what the whole one did, to rounding: not so where a token's place or its routing hangs on more
    than its position, or what a layer returns is laid out in another way.

    Told of float32 and wider alone: coarser types round away what an intervention does.
    """
    position = input_ids.shape[1] // 2
    if position == 0 or torch.finfo(past.hidden.dtype).eps > torch.finfo(torch.float32).eps:
        return False
    expected = past.hidden[:, position:]
    try:
        runs = [
            run_after(decoder, input_ids, Attention.output, past, position, below)
            for below in ([None] if start is None else [None, start])
        ]
    except InputError:
        return False
    limit = ROUNDING * expected.abs().max()
    return all(
        found.shape == expected.shape and bool((found - expected).abs().max() <= limit)
        for found in runs
    )
