"""Models and documents in memory: lent and given back as they were, told by their weights."""

import re
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from support.families import FAMILIES, letters, tiny

from empirical.errors import InputError
from empirical.sources.digests import config_sha256, weights_sha256
from empirical.sources.given import documents, held, is_text, tokenizer_of
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


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize(
    ("around", "family", "target"),
    [("PeftModelForCausalLM", "gemma", "q_proj"), ("PeftMixedModel", "phi3", "qkv_proj")],
)
def test_so_is_one_around_another_family_or_among_mixed_adapters(
    around: str, family: str, target: str
):
    import peft

    targets = {"target_modules": [target], "task_type": "CAUSAL_LM"}
    config = peft.LoraConfig(**targets, alora_invocation_tokens=[5, 6])
    with pytest.raises(InputError, match=r"its adapter begins at tokens .* \(activated LoRA\)"):
        held(getattr(peft, around)(tiny(family), config))


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
    [
        *[("two words", True), ("one\n", True), ("x " * 5000, True), ("word", False), ("", False)],
        ("注意力头选择权重最大的词。" * 3, True),
        ("頭は重みの大きい語を選びます。" * 60, True),
        ("หัวความสนใจเลือกคำ" * 2, True),
        ("ຫົວຄວາມສົນໃຈເລືອກຄຳທີ່ມີນ້ຳໜັກຫຼາຍທີ່ສຸດ", True),
        ("ក្បាលយកចិត្តទុកដាក់ជ្រើសរើសពាក្យធ្ងន់បំផុត", True),
        ("ពាក្យ\u200bពាក្យ", True),
        ("Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz", True),
        ("https://example.org/" + "a/" * 400, True),
        ("https://example.org/a.txt", True),
        ("a" * 300, True),
        ("笔记/第一章.txt", False),
        ("notes/absent.jsonl", False),
        ("/absent/" + "a" * 100, False),
        ("../" + "a" * 100, False),
        ("a" * 100 + ".txt", False),
        ("absent\\notes", False),
        ("a\ud800b.txt", False),
    ],
)
def test_a_text_is_told_from_a_path(text: str, is_one: bool):
    assert is_text(text) == is_one


IDS = [(5, 6, 7), (8, 9, 10, 11)]
PADDED = np.array([[5, 6, 7, 0], [8, 9, 10, 11]])
MASK = np.array([[1, 1, 1, 0], [1, 1, 1, 1]])
TEXTS = ["one", "two words"]


def records(*names: str) -> list[dict[str, object]]:
    columns = {"input_ids": PADDED, "attention_mask": MASK, "text": TEXTS}
    return [{name: columns[name][row] for name in names} for row in range(2)]


@pytest.mark.parametrize(
    "given",
    [
        transformers.BatchEncoding({"input_ids": [[*row] for row in IDS]}),
        transformers.BatchEncoding(
            {"input_ids": torch.tensor(PADDED), "attention_mask": torch.tensor(MASK)}
        ),
        {"attention_mask": MASK == 1, "input_ids": PADDED, "labels": None},
        pd.DataFrame({"text": TEXTS, "input_ids": [[*row] for row in IDS]}, index=[7, 9]),
        pd.DataFrame(records("input_ids", "attention_mask")),
        pd.Series([[*row] for row in IDS], index=["a", "b"]),
        datasets.Dataset.from_list(records("input_ids", "attention_mask")),
        datasets.Dataset.from_list(records("input_ids", "attention_mask")).with_format("torch"),
        records("input_ids", "attention_mask", "text"),
        (one for one in IDS),
        iter([{"input_ids": torch.tensor([row])} for row in IDS]),
        [transformers.BatchEncoding({"input_ids": [*row]}) for row in IDS],
        (np.array(row, dtype=np.uint64) for row in IDS),
        [{"input_ids": PADDED, "attention_mask": MASK}],
    ],
    ids=lambda given: type(given).__name__,
)
def test_what_a_tokenizer_or_a_table_gives_is_token_ids_without_padding(given: object):
    assert [one.token_ids for one in documents(given)] == IDS


@pytest.mark.parametrize(
    "given",
    [
        {"text": TEXTS},
        pd.DataFrame(records("text")),
        pd.DataFrame(records("text"))["text"].tolist()[:0] + records("text"),
        datasets.Dataset.from_list(records("text")),
        ({"text": text} for text in TEXTS),
    ],
    ids=lambda given: type(given).__name__,
)
def test_texts_of_a_table_are_texts_of_one_word_too(given: object):
    read = list(documents(given))
    assert [(one.name, one.text) for one in read] == [
        (f"document {number}", text) for number, text in enumerate(TEXTS)
    ]


def masked(mask: object, said: str, ids: object = ([1, 2],)) -> tuple[object, str]:
    return {"input_ids": ids, "attention_mask": mask}, said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ids": [[1]], "a": 1}, "document 0: is dict of ids, a, expected input_ids or 'text'"),
        ({}, "document 0: is dict of nothing, expected input_ids"),
        (pd.DataFrame({"body": TEXTS}), "document 0: is DataFrame of body, expected input_ids"),
        ([[1, 2], {"a": 1}], "document 1: is dict of a, expected input_ids"),
        ({"text": ["a b", float("nan")]}, "document 1: field 'text' is of type float"),
        ({"text": ["a \ud800"]}, "document 0: field 'text': character 2 is half of one"),
        ({"input_ids": [[1, -1]]}, "document 0: is list, expected a text, a path, or token ids"),
        ({"input_ids": [[[1]], [[2]]]}, "document 0: is list, expected a text, a path, or token"),
        ({"input_ids": None}, "document 0: is NoneType, expected a text, a path, or token ids"),
        masked([[1]], "has 2 token ids, and an attention_mask of shape (1,)"),
        masked(1, "has 2 token ids, and an attention_mask of shape ()"),
        masked(torch.ones(1, 1, 2, 2), "an attention_mask of shape (1, 2, 2)"),
        masked([[[1], [1, 1]]], "an attention_mask of other numbers than zeros and ones"),
        masked([[0.0, -3e38]], "an attention_mask of other numbers than zeros and ones"),
        masked([[1, 0, 1]], "an attention_mask that hides tokens within the text", [[5, 6, 7]]),
        masked(
            [[1, 1]], "document 0: input_ids has 2 rows, its attention_mask 1,", [[1, 2], [3, 4]]
        ),
        masked([1.0], "an attention_mask of shape (1,)", [1, 2]),
        masked(torch.ones(1, 2, device="meta"), "has 2 token ids, and "),
        ([[[1], [2, 3]]], "document 0: is list, expected a text, a path, or token ids"),
        ([torch.zeros(3, dtype=torch.bfloat16)], "document 0: is Tensor of shape (3,), expected"),
        ([torch.zeros(3, device="meta").int()], "document 0: is Tensor of shape (3,), expected"),
        ([np.array([1, 2**31])], "document 0: is ndarray of shape (2,), expected a text"),
        ([[2**70]], "document 0: is list, expected a text, a path, or token ids"),
        ([1, 2, 3], "document 0: is int, expected a text, a path, or token ids"),
        (b"bytes", "document 0: is int, expected a text, a path, or token ids"),
        (object(), "documents: is object, expected texts, paths or rows of token ids"),
        (torch.tensor(3), "documents: is Tensor, expected texts, paths or rows of token ids"),
    ],
)
def test_what_holds_no_documents_is_named(given: object, said: str):
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        list(documents(given))
    assert "no such file" not in str(caught.value)


class Processor:
    """As those of multimodal models, whose first argument is images."""

    def __init__(self) -> None:
        self.tokenizer = letters()

    def __call__(self, images: object) -> None:
        raise ValueError("Incorrect image source")


def test_a_processor_gives_its_tokenizer_and_what_is_none_of_transformers_is_refused():
    processor = Processor()
    assert tokenizer_of(processor) is processor.tokenizer
    assert tokenizer_of(processor.tokenizer) is processor.tokenizer
    assert tokenizer_of(None) is None
    bare = processor.tokenizer.backend_tokenizer
    for one in (bare, "gpt2", str.split, transformers.AutoTokenizer, 3):
        with pytest.raises(InputError, match=r"is no tokenizer of transformers, expected one"):
            tokenizer_of(one)


@pytest.mark.parametrize(
    "one", [np.zeros((2, 3), dtype=int), np.array([0.5]), [-1, 2], None, [["a"]]]
)
def test_what_is_no_document_is_refused(one: object):
    with pytest.raises(
        InputError, match=r"^document 0: is .* expected a text, a path, or token ids"
    ):
        list(documents([one]))
