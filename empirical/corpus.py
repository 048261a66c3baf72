"""Token windows: the first tokens of each document, all of one length.

As in arXiv 2602.01893, §4, a window is a stretch of one document; nothing is padded and nothing is joined. The document is the sampling
unit, so each gives one window. Imports numpy, and transformers for a type.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from empirical.errors import InputError
from empirical.texts import Corpus, Document, builtin, from_hub, from_paths

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["LEAST_LENGTH", "SPECIAL_TOKENS", "Corpus", "Document", "Windows", "builtin", "from_hub", "from_paths", "windows"]

SPECIAL_TOKENS = ("default", "none")

LEAST_LENGTH = 4
"""Tokens of the shortest window: behind the sink are cosines at two lags, the fewest that can decay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Token windows of equal length, in the order of their documents; every sequence has one entry a document."""

    token_ids: NDArray[np.int32]
    """(document, position)."""
    names: tuple[str, ...]
    sha256: tuple[str, ...]
    """Of the window's tokens as little-endian 32-bit integers."""
    text_sha256: tuple[str, ...]
    """Of the whole document's text in UTF-8."""
    skipped: int
    """Documents that were too short, among those read until enough were found."""
    corpus: str
    """Name of the corpus."""
    special_tokens: str

    def row(self, document: int) -> dict[str, Any]:
        """Return what a run records of one document, in plain types."""
        return {"name": self.names[document], "sha256": self.sha256[document], "text_sha256": self.text_sha256[document]}

    def provenance(self) -> dict[str, Any]:
        """Return what a run records of all its text; it does not change when documents are added."""
        return {"name": self.corpus}


def windows(
    documents: Iterable[Document], tokenizer: PreTrainedTokenizerBase, *, length: int, count: int, special_tokens: str = "default"
) -> Windows:
    """Cut the first `count` documents that are long enough to their first `length` tokens.

    A document that is too short is left out and counted. Reading stops when enough documents are found.

    Args:
        documents: a `Corpus`, or any documents.
        tokenizer: of the model.
        length: tokens of a window, special ones included.
        count: how many documents, the sampling units.
        special_tokens: "default": as the tokenizer puts them; "none".

    Returns:
        The windows.

    Raises:
        InputError: an option is out of range, no document is long enough, or too few are; and what reading raises.
    """
    _check(length=length, count=count, special_tokens=special_tokens)
    corpus = getattr(documents, "name", "documents")
    rows: list[list[int]] = []
    names: list[str] = []
    digests: list[str] = []
    held: list[int] = []  # tokens of every document read
    for document in documents:
        ids = _tokens(tokenizer, document.text, special_tokens=special_tokens)
        held.append(len(ids))
        if len(ids) < length:
            continue
        rows.append(ids[:length])
        names.append(document.name)
        digests.append(hashlib.sha256(document.text.encode()).hexdigest())
        if len(rows) == count:
            break
    if len(rows) < count:
        raise InputError(f"{corpus}: {_too_few(held, found=len(rows), length=length, count=count)}")
    token_ids = np.array(rows, dtype=np.int32)
    return Windows(
        token_ids=token_ids,
        names=tuple(names),
        sha256=tuple(hashlib.sha256(row.astype("<i4").tobytes()).hexdigest() for row in token_ids),
        text_sha256=tuple(digests),
        skipped=len(held) - len(rows),
        corpus=corpus,
        special_tokens=special_tokens,
    )


def _too_few(held: list[int], *, found: int, length: int, count: int) -> str:
    """Say which documents there are instead, of `held` tokens each, and what could be asked of them."""
    if not held:
        return "holds no documents. Name other texts."
    long_enough = sorted((tokens for tokens in held if tokens >= LEAST_LENGTH), reverse=True)
    seen = (
        f"{found} of {len(held)} documents have {length} tokens or more, but --documents is {count}"
        if found
        else f"the longest document has {max(held)} tokens, but --length is {length}"
    )
    remedies = [f"--documents {found}"] if found else []
    if len(long_enough) >= count:
        remedies.append(f"--length {long_enough[count - 1]}")
    elif long_enough and not found:
        remedies.append(f"--length {long_enough[-1]} --documents {len(long_enough)}")
    return f"{seen}. Use {', '.join([*remedies, ''])}{'or ' if remedies else ''}{'more texts' if found else 'longer texts'}."


def _check(*, length: int, count: int, special_tokens: str) -> None:
    """Refuse options out of range."""
    for option, given, least in (("--length", length, LEAST_LENGTH), ("--documents", count, 1)):
        if given < least:
            raise InputError(f"{option} {given}: expected at least {least}. Use {option} {least} or more.")
    if special_tokens not in SPECIAL_TOKENS:
        raise InputError(f"--special-tokens {special_tokens}: expected one of {', '.join(SPECIAL_TOKENS)}. Use one of those.")


def _tokens(tokenizer: PreTrainedTokenizerBase, text: str, *, special_tokens: str) -> list[int]:
    """Return the tokens of a text.

    `verbose=False`: a text longer than the model's window is the usual case here, and nothing to warn of.
    """
    return list(tokenizer(text, add_special_tokens=special_tokens == "default", verbose=False)["input_ids"])
