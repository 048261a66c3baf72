"""Forwards that begin at a position, against whole ones."""

from __future__ import annotations

import pytest
import torch
import transformers
from support.families import FAMILIES, OTHERS, tiny, tokens

from empirical.intervention.cut import MODES, Cut, Mode, intervened, intervened_after
from empirical.intervention.rules import attention, random, recent
from empirical.tap.attention import QUERY_BLOCK
from empirical.tap.from_layer import below
from empirical.tap.from_position import reads_on, run_after, whole
from empirical.tap.interface import Attention, forward


def double(family: str) -> transformers.PreTrainedModel:
    """In float64 (but for norms), where rounding swaps no tokens."""
    model = tiny(family)
    model.config._experts_implementation = "eager"  # the grouped product knows no float64
    return model.double()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_the_first_n_queries_of_n_kept_tokens_are_the_models_own(family: str, mode: Mode) -> None:
    model, ids, n = double(family), tokens(2, 60), 10
    decoder = model.get_decoder()
    past, start = whole(decoder, ids), below(decoder, ids, None, 2)
    own = forward(decoder, ids, None)
    torch.testing.assert_close(past.hidden, own, atol=1e-5, rtol=1e-5)
    for first, given in ((0, None), (2, start)):
        cut = Cut(rule=attention, mode=mode, n=n, heads=[0, 1, 3])

        def cut_of(layer: int, first: int = first, cut: Cut = cut) -> Cut | None:
            return cut if layer >= first and layer != 3 else None

        expected = intervened(model, ids, cut_of)
        torch.testing.assert_close(expected[:, :n], past.hidden[:, :n], atol=1e-5, rtol=1e-5)
        assert not torch.allclose(expected[:, n:], past.hidden[:, n:], atol=1e-4)
        found = intervened_after(model, ids, cut_of, past, n, given)
        torch.testing.assert_close(found, expected[:, n:], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rule", [random(1, document=2), recent])
@pytest.mark.parametrize("n", [3, QUERY_BLOCK, QUERY_BLOCK + 7, 2 * QUERY_BLOCK + 1])
def test_where_a_forward_begins_changes_no_selection(rule: object, n: int) -> None:
    model, ids = double("mistral"), tokens(1, 2 * QUERY_BLOCK + 40)
    cut = Cut(rule=rule, mode="renormalisation", n=n)
    expected = intervened(model, ids, lambda layer: cut)
    past = whole(model.get_decoder(), ids)
    found = intervened_after(model, ids, lambda layer: cut, past, n)
    torch.testing.assert_close(found, expected[:, n:], atol=1e-5, rtol=1e-5)


def test_queries_before_the_position_are_not_asked() -> None:
    model, ids = tiny("llama"), tokens(1, 40)
    decoder = model.get_decoder()
    past, shapes = whole(decoder, ids), []

    def attend(layer: Attention) -> torch.Tensor:
        shapes.append((layer.query.shape[2], layer.key.shape[2], layer.value.shape[2]))
        return layer.output()

    run_after(decoder, ids, attend, past, 30)
    assert shapes == [(10, 40, 40)] * 4


@pytest.mark.parametrize(("family", "masks"), [("llama", 0), ("gpt2", 0), ("phi3", 1)])
def test_a_pass_that_is_kept_holds_keys_values_and_each_mask_once(family: str, masks: int) -> None:
    decoder, ids = tiny(family).get_decoder(), tokens(1, 40)
    past = whole(decoder, ids)
    kept = [past.hidden, *(one for layer in past.layers for one in (layer.key, layer.value))]
    assert past.size == sum(4 * one.numel() for one in kept) + masks * 40 * 40


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_families_read_on_in_float32(family: str) -> None:
    decoder, ids = tiny(family).get_decoder(), tokens(2, 60)
    assert reads_on(decoder, ids, whole(decoder, ids))


def test_coarse_types_and_windows_of_one_token_do_not_read_on() -> None:
    decoder = tiny("llama").get_decoder()
    assert not reads_on(decoder, tokens(1, 1), whole(decoder, tokens(1, 1)))
    coarse = tiny("llama").to(torch.bfloat16).get_decoder()
    assert not reads_on(coarse, tokens(1, 60), whole(coarse, tokens(1, 60)))


def test_layers_that_look_at_the_whole_window_do_not_read_on() -> None:
    decoder, ids = tiny("llama").get_decoder(), tokens(1, 60)
    decoder.layers[1].register_forward_hook(
        lambda module, given, output: output + output.mean(dim=1, keepdim=True)
    )
    assert not reads_on(decoder, ids, whole(decoder, ids))
