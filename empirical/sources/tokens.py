"""Tokens of a document: as many as a window needs, or those that it was given as.

Imports transformers for a type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from empirical.errors import InputError
from empirical.sources.texts import Document

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CHARACTERS_READ = 32
"""Characters of a text that are cut into tokens at first, for each token of a window; twice as
many whenever they do not settle it.
"""
MARGIN = 16
"""Tokens that must follow a window before it counts as settled: the last ones before a cut
depend on what follows.
"""


def tokens_of(
    tokenizer: PreTrainedTokenizerBase | None,
    document: Document,
    *,
    special_tokens: str,
    length: int,
) -> Sequence[int]:
    """Return the tokens of a document: all of them if they are fewer than `length`, or else at
    least the first `length`.

    A long text is not cut into tokens as a whole, which takes a minute for 50 MB: its start is, up
    to where twice as much text gives the same first `length` tokens. `verbose=False`: a text longer
    than the model's window is the usual case here, and nothing to warn of.
    """
    if document.token_ids is not None:
        return document.token_ids
    if tokenizer is None:
        raise InputError(
            f"{document.name}: is a text, but there is no tokenizer. Give tokenizer=, or token ids."
        )
    text = document.text

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
