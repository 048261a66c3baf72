"""Token windows: the first tokens of each document, all of one length.

As in arXiv 2602.01893, §4, a window is a stretch of one document; nothing is padded and nothing is joined. The document is the sampling
unit: windows cut further on from one document keep its number. Imports numpy, and transformers for a type.
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

__all__ = ["SPECIAL_TOKENS", "Corpus", "Document", "Windows", "builtin", "from_hub", "from_paths", "windows"]

SPECIAL_TOKENS = ("default", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Token windows of equal length, in the order of their documents; every sequence has one entry a window."""

    token_ids: NDArray[np.int32]
    """(window, position)."""
    names: tuple[str, ...]
    """The document's name, with @ and the offset in tokens behind it for a window further on."""
    document: NDArray[np.int64]
    """Number of the document that a window was cut from, from 0: the sampling unit."""
    start: NDArray[np.int64]
    """Offset of the window in its document, in tokens."""
    sha256: tuple[str, ...]
    """Of the window's tokens as little-endian 32-bit integers."""
    text_sha256: tuple[str, ...]
    """Of the whole document's text in UTF-8."""
    skipped: int
    """Documents that were too short, among those read until enough were found."""
    corpus: str
    """Name of the corpus."""
    stride: int | None
    special_tokens: str

    def row(self, window: int) -> dict[str, Any]:
        """Return what a run records of one window, in plain types."""
        return {
            "name": self.names[window],
            "document": int(self.document[window]),
            "start": int(self.start[window]),
            "sha256": self.sha256[window],
            "text_sha256": self.text_sha256[window],
        }

    def provenance(self) -> dict[str, Any]:
        """Return what a run records of all its text; it does not change when documents are added."""
        return {"name": self.corpus, "stride": self.stride}


def windows(
    documents: Iterable[Document],
    tokenizer: PreTrainedTokenizerBase,
    *,
    length: int,
    count: int,
    stride: int | None = None,
    special_tokens: str = "default",
) -> Windows:
    """Cut the first `count` documents that are long enough into windows of `length` tokens.

    A document that is too short is left out and counted. Reading stops when enough documents are found.

    Args:
        documents: a `Corpus`, or any documents.
        tokenizer: of the model.
        length: tokens of a window, special ones included.
        count: how many documents, the sampling units.
        stride: None: one window a document. Otherwise every window that fits, this many tokens apart.
        special_tokens: "default": as the tokenizer puts them, those at the front of a text at the front of each of its windows; "none".

    Returns:
        The windows.

    Raises:
        InputError: an option is out of range, no document is long enough, or too few are; and what reading raises.
    """
    _check(length=length, count=count, stride=stride, special_tokens=special_tokens)
    corpus = getattr(documents, "name", "documents")
    rows: list[list[int]] = []
    marks: list[tuple[int, int, str, str]] = []  # number of the document, offset, name, sha256 of its text
    found = read = longest = 0
    for document in documents:
        read += 1
        front, body = _tokens(tokenizer, document.text, special_tokens=special_tokens)
        held = len(front) + len(body)
        longest = max(longest, held)
        if held < length:
            continue
        digest = hashlib.sha256(document.text.encode()).hexdigest()
        for start in range(0, held - length + 1, stride) if stride is not None else (0,):
            rows.append((front + body[start : start + length - len(front)])[:length])
            marks.append((found, start, document.name if start == 0 else f"{document.name}@{start}", digest))
        found += 1
        if found == count:
            break
    if found == 0:
        seen = f"the longest document has {longest} tokens, but --length is {length}" if read else "holds no documents"
        raise InputError(f"{corpus}: {seen}. Use {f'--length {longest} or ' if longest else ''}longer texts.")
    if found < count:
        raise InputError(
            f"{corpus}: {found} of {read} documents have {length} tokens or more, but --documents is {count}. "
            f"Use --documents {found}, a smaller --length, or more texts."
        )
    token_ids = np.array(rows, dtype=np.int32)
    return Windows(
        token_ids=token_ids,
        names=tuple(name for _, _, name, _ in marks),
        document=np.array([number for number, _, _, _ in marks], dtype=np.int64),
        start=np.array([start for _, start, _, _ in marks], dtype=np.int64),
        sha256=tuple(hashlib.sha256(row.astype("<i4").tobytes()).hexdigest() for row in token_ids),
        text_sha256=tuple(digest for _, _, _, digest in marks),
        skipped=read - found,
        corpus=corpus,
        stride=stride,
        special_tokens=special_tokens,
    )


def _check(*, length: int, count: int, stride: int | None, special_tokens: str) -> None:
    """Refuse options out of range."""
    for option, given, least in (("--length", length, 2), ("--documents", count, 1), ("--stride", stride, 1)):
        if given is not None and given < least:
            raise InputError(f"{option} is {given}, expected at least {least}.")
    if special_tokens not in SPECIAL_TOKENS:
        raise InputError(f"--special-tokens is {special_tokens}, expected one of {', '.join(SPECIAL_TOKENS)}.")


def _tokens(tokenizer: PreTrainedTokenizerBase, text: str, *, special_tokens: str) -> tuple[list[int], list[int]]:
    """Return the special tokens that the tokenizer puts at the front of a text, and all that follow.

    `verbose=False`: a text longer than the model's window is the usual case here, and nothing to warn of.
    """
    encoded = tokenizer(text, add_special_tokens=special_tokens == "default", return_special_tokens_mask=True, verbose=False)
    ids, special = list(encoded["input_ids"]), list(encoded["special_tokens_mask"])
    front = special.index(0) if 0 in special else 0
    return ids[:front], ids[front:]
