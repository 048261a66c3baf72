"""Token windows: the first tokens of each document, all of one length.

As in arXiv 2602.01893, §4, a window is a stretch of one document; nothing is padded and nothing is
joined. The document is the sampling unit, so each gives one window. Imports numpy, and transformers
for a type.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from empirical.errors import InputError
from empirical.sources.texts import Document

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SPECIAL_TOKENS = ("default", "none")

LEAST_LENGTH = 4
"""Tokens of the shortest window: behind the sink are cosines at two lags, the fewest that can
decay.
"""

CHARACTERS_READ = 32
"""Characters of a text that are cut into tokens at first, for each token of a window; twice as
many whenever they do not settle it.
"""
MARGIN = 16
"""Tokens that must follow a window before it counts as settled: the last ones before a cut
depend on what follows.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Token windows of equal length, in the order of their documents; every sequence has one
    entry a document.
    """

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
        return {
            "name": self.names[document],
            "sha256": self.sha256[document],
            "text_sha256": self.text_sha256[document],
        }


def windows(
    documents: Iterable[Document],
    tokenizer: PreTrainedTokenizerBase,
    *,
    length: int,
    count: int,
    special_tokens: str = "default",
) -> Windows:
    """Cut the first `count` documents that are long enough to their first `length` tokens, special
    ones included.

    A document that is too short is left out and counted. Documents are the sampling unit: two whose
    windows are the same would be one that counts twice, and are refused. special_tokens: "default"
    (as the tokenizer puts them) or "none".

    Raises:
        InputError: an option is out of range, no document is long enough, or too few are, or two
            hold the same text or begin with the same tokens; and what reading raises.
    """
    _check(length=length, count=count, special_tokens=special_tokens)
    rows, held = _read(
        documents, tokenizer, length=length, count=count, special_tokens=special_tokens
    )
    corpus = getattr(documents, "name", "documents")
    if len(rows) < count:
        raise InputError(
            f"{corpus}: {_too_few(held, enough=len(rows), length=length, count=count)}"
        )
    token_ids = np.array(list(rows), dtype=np.int32)
    names, digests = zip(*rows.values(), strict=True)
    return Windows(
        token_ids=token_ids,
        names=names,
        sha256=tuple(hashlib.sha256(row.astype("<i4").tobytes()).hexdigest() for row in token_ids),
        text_sha256=digests,
        skipped=len(held) - len(rows),
        corpus=corpus,
        special_tokens=special_tokens,
    )


def _read(
    documents: Iterable[Document],
    tokenizer: PreTrainedTokenizerBase,
    *,
    length: int,
    count: int,
    special_tokens: str,
) -> tuple[dict[tuple[int, ...], tuple[str, str]], list[int]]:
    """Read documents until `count` windows are found.

    Returns by the tokens of a window its document's name and digest; and how many tokens each
    document that was read has, of a long one `length` or more.
    """
    rows: dict[tuple[int, ...], tuple[str, str]] = {}
    held: list[int] = []
    for document in documents:
        ids = _tokens(tokenizer, document.text, special_tokens=special_tokens, length=length)
        held.append(len(ids))
        if len(ids) < length:
            continue
        window, digest = tuple(ids[:length]), hashlib.sha256(document.text.encode()).hexdigest()
        if window in rows:
            first, first_digest = rows[window]
            raise InputError(
                _twice(
                    first,
                    document.name,
                    same_text=first_digest == digest,
                    length=length,
                    enough=len(rows),
                )
            )
        rows[window] = document.name, digest
        if len(rows) == count:
            break
    return rows, held


def _too_few(held: list[int], *, enough: int, length: int, count: int) -> str:
    """Say which documents there are instead, of `held` tokens each, and what could be asked of
    them.
    """
    if not held:
        return "holds no documents. Name other texts."
    long_enough = sorted((tokens for tokens in held if tokens >= LEAST_LENGTH), reverse=True)
    seen = (
        f"{enough} of {len(held)} documents have {length} tokens or more, but --documents is"
        f" {count}"
        if enough
        else f"the longest document has {max(held)} tokens, but --length is {length}"
    )
    remedies = [f"--documents {enough}"] if enough else []
    if len(long_enough) >= count:
        remedies.append(f"--length {long_enough[count - 1]}")
    elif long_enough and not enough:
        remedies.append(f"--length {long_enough[-1]} --documents {len(long_enough)}")
    others = f"{'or ' if remedies else ''}{'more' if enough else 'longer'} texts"
    return f"{seen}. Use {', '.join([*remedies, others])}."


def _check(*, length: int, count: int, special_tokens: str) -> None:
    """Refuse options out of range."""
    for option, given, least in (("--length", length, LEAST_LENGTH), ("--documents", count, 1)):
        if given < least:
            raise InputError(
                f"{option} {given}: expected at least {least}. Use {option} {least} or more."
            )
    if special_tokens not in SPECIAL_TOKENS:
        raise InputError(
            f"--special-tokens {special_tokens}: expected one of {', '.join(SPECIAL_TOKENS)}. Use"
            " one of those."
        )


def _twice(first: str, second: str, *, same_text: bool, length: int, enough: int) -> str:
    """Say that two documents are one, and what could be done."""
    seen, remedy = (
        ("hold the same text", "")
        if same_text
        else (f"begin with the same {length} tokens", " use a longer --length,")
    )
    return (
        f"{first} and {second}: {seen}, expected different documents. Leave one out,{remedy} or use"
        f" --documents {enough}."
    )


def _tokens(
    tokenizer: PreTrainedTokenizerBase, text: str, *, special_tokens: str, length: int
) -> list[int]:
    """Return the tokens of a text: all of them if they are fewer than `length`, or else at least
    the first `length`.

    A long text is not cut into tokens as a whole, which takes a minute for 50 MB: its start is, up
    to where twice as much text gives the same first `length` tokens. `verbose=False`: a text longer
    than the model's window is the usual case here, and nothing to warn of.
    """

    def cut(characters: int) -> list[int]:
        return list(
            tokenizer(
                text[:characters], add_special_tokens=special_tokens == "default", verbose=False
            )["input_ids"]
        )

    characters = CHARACTERS_READ * length
    ids = cut(characters)
    while characters < len(text):
        characters *= 2
        before, ids = ids, cut(characters)
        if len(before) >= length + MARGIN and before[:length] == ids[:length]:
            break
    return ids
