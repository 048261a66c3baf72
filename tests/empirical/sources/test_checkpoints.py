"""Files of a model: weights that its configuration does not describe are refused by name, never
made up; whatever loading raises is one line with the remedy of what was read.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from support.every_decoder import tiny_of
from support.families import edited, save, tiny
from support.fuzz import timely
from support.gguf_files import gguf_file
from support.raising import RAISED, Panic, raising, refused

from empirical.errors import InputError
from empirical.sources import builtin, checkpoints, models
from empirical.sources.given import documents
from empirical.sources.models import LoadedModel, find
from empirical.sources.windows import windows
from empirical.tap.tap import tap

Tensors = dict[str, torch.Tensor]
Arrays = dict[str, np.ndarray]
MISFIT = "weights and configuration do not belong together: "


def measured(model: Path) -> LoadedModel:
    """Everything that is done before the first document is measured."""
    found = find(str(model))
    found.refuse_unreadable(40)
    text = documents(["abcd " * 20])
    windows(text, found.tokenizer, length=40, count=1, vocabulary=found.vocabulary)
    return found.load()


def refusal(model: Path, said: str = ".") -> str:
    with refused(said) as caught:
        measured(model)
    line = str(caught.value)
    assert len(line) < 600
    return line


def change(folder: Path, act: Callable[[Tensors], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    act(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


V_PROJ = "model.layers.1.self_attn.v_proj.weight"
CHANGES: list[tuple[Callable[[Tensors], object], str]] = [
    (lambda held: held.pop(V_PROJ), f"1 weight is missing ({V_PROJ})."),
    (lambda held: held.pop("lm_head.weight"), "1 weight is missing (lm_head.weight)."),
    (lambda held: held.update(score=torch.ones(3)), "1 weight is unknown (score)."),
    (
        lambda held: held.update({V_PROJ: torch.ones(16, 64)}),
        f"1 weight is of another shape ({V_PROJ} (16, 64) for (32, 64)).",
    ),
    (
        lambda held: held.update({"other." + V_PROJ: held.pop(V_PROJ)}),
        f"1 weight is missing ({V_PROJ}); 1 weight is unknown (other.{V_PROJ}).",
    ),
    (
        lambda held: [held.clear(), held.update(one=torch.ones(1))],
        "39 weights are missing (lm_head.weight, model.embed_tokens.weight,"
        " model.layers.0.input_layernorm.weight and 36 more); 1 weight is unknown (one).",
    ),
]


@pytest.mark.parametrize(("act", "said"), CHANGES)
def test_weights_that_contradict_the_configuration_are_named(
    saved: Path, act: Callable[[Tensors], object], said: str
):
    change(saved, act)
    assert refusal(saved) == f"{saved}: {MISFIT}{said} Get a whole copy of the model."


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"num_hidden_layers": 5}, "9 weights are missing .model.layers.4."),
        ({"num_hidden_layers": 3}, "9 weights are unknown .model.layers.3."),
        # what would take all memory is refused before the model is made
        ({"num_hidden_layers": 10**9}, "has 1000000000 layers, but its files hold 39 tensors"),
        ({"hidden_size": 2**20, "head_dim": 16}, "weights, but its files hold "),
        ({"vocab_size": 10**12}, "weights, but its files hold "),
    ],
)
def test_a_configuration_of_another_size_than_the_weights_is_refused(
    saved: Path, sizes: dict[str, int], said: str
):
    edited(saved / "config.json", **sizes)
    refusal(saved, said)


def test_a_head_tied_to_the_embedding_need_not_be_in_the_file(saved: Path):
    edited(saved / "config.json", tie_word_embeddings=True)
    change(saved, lambda held: held.pop("lm_head.weight"))
    loaded = find(str(saved)).load().model
    assert torch.equal(loaded.get_output_embeddings().weight, loaded.get_input_embeddings().weight)


@pytest.mark.parametrize(
    "fields", [{"attn_implementation": "flash_attention_2"}, {"dtype": "float8_e4m3fn"}], ids=str
)
def test_requirements_of_a_configuration_other_than_shapes_may_be_missing(
    saved: Path, fields: dict[str, str]
):
    edited(saved / "config.json", **fields)
    loaded = find(str(saved)).load().model
    assert loaded.config._attn_implementation == "sdpa"
    assert loaded.dtype == torch.float32


OLD_CONSTANTS: dict[str, Tensors] = {
    "gpt2": {
        "transformer.h.0.attn.masked_bias": torch.tensor(-1e4),
        "transformer.h.0.attn.bias": torch.ones(1, 1, 8, 8, dtype=torch.bool),
    },
    "llama": {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)},
}


@pytest.mark.parametrize("family", OLD_CONSTANTS)
def test_old_saved_constants_are_no_weights(tmp_path: Path, family: str):
    folder = save(tiny(family), tmp_path)
    change(folder, lambda held: held.update(OLD_CONSTANTS[family]))
    assert find(str(folder)).load().family == family


def test_a_missing_shard_and_a_broken_index_are_named(tmp_path: Path):
    folder = save(tiny("llama"), tmp_path, max_shard_size="100KB")
    index = folder / "model.safetensors.index.json"
    shard = sorted(folder.glob("*.safetensors"))[1]
    shard.unlink()
    refusal(folder, f"{index.name} names {shard.name}, which are not there")
    for content in ("{", "[]", '{"weight_map": 3}', "[" * 100_000):
        index.write_text(content)
        refusal(folder, f"^{index}: is no index of weights")


@pytest.mark.parametrize("kept", [0, 5, 60, 30_000, -1])
def test_truncated_weights_are_reported(saved: Path, tmp_path: Path, kept: int):
    gguf = gguf_file(tmp_path / "small.gguf")
    for file in (saved / "model.safetensors", gguf):
        file.write_bytes(file.read_bytes()[:kept])
    refusal(saved, r"llama: its weights are truncated or damaged \(")
    refusal(gguf, "small.gguf: is truncated or no GGUF file")


def test_a_whole_gguf_file_loads(tmp_path: Path):
    loaded = measured(gguf_file(tmp_path / "small.gguf"))
    assert (loaded.layers, loaded.heads, loaded.kv_heads, loaded.dimension) == (2, 4, 2, 8)
    assert loaded.tokenizer("abc")["input_ids"] == [29, 5]


UP, QUERY = "blk.0.ffn_up.weight", "blk.0.attn_q.weight"
GGUF_CHANGES: list[tuple[Callable[[Arrays], object], str]] = [
    (lambda held: held.pop("blk.1.attn_v.weight"), f"1 weight is missing ({V_PROJ})."),
    (lambda held: held.update({"a.weight": np.ones(4)}), "1 weight is unknown (a.weight)."),
    (
        lambda held: held.update({UP: held[UP][:40]}),
        f"1 weight is of another shape ({UP} 1280 elements for 1536).",
    ),
    (  # a head less
        lambda held: held.update({QUERY: held[QUERY][:30]}),
        f"1 weight is of another shape ({QUERY} 960 elements for 1024).",
    ),
    (
        lambda held: held.update({UP: held[UP].T.copy()}),
        "1 weight is of another shape (model.layers.0.mlp.up_proj.weight (32, 48) for (48, 32)).",
    ),
]


@pytest.mark.parametrize(("act", "said"), GGUF_CHANGES)
def test_gguf_tensors_that_contradict_the_header_are_named(
    tmp_path: Path, act: Callable[[Arrays], object], said: str
):
    file = gguf_file(tmp_path / "small.gguf", change=act)
    remedy = "Get a whole copy of the model, or one as .safetensors."
    assert refusal(file) == f"{file}: {MISFIT}{said} {remedy}"


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        (1, r"9 weights are unknown \(blk.1.attn_k.weight, "),
        (3, r"9 weights are missing \(model.layers.2."),
        (10**9, "1000000000 layers, but its files hold 20 tensors"),
    ],
)
def test_a_gguf_header_with_other_layers_than_its_tensors_is_refused(
    tmp_path: Path, layers: int, said: str
):
    refusal(gguf_file(tmp_path / "small.gguf", layers=layers), said)


def test_an_array_that_is_longer_than_its_gguf_file_is_refused_at_once(tmp_path: Path):
    file = gguf_file(tmp_path / "long.gguf")
    data = file.read_bytes()
    name = b"tokenizer.ggml.merges"
    index = data.index(name) + len(name) + 4  # behind the name and that this is an array
    file.unlink()  # what was read may still be mapped
    file.write_bytes(data[:index] + struct.pack("<IQ", 0, 2**40) + data[index + 12 :])
    with timely(), refused(r"long\.gguf: is truncated or no GGUF file"):
        checkpoints.gguf_tensors(file)


def without_a_weight(folder: Path) -> None:
    change(folder, lambda held: held.pop(V_PROJ))


def cut_short(folder: Path) -> None:
    os.truncate(folder / "model.safetensors", 9)


@pytest.mark.parametrize(
    ("damage", "why"),
    [(without_a_weight, ": 1 weight is missing .*"), (cut_short, r" \(SafetensorError\). ")],
)
def test_a_damaged_copy_of_the_built_in_model_names_the_folder_to_remove(
    saved: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None], why: str
):
    damage(saved)
    gguf = saved.with_name("small.gguf")
    gguf.write_bytes(b"GGUF")
    monkeypatch.setenv("GEOSTAT_CACHE", str(saved.with_name("cache")))
    monkeypatch.setattr(checkpoints, "gguf_file", lambda: gguf)
    copy = partial(shutil.copytree, saved, dirs_exist_ok=True)
    monkeypatch.setattr(builtin, "_convert", lambda gguf, folder: copy(folder))
    remedy = "Remove that folder; it is converted again"
    with refused(f"cache/small-.*: the converted built-in model is damaged{why}{remedy}"):
        find().load()


def test_finding_a_model_reads_no_weights(saved: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(models, "load_weights", raising(AssertionError("weights were read")))
    found = find(str(saved), device="cpu")
    assert found.tokenizer("abc")["input_ids"] == [1, 3, 4, 5]
    assert found.heads == (4, 4)


PLACES = {
    "configuration": (transformers.AutoConfig, "from_pretrained"),
    "tokenizer": (transformers.AutoTokenizer, "from_pretrained"),
    "model": (transformers.AutoModelForCausalLM, "from_config"),
    "weights": (transformers.AutoModelForCausalLM, "from_pretrained"),
    "headers": (checkpoints, "safetensors_tensors"),
    "forward": (models, "loaded"),
    "unread": (models, "refuse_too_long"),
}


@pytest.mark.parametrize(
    ("place", "error"),
    [
        *[(place, error) for place in PLACES for error in (Panic("a panic"), MemoryError())],
        *[("configuration", error) for error in RAISED],
    ],
)
def test_any_loading_error_is_one_line(
    saved: Path, monkeypatch: pytest.MonkeyPatch, place: str, error: BaseException
):
    monkeypatch.setattr(*PLACES[place], raising(error))
    memory = isinstance(error, MemoryError)
    line = refusal(saved, "does not fit into memory" if memory else r"\(.*\), expected")
    assert line.startswith(f"{saved}: ")


def test_a_disk_error_has_a_separate_message(saved: Path, monkeypatch: pytest.MonkeyPatch):
    error = OSError(24, os.strerror(24), "config.json")
    monkeypatch.setattr(*PLACES["configuration"], raising(error))
    refusal(saved, r"^config.json: cannot be read \(Too many open files\). Check the disk")


ODD = ["x", 0, -1, 2**70, None, [1, 2], {}, float("inf"), 3.7]
CONFIGURATION: dict[str, list[Any]] = {
    "hidden_size": ODD,
    "num_attention_heads": [*ODD[:4], 3, 5, None, [1]],
    "num_hidden_layers": [*ODD[:4], [1]],
    "vocab_size": ODD,
    "intermediate_size": [0, -1, 2**70, 10**12],
    "max_position_embeddings": ["x", 0, -1, [1], {}],
    "sliding_window": ["x", [1], {}],
    "head_dim": ["x", 0, -1, 2**70],
    "text_config": ["x", 0, {"a": 1}],
    "layer_types": ["x", 0, ["y"] * 4, ["full_attention"]],
    "hidden_act": ["x", 0, None],
    "rope_parameters": ["x", 0, {"rope_type": "x"}],
    "auto_map": ["x", 0, {"AutoConfig": "x"}],
    "model_type": ["x", 0, None, []],
}
TOKENIZER: dict[str, list[Any]] = {
    "model_max_length": ["x", [1]],
    "bos_token": [3],
    "added_tokens_decoder": [{"a": 1}],
    "extra_special_tokens": [[1]],
    "tokenizer_class": [3],
    "auto_map": [None],
    "chat_template": [[1]],
}
SETTINGS = [
    (file, name, value)
    for file, entries in (("config.json", CONFIGURATION), ("tokenizer_config.json", TOKENIZER))
    for name, values in entries.items()
    for value in values
]


@pytest.fixture(scope="module")
def mistral(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tiny("mistral"), tmp_path_factory.mktemp("settings"), bos=True)


@pytest.mark.parametrize(("file", "name", "value"), SETTINGS)
def test_odd_settings_are_refused_in_one_line(mistral: Path, file: str, name: str, value: object):
    whole = (mistral / file).read_text()
    edited(mistral / file, **{name: value})
    try:
        if file == "tokenizer_config.json":
            refusal(mistral, "tokenizer")
        elif name == "auto_map" or (name, value) == ("head_dim", 0):  # as if it were not there
            with suppress(InputError):
                measured(mistral)
        else:
            refusal(mistral, "expected|belong together|reads at most")
    finally:
        (mistral / file).write_text(whole)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, "3", '"x"'])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_invalid_settings_files_are_refused(saved: Path, name: str, text: str):
    (saved / name).write_text(text)
    refusal(saved, "expected")


@pytest.mark.parametrize("number", [2**31, 2**32 - 1, 2**32, -1, 10**30, 200])
def test_ids_of_a_tokenizer_that_no_model_has_are_refused(saved: Path, number: int):
    file = saved / "tokenizer.json"
    held = json.loads(file.read_text())
    held["model"]["vocab"] |= {"a": number}
    file.write_text(json.dumps(held))
    refusal(saved, "holds token 200 at" if number == 200 else "token")


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen2", "gemma", "mistral", "phi3"])
def test_a_folder_without_a_tokenizer_is_reported(tmp_path: Path, family: str):
    """For some families transformers makes one of special tokens alone."""
    with checkpoints.quiet():
        tiny(family).save_pretrained(tmp_path)
    line = refusal(tmp_path, r": its tokenizer cannot be loaded \(.*\), expected its files")
    assert "causal language model" not in line


def own_code(**auto_map: object) -> tuple[str, dict[str, object]]:
    return "config.json", {"model_type": "tinyown", "auto_map": auto_map}


CODE: dict[str, tuple[str, dict[str, object]]] = {
    "model": own_code(AutoConfig="own.OwnConfig", AutoModelForCausalLM="own.OwnForCausalLM"),
    "of pictures": own_code(AutoConfig="own.OwnConfig", AutoModelForImageTextToText="own.Own"),
    "in another repository": own_code(AutoConfig="someone/base--own.OwnConfig"),
    "of a known type": ("config.json", {"auto_map": {"AutoModelForCausalLM": "own.Own"}}),
    "tokenizer": (
        "tokenizer_config.json",
        {"auto_map": {"AutoTokenizer": [None, "own.Own"]}, "tokenizer_class": "Own"},
    ),
}


@pytest.mark.parametrize("code", CODE)
def test_a_models_own_code_is_reported_with_its_option(saved: Path, code: str):
    folder = saved.rename(saved.with_name("a-folder-of-a-long-name-" * 8))
    (folder / "own.py").write_text("raise SystemExit")
    file, entries = CODE[code]
    edited(folder / file, **entries)
    refusal(folder, r"comes with its own Python code. If you trust it, use --trust-remote-code")


def test_code_that_transformers_has_too_is_not_reported(saved: Path):
    edited(saved / "config.json", auto_map={"AutoModelForCausalLM": "own.LlamaForCausalLM"})
    assert measured(saved).layers == 4


ADAPTER = r"holds a peft adapter \(adapter_config.json\), expected a model without"


def with_adapter(folder: Path) -> Path:
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/base"}')
    return folder


def test_an_adapter_beside_a_model_is_reported(saved: Path, tmp_path: Path):
    refusal(with_adapter(saved), ADAPTER)
    refusal(gguf_file(with_adapter(tmp_path) / "small.gguf"), ADAPTER)


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("Lora", {"target_modules": ["q_proj"]}),
        ("IA3", {"target_modules": ["q_proj"], "feedforward_modules": []}),
        ("PromptTuning", {"num_virtual_tokens": 4}),
    ],
)
def test_an_adapter_saved_by_peft_is_reported(tmp_path: Path, kind: str, fields: dict[str, Any]):
    import peft

    config = getattr(peft, f"{kind}Config")(task_type="CAUSAL_LM", **fields)
    peft.get_peft_model(tiny("llama"), config).save_pretrained(tmp_path)
    refusal(tmp_path, ADAPTER)


READ = """tokenizer.json tokenizer_config.json generation_config.json chat_template.jinja
config.json adapter_config.json model.safetensors"""


@pytest.mark.parametrize("name", READ.split())
def test_pipes_and_devices_in_a_folder_do_not_block(saved: Path, name: str):
    said = {
        "adapter_config.json": "expected config.json and weights|is a pipe, a device or a socket",
        "config.json": "expected config.json and weights|is a pipe, a device or a socket",
        "model.safetensors": "model.safetensors: is no regular file or a link to nothing",
    }.get(name, f"{name}: is a pipe, a device or a socket")
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        (saved / name).unlink(missing_ok=True)
        make(saved / name)
        refusal(saved, said)


@pytest.mark.parametrize("name", ["pipe", "pipe.gguf"])
def test_a_pipe_as_a_model_is_refused_without_waiting(tmp_path: Path, name: str):
    os.mkfifo(tmp_path / name)
    refusal(tmp_path / name, f"{name}: is a pipe, a device or a socket, expected a .gguf file")


def test_a_file_of_settings_without_end_is_refused(saved: Path):
    os.truncate(saved / "tokenizer.json", 2**40)
    refusal(saved, "tokenizer.json: holds 1099511627776 bytes, expected at most")


ROPE = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e4}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("LlavaForConditionalGeneration", {}),
        ("LlavaForConditionalGeneration", {"model_type": "mistral"}),
        ("Qwen2_5_VLForConditionalGeneration", {"rope_parameters": ROPE}),
        ("Qwen2AudioForConditionalGeneration", {}),
    ],
)
def test_a_multimodal_model_is_loaded_from_its_folder(
    tmp_path: Path, name: str, text: dict[str, Any]
):
    model = tiny_of(name, text_config=text)
    found = measured(save(model, tmp_path, bos=True))
    assert found.layers == 4
    ids, there, held = torch.arange(3, 30)[None], [], []
    tap(model, ids, lambda layer: there.append(layer.alpha))
    tap(found.model, ids, lambda layer: held.append(layer.alpha))
    assert all(torch.equal(one, other) for one, other in zip(there, held, strict=True))


@pytest.mark.parametrize("name", ["Florence2", "Pix2Struct", "T5Gemma2", "Udop"])
def test_an_encoder_decoder_is_no_causal_language_model(name: str):
    config = getattr(transformers, f"{name}Config")()
    assert checkpoints.kind_of(config) is transformers.AutoModelForCausalLM


@pytest.mark.parametrize("part", ["text_config", "vision_config"])
def test_huge_layer_counts_are_refused_in_any_part(tmp_path: Path, part: str):
    folder = save(tiny_of("LlavaForConditionalGeneration"), tmp_path, bos=True)
    config = json.loads((folder / "config.json").read_text())
    edited(folder / "config.json", **{part: config[part] | {"num_hidden_layers": 10**9}})
    refusal(folder, "its configuration has 1000000000 layers, but its files hold")
