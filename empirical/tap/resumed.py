"""Partial forward passes that begin at a layer or at a position, and reuse an earlier pass before
it. Interventions on upper layers or later queries then compute only the rest. Imports torch and
transformers.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from empirical.errors import InputError
from empirical.tap.decoder import layers_of
from empirical.tap.interface import Attend, Attention, returning, run_decoder


@dataclass(frozen=True, slots=True)
class Below:
    """Output of the layers below a given layer, for one window."""

    layer: int
    """Layer at which a forward pass begins, from 1."""
    output: Any
    """Output of the layer before it, as returned."""


class _Reached(BaseException):
    """Stops a forward pass at a layer; a BaseException, to differ from the model's errors."""


def run_from(
    decoder: PreTrainedModel,
    input_ids: Tensor,
    mask: Tensor | None,
    attend: Attend,
    start: Below | None = None,
    position: int = 0,
) -> Tensor:
    """Return what `interface.run_decoder` returns, beginning at `start` if given."""
    if start is None:
        return run_decoder(decoder, input_ids, mask, attend, position=position)
    output = start.output  # for the tokens from `position` on
    if isinstance(output, Tensor):
        output = output[:, position:]
    else:
        output = output[0][:, position:], *output[1:]
    with ExitStack() as stack:
        for module in layers_of(decoder)[: start.layer]:
            stack.enter_context(returning(module, output))
        return run_decoder(decoder, input_ids, mask, attend, start.layer, position)


def below(
    decoder: PreTrainedModel,
    input_ids: Tensor,
    mask: Tensor | None,
    layer: int,
    start: Below | None = None,
) -> Below:
    """Return the output of the layers below `layer` (≥ 1), from `start` on if that is below."""
    outputs: list[Any] = []

    def keep(module: torch.nn.Module, args: Any, output: Any) -> None:
        outputs.append(output)
        raise _Reached

    handle = layers_of(decoder)[layer - 1].register_forward_hook(keep)
    usable_start = start if start is not None and start.layer < layer else None
    try:
        run_from(decoder, input_ids, mask, Attention.output, usable_start)
    except _Reached:
        pass
    finally:
        handle.remove()
    return Below(layer, outputs[0])


def resumes(decoder: PreTrainedModel, input_ids: Tensor, mask: Tensor | None) -> bool:
    """Return whether a forward pass that begins at the last layer reproduces the whole pass bit for
    bit. It does not if layers pass on more than their output, keep state between passes, or attend
    more than once.
    """
    last, calls = len(layers_of(decoder)) - 1, []

    def attend(layer: Attention) -> Tensor:
        calls.append(layer.index)
        return layer.output()

    whole = run_from(decoder, input_ids, mask, attend)
    if last < 1 or len(calls) != last + 1:
        return False
    start = below(decoder, input_ids, mask, last)
    try:
        # Any state kept in layers comes from other tokens after this.
        below(decoder, input_ids.flip(1), mask, last)
        resumed_states = run_from(decoder, input_ids, mask, Attention.output, start)
    except InputError:  # for example, a layer reads keys of a skipped one
        return False
    return torch.equal(resumed_states, whole)


ROUNDING: Final = 1e-4
"""Relative tolerance of float32 hidden states between matrix products of different shapes."""


class Layer(NamedTuple):
    """Inputs of a layer's attention, as in `Attention`."""

    key: Tensor
    value: Tensor
    mask: Tensor | None


@dataclass(frozen=True, slots=True)
class Whole:
    """A pass over a window without padding and without intervention."""

    layers: tuple[Layer, ...]
    hidden: Tensor
    """The last hidden states, (document, position, hidden)."""

    @property
    def size(self) -> int:
        """Size in bytes; masks that layers share count once."""
        tensors = [tensor for tensor in chain([self.hidden], *self.layers) if tensor is not None]
        storages = (tensor.untyped_storage() for tensor in tensors)
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def whole(decoder: PreTrainedModel, input_ids: Tensor) -> Whole:
    """Run a decoder and keep the attention inputs of its layers."""
    layers: list[Layer] = []

    def attend(layer: Attention) -> Tensor:
        layers.append(Layer(_compact(layer.key), _compact(layer.value), layer.mask))
        return layer.output()

    hidden = run_from(decoder, input_ids, None, attend)
    return Whole(tuple(layers), hidden)


def _compact(tensor: Tensor) -> Tensor:
    """Return a tensor that shares no larger storage, such as a fused projection."""
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
    earlier tokens are as in `past`, of the same window. `attend` gets the queries of those tokens,
    and keys, values and masks of the whole window. start: as of `run_from`, for the whole window.
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
    """Return whether a forward pass from the middle of the window (and from `start`, if given)
    reproduces the whole pass to rounding. It does not if token routing depends on more than the
    position, or if a layer returns another layout. False for dtypes coarser than float32, whose
    rounding hides the effect of an intervention.
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
