"""A model runs as it is, and what the tap refuses: lost masks, foreign layers, wrong tokens."""

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import transformers
from support.every_decoder import tiny_of
from support.families import tiny, tokens
from support.raising import Unknown, raising, refused
from transformers import AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

import empirical.tap.interface as interface
from empirical.intervention.loss import next_token_losses
from empirical.tap.decoder import decoder_of
from empirical.tap.interface import NAME, Attention, run_decoder, whole_products
from empirical.tap.parity import parity
from empirical.tap.refusals import refuse_unattending
from empirical.tap.tap import TappedLayer, tap


@functools.cache
def model(family: str) -> PreTrainedModel:
    return tiny(family)


def tapped(
    which: PreTrainedModel, ids: torch.Tensor | None = None, mask: torch.Tensor | None = None
) -> None:
    """Run a model through the tap, on 30 tokens unless others are given."""
    tap(which, tokens(1, 30) if ids is None else ids, lambda layer: None, mask)


def test_a_mask_that_is_not_registered_is_caught(monkeypatch):
    known = dict(AttentionMaskInterface._global_mapping)
    known.pop(NAME, None)
    monkeypatch.setattr(AttentionMaskInterface, "_global_mapping", known)
    monkeypatch.setattr(AttentionMaskInterface, "register", lambda *args: None)
    with refused("requested no mask"):
        tapped(model("llama"), tokens(1, 100))


PADDING = torch.tensor([[0] * 10 + [1] * 90])


@pytest.mark.parametrize(("family", "padding"), [("llama", PADDING), ("mistral", None)])
def test_a_mask_that_is_lost_on_the_way_is_caught(family, padding, monkeypatch):
    def lost(*args, **keywords):
        interface._session.get().masks += 1

    monkeypatch.setattr(interface, "_mask", lost)
    with refused("got no mask, but there is padding or a sliding window"):
        tapped(model(family), tokens(1, 100), padding)


def test_an_additive_mask_is_refused(monkeypatch):
    monkeypatch.setattr(interface, "sdpa_mask", eager_mask)
    with refused(r"its mask is torch.float32 of shape \(1, 1, 30, 30\), expected torch.bool"):
        tapped(model("llama"))


def biased(model: PreTrainedModel) -> None:
    attention = model.model.layers[1].self_attn
    attention.forward = functools.partial(attention.forward, position_bias=torch.zeros(1))


def without_attention(model: PreTrainedModel) -> None:
    last = model.model.layers[3].self_attn
    last.forward = lambda hidden_states, **keywords: (hidden_states, None)


def with_a_layer_twice(model: PreTrainedModel) -> None:
    model.model.layers[1] = model.model.layers[0]


def with_dropout(model: PreTrainedModel) -> None:
    attention = model.model.layers[2].self_attn
    attention.attention_dropout, attention.training = 0.1, True


def with_half_of_the_tokens(model: PreTrainedModel) -> None:
    embed = model.model.embed_tokens.forward
    model.model.embed_tokens.forward = lambda ids: embed(ids)[:, ::2]


def with_autocast(model: PreTrainedModel) -> None:
    model.model.forward = torch.autocast("cpu", dtype=torch.bfloat16)(model.model.forward)


def in_training(model: PreTrainedModel) -> None:
    model.train()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (biased, "layer 1 of LlamaAttention: passes position_bias, which geostat does not support"),
        (without_attention, "llama: 3 of 4 layers call the attention interface"),
        (with_a_layer_twice, "layer 1 of LlamaAttention: attends more than once in a forward"),
        (with_dropout, "layer 2 of LlamaAttention: drops weights at random"),
        (with_half_of_the_tokens, "has queries of 1 documents at 15 positions, expected those of"),
        (with_autocast, r"computes in torch\.bfloat16, but the model's weights are"),
        (in_training, "is in training mode"),
    ],
)
def test_a_changed_model_is_refused(change, said):
    llama = tiny("llama")
    change(llama)
    with refused(said):
        tapped(llama)
    assert llama.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("BloomForCausalLM", {}, "bloom: 0 of 2 layers call the attention interface"),
        ("MambaModel", {}, "mamba: 0 of 4 layers call the attention interface"),
        ("BertModel", {"is_decoder": False}, "attends to later positions, expected a causal decod"),
        ("XmodForCausalLM", {}, "xmod: its forward pass raised ValueError: Input lang"),
        ("MusicgenForCausalLM", {}, "musicgen_decoder: its forward pass raised RuntimeErr"),
    ],
)
def test_models_that_are_no_causal_decoders_of_text_are_refused(name, changes, said):
    with refused(said):
        tapped(tiny_of(name, **changes))


def test_an_error_of_eager_attention_alone_is_quoted():
    deepseek = tiny_of("DeepseekV3ForCausalLM", num_key_value_heads=2)
    with refused("deepseek_v3: its forward pass raised RuntimeError: "):
        parity(deepseek, tokens(1, 20))


def test_a_configuration_with_layers_without_attention_is_refused():
    with refused("mamba: has layers of type linear_attention"):
        refuse_unattending(transformers.MambaConfig(num_hidden_layers=2))


def seeing_ahead(model: PreTrainedModel) -> None:
    for layer in model.model.layers:
        layer.self_attn.is_causal = False


@pytest.mark.parametrize(
    ("family", "change"),
    [
        ("gemma3", lambda model: setattr(model.config, "use_bidirectional_attention", True)),
        ("mistral", lambda model: setattr(model.config, "is_causal", False)),
        ("llama", seeing_ahead),
    ],
)
def test_a_decoder_that_sees_later_positions_is_refused_by_what_it_sees(family, change):
    other = tiny(family)
    change(other)
    with refused("layer 0 of .*: attends to later positions, expected a causal decoder"):
        run_decoder(decoder_of(other), tokens(1, 30), None, Attention.output)


@pytest.mark.parametrize(
    ("name", "changes", "length"),
    [
        ("Gemma4ForCausalLM", {"use_bidirectional_attention": "vision"}, 5),
        ("BertLMHeadModel", {"is_decoder": True}, 40),
        ("RobertaForCausalLM", {"is_decoder": True}, 40),
    ],
)
def test_any_causal_decoder_is_measured(name, changes, length):
    compared = parity(tiny_of(name, **changes), tokens(1, length))
    assert compared.weights < 1e-4
    assert compared.invisible == 0


@pytest.mark.parametrize(
    ("ids", "mask", "said"),
    [
        (torch.zeros(5).long(), None, r"has shape \(5,\), expected \(document, position\)"),
        (torch.zeros(1, 0).long(), None, r"input_ids has shape \(1, 0\)"),
        (tokens(1, 513), None, "reads at most 512 tokens, but a window has 513. Use --length 512"),
        (torch.tensor([[5, 97]]), None, "has 97 tokens, but token 97 was given"),
        (tokens(2, 5), torch.ones(1, 5), r"\(1, 5\), expected that of input_ids, \(2, 5\)"),
        (tokens(2, 5), torch.tensor([[1] * 5, [0] * 5]), "hides every token of document 1"),
    ],
)
def test_tokens_that_do_not_fit_are_refused(ids, mask, said):
    with refused(said):
        tapped(model("llama"), ids, mask)


def read(model: PreTrainedModel) -> list[torch.Tensor]:
    """Weights and values of every layer, last hidden states and losses."""
    found: list[TappedLayer] = []
    ids = tokens(1, 40)
    hidden = tap(model, ids, found.append)
    losses = next_token_losses(model, hidden, ids)
    return [*(one for layer in found for one in (layer.alpha, layer.values)), hidden, losses]


assert_same = functools.partial(torch.testing.assert_close, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("family", "kind"),
    [("llama", torch.bfloat16), ("gpt2", torch.float16), ("gpt_oss", torch.bfloat16)],
)
def test_autocast_around_a_measurement_changes_nothing(family, kind):
    model = tiny(family)
    expected = read(model)
    with torch.autocast("cpu", dtype=kind):
        assert_same(read(model), expected)
        assert torch.is_autocast_enabled("cpu")


@pytest.fixture
def coarse() -> Iterator[None]:
    """Products of float32 in bfloat16, where the processor has them."""
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision("highest")


def precisions() -> tuple[str, bool, str, str]:
    """What PyTorch allows for float32, by its older switches and by those of backends."""
    cuda, mkldnn = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
    older = torch.get_float32_matmul_precision(), cuda.allow_tf32
    return (*older, cuda.fp32_precision, mkldnn.fp32_precision)


@pytest.mark.parametrize("later", ["ieee", "tf32"])
def test_a_precision_set_for_all_backends_is_restored(later):
    every, cuda, mkldnn = torch.backends, torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
    try:
        cuda.fp32_precision = mkldnn.fp32_precision = "none"
        every.fp32_precision = "tf32"
        with whole_products():
            assert cuda.fp32_precision == mkldnn.fp32_precision == "ieee"
        every.fp32_precision = later
        assert cuda.fp32_precision == mkldnn.fp32_precision == later
    finally:
        every.fp32_precision = "none"


@pytest.mark.usefixtures("coarse")
def test_float32_products_are_exact_whatever_the_caller_allows():
    model = tiny("llama")
    inside: list[Any] = []
    hook = model.model.norm.register_forward_hook(lambda *given: inside.append(precisions()))
    found = read(model)
    hook.remove()
    assert inside == [("highest", False, "ieee", "ieee")]
    assert precisions() == ("medium", True, "tf32", "bf16")
    torch.set_float32_matmul_precision("highest")
    assert_same(found, read(model))


def _by_attribute(model: PreTrainedModel) -> None:
    model.model.layers[1] = torch.compile(model.model.layers[1], backend="eager")


COMPILED: dict[str, Callable[[PreTrainedModel], Any]] = {
    "decoder": lambda model: model.model.compile(backend="eager"),
    "whole graph": lambda model: model.model.compile(backend="eager", fullgraph=True),
    "model": lambda model: model.compile(backend="eager"),
    "layer": lambda model: model.model.layers[1].compile(backend="eager"),
    "attention": lambda model: model.model.layers[2].self_attn.compile(backend="eager"),
    "wrapped layer": _by_attribute,
}


@pytest.mark.parametrize("compile_part", COMPILED.values(), ids=COMPILED)
def test_compiled_models_run_uncompiled(compile_part):
    model = tiny("llama")
    expected = read(model)
    compile_part(model)
    stance = torch._dynamo.eval_frame._stance
    assert_same(read(model), expected)
    assert torch._dynamo.eval_frame._stance == stance


def test_the_compiler_stance_is_restored_after_threads():
    models = [tiny("llama") for _ in range(4)]
    for model in models:
        model.model.compile(backend="eager")
    stance = torch._dynamo.eval_frame._stance
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(read, models):
            assert_same(found, read(models[0]))
    assert torch._dynamo.eval_frame._stance == stance


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("", KeyError("sliding_attention")),
        ("layers.1", RecursionError("too\ndeep")),
        ("layers.1.self_attn", Unknown()),
        ("rotary_emb", MemoryError()),
    ],
)
def test_any_model_error_is_one_line(place, error):
    model = tiny("llama")
    model.model.get_submodule(place).forward = raising(error)
    with refused(f"forward pass raised {type(error).__name__}: ") as caught:
        tapped(model)
    assert caught.value.__cause__ is error
    assert model.config._attn_implementation == "sdpa"


def test_errors_of_the_callback_are_not_the_models():
    with pytest.raises(KeyError, match="mine"):
        tap(model("llama"), tokens(1, 20), raising(KeyError("mine")))
