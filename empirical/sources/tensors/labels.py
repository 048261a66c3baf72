"""Labels of documents that are given as tensors: names, tokens and what they stand for, and what of
each layer is visible. Imports numpy, torch for a type, and the windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from empirical.errors import InputError, boundary
from empirical.sources.texts import Document, whole_characters
from empirical.sources.windows import Windows, windows

NAME: Final = "documents given as tensors"
"""What a run calls its text."""
AS_GIVEN: Final = "as given"
"""Its choice of special tokens."""


def names_of(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """Read the names of documents, or make some."""
    if names is None:
        return tuple(f"document {place}" for place in range(count))
    known = labels_of(names, "names")
    if len(known) != count or len(set(known)) != count:
        raise InputError(
            f"names: {len(known)} names, {len(set(known))} of them different, expected one for each"
            f" of {count} documents. Name each."
        )
    return known


def ids_of(token_ids: Any, shape: tuple[int, int]) -> NDArray[np.int32]:
    """Read token ids, (document, position)."""
    with boundary(
        "token_ids: are no array (document, position) of whole numbers",
        "expected as many for each document. Give them so.",
    ):
        values = np.stack([plain(one) for one in token_ids])
    if values.shape != shape or values.dtype.kind not in "iu" or values.min() < 0:
        raise InputError(
            f"token_ids: are {values.dtype} of shape {values.shape}, expected whole numbers from 0"
            f" on, {shape}, as alpha has documents and positions. Give them so."
        )
    if values.max() > np.iinfo(np.int32).max:
        raise InputError(
            f"token_ids: the largest is {values.max()}, expected 32-bit numbers. Look at them."
        )
    return values.astype(np.int32)


def told_windows(token_ids: NDArray[np.int32], names: tuple[str, ...]) -> Windows:
    """Return windows of known tokens; an InputError where two are the same, or nearly."""
    first: dict[bytes, str] = {}
    for row, name in zip(token_ids, names, strict=True):
        before = first.setdefault(row.tobytes(), name)
        if before != name:
            raise InputError(
                f"{before} and {name}: hold the same token_ids, expected different documents. Leave"
                " one out."
            )
    documents = [
        Document(name=name, text="", token_ids=tuple(row.tolist()))
        for row, name in zip(token_ids, names, strict=True)
    ]
    held = windows(documents, None, length=token_ids.shape[1], count=len(names))
    return replace(held, corpus=NAME, special_tokens=AS_GIVEN)


def unknown_windows(names: tuple[str, ...], positions: int) -> Windows:
    """Return windows of which no tokens are known."""
    blank = ("",) * len(names)
    return Windows(
        token_ids=np.full((len(names), positions), -1, np.int32),
        names=names,
        sha256=blank,
        text_sha256=blank,
        skipped=0,
        corpus=NAME,
        special_tokens=AS_GIVEN,
    )


def visible_of(visible: Sequence[int] | None, layers: int, positions: int) -> tuple[int, ...]:
    """Read how many tokens are visible in each layer."""
    if visible is None:
        return (positions,) * layers
    with boundary(
        "visible: is no row of whole numbers", "expected one for each layer. Give them so."
    ):
        values = plain(visible)
    if (
        values.shape != (layers,)
        or values.dtype.kind not in "iu"
        or not ((values >= 1) & (values <= positions)).all()
    ):
        raise InputError(
            f"visible: {values.tolist()}, expected a number of tokens for each of {layers} layers,"
            f" from 1 to {positions}. Give how many positions the last query sees."
        )
    return tuple(int(one) for one in values)


def texts_of(tokens: Any, token_ids: NDArray[np.int32]) -> dict[int, str]:
    """Return what the ids of the documents stand for, in their order."""
    wanted = np.unique(token_ids).tolist()
    if isinstance(tokens, Mapping):
        with boundary(
            "tokens: has a key that is no token id", "expected ids. Give a mapping of ids to texts."
        ):
            given = {int(one): text for one, text in tokens.items()}
        known = {one: given[one] for one in wanted if one in given}
        return dict(zip(known, labels_of(known.values(), "tokens"), strict=True))
    with boundary(
        "tokens: are no texts",
        "expected a text for each token id. Give them so, or a mapping of ids to texts.",
    ):
        rows = [labels_of(row, "tokens") for row in tokens]
    if [len(row) for row in rows] != [token_ids.shape[1]] * len(token_ids):
        raise InputError(
            "tokens: are laid out otherwise than token_ids, expected a text for each. Give them"
            " so, or a mapping of ids to texts."
        )
    read: dict[int, str] = {}
    for ids, row in zip(token_ids.tolist(), rows, strict=True):
        for one, text in zip(ids, row, strict=True):
            if read.setdefault(one, text) != text:
                raise InputError(
                    f"tokens: id {one} stands for {read[one]!r} and for {text!r}, expected one"
                    " text. Look at how they were made."
                )
    return {one: read[one] for one in wanted}


def labels_of(given: Iterable[Any], what: str) -> tuple[str, ...]:
    """Read labels as texts of whole characters; bytes, as NumPy's type S has them, are UTF-8."""
    with boundary(f"{what}: are no texts", "expected a list of texts. Give one."):
        if isinstance(given, str):
            raise TypeError("one text alone")
        texts = [one.decode() if isinstance(one, bytes) else str(one) for one in given]
    return tuple(whole_characters(text, what) for text in texts)


def plain(given: Any) -> NDArray[Any]:
    """Return an array of NumPy, of what torch holds too."""
    return given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
