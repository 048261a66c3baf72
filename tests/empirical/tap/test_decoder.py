"""Which module of a model is its decoder, with which layers, tokens and longest input."""

from typing import Any

import pytest
import torch
import transformers
from support.every_decoder import tiny_of
from support.families import tiny, tokens
from support.raising import refused

from empirical.tap.decoder import decoder_of, known_tokens, layers_of, longest_input
from empirical.tap.parity import parity
from empirical.tap.tap import tap


def assert_measured(model: Any, layers: int) -> None:
    """The tap reads as many layers as there are, and what eager attention reads."""
    found: list[int] = []
    tap(model, tokens(2, 40), lambda layer: found.append(layer.index))
    assert found == list(range(layers))
    compared = parity(model, tokens(2, 40))
    assert compared.weights < 1e-4
    assert compared.invisible == 0


@pytest.mark.parametrize(
    "name", ["Llama4ForCausalLM", "ModernBertDecoderForCausalLM", "MllamaForCausalLM"]
)
def test_a_decoder_that_get_decoder_does_not_return_is_found_inside(name):
    model = tiny_of(name)
    assert model.get_decoder() is not model.model
    assert decoder_of(model) is model.model
    assert_measured(model, 4)


def test_a_decoder_that_was_wrapped_is_found_inside():
    model = tiny("llama")
    inner = model.model
    model.model = torch.compile(inner, backend="eager")
    assert decoder_of(model) is inner
    assert_measured(model, 4)


@pytest.mark.parametrize(
    ("name", "encoder", "decoder"),
    [("Bart", 2, 4), ("Whisper", 4, 2), ("Blenderbot", 4, 2), ("MBart", 2, 4)],
)
def test_a_decoder_s_layers_are_counted_and_not_those_of_an_encoder(name, encoder, decoder):
    model = tiny_of(f"{name}ForCausalLM", encoder_layers=encoder, decoder_layers=decoder)
    assert_measured(model, decoder)


@pytest.mark.parametrize(
    ("family", "kept"),
    [("llama", [1, 2, 3]), ("gemma3", [0, 2, 3]), ("gpt2", [0, 1, 2]), ("gemma3", [3, 1])],
)
def test_layers_that_were_taken_out_are_not_missed(family, kept):
    model = tiny(family)
    decoder = decoder_of(model)
    name = "h" if family == "gpt2" else "layers"
    setattr(decoder, name, torch.nn.ModuleList([getattr(decoder, name)[index] for index in kept]))
    decoder.config.num_hidden_layers = len(kept)
    if getattr(decoder.config, "layer_types", None):
        decoder.config.layer_types = [decoder.config.layer_types[index] for index in kept]
    assert_measured(model, len(kept))


def test_the_layers_are_the_nearest_list_with_most_in_it():
    decoder = decoder_of(tiny("llama"))
    layers = list(decoder.layers)
    decoder.more = torch.nn.ModuleList(torch.nn.Identity() for _ in layers)
    decoder.vision = torch.nn.Sequential(decoder_of(tiny("gpt2")), decoder_of(tiny("gpt2")))
    assert layers_of(decoder) == layers
    assert layers_of(decoder, list(decoder.vision[1].modules())) == list(decoder.vision[1].h)
    assert layers_of(torch.nn.Linear(1, 1)) == []


ENCODED = """BartForConditionalGeneration MarianMTModel T5ForConditionalGeneration
T5GemmaForConditionalGeneration WhisperForConditionalGeneration"""


@pytest.mark.parametrize("name", ENCODED.split())
def test_a_decoder_beside_an_encoder_is_refused(name):
    with refused("attends to an encoder"):
        decoder_of(tiny_of(name))


@pytest.mark.parametrize(
    ("name", "fields", "longest"),
    [
        ("Whisper", {"max_target_positions": 64, "max_source_positions": 32}, 64),
        ("LED", {"max_decoder_position_embeddings": 64, "max_encoder_position_embeddings": 32}, 64),
        ("Mpt", {"max_seq_len": 64}, 64),
        ("Speech2Text", {"max_target_positions": 64, "max_source_positions": 32}, 64),
        ("CTRL", {"n_positions": 64}, 64),
        ("GPT2", {"n_positions": 64}, 64),
        ("Llama", {"max_position_embeddings": 64}, 64),
        ("XLNet", {}, None),
        ("Bloom", {}, None),
    ],
)
def test_the_longest_input_is_read_by_any_name(name, fields, longest):
    assert longest_input(getattr(transformers, f"{name}Config")(**fields)) == longest


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize(
    ("family", "adapter"),
    [
        ("llama", {"target_modules": ["q_proj", "embed_tokens"]}),
        ("llama", {"target_modules": ["q_proj", "embed_tokens", "lm_head"]}),
        ("llama", {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]}),
        ("llama", {"target_modules": ["q_proj"], "trainable_token_indices": [5, 6]}),
        ("gpt2", {"target_modules": ["wte"]}),
        ("phi3", {"target_modules": ["embed_tokens"]}),
    ],
)
def test_tokens_are_counted_below_adapters_of_an_embedding(family, adapter):
    import peft

    config = peft.LoraConfig(r=4, init_lora_weights=False, **adapter)
    model = peft.get_peft_model(tiny(family), config).eval()
    assert known_tokens(decoder_of(model)) == 97
    assert_measured(model, 4)
    with refused(r"\w+: has 97 tokens, but token 97"):
        tap(model, torch.tensor([[5, 97]]), lambda layer: None)
