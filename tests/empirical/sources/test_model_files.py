"""Files of a model: whatever loading raises is one line, with the remedy of what was read; and
adapters, pipes, models that read pictures too, folders without a tokenizer.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from support.families import letters, tiny
from support.raising import RAISED, raising

from empirical.errors import InputError
from empirical.sources import models, pretrained
from empirical.sources.given import documents
from empirical.sources.models import find
from empirical.sources.windows import windows
from empirical.tap.tap import tap


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save(tiny("llama"), tmp_path / "model")


def save(model: transformers.PreTrainedModel, folder: Path) -> Path:
    with pretrained.quiet():
        model.save_pretrained(folder)
        letters(bos=True).save_pretrained(folder)
    return folder


def refused(folder: Path, said: str) -> str:
    """Everything that is done before the first document is measured."""
    with pytest.raises(InputError, match=said) as caught:
        measured(folder)
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 600
    return line


def measured(folder: Path, **options: Any) -> models.LoadedModel:
    found = find(str(folder), **options)
    found.refuse_unreadable(40)
    text = ["some text about heads and tokens, and more of it"]
    windows(documents(text), found.tokenizer, length=40, count=1, vocabulary=found.vocabulary)
    return found.load()


PLACES = {
    "configuration": (transformers.AutoConfig, "from_pretrained"),
    "tokenizer": (transformers.AutoTokenizer, "from_pretrained"),
    "model": (transformers.AutoModelForCausalLM, "from_config"),
    "weights": (transformers.AutoModelForCausalLM, "from_pretrained"),
    "headers": (pretrained, "safetensors_tensors"),
    "forward": (models, "loaded"),
    "unread": (models, "refuse_too_long"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_loading_raises_is_one_line(
    saved: Path, monkeypatch: pytest.MonkeyPatch, place: str, error: BaseException
):
    monkeypatch.setattr(*PLACES[place], raising(error))
    memory = isinstance(error, MemoryError)
    line = refused(saved, "does not fit into memory" if memory else r"\(.*\), expected")
    assert line.startswith(f"{saved}: ")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(2)], ids=type)
def test_what_stops_the_process_is_no_fault_of_a_model(
    saved: Path, monkeypatch: pytest.MonkeyPatch, place: str, error: BaseException
):
    monkeypatch.setattr(*PLACES[place], raising(error))
    with pytest.raises(type(error)):
        measured(saved)


def test_a_disk_that_fails_is_told_by_its_own_line(saved: Path, monkeypatch: pytest.MonkeyPatch):
    error = OSError(24, os.strerror(24), "config.json")
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", raising(error))
    refused(saved, r"^config.json: cannot be read \(Too many open files\). Check the disk")


ODD = ["x", 0, -1, 2**70, None, [1, 2], {}, float("inf"), 3.7]
NUMBERS = [
    *[("hidden_size", value) for value in ODD],
    *[("num_attention_heads", value) for value in [*ODD[:4], 3, 5, None, [1]]],
    *[("num_hidden_layers", value) for value in [*ODD[:4], [1]]],
    *[("vocab_size", value) for value in ODD],
    *[("intermediate_size", value) for value in [0, -1, 2**70, 10**12]],
    *[("max_position_embeddings", value) for value in ["x", 0, -1, [1], {}]],
    *[("sliding_window", value) for value in ["x", [1], {}]],
    *[("head_dim", value) for value in ["x", 0, -1, 2**70]],
    *[("text_config", value) for value in ["x", 0, {"a": 1}]],
    *[("layer_types", value) for value in ["x", 0, ["y"] * 4, ["full_attention"]]],
    *[("hidden_act", value) for value in ["x", 0, None]],
    *[("rope_parameters", value) for value in ["x", 0, {"rope_type": "x"}]],
    *[("auto_map", value) for value in ["x", 0, {"AutoConfig": "x"}]],
    *[("model_type", value) for value in ["x", 0, None, []]],
]


def edited(file: Path, **entries: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A model and what its two files of settings hold."""
    folder = save(tiny("mistral"), tmp_path_factory.mktemp("numbers"))
    return (
        folder,
        (folder / "config.json").read_text(),
        (folder / "tokenizer_config.json").read_text(),
    )


@pytest.mark.parametrize(("name", "value"), NUMBERS)
def test_numbers_of_a_configuration_are_refused_in_one_line(
    whole: tuple[Path, str, str], name: str, value: object
):
    folder, config, settings = whole
    (folder / "config.json").write_text(config)
    (folder / "tokenizer_config.json").write_text(settings)
    edited(folder / "config.json", **{name: value})
    if name == "auto_map" or (name, value) == ("head_dim", 0):  # taken as if it were not there
        with suppress(InputError):
            measured(folder)
    else:
        refused(folder, "expected|belong together|reads at most")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model_max_length", "x"),
        ("model_max_length", [1]),
        ("bos_token", 3),
        ("added_tokens_decoder", {"a": 1}),
        ("extra_special_tokens", [1]),
        ("tokenizer_class", 3),
        ("auto_map", None),
        ("chat_template", [1]),
    ],
)
def test_numbers_of_a_tokenizer_are_refused_in_one_line(
    whole: tuple[Path, str, str], name: str, value: object
):
    folder, config, settings = whole
    (folder / "config.json").write_text(config)
    (folder / "tokenizer_config.json").write_text(settings)
    edited(folder / "tokenizer_config.json", **{name: value})
    refused(folder, "tokenizer")


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, "3", '"x"'])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_files_that_are_no_settings_are_refused_in_one_line(saved: Path, name: str, text: str):
    (saved / name).write_text(text)
    refused(saved, "expected")


@pytest.mark.parametrize("number", [2**31, 2**32 - 1, 2**32, -1, 10**30, 200])
def test_ids_of_a_tokenizer_that_no_model_has_are_refused(saved: Path, number: int):
    file = saved / "tokenizer.json"
    held = json.loads(file.read_text())
    held["model"]["vocab"] |= {"a": number}
    file.write_text(json.dumps(held))
    refused(saved, "holds token 200 at" if number == 200 else "token")


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen2", "gemma", "mistral", "phi3"])
def test_a_folder_without_a_tokenizer_is_said_to_have_none(tmp_path: Path, family: str):
    """For some families transformers makes one of special tokens alone."""
    save(tiny(family), tmp_path)
    for file in tmp_path.glob("tokenizer*"):
        file.unlink()
    line = refused(tmp_path, r": its tokenizer cannot be loaded \(.*\), expected its files")
    assert "causal language model" not in line


OWN = """
from transformers import LlamaConfig, LlamaForCausalLM
class OwnConfig(LlamaConfig):
    model_type = "tinyown"
class OwnForCausalLM(LlamaForCausalLM):
    config_class = OwnConfig
"""


MODEL = {"AutoModelForCausalLM": "own.OwnForCausalLM"}
CODE: dict[str, tuple[str, dict[str, Any]]] = {
    "model": (
        "config.json",
        {"model_type": "tinyown", "auto_map": {"AutoConfig": "own.OwnConfig", **MODEL}},
    ),
    "of pictures": (
        "config.json",
        {
            "model_type": "tinyown",
            "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModelForImageTextToText": "own.Own"},
        },
    ),
    "in another repository": (
        "config.json",
        {"model_type": "tinyown", "auto_map": {"AutoConfig": "someone/base--own.OwnConfig"}},
    ),
    "of a known type": ("config.json", {"auto_map": MODEL}),
    "tokenizer": (
        "tokenizer_config.json",
        {"auto_map": {"AutoTokenizer": [None, "own.Own"]}, "tokenizer_class": "Own"},
    ),
}


@pytest.mark.parametrize("code", CODE)
def test_code_of_a_model_s_own_is_told_with_its_option(tmp_path: Path, code: str):
    folder = save(tiny("llama"), tmp_path / ("a-folder-of-a-long-name-" * 8))
    (folder / "own.py").write_text(OWN)
    where, entries = CODE[code]
    edited(folder / where, **entries)
    refused(folder, r"comes with Python code of its own. If you trust it, use --trust-remote-code")


def test_own_code_that_transformers_has_too_is_not_asked_about(saved: Path):
    edited(saved / "config.json", auto_map={"AutoModelForCausalLM": "own.LlamaForCausalLM"})
    assert measured(saved).layers


def adapter(folder: Path) -> Path:
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/base"}')
    (folder / "adapter_model.safetensors").write_bytes(b"")
    return folder


def alone(folder: Path) -> Path:
    for name in ("model.safetensors", "config.json"):
        (folder / name).unlink()
    return adapter(folder)


def without_tokenizer(folder: Path) -> Path:
    for file in folder.glob("tokenizer*"):
        file.unlink()
    return adapter(folder)


def in_shards(folder: Path) -> Path:
    shutil.rmtree(folder)
    tiny("llama").save_pretrained(folder, max_shard_size="40KB")
    assert len([*folder.glob("model-*.safetensors")]) > 1
    return adapter(folder)


def pickled(folder: Path) -> Path:
    (alone(folder) / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    return folder


def beside_gguf(folder: Path) -> Path:
    (adapter(folder) / "small.gguf").write_bytes(b"GGUF")
    return folder / "small.gguf"


@pytest.mark.parametrize(
    "make", [adapter, alone, without_tokenizer, beside_gguf, in_shards, pickled]
)
def test_an_adapter_is_named_as_one(saved: Path, make: Callable[[Path], Path]):
    refused(make(saved), r"holds a peft adapter \(adapter_config.json\), expected a model without")


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("kind", ["Lora", "IA3", "PromptTuning"])
def test_an_adapter_as_peft_saves_it_is_named_as_one(tmp_path: Path, kind: str):
    import peft

    told = {"num_virtual_tokens": 4} if kind == "PromptTuning" else {"target_modules": ["q_proj"]}
    told |= {"feedforward_modules": []} if kind == "IA3" else {}
    config = getattr(peft, f"{kind}Config")(task_type="CAUSAL_LM", **told)
    peft.get_peft_model(tiny("llama"), config).save_pretrained(tmp_path)
    refused(tmp_path, r"holds a peft adapter \(adapter_config.json\), expected a model without")


NAMES = ["tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"]


@pytest.mark.parametrize("name", [*NAMES, "config.json", "adapter_config.json"])
def test_pipes_and_devices_in_a_folder_are_not_waited_for(saved: Path, name: str):
    (saved / name).unlink(missing_ok=True)
    os.mkfifo(saved / name)
    refused(saved, f"{name}: is a pipe, a device or a socket|expected config.json and weights")
    (saved / name).unlink()
    (saved / name).symlink_to("/dev/zero")
    refused(saved, f"{name}: is a pipe, a device or a socket|expected config.json and weights")


def test_a_file_of_settings_without_end_is_refused(saved: Path):
    with open(saved / "tokenizer.json", "r+b") as file:
        file.truncate(2**40)
    refused(saved, "tokenizer.json: holds 1099511627776 bytes, expected at most")


SIZES = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}


def llava(text: str) -> transformers.PreTrainedModel:
    return transformers.LlavaForConditionalGeneration(
        transformers.LlavaConfig(
            text_config={**SIZES, "model_type": text},
            vision_config={**VISION, "model_type": "clip_vision_model"},
            image_token_index=96,
        )
    )


def qwen() -> transformers.PreTrainedModel:
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e4}
    return transformers.Qwen2_5_VLForConditionalGeneration(
        transformers.Qwen2_5_VLConfig(
            text_config={**SIZES, "rope_parameters": rope},
            vision_config={"depth": 1, "hidden_size": 32, "num_heads": 2, "out_hidden_size": 64},
        )
    )


def audio() -> transformers.PreTrainedModel:
    sound = {"d_model": 32, "encoder_layers": 1, "encoder_attention_heads": 2}
    return transformers.Qwen2AudioForConditionalGeneration(
        transformers.Qwen2AudioConfig(
            text_config={**SIZES, "model_type": "qwen2"}, audio_config=sound | {"num_mel_bins": 8}
        )
    )


SEEING = {
    "llava": lambda: llava("llama"),
    "llava of mistral": lambda: llava("mistral"),
    "qwen": qwen,
    "audio": audio,
}


@pytest.mark.parametrize("name", SEEING)
def test_a_model_that_reads_pictures_or_sounds_too_is_loaded_from_its_folder(
    tmp_path: Path, name: str
):
    torch.manual_seed(0)
    model = SEEING[name]().eval()
    found = measured(save(model, tmp_path))
    assert found.layers == 2
    ids, there, held = torch.arange(3, 30)[None], [], []
    tap(model, ids, lambda layer: there.append(layer.alpha))
    tap(found.model, ids, lambda layer: held.append(layer.alpha))
    assert all(torch.equal(one, other) for one, other in zip(there, held, strict=True))


@pytest.mark.parametrize("name", ["Florence2", "Pix2Struct", "T5Gemma2", "Udop"])
def test_a_decoder_of_an_encoder_s_is_no_causal_language_model(name: str):
    config = getattr(transformers, f"{name}Config")()
    assert pretrained.kind_of(config) is transformers.AutoModelForCausalLM


@pytest.mark.parametrize("part", ["text_config", "vision_config"])
def test_layers_without_number_are_refused_in_any_part(tmp_path: Path, part: str):
    folder = save(llava("llama"), tmp_path)
    config = json.loads((folder / "config.json").read_text())
    edited(folder / "config.json", **{part: config[part] | {"num_hidden_layers": 10**9}})
    refused(folder, "its configuration has 1000000000 layers, but its files hold")
