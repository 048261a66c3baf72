"""What the tap refuses: masks that are lost, models that it cannot read, tokens that do not fit."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
import torch
import transformers
from support.every_decoder import tiny_of
from support.families import tiny, tokens
from transformers import AttentionMaskInterface
from transformers.masking_utils import eager_mask

import empirical.tap.interface as interface
from empirical.errors import InputError
from empirical.tap.decoder import decoder_of
from empirical.tap.interface import NAME, Attention, run_decoder
from empirical.tap.parity import parity
from empirical.tap.refusals import refuse_unattending
from empirical.tap.tap import tap


@functools.cache
def model(family: str) -> transformers.PreTrainedModel:
    return tiny(family)


def test_a_mask_that_is_not_registered_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    mapping = {
        name: function
        for name, function in AttentionMaskInterface._global_mapping.items()
        if name != NAME
    }
    monkeypatch.setattr(AttentionMaskInterface, "_global_mapping", mapping)
    monkeypatch.setattr(AttentionMaskInterface, "register", lambda *args: None)
    for family in ("llama", "mistral"):
        with pytest.raises(InputError, match="no mask was asked"):
            tap(model(family), tokens(1, 100), lambda layer: None)


def test_a_mask_that_is_lost_on_the_way_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*args: object, **keywords: object) -> None:
        interface._session.get().masks += 1

    monkeypatch.setattr(interface, "_mask", lost)
    padding = torch.tensor([[0] * 10 + [1] * 90])
    with pytest.raises(InputError, match="got no mask, but there is padding or a sliding window"):
        tap(model("llama"), tokens(1, 100), lambda layer: None, padding)
    with pytest.raises(InputError, match="got no mask, but there is padding or a sliding window"):
        tap(model("mistral"), tokens(1, 100), lambda layer: None)


def test_an_additive_mask_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "sdpa_mask", eager_mask)
    with pytest.raises(
        InputError,
        match=r"its mask is torch.float32 of shape \(1, 1, 30, 30\), expected torch.bool",
    ):
        tap(model("llama"), tokens(1, 30), lambda layer: None)


def test_a_keyword_that_is_not_understood_is_refused() -> None:
    llama = copy.deepcopy(model("llama"))
    attention = llama.model.layers[1].self_attn
    attention.forward = functools.partial(attention.forward, position_bias=torch.zeros(1))
    with pytest.raises(
        InputError,
        match="layer 1 of LlamaAttention: passes position_bias, which geostat does not understand",
    ):
        tap(llama, tokens(1, 30), lambda layer: None)


def _bloom() -> transformers.PreTrainedModel:
    return transformers.BloomForCausalLM(
        transformers.BloomConfig(vocab_size=97, hidden_size=64, n_layer=3, n_head=4)
    )


def _mpt() -> transformers.PreTrainedModel:
    return transformers.MptForCausalLM(
        transformers.MptConfig(vocab_size=97, d_model=64, n_layers=3, n_heads=4, max_seq_len=64)
    )


@pytest.mark.parametrize("maker", [_bloom, _mpt])
def test_a_model_that_never_calls_the_tap_is_refused(maker: Any) -> None:
    with pytest.raises(InputError, match="0 of 3 layers call the attention interface"):
        tap(tiny("", maker=maker), tokens(1, 30), lambda layer: None)


def test_a_model_of_which_one_layer_does_not_call_is_refused() -> None:
    llama = copy.deepcopy(model("llama"))
    last = llama.model.layers[3].self_attn
    last.forward = lambda hidden_states, **keywords: (hidden_states, None)
    with pytest.raises(InputError, match="llama: 3 of 4 layers call the attention interface"):
        tap(llama, tokens(1, 30), lambda layer: None)
    assert llama.config._attn_implementation == "sdpa"


def test_a_layer_that_attends_twice_in_a_forward_is_refused() -> None:
    llama = copy.deepcopy(model("llama"))
    llama.model.layers[1] = llama.model.layers[0]
    with pytest.raises(
        InputError, match="layer 1 of LlamaAttention: attends more than once in a forward"
    ):
        tap(llama, tokens(1, 30), lambda layer: None)


def test_models_that_are_no_causal_decoders_are_refused() -> None:
    config = transformers.BertConfig(
        vocab_size=97,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
    )
    with pytest.raises(InputError, match="attends to later positions, expected a causal decoder"):
        tap(transformers.BertModel(config).eval(), tokens(1, 30), lambda layer: None)
    mamba = transformers.MambaConfig(vocab_size=97, hidden_size=64, num_hidden_layers=2)
    with pytest.raises(InputError, match="mamba: 0 of 2 layers call the attention interface"):
        tap(transformers.MambaModel(mamba).eval(), tokens(1, 30), lambda layer: None)
    with pytest.raises(InputError, match="mamba: has layers of type linear_attention"):
        refuse_unattending(mamba)


def _all_layers(model: transformers.PreTrainedModel) -> None:
    for layer in model.model.layers:
        layer.self_attn.is_causal = False


@pytest.mark.parametrize(
    ("family", "changed"),
    [
        ("gemma3", lambda model: setattr(model.config, "use_bidirectional_attention", True)),
        ("llama", lambda model: setattr(model.config, "is_causal", False)),
        ("mistral", lambda model: setattr(model.config, "is_causal", False)),
        ("llama", _all_layers),
    ],
)
def test_a_decoder_that_sees_later_positions_is_refused_by_what_it_sees(
    family: str, changed: Any
) -> None:
    other = copy.deepcopy(model(family))
    changed(other)
    refusal = "layer 0 of .*: attends to later positions, expected a causal decoder"
    with pytest.raises(InputError, match=refusal):
        tap(other, tokens(1, 30), lambda layer: None)
    with pytest.raises(InputError, match=refusal):
        run_decoder(decoder_of(other), tokens(1, 30), None, Attention.output)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (
            "Gemma4ForCausalLM",
            {"use_bidirectional_attention": "vision", "global_head_dim": 16, "head_dim": 16},
        ),
        ("BertLMHeadModel", {"is_decoder": True}),
        ("RobertaForCausalLM", {"is_decoder": True}),
    ],
)
@pytest.mark.parametrize("length", [5, 40])
def test_a_decoder_that_reads_text_causally_is_measured_whatever_it_is_called(
    name: str, changes: dict[str, Any], length: int
) -> None:
    compared = parity(tiny_of(name, **changes), tokens(1, length))
    assert compared.weights < 1e-4
    assert compared.invisible == 0


def test_dropout_outside_of_training_is_refused() -> None:
    llama = copy.deepcopy(model("llama"))
    attention = llama.model.layers[2].self_attn
    attention.attention_dropout = 0.1
    attention.training = True
    with pytest.raises(InputError, match=r"layer 2 of LlamaAttention: drops weights at random"):
        tap(llama, tokens(1, 30), lambda layer: None)


def test_queries_that_are_not_those_of_the_text_are_refused() -> None:
    llama = copy.deepcopy(model("llama"))
    embed = llama.model.embed_tokens.forward
    llama.model.embed_tokens.forward = lambda ids: embed(ids)[:, ::2]
    with pytest.raises(
        InputError, match="has queries of 1 documents at 15 positions, expected those of the text"
    ):
        tap(llama, tokens(1, 30), lambda layer: None)


@pytest.mark.parametrize(
    ("ids", "mask", "said"),
    [
        (
            torch.zeros(5, dtype=torch.long),
            None,
            r"input_ids has shape \(5,\), expected \(document, position\)",
        ),
        (torch.zeros(1, 0, dtype=torch.long), None, r"input_ids has shape \(1, 0\)"),
        (tokens(1, 513), None, "reads at most 512 tokens, but a window has 513. Use --length 512"),
        (torch.tensor([[5, 97]]), None, "knows 97 tokens, but token 97 was given"),
        (
            tokens(2, 5),
            torch.ones(1, 5),
            r"attention_mask has shape \(1, 5\), expected that of input_ids, \(2, 5\)",
        ),
        (
            tokens(2, 5),
            torch.tensor([[1, 1, 1, 1, 1], [0, 0, 0, 0, 0]]),
            "attention_mask hides every token of document 1",
        ),
    ],
)
def test_tokens_that_do_not_fit_are_refused_in_one_line(
    ids: torch.Tensor, mask: torch.Tensor | None, said: str
) -> None:
    with pytest.raises(InputError, match=said) as caught:
        tap(model("llama"), ids, lambda layer: None, mask)
    assert "\n" not in str(caught.value)


def test_a_model_in_training_mode_is_refused() -> None:
    with pytest.raises(InputError, match="is in training mode"):
        tap(copy.deepcopy(model("llama")).train(), tokens(1, 5), lambda layer: None)
