"""Token windows: the first tokens of each document, all of equal length.

As in arXiv 2602.01893, §4, a window is a stretch of one document, without padding or concatenation.
The document is the sampling unit, so each document gives one window. Any tokenizer error, including
a Rust panic, becomes a one-line message. Imports numpy and scipy.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, islice, takewhile
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from empirical.errors import InputError, boundary
from empirical.sources.texts import Document

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Item = TypeVar("Item")

SPECIAL_TOKENS = ("default", "none")

LEAST_LENGTH = 4
"""Shortest window, in tokens: two lags after the sink, the minimum for a decay."""

RUN: Final = 5
"""Length, in tokens, of the runs (shingles) by which two windows are compared."""
ALIKE: Final = 0.8
"""Jaccard index of near-duplicate windows: one token in 45 changed, or one ninth of a window."""
RADIX: Final = 0x9E3779B97F4A7C15
"""Base of the polynomial hash of a run: the odd number ⌊2⁶⁴/φ⌋ (Knuth, The Art of Computer
Programming 3, §6.4).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Token windows of equal length; every sequence has one entry per document, in order."""

    token_ids: NDArray[np.int32]
    """(document, position); negative if the tokens are unknown."""
    names: tuple[str, ...]
    sha256: tuple[str, ...]
    """sha256 of each window's tokens as little-endian 32-bit integers; empty if unknown."""
    text_sha256: tuple[str, ...]
    """sha256 of each whole document's text in UTF-8; empty if it is unknown."""
    skipped: int
    """Number of documents read and rejected as too short."""
    corpus: str
    """Name of the corpus."""
    special_tokens: str
    population: str = ""
    """Description of the population that the documents are sampled from."""
    kinds: tuple[str, ...] = ()
    """Kind of text of each document; empty if kinds are not distinguished."""

    @property
    def known(self) -> bool:
        """Whether the tokens of the windows are known."""
        return bool((self.token_ids >= 0).all())

    def some(self, documents: Sequence[int]) -> Windows:
        """Return the windows of selected documents, in the given order."""
        labels: dict[str, Any] = {
            name: tuple(column[document] for document in documents)
            for name in ("names", "sha256", "text_sha256", "kinds")
            if (column := getattr(self, name))
        }
        return replace(self, token_ids=self.token_ids[list(documents)], **labels)

    def row(self, document: int) -> dict[str, Any]:
        """Return a run's record of one document, in plain types."""
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
    tokens included.

    Documents that are too short are skipped and counted. The strata of a corpus take turns, so each
    gives equally many documents while it has any. Two documents with equal or nearly equal windows
    (`nearly_the_same`) are refused, because the document is the sampling unit.

    Args:
        documents: a corpus or another iterable.
        tokenizer: not needed for documents that are token ids, which stay unchanged.
        length: tokens of a window.
        count: number of windows.
        special_tokens: "default" (as the tokenizer adds them) or "none".
        vocabulary: number of tokens in the model's embedding; None if unknown.
        config: the model's configuration, which defines padding if there is no tokenizer.

    Raises:
        InputError: an option is out of range; too few documents are long enough; two documents have
            the same text, or equal or nearly equal windows; a token is beyond the vocabulary; or
            reading fails.
    """
    _check(length=length, count=count, special_tokens=special_tokens)
    sizes: list[int] = []  # tokens of each document read; at least `length` of a long one

    def long_enough(stratum: Iterable[Document]) -> Iterator[tuple[Document, tuple[int, ...]]]:
        for document in stratum:
            ids = tokens_of(
                tokenizer, document, special_tokens=special_tokens, length=length, config=config
            )
            sizes.append(len(ids))
            if len(ids) >= length:
                yield document, tuple(ids[:length])

    strata = getattr(documents, "strata", ()) or (documents,)
    rows: dict[tuple[int, ...], Document] = {}
    for document, window in islice(in_turn(map(long_enough, strata)), count):
        if window in rows:
            raise InputError(_twice(rows[window], document, length, len(rows)))
        rows[window] = document
    corpus = getattr(documents, "name", "documents")
    if len(rows) < count:
        raise InputError(f"{corpus}: {_too_few(sizes, len(rows), length, count)}")
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
        skipped=len(sizes) - len(rows),
        corpus=corpus,
        special_tokens=special_tokens,
        population=getattr(documents, "population", ""),
        kinds=tuple(document.kind for document in read) if any(d.kind for d in read) else (),
    )


def in_turn(streams: Iterable[Iterator[Item]]) -> Iterator[Item]:
    """Yield one item of each stream in turn; exhausted streams drop out.

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


def _digest(document: Document) -> str:
    """Return the sha256 of a document's text in UTF-8, or of its ids as little-endian int32."""
    if document.token_ids is not None:
        return hashlib.sha256(np.array(document.token_ids, dtype="<i4").tobytes()).hexdigest()
    return hashlib.sha256(document.text.encode()).hexdigest()


def nearly_the_same(token_ids: NDArray[np.int32]) -> list[tuple[int, int, float]]:
    """Find pairs of windows, (document, position), whose sets of runs of RUN tokens have a Jaccard
    index of at least ALIKE: both document numbers and the index, by the second document.
    """
    from scipy import sparse  # slow to import

    size = min(RUN, token_ids.shape[1])
    weights = np.array([pow(RADIX, power, 2**64) for power in range(size)], dtype=np.uint64)
    runs = sliding_window_view(token_ids.astype(np.uint64), size, axis=1) @ weights  # modulo 2⁶⁴
    documents = np.repeat(np.arange(len(runs)), runs.shape[1])
    numbers = np.unique(runs.reshape(-1), return_inverse=True)[1]
    counts = sparse.csr_array((np.ones_like(numbers), (documents, numbers)))
    holds = (counts > 0).astype(np.int64)  # (document, distinct run)
    shared, sizes = sparse.triu(holds @ holds.T, k=1).tocoo(), holds.sum(axis=1)
    first, second = shared.coords
    alike = shared.data / (sizes[first] + sizes[second] - shared.data)
    near = np.flatnonzero(alike >= ALIKE)
    near = near[np.lexsort((first[near], second[near]))]
    return [(int(first[pair]), int(second[pair]), float(alike[pair])) for pair in near]


def _too_few(sizes: list[int], enough: int, length: int, count: int) -> str:
    """Return the message about documents of these sizes in tokens, with options that would work."""
    if not sizes:
        return "holds no documents. Name other texts."
    long_enough = sorted((tokens for tokens in sizes if tokens >= LEAST_LENGTH), reverse=True)
    seen = f"the longest document has {max(sizes)} tokens, but --length is {length}"
    if enough:
        seen = f"{enough} of {len(sizes)} documents have {length} tokens or more, but --documents"
        seen += f" is {count}"
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
    """Refuse documents with tokens beyond the model's embedding, before any is measured."""
    for document, place in np.argwhere(token_ids >= vocabulary)[:1].tolist():
        tokenizer_size = "" if tokenizer is None else f" of its tokenizer's {len(tokenizer)}"
        raise InputError(
            f"{read[document].name}: holds token {token_ids[document, place]} at position {place},"
            f" but the model's embedding has {vocabulary} tokens{tokenizer_size}. Leave the"
            " document out, or resize the embedding to the tokenizer."
        )


def _check(*, length: int, count: int, special_tokens: str) -> None:
    """Refuse options out of range."""
    for option, value, least in (("--length", length, LEAST_LENGTH), ("--documents", count, 1)):
        if value < least:
            raise InputError(
                f"{option} {value}: expected at least {least}. Use {option} {least} or more."
            )
    if special_tokens not in SPECIAL_TOKENS:
        raise InputError(
            f"--special-tokens {special_tokens}: expected one of {', '.join(SPECIAL_TOKENS)}. Use"
            " one of those."
        )


def _twice(first: Document, second: Document, length: int, enough: int) -> str:
    """Return the message about two equal documents."""
    seen, remedy = f"begin with the same {length} tokens", " use a longer --length,"
    if _digest(first) == _digest(second):
        seen, remedy = "hold the same text", ""
    return (
        f"{first.name} and {second.name}: {seen}, expected different documents. Leave one out,"
        f"{remedy} or use --documents {enough}."
    )


LARGEST_ID: Final = 2**31 - 1
"""Largest token id; ids are stored as int32."""
CHARACTERS_READ = 32
"""Characters tokenized at first, per token of a window; doubled until the window is settled."""
MARGIN = 16
"""Tokens that must follow a settled window; the last before a cut depend on the text after."""
MENDED: Final = "expected a working tokenizer. Download its files again, or use another one."


def tokens_of(
    tokenizer: PreTrainedTokenizerBase | None,
    document: Document,
    *,
    special_tokens: str,
    length: int,
    config: Any = None,
) -> Sequence[int]:
    """Return the tokens of a document: all of them, or at least the first `length` of a long one.

    Tokenizing a long text whole is slow (a minute for 50 MB). Instead its start is tokenized, and
    doubled until the first `length` tokens no longer change. `verbose=False` suppresses the warning
    about texts longer than the model's window, which are usual here. Tokens that the tokenizer puts
    before a text, such as BOS, appear once, even if the text already begins with them, as chat
    templates do. Without a tokenizer, `config` defines padding.

    Raises:
        InputError: there is no tokenizer, it fails or returns no token ids; or given token ids
            begin or end with padding.
    """
    if document.token_ids is not None:
        if not document.masked:
            special = config if tokenizer is None else tokenizer
            _refuse_padding(special, document.name, document.token_ids, length)
        return document.token_ids
    if tokenizer is None:
        raise InputError(
            f"{document.name}: is a text, but there is no tokenizer. Pass tokenizer=, or token ids."
        )
    text = document.text

    def tokens_of_start(characters: int) -> Sequence[int]:
        def tokenized(*, special: bool) -> Sequence[int]:
            encoded = tokenizer(text[:characters], add_special_tokens=special, verbose=False)
            return unpadded(whole_ids(encoded["input_ids"]), encoded.get("attention_mask"))

        with boundary(f"{document.name}: the tokenizer cannot cut it into tokens", MENDED):
            ids = tokenized(special=special_tokens == "default")
            if special_tokens == "default" and (prefix := _twice_at_start(ids)):
                plain = tokenized(special=False)
                if ids[prefix : prefix + len(plain)] == plain:
                    return plain  # the text already begins with the tokens that the tokenizer adds
            return ids

    characters = CHARACTERS_READ * length
    ids = tokens_of_start(characters)
    while characters < len(text):
        characters *= 2
        shorter, ids = ids, tokens_of_start(characters)
        if len(shorter) >= length + MARGIN and shorter[:length] == ids[:length]:
            break
    return ids


def _refuse_padding(special: Any, name: str, ids: Sequence[int], length: int) -> None:
    """Refuse token ids whose window of `length` begins or ends with padding, by the special tokens
    of a tokenizer or a configuration. A single pad token that is also a BOS or EOS token, as in
    many models, is no padding.
    """
    pad, *others = (getattr(special, f"{kind}_token_id", None) for kind in ("pad", "bos", "eos"))
    ends = set(chain(*(other if isinstance(other, list) else [other] for other in others)))
    for end, row in (("start", ids), ("end", ids[::-1])):
        pads = sum(1 for _ in takewhile(lambda token_id: token_id == pad, row))
        if pads > (pad in ends) and (end == "start" or len(ids) - pads < length):
            raise InputError(
                f"{name}: {'a pad token' if pads == 1 else f'{pads} pad tokens'} (id {pad}) at its"
                f" {end}, expected the tokens of the text only. Pass its tokens without padding, or"
                " the tokenizer's output with its attention_mask."
            )


def unpadded(ids: Sequence[int], mask: Any) -> list[int]:
    """Return token ids without the leading and trailing ones that an attention mask hides (None: no
    mask). A ValueError if it is not one row of 0 and 1 per token, or hides tokens within the text.

    >>> unpadded([0, 0, 5, 6], [0, 0, 1, 1])
    [5, 6]
    """
    if mask is None:
        return list(ids)
    visible = np.array(mask.tolist() if hasattr(mask, "tolist") else mask, dtype=object)
    if visible.shape != (len(ids),):
        raise ValueError(f"an attention_mask of shape {visible.shape}")
    if not np.isin(visible, (0, 1)).all():
        raise ValueError("an attention_mask of other numbers than zeros and ones")
    if np.count_nonzero(np.diff(visible.astype(int), prepend=0) == 1) > 1:
        raise ValueError("an attention_mask that hides tokens within the text")
    return list(compress(ids, visible))


def _twice_at_start(ids: Sequence[int]) -> int:
    """Return how many tokens are repeated at the start, at most 3; 0 if none.

    >>> _twice_at_start([1, 1, 5]), _twice_at_start([1, 2, 1, 2, 5]), _twice_at_start([1, 5, 1])
    (1, 2, 0)
    """
    return next((few for few in (1, 2, 3) if ids[:few] == ids[few : 2 * few] != ids[:0]), 0)


def whole_ids(given: Any) -> list[int]:
    """Return one row of integers from 0 to LARGEST_ID as a list; a ValueError if it is none.

    >>> whole_ids(np.array([5, 6]))
    [5, 6]
    """
    values = np.asarray(given)
    if values.shape == (0,):
        return []
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise ValueError(f"token ids of shape {values.shape} and type {values.dtype}")
    if values.min() < 0 or values.max() > LARGEST_ID:
        raise ValueError(f"token ids from {values.min()} to {values.max()}")
    return list(values.tolist())


def texts_of_tokens(tokenizer: PreTrainedTokenizerBase, ids: Collection[int]) -> dict[int, str]:
    """Return the text of each of these token ids, half a character as its code; an InputError if
    the tokenizer cannot decode one.
    """
    texts = {}
    for token_id in ids:
        with boundary(f"token {token_id}: the tokenizer cannot decode it", MENDED):
            text = str(tokenizer.decode([token_id], clean_up_tokenization_spaces=False))
        texts[token_id] = text.encode("utf-8", "backslashreplace").decode()
    return texts
