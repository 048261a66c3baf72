"""Models to measure: a Hugging Face id, a local folder, a GGUF file, or the built-in model.

Each model comes with the identity that a run records: the weights (commit or sha256), their dtype
and the device. Imports torch, transformers and safetensors only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from empirical.errors import InputError
from empirical.sources.checkpoints import (
    Source,
    in_one_line,
    load,
    load_tokenizer,
    load_weights,
    quiet,
    read_headers,
    refuse_own_code,
    refuse_unfit,
    source_of,
)
from empirical.sources.identity import code_sha256, config_sha256, fingerprint
from empirical.tap.decoder import decoder_of, entry
from empirical.tap.refusals import refuse_too_long, refuse_unattending
from empirical.tap.tap import TappedLayer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
DEVICES = ("auto", "cpu", "cuda", "mps")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model in evaluation mode without gradients, its tokenizer, and its identity."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    id: str
    """The hub id, the path as given, or the name of the built-in model."""
    revision: str | None
    """Commit of a hub model."""
    sha256: str | None
    """sha256 of a local model's weights (`Source.identity`)."""
    config_sha256: str | None = None
    """sha256 of its configuration and active adapters (`identity.config_sha256`)."""
    family: str
    layers: int
    heads: int
    kv_heads: int
    dimension: int
    """Dimension of a head's value states."""
    dtype: str
    device: str
    sliding_window: int | None = None
    """Window of the sliding-window layers, in tokens; None if no layer has one."""
    code_sha256: str | None = None
    """sha256 of the Python code that came with it (`identity.code_sha256`); None if it has none."""
    fingerprint: Mapping[str, list[float | None]] | None = None
    """Summary numbers of its forward pass (`identity.fingerprint`)."""
    quantization: str | None = None
    """How the weights of the built-in model were quantised, in words (`Source.quantization`)."""
    held: bool = False
    """Whether the caller holds it and may change it between calls."""

    def provenance(self) -> dict[str, Any]:
        """Return what a run records of its model. Sliding window, code, fingerprint, quantisation
        appear only if present, the beginning-of-text token only if there is a tokenizer.
        """
        entries = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("model", "tokenizer", "held"):
            del entries[name]
        for name in ("sliding_window", "code_sha256", "fingerprint", "quantization"):
            if entries[name] is None:
                del entries[name]
        if self.tokenizer is None:
            return entries
        return {"bos_token_id": self.tokenizer.bos_token_id} | entries


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """A model whose files match its configuration; its weights are not loaded yet."""

    tokenizer: PreTrainedTokenizerBase
    config: PreTrainedConfig
    source: Source
    options: dict[str, Any]
    """Keyword arguments of `from_pretrained`."""
    dtype: str
    device: str

    @property
    def heads(self) -> tuple[int, int] | None:
        """Numbers of layers and heads in the configuration; None if they are not two integers."""
        return layers_and_heads(self.config.get_text_config())

    @property
    def vocabulary(self) -> int | None:
        """Vocabulary size in the configuration; None if it is not an integer."""
        size = getattr(self.config.get_text_config(), "vocab_size", None)
        return size if isinstance(size, int) else None

    def refuse_unreadable(self, length: int) -> None:
        """Refuse layers without attention, and windows of `length` that are too long."""
        with in_one_line(self.source, "configuration"):
            config = self.config.get_text_config()
            refuse_unattending(config)
            refuse_too_long(config, length)

    def load(self) -> LoadedModel:
        """Load the weights to the device, in evaluation mode, without gradients; an InputError if
        weights are missing, unknown, of another shape or unreadable, or the tap refuses the model.
        """
        options = {**self.options, "dtype": DTYPES[self.dtype]}
        if self.source.gguf is not None:
            options["config"] = self.config  # takes seconds to read again
        with quiet(), in_one_line(self.source, "weights"):
            model = load_weights(self.source, self.config, options)
            model = model.to(self.device).eval().requires_grad_(False)
        with in_one_line(self.source, "forward"):
            return loaded(
                model,
                self.tokenizer,
                id=self.source.model,
                revision=self.source.revision,
                sha256=self.source.identity(),
                quantization=self.source.quantization,
                dtype=self.dtype,
                device=self.device,
            )

    @contextmanager
    def loaded(self) -> Iterator[LoadedModel]:
        """Yield the loaded model for the duration of the measurement."""
        yield self.load()


def loaded(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
    *,
    id: str,
    whole: torch.nn.Module | None = None,
    **identity: Any,
) -> LoadedModel:
    """Return a model in evaluation mode with its identity. Its sizes come from a short forward pass
    through the tap. whole: the module that contains the model, if any. An InputError if the tap
    refuses the model, or its layers differ in shape.
    """
    decoder = decoder_of(model)
    shapes: list[tuple[int, ...]] = []  # of each layer

    def keep(layer: TappedLayer) -> None:
        shapes.append((layer.alpha.shape[2], *layer.values.shape[1::2]))

    numbers = fingerprint(model, keep)
    if len(set(shapes)) != 1:
        raise InputError(
            f"{id}: its layers differ in heads or in their dimension, expected the same in each."
            " Use another model."
        )
    heads, kv_heads, dimension = shapes[0]
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        id=id,
        config_sha256=config_sha256(decoder),
        code_sha256=code_sha256(whole or model),
        fingerprint=numbers,
        family=decoder.config.model_type,
        layers=len(shapes),
        heads=heads,
        kv_heads=kv_heads,
        dimension=dimension,
        sliding_window=sliding_window(decoder.config),
        **identity,
    )


def layers_and_heads(config: PreTrainedConfig) -> tuple[int, int] | None:
    """Return a configuration's numbers of layers and heads; None if they are not two integers."""
    layers = entry(config, "decoder_layers") or entry(config, "num_hidden_layers")
    heads = entry(config, "decoder_attention_heads") or entry(config, "num_attention_heads")
    return (layers, heads) if isinstance(layers, int) and isinstance(heads, int) else None


def sliding_window(config: PreTrainedConfig) -> int | None:
    """Return the window of a decoder's sliding layers, in tokens; None if no layer slides."""
    types = entry(config, "layer_types") or ["sliding_attention"]
    window = entry(config, "sliding_window")
    return int(window) if window and "sliding_attention" in types else None


def find(
    model: str | None = None,
    *,
    revision: str | None = None,
    dtype: str = "float32",
    device: str = "auto",
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
) -> FoundModel:
    """Find a model and read everything but its weights, which may take minutes.

    Args:
        model: None or "builtin"; a folder; a .gguf file; or a Hugging Face id.
        revision: branch, tag or commit of a hub id; resolved to a commit before anything is loaded.
        dtype: "float32", "bfloat16" or "float16", of weights and activations. The tapped attention
            weights are always float32.
        device: "cpu", "cuda", "mps", or "auto" (the first available of cuda, mps, cpu).
        trust_remote_code: run Python code that comes with the model.
        allow_pickle: also accept weights that are not safetensors; loading a pickle runs the code
            in it.

    Raises:
        InputError: there is no such model, device or tokenizer, or the file headers do not match
            the configuration.
    """
    if dtype not in DTYPES:
        raise InputError(
            f"--dtype is {dtype}, expected one of {', '.join(DTYPES)}. Use one of those; float32 is"
            " exact."
        )
    target = pick_device(device)
    with quiet():
        source = source_of(model, revision, allow_pickle=allow_pickle)
        options = {"revision": source.revision, "trust_remote_code": trust_remote_code}
        headers = read_headers(source)
        config = load(source, AutoConfig, options, "configuration")
        if not trust_remote_code:
            refuse_own_code(source, config)
        if headers is not None:
            refuse_unfit(source, *headers, config, trust_remote_code=trust_remote_code)
        tokenizer = load_tokenizer(source, options)
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


def load_named(model: str | None, **options: Any) -> LoadedModel:
    """Find a model as `find` does, and load it."""
    return find(model, **options).load()


def pick_device(device: str = "auto") -> str:
    """Return "cpu", "cuda" or "mps" for a `--device`; an InputError if it is unknown or absent."""
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    present = {"cuda": cuda, "mps": mps, "cpu": True}
    if device == "auto":
        return next(name for name in present if present[name])
    if device not in present:
        raise InputError(
            f"--device is {device}, expected one of {', '.join(DEVICES)}. Use one of those; auto"
            " takes the first available."
        )
    if not present[device]:
        raise InputError(
            f"--device is {device}, but PyTorch finds no such device here. Use --device auto."
        )
    return device
