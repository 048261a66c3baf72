"""Models to measure: a Hugging Face id, a local folder, a GGUF file, or the built-in model.

Each comes with the identity that a run records: which weights, to the commit or the sha256, in
which type, on which device. Imports torch, transformers and safetensors only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import torch
from transformers import (
    AutoConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from empirical.errors import InputError
from empirical.sources.digests import code_sha256, config_sha256
from empirical.sources.fingerprint import fingerprint
from empirical.sources.folders import Source, source_of
from empirical.sources.pretrained import (
    in_one_line,
    load,
    load_tokenizer,
    load_weights,
    quiet,
    read_headers,
    refuse_own_code,
    refuse_unfit,
)
from empirical.tap.decoder import decoder_of, entry
from empirical.tap.refusals import refuse_too_long, refuse_unattending
from empirical.tap.tap import TappedLayer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
DEVICES = ("auto", "cpu", "cuda", "mps")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model in evaluation mode without gradients, its tokenizer, and what identifies it."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    id: str
    """The hub id, the path as given, or the name of the built-in model."""
    revision: str | None
    """Commit of a hub model."""
    sha256: str | None
    """Of a local model's weights: of the file, or, where there are several, of the lines
    `sha256 name` in the order of names.
    """
    config_sha256: str | None = None
    """Of its configuration and active adapters (`digests.config_sha256`)."""
    family: str
    layers: int
    heads: int
    kv_heads: int
    dimension: int
    """Of a head's value states."""
    dtype: str
    device: str
    sliding_window: int | None = None
    """Tokens of the window of layers that have one; None where none has."""
    code_sha256: str | None = None
    """Of the Python code that came with it (`digests.code_sha256`); None where none did."""
    fingerprint: Mapping[str, list[float | None]] | None = None
    """Numbers of what it does (`fingerprint.fingerprint`)."""
    held: bool = False
    """Whether the caller holds it, who may change it from call to call."""

    def provenance(self) -> dict[str, Any]:
        """Return what a run records of its model; of a sliding window, code and a fingerprint only
        where there is one, of the beginning-of-text token (None: there is none) only where there is
        a tokenizer.
        """
        left_out = {"model", "tokenizer", "held"} | {
            name
            for name in ("sliding_window", "code_sha256", "fingerprint")
            if getattr(self, name) is None
        }
        known = {} if self.tokenizer is None else {"bos_token_id": self.tokenizer.bos_token_id}
        return known | {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in left_out
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
        return layers_and_heads(self.config.get_text_config())

    @property
    def vocabulary(self) -> int | None:
        """Tokens of its embedding by the configuration; None where that does not tell."""
        known = getattr(self.config.get_text_config(), "vocab_size", None)
        return known if isinstance(known, int) else None

    def refuse_unreadable(self, length: int) -> None:
        """Refuse by an InputError a model that, by its configuration, has layers that do not
        attend or reads fewer than `length` tokens.
        """
        with in_one_line(self.source, "configuration"):
            config = self.config.get_text_config()
            refuse_unattending(config)
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
                dtype=self.dtype,
                device=self.device,
            )

    @contextmanager
    def lent(self) -> Iterator[LoadedModel]:
        """Load the model for as long as it is measured."""
        yield self.load()


def loaded(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
    *,
    id: str,
    whole: torch.nn.Module | None = None,
    **identity: Any,
) -> LoadedModel:
    """Return a model in evaluation mode with what identifies it, its sizes as a few tokens that go
    through the tap show them; whole: the module that it is part of, if it is.

    Raises:
        InputError: the tap refuses the model, or its layers differ.
    """
    decoder = decoder_of(model)
    shapes: list[tuple[int, ...]] = []  # of each layer

    def keep(layer: TappedLayer) -> None:
        shapes.append((layer.alpha.shape[2], *layer.values.shape[1::2]))

    told = fingerprint(model, keep)
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
        fingerprint=told,
        family=decoder.config.model_type,
        layers=len(shapes),
        heads=heads,
        kv_heads=kv_heads,
        dimension=dimension,
        sliding_window=sliding_window(decoder.config),
        **identity,
    )


def layers_and_heads(config: PreTrainedConfig) -> tuple[int, int] | None:
    """Return how many layers and heads a decoder has by its configuration; None where it does not
    tell them as two numbers.
    """
    layers, heads = (
        entry(config, f"decoder_{name}") or entry(config, longer)
        for name, longer in (
            ("layers", "num_hidden_layers"),
            ("attention_heads", "num_attention_heads"),
        )
    )
    return (layers, heads) if isinstance(layers, int) and isinstance(heads, int) else None


def sliding_window(config: PreTrainedConfig) -> int | None:
    """Return how many tokens the window of a decoder's sliding layers has; None where no layer
    slides.
    """
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
    with quiet():
        source = source_of(model, revision, allow_pickle=allow_pickle)
        options: dict[str, Any] = {
            "revision": source.revision,
            "trust_remote_code": trust_remote_code,
        }
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
    """Find a model, as `find` does, and load it."""
    return find(model, **options).load()


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
