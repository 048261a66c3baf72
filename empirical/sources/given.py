"""Models and documents in memory: a transformers model that the caller holds, texts as strings,
token ids.

The model is measured where it lies, as it is, and is given back so: mode, attention implementation
and weights. Imports numpy, torch and transformers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Number
from pathlib import Path
from typing import Any, Final

import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from empirical.errors import InputError
from empirical.sources import texts
from empirical.sources.digests import weights_sha256
from empirical.sources.models import DTYPES, LoadedModel, layers_and_heads, loaded
from empirical.sources.paths import path_of
from empirical.sources.texts import Corpus, Document, whole_characters
from empirical.sources.tokens import unpadded, whole_ids
from empirical.tap.decoder import decoder_of, known_tokens
from empirical.tap.parity import refuse_other_forward
from empirical.tap.placed import brought_to, device_of
from empirical.tap.refusals import refuse_too_long

NAME = "documents in memory"
"""What a run calls texts and token ids that came from no file."""
ZERO_WIDTH_SPACE: Final = "\u200b"
"""Parts words in scripts that put no spaces, such as Khmer."""
LONGEST_NAME: Final = 32
"""Characters up to which a string without white space may name a file or folder that is not there;
a longer one that does not begin or end as a path is a text.
"""


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

    @property
    def config(self) -> PreTrainedConfig:
        """That of its decoder."""
        return self.decoder.config

    @property
    def vocabulary(self) -> int | None:
        """Tokens of its embedding; None where that does not tell."""
        return known_tokens(self.decoder)

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


def tokenizer_of(given: Any) -> PreTrainedTokenizerBase | None:
    """Return a tokenizer as it is given, or that of a processor, as multimodal models have one.

    Raises:
        InputError: it is none of transformers.
    """
    for one in (given, getattr(given, "tokenizer", None)):
        if given is None or isinstance(one, PreTrainedTokenizerBase):
            return one
    raise InputError(
        f"tokenizer={type(given).__name__}: is no tokenizer of transformers, expected one, or a"
        " processor that holds one. Load it by AutoTokenizer.from_pretrained; a"
        " tokenizers.Tokenizer is wrapped by PreTrainedTokenizerFast(tokenizer_object=…)."
    )


def documents(given: Any, *, field: str = "text") -> Corpus:
    """Return documents in memory as a corpus, in their order.

    Args:
        given: an iterable of strings that are texts (`is_text`) or paths, of `Path`s, of rows of
            token ids, or of records; or a table, such as a tokenizer returns. A record or a table
            has `input_ids`, whose `attention_mask` leaves out what is padding, or texts.
        field: under which a record or a table has its text.

    Raises:
        InputError: a path is no file or folder, a text is no Unicode, or an entry is none of these.

    >>> [one.name for one in documents(["A text of some words.", [5, 6, 7]])]
    ['document 0', 'document 1']
    >>> [one.token_ids for one in documents({"input_ids": [[5, 6], [7, 8]]})]
    [(5, 6), (7, 8)]
    """
    read = [
        texts.from_paths([one], field=field) if isinstance(one, str | Path) else [one]
        for one in entries_of(given, field=field)
    ]
    population = "documents that were given in memory"

    def stream() -> Iterator[Document]:
        for one in read:
            yield from one

    return Corpus(name=NAME, read=stream, population=population)


def entries_of(given: Any, *, field: str = "text") -> list[str | Path | Document]:
    """Return documents in memory one by one: names of paths as they are, all else as a document;
    as of `documents`.
    """
    out: list[str | Path | Document] = []
    for one in [given] if _columns(given) or isinstance(given, str | Path) else _iterated(given):
        name = f"document {len(out)}"
        if _columns(one):
            out += _of_table(one, len(out), field)
        elif isinstance(one, str) and is_text(one):
            out.append(Document(name=name, text=whole_characters(one, name)))
        elif isinstance(one, str | Path | Document):
            out.append(one)
        else:
            out.append(Document(name=name, text="", token_ids=_ids(one, name)))
    return out


def _iterated(given: Any) -> Iterator[Any]:
    try:
        return iter(given)
    except TypeError as error:
        raise InputError(
            f"documents: is {type(given).__name__}, expected texts, paths or rows of token ids."
            " Give a list of them."
        ) from error


def _columns(one: Any) -> list[Any]:
    """Names of a table's columns, or of a record's fields; none where it is no such thing."""
    names = one if isinstance(one, Mapping) else getattr(one, "columns", None)
    return [] if names is None else [*names] or ["nothing"]


def _of_table(table: Any, first: int, field: str) -> list[Document]:
    """Read the documents of a table, or the one of a record; `first` is the number of the first."""
    names = _columns(table)
    name = next((name for name in ("input_ids", field) if name in names), None)
    if name is None:
        raise InputError(
            f"document {first}: is {type(table).__name__} of {', '.join(map(str, names))}, expected"
            f" input_ids or {field!r}. Give the column of texts alone, or its name as field=."
        )
    rows = _rows(table[name])
    column = table["attention_mask"] if "attention_mask" in names else None
    masks = [None] * len(rows) if column is None else _rows(column)
    if len(masks) != len(rows):
        raise InputError(
            f"document {first}: {name} has {len(rows)} rows, its attention_mask {len(masks)},"
            " expected equally many. Give both as the tokenizer returned them."
        )
    out = []
    for number, (row, mask) in enumerate(zip(rows, masks, strict=True), start=first):
        where = f"document {number}"
        if name == "input_ids":
            ids = _unpadded(row, mask, where)
            out.append(Document(name=where, text="", token_ids=ids, masked=mask is not None))
        else:
            out.append(Document(name=where, text=texts.text_of({field: row}, field, where)))
    return out


def _rows(column: Any) -> list[Any]:
    """Rows of a column; of a record, whose only row is no list of rows, that one."""
    rows = [*column] if isinstance(column, Iterable) and not isinstance(column, str) else []
    alone = not rows or isinstance(rows[0], Number) or getattr(rows[0], "ndim", 1) == 0
    return [column] if alone else rows


def _unpadded(row: Any, mask: Any, where: str) -> tuple[int, ...]:
    """Read token ids without those that their attention mask, if there is one, hides."""
    ids = _ids(row, where)
    try:
        return tuple(unpadded(ids, mask))
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"{where}: has {len(ids)} token ids, and {error}, expected a zero for each token of"
            " padding at its ends and a one for each other. Give both as the tokenizer returned"
            " them."
        ) from error


def is_text(one: str) -> bool:
    """Whether a string is a text rather than a path: what names something is a path, and what does
    not is a text where it holds white space, or does not look like a path.

    >>> is_text("A sentence."), is_text("notes/absent.txt")
    (True, False)
    """
    spaced = any(letter.isspace() or letter == ZERO_WIDTH_SPACE for letter in one)
    if "\0" in one:
        return spaced or not _like_a_path(one)
    try:
        return not path_of(one).exists() and (spaced or not _like_a_path(one))
    except (OSError, ValueError):  # longer than any name of a file
        return True


def _like_a_path(one: str) -> bool:
    """Whether a string without white space looks like a path: it begins or ends as one, or is of
    short names.
    """
    return "://" not in one and (
        one.startswith(("/", ".", "~"))
        or bool(re.search(r"[^/\\.]\.[A-Za-z0-9]{1,8}$", one))
        or all(len(name) <= LONGEST_NAME for name in re.split(r"[/\\]", one))
    )


def _ids(one: Any, name: str) -> tuple[int, ...]:
    """Read token ids; an InputError where they are none."""
    try:
        return tuple(whole_ids(one.detach().cpu() if isinstance(one, torch.Tensor) else one))
    except (ValueError, TypeError, RuntimeError) as error:
        seen = getattr(one, "shape", None)
        raise InputError(
            f"{name}: is {type(one).__name__}{'' if seen is None else f' of shape {tuple(seen)}'},"
            " expected a text, a path, or token ids as one row of whole numbers from 0 to 2³¹ − 1."
            " Give one document an entry."
        ) from error
