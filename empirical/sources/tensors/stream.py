"""Stream of documents as tensors: each document once, in order, and layer by layer, so that neither
the caller nor this program needs more than a layer in memory.

Imports the standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from empirical.errors import InputError

Pair = tuple[Any, Any]
"""Weights and values of one layer of one document."""
END: Final = object()
ALPHA: Final = "(document, layer, head, position)"
VALUES: Final = "(document, layer, kv_head, position, dimension)"


@dataclass(slots=True, kw_only=True)
class Stream:
    """Documents, each of which is the layers that it gives, and how many there are of both."""

    documents: Iterator[Iterator[Pair]]
    count: int
    layers: int
    first: Pair
    """Weights and values of the first layer of the first document, which the stream gives again."""


def stream(
    alpha: Any, values: Any = None, *, count: int | None = None, layers: int | None = None
) -> Stream:
    """Read documents as a stream, and look at the first layer of the first.

    Args:
        alpha: weights of the documents, an array or an iterable with an entry a document; without
            `values` an iterable of documents, each a pair (weights, values), as a tuple, or a list
            or another iterable of layers that are such pairs.
        values: value states of the documents.
        count, layers: how many documents, and layers of each, there are; needed where an iterable
            cannot tell.

    Raises:
        InputError: there are no documents or layers, or it cannot be told how many.
    """
    _refuse_shapes(alpha, values)
    what = "documents" if values is None else "alpha"
    known = _agreed(what, "count", count, length_of(alpha), length_of(values))
    entries = _entries(alpha, what) if values is None else _paired(alpha, values, "documents")
    first = next(entries, END)
    if first is END:
        raise InputError(f"{what}: holds no documents, expected at least one. Give some.")
    pairs, several = _layers_of(first, "the first document")
    number = _agreed("the first document", "layers", layers, several)
    pair = next(pairs, None)
    if pair is None:
        raise InputError("the first document: holds no layers, expected at least one. Give some.")

    def documents() -> Iterator[Iterator[Pair]]:
        yield chain([pair], pairs)
        for place, entry in enumerate(entries, start=1):
            yield _layers_of(entry, f"document {place}")[0]

    return Stream(documents=documents(), count=known, layers=number, first=pair)


def _refuse_shapes(alpha: Any, values: Any) -> None:
    """Refuse whole arrays of other dims, whose first axis would be taken for documents."""
    for name, given, dims, expected in (
        ("alpha", alpha, (4, 5), ALPHA),
        ("values", values, (5,), VALUES),
    ):
        shape = getattr(given, "shape", None)
        if shape is not None and len(shape) not in dims:
            raise InputError(
                f"{name}: is an array of shape {tuple(shape)}, expected {expected}. Give it so; one"
                " document has a first axis of 1."
            )
    if values is None and getattr(alpha, "shape", None) is not None:
        raise InputError("values: are missing, expected the values beside alpha. Give both.")


def _layers_of(entry: Any, where: str) -> tuple[Iterator[Pair], int | None]:
    """Return the layers of one document, and how many there are; None where that is not known."""
    if isinstance(entry, tuple) and len(entry) == 2:
        alpha, values = entry
        lengths = {length_of(alpha), length_of(values)} - {None}
        if len(lengths) > 1:
            raise InputError(
                f"{where}: alpha has {length_of(alpha)} layers, values have {length_of(values)},"
                " expected equally many. Look at the order of the axes."
            )
        return _paired(alpha, values, f"{where}, layers"), next(iter(lengths), None)
    return _pairs(_entries(entry, where), where), length_of(entry)


def _pairs(layers: Iterator[Any], where: str) -> Iterator[Pair]:
    for place, one in enumerate(layers):
        if not (isinstance(one, tuple | list) and len(one) == 2):
            raise InputError(
                f"{where}, layer {place}: is of type {type(one).__name__}, expected a pair of alpha"
                " and values. Give each layer as one."
            )
        yield one[0], one[1]


def _paired(alpha: Any, values: Any, what: str) -> Iterator[Pair]:
    """Go through weights and values side by side."""
    left, right = _entries(alpha, what), _entries(values, what)
    while True:
        pair = next(left, END), next(right, END)
        ended = sum(one is END for one in pair)
        if ended == 2:
            return
        if ended:
            raise InputError(
                f"{what}: alpha and values differ in how many there are, expected equally many."
                " Give both of each."
            )
        yield pair


def _entries(given: Any, what: str) -> Iterator[Any]:
    try:
        return iter(given)
    except TypeError as error:
        raise InputError(
            f"{what}: is of type {type(given).__name__}, expected arrays, or an iterable. Give one."
        ) from error


def length_of(given: Any) -> int | None:
    """Return how many entries there are; None where that is not known."""
    try:
        return len(given)
    except TypeError:
        return None


def _agreed(what: str, keyword: str, *lengths: int | None) -> int:
    """Return how many there are, as told by the keyword or as found."""
    known = {length for length in lengths if length is not None}
    if len(known) > 1:
        beside = ", at count, names and token_ids" if keyword == "count" else ""
        raise InputError(
            f"{what}: {' and '.join(str(one) for one in sorted(known))} {_words(keyword)} are told"
            f" of, expected one number. Look at the first axis of each{beside}."
        )
    if not known:
        raise InputError(
            f"{what}: cannot tell how many {_words(keyword)} it has, as an iterator cannot. Give"
            f" {keyword}=."
        )
    return int(known.pop())


def _words(keyword: str) -> str:
    return "documents" if keyword == "count" else keyword
