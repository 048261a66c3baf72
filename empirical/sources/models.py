"""Models to measure: a Hugging Face id, a local folder, a GGUF file, or the built-in model.

Each comes with the identity that a run records: which weights, to the commit or the sha256, in which type, on which device.
Imports torch, transformers and safetensors only.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr
from copy import deepcopy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from empirical.errors import InputError
from empirical.sources.builtin import BUILTIN
from empirical.sources.checkpoints import gguf_tensors, impossible, safetensors_files, safetensors_tensors, unfit, unfit_gguf
from empirical.sources.folders import Source, source_of
from empirical.tap.tap import attention_layers, decoder_of, refuse_too_long, tap

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
DEVICES = ("auto", "cpu", "cuda", "mps")


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
class FoundModel:
    """A model whose files were found and fit together, and its tokenizer; its weights are not read yet."""

    tokenizer: PreTrainedTokenizerBase
    config: PreTrainedConfig
    source: Source
    options: dict[str, Any]
    """What `from_pretrained` takes beside the folder."""
    dtype: str
    device: str
    allow_pickle: bool

    @property
    def heads(self) -> tuple[int, int] | None:
        """Layers and heads by the configuration; None where it does not tell them as two numbers."""
        config = self.config.get_text_config()
        layers, heads = getattr(config, "num_hidden_layers", None), getattr(config, "num_attention_heads", None)
        return (layers, heads) if isinstance(layers, int) and isinstance(heads, int) else None

    def refuse_unreadable(self, length: int) -> None:
        """Refuse by the configuration a model that cannot be measured, or not on windows of `length` tokens.

        Raises:
            InputError: some layers do not attend, or it reads fewer tokens.
        """
        config = self.config.get_text_config()
        if getattr(config, "num_hidden_layers", None) is not None:
            attention_layers(config)
        refuse_too_long(config, length)

    def load(self) -> LoadedModel:
        """Read the weights, to the device, in evaluation mode, gradients off.

        Raises:
            InputError: weights are missing, unknown, of another shape or unreadable, or the tap refuses the model.
        """
        options = self.options if self.source.gguf is None else {**self.options, "config": self.config}  # seconds to read from GGUF again
        with _quiet(), _no_bar(self.source):
            loaded = _load_weights(self.source, DTYPES[self.dtype], options, allow_pickle=self.allow_pickle)
        return _described(self.source, loaded.to(self.device).eval().requires_grad_(False), self.tokenizer, self.dtype, self.device)


def load(model: str | None = None, **options: Any) -> LoadedModel:
    """Load a model and its tokenizer: `find`, which takes the options, and then the weights.

    Returns:
        The model in evaluation mode, gradients off.

    Raises:
        InputError: no such model or device, weights missing or unreadable, or a model that the tap refuses.
    """
    return find(model, **options).load()


def find(
    model: str | None = None,
    *,
    revision: str | None = None,
    dtype: str = "float32",
    device: str = "auto",
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
) -> FoundModel:
    """Find a model, and read all of it but its weights, which may take minutes.

    Args:
        model: None or "builtin"; a folder; a .gguf file; or a Hugging Face id.
        revision: branch, tag or commit of a hub id; it is resolved to a commit before anything is loaded.
        dtype: "float32", "bfloat16" or "float16", of weights and activations. The tapped weights are float32 in any case.
        device: "cpu", "cuda", "mps", or "auto": the first of cuda, mps, cpu that is there.
        trust_remote_code: run Python code that comes with the model.
        allow_pickle: also take weights that are not safetensors; loading a pickle runs whatever code it holds.

    Raises:
        InputError: no such model or device, no tokenizer, or files that by their headers cannot hold the model that their configuration tells.
    """
    if dtype not in DTYPES:
        raise InputError(f"--dtype is {dtype}, expected one of {', '.join(DTYPES)}. Use one of those; float32 is the exact one.")
    target = pick_device(device)
    with _quiet():
        source = source_of(model, revision, allow_pickle=allow_pickle)
        options: dict[str, Any] = {"revision": source.revision, "trust_remote_code": trust_remote_code}
        with _no_bar(source):
            headers = _headers(source)
            config = _load(source, AutoConfig, options)
            if headers is not None:
                _refuse_unfit(source, headers, config, trust_remote_code=trust_remote_code)
            tokenizer = _load(source, AutoTokenizer, options)
    return FoundModel(
        tokenizer=tokenizer, config=config, source=source, options=options, dtype=dtype, device=target, allow_pickle=allow_pickle
    )


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


def _no_bar(source: Source) -> AbstractContextManager[Any]:
    """Silence the bar of GGUF's unpacking, which asks nobody whether it may be shown."""
    return nullcontext() if source.gguf is None else redirect_stderr(io.StringIO())


@dataclass(frozen=True, slots=True)
class _Headers:
    """Elements of each tensor in a model's files; the architecture of a GGUF file."""

    tensors: dict[str, int]
    architecture: str = ""


def _headers(source: Source) -> _Headers | None:
    """Read what a model's files hold; None for those of the hub, not here yet, and for pickles, which tell nothing unless they are loaded."""
    folder = Path(source.folder)
    if source.gguf is not None:
        architecture, tensors = gguf_tensors(folder / source.gguf)
        return _Headers(tensors, architecture)
    if source.revision is None and any(folder.glob("*.safetensors")):
        return _Headers(_told(source, lambda: safetensors_tensors(safetensors_files(folder))))
    return None


def _refuse_unfit(source: Source, headers: _Headers, config: PreTrainedConfig, *, trust_remote_code: bool) -> None:
    """Refuse files that do not hold what the configuration tells, before either costs time or memory."""
    said = impossible(config, headers.tensors)
    if said is None:
        # What a configuration asks for beside shapes, such as FlashAttention, need not be here: it is loaded without.
        plain: dict[str, Any] = {"attn_implementation": "eager", "dtype": torch.float32, "trust_remote_code": trust_remote_code}
        with torch.device("meta"):
            model = _told(source, lambda: AutoModelForCausalLM.from_config(deepcopy(config), **plain))
        said = impossible(config, headers.tensors, model)
        if said is None and headers.architecture:
            said = _told(source, lambda: unfit_gguf(headers.architecture, headers.tensors, model))
    if said is not None:
        raise InputError(_misfit(source, said))


def _misfit(source: Source, said: str) -> str:
    """Say in one line that weights and configuration are not of one model."""
    if source.model == BUILTIN:
        return f"{source.folder}: the converted built-in model is damaged: {said}. Remove that folder; it is made anew."
    remedy = "Get a whole copy of the model." if source.gguf is None else "Get a whole copy of the model, or one as .safetensors."
    return f"{source.model}: weights and configuration do not belong together: {said}. {remedy}"


def _load_weights(source: Source, dtype: torch.dtype, options: dict[str, Any], *, allow_pickle: bool) -> PreTrainedModel:
    """Load the weights with PyTorch's attention where the family may take it, and else with its own; refuse those that were made up."""
    options = {**options, "dtype": dtype, "output_loading_info": True, "ignore_mismatched_sizes": True}  # the misfits are named below
    if source.gguf is None:
        options["use_safetensors"] = None if allow_pickle else True
    try:
        loaded, result = _load(source, AutoModelForCausalLM, {**options, "attn_implementation": "sdpa"})
    except InputError as error:
        if "scaled_dot_product_attention" not in str(error.__cause__):
            raise
        loaded, result = _load(source, AutoModelForCausalLM, {**options, "attn_implementation": "eager"})
    said = unfit(result)
    if said is not None:
        raise InputError(_misfit(source, said))
    return loaded


def _load(source: Source, kind: Any, options: dict[str, Any]) -> Any:
    """Call `from_pretrained` and turn its errors into one line."""
    if source.gguf is not None:
        options = {**options, "gguf_file": source.gguf}
    return _told(source, lambda: kind.from_pretrained(source.folder, **options))


def _told(source: Source, act: Callable[[], Any]) -> Any:
    """Do what a damaged or foreign model may make transformers stumble over, and turn its errors into one line."""
    try:
        return act()
    except InputError:
        raise
    except Exception as error:  # whatever it raises, the user reads one line
        raise InputError(_unreadable(source, error)) from error


def _unreadable(source: Source, error: Exception) -> str:
    """Say in one line what transformers said in many, with the remedy."""
    said = " ".join(str(error).split())[:200]
    if "trust_remote_code" in said or "remote code" in said:
        return f"{source.model}: comes with Python code of its own. If you trust it, use --trust-remote-code."
    if "safetensors" in said and "does not appear to have" in said:
        return f"{source.model}: has no safetensors weights. Pickled ones run code when loaded: --allow-pickle takes them."
    if source.model == BUILTIN:
        return f"{source.folder}: the converted built-in model is damaged ({type(error).__name__}). Remove that folder; it is made anew."
    if isinstance(error, SafetensorError):
        return f"{source.model}: its weights are cut short or damaged ({said}). Get the files again."
    return f"{source.model}: transformers cannot load it ({type(error).__name__}: {said}). Name a causal language model."


def _described(source: Source, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, dtype: str, device: str) -> LoadedModel:
    """Put a loaded model together with what its layers show of themselves when two tokens go through the tap."""
    shapes: list[tuple[int, int, int]] = []
    tap(model, torch.tensor([[0, 1]]), lambda layer: shapes.append((layer.alpha.shape[1], layer.values.shape[1], layer.values.shape[3])))
    if len(set(shapes)) != 1:
        raise InputError(f"{source.model}: its layers differ in heads or in their dimension, expected the same in each. Use another model.")
    heads, kv_heads, dimension = shapes[0]
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        id=source.model,
        revision=source.revision,
        sha256=source.identity(),
        family=decoder_of(model).config.model_type,
        layers=len(shapes),
        heads=heads,
        kv_heads=kv_heads,
        dimension=dimension,
        dtype=dtype,
        device=device,
    )
