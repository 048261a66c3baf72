"""What parity compares where eager's weights are not the whole story."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.every_decoder import tiny_of
from support.families import tiny, tokens

import empirical.tap.tap as tap_module
from empirical.errors import InputError
from empirical.tap.attention import Scoring, analysed_row
from empirical.tap.parity import parity, refuse_other_forward

BEHIND = ["GraniteSWAForCausalLM", "GraniteMoeSWAForCausalLM"]


@pytest.mark.parametrize("sink", [-8.0, 0.0, 1.0, 6.0])
@pytest.mark.parametrize("name", [*BEHIND, "GptOssForCausalLM"])
def test_a_sink_behind_the_softmax_is_no_difference(name: str, sink: float) -> None:
    model = tiny_of(name)
    for place, weight in model.named_parameters():
        if place.endswith("sinks"):
            weight.add_(sink)
    parity(model, tokens(2, 60), queries=torch.tensor([[20, 59], [5, 59]])).judge("float32")


@pytest.mark.parametrize("name", BEHIND)
def test_a_sink_that_the_tap_loses_is_a_difference(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Without(Scoring):
        def __init__(self, scaling: float, softcap: Any = None, sinks: Any = None) -> None:
            super().__init__(scaling, softcap, None if sinks is None else sinks - 1)

    monkeypatch.setattr("empirical.tap.interface.Scoring", Without)
    with pytest.raises(InputError, match="tapped weights differ from eager attention"):
        parity(tiny_of(name), tokens(1, 60)).judge("float32")


@pytest.mark.parametrize("name", BEHIND)
def test_a_wrong_row_beside_a_sink_is_a_difference(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        tap_module, "analysed_row", lambda *given: analysed_row(*given).roll(-1, dims=-1)
    )
    with pytest.raises(InputError, match="tapped weights differ from eager attention"):
        parity(tiny_of(name), tokens(1, 60)).judge("float32")


class Around(torch.nn.Module):
    """A module that holds a model, and gives it something else than the tokens."""

    def __init__(self, change: str) -> None:
        super().__init__()
        self.inside, self.change = tiny("llama"), change

    def get_decoder(self) -> torch.nn.Module:
        return self.inside.get_decoder()

    def forward(self, input_ids: torch.Tensor, **keywords: Any) -> Any:
        embedded = self.inside.get_input_embeddings()(input_ids)
        if self.change == "virtual tokens":
            embedded = torch.cat([embedded[:, :2], embedded], dim=1)
        if self.change == "noise":
            embedded = embedded + 0.1
        if self.change == "positions":
            keywords["position_ids"] = torch.arange(7, 7 + 2 * input_ids.shape[1], 2)[None]
        if self.change == "bidirectional":
            length = input_ids.shape[1]
            keywords["attention_mask"] = torch.zeros(1, 1, length, length)
        if self.change == "refuses":
            raise ValueError("no")
        return self.inside(inputs_embeds=embedded, **keywords)


@pytest.mark.parametrize("change", ["virtual tokens", "noise", "positions", "bidirectional"])
def test_a_model_that_gives_its_decoder_more_than_tokens_is_refused(change: str) -> None:
    model = Around(change)
    with pytest.raises(InputError, match="model=Around: its own forward gives other hidden states"):
        refuse_other_forward(model, model.get_decoder())
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("change", ["", "refuses"])
def test_a_model_that_hands_tokens_on_or_cannot_be_asked_is_not_refused(change: str) -> None:
    model = Around(change)
    refuse_other_forward(model, model.get_decoder())
    refuse_other_forward(model.get_decoder(), model.get_decoder())
