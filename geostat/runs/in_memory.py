"""Keywords of functions that measure, such as `geostat.capture`: a model, its tokenizer and
documents, by name or in memory. Imports torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

import torch

from empirical.sources.given import HeldModel, entries_of, held, tokenizer_of
from empirical.sources.given import documents as corpus_of
from empirical.sources.texts import Corpus, Document
from geostat.errors import InputError, refuse_no_flags
from geostat.options import options_from_keywords, whole_number
from geostat.runs.options import MeasurementOptions

Record = TypeVar("Record", bound=MeasurementOptions)
IN_MEMORY: Final = ("tokenizer", "hash_weights")
"""Keywords for a model in memory; the command line lacks them."""


def options_and_inputs(
    record: type[Record],
    function: str,
    model: str | torch.nn.Module | None,
    documents: str | Path | Iterable[Any] | None,
    *,
    tokenizer: Any = None,
    hash_weights: bool = True,
    **kwargs: Any,
) -> tuple[Record, HeldModel | None, Corpus | None]:
    """Read the keywords of a function that measures.

    model, documents, tokenizer, hash_weights, kwargs: as for `geostat.capture`.

    Returns:
        The options, the model in memory and the documents in memory; None for what is named.

    Raises:
        InputError: if the model in memory is not a transformers model, an option is refused, or
            text comes without a tokenizer.
        TypeError: for an unknown keyword.
    """
    if whole_number(documents) is not None:
        raise InputError(
            f"documents={documents}: expected text files or folders, texts or token ids. Use"
            f" count={documents} for a number of documents."
        )
    refuse_no_flags(hash_weights=hash_weights)
    options = options_from_keywords(record, kwargs, function, IN_MEMORY)
    field = str(options.get("field", "text"))
    entries = _entries(documents, field=field)
    texts = None
    if not all(isinstance(entry, str | Path) for entry in entries):
        if options.get("dataset"):
            raise InputError(
                "dataset and documents were both given, expected one source of text. Drop one of"
                " them."
            )
        texts = corpus_of(entries, field=field)
    if texts is not None and options.get("documents") is None:
        options["documents"] = len(entries)
    elif options.get("documents", 0) is None:
        del options["documents"]
    named = model if model is None or isinstance(model, str) else None
    paths = tuple(
        Path(entry) for entry in entries if texts is None and isinstance(entry, str | Path)
    )
    settings = record(model=named, text=paths, **options)
    if model is None or isinstance(model, str):
        if tokenizer is not None:
            raise InputError("tokenizer: was given, but the model is not in memory. Leave it out.")
        return settings, None, texts
    _refuse_loading(settings)
    tokenizer = tokenizer_of(tokenizer)
    if tokenizer is None and (
        texts is None or any(getattr(entry, "token_ids", None) is None for entry in entries)
    ):
        raise InputError(
            "tokenizer: is missing, expected the model's tokenizer. Give tokenizer=, or documents"
            " as token ids."
        )
    return settings, held(model, tokenizer, hashed=hash_weights), texts


def _entries(documents: Any, *, field: str) -> list[str | Path | Document]:
    """Return the documents as a list; empty for the built-in texts."""
    if documents is None:
        return []
    entries = entries_of(documents, field=field)
    if not entries:
        raise InputError(
            "documents: is empty, expected text files, folders, texts or token ids. Leave it out"
            " for the built-in texts."
        )
    for index, entry in enumerate(entries):
        text = entry if isinstance(entry, str) else getattr(entry, "text", "")
        ids = getattr(entry, "token_ids", None)
        visible = any(letter.isprintable() and not letter.isspace() for letter in text)
        if not isinstance(entry, Path) and ids is None and not visible:
            raise InputError(
                f"document {index}: is an empty text, expected words, a path or token ids. Leave it"
                " out."
            )
    return entries


def _refuse_loading(settings: MeasurementOptions) -> None:
    if settings.cluster is not None:
        raise InputError(
            "client: its workers load the model by name, but this model is in memory. Name the"
            " model, or leave client out."
        )
    for name, value in settings.loading.items():
        if value != MeasurementOptions.__dataclass_fields__[name].default:
            raise InputError(
                f"{name}={value!r}: controls loading, but this model is in memory. Leave it out,"
                " and configure the model itself."
            )
