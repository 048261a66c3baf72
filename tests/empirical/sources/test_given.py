"""Models and documents in memory: lent and given back as they were, keywords by their weights."""

import re
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from support.families import FAMILIES, OTHERS, letters, save, tiny
from support.raising import refused

from empirical.sources.given import documents, held, is_text, tokenizer_of
from empirical.sources.identity import config_sha256, weights_sha256
from empirical.sources.models import find

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")  # of peft


class Wrapped(torch.nn.Module):
    """A user's own module around a model."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.inside = model
        self.probe = torch.nn.Linear(4, 2)

    def get_decoder(self) -> torch.nn.Module:
        return self.inside.get_decoder()


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_a_model_in_memory_equals_the_saved_model_in_every_family(family: str, tmp_path: Path):
    model = tiny(family)
    saved = find(str(save(model, tmp_path))).load()
    with held(Wrapped(model)).loaded() as loaded:
        for name in ("family", "layers", "heads", "kv_heads", "dimension", "sliding_window"):
            assert getattr(loaded, name) == getattr(saved, name), name
        assert loaded.dtype == "float32"
        assert loaded.tokenizer is None


def test_module_modes_are_restored_even_after_an_error():
    model = tiny("gpt_oss").train().requires_grad_(True)
    list(model.modules())[5].eval()
    before = {name: module.training for name, module in model.named_modules()}
    implementation = model.config._attn_implementation
    with held(model).loaded() as loaded:
        assert not any(module.training for module in loaded.model.modules())
    assert {name: module.training for name, module in model.named_modules()} == before
    with pytest.raises(RuntimeError, match="stop"), held(model).loaded():
        raise RuntimeError("stop")
    assert {name: module.training for name, module in model.named_modules()} == before
    assert model.config._attn_implementation == implementation
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_weights_are_identified_by_name_dtype_shape_and_bytes():
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
    with held(tiny("llama")).loaded() as one, held(tiny("llama"), hashed=False).loaded() as other:
        assert one.sha256 == weights_sha256(one.model)
        assert other.sha256 is None


def test_a_configuration_is_identified_by_entries_that_change_numbers():
    first = config_sha256(tiny("llama").get_decoder())
    same, other = tiny("llama").get_decoder(), tiny("llama").get_decoder()
    same.config.name_or_path, same.config.use_cache = "elsewhere", False
    same.config._attn_implementation = "eager"
    assert config_sha256(same) == first
    other.config.rope_parameters["rope_theta"] = 500.0
    assert config_sha256(other) != first


def adapted(
    model: torch.nn.Module, kind: str, around: str = "get_peft_model", **keywords: Any
) -> Any:
    """A model with an adapter of peft."""
    import peft

    return getattr(peft, around)(model, getattr(peft, f"{kind}Config")(**keywords))


def test_adapters_of_peft_are_part_of_the_model():
    plain = weights_sha256(tiny("llama").get_decoder())
    keywords = {"target_modules": ["v_proj"], "init_lora_weights": False}
    model = adapted(tiny("llama"), "Lora", **keywords)
    model.add_adapter("two", model.peft_config["default"])
    seen = []
    for name in ("default", "two", "default"):
        model.set_adapter(name)
        with held(model).loaded() as loaded:
            assert loaded.layers == 4
            assert loaded.sha256 != plain
            seen.append((loaded.sha256, loaded.config_sha256))
    assert seen[0] == seen[2] != seen[1]
    assert seen[0][0] == seen[1][0], "the weights hold both"
    with model.disable_adapter(), held(model).loaded() as loaded:
        assert loaded.config_sha256 not in {config for _, config in seen}


@pytest.mark.parametrize("kind", ["PrefixTuning", "PromptTuning"])
def test_virtual_tokens_before_a_text_are_refused(kind: str):
    with refused("reads virtual tokens before each text"):
        held(adapted(tiny("llama"), kind, task_type="CAUSAL_LM", num_virtual_tokens=4))


INVOKED = r"its adapter begins at tokens .* \(activated LoRA\)"


@pytest.mark.parametrize("active", [["invoked"], ["default", "invoked"], ["invoked", "default"]])
def test_an_adapter_that_tokens_invoke_is_refused(active: list[str]):
    keywords = {"target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
    model = adapted(tiny("llama"), "Lora", **keywords)
    held(model)
    config = type(model.peft_config["default"])(**keywords, alora_invocation_tokens=[5, 6])
    model.add_adapter("invoked", config)
    model.base_model.set_adapter(active)
    model.active_adapter = active[0]
    with refused(INVOKED):
        held(model)


def test_an_invoked_adapter_of_a_mixed_model_is_refused():
    keywords = {"target_modules": ["qkv_proj"], "task_type": "CAUSAL_LM"}
    with refused(INVOKED):
        held(
            adapted(tiny("phi3"), "Lora", "PeftMixedModel", **keywords, alora_invocation_tokens=[5])
        )


def test_weights_that_are_not_in_memory_cannot_be_hashed():
    model = tiny("llama")
    model.model.layers[1].mlp.up_proj.to("meta")
    with refused("mlp.up_proj.weight is not in memory.*hash_weights=False"):
        weights_sha256(model)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (torch.nn.Linear(2, 2), "model=Linear: has no transformers decoder"),
        (Wrapped(Wrapped(tiny("llama").double())), "its weights are float64, expected one of"),
    ],
)
def test_unsupported_models_and_dtypes_are_refused(model: torch.nn.Module, said: str):
    with refused(said), held(model).loaded():
        pass


def test_documents_are_texts_paths_and_token_ids_in_their_order(tmp_path: Path):
    file = tmp_path / "with space.txt"
    file.write_text("from a file")
    given = ["a text", file, str(file), np.arange(5), torch.tensor([3, 4]), [7, 8, 9]]
    read = list(documents(given))
    assert read[0].name == "document 0"
    assert [document.text for document in read[:3]] == ["a text", "from a file", "from a file"]
    assert [document.token_ids for document in read[3:]] == [(0, 1, 2, 3, 4), (3, 4), (7, 8, 9)]


THAI, JAPANESE = "หัวความสนใจเลือกคำ" * 2, "頭は重みの大きい語を選びます。" * 60
LAO, KHMER = "ຫົວຄວາມສົນໃຈເລືອກຄຳທີ່ມີນ້ຳໜັກຫຼາຍທີ່ສຸດ", "ក្បាលយកចិត្តទុកដាក់ជ្រើសរើសពាក្យធ្ងន់បំផុត"
GERMAN = "Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz"
ADDRESSES = ["https://example.org/" + "a/" * 400, "https://example.org/a.txt"]
TEXT = ["two words", "one\n", "x " * 5000, "a" * 300, "ពាក្យ\u200bពាក្យ", *ADDRESSES, GERMAN]
TEXT += ["注意力头选择权重最大的词。" * 3, THAI, JAPANESE, LAO, KHMER]
PATHS = ["word", "", "笔记/第一章.txt", "notes/absent.jsonl", "/absent/" + "a" * 100]
PATHS += ["../" + "a" * 100, "a" * 100 + ".txt", "absent\\notes", "a\ud800b.txt"]


@pytest.mark.parametrize(
    ("string", "expected"), [*((text, True) for text in TEXT), *((path, False) for path in PATHS)]
)
def test_texts_are_distinguished_from_paths(string: str, expected: bool):
    assert is_text(string) == expected


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
        (id_ for id_ in IDS),
        iter([{"input_ids": torch.tensor([row])} for row in IDS]),
        [transformers.BatchEncoding({"input_ids": [*row]}) for row in IDS],
        (np.array(row, dtype=np.uint64) for row in IDS),
        [{"input_ids": PADDED, "attention_mask": MASK}],
    ],
    ids=lambda given: type(given).__name__,
)
def test_tokenizer_output_and_tables_give_unpadded_token_ids(given: object):
    assert [document.token_ids for document in documents(given)] == IDS


@pytest.mark.parametrize(
    "given",
    [
        {"text": TEXTS},
        pd.DataFrame(records("text")),
        records("text"),
        datasets.Dataset.from_list(records("text")),
        ({"text": text} for text in TEXTS),
    ],
    ids=lambda given: type(given).__name__,
)
def test_one_word_texts_of_a_table_are_texts(given: object):
    read = [(document.name, document.text) for document in documents(given)]
    assert read == [("document 0", "one"), ("document 1", "two words")]


def masked(mask: object, said: str, ids: object = ([1, 2],)) -> tuple[object, str]:
    return {"input_ids": ids, "attention_mask": mask}, said


BFLOAT16, META = torch.zeros(3, dtype=torch.bfloat16), torch.zeros(3, device="meta").int()
OF_LISTS = [[[1], [2, 3]]], [[2**70]], [[-1, 2]], [[["a"]]]
NO_IDS: dict[str, list[object]] = {
    "list": [{"input_ids": [[1, -1]]}, {"input_ids": [[[1]], [[2]]]}, *OF_LISTS],
    "NoneType": [{"input_ids": None}, [None]],
    "int": [[1, 2, 3], b"bytes"],
    "Tensor of shape (3,)": [[BFLOAT16], [META]],
    "ndarray of shape (2,)": [[np.array([1, 2**31])], [np.array([0.5, 1.0])]],
    "ndarray of shape (2, 3)": [[np.zeros((2, 3), dtype=int)]],
}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ids": [[1]], "a": 1}, "document 0: is dict of ids, a, expected input_ids or 'text'"),
        ({}, "document 0: is dict of nothing, expected input_ids"),
        (pd.DataFrame({"body": TEXTS}), "document 0: is DataFrame of body, expected input_ids"),
        ([[1, 2], {"a": 1}], "document 1: is dict of a, expected input_ids"),
        ({"text": ["a b", float("nan")]}, "document 1: field 'text' is of type float"),
        ({"text": ["a \ud800"]}, "document 0: field 'text': character 2 is half of one"),
        masked([[1]], "has 2 token ids, and an attention_mask of shape (1,)"),
        masked(1, "has 2 token ids, and an attention_mask of shape ()"),
        masked(torch.ones(1, 1, 2, 2), "an attention_mask of shape (1, 2, 2)"),
        masked([[[1], [1, 1]]], "an attention_mask of other numbers than zeros and ones"),
        masked([[0.0, -3e38]], "an attention_mask of other numbers than zeros and ones"),
        masked([[1, 0, 1]], "an attention_mask that hides tokens within the text", [[5, 6, 7]]),
        masked([[1, 1]], "input_ids has 2 rows, its attention_mask 1,", [[1, 2], [3, 4]]),
        masked([1.0], "an attention_mask of shape (1,)", [1, 2]),
        masked(torch.ones(1, 2, device="meta"), "has 2 token ids, and "),
        (object(), "documents: is object, expected texts, paths or rows of token ids"),
        (torch.tensor(3), "documents: is Tensor, expected texts, paths or rows of token ids"),
        *[
            (given, f"document 0: is {seen}, expected a text, a path, or token ids")
            for seen, cases in NO_IDS.items()
            for given in cases
        ],
    ],
)
def test_inputs_without_documents_are_refused(given: object, said: str):
    with refused(re.escape(said)) as caught:
        list(documents(given))
    assert "no such file" not in str(caught.value)


class Processor:
    """As those of multimodal models."""

    def __init__(self) -> None:
        self.tokenizer = letters()


def test_a_processor_gives_its_tokenizer():
    processor = Processor()
    assert tokenizer_of(processor) is processor.tokenizer
    assert tokenizer_of(processor.tokenizer) is processor.tokenizer
    assert tokenizer_of(None) is None


@pytest.mark.parametrize(
    "other", [letters().backend_tokenizer, "gpt2", str.split, transformers.AutoTokenizer, 3]
)
def test_what_is_no_tokenizer_is_refused(other: object):
    with refused("is no transformers tokenizer, expected one"):
        tokenizer_of(other)
