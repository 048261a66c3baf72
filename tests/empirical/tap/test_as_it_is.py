"""A model runs as it is: in its own types, uncompiled, and what it raises is told in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from support.every_decoder import tiny_of
from support.families import tiny, tokens
from transformers import PreTrainedModel

from empirical.errors import InputError
from empirical.intervention.loss import next_token_losses
from empirical.tap.decoder import decoder_of
from empirical.tap.interface import whole_products
from empirical.tap.parity import parity
from empirical.tap.tap import TappedLayer, tap


def read(model: PreTrainedModel) -> list[torch.Tensor]:
    """Weights and values of every layer, last hidden states and losses."""
    found: list[TappedLayer] = []
    ids = tokens(1, 40)
    hidden = tap(model, ids, found.append)
    losses = next_token_losses(model, hidden, ids)
    return [*(one for layer in found for one in (layer.alpha, layer.values)), hidden, losses]


def assert_same(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_oss"])
def test_autocast_around_a_measurement_changes_nothing(family: str, kind: torch.dtype) -> None:
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
    """What PyTorch allows for products of float32, by its older switches and by those of
    backends.
    """
    backends = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
    return (
        torch.get_float32_matmul_precision(),
        torch.backends.cuda.matmul.allow_tf32,
        *(backend.fp32_precision for backend in backends),
    )


@pytest.mark.parametrize("later", ["ieee", "tf32"])
def test_a_precision_that_is_set_for_all_backends_goes_on_to_hold(later: str) -> None:
    every = torch.backends
    try:
        for backend in (every.cuda.matmul, every.mkldnn.matmul):
            backend.fp32_precision = "none"
        every.fp32_precision = "tf32"
        with whole_products():
            assert every.cuda.matmul.fp32_precision == every.mkldnn.matmul.fp32_precision == "ieee"
        every.fp32_precision = later
        assert every.cuda.matmul.fp32_precision == every.mkldnn.matmul.fp32_precision == later
    finally:
        every.fp32_precision = "none"


@pytest.mark.usefixtures("coarse")
def test_products_of_float32_are_whole_whatever_the_caller_allows() -> None:
    model = tiny("llama")
    inside: list[Any] = []
    hook = model.model.norm.register_forward_hook(lambda *given: inside.append(precisions()))
    found = read(model)
    hook.remove()
    assert inside == [("highest", False, "ieee", "ieee")]
    assert precisions() == ("medium", True, "tf32", "bf16")
    torch.set_float32_matmul_precision("highest")
    assert_same(found, read(model))


def test_a_model_with_an_autocast_of_its_own_is_refused() -> None:
    model = tiny("llama")
    model.model.forward = torch.autocast("cpu", dtype=torch.bfloat16)(model.model.forward)
    with pytest.raises(
        InputError, match=r"computes in torch\.bfloat16, but the model's weights are"
    ):
        read(model)


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


@pytest.mark.parametrize("part", COMPILED)
def test_what_was_compiled_runs_as_it_is_written(part: str) -> None:
    model = tiny("llama")
    expected = read(model)
    COMPILED[part](model)
    stance = torch._dynamo.eval_frame._stance
    assert_same(read(model), expected)
    assert torch._dynamo.eval_frame._stance == stance


def test_the_compiler_s_stance_is_put_back_after_threads() -> None:
    import torch._dynamo

    models = [tiny("llama") for _ in range(4)]
    for model in models:
        model.model.compile(backend="eager")
    stance = torch._dynamo.eval_frame._stance
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(read, models):
            assert_same(found, read(models[0]))
    assert torch._dynamo.eval_frame._stance == stance


def test_a_model_that_wants_more_than_text_is_quoted() -> None:
    with pytest.raises(InputError, match=r"xmod: its own forward ended in ValueError: Input lang"):
        tap(tiny_of("XmodForCausalLM"), tokens(1, 20), lambda layer: None)
    deepseek = tiny_of("DeepseekV3ForCausalLM", num_key_value_heads=2)
    with pytest.raises(InputError, match=r"deepseek_v3: its own forward ended in RuntimeError: "):
        parity(deepseek, tokens(1, 20))
    with pytest.raises(InputError, match=r"musicgen_decoder: its own forward ended in RuntimeErr"):
        tap(tiny_of("MusicgenForCausalLM"), tokens(1, 20), lambda layer: None)


class Odd(Exception):
    """An error that no library has."""


@pytest.mark.parametrize(
    "error", [KeyError("sliding_attention"), RecursionError("too\ndeep"), Odd(), MemoryError("all")]
)
@pytest.mark.parametrize("place", ["decoder", "layer", "attention", "mask"])
def test_whatever_a_model_raises_is_told_in_one_line(place: str, error: Exception) -> None:
    model = tiny("llama")
    places = {
        "decoder": model.model,
        "layer": model.model.layers[1],
        "attention": model.model.layers[1].self_attn,
        "mask": model.model.rotary_emb,
    }

    def fail(*given: object, **keywords: object) -> None:
        raise error

    places[place].forward = fail
    with pytest.raises(InputError, match=f"ended in {type(error).__name__}: ") as caught:
        tap(model, tokens(1, 20), lambda layer: None)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is error
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("error", [KeyError("mine"), RuntimeError("mine"), OSError("mine")])
def test_what_who_measures_raises_is_not_the_model_s(error: Exception) -> None:
    def fail(layer: TappedLayer) -> None:
        raise error

    with pytest.raises(type(error), match="mine"):
        tap(tiny("llama"), tokens(1, 20), fail)


def test_a_forward_that_is_cut_off_is_no_error_of_the_model() -> None:
    from empirical.tap.from_layer import below

    assert below(decoder_of(tiny("llama")), tokens(1, 20), None, 2).layer == 2
