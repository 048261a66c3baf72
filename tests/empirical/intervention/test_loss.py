"""Next-token losses against the model's own, in every family."""

from typing import Any

import pytest
import torch
import transformers
from support.families import FAMILIES, OTHERS, tiny, tokens
from torch.nn.functional import cross_entropy

from empirical.errors import InputError
from empirical.intervention import loss as loss_module
from empirical.intervention.loss import logits_of, next_token_losses, refuse_other_logits
from empirical.tap.interface import forward


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_losses_match_the_models_logits(family, monkeypatch):
    model, ids = tiny(family), tokens(2, 60)
    with torch.no_grad():
        own = model(input_ids=ids, use_cache=False).logits
    hidden = forward(model.get_decoder(), ids, None)
    assert torch.equal(logits_of(model, hidden), own)
    expected = cross_entropy(own[:, :-1].double().transpose(1, 2), ids[:, 1:], reduction="none")
    monkeypatch.setattr(loss_module, "LOGITS", 2 * 97 * 7)  # seven positions at a time
    for targets in (None, 1, 20):
        found = next_token_losses(model, hidden, ids, targets)
        wanted = expected if targets is None else expected[:, -targets:]
        torch.testing.assert_close(found.double(), wanted, atol=1e-5, rtol=1e-6)
        assert float(found.double().mean()) == pytest.approx(float(wanted.mean()), abs=1e-6)


@pytest.mark.parametrize("own", [False, True])
def test_the_decoder_is_restored(own):
    model, ids = tiny("llama"), tokens(1, 20)
    hidden = forward(model.get_decoder(), ids, None)
    decoder = model.get_decoder()
    if own:  # as accelerate leaves one that is spread over devices
        decoder.forward = decoder.forward
    before = vars(decoder).get("forward")
    logits_of(model, hidden)
    assert vars(decoder).get("forward") is before
    with pytest.raises(InputError, match="llama: its forward pass raised RuntimeError: mat1 and"):
        logits_of(model, hidden[..., :3])
    assert vars(decoder).get("forward") is before


def test_models_without_a_loss_are_refused():
    model, ids = tiny("llama"), tokens(1, 20)
    hidden = forward(model.get_decoder(), ids, None)
    for targets in (0, 20):
        with pytest.raises(InputError, match="a window of 20 tokens has 1 to 19 tokens to predict"):
            next_token_losses(model, hidden, ids, targets)
    with pytest.raises(InputError, match="has no head that predicts tokens"):
        next_token_losses(model.model, hidden, ids)


def packed(model: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear})


def deeper(model: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    model.lm_head = torch.nn.Sequential(torch.nn.Dropout(0.5), model.lm_head)
    return model.eval()


@pytest.mark.filterwarnings("ignore")  # PyTorch's own: its dynamic quantisation is deprecated
@pytest.mark.parametrize("change", [packed, deeper])
def test_other_heads_and_outputs_give_correct_losses(change):
    model, ids = change(tiny("llama")), tokens(1, 30)
    own = model(input_ids=ids, use_cache=False).logits
    hidden = forward(model.get_decoder(), ids, None)
    expected = cross_entropy(own[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")
    torch.testing.assert_close(next_token_losses(model, hidden, ids), expected)


class Twice(transformers.LlamaForCausalLM):
    """A model whose forward adds to its logits what its decoder saw before it."""

    def forward(self, input_ids: torch.Tensor, **more: Any) -> Any:
        output = super().forward(input_ids, **more)
        output.logits = output.logits + 0.1 * torch.nn.functional.one_hot(input_ids, 97)
        return output


def test_a_forward_with_more_than_its_head_is_refused():
    model, ids = tiny("llama"), tokens(1, 30)
    refuse_other_logits(model, ids)
    model.__class__ = Twice
    with pytest.raises(InputError, match="model=Twice: its own forward gives other logits than"):
        refuse_other_logits(model, ids)
