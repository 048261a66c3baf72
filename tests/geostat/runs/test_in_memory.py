"""Capture of a model and documents in memory: equal to files, and the model stays unchanged."""

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import accelerate
import numpy as np
import pytest
import torch
import transformers
import xarray as xr
from support.every_decoder import tiny_of
from support.families import letters, save, tiny, tokens
from support.spine import LENGTH

import geostat as gs
from geostat.errors import InputError
from geostat.runs.in_memory import options_and_inputs
from geostat.runs.options import CaptureOptions

ASKED = {"length": LENGTH, "n": "1,2,5-7,20"}
WITHOUT_NULL = {**ASKED, "null": False}


@pytest.fixture(scope="module")
def texts(text_folder: Path) -> list[str]:
    return [" " + path.read_text() for path in sorted(text_folder.iterdir())[:2]]


def ids(documents: int, length: int = LENGTH) -> np.ndarray:
    return np.random.default_rng(0).integers(3, 90, (documents, length))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    out = tmp_path_factory.mktemp("plain")
    return gs.capture(tiny("llama"), documents=ids(1), out=out, **WITHOUT_NULL)


def assert_same_numbers(run: xr.DataTree, expected: xr.DataTree, *groups: str) -> None:
    """Compare values of runs whose documents have other names, and whose groups other words."""
    for name in groups or expected.children:
        xr.testing.assert_identical(
            run[name].to_dataset().drop_vars("document").drop_attrs(),
            expected[name].to_dataset().drop_vars("document").drop_attrs(),
        )


def test_a_model_in_memory_equals_the_same_model_from_a_folder(
    tmp_path: Path, model_folder: Path, texts: list[str]
):
    model, tokenizer, file = tiny("llama").train(), letters(bos=True), tmp_path / "text.txt"
    implementation = model.config._attn_implementation
    model.config.return_dict = False
    given = {"tokenizer": tokenizer, "documents": texts[:1]}
    run = gs.capture(model, **given, out=tmp_path / "a", **WITHOUT_NULL)
    file.write_text(texts[0])
    named = {"documents": file, "count": 1}
    saved = gs.capture(str(model_folder), **named, out=tmp_path / "b", **WITHOUT_NULL)
    assert_same_numbers(run, saved)
    assert model.training
    assert model.config._attn_implementation == implementation
    assert run.attrs["token_texts"] == saved.attrs["token_texts"]
    assert run.attrs["corpus"]["name"] == "documents in memory"


@pytest.mark.slow
def test_token_ids_need_no_tokenizer_and_equal_their_text(tmp_path: Path, texts: list[str]):
    model, tokenizer = tiny("llama"), letters(bos=True)
    token_ids = [np.array(tokenizer(text)["input_ids"]) for text in texts]
    of_ids = gs.capture(model, documents=token_ids, out=tmp_path / "ids", **ASKED)
    of_texts = gs.capture(
        model, tokenizer=tokenizer, documents=texts, out=tmp_path / "texts", **ASKED
    )
    assert_same_numbers(of_ids, of_texts)
    assert "token_texts" not in of_ids.attrs


@pytest.mark.slow
def test_different_weights_are_a_different_run(tmp_path: Path, texts: list[str]):
    model = tiny("llama")
    capture = partial(gs.capture, model, tokenizer=letters(bos=True), out=tmp_path, **ASKED)
    first = capture(documents=texts[:1])
    assert len(first.attrs["model"]["sha256"]) == 64
    assert capture(documents=texts)["capture"].sizes["document"] == 2
    with torch.no_grad():
        model.model.layers[0].self_attn.v_proj.weight += 0.1
    with pytest.raises(InputError, match=r"was measured with model\.sha256"):
        capture(documents=texts)
    unhashed = capture(documents=texts, hash_weights=False, fresh=True)
    assert unhashed.attrs["model"]["sha256"] is None


def test_a_model_split_over_devices_gives_equal_numbers(tmp_path: Path, plain: xr.DataTree):
    """Offloaded layers are read on demand and cannot be hashed."""
    places = {f"model.layers.{layer}": "disk" if layer in (1, 2) else "cpu" for layer in range(4)}
    places |= dict.fromkeys(("model.embed_tokens", "model.norm", "model.rotary_emb"), "cpu")
    spread = accelerate.dispatch_model(
        tiny("llama"),
        places | {"lm_head": "cpu"},
        main_device="cpu",
        offload_dir=tmp_path / "offloaded",
    )
    with pytest.raises(InputError, match="is not in memory, so it cannot be hashed"):
        gs.capture(spread, documents=ids(1), out=tmp_path, **WITHOUT_NULL)
    kwargs = {"documents": ids(1), "hash_weights": False, **WITHOUT_NULL}
    assert_same_numbers(gs.capture(spread, out=tmp_path, **kwargs), plain)


@pytest.mark.slow
def test_an_offloaded_model_gives_equal_numbers(tmp_path: Path, plain: xr.DataTree):
    model = accelerate.cpu_offload(tiny("llama"), execution_device=torch.device("cpu"))
    kwargs = {"documents": ids(1), "hash_weights": False, **WITHOUT_NULL}
    result = gs.capture(model, out=tmp_path, **kwargs)
    assert (result.attrs["model"]["device"], result.attrs["measure"]) == ("cpu", "cpu")
    assert_same_numbers(result, plain)


def test_two_threads_measure_one_model(tmp_path: Path, plain: xr.DataTree):
    model = tiny("llama")
    before = model.config._attn_implementation
    capture = partial(gs.capture, model, documents=ids(1), **WITHOUT_NULL)
    with ThreadPoolExecutor(2) as threads:
        runs = list(threads.map(lambda name: capture(out=tmp_path / name), ("one", "other")))
    assert model.config._attn_implementation == before
    for run in runs:
        assert_same_numbers(run, plain)


def test_heads_may_be_pairs_and_one_text_needs_no_list(text_folder: Path):
    text = text_folder / "text 1.txt"
    read = partial(options_and_inputs, CaptureOptions, "capture", "a model")
    named, _, _ = read(text, heads=["L1H2"])
    pairs, _, texts = read(str(text), heads=[(1, 2)])
    assert named == pairs
    assert (pairs.heads, pairs.text, texts) == (((1, 2),), (text,), None)


THREE = {"documents": [[1, 2, 3]]}


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"documents": []}, "documents: is empty, expected text files"),
        ({"documents": ["a text \ud800 of words"]}, "document 0: character 7 is half of one"),
        ({"documents": [[1, 2**31]]}, "integers from 0 to 2³¹ − 1"),
        ({"documents": ["a text of words"]}, "tokenizer: is missing, expected the model's"),
        ({}, "tokenizer: is missing"),
        ({"documents": 3}, "documents=3: expected text files or folders, texts or token ids"),
        ({"documents": [[1, 2]], "dataset": "a/b"}, "dataset and documents were both given"),
        ({**THREE, "queries": 8}, "queries 8: expected last, last:Q"),
        ({**THREE, "heads": (1, 2)}, "heads 1: expected a layer and a head"),
        ({**THREE, "heads": [(1,)]}, "heads L1: expected a layer and a head"),
        ({**THREE, "dtype": "bfloat16"}, "dtype='bfloat16': controls loading"),
        ({**THREE, "length": 600}, "reads at most 512 tokens"),
    ],
)
def test_invalid_keywords_are_refused_and_leave_the_model_unchanged(
    tmp_path: Path, kwargs: dict[str, Any], message: str
):
    model = tiny("llama").train()
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        gs.capture(model, out=tmp_path / "out", **{"length": LENGTH} | kwargs)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert model.training


def test_a_tokenizer_with_a_named_model_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="tokenizer: was given, but the model is not in memory"):
        gs.capture("absent", tokenizer=letters(bos=True), out=tmp_path / "out")


@pytest.mark.parametrize(
    "length", [33, *(pytest.param(length, marks=pytest.mark.slow) for length in (34, 48))]
)
def test_means_over_queries_of_chunked_attention_are_of_the_last_chunk(tmp_path: Path, length: int):
    model = tiny_of("Llama4ForCausalLM", attention_chunk_size=16)
    kwargs = {"documents": list(tokens(1, length)), "length": length, "null": False}
    means = gs.capture(model, out=tmp_path, queries="default", **kwargs)["queries"]
    assert means["weight_queries"].values[:, 0].tolist() == [1]
    chunked = means["attention_weight"].values[:, 0]
    np.testing.assert_allclose(np.nansum(chunked, axis=-1), 1, rtol=1e-5)


def test_encoder_decoder_models_are_refused(tmp_path: Path):
    sizes = {"vocab_size": 97, "d_model": 64, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    bart = transformers.BartForConditionalGeneration(transformers.BartConfig(**sizes))
    for measure in (gs.capture, gs.effective, partial(gs.ablate, sizes=[1, 4], budgets=[4])):
        with pytest.raises(InputError, match="attends to an encoder"):
            measure(bart, documents=list(tokens(2, LENGTH)), length=LENGTH, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name",
    [
        "ModernBertDecoderForCausalLM",
        pytest.param("Llama4ForCausalLM", marks=pytest.mark.slow),
        pytest.param("Gemma3ForConditionalGeneration", marks=pytest.mark.slow),
        pytest.param("GotOcr2ForConditionalGeneration", marks=pytest.mark.slow),
    ],
)
def test_a_nested_decoder_equals_the_same_model_from_a_folder(tmp_path: Path, name: str):
    model, text = tiny_of(name), "abcdefghijklmnopqrstuvw" * 2 + "abcd"
    folder, file = str(save(model, tmp_path / "model")), tmp_path / "text.txt"
    file.write_text(text)
    kwargs = {"length": 40, "null": False, "queries": "last"}
    saved = gs.capture(folder, documents=[file], count=1, out=tmp_path / "a", **kwargs)
    held = gs.capture(
        model, tokenizer=letters(), documents=[text + " "], out=tmp_path / "b", **kwargs
    )
    assert_same_numbers(held, saved, "capture")


@pytest.mark.parametrize("hashed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_model_with_different_outputs_is_refused(tmp_path: Path, hashed: bool):
    model = tiny("llama")
    capture = partial(gs.capture, model, out=tmp_path, hash_weights=hashed, **WITHOUT_NULL)
    capture(documents=ids(2)[:1])
    model.model.layers[0].register_forward_hook(lambda module, given, output: output + 5.0)
    for count in (1, 2):
        with pytest.raises(InputError, match="computes other numbers from the same tokens") as seen:
            capture(documents=ids(2)[:count])
        assert "Use fresh=True" in str(seen.value)


def test_a_change_late_in_a_document_is_detected(tmp_path: Path):
    def late(module: torch.nn.Module, given: object, output: torch.Tensor) -> torch.Tensor:
        output[:, 80:81] += 5.0  # a position beyond the fixed input of the fingerprint
        return output

    model, documents = tiny("llama"), ids(2, 100)
    capture = partial(gs.capture, model, out=tmp_path, **WITHOUT_NULL | {"length": 100})
    capture(documents=documents[:1])
    model.model.layers[0].register_forward_hook(late)
    with pytest.raises(InputError, match="attention of layer 1 of the first document on"):
        capture(documents=documents)
    with pytest.raises(InputError, match="holds document 'document 0', but this run reads"):
        capture(documents=documents[::-1])
