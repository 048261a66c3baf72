"""Forwards that begin at a layer: those below it return what they returned in a pass before, so
that many interventions on upper layers read the lower ones once. Imports torch and transformers.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from empirical.errors import InputError
from empirical.tap.decoder import layers_of
from empirical.tap.interface import Attend, Attention, returning, run_decoder


@dataclass(frozen=True, slots=True)
class Below:
    """What the layers below one return for a window."""

    layer: int
    """The layer at which a forward begins, from 1."""
    output: Any
    """Of the layer before it, as that returns it."""


class _Reached(BaseException):
    """The layer is reached; the rest of the forward is not needed. No error of the model's."""


def run_from(
    decoder: PreTrainedModel,
    input_ids: Tensor,
    mask: Tensor | None,
    attend: Attend,
    start: Below | None = None,
    position: int = 0,
) -> Tensor:
    """Return what `interface.run_decoder` does, from `start` on where that is given."""
    with ExitStack() as stack:
        if start is None:
            return run_decoder(decoder, input_ids, mask, attend, position=position)
        output = _later(start.output, position)
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
    """Return what the layers below `layer`, at least 1, return where nothing is intervened on; run
    from `start` on where that is given and lies below.
    """
    found: list[Any] = []

    def keep(module: torch.nn.Module, given: Any, output: Any) -> None:
        found.append(output)
        raise _Reached

    handle = layers_of(decoder)[layer - 1].register_forward_hook(keep)
    nearer = start if start is not None and start.layer < layer else None
    try:
        run_from(decoder, input_ids, mask, Attention.output, nearer)
    except _Reached:
        pass
    finally:
        handle.remove()
    return Below(layer, found[0])


def _later(output: Any, position: int) -> Any:
    """Return a layer's output for the tokens from `position` on."""
    if isinstance(output, Tensor):
        return output[:, position:]
    return output[0][:, position:], *output[1:]


def resumes(decoder: PreTrainedModel, input_ids: Tensor, mask: Tensor | None) -> bool:
    """Tell whether a forward that begins at the last layer returns what a whole one does, to the
    bit: not so where layers hand over more than their output, through the decoder or from one
    forward to the next, or attend more than once.
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
        below(decoder, input_ids.flip(1), mask, last)  # what layers keep is then of other tokens
        found = run_from(decoder, input_ids, mask, Attention.output, start)
    except InputError:  # as where a layer reads the keys of one that did not run
        return False
    return torch.equal(found, whole)
