"""Forwards that begin at a layer or at a position, against whole ones."""

import pytest
import torch
import transformers
from support.families import FAMILIES, OTHERS, tiny, tokens

from empirical.intervention.cut import Cut, intervened, intervened_after
from empirical.intervention.rules import attention, random
from empirical.tap.attention import QUERY_BLOCK
from empirical.tap.decoder import layers_of
from empirical.tap.interface import forward
from empirical.tap.resumed import Below, below, reads_on, resumes, run_after, whole


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_families_resume_and_a_forward_from_a_layer_equals_the_whole_one_bit_for_bit(family):
    model, ids = tiny(family), tokens(2, 60)
    decoder = model.get_decoder()
    assert resumes(decoder, ids, None)
    assert reads_on(decoder, ids, whole(decoder, ids))
    cut = Cut(rule=attention, mode="deletion", n=3)
    start: Below | None = None
    for layer in (1, len(layers_of(decoder)) - 1):
        start = below(decoder, ids, None, layer, start)
        parts = [
            intervened(model, ids, lambda at, layer=layer: cut if at == layer else None, start=own)
            for own in (None, start)
        ]
        assert torch.equal(*parts)
    assert not torch.equal(parts[0], forward(decoder, ids, None))


def test_lower_layers_are_skipped_and_restored():
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


def test_a_start_above_the_layer_is_not_used():
    decoder, ids = tiny("llama").get_decoder(), tokens(1, 20)
    above = below(decoder, ids, None, 3)
    again = below(decoder, ids, None, 1, above)
    assert torch.equal(again.output, below(decoder, ids, None, 1).output)
    assert not torch.equal(again.output, above.output)


def test_layers_with_further_outputs_do_not_resume():
    decoder, ids = tiny("llama").get_decoder(), tokens(1, 20)
    seen: list[torch.Tensor] = []
    modules = layers_of(decoder)
    modules[0].register_forward_hook(lambda module, given, output: seen.append(output))
    modules[-1].register_forward_hook(lambda module, given, output: output + len(seen))
    assert not resumes(decoder, ids, None)


def double(family: str) -> transformers.PreTrainedModel:
    """In float64 (but for norms), where rounding swaps no tokens."""
    model = tiny(family)
    model.config._experts_implementation = "eager"  # the grouped product knows no float64
    return model.double()


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_the_first_n_queries_of_n_kept_tokens_are_the_models_own(family):
    model, ids, n = double(family), tokens(2, 60), 10
    decoder = model.get_decoder()
    past, start = whole(decoder, ids), below(decoder, ids, None, 2)
    own = forward(decoder, ids, None)
    torch.testing.assert_close(past.hidden, own, atol=1e-5, rtol=1e-5)
    for first, given in ((0, None), (2, start)):
        cut = Cut(rule=attention, mode="renormalisation", n=n, heads=[0, 1, 3])

        def cut_of(layer, first=first, cut=cut):
            return cut if layer >= first and layer != 3 else None

        expected = intervened(model, ids, cut_of)
        torch.testing.assert_close(expected[:, :n], past.hidden[:, :n], atol=1e-5, rtol=1e-5)
        assert not torch.allclose(expected[:, n:], past.hidden[:, n:], atol=1e-4)
        found = intervened_after(model, ids, cut_of, past, n, given)
        torch.testing.assert_close(found, expected[:, n:], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("n", [3, QUERY_BLOCK, QUERY_BLOCK + 7])
def test_where_a_forward_begins_changes_no_selection(n):
    model, ids = double("mistral"), tokens(1, 2 * QUERY_BLOCK + 40)
    cut = Cut(rule=random(1, document=2), mode="renormalisation", n=n)
    expected = intervened(model, ids, lambda layer: cut)
    past = whole(model.get_decoder(), ids)
    found = intervened_after(model, ids, lambda layer: cut, past, n)
    torch.testing.assert_close(found, expected[:, n:], atol=1e-5, rtol=1e-5)


def test_queries_before_the_position_are_not_computed():
    decoder, ids = tiny("llama").get_decoder(), tokens(1, 40)
    past, shapes = whole(decoder, ids), []

    def attend(layer):
        shapes.append((layer.query.shape[2], layer.key.shape[2], layer.value.shape[2]))
        return layer.output()

    run_after(decoder, ids, attend, past, 30)
    assert shapes == [(10, 40, 40)] * 4


@pytest.mark.parametrize(("family", "masks"), [("llama", 0), ("gpt2", 0), ("phi3", 1)])
def test_a_stored_pass_holds_keys_values_and_each_mask_once(family, masks):
    decoder, ids = tiny(family).get_decoder(), tokens(1, 40)
    past = whole(decoder, ids)
    kept = [past.hidden, *(one for layer in past.layers for one in (layer.key, layer.value))]
    assert past.size == sum(4 * one.numel() for one in kept) + masks * 40 * 40


def test_coarse_dtypes_and_one_token_windows_do_not_resume():
    decoder = tiny("llama").get_decoder()
    assert not reads_on(decoder, tokens(1, 1), whole(decoder, tokens(1, 1)))
    coarse = tiny("llama").to(torch.bfloat16).get_decoder()
    assert not reads_on(coarse, tokens(1, 60), whole(coarse, tokens(1, 60)))


def test_layers_that_depend_on_the_whole_window_do_not_resume():
    decoder, ids = tiny("llama").get_decoder(), tokens(1, 60)
    decoder.layers[1].register_forward_hook(
        lambda module, given, output: output + output.mean(dim=1, keepdim=True)
    )
    assert not reads_on(decoder, ids, whole(decoder, ids))
