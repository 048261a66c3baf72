"""Forwards that begin at a layer, against whole ones."""

from __future__ import annotations

import pytest
import torch
from support.families import FAMILIES, OTHERS, tiny, tokens

from empirical.intervention.cut import Cut, intervened
from empirical.intervention.rules import attention
from empirical.tap.decoder import layers_of
from empirical.tap.from_layer import Below, below, resumes
from empirical.tap.interface import forward


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_a_forward_from_a_layer_on_is_the_whole_one_to_the_bit(family: str) -> None:
    model, ids = tiny(family), tokens(2, 60)
    decoder = model.get_decoder()
    assert resumes(decoder, ids, None)
    cut = Cut(rule=attention, mode="deletion", n=3)
    start: Below | None = None
    for layer in range(1, len(layers_of(decoder))):
        start = below(decoder, ids, None, layer, start)
        parts = [
            intervened(model, ids, lambda at, layer=layer: cut if at == layer else None, start=own)
            for own in (None, start)
        ]
        assert torch.equal(*parts)
    assert not torch.equal(parts[0], forward(decoder, ids, None))


def test_layers_below_are_not_run_and_are_put_back() -> None:
    model, ids = tiny("llama"), tokens(1, 20)
    decoder = model.get_decoder()
    start, calls = below(decoder, ids, None, 2), []
    modules = layers_of(decoder)
    modules[1].forward = modules[1].forward  # as accelerate leaves those spread over devices
    before = [vars(module).get("forward") for module in modules]
    for module in modules:
        module.self_attn.register_forward_hook(lambda *given: calls.append(given[0].layer_idx))
    intervened(model, ids, lambda layer: None, start=start)
    assert calls == [2, 3]
    assert [vars(module).get("forward") for module in modules] == before
    below(decoder, ids, None, 3, start)
    assert calls == [2, 3, 2]


def test_what_lies_below_a_layer_is_not_taken_from_above_it() -> None:
    model, ids = tiny("llama"), tokens(1, 20)
    decoder = model.get_decoder()
    above = below(decoder, ids, None, 3)
    again = below(decoder, ids, None, 1, above)
    assert torch.equal(again.output, below(decoder, ids, None, 1).output)
    assert not torch.equal(again.output, above.output)


def test_layers_that_hand_over_more_than_their_output_do_not_resume() -> None:
    model, ids = tiny("llama"), tokens(1, 20)
    decoder = model.get_decoder()
    seen: list[torch.Tensor] = []
    modules = layers_of(decoder)
    modules[0].register_forward_hook(lambda module, given, output: seen.append(output))
    modules[-1].register_forward_hook(lambda module, given, output: output + len(seen))
    assert not resumes(decoder, ids, None)


def test_the_layers_are_the_list_with_most_in_it() -> None:
    decoder = tiny("llama").get_decoder()
    layers = list(decoder.layers)
    decoder.more = torch.nn.ModuleList(torch.nn.Identity() for _ in layers)
    decoder.inner = torch.nn.Sequential(torch.nn.ModuleList(torch.nn.Identity() for _ in range(9)))
    assert layers_of(decoder) == layers
    assert layers_of(torch.nn.Linear(1, 1)) == []
