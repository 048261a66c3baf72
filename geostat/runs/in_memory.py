"""Keywords of `geostat.capture`: a model, its tokenizer and documents by name or in memory. Imports
torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import torch

from empirical.sources.given import HeldModel, documents, entries_of, held, tokenizer_of
from empirical.sources.texts import Corpus, Document
from geostat.errors import InputError, refuse_no_flags
from geostat.runs.settings import Settings, settings_of, whole

LOADING: Final = ("revision", "dtype", "device", "trust_remote_code", "allow_pickle")
"""Settings by which a model is loaded."""
COUNT: Final = 8
"""Documents of named texts, unless told."""


def asked(
    model: str | torch.nn.Module | None,
    given: str | Path | Iterable[Any] | None,
    *,
    count: int | None,
    length: int,
    tokenizer: Any = None,
    hash_weights: bool = True,
    client: Any = None,
    usual: int = COUNT,
    face: Callable[..., Any] | None = None,
    **further: Any,
) -> tuple[Settings, HeldModel | None, Corpus | None]:
    """Read what a capture is asked for: settings, and the model and the documents that are in
    memory, None where they are named. usual: documents of named texts, unless told; face: the
    function that is asked, `geostat.capture` unless told.

    Raises:
        InputError: if the model in memory is none of transformers, a setting is refused, or text
            comes without a tokenizer.
        TypeError: for an unknown setting.
    """
    if whole(given) is not None:
        raise InputError(
            f"documents={given}: expected text files or folders, texts or token ids. How many is"
            f" count={given}."
        )
    refuse_no_flags(hash_weights=hash_weights)
    if client is not None:
        further["cluster"] = client
    entries = _entries(given, field=str(further.get("field", "text")))
    texts = _corpus(entries, further)
    if count is None:
        count = usual if texts is None else len(entries)
    named = model if model is None or isinstance(model, str) else None
    paths = [one for one in entries if texts is None and isinstance(one, str | Path)]
    settings = settings_of(named, paths, count=count, length=length, face=face, **further)
    if model is None or isinstance(model, str):
        if tokenizer is not None:
            raise InputError(
                "tokenizer: belongs to a model in memory, but the model is named. Leave it out."
            )
        return settings, None, texts
    _refuse_loading(settings)
    tokenizer = tokenizer_of(tokenizer)
    if tokenizer is None and (
        texts is None or any(getattr(one, "token_ids", None) is None for one in entries)
    ):
        raise InputError(
            "tokenizer: is missing, expected that of the model, by which texts are cut into tokens."
            " Give tokenizer=, or documents as token ids."
        )
    return settings, held(model, tokenizer, hashed=hash_weights), texts


def _entries(given: Any, *, field: str) -> list[str | Path | Document]:
    """The documents one by one; none of those that come with Python."""
    if given is None:
        return []
    entries = entries_of(given, field=field)
    if not entries:
        raise InputError(
            "documents: holds none, expected text files, folders, texts or token ids. Leave it out"
            " for the built-in texts."
        )
    for place, one in enumerate(entries):
        text = one if isinstance(one, str) else getattr(one, "text", "")
        ids = getattr(one, "token_ids", None)
        if not isinstance(one, Path) and ids is None and not _holds_letters(text):
            raise InputError(
                f"document {place}: is an empty text, expected some words, a path or token ids."
                " Leave it out."
            )
    return entries


def _holds_letters(text: str) -> bool:
    """Whether there is anything to see in a text."""
    return any(letter.isprintable() and not letter.isspace() for letter in text)


def _corpus(entries: list[str | Path | Document], further: dict[str, Any]) -> Corpus | None:
    """The documents that are in memory; None where all are named."""
    if all(isinstance(one, str | Path) for one in entries):
        return None
    if further.get("dataset"):
        raise InputError(
            "dataset and documents were both given, expected one source of text. Drop one of them."
        )
    return documents(entries, field=str(further.get("field", "text")))


def _refuse_loading(settings: Settings) -> None:
    if settings.cluster is not None:
        raise InputError(
            "client: its workers load a model themselves, but this one is in memory. Name the"
            " model, or leave client out."
        )
    defaults = {one.name: one.default for one in fields(Settings)}
    for name in LOADING:
        if getattr(settings, name) != defaults[name]:
            raise InputError(
                f"{name}={getattr(settings, name)!r}: tells how a model is loaded, but this one is"
                " in memory. Leave it out, and give the model as you want it."
            )
