"""Models and documents in memory: a transformers model that the caller holds, texts as strings,
token ids.

The model is measured where it lies, as it is, and is given back so: mode, attention implementation
and weights. Imports numpy, torch and transformers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from empirical.errors import InputError
from empirical.sources import texts
from empirical.sources.digests import weights_sha256
from empirical.sources.models import DTYPES, LoadedModel, layers_and_heads, loaded
from empirical.sources.paths import path_of
from empirical.sources.texts import Corpus, Document
from empirical.tap.decoder import decoder_of
from empirical.tap.parity import refuse_other_forward
from empirical.tap.placed import brought_to, device_of
from empirical.tap.refusals import refuse_too_long

LARGEST_ID = 2**31 - 1
"""Token ids are kept as int32."""
NAME = "documents in memory"
"""What a run calls texts and token ids that came from no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldModel:
    """A model that the caller holds, and the tokenizer that belongs to it; None where documents
    are token ids.
    """

    decoder: PreTrainedModel
    whole: Any
    """As it was given, with the decoder and, if there is one, the head that predicts tokens."""
    tokenizer: PreTrainedTokenizerBase | None
    hashed: bool = True
    """Whether its weights are to be told by their sha256."""

    @property
    def heads(self) -> tuple[int, int] | None:
        """Layers and heads by the configuration; None where it does not tell them as two
        numbers.
        """
        return layers_and_heads(self.decoder.config)

    def refuse_unreadable(self, length: int) -> None:
        """Refuse by an InputError a model that reads fewer than `length` tokens."""
        refuse_too_long(self.decoder.config, length)

    @contextmanager
    def lent(self) -> Iterator[LoadedModel]:
        """Lend the model in evaluation mode, and give each of its modules its own mode back.

        Raises:
            InputError: the tap refuses the model, its weights are of a type that is not known, or
                they cannot be hashed.
        """
        name = str(getattr(self.decoder.config, "_name_or_path", "") or "")
        trained = [module for module in self.decoder.modules() if module.training]
        try:
            self.decoder.eval()
            refuse_other_forward(self.whole, self.decoder)
            yield loaded(
                self.decoder,
                self.tokenizer,
                id=name or type(self.decoder).__name__,
                revision=getattr(self.decoder.config, "_commit_hash", None),
                sha256=weights_sha256(self.decoder) if self.hashed else None,
                dtype=_dtype(self.decoder),
                device=str(device_of(self.decoder)),
            )
        finally:
            for module in trained:
                module.training = True


def held(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    hashed: bool = True,
) -> HeldModel:
    """Return a model in memory as one that can be measured.

    Args:
        model: a transformers `PreTrainedModel`, or a module that holds one and has its
            `get_decoder`, as peft's models have.
        tokenizer: its own; None where documents are token ids.
        hashed: identify its weights by their sha256, which reads all of them.

    Raises:
        InputError: it has no decoder of transformers, attends to an encoder, puts virtual tokens
            before a text, as peft's prompt and prefix tuning do, which that decoder does not, or
            has an adapter that begins at some tokens.
    """
    adapters = _active_adapters(model)
    if any(getattr(adapter, "is_prompt_learning", False) for adapter in adapters):
        raise InputError(
            f"model={type(model).__name__}: reads virtual tokens before each text, expected a model"
            " that reads its texts alone. Give the model inside it to measure that one."
        )
    if any(getattr(adapter, "alora_invocation_tokens", None) for adapter in adapters):
        raise InputError(
            f"model={type(model).__name__}: its adapter begins at tokens of the text that invoke it"
            " (activated LoRA), expected one that acts on all tokens. Give the model inside it to"
            " measure that one."
        )
    decoder = decoder_of(model)
    if decoder.device.type == "meta" and brought_to(decoder) is None:
        raise InputError(
            f"model={type(model).__name__}: has only the shapes of its weights (device meta),"
            " expected a model in memory. Load its weights."
        )
    return HeldModel(decoder=decoder, whole=model, tokenizer=tokenizer, hashed=hashed)


def _active_adapters(model: torch.nn.Module) -> list[Any]:
    """Return the configurations of the adapters that are active in a model of peft's."""
    names, known = getattr(model, "active_adapters", None), getattr(model, "peft_config", None)
    return [known[name] for name in names] if isinstance(names, list) and known else []


def _dtype(model: PreTrainedModel) -> str:
    """Return what the model's type is called; an InputError of one that is not known."""
    name = str(model.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise InputError(
            f"model: its weights are {name}, expected one of {', '.join(DTYPES)}. Convert it, as"
            " with model.float()."
        )
    return name


def documents(given: Iterable[Any], *, field: str = "text") -> Corpus:
    """Return documents in memory as a corpus: strings that are texts, paths, and arrays of token
    ids, in their order.

    A string is a path where something stands there, or where it holds no white space; else it is a
    text. A `Path` is a path.

    Raises:
        InputError: a path is no file or folder, a text is no Unicode, or an entry is none of the
            three.

    >>> [one.name for one in documents(["A text of some words.", [5, 6, 7]])]
    ['document 0', 'document 1']
    """
    entries = list(given)
    read = [_entry(place, one, field) for place, one in enumerate(entries)]
    population = "documents that were given in memory"

    def stream() -> Iterator[Document]:
        for one in read:
            yield from one

    return Corpus(name=NAME, read=stream, population=population)


def _entry(place: int, one: Any, field: str) -> Iterable[Document]:
    name = f"document {place}"
    if isinstance(one, str) and is_text(one):
        _refuse_no_unicode(one, name)
        return [Document(name=name, text=one)]
    if isinstance(one, str | Path):
        return texts.from_paths([one], field=field)
    return [Document(name=name, text="", token_ids=_ids(one, name))]


def _refuse_no_unicode(text: str, name: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{name}: is no Unicode text (at letter {error.start}), expected one. Read its file as"
            " UTF-8."
        ) from error


def is_text(one: str) -> bool:
    """Whether a string is a text rather than a path.

    >>> is_text("A sentence."), is_text("notes/absent.txt")
    (True, False)
    """
    if not any(letter.isspace() for letter in one):
        return False
    try:
        return "\0" in one or not path_of(one).exists()
    except (OSError, ValueError):  # longer than any name of a file
        return True


def _ids(one: Any, name: str) -> tuple[int, ...]:
    """Read token ids; an InputError where they are none."""
    values = one.detach().cpu().numpy() if isinstance(one, torch.Tensor) else np.asarray(one)
    if (
        values.ndim != 1
        or values.dtype.kind not in "iu"
        or (values < 0).any()
        or (values > LARGEST_ID).any()
    ):
        raise InputError(
            f"{name}: is {type(one).__name__} of shape {values.shape}, expected a text, a path, or"
            " token ids as one row of whole numbers from 0 to 2³¹ − 1. Give one document an entry."
        )
    return tuple(values.tolist())
