"""Models and documents in memory: a transformers model that the caller holds, texts as strings,
token ids.

The model is measured in place. Its mode, attention implementation and weights are restored
afterwards. Imports numpy, torch and transformers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from numbers import Number
from pathlib import Path
from typing import Any, Final

import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from empirical.errors import InputError
from empirical.sources import texts
from empirical.sources.identity import weights_sha256
from empirical.sources.models import DTYPES, LoadedModel, layers_and_heads, loaded
from empirical.sources.paths import path_of
from empirical.sources.texts import Corpus, Document, whole_characters
from empirical.sources.windows import unpadded, whole_ids
from empirical.tap.decoder import decoder_of, device_of, known_tokens, offload_target
from empirical.tap.parity import refuse_other_forward
from empirical.tap.refusals import refuse_too_long

NAME = "documents in memory"
"""Corpus name of texts and token ids that come from no file. Stored in the run."""
ZERO_WIDTH_SPACE: Final = "\u200b"
"""Separates words in scripts without spaces, such as Khmer."""
LONGEST_NAME: Final = 32
"""Longest string without white space, in characters, that may be the path of a missing file or
folder. A longer one is a text unless it begins or ends like a path.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldModel:
    """A model that the caller holds, and its tokenizer (None if documents are token ids)."""

    decoder: PreTrainedModel
    whole: Any
    """The model as given: the decoder and, if present, the language-model head."""
    tokenizer: PreTrainedTokenizerBase | None
    hashed: bool = True
    """Whether the sha256 of its weights identifies it."""

    @property
    def heads(self) -> tuple[int, int] | None:
        """Numbers of layers and heads in the configuration; None if they are not two integers."""
        return layers_and_heads(self.decoder.config)

    @property
    def config(self) -> PreTrainedConfig:
        """Configuration of the decoder."""
        return self.decoder.config

    @property
    def vocabulary(self) -> int | None:
        """Number of tokens in the embedding; None if it has no table."""
        return known_tokens(self.decoder)

    def refuse_unreadable(self, length: int) -> None:
        """Refuse by an InputError a model that reads fewer than `length` tokens."""
        refuse_too_long(self.decoder.config, length)

    @contextmanager
    def loaded(self) -> Iterator[LoadedModel]:
        """Yield the model in evaluation mode; afterwards restore the mode of each of its modules.

        Raises:
            InputError: the tap refuses the model, or its weights have an unknown type or no hash.
        """
        name = str(getattr(self.decoder.config, "_name_or_path", "") or "")
        modules = {**dict.fromkeys(self.whole.modules()), **dict.fromkeys(self.decoder.modules())}
        trained = [module for module in modules if module.training]
        try:
            for module in (self.whole, self.decoder):
                module.eval()
            refuse_other_forward(self.whole, self.decoder)
            yield loaded(
                self.decoder,
                self.tokenizer,
                id=name or type(self.decoder).__name__,
                whole=self.whole,
                revision=getattr(self.decoder.config, "_commit_hash", None),
                sha256=weights_sha256(self.decoder) if self.hashed else None,
                dtype=_dtype(self.decoder),
                device=str(device_of(self.decoder)),
                held=True,
            )
        finally:
            for module in trained:
                module.training = True


def held(
    model: torch.nn.Module, tokenizer: PreTrainedTokenizerBase | None = None, *, hashed: bool = True
) -> HeldModel:
    """Return a model in memory as one that can be measured.

    Args:
        model: a transformers `PreTrainedModel`, or a module that contains one and has its
            `get_decoder`, such as peft's models.
        tokenizer: the model's tokenizer; None if documents are token ids.
        hashed: identify the weights by their sha256, which reads all of them.

    Raises:
        InputError: the model has no transformers decoder, attends to an encoder, puts virtual
            tokens before a text, or has an adapter that begins at certain tokens.
    """
    names, known = getattr(model, "active_adapters", None), getattr(model, "peft_config", None)
    adapters = [known[name] for name in names] if isinstance(names, list) and known else []
    if any(getattr(adapter, "is_prompt_learning", False) for adapter in adapters):
        raise InputError(
            f"model={type(model).__name__}: reads virtual tokens before each text, expected a model"
            " without prompt or prefix tuning. Give the model inside it to measure that one."
        )
    if any(getattr(adapter, "alora_invocation_tokens", None) for adapter in adapters):
        raise InputError(
            f"model={type(model).__name__}: its adapter begins at tokens of the text that invoke it"
            " (activated LoRA), expected one that acts on all tokens. Give the model inside it to"
            " measure that one."
        )
    decoder = decoder_of(model)
    if decoder.device.type == "meta" and offload_target(decoder) is None:
        raise InputError(
            f"model={type(model).__name__}: has only the shapes of its weights (device meta),"
            " expected a model in memory. Load its weights."
        )
    return HeldModel(decoder=decoder, whole=model, tokenizer=tokenizer, hashed=hashed)


def _dtype(model: PreTrainedModel) -> str:
    """Return the name of the model's dtype; an InputError if it is not supported."""
    name = str(model.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise InputError(
            f"model: its weights are {name}, expected one of {', '.join(DTYPES)}. Convert it, as"
            " with model.float()."
        )
    return name


def tokenizer_of(candidate: Any) -> PreTrainedTokenizerBase | None:
    """Return a tokenizer, or that of a processor, as multimodal models have; else an InputError."""
    for tokenizer in (candidate, getattr(candidate, "tokenizer", None)):
        if candidate is None or isinstance(tokenizer, PreTrainedTokenizerBase):
            return tokenizer
    raise InputError(
        f"tokenizer={type(candidate).__name__}: is no transformers tokenizer, expected one, or a"
        " processor that has one. Load it with AutoTokenizer.from_pretrained, or wrap a"
        " tokenizers.Tokenizer in PreTrainedTokenizerFast(tokenizer_object=…)."
    )


def documents(given: Any, *, field: str = "text") -> Corpus:
    """Return documents in memory as a corpus, in their order.

    Args:
        given: an iterable of texts (`is_text`) or paths as strings, of `Path`s, of rows of token
            ids, or of records; or a table, such as a tokenizer returns. A record or a table has
            texts or `input_ids`; an `attention_mask` marks the padding of `input_ids`.
        field: name of the field of a record, or column of a table, that holds the text.

    Raises:
        InputError: a path is no file or folder, a text is not valid Unicode, or an entry is none of
            these.

    >>> [document.name for document in documents(["A text of some words.", [5, 6, 7]])]
    ['document 0', 'document 1']
    >>> [document.token_ids for document in documents({"input_ids": [[5, 6], [7, 8]]})]
    [(5, 6), (7, 8)]
    """
    parts = [
        texts.from_paths([entry], field=field) if isinstance(entry, str | Path) else [entry]
        for entry in entries_of(given, field=field)
    ]
    population = "documents that were given in memory"
    return Corpus(name=NAME, read=lambda: chain.from_iterable(parts), population=population)


def entries_of(given: Any, *, field: str = "text") -> list[str | Path | Document]:
    """Return documents one by one: paths unchanged, others as a `Document`; see `documents`."""
    try:
        items = iter([given] if _columns(given) or isinstance(given, str | Path) else given)
    except TypeError as error:
        raise InputError(
            f"documents: is {type(given).__name__}, expected texts, paths or rows of token ids."
            " Give a list of them."
        ) from error
    entries: list[str | Path | Document] = []
    for entry in items:
        name = f"document {len(entries)}"
        if _columns(entry):
            entries += _of_table(entry, len(entries), field)
        elif isinstance(entry, str) and is_text(entry):
            entries.append(Document(name=name, text=whole_characters(entry, name)))
        elif isinstance(entry, str | Path | Document):
            entries.append(entry)
        else:
            entries.append(Document(name=name, text="", token_ids=_ids(entry, name)))
    return entries


def _columns(entry: Any) -> list[Any]:
    """Return the columns of a table or fields of a record; an empty list for anything else."""
    names = entry if isinstance(entry, Mapping) else getattr(entry, "columns", None)
    return [] if names is None else [*names] or ["nothing"]


def _of_table(table: Any, first: int, field: str) -> list[Document]:
    """Read the documents of a table, numbered from `first`, or the single one of a record."""
    names = _columns(table)
    name = next((name for name in ("input_ids", field) if name in names), None)
    if name is None:
        raise InputError(
            f"document {first}: is {type(table).__name__} of {', '.join(map(str, names))}, expected"
            f" input_ids or {field!r}. Pass the column of texts, or its name as field=."
        )
    rows = _rows(table[name])
    column = table["attention_mask"] if "attention_mask" in names else None
    masks = [None] * len(rows) if column is None else _rows(column)
    if len(masks) != len(rows):
        raise InputError(
            f"document {first}: {name} has {len(rows)} rows, its attention_mask {len(masks)},"
            " expected equally many. Pass both as the tokenizer returned them."
        )
    documents = []
    for number, (row, mask) in enumerate(zip(rows, masks, strict=True), start=first):
        where = f"document {number}"
        if name == "input_ids":
            ids = _unpadded(row, mask, where)
            documents.append(Document(name=where, text="", token_ids=ids, masked=mask is not None))
        else:
            documents.append(Document(name=where, text=texts.text_of({field: row}, field, where)))
    return documents


def _rows(column: Any) -> list[Any]:
    """Return the rows of a column, or the single row of a record."""
    rows = [*column] if isinstance(column, Iterable) and not isinstance(column, str) else []
    single = not rows or isinstance(rows[0], Number) or getattr(rows[0], "ndim", 1) == 0
    return [column] if single else rows


def _unpadded(row: Any, mask: Any, where: str) -> tuple[int, ...]:
    """Read token ids and drop those that the attention mask, if any, hides."""
    ids = _ids(row, where)
    try:
        return tuple(unpadded(ids, mask))
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"{where}: has {len(ids)} token ids, and {error}, expected 0 for each padding token at"
            " its ends and 1 for every other token. Pass both as the tokenizer returned them."
        ) from error


def is_text(string: str) -> bool:
    """Return whether a string is a text rather than a path: no file or folder has that name, and it
    contains white space or does not look like a path.

    >>> is_text("A sentence."), is_text("notes/absent.txt")
    (True, False)
    """
    like_text = any(letter.isspace() or letter == ZERO_WIDTH_SPACE for letter in string)
    like_text = like_text or not _like_a_path(string)
    try:
        return ("\0" in string or not path_of(string).exists()) and like_text
    except (OSError, ValueError):  # longer than any file name
        return True


def _like_a_path(string: str) -> bool:
    """Return whether a string begins or ends like a path, or consists of short names."""
    return "://" not in string and (
        string.startswith(("/", ".", "~"))
        or bool(re.search(r"[^/\\.]\.[A-Za-z0-9]{1,8}$", string))
        or all(len(name) <= LONGEST_NAME for name in re.split(r"[/\\]", string))
    )


def _ids(row: Any, name: str) -> tuple[int, ...]:
    """Read token ids; an InputError if the row holds none."""
    try:
        return tuple(whole_ids(row.detach().cpu() if isinstance(row, torch.Tensor) else row))
    except (ValueError, TypeError, RuntimeError) as error:
        shape = getattr(row, "shape", None)
        seen = type(row).__name__ + ("" if shape is None else f" of shape {tuple(shape)}")
        raise InputError(
            f"{name}: is {seen}, expected a text, a path, or token ids as one row of integers from"
            " 0 to 2³¹ − 1. Pass one document per entry."
        ) from error
