"""Models to measure: a Hugging Face id, a local folder, a GGUF file, or the built-in model.

Each comes with the identity that a run records: which weights, to the commit or the sha256, in
which type, on which device. Imports torch, transformers and safetensors only.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from copy import deepcopy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from empirical.errors import InputError
from empirical.sources.builtin import BUILTIN
from empirical.sources.checkpoints import (
    gguf_tensors,
    impossible,
    safetensors_files,
    safetensors_tensors,
    unfit,
    unfit_gguf,
)
from empirical.sources.folders import Source, source_of
from empirical.tap.tap import attention_layers, refuse_too_long, tap

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
    """Of a local model's weights: of the file, or, where there are several, of the lines
    `sha256 name` in the order of names.
    """
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
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in {"model", "tokenizer"}
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """A model whose files were found and fit together, and its tokenizer; its weights are not
    read yet.
    """

    tokenizer: PreTrainedTokenizerBase
    config: PreTrainedConfig
    source: Source
    options: dict[str, Any]
    """What `from_pretrained` takes beside the folder."""
    dtype: str
    device: str

    @property
    def heads(self) -> tuple[int, int] | None:
        """Layers and heads by the configuration; None where it does not tell them as two
        numbers.
        """
        config = self.config.get_text_config()
        layers, heads = (
            getattr(config, "num_hidden_layers", None),
            getattr(config, "num_attention_heads", None),
        )
        return (layers, heads) if isinstance(layers, int) and isinstance(heads, int) else None

    def refuse_unreadable(self, length: int) -> None:
        """Refuse by an InputError a model that, by its configuration, has layers that do not
        attend or reads fewer than `length` tokens.
        """
        config = self.config.get_text_config()
        if getattr(config, "num_hidden_layers", None) is not None:
            attention_layers(config)
        refuse_too_long(config, length)

    def load(self) -> LoadedModel:
        """Read the weights, to the device, in evaluation mode, gradients off.

        Raises:
            InputError: weights are missing, unknown, of another shape or unreadable, or the tap
                refuses the model.
        """
        options = {**self.options, "dtype": DTYPES[self.dtype]}
        if self.source.gguf is not None:
            options["config"] = self.config  # takes seconds to read again
        with _quiet():
            model = _load_weights(self.source, options).to(self.device).eval().requires_grad_(False)
        shapes: list[
            tuple[int, ...]
        ] = []  # of each layer, as two tokens that go through the tap show them
        tap(
            model,
            torch.tensor([[0, 1]]),
            lambda layer: shapes.append((layer.alpha.shape[1], *layer.values.shape[1::2])),
        )
        if len(set(shapes)) != 1:
            raise InputError(
                f"{self.source.model}: its layers differ in heads or in their dimension, expected"
                " the same in each. Use another model."
            )
        heads, kv_heads, dimension = shapes[0]
        return LoadedModel(
            model=model,
            tokenizer=self.tokenizer,
            id=self.source.model,
            revision=self.source.revision,
            sha256=self.source.identity(),
            family=model.get_decoder().config.model_type,
            layers=len(shapes),
            heads=heads,
            kv_heads=kv_heads,
            dimension=dimension,
            dtype=self.dtype,
            device=self.device,
        )


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
        revision: branch, tag or commit of a hub id; it is resolved to a commit before anything is
            loaded.
        dtype: "float32", "bfloat16" or "float16", of weights and activations. The tapped weights
            are float32 in any case.
        device: "cpu", "cuda", "mps", or "auto": the first of cuda, mps, cpu that is there.
        trust_remote_code: run Python code that comes with the model.
        allow_pickle: also take weights that are not safetensors; loading a pickle runs whatever
            code it holds.

    Raises:
        InputError: no such model or device, no tokenizer, or files that by their headers cannot
            hold the model that their configuration tells.
    """
    if dtype not in DTYPES:
        raise InputError(
            f"--dtype is {dtype}, expected one of {', '.join(DTYPES)}. Use one of those; float32 is"
            " the exact one."
        )
    target = pick_device(device)
    with _quiet():
        source = source_of(model, revision, allow_pickle=allow_pickle)
        options: dict[str, Any] = {
            "revision": source.revision,
            "trust_remote_code": trust_remote_code,
        }
        headers = _headers(source)
        config = _load(source, AutoConfig, options)
        if headers is not None:
            _refuse_unfit(source, *headers, config, trust_remote_code=trust_remote_code)
        tokenizer = _load(source, AutoTokenizer, options)
    if source.gguf is None:
        options["use_safetensors"] = None if allow_pickle else True
    return FoundModel(
        tokenizer=tokenizer,
        config=config,
        source=source,
        options=options,
        dtype=dtype,
        device=target,
    )


def pick_device(device: str = "auto") -> str:
    """Return "cpu", "cuda" or "mps" for a `--device`; an InputError where the name is unknown or
    the machine has no such device.
    """
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if device == "auto":
        return next(name for name, present in there.items() if present)
    if device not in there:
        raise InputError(
            f"--device is {device}, expected one of {', '.join(DEVICES)}. Use one of those; auto"
            " takes what is there."
        )
    if not there[device]:
        raise InputError(
            f"--device is {device}, but PyTorch finds no such device here. Use --device auto."
        )
    return device


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence transformers' progress bars and notices; what matters reaches the user as an error
    of our own. Downloads keep their bar.
    """
    verbosity = logging.get_verbosity()
    hook = logging.set_tqdm_hook(
        lambda factory, args, keywords: logging.EmptyTqdm(*args, **keywords)
    )
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        logging.set_tqdm_hook(hook)


def _headers(source: Source) -> tuple[str, dict[str, int]] | None:
    """Read the architecture, of a GGUF file, and how many elements each tensor has in a model's
    files.

    None for those of the hub, not here yet, and for pickles, which tell nothing unless they are
    loaded.
    """
    folder = Path(source.folder)
    if source.gguf is not None:
        return gguf_tensors(folder / source.gguf)
    if source.revision is None and any(folder.glob("*.safetensors")):
        with _one_line(source):
            return "", safetensors_tensors(safetensors_files(folder))
    return None


def _refuse_unfit(
    source: Source,
    architecture: str,
    tensors: dict[str, int],
    config: PreTrainedConfig,
    *,
    trust_remote_code: bool,
) -> None:
    """Refuse files that do not hold what the configuration tells, before either costs time or
    memory.
    """
    misfit = impossible(config, tensors)
    if misfit is None:
        # What a configuration asks for beside shapes, such as FlashAttention, need not be here: it
        # is loaded without.
        plain: dict[str, Any] = {
            "attn_implementation": "eager",
            "dtype": torch.float32,
            "trust_remote_code": trust_remote_code,
        }
        with _one_line(source), torch.device("meta"):
            model = AutoModelForCausalLM.from_config(deepcopy(config), **plain)
        misfit = impossible(config, tensors, model)
        if misfit is None and architecture:
            with _one_line(source):
                misfit = unfit_gguf(architecture, tensors, model)
    _refuse(source, misfit)


def _refuse(source: Source, misfit: str | None) -> None:
    """Say in one line that weights and configuration are not of one model, if they are not."""
    if misfit is None:
        return
    if source.model == BUILTIN:
        raise InputError(
            f"{source.folder}: the converted built-in model is damaged: {misfit}. Remove that"
            " folder; it is made anew."
        )
    remedy = (
        "Get a whole copy of the model."
        if source.gguf is None
        else "Get a whole copy of the model, or one as .safetensors."
    )
    raise InputError(
        f"{source.model}: weights and configuration do not belong together: {misfit}. {remedy}"
    )


def _load_weights(source: Source, options: dict[str, Any]) -> PreTrainedModel:
    """Load the weights with PyTorch's attention where the family may take it, and else with its
    own; refuse those that were made up.
    """
    options = {
        **options,
        "output_loading_info": True,
        "ignore_mismatched_sizes": True,
    }  # the misfits are named below
    try:
        loaded, result = _load(
            source, AutoModelForCausalLM, {**options, "attn_implementation": "sdpa"}
        )
    except InputError as error:
        if "scaled_dot_product_attention" not in str(error.__cause__):
            raise
        loaded, result = _load(
            source, AutoModelForCausalLM, {**options, "attn_implementation": "eager"}
        )
    _refuse(source, unfit(result))
    return loaded


def _load(source: Source, kind: Any, options: dict[str, Any]) -> Any:
    """Call `from_pretrained` and turn its errors into one line."""
    with _one_line(source):
        if source.gguf is None:
            return kind.from_pretrained(source.folder, **options)
        with redirect_stderr(
            io.StringIO()
        ):  # the bar of the unpacking asks nobody whether it may be shown
            return kind.from_pretrained(source.folder, gguf_file=source.gguf, **options)


@contextmanager
def _one_line(source: Source) -> Iterator[None]:
    """Turn what a damaged or foreign model makes transformers say in many lines into one, with
    the remedy.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # whatever it raises, the user reads one line
        text = " ".join(str(error).split())[:200]
        if "trust_remote_code" in text or "remote code" in text:
            line = (
                f"{source.model}: comes with Python code of its own. If you trust it, use"
                " --trust-remote-code."
            )
        elif "safetensors" in text and "does not appear to have" in text:
            line = (
                f"{source.model}: has no safetensors weights. Pickled ones run code when loaded:"
                " --allow-pickle takes them."
            )
        elif source.model == BUILTIN:
            damage = type(error).__name__
            line = (
                f"{source.folder}: the converted built-in model is damaged ({damage}). Remove that"
                " folder; it is made anew."
            )
        elif isinstance(error, SafetensorError):
            line = (
                f"{source.model}: its weights are cut short or damaged ({text}). Get the files"
                " again."
            )
        else:
            line = (
                f"{source.model}: transformers cannot load it ({type(error).__name__}: {text})."
                " Name a causal language model."
            )
        raise InputError(line) from error
