"""Forwards that begin at a layer: those below it return what they returned in a pass before, so
that many interventions on upper layers read the lower ones once. Imports torch and transformers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from empirical.tap.interface import Attend, Attention, run_decoder
from empirical.tap.refusals import attention_layers


@dataclass(frozen=True, slots=True)
class Below:
    """What the layers below one return for a window."""

    layer: int
    """The layer at which a forward begins, from 1."""
    output: Any
    """Of the layer before it, as that returns it."""


class _Reached(Exception):
    """The layer is reached; the rest of the forward is not needed."""


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
            stack.enter_context(_returning(module, output))
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


@contextmanager
def _returning(module: torch.nn.Module, output: Any) -> Iterator[None]:
    """Let a module return what is there already, and put its forward back."""
    own, before = "forward" in vars(module), module.forward
    module.forward = lambda *args, **keywords: output
    try:
        yield
    finally:
        if own:  # as where layers are spread over devices
            module.forward = before
        else:
            del module.forward


def layers_of(decoder: PreTrainedModel) -> list[torch.nn.Module]:
    """Return a decoder's layers in order, none where they are not one list of modules."""
    count = attention_layers(decoder.config)
    lists = [
        module
        for module in decoder.children()
        if isinstance(module, torch.nn.ModuleList) and len(module) == count
    ]
    return list(lists[0]) if len(lists) == 1 else []


def resumes(decoder: PreTrainedModel, input_ids: Tensor, mask: Tensor | None) -> bool:
    """Tell whether a forward that begins at the last layer returns what a whole one does, to the
    bit: not so where layers hand over more than their output.
    """
    last = len(layers_of(decoder)) - 1
    if last < 1:
        return False
    whole = run_from(decoder, input_ids, mask, Attention.output)
    start = below(decoder, input_ids, mask, last)
    return torch.equal(run_from(decoder, input_ids, mask, Attention.output, start), whole)
