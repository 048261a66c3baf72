"""Models and documents in memory: lent and given back as they were, told by their weights."""

from pathlib import Path

import numpy as np
import pytest
import torch
from support.families import FAMILIES, letters, tiny

from empirical.errors import InputError
from empirical.sources.digests import config_sha256, weights_sha256
from empirical.sources.given import documents, held, is_text
from empirical.sources.models import find


class Wrapped(torch.nn.Module):
    """A user's own module around a model."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.inside = model
        self.probe = torch.nn.Linear(4, 2)

    def get_decoder(self) -> torch.nn.Module:
        return self.inside.get_decoder()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_of_each_family_is_measured_as_one_that_was_saved(family: str, tmp_path: Path):
    model = tiny(family)
    model.save_pretrained(tmp_path)
    letters(bos=True).save_pretrained(tmp_path)
    saved = find(str(tmp_path)).load()
    with held(Wrapped(model)).lent() as lent:
        for name in ("family", "layers", "heads", "kv_heads", "dimension", "sliding_window"):
            assert getattr(lent, name) == getattr(saved, name), name
        assert lent.dtype == "float32"
        assert lent.tokenizer is None


@pytest.mark.parametrize("family", FAMILIES)
def test_every_module_gets_its_own_mode_back_also_after_an_error(family: str):
    model = tiny(family).train().requires_grad_(True)
    list(model.modules())[5].eval()
    before = {name: module.training for name, module in model.named_modules()}
    implementation = model.config._attn_implementation
    with held(model).lent() as lent:
        assert not any(module.training for module in lent.model.modules())
    assert {name: module.training for name, module in model.named_modules()} == before
    with pytest.raises(RuntimeError, match="stop"), held(model).lent():
        raise RuntimeError("stop")
    assert {name: module.training for name, module in model.named_modules()} == before
    assert model.config._attn_implementation == implementation
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_weights_are_told_by_name_type_shape_and_bytes():
    model = tiny("llama")
    first = weights_sha256(model)
    assert weights_sha256(tiny("llama")) == first
    assert weights_sha256(tiny("llama").bfloat16()) != first
    like = torch.nn.Linear(2, 3, bias=False)
    turned = torch.nn.Linear(3, 2, bias=False)
    turned.weight.data = like.weight.data.reshape(2, 3)
    as_whole = torch.nn.Module()
    as_whole.register_buffer("weight", like.weight.data.view(torch.int32))
    named = torch.nn.Sequential(like)
    assert len({weights_sha256(one) for one in (like, turned, as_whole, named)}) == 4
    with torch.no_grad():
        model.model.norm.weight[0] += 1
    assert weights_sha256(model) != first
    with held(tiny("llama")).lent() as one, held(tiny("llama"), hashed=False).lent() as other:
        assert one.sha256 == weights_sha256(one.model)
        assert other.sha256 is None


def test_a_configuration_is_told_by_what_moves_numbers():
    first = config_sha256(tiny("llama").get_decoder())
    same, other = tiny("llama").get_decoder(), tiny("llama").get_decoder()
    same.config.name_or_path, same.config.use_cache = "elsewhere", False
    same.config._attn_implementation = "eager"
    assert config_sha256(same) == first
    other.config.rope_parameters["rope_theta"] = 500.0
    assert config_sha256(other) != first


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
def test_adapters_of_peft_are_part_of_the_model():
    import peft

    model = tiny("llama")
    plain = weights_sha256(model.get_decoder())
    config = peft.LoraConfig(target_modules=["v_proj"], init_lora_weights=False)
    adapted = peft.get_peft_model(model, config, adapter_name="one")
    adapted.add_adapter("two", config)
    told = []
    for name in ("one", "two", "one"):
        adapted.set_adapter(name)
        with held(adapted).lent() as lent:
            assert lent.layers == 4
            assert lent.sha256 != plain
            told.append((lent.sha256, lent.config_sha256))
    assert told[0] == told[2] != told[1]
    assert told[0][0] == told[1][0], "the weights hold both"
    with adapted.disable_adapter(), held(adapted).lent() as lent:
        assert lent.config_sha256 not in {config for _, config in told}


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("kind", ["PrefixTuningConfig", "PromptTuningConfig"])
def test_virtual_tokens_before_a_text_are_refused(kind: str):
    import peft

    config = getattr(peft, kind)(task_type="CAUSAL_LM", num_virtual_tokens=4)
    with pytest.raises(InputError, match="reads virtual tokens before each text"):
        held(peft.get_peft_model(tiny("llama"), config))


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("active", [["invoked"], ["plain", "invoked"], ["invoked", "plain"]])
def test_an_adapter_that_tokens_invoke_is_refused(active: list[str]):
    import peft

    targets = {"target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
    model = peft.get_peft_model(tiny("llama"), peft.LoraConfig(**targets), adapter_name="plain")
    held(model)
    model.add_adapter("invoked", peft.LoraConfig(**targets, alora_invocation_tokens=[5, 6]))
    model.base_model.set_adapter(active)
    model.active_adapter = active[0]
    with pytest.raises(InputError, match=r"its adapter begins at tokens .* \(activated LoRA\)"):
        held(model)


def test_weights_that_are_not_in_memory_cannot_be_hashed():
    model = tiny("llama")
    model.model.layers[1].mlp.up_proj.to("meta")
    with pytest.raises(
        InputError, match=r"mlp.up_proj.weight is not in memory.*hash_weights=False"
    ):
        weights_sha256(model)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (torch.nn.Linear(2, 2), "model=Linear: has no decoder of transformers"),
        (Wrapped(Wrapped(tiny("llama").double())), "its weights are float64, expected one of"),
    ],
)
def test_what_is_no_model_of_a_known_type_is_refused(model: torch.nn.Module, said: str):
    with pytest.raises(InputError, match=said), held(model).lent():
        pass


def test_documents_are_texts_paths_and_token_ids_in_their_order(tmp_path: Path):
    file = tmp_path / "with space.txt"
    file.write_text("from a file")
    given = ["a text", file, str(file), np.arange(5), torch.tensor([3, 4]), [7, 8, 9]]
    read = list(documents(given))
    assert [one.name for one in read[:1]] == ["document 0"]
    assert [one.text for one in read[:3]] == ["a text", "from a file", "from a file"]
    assert [one.token_ids for one in read[3:]] == [(0, 1, 2, 3, 4), (3, 4), (7, 8, 9)]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("two words", True), ("one\n", True), ("x " * 5000, True), ("word", False), ("", False)],
)
def test_a_text_is_told_from_a_path(text: str, is_one: bool):
    assert is_text(text) == is_one


@pytest.mark.parametrize(
    "one", [np.zeros((2, 3), dtype=int), np.array([0.5]), [-1, 2], None, [["a"]]]
)
def test_what_is_no_document_is_refused(one: object):
    with pytest.raises(
        InputError, match=r"^document 0: is .* expected a text, a path, or token ids"
    ):
        list(documents([one]))
