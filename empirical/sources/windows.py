"""Token windows: the first tokens of each document, all of one length.

As in arXiv 2602.01893, §4, a window is a stretch of one document; nothing is padded and nothing is
joined. The document is the sampling unit, so each gives one window. Imports numpy, and transformers
for a type.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from empirical.errors import InputError
from empirical.sources.texts import Document
from empirical.sources.tokens import tokens_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Item = TypeVar("Item")

SPECIAL_TOKENS = ("default", "none")

LEAST_LENGTH = 4
"""Tokens of the shortest window: behind the sink are cosines at two lags, the fewest that can
decay.
"""

RUN: Final = 5
"""Tokens of the runs by which two windows are compared."""
ALIKE: Final = 0.8
"""Share of such runs, of those that either window has, from which on two are nearly the same: up to
one token in 45 changed one by one, or one stretch of a ninth of the window.
"""
ROUNDING: Final = 1e-9
"""By how much a product of ALIKE may be too large."""
RADIX: Final = 0x9E3779B97F4A7C15
"""Odd factor, ⌊2⁶⁴/φ⌋, of which a run's hash is the polynomial in its tokens (Knuth, The Art of
Computer Programming 3, §6.4).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Token windows of equal length, in the order of their documents; every sequence has one
    entry a document.
    """

    token_ids: NDArray[np.int32]
    """(document, position); negative where it is not known which tokens they are."""
    names: tuple[str, ...]
    sha256: tuple[str, ...]
    """Of the window's tokens as little-endian 32-bit integers; empty where they are not known."""
    text_sha256: tuple[str, ...]
    """Of the whole document's text in UTF-8; empty where that is not known."""
    skipped: int
    """Documents that were too short, among those read until enough were found."""
    corpus: str
    """Name of the corpus."""
    special_tokens: str
    population: str = ""
    """What the documents are a sample of."""
    kinds: tuple[str, ...] = ()
    """Kind of text of each document; none where they are not told apart."""

    @property
    def known(self) -> bool:
        """Whether it is known which tokens the windows hold."""
        return bool((self.token_ids >= 0).all())

    def some(self, documents: Sequence[int]) -> Windows:
        """Return those of some documents, in this order."""
        many: dict[str, Any] = {
            name: tuple(held[document] for document in documents)
            for name in ("names", "sha256", "text_sha256", "kinds")
            if (held := getattr(self, name))
        }
        return replace(self, token_ids=self.token_ids[list(documents)], **many)

    def row(self, document: int) -> dict[str, Any]:
        """Return what a run records of one document, in plain types."""
        digests = {"sha256": self.sha256[document], "text_sha256": self.text_sha256[document]}
        return {
            "name": self.names[document],
            **({"kind": self.kinds[document]} if self.kinds else {}),
            **{name: digest for name, digest in digests.items() if digest},
        }


def windows(
    documents: Iterable[Document],
    tokenizer: PreTrainedTokenizerBase | None,
    *,
    length: int,
    count: int,
    special_tokens: str = "default",
    vocabulary: int | None = None,
    config: Any = None,
) -> Windows:
    """Cut the first `count` documents that are long enough to their first `length` tokens, special
    ones included.

    A document that is too short is left out and counted. The strata of a corpus take turns, so that
    each gives equally many while it has any. Documents are the sampling unit: two whose windows are
    the same, or nearly (`nearly_the_same`), would be one that counts twice, and are refused.
    special_tokens: "default" (as the tokenizer puts them) or "none"; documents that are token ids
    stay as they are, and need no tokenizer. vocabulary: how many tokens the model's embedding has;
    None where that is not known. config: the model's, which tells its padding where there is no
    tokenizer.

    Raises:
        InputError: an option is out of range, no document is long enough, or too few are, or two
            hold the same text, or begin with the same or nearly the same tokens, or a token is
            beyond the vocabulary; and what reading raises.
    """
    _check(length=length, count=count, special_tokens=special_tokens)
    held: list[int] = []
    cut = partial(tokens_of, tokenizer, special_tokens=special_tokens, length=length, config=config)
    strata = [
        _long_enough(stratum, cut, length, held)
        for stratum in getattr(documents, "strata", ()) or (documents,)
    ]
    rows = _distinct(in_turn(strata), length=length, count=count)
    corpus = getattr(documents, "name", "documents")
    if len(rows) < count:
        raise InputError(
            f"{corpus}: {_too_few(held, enough=len(rows), length=length, count=count)}"
        )
    token_ids = np.array(list(rows), dtype=np.int32)
    read = list(rows.values())
    if vocabulary is not None:
        _refuse_beyond(token_ids, read, vocabulary, tokenizer)
    for first, second, alike in nearly_the_same(token_ids):
        raise InputError(
            f"{read[first].name} and {read[second].name}: share {alike:.0%} of their runs of"
            f" {RUN} tokens in a window, expected different documents. Leave one out."
        )
    return Windows(
        token_ids=token_ids,
        names=tuple(document.name for document in read),
        sha256=tuple(hashlib.sha256(row.astype("<i4").tobytes()).hexdigest() for row in token_ids),
        text_sha256=tuple(_digest(document) for document in read),
        skipped=len(held) - len(rows),
        corpus=corpus,
        special_tokens=special_tokens,
        population=getattr(documents, "population", ""),
        kinds=tuple(document.kind for document in read) if any(d.kind for d in read) else (),
    )


def _long_enough(
    documents: Iterable[Document],
    cut: Callable[[Document], Sequence[int]],
    length: int,
    held: list[int],
) -> Iterator[tuple[Document, tuple[int, ...]]]:
    """Read documents that have `length` tokens, each with its window, and note in `held` how many
    tokens each document that was read has, of a long one `length` or more.
    """
    for document in documents:
        ids = cut(document)
        held.append(len(ids))
        if len(ids) >= length:
            yield document, tuple(ids[:length])


def in_turn(streams: Iterable[Iterator[Item]]) -> Iterator[Item]:
    """Take one item of each stream in turn; a stream that ends drops out.

    >>> "".join(in_turn([iter("ABC"), iter("D"), iter("EF")]))
    'ADEBFC'
    """
    waiting = deque(streams)
    while waiting:
        stream = waiting.popleft()
        for item in stream:
            yield item
            waiting.append(stream)
            break


def _distinct(
    found: Iterable[tuple[Document, tuple[int, ...]]], *, length: int, count: int
) -> dict[tuple[int, ...], Document]:
    """Read until `count` windows are found: documents by their windows' tokens, no two equal."""
    rows: dict[tuple[int, ...], Document] = {}
    for document, window in islice(found, count):
        if window in rows:
            raise InputError(_twice(rows[window], document, length=length, enough=len(rows)))
        rows[window] = document
    return rows


def _digest(document: Document) -> str:
    """Return the sha256 of a document's whole text in UTF-8, or of its tokens as little-endian
    32-bit integers.
    """
    if document.token_ids is not None:
        return hashlib.sha256(np.array(document.token_ids, dtype="<i4").tobytes()).hexdigest()
    return hashlib.sha256(document.text.encode()).hexdigest()


def nearly_the_same(token_ids: NDArray[np.int32]) -> Iterator[tuple[int, int, float]]:
    """Find pairs of windows, (document, position), whose sets of runs of RUN tokens have a Jaccard
    index of at least ALIKE: both numbers and the index.

    Two sets that are so alike share one of the rarest 1 − ALIKE of each one's runs (prefix filter:
    Bayardo, Ma & Srikant 2007, "Scaling up all pairs similarity search"). Rare runs stand in few
    documents, so the work grows with the tokens, not with the pairs.
    """
    size = min(RUN, token_ids.shape[1])
    weights = np.array([pow(RADIX, power, 2**64) for power in range(size)], dtype=np.uint64)
    runs = sliding_window_view(token_ids.astype(np.uint64), size, axis=1) @ weights  # modulo 2⁶⁴
    sets = [np.unique(row) for row in runs]
    values, counts = np.unique(np.concatenate(sets), return_counts=True)
    where: dict[int, list[int]] = {}
    for second, own in enumerate(sets):
        rarest = own[np.lexsort((own, counts[np.searchsorted(values, own)]))]
        prefix = rarest[: own.size - math.ceil(ALIKE * own.size - ROUNDING) + 1].tolist()
        for first in sorted({earlier for run in prefix for earlier in where.get(run, ())}):
            shared = np.intersect1d(sets[first], own, assume_unique=True).size
            alike = shared / (sets[first].size + own.size - shared)
            if alike >= ALIKE:
                yield first, second, alike
        for run in prefix:
            where.setdefault(run, []).append(second)


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


def _refuse_beyond(
    token_ids: NDArray[np.int32],
    read: Sequence[Document],
    vocabulary: int,
    tokenizer: PreTrainedTokenizerBase | None,
) -> None:
    """Refuse documents with tokens that the model's embedding lacks, before one is measured."""
    for document, place in np.argwhere(token_ids >= vocabulary)[:1].tolist():
        known = "" if tokenizer is None else f" of its tokenizer's {len(tokenizer)}"
        raise InputError(
            f"{read[document].name}: holds token {token_ids[document, place]} at position {place},"
            f" but the model's embedding has {vocabulary} tokens{known}. Leave the document out, or"
            " resize the embedding to the tokenizer."
        )


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


def _twice(first: Document, second: Document, *, length: int, enough: int) -> str:
    """Say that two documents are one, and what could be done."""
    seen, remedy = (
        ("hold the same text", "")
        if _digest(first) == _digest(second)
        else (f"begin with the same {length} tokens", " use a longer --length,")
    )
    return (
        f"{first.name} and {second.name}: {seen}, expected different documents. Leave one out,"
        f"{remedy} or use --documents {enough}."
    )
