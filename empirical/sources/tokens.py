"""Tokens of a document: as many as a window needs, or those that it was given as; and what tokens
stand for.

Whatever a tokenizer raises, a panic of its Rust code included, becomes one line. Imports numpy, and
transformers for a type.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import compress, takewhile
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from empirical.errors import InputError, boundary
from empirical.sources.texts import Document

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

LARGEST_ID: Final = 2**31 - 1
"""Token ids are kept as int32."""
CHARACTERS_READ = 32
"""Characters of a text that are cut into tokens at first, for each token of a window; twice as
many whenever they do not settle it.
"""
MARGIN = 16
"""Tokens that must follow a window before it counts as settled: the last ones before a cut
depend on what follows.
"""
MENDED: Final = "expected a sound tokenizer. Get its files again, or use another one."


def tokens_of(
    tokenizer: PreTrainedTokenizerBase | None,
    document: Document,
    *,
    special_tokens: str,
    length: int,
    config: Any = None,
) -> Sequence[int]:
    """Return the tokens of a document: all of them if they are fewer than `length`, or else at
    least the first `length`.

    A long text is not cut into tokens as a whole, which takes a minute for 50 MB: its start is, up
    to where twice as much text gives the same first `length` tokens. `verbose=False`: a text longer
    than the model's window is the usual case here, and nothing to warn of. What a tokenizer puts
    before a text, such as a BOS token, is put once, also where the text begins with it already, as
    chat templates write it. config: the model's, which tells its padding where there is no
    tokenizer.

    Raises:
        InputError: there is no tokenizer, or it fails, or gives no token ids; or token ids that are
            given begin or end with padding.
    """
    if document.token_ids is not None:
        if not document.masked:
            told = config if tokenizer is None else tokenizer
            _refuse_padding(told, document.name, document.token_ids, length)
        return document.token_ids
    if tokenizer is None:
        raise InputError(
            f"{document.name}: is a text, but there is no tokenizer. Give tokenizer=, or token ids."
        )
    text = document.text

    def cut(characters: int) -> Sequence[int]:
        def raw(*, special: bool) -> Sequence[int]:
            cut = tokenizer(text[:characters], add_special_tokens=special, verbose=False)
            return unpadded(whole_ids(cut["input_ids"]), cut.get("attention_mask"))

        with boundary(f"{document.name}: the tokenizer cannot cut it into tokens", MENDED):
            ids = raw(special=special_tokens == "default")
            if special_tokens == "default" and (put := _twice_at_start(ids)):
                plain = raw(special=False)
                if ids[put : put + len(plain)] == plain:
                    return plain  # the text begins with what the tokenizer puts before one
            return ids

    characters = CHARACTERS_READ * length
    ids = cut(characters)
    while characters < len(text):
        characters *= 2
        before, ids = ids, cut(characters)
        if len(before) >= length + MARGIN and before[:length] == ids[:length]:
            break
    return ids


def _refuse_padding(told: Any, name: str, ids: Sequence[int], length: int) -> None:
    """Refuse token ids whose window of `length` begins or ends with padding, as a tokenizer or a
    configuration tells it. One token that also begins or ends a text, as the pad of many models
    does, is none.
    """
    pad, *others = (getattr(told, f"{kind}_token_id", None) for kind in ("pad", "bos", "eos"))
    ends = {one for other in others for one in (other if isinstance(other, list) else [other])}
    for end, row in (("start", ids), ("end", ids[::-1])):
        pads = sum(1 for _ in takewhile(lambda one: one == pad, row))
        if pads > (pad in ends) and (end == "start" or len(ids) - pads < length):
            raise InputError(
                f"{name}: {'a pad token' if pads == 1 else f'{pads} pad tokens'} (id {pad}) at its"
                f" {end}, expected those of the text alone. Give its tokens without padding, or"
                " what the tokenizer returned, with its attention_mask."
            )


def unpadded(ids: Sequence[int], mask: Any) -> list[int]:
    """Return token ids without those at their ends that an attention mask hides; None: none.

    Raises:
        ValueError: the mask is no row of a zero or a one for each, those of the text side by side.

    >>> unpadded([0, 0, 5, 6], [0, 0, 1, 1])
    [5, 6]
    """
    if mask is None:
        return list(ids)
    seen = np.array(mask.tolist() if hasattr(mask, "tolist") else mask, dtype=object)
    if seen.shape != (len(ids),):
        raise ValueError(f"an attention_mask of shape {seen.shape}")
    if not np.isin(seen, (0, 1)).all():
        raise ValueError("an attention_mask of other numbers than zeros and ones")
    if np.count_nonzero(np.diff(seen.astype(int), prepend=0) == 1) > 1:
        raise ValueError("an attention_mask that hides tokens within the text")
    return list(compress(ids, seen))


def _twice_at_start(ids: Sequence[int]) -> int:
    """Return how many tokens stand twice at the start, at most a few; 0 where none do.

    >>> _twice_at_start([1, 1, 5]), _twice_at_start([1, 2, 1, 2, 5]), _twice_at_start([1, 5, 1])
    (1, 2, 0)
    """
    return next((few for few in (1, 2, 3) if ids[:few] == ids[few : 2 * few] != ids[:0]), 0)


def whole_ids(given: Any) -> list[int]:
    """Return token ids, one row of whole numbers from 0 to LARGEST_ID.

    Raises:
        ValueError: they are none.

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
    """Return what each of these token ids stands for; half a character as its code.

    Raises:
        InputError: the tokenizer cannot tell.
    """
    known = {}
    for one in ids:
        with boundary(f"token {one}: the tokenizer cannot tell what it stands for", MENDED):
            text = str(tokenizer.decode([one], clean_up_tokenization_spaces=False))
        known[one] = text.encode("utf-8", "backslashreplace").decode()
    return known
