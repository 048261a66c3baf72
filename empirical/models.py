"""Models to measure: a Hugging Face id, a local folder, a GGUF file, or the built-in model.

Each comes with the identity that a run records: which weights, to the commit or the sha256, in which type, on which device.
Imports torch, transformers and huggingface_hub only.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from empirical.builtin import BUILTIN, converted, file_sha256, gguf_file
from empirical.errors import InputError
from empirical.tap import decoder_of, tap

__all__ = ["DEVICES", "DTYPES", "LoadedModel", "load", "pick_device"]

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
DEVICES = ("auto", "cpu", "cuda", "mps")

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model in evaluation mode without gradients, its tokenizer, and what identifies it."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    id: str
    """The hub id, the path as given, or the name of the built-in model."""
    revision: str | None
    """Commit of a hub model."""
    sha256: str | None
    """Of a local model's weights: of the file, or, where there are several, of the lines `sha256 name` in the order of names."""
    family: str
    layers: int
    heads: int
    kv_heads: int
    dimension: int
    """Of a head's value states."""
    dtype: str
    device: str

    def provenance(self) -> dict[str, str | int | None]:
        """Return what a run records of its model."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in {"model", "tokenizer"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Where weights come from: what `from_pretrained` takes, and what identifies them."""

    model: str
    folder: str
    revision: str | None = None
    sha256: str | None = None
    gguf: str | None = None


def load(
    model: str | None = None,
    *,
    revision: str | None = None,
    dtype: str = "float32",
    device: str = "auto",
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
) -> LoadedModel:
    """Load a model and its tokenizer.

    Args:
        model: None or "builtin"; a folder; a .gguf file; or a Hugging Face id.
        revision: branch, tag or commit of a hub id; it is resolved to a commit before anything is loaded.
        dtype: "float32", "bfloat16" or "float16", of weights and activations. The tapped weights are float32 in any case.
        device: "cpu", "cuda", "mps", or "auto": the first of cuda, mps, cpu that is there.
        trust_remote_code: run Python code that comes with the model.
        allow_pickle: also take weights that are not safetensors; loading a pickle runs whatever code it holds.

    Returns:
        The model in evaluation mode, gradients off.

    Raises:
        InputError: no such model or device, weights missing or unreadable, or a model that the tap refuses.
    """
    if dtype not in DTYPES:
        raise InputError(f"--dtype is {dtype}, expected one of {', '.join(DTYPES)}. Use one of those; float32 is the exact one.")
    target = pick_device(device)
    with _quiet():
        source = _source(model, revision, allow_pickle=allow_pickle)
        options: dict[str, Any] = {"revision": source.revision, "trust_remote_code": trust_remote_code}
        with nullcontext() if source.gguf is None else redirect_stderr(io.StringIO()):  # where the bar of GGUF's unpacking is written
            loaded = _load_weights(source, DTYPES[dtype], options, allow_pickle=allow_pickle)
            tokenizer = _load(source, AutoTokenizer, options)
    loaded = loaded.to(target).eval().requires_grad_(False)
    return _described(source, loaded, tokenizer, dtype, target)


def pick_device(device: str = "auto") -> str:
    """Return "cpu", "cuda" or "mps" for a `--device`.

    Raises:
        InputError: the name is unknown or the machine has no such device.
    """
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return next(name for name, present in there.items() if present)
    if device not in there:
        raise InputError(f"--device is {device}, expected one of {', '.join(DEVICES)}. Use one of those; auto takes what is there.")
    if not there[device]:
        raise InputError(f"--device is {device}, but PyTorch finds no such device here. Use --device auto.")
    return device


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence transformers' progress bars and notices; what matters reaches the user as an error of our own. Downloads keep their bar."""
    verbosity = logging.get_verbosity()
    hook = logging.set_tqdm_hook(lambda factory, args, keywords: logging.EmptyTqdm(*args, **keywords))
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        logging.set_tqdm_hook(hook)


def _source(model: str | None, revision: str | None, *, allow_pickle: bool) -> _Source:
    """Find out which of the four kinds of source `model` names."""
    path = None if model is None or model == "builtin" else Path(model).expanduser()
    if revision is not None and (path is None or path.exists()):
        raise InputError(
            f"--revision {revision} belongs to a Hugging Face id, but the model is {model or 'the built-in one'}. Leave it out."
        )
    if path is None:
        gguf = gguf_file()
        sha256 = file_sha256(gguf)
        return _Source(model=BUILTIN, folder=str(converted(gguf, sha256)), sha256=sha256)
    assert model is not None
    if path.is_dir():
        return _Source(model=model, folder=str(path), sha256=_folder_sha256(path, allow_pickle=allow_pickle))
    if path.is_file():
        if path.suffix != ".gguf":
            raise InputError(
                f"{model}: is a file of type {path.suffix or 'unknown'}, expected a .gguf file, a folder or a Hugging Face id."
            )
        return _Source(model=model, folder=str(path.parent), gguf=path.name, sha256=file_sha256(path))
    if path.suffix == ".gguf" or not _HUB_ID.fullmatch(model):
        raise InputError(f"{model}: no such file or folder, and it is no Hugging Face id. Check the path.")
    return _Source(model=model, folder=model, revision=_commit(model, revision))


def _folder_sha256(folder: Path, *, allow_pickle: bool) -> str:
    """Return what identifies the weight files of a local folder."""
    files = sorted(folder.glob("*.safetensors")) or (sorted(folder.glob("pytorch_model*.bin")) if allow_pickle else [])
    if not (folder / "config.json").is_file() or not files:
        held = sorted(file.name for file in folder.glob("*.gguf"))
        remedy = f"Name the file: {folder / held[0]}." if held else "Name a folder written by save_pretrained."
        if not held and any(folder.glob("*.bin")):
            remedy = "Its weights may be pickles, which run code when loaded: --allow-pickle takes them."
        raise InputError(f"{folder}: expected config.json and weights as .safetensors. {remedy}")
    hashes = [file_sha256(file) for file in files]
    if len(hashes) == 1:
        return hashes[0]
    lines = "".join(f"{sha256} {file.name}\n" for sha256, file in zip(hashes, files, strict=True))
    return hashlib.sha256(lines.encode()).hexdigest()


def _commit(model: str, revision: str | None) -> str:
    """Return the commit that a hub id and revision stand for: from the hub, or, where it cannot be reached, from what was loaded before."""
    try:
        return str(HfApi().model_info(model, revision=revision, timeout=20).sha)
    except RevisionNotFoundError as error:
        raise InputError(f"{model}: the Hugging Face hub has no revision {revision} of it. Check --revision.") from error
    except GatedRepoError as error:
        raise InputError(
            f"{model}: its authors ask for consent. Accept their terms on huggingface.co and log in with `hf auth login`."
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise InputError(
            f"{model}: no such folder or file, and the Hugging Face hub knows no such model (or it is private). Check the name."
        ) from error
    except Exception as error:  # the transport's own errors change with the library underneath; any of them means: not reached
        held = try_to_load_from_cache(model, "config.json", revision=revision)
        if isinstance(held, str):
            return Path(held).parent.name
        raise InputError(
            f"{model}: the Hugging Face hub cannot be reached ({type(error).__name__}) and the model was not loaded before. "
            "Check the connection, or leave out the model to use the built-in one."
        ) from error


def _load_weights(source: _Source, dtype: torch.dtype, options: dict[str, Any], *, allow_pickle: bool) -> PreTrainedModel:
    """Load the weights with PyTorch's attention where the family may take it, and else with its own."""
    options = {**options, "dtype": dtype}
    if source.gguf is None:
        options["use_safetensors"] = None if allow_pickle else True
    try:
        return _load(source, AutoModelForCausalLM, {**options, "attn_implementation": "sdpa"})
    except InputError as error:
        if "scaled_dot_product_attention" not in str(error.__cause__):
            raise
    return _load(source, AutoModelForCausalLM, {**options, "attn_implementation": "eager"})


def _load(source: _Source, kind: Any, options: dict[str, Any]) -> Any:
    """Call `from_pretrained` and turn its errors into one line."""
    if source.gguf is not None:
        options = {**options, "gguf_file": source.gguf}
    try:
        return kind.from_pretrained(source.folder, **options)
    except Exception as error:  # whatever a damaged or foreign model makes transformers raise, the user reads one line
        raise InputError(_unreadable(source, error)) from error


def _unreadable(source: _Source, error: Exception) -> str:
    """Say in one line what transformers said in many, with the remedy."""
    said = " ".join(str(error).split())[:200]
    if "trust_remote_code" in said or "remote code" in said:
        return f"{source.model}: comes with Python code of its own. If you trust it, use --trust-remote-code."
    if "safetensors" in said and "does not appear to have" in said:
        return f"{source.model}: has no safetensors weights. Pickled ones run code when loaded: --allow-pickle takes them."
    if source.model == BUILTIN:
        return f"{source.folder}: the converted built-in model is damaged ({type(error).__name__}). Remove that folder; it is made anew."
    return f"{source.model}: transformers cannot load it ({type(error).__name__}: {said}). Name a causal language model."


def _described(source: _Source, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, dtype: str, device: str) -> LoadedModel:
    """Put a loaded model together with what its layers show of themselves when two tokens go through the tap."""
    shapes: list[tuple[int, int, int]] = []
    tap(model, torch.tensor([[0, 1]]), lambda layer: shapes.append((layer.weights.shape[1], layer.values.shape[1], layer.values.shape[3])))
    if len(set(shapes)) != 1:
        raise InputError(f"{source.model}: its layers differ in heads or in their dimension, expected the same in each. Use another model.")
    heads, kv_heads, dimension = shapes[0]
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        id=source.model,
        revision=source.revision,
        sha256=source.sha256,
        family=decoder_of(model).config.model_type,
        layers=len(shapes),
        heads=heads,
        kv_heads=kv_heads,
        dimension=dimension,
        dtype=dtype,
        device=device,
    )
