"""What parity compares where eager's weights are not the whole story."""

from typing import Any

import pytest
import torch
from support.every_decoder import tiny_of
from support.families import tiny, tokens
from support.raising import refused
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama import modeling_llama
from transformers.models.llama.modeling_llama import eager_attention_forward

from empirical.tap.attention import Scoring, analysed_row
from empirical.tap.parity import parity, refuse_other_forward

BEHIND = ["GraniteSWAForCausalLM", "GraniteMoeSWAForCausalLM"]


@pytest.mark.parametrize("sink", [-8.0, 6.0])
@pytest.mark.parametrize("name", [*BEHIND, "GptOssForCausalLM"])
def test_a_sink_after_the_softmax_is_no_difference(name, sink):
    model = tiny_of(name)
    for place, weight in model.named_parameters():
        if place.endswith("sinks"):
            weight.add_(sink)
    parity(model, tokens(2, 60), queries=torch.tensor([[20, 59], [5, 59]])).judge("float32")


class WeakerSink(Scoring):
    def __init__(self, scaling: float, softcap: Any = None, sinks: Any = None) -> None:
        super().__init__(scaling, softcap, None if sinks is None else sinks - 1)


def rolled(*given: Any) -> torch.Tensor:
    return analysed_row(*given).roll(-1, dims=-1)


@pytest.mark.parametrize(
    ("place", "wrong"), [("interface.Scoring", WeakerSink), ("tap.analysed_row", rolled)]
)
@pytest.mark.parametrize("name", BEHIND)
def test_a_wrong_sink_or_row_is_a_difference(name, place, wrong, monkeypatch):
    monkeypatch.setattr(f"empirical.tap.{place}", wrong)
    with refused("tapped weights differ from eager attention"):
        parity(tiny_of(name), tokens(1, 60)).judge("float32")


def test_a_token_of_zeros_at_the_start_is_no_damage():
    model = tiny("llama")
    model.get_input_embeddings().weight.data[5] = 0.0
    ids = tokens(1, 30)
    ids[0, :1] = 5  # a query that sees itself alone: its hidden states are zero to the end
    parity(model, ids).judge("float32")


class Around(torch.nn.Module):
    """A module that holds a model, and may give it something else than the tokens."""

    def __init__(self, change: str = "late in a text") -> None:
        super().__init__()
        self.inside, self.change = tiny("llama"), change

    def get_decoder(self) -> torch.nn.Module:
        return self.inside.get_decoder()

    def forward(self, input_ids: torch.Tensor, **keywords: Any) -> Any:
        embedded = self.inside.get_input_embeddings()(input_ids).clone()
        length = input_ids.shape[1]
        if self.change == "virtual tokens":
            embedded = torch.cat([embedded[:, :2], embedded], dim=1)
        elif self.change == "noise":
            embedded += 0.1
        elif self.change == "late in a text":
            embedded[:, 20:] += 0.1
        elif self.change == "positions":
            keywords["position_ids"] = torch.arange(7, 7 + 2 * length, 2)[None]
        elif self.change == "bidirectional":
            keywords["attention_mask"] = torch.zeros(1, 1, length, length)
        return self.inside(inputs_embeds=embedded, **keywords)


class TokensAlone(Around):
    """One that does not know of caches."""

    def forward(self, input_ids: torch.Tensor) -> Any:  # type: ignore[override]
        return super().forward(input_ids)


class OtherName(Around):
    def forward(self, ids: torch.Tensor) -> Any:  # type: ignore[override]
        return super().forward(ids)


class Labels(Around):
    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> Any:  # type: ignore[override]
        return super().forward(input_ids)


class Past(Around):
    """One that calls the decoder's forward, and not the decoder."""

    def forward(self, input_ids: torch.Tensor, **keywords: Any) -> Any:
        return self.get_decoder().forward(input_ids=input_ids)


class WithoutForward(Around):
    forward = torch.nn.Module.forward


CHANGES = ["virtual tokens", "noise", "late in a text", "positions", "bidirectional"]
OTHER = "its own forward gives other hidden states"
UNKNOWN = "the inputs that its own forward gives its decoder are unknown"


@pytest.mark.parametrize(
    ("kind", "change", "why"),
    [
        *[(Around, change, OTHER) for change in CHANGES],
        (TokensAlone, "noise", OTHER),
        (OtherName, "noise", OTHER),
        (Labels, "noise", f"{UNKNOWN} .*labels"),
        (Past, "noise", f"{UNKNOWN} .it does not call it"),
    ],
)
def test_a_model_that_may_give_its_decoder_more_than_tokens_is_refused(kind, change, why):
    model = kind(change)
    with refused(f"model={kind.__name__}: {why}"):
        refuse_other_forward(model, model.get_decoder())
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("kind", [Around, WithoutForward])
def test_a_model_that_passes_tokens_on_is_accepted(kind):
    model = kind("")
    refuse_other_forward(model, model.get_decoder())
    refuse_other_forward(model.get_decoder(), model.get_decoder())


def shifted(module: Any, query: Any, key: Any, value: Any, mask: Any, **more: Any) -> Any:
    """Attention with a bias by distance."""
    bias = (0.0 if mask is None else mask) + DISTANCE[: query.shape[2]]
    return eager_attention_forward(module, query, key, value, bias, **more)


DISTANCE = -0.5 * torch.arange(64.0) * torch.ones(64, 1)


def of_its_own(model: Any, patch: pytest.MonkeyPatch) -> None:
    AttentionInterface.register("shifted", shifted)
    AttentionMaskInterface.register("shifted", ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    model.set_attn_implementation("shifted")


def in_the_place_of_another(model: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, "sdpa", shifted)
    patch.setitem(
        ALL_MASK_ATTENTION_FUNCTIONS._global_mapping, "sdpa", ALL_MASK_ATTENTION_FUNCTIONS["eager"]
    )


def masks_of_its_own(model: Any, patch: pytest.MonkeyPatch) -> None:
    own = ALL_MASK_ATTENTION_FUNCTIONS["sdpa"]

    def local(*given: Any, **more: Any) -> Any:
        mask = own(*given, **{**more, "allow_is_causal_skip": False})
        return mask & ~torch.ones_like(mask).tril(-3)

    patch.setitem(ALL_MASK_ATTENTION_FUNCTIONS._global_mapping, "sdpa", local)


def eager_of_its_own(model: Any, patch: pytest.MonkeyPatch) -> None:
    model.set_attn_implementation("eager")
    patch.setattr(modeling_llama, "eager_attention_forward", shifted)


@pytest.mark.parametrize(
    "change", [of_its_own, in_the_place_of_another, masks_of_its_own, eager_of_its_own]
)
def test_custom_attention_is_refused(change, monkeypatch):
    model = tiny("llama")
    change(model, monkeypatch)
    for given in (model, model.get_decoder()):
        with refused("its own attention .* gives other hidden states than that"):
            refuse_other_forward(given, model.get_decoder())


def weaker(*given: Any, **more: Any) -> Any:
    output, weights = eager_attention_forward(*given, **more)
    return 0.9 * output, weights


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_attention_that_differs_by_more_than_kernels_do_is_refused_in_16_bits(
    kind,
):
    AttentionInterface.register("weaker", weaker)
    AttentionMaskInterface.register("weaker", ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    model = tiny("llama").to(kind)
    refuse_other_forward(model, model.get_decoder())
    model.set_attn_implementation("eager")
    refuse_other_forward(model, model.get_decoder())
    model.set_attn_implementation("weaker")
    with refused("its own attention .weaker. gives other hidden states"):
        refuse_other_forward(model, model.get_decoder())
