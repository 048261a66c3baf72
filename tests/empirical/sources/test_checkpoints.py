"""A model whose files are not its whole, or more than it: refused by name, never measured with
weights that were made up.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support.families import FAMILIES, OTHERS, letters, tiny
from support.fuzz import timely
from support.gguf_files import gguf_file
from transformers import PreTrainedModel
from transformers.utils import logging

from empirical.errors import InputError
from empirical.sources import builtin, checkpoints, folders, models
from empirical.sources.models import find

Tensors = dict[str, torch.Tensor]
MISFIT = "weights and configuration do not belong together: "


def save(folder: Path, model: PreTrainedModel, **options: str) -> Path:
    bar = logging.set_tqdm_hook(
        lambda factory, args, keywords: logging.EmptyTqdm(*args, **keywords)
    )
    model.save_pretrained(folder, **options)
    letters().save_pretrained(folder)
    logging.set_tqdm_hook(bar)
    return folder


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A tiny Llama and its tokenizer on disk."""
    return save(tmp_path / "llama", tiny("llama"))


def change(folder: Path, act: Callable[[Tensors], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    act(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def configure(folder: Path, **changes: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def refusal(model: Path, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        find(str(model), **options).load()
    said = str(caught.value)
    assert "\n" not in said
    return said


V_PROJ = "model.layers.1.self_attn.v_proj.weight"
CHANGES: dict[str, tuple[Callable[[Tensors], object], str]] = {
    "missing": (lambda held: held.pop(V_PROJ), f"1 weight is missing ({V_PROJ})."),
    "head missing, not tied": (
        lambda held: held.pop("lm_head.weight"),
        "1 weight is missing (lm_head.weight).",
    ),
    "extra": (lambda held: held.update(score=torch.ones(3)), "1 weight is unknown (score)."),
    "other shape": (
        lambda held: held.update({V_PROJ: torch.ones(16, 64)}),
        f"1 weight is of another shape ({V_PROJ} (16, 64) for (32, 64)).",
    ),
    "misnamed": (
        lambda held: held.update({"other." + V_PROJ: held.pop(V_PROJ)}),
        f"1 weight is missing ({V_PROJ}); 1 weight is unknown (other.{V_PROJ}).",
    ),
    "a layer too few": (
        lambda held: [held.pop(name) for name in sorted(held) if "layers.3." in name],
        (
            "9 weights are missing (model.layers.3.input_layernorm.weight,"
            " model.layers.3.mlp.down_proj.weight, model.layers.3.mlp.gate_proj.weight and 6 more)."
        ),
    ),
    "nothing of it": (
        lambda held: [held.clear(), held.update(one=torch.ones(1))],
        (
            "39 weights are missing (lm_head.weight, model.embed_tokens.weight,"
            " model.layers.0.input_layernorm.weight and 36 more); 1 weight is unknown (one)."
        ),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_weights_that_are_not_those_of_the_configuration_are_named(saved: Path, name: str) -> None:
    act, said = CHANGES[name]
    change(saved, act)
    assert refusal(saved) == f"{saved}: {MISFIT}{said} Get a whole copy of the model."


@pytest.mark.parametrize(
    ("layers", "said"),
    [(5, "9 weights are missing (model.layers.4."), (3, "9 weights are unknown (model.layers.3.")],
)
def test_a_configuration_with_other_layers_than_the_weights_is_refused(
    saved: Path, layers: int, said: str
) -> None:
    configure(saved, num_hidden_layers=layers)
    assert said in refusal(saved)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"num_hidden_layers": 10**9},
            "its configuration has 1000000000 layers, but its files hold 39 tensors",
        ),
        ({"hidden_size": 2**20, "head_dim": 16}, "weights, but its files hold "),
        ({"vocab_size": 10**12}, "weights, but its files hold "),
    ],
)
def test_a_configuration_that_would_take_all_memory_is_refused_before_its_model_is_made(
    saved: Path, changes: dict[str, int], said: str
) -> None:
    configure(saved, **changes)
    assert said in refusal(saved)


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_whole_models_of_every_family_load(tmp_path: Path, family: str) -> None:
    assert find(str(save(tmp_path, tiny(family)))).load().layers == 4


def test_a_head_tied_to_the_embedding_need_not_be_in_the_file(saved: Path) -> None:
    configure(saved, tie_word_embeddings=True)
    change(saved, lambda held: held.pop("lm_head.weight"))
    loaded = find(str(saved)).load().model
    assert torch.equal(loaded.get_output_embeddings().weight, loaded.get_input_embeddings().weight)


@pytest.mark.parametrize(
    "asked", [{"attn_implementation": "flash_attention_2"}, {"dtype": "float8_e4m3fn"}]
)
def test_what_a_configuration_asks_for_beside_shapes_need_not_be_here(
    saved: Path, asked: dict[str, str]
) -> None:
    configure(saved, **asked)
    loaded = find(str(saved)).load().model
    assert loaded.config._attn_implementation == "sdpa"
    assert loaded.dtype == torch.float32


def test_constants_that_earlier_versions_saved_are_no_weights(tmp_path: Path) -> None:
    folder = save(tmp_path, tiny("gpt2"))
    old = {
        "transformer.h.0.attn.masked_bias": torch.tensor(-1e4),
        "transformer.h.0.attn.bias": torch.ones(1, 1, 8, 8, dtype=torch.bool),
    }
    change(folder, lambda held: held.update(old))
    assert find(str(folder)).load().family == "gpt2"
    llama = save(tmp_path / "llama", tiny("llama"))
    change(
        llama,
        lambda held: held.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}),
    )
    assert find(str(llama)).load().family == "llama"


def test_a_missing_shard_and_a_broken_index_are_named(tmp_path: Path) -> None:
    folder = save(tmp_path, tiny("llama"), max_shard_size="100KB")
    shards = sorted(folder.glob("*.safetensors"))
    shards[1].unlink()
    assert f"model.safetensors.index.json names {shards[1].name}, which are not there" in refusal(
        folder
    )
    index = folder / "model.safetensors.index.json"
    for content in ("{", "[]", '{"weight_map": 3}', "[" * 100_000):
        index.write_text(content)
        assert refusal(folder).startswith(f"{index}: is no index of weights")


@pytest.mark.parametrize("kept", [0, 5, 60, 30_000, -1])
def test_weights_that_are_cut_short_are_one_line(saved: Path, tmp_path: Path, kept: int) -> None:
    for file in (saved / "model.safetensors", gguf_file(tmp_path / "small.gguf")):
        file.write_bytes(file.read_bytes()[:kept])
    assert "llama: its weights are cut short or damaged (" in refusal(saved)
    assert "small.gguf: is cut short or no GGUF file" in refusal(tmp_path / "small.gguf")


def test_a_whole_gguf_file_loads(tmp_path: Path) -> None:
    loaded = find(str(gguf_file(tmp_path / "small.gguf"))).load()
    assert (loaded.layers, loaded.heads, loaded.kv_heads, loaded.dimension) == (2, 4, 2, 8)
    assert loaded.tokenizer("abc")["input_ids"] == [29, 5]


UP, QUERY = "blk.0.ffn_up.weight", "blk.0.attn_q.weight"
GGUF_CHANGES: dict[str, tuple[Callable[[dict[str, np.ndarray]], object], str]] = {
    "missing": (lambda held: held.pop("blk.1.attn_v.weight"), f"1 weight is missing ({V_PROJ})."),
    "extra": (
        lambda held: held.update({"rope_freqs.weight": np.ones(4, np.float32)}),
        "1 weight is unknown (rope_freqs.weight).",
    ),
    "other shape": (
        lambda held: held.update({UP: held[UP][:40]}),
        f"1 weight is of another shape ({UP} 1280 elements for 1536).",
    ),
    "other heads": (
        lambda held: held.update({QUERY: held[QUERY][:30]}),
        f"1 weight is of another shape ({QUERY} 960 elements for 1024).",
    ),
    "turned over": (
        lambda held: held.update({UP: held[UP].T.copy()}),
        "1 weight is of another shape (model.layers.0.mlp.up_proj.weight (32, 48) for (48, 32)).",
    ),
}


@pytest.mark.parametrize("name", GGUF_CHANGES)
def test_tensors_of_a_gguf_file_that_are_not_those_of_its_header_are_named(
    tmp_path: Path, name: str
) -> None:
    act, said = GGUF_CHANGES[name]
    file = gguf_file(tmp_path / "small.gguf", change=act)
    assert (
        refusal(file)
        == f"{file}: {MISFIT}{said} Get a whole copy of the model, or one as .safetensors."
    )


def test_an_array_of_a_gguf_header_that_is_longer_than_its_file_is_refused_at_once(
    tmp_path: Path,
) -> None:
    file = gguf_file(tmp_path / "long.gguf")
    data = file.read_bytes()
    name = b"tokenizer.ggml.merges"
    at = data.index(name) + len(name) + 4  # behind the name and that this is an array
    file.unlink()  # what was read may still be mapped
    file.write_bytes(data[:at] + struct.pack("<IQ", 0, 2**40) + data[at + 12 :])
    with timely(), pytest.raises(InputError, match=r"long\.gguf: is cut short or no GGUF file"):
        checkpoints.gguf_tensors(file)


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        (1, "9 weights are unknown (blk.1.attn_k.weight, "),
        (3, "9 weights are missing (model.layers.2."),
        (10**9, "1000000000 layers, but its files hold 20 tensors"),
    ],
)
def test_a_gguf_header_with_other_layers_than_its_tensors_is_refused(
    tmp_path: Path, layers: int, said: str
) -> None:
    assert said in refusal(gguf_file(tmp_path / "small.gguf", layers=layers))


def test_a_copy_of_the_built_in_model_that_lost_a_weight_names_the_folder_to_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOSTAT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(folders, "gguf_file", lambda: tmp_path / "small.gguf")

    def convert(gguf: Path, folder: Path) -> None:
        save(folder, tiny("llama"))
        change(folder, lambda held: held.pop(V_PROJ))

    monkeypatch.setattr(builtin, "_convert", convert)
    with pytest.raises(
        InputError,
        match=(
            r"the converted built-in model is damaged: 1 weight is missing .*Remove that folder; it"
            r" is made anew"
        ),
    ):
        find().load()


@pytest.mark.parametrize("name", ["pipe", "pipe.gguf", "folder"])
def test_a_pipe_for_a_model_is_refused_and_not_waited_for(
    tmp_path: Path, saved: Path, name: str
) -> None:
    if name == "folder":
        (saved / "model.safetensors").unlink()
        os.mkfifo(saved / "model.safetensors")
        assert "model.safetensors: is no regular file or a link to nothing" in refusal(saved)
        return
    os.mkfifo(tmp_path / name)
    assert f"{name}: is a pipe, a device or a socket, expected a .gguf file" in refusal(
        tmp_path / name
    )


def test_finding_a_model_reads_no_weights(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        models, "load_weights", lambda *args, **options: pytest.fail("weights were read")
    )
    found = find(str(saved), device="cpu")
    assert found.tokenizer("abc")["input_ids"] == [3, 4, 5]
    assert found.heads == (4, 4)
