"""A capture of a model and documents in memory: the numbers of one from files, and the model as it
was.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import accelerate
import numpy as np
import pytest
import torch
import transformers
import xarray as xr
from support.every_decoder import tiny_of
from support.families import letters, tiny, tokens
from support.spine import LENGTH

import geostat as gs
from geostat.errors import InputError

ASKED = {"length": LENGTH, "n": "1,2,5-7,20"}


@pytest.fixture(scope="module")
def texts(text_folder: Path) -> list[str]:
    return [" " + path.read_text() for path in sorted(text_folder.iterdir())[:2]]


def numbers(run: xr.DataTree) -> dict[str, xr.Dataset]:
    return {name: run[name].to_dataset().drop_vars("document") for name in run.children}


def test_a_model_in_memory_gives_the_numbers_of_the_same_from_a_folder(
    tmp_path: Path, model_folder: Path, texts: list[str]
):
    model, tokenizer = tiny("llama").train(), letters(bos=True)
    implementation = model.config._attn_implementation
    run = gs.capture(model, tokenizer=tokenizer, documents=texts, out=tmp_path / "a", **ASKED)
    files = []
    for place, text in enumerate(texts):
        files.append(tmp_path / f"{place}.txt")
        files[-1].write_text(text)
    saved = gs.capture(str(model_folder), documents=files, count=2, out=tmp_path / "b", **ASKED)
    for name, expected in numbers(saved).items():
        xr.testing.assert_identical(numbers(run)[name].drop_attrs(), expected.drop_attrs())
    assert run["capture"].sizes["document"] == 2
    assert model.training
    assert model.config._attn_implementation == implementation
    assert run.attrs["token_texts"] == saved.attrs["token_texts"]
    assert run.attrs["corpus"]["name"] == "documents in memory"


@pytest.mark.slow
def test_token_ids_need_no_tokenizer_and_give_the_numbers_of_their_text(
    tmp_path: Path, texts: list[str]
):
    model, tokenizer = tiny("llama"), letters(bos=True)
    ids = [np.array(tokenizer(text)["input_ids"]) for text in texts]
    of_ids = gs.capture(model, documents=ids, out=tmp_path / "ids", **ASKED)
    of_texts = gs.capture(
        model, tokenizer=tokenizer, documents=texts, out=tmp_path / "texts", **ASKED
    )
    for name, expected in numbers(of_texts).items():
        xr.testing.assert_equal(numbers(of_ids)[name], expected)
    assert "token_texts" not in of_ids.attrs


@pytest.mark.slow
def test_token_ids_alone_make_a_report(tmp_path: Path):
    model = tiny("llama")
    ids = [np.random.default_rng(seed).integers(2, 20, LENGTH) for seed in (0, 1)]
    run = gs.capture(model, documents=ids, out=tmp_path / "ids", **ASKED)
    fits = gs.fit(run)
    env = gs.confront(run, fits, points=3, swap=False)
    page = gs.report(run, fits, env, out=tmp_path / "page")
    assert "LlamaModel" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_other_weights_are_another_run(tmp_path: Path, texts: list[str]):
    model, tokenizer = tiny("llama"), letters(bos=True)
    asked = {"tokenizer": tokenizer, "out": tmp_path, **ASKED}
    first = gs.capture(model, documents=texts[:1], **asked)
    assert len(first.attrs["model"]["sha256"]) == 64
    assert gs.capture(model, documents=texts, **asked)["capture"].sizes["document"] == 2
    with torch.no_grad():
        model.model.layers[0].self_attn.v_proj.weight += 0.1
    with pytest.raises(InputError, match=r"was measured with model\.sha256"):
        gs.capture(model, documents=texts, **asked)
    told = gs.capture(model, documents=texts, hash_weights=False, fresh=True, **asked)
    assert told.attrs["model"]["sha256"] is None


def test_a_model_spread_over_places_gives_the_same_numbers(tmp_path: Path):
    """Layers on the disk are read when they are run, and cannot be hashed."""
    ids = np.random.default_rng(0).integers(3, 90, (2, LENGTH))
    asked = {"documents": ids, "null": False, **ASKED}
    whole = gs.capture(tiny("llama"), out=tmp_path / "whole", **asked)
    model = tiny("llama")
    places = {f"model.layers.{layer}": "disk" if layer in (1, 2) else "cpu" for layer in range(4)}
    places |= dict.fromkeys(("model.embed_tokens", "model.norm", "model.rotary_emb"), "cpu")
    spread = accelerate.dispatch_model(
        model, places | {"lm_head": "cpu"}, main_device="cpu", offload_dir=tmp_path / "offloaded"
    )
    with pytest.raises(InputError, match="is not in memory, so it cannot be hashed"):
        gs.capture(spread, out=tmp_path / "spread", **asked)
    found = gs.capture(spread, hash_weights=False, out=tmp_path / "spread", **asked)
    for name, expected in numbers(whole).items():
        xr.testing.assert_equal(numbers(found)[name], expected)


def test_a_model_that_lies_elsewhere_until_it_runs_gives_the_same_numbers(tmp_path: Path):
    ids = np.random.default_rng(0).integers(3, 90, (1, LENGTH))
    asked = {"documents": ids, "null": False, **ASKED}
    whole = gs.capture(tiny("llama"), out=tmp_path / "whole", **asked)
    model = accelerate.cpu_offload(tiny("llama"), execution_device=torch.device("cpu"))
    found = gs.capture(model, hash_weights=False, out=tmp_path / "elsewhere", **asked)
    assert (found.attrs["model"]["device"], found.attrs["measure"]) == ("cpu", "cpu")
    for name, expected in numbers(whole).items():
        xr.testing.assert_equal(numbers(found)[name], expected)


def test_a_model_with_another_configuration_is_not_mixed_in(tmp_path: Path):
    ids = np.random.default_rng(0).integers(3, 90, (2, LENGTH))
    model = tiny("llama")
    gs.capture(model, documents=ids[:1], null=False, out=tmp_path, **ASKED)
    model.config.rope_parameters["rope_theta"] = 500.0
    with pytest.raises(InputError, match=r"was measured with model\.config_sha256"):
        gs.capture(model, documents=ids, null=False, out=tmp_path, **ASKED)


def test_two_threads_measure_one_model(tmp_path: Path):
    ids = np.random.default_rng(0).integers(3, 90, (2, LENGTH))
    model = tiny("llama")
    before = model.config._attn_implementation

    def measured(name: int) -> xr.DataTree:
        return gs.capture(model, documents=ids, null=False, out=tmp_path / str(name), **ASKED)

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(measured, range(2))
    assert model.config._attn_implementation == before
    for name, expected in numbers(one).items():
        xr.testing.assert_identical(numbers(other)[name], expected)


def test_what_a_call_names_is_read_as_on_the_command_line(tmp_path: Path):
    ids = np.random.default_rng(0).integers(3, 90, (1, LENGTH))
    model = tiny("llama")
    model.config.return_dict = False
    asked = {"documents": ids, "null": False, **ASKED}
    named = gs.capture(model, heads=["L1H2"], out=tmp_path / "named", **asked)
    pairs = gs.capture(model, heads=[(1, 2)], out=tmp_path / "pairs", **asked)
    for name, expected in numbers(pairs).items():
        xr.testing.assert_identical(numbers(named)[name], expected)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"documents": []}, "documents: holds none, expected text files"),
        ({"documents": ["a text of words", " "]}, "document 1: is an empty text"),
        ({"documents": ["a text \ud800 of words"]}, "document 0: character 7 is half of one"),
        ({"documents": [[1, 2**31]]}, "whole numbers from 0 to 2³¹ − 1"),
        ({"documents": [[1, 2, 3]], "queries": 8}, "queries 8: expected last, last:Q"),
        ({"documents": None}, "tokenizer: is missing"),
        ({"documents": [[1, 2, 3]], "heads": (1, 2)}, "heads 1: expected a layer and a head"),
        ({"documents": [[1, 2, 3]], "heads": [(1,)]}, "heads L1: expected a layer and a head"),
        ({"documents": ["a text of words"]}, "tokenizer: is missing, expected that of the model"),
        ({}, "tokenizer: is missing"),
        ({"documents": [[1, 2, 3]], "dtype": "bfloat16"}, "dtype='bfloat16': tells how a model"),
        ({"documents": [[1, 2, 3]], "length": 600}, "reads at most 512 tokens"),
        ({"documents": [[1, 2, 3]], "heads": ((9, 0),)}, "L9H0: no such head"),
        ({"documents": [[1, 2, 3]]}, "the longest document has 3 tokens"),
        ({"documents": 3}, "documents=3: expected text files or folders, texts or token ids"),
        ({"documents": [[1, 2]], "dataset": "a/b"}, "dataset and documents were both given"),
    ],
)
def test_what_does_not_fit_is_refused_and_the_model_left_alone(
    tmp_path: Path, asked: dict, said: str
):
    model = tiny("llama").train()
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        gs.capture(model, out=tmp_path / "out", **{"length": LENGTH} | asked)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert model.training


@pytest.mark.parametrize("length", [33, 34, 40, 48])
def test_means_over_queries_of_chunked_attention_are_of_the_last_chunk(tmp_path: Path, length: int):
    model = tiny_of("Llama4ForCausalLM", attention_chunk_size=16)
    asked = {"documents": list(tokens(2, length)), "length": length, "null": False}
    means = gs.capture(model, out=tmp_path, queries="default", **asked)["queries"]
    chunked = means["attention_weight"].values[:, 0]
    assert means["weight_queries"].values[:, 0].tolist() == [1, 1]
    np.testing.assert_allclose(np.nansum(chunked, axis=-1), 1, rtol=1e-5)


def test_losses_beside_an_encoder_are_refused(tmp_path: Path):
    sizes = {"vocab_size": 97, "d_model": 64, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    bart = transformers.BartForConditionalGeneration(transformers.BartConfig(**sizes))
    for face in (gs.capture, gs.effective, gs.ablate):
        with pytest.raises(InputError, match="attends to an encoder beside the text"):
            face(bart, documents=list(tokens(2, LENGTH)), length=LENGTH, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name",
    [
        "ModernBertDecoderForCausalLM",
        "Llama4ForCausalLM",
        pytest.param("Gemma3ForConditionalGeneration", marks=pytest.mark.slow),
        pytest.param("GotOcr2ForConditionalGeneration", marks=pytest.mark.slow),
    ],
)
def test_a_decoder_that_is_found_inside_gives_the_same_from_a_folder(tmp_path: Path, name: str):
    model, text = tiny_of(name), "".join("abcdefghijklmnopqrstuvwxyz"[at % 23] for at in range(50))
    model.save_pretrained(tmp_path / "model")
    letters().save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text(text)
    asked = {"length": 40, "count": 1, "null": False, "queries": "last"}
    folder, file = str(tmp_path / "model"), [tmp_path / "text.txt"]
    saved = gs.capture(folder, documents=file, out=tmp_path / "a", **asked)
    given = gs.capture(
        model, tokenizer=letters(), documents=[text + " "], out=tmp_path / "b", **asked
    )
    xr.testing.assert_equal(numbers(saved)["capture"], numbers(given)["capture"])


def test_a_tokenizer_beside_a_named_model_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="tokenizer: belongs to a model in memory"):
        gs.capture("absent", tokenizer=letters(bos=True), out=tmp_path / "out")


@pytest.mark.parametrize("hashed", [True, False])
def test_a_model_that_computes_other_numbers_is_not_mixed_in(tmp_path: Path, hashed: bool):
    ids = np.random.default_rng(0).integers(3, 90, (3, LENGTH))
    asked = {"null": False, "out": tmp_path, "hash_weights": hashed, **ASKED}
    model = tiny("llama")
    gs.capture(model, documents=ids[:2], **asked)
    hook = model.model.layers[0].register_forward_hook(lambda module, given, output: output + 5.0)
    for count in (2, 3):
        with pytest.raises(InputError, match="computes other numbers from the same tokens") as seen:
            gs.capture(model, documents=ids[:count], **asked)
        assert "Use fresh=True" in str(seen.value)
    hook.remove()
    assert gs.capture(model, documents=ids, **asked)["capture"].sizes["document"] == 3


def test_what_acts_late_in_a_document_makes_another_model(tmp_path: Path):
    def late(module: torch.nn.Module, given: object, output: torch.Tensor) -> torch.Tensor:
        output[:, 80:81] += 5.0  # a position that the fixed input of the fingerprint has not
        return output

    ids = np.random.default_rng(0).integers(3, 90, (2, 100))
    asked = {"null": False, "out": tmp_path, **ASKED, "length": 100}
    model = tiny("llama")
    gs.capture(model, documents=ids[:1], **asked)
    hook = model.model.layers[0].register_forward_hook(late)
    with pytest.raises(InputError, match="attention of layer 1 of the first document on"):
        gs.capture(model, documents=ids, **asked)
    with pytest.raises(InputError, match="holds document 'document 0' where this run reads"):
        gs.capture(model, documents=ids[::-1], **asked)
    hook.remove()
    assert gs.capture(model, documents=ids, **asked)["capture"].sizes["document"] == 2
