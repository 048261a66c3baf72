"""Untrained control: initial weights of every family, few layers, each kind among them."""

import pytest
import torch
from support.families import FAMILIES, tiny, tokens
from transformers import PreTrainedConfig

from empirical.errors import InputError
from empirical.sources.given import HeldModel
from empirical.sources.untrained import untrained
from empirical.tap.tap import tap


def control(family: str, seed: int = 0) -> HeldModel:
    config = tiny(family).config
    return untrained(config, layers=3, seed=seed, dtype=torch.float32, device="cpu")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_an_untrained_model_that_can_be_tapped(family):
    held, config = control(family), tiny(family).config
    layers: list[int] = []
    with torch.no_grad():
        tap(held.decoder, tokens(1, 24), lambda layer: layers.append(layer.index))
    assert layers == [0, 1, 2]
    assert config.num_hidden_layers == 4
    kinds = getattr(config, "layer_types", None) or []
    assert set(getattr(held.config, "layer_types", None) or []) == set(kinds)


def test_weights_are_those_of_the_seed_and_not_of_the_model():
    trained = tiny("llama")
    held = [control("llama", seed) for seed in (0, 0, 1)]
    first, again, other = (one.decoder.layers[0].self_attn.v_proj.weight for one in held)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    # Initial weights have the standard deviation of the configuration.
    assert float(first.std()) == pytest.approx(trained.config.initializer_range, rel=0.1)


def test_random_numbers_of_the_caller_are_left_alone():
    config = tiny("llama").config
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    untrained(config, layers=1, seed=0, dtype=torch.float32, device="cpu")
    assert torch.equal(torch.rand(2), expected)


def test_an_architecture_unknown_to_transformers_is_refused_in_a_line():
    class OwnConfig(PreTrainedConfig):
        num_hidden_layers = 2

    with pytest.raises(InputError, match=r"OwnConfig: .* Use --control none\.$"):
        untrained(OwnConfig(), layers=1, seed=0, dtype=torch.float32, device="cpu")
