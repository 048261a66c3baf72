"""The tap against transformers' eager attention, family by family, and what it refuses."""

from __future__ import annotations

import copy
import functools
import math
from typing import Any

import pytest
import torch
import transformers
from support.devices import DEVICES
from support.dispatched import Living
from support.families import FAMILIES, OTHERS, WINDOW, builtin_model, tiny, tokens
from support.raising import refused

import empirical.tap.tap as tap_module
from empirical.sources.builtin import topics
from empirical.sources.windows import windows
from empirical.tap.attention import QUERY_BLOCK, Scoring, analysed_row
from empirical.tap.interface import NAME
from empirical.tap.parity import Parity, parity
from empirical.tap.tap import TappedLayer, tap

# Tolerances of float32: the two paths add the same numbers in another order, layer after layer.
ALPHA, LOG_ALPHA, HIDDEN = 1e-5, 1e-3, 2e-5
ROWS = {"atol": 1e-5, "rtol": 1e-4}
SLIDING = dict.fromkeys(("mistral", "phi3"), (0, 1, 2, 3)) | dict.fromkeys(
    ("gemma2", "gemma3", "qwen2", "gpt_oss"), (0, 2)
)


@functools.cache
def model(family: str, device: str = "cpu") -> transformers.PreTrainedModel:
    return tiny(family).to(device)


def layers(
    which: transformers.PreTrainedModel, ids: torch.Tensor, mask: torch.Tensor | None = None
) -> list[TappedLayer]:
    found: list[TappedLayer] = []
    tap(which, ids, found.append, mask)
    return found


def assert_equal(found: Parity) -> None:
    assert found.weights <= ALPHA
    assert found.log_weights <= LOG_ALPHA
    assert found.hidden <= HIDDEN
    assert found.invisible == 0.0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("length", [5, 64, 300])
@pytest.mark.parametrize("documents", [1, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_tap_equals_eager_attention(family: str, documents: int, length: int, device: str):
    assert_equal(parity(model(family, device), tokens(documents, length)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("side", ["left", "right", "both"])
@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt_oss"])
def test_the_tap_equals_eager_attention_under_padding(family: str, side: str, device: str):
    ids, mask = tokens(3, 150), torch.ones(3, 150, dtype=torch.long)
    if side in {"left", "both"}:
        mask[1, :40] = 0
    if side in {"right", "both"}:
        mask[2, -130:] = 0
    assert_equal(parity(model(family, device), ids, mask))


@pytest.mark.parametrize(("family", "kv_heads"), [("deepseek_v3", 4), ("gpt_bigcode", 1)])
def test_the_tap_equals_eager_attention_where_heads_have_other_shapes(family: str, kv_heads: int):
    assert_equal(parity(model(family), tokens(2, 150)))
    assert layers(model(family), tokens(2, 50))[0].values.shape == (2, kv_heads, 50, 16)


@pytest.mark.builtin
@pytest.mark.parametrize("length", [300, pytest.param(1025, marks=pytest.mark.slow)])
def test_the_tap_equals_eager_attention_in_the_built_in_model(length: int):
    found = windows(topics(), builtin_model().tokenizer, length=length, count=1)
    assert_equal(parity(builtin_model().model, torch.as_tensor(found.token_ids, dtype=torch.long)))


# Eager attention in float32 with metrics in float64 loops, an implementation that shares nothing
# with this one: means over 30 layers, 9 heads and six topics of Python 3.11.7, 1,025 tokens each.
# The weights are summed in another order, hence 1e-6.
SINK_WEIGHT = 0.2793915130171764
COMPOUND_SHA256 = "e83a43bdc52fde4f3c521eb1b6b02fa550163642a9c71f9a3a1e45a6758f7d02"


@pytest.mark.slow
@pytest.mark.builtin
def test_the_mean_sink_weight_matches_the_published_value():
    found = windows(topics(), builtin_model().tokenizer, length=1025, count=6)
    if found.text_sha256[-1] != COMPOUND_SHA256:
        pytest.skip("another Python has another text")
    weights = [
        float(layer.alpha[..., 0].mean())
        for row in torch.as_tensor(found.token_ids, dtype=torch.long)
        for layer in layers(builtin_model().model, row[None])
    ]
    assert sum(weights) / len(weights) == pytest.approx(SINK_WEIGHT, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_rows_of_a_softmax_over_the_visible_positions(family: str):
    for layer in layers(model(family), tokens(2, 300)):
        sliding = layer.index in SLIDING.get(family, ())
        assert layer.visible.sum(dim=-1).tolist() == [[WINDOW if sliding else 300]] * 2
        assert bool(layer.visible[:, :, -1].all())
        assert layer.alpha.shape == (2, 1, 4, 300)
        assert layer.alpha.dtype == layer.values.dtype == torch.float32
        assert layer.values.shape == (2, 4 if family == "gpt2" else 2, 300, 16)
        assert bool((layer.alpha[~layer.visible[:, :, None].expand(-1, -1, 4, -1)] == 0).all())
        total = layer.alpha.sum(dim=-1)
        if family == "gpt_oss":
            assert bool((total < 1).all())
        else:
            torch.testing.assert_close(total, torch.ones(2, 1, 4), atol=1e-6, rtol=0)


def test_the_tiny_models_attend_far_from_uniformly():
    # Otherwise the parity tests could not tell a wrong scaling, mask or soft-cap.
    for family in FAMILIES:
        found = layers(model(family), tokens(2, 300))
        peaks = [layer.alpha.amax(-1) * layer.visible.sum(-1)[..., None] for layer in found]
        assert float(torch.stack(peaks).mean()) > 4, family


def test_values_match_the_layer_and_layers_come_in_order():
    llama = model("llama")
    projected: list[torch.Tensor] = []
    hooks = [
        layer.self_attn.v_proj.register_forward_hook(lambda *args: projected.append(args[2]))
        for layer in llama.model.layers
    ]
    found = layers(llama, tokens(2, 40))
    for hook in hooks:
        hook.remove()
    assert [layer.index for layer in found] == [0, 1, 2, 3]
    for layer, values in zip(found, projected, strict=True):
        assert torch.equal(layer.values, values.view(2, 40, 2, 16).transpose(1, 2))


def test_the_analysed_query_of_a_padded_document_is_its_last_token():
    ids = tokens(2, 60)
    mask = torch.ones(2, 60, dtype=torch.long)
    mask[0, 45:] = 0
    shorter = layers(model("llama"), ids[:1, :45])
    for padded, alone in zip(layers(model("llama"), ids, mask), shorter, strict=True):
        torch.testing.assert_close(padded.alpha[0, 0, :, :45], alone.alpha[0, 0], **ROWS)
        assert not bool(padded.alpha[0, 0, :, 45:].any())
        assert padded.visible[0, 0].tolist() == [True] * 45 + [False] * 15


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_analysed_query_equals_eager_attention(family: str, device: str):
    queries = torch.tensor([[7, 40, 89], [0, 60, 61]])
    assert_equal(parity(model(family, device), tokens(2, 90), queries=queries))


def test_rows_of_several_queries_equal_rows_as_the_last_query():
    ids = tokens(1, 60)
    several: list[TappedLayer] = []
    tap(model("llama"), ids, several.append, queries=torch.tensor([[44, 59]]))
    alone = [layers(model("llama"), ids[:, :45]), layers(model("llama"), ids)]
    for both, shorter, whole in zip(several, *alone, strict=True):
        torch.testing.assert_close(both.alpha[0, 0, :, :45], shorter.alpha[0, 0], **ROWS)
        assert not bool(both.alpha[0, 0, :, 45:].any())
        assert torch.equal(both.alpha[0, 1], whole.alpha[0, 0])
        assert both.visible.sum(-1).tolist() == [[45, 60]]


@pytest.mark.parametrize(
    "queries", [torch.tensor([[60]]), torch.tensor([[-1]]), torch.tensor([3]), torch.zeros(1, 0)]
)
def test_invalid_queries_are_refused(queries: torch.Tensor):
    with refused(r"expected \(document, query\) positions from 0 to 59"):
        tap(model("llama"), tokens(1, 60), lambda layer: None, queries=queries)


def test_a_mask_without_padding_changes_nothing():
    ids = tokens(2, 60)
    found = layers(model("llama"), ids, torch.ones(2, 60))
    for masked, plain in zip(found, layers(model("llama"), ids), strict=True):
        assert torch.equal(masked.alpha, plain.alpha)


def test_hidden_states_are_bit_for_bit_those_of_the_fused_kernel():
    llama, ids = model("llama"), tokens(2, 200)
    with torch.no_grad():
        plain = llama.model(input_ids=ids, use_cache=False).last_hidden_state
    assert torch.equal(tap(llama, ids, lambda layer: None), plain)
    assert torch.equal(tap(llama.model, ids, lambda layer: None), plain)


def test_a_bfloat16_model_gives_float32_rows():
    half = copy.deepcopy(model("llama")).to(torch.bfloat16)
    for layer in layers(half, tokens(1, 100)):
        assert layer.alpha.dtype == layer.values.dtype == torch.float32
        # bfloat16 keeps 8 bits: rows rounded to it would miss 1 by up to 4e-3.
        torch.testing.assert_close(layer.alpha.sum(-1), torch.ones(1, 1, 4), atol=1e-6, rtol=0)


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_no_weights_of_all_queries_ever_exist(family: str):
    length, heads = 512, 4
    with Living() as tapped:
        tap(model(family), tokens(1, length), lambda layer: None)
    assert tapped.entries <= max(length**2, heads * QUERY_BLOCK * (length + 1))
    reference = copy.deepcopy(model(family))
    reference.set_attn_implementation("eager")
    with Living() as eager, torch.no_grad():
        reference.get_decoder()(input_ids=tokens(1, length), use_cache=False)
    assert eager.entries >= heads * length**2


def test_a_row_is_softmax_of_scaled_capped_scores_without_the_sink():
    query = torch.tensor([[[2.0], [1.0]]])
    key = torch.tensor([[[[1.0], [3.0], [2.0]]]])
    scoring = Scoring(scaling=0.5, softcap=2.0, sinks=torch.tensor([0.3, -0.7]))
    row = analysed_row(query, key, torch.tensor([[True, False, True]]), scoring)
    for head, (q, sink) in enumerate([(2.0, 0.3), (1.0, -0.7)]):
        scores = [2.0 * math.tanh(q * k * 0.5 / 2.0) for k in (1.0, 2.0)]
        total = math.fsum(map(math.exp, [*scores, sink]))
        expected = [math.exp(scores[0]) / total, 0.0, math.exp(scores[1]) / total]
        assert row[0, head].tolist() == pytest.approx(expected, abs=1e-7)
        assert float(row[0, head, 1]) == 0.0


@pytest.mark.parametrize("before", ["sdpa", "eager"])
def test_the_implementation_is_restored_even_after_an_error(before: str):
    gemma = copy.deepcopy(model("gemma3"))
    gemma.set_attn_implementation(before)

    def stop(layer: TappedLayer) -> None:
        assert gemma.config._attn_implementation == NAME
        if layer.index == 2:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        tap(gemma, tokens(1, 20), stop)
    assert gemma.config._attn_implementation == before
    assert_equal(parity(gemma, tokens(1, 20)))
    assert gemma.config._attn_implementation == before
    assert not any(module._forward_hooks for module in gemma.modules())


def test_a_tap_inside_a_tap_keeps_the_outer_one():
    inner: list[int] = []
    outer: list[int] = []

    def nested(layer: TappedLayer) -> None:
        outer.append(layer.index)
        tap(model("qwen2"), tokens(1, 10), lambda found: inner.append(found.index))

    tap(model("llama"), tokens(1, 20), nested)
    assert outer == [0, 1, 2, 3]
    assert inner == [0, 1, 2, 3] * 4


def test_parity_sees_a_wrong_weight_and_the_layer_it_is_in(monkeypatch: pytest.MonkeyPatch):
    calls = 0

    def wrong(*args: Any, **keywords: Any) -> torch.Tensor:
        nonlocal calls
        calls += 1
        row = analysed_row(*args, **keywords)
        return row.roll(-1, dims=-1) if calls == 3 else row

    monkeypatch.setattr(tap_module, "analysed_row", wrong)
    found = parity(model("mistral"), tokens(1, 100))
    assert found.layer == 2
    assert found.weights > 0.01
    assert found.invisible > 0.0  # the window's first weight now stands before the window
    assert found.hidden <= HIDDEN
