"""Documents as tensors, as a source of layers: which they are, what is known of their tokens, and
the weights and values of each, checked as they are read.

What another program made cannot be compared with its model here, so a run says that it was not.
Imports numpy, torch and the windows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from empirical.errors import InputError
from empirical.sources.queries import LAST, Queries
from empirical.sources.tensors.arrays import Layer, LayerSizes, dtype_of, layer
from empirical.sources.tensors.labels import (
    ids_of,
    names_of,
    texts_of,
    told_windows,
    unknown_windows,
    visible_of,
)
from empirical.sources.tensors.stream import Pair, Stream
from empirical.sources.texts import whole_characters
from empirical.sources.windows import LEAST_LENGTH, Windows
from empirical.tap.tap import TappedLayer

MODEL: Final = "tensors from elsewhere"
UNCHECKED: Final = {"checked": False}
"""What a run records in place of a parity check."""


@dataclass(slots=True)
class GivenTensors:
    """A source of layers that another program made."""

    stream: Stream
    shape: LayerSizes
    windows: Windows
    queries: Queries
    visible: tuple[int, ...]
    """Tokens that the last query sees, by layer."""
    model: str
    dtype: str
    device: str = "cpu"
    """Type of the device on which the first layer lies, to which all are brought."""
    texts: dict[int, str] = field(default_factory=dict)
    """What token ids stand for."""
    _digest: Any = field(default_factory=hashlib.sha256)
    _seen: dict[str, str] = field(default_factory=dict)
    """Names of the documents that were read, by the digest of their tensors."""

    @property
    def sizes(self) -> Mapping[str, Any]:
        """Layers, heads, kv_heads and dimension."""
        names = ("heads", "kv_heads", "dimension")
        return {"layers": self.stream.layers} | {name: getattr(self.shape, name) for name in names}

    @property
    def devices(self) -> tuple[str, ...]:
        """The one where each layer is brought as it comes."""
        return (self.device,)

    def provenance(self) -> dict[str, Any]:
        """What is told of the model: its name, its sizes and the type of its values."""
        return {"id": self.model, "source": "tensors", "dtype": self.dtype, **self.sizes}

    def check(self, token_ids: NDArray[np.int32], queries: Tensor) -> dict[str, Any]:
        """Tell that there is no model here to compare with."""
        return dict(UNCHECKED)

    def resume(self, held: Sequence[Mapping[str, Any]]) -> None:
        """Read the documents that a run holds already, and refuse others by their digests."""
        for document, row in enumerate(held):
            for _ in self._layers(document):
                pass
            self._finish(document)
            if row.get("tensors_sha256") != self.digest():
                raise InputError(
                    f"document {self.windows.names[document]!r}: its tensors are not those of"
                    f" {row['name']!r}, which this run holds. Use --fresh, or another --out."
                )

    def hand_over(
        self,
        documents: range,
        token_ids: NDArray[np.int32],
        queries: Tensor,
        on_layer: Callable[[TappedLayer], None],
    ) -> None:
        """Read one document, layer by layer."""
        (document,) = documents
        for index, one in enumerate(self._layers(document)):
            visible = self._visible(index, queries[0])
            one.refuse_faults(visible.to(one.alpha.device))
            alpha, values = (part.to(self.device) for part in (one.alpha, one.values))
            on_layer(
                TappedLayer(
                    index=index,
                    alpha=alpha[None],
                    values=values[None],
                    visible=visible[None],
                    first=[visible.to(torch.int8).argmax(dim=-1).tolist()],
                )
            )
        self._finish(document)

    def digest(self) -> str:
        """SHA-256 of the document's tensors, of the layers that were read so far."""
        return str(self._digest.hexdigest())

    def row(self, document: int) -> dict[str, Any]:
        """Return the digest of the tensors, which tells the document where no tokens do."""
        digest = self.digest()
        known = bool(self.windows.sha256[document])
        return {"tensors_sha256": digest} | ({} if known else {"sha256": digest})

    def _layers(self, document: int) -> Iterator[Layer]:
        """Read the next document, and take the digest of each of its layers."""
        name, count = self.windows.names[document], self.stream.layers
        pairs: Iterator[Pair] | None = next(self.stream.documents, None)
        if pairs is None:
            raise InputError(
                f"{document} documents were read, expected {self.stream.count}. Give as many as are"
                " told of."
            )
        self._digest = hashlib.sha256()
        read = 0
        for alpha, values in pairs:
            where = f"document {name!r}, layer {read}"
            if read == count:
                raise InputError(
                    f"{where}: is one too many, expected {count} layers. Give the same in each."
                )
            one = layer(alpha, values, where)
            if one.sizes != self.shape:
                raise InputError(
                    f"{where}: has {one.sizes}, expected those of the first layer of all,"
                    f" {self.shape}. Give arrays of one shape."
                )
            for tensor in (one.alpha, one.values):
                self._digest.update(f"{tuple(tensor.shape)}\n".encode())
                plain = tensor.cpu().contiguous().numpy()
                self._digest.update(plain.astype("<f4", copy=False).data)
            yield one
            read += 1
        if read < count:
            raise InputError(
                f"document {name!r}: has {read} layers, expected {count}. Give every layer."
            )

    def _finish(self, document: int) -> None:
        """Refuse a document that was read before: it would be one that counts twice."""
        digest, name = self.digest(), self.windows.names[document]
        if digest in self._seen:
            raise InputError(
                f"{self._seen[digest]} and {name}: hold the same tensors, expected different"
                " documents. Leave one out."
            )
        self._seen[digest] = name

    def _visible(self, index: int, rows: Tensor) -> Tensor:
        """What the queries at `rows` see, (query, position) bool: in a layer with a window, as many
        positions as the last query sees, or all up to theirs.
        """
        positions = torch.arange(self.shape.positions)
        first = rows + 1 - self.visible[index]
        return (positions >= first[:, None]) & (positions <= rows[:, None])


def given_tensors(
    stream: Stream,
    *,
    names: Sequence[str] | None = None,
    token_ids: Any = None,
    tokens: Any = None,
    visible: Sequence[int] | None = None,
    queries: str | None = None,
    model: str = MODEL,
) -> GivenTensors:
    """Return documents as tensors with all that is told of them.

    Args:
        stream: the documents themselves.
        names: of the documents.
        token_ids: (document, position) whole numbers.
        tokens: what ids stand for: a mapping of ids to texts, or texts laid out as `token_ids` is.
        visible: tokens that the last query sees, by layer; all, unless told. What is not visible
            counts as no token. It cannot be told from the weights, which may be 0 by rounding.
        queries: which queries several rows of weights are of, such as last:4 or every:64; the last
            ones, unless told.
        model: what made the tensors, in words.

    Raises:
        InputError: these do not fit the documents, or two documents are the same.
    """
    first = layer(*stream.first, "the first document, layer 0")
    sizes = first.sizes
    if sizes.positions < LEAST_LENGTH:
        raise InputError(
            f"alpha: has {sizes.positions} positions, expected at least {LEAST_LENGTH}. Give longer"
            " documents."
        )
    known = names_of(names, stream.count)
    held = (
        unknown_windows(known, sizes.positions)
        if token_ids is None
        else told_windows(ids_of(token_ids, (stream.count, sizes.positions)), known)
    )
    if token_ids is None and tokens is not None:
        raise InputError("tokens: are given without token_ids, which they belong to. Give both.")
    if not str(model).strip():
        raise InputError("model: is empty, expected what made the tensors, in words. Name it.")
    return GivenTensors(
        stream=stream,
        shape=sizes,
        windows=held,
        queries=_queries(queries, sizes),
        visible=visible_of(visible, stream.layers, sizes.positions),
        model=whole_characters(str(model), "model"),
        dtype=dtype_of(stream.first[1]),
        device=first.values.device.type,
        texts={} if tokens is None else texts_of(tokens, held.token_ids),
    )


def _queries(text: str | None, sizes: LayerSizes) -> Queries:
    """Read which queries the rows of weights are of."""
    told = str(text or "") or (f"last:{sizes.queries}" if sizes.queries > 1 else str(LAST))
    result = Queries.read(told, sizes.positions)
    if result.count != sizes.queries or result.way == "spread":
        raise InputError(
            f"--queries {told}: names {result.count} queries of a window, but alpha has rows of"
            f" {sizes.queries}, expected last, last:Q or every:K with as many. Name those that they"
            " are of."
        )
    return result
