"""Attention weights and value states that another program made, as a source of layers: each
document once, in order, layer by layer. Each layer is checked when it is read.

Such tensors cannot be compared with their model here, and the run records this. Source: arXiv
2602.01893, eq. (1): a row of weights is a softmax, so it is non-negative and sums to 1, or to less
with a learned sink. Imports numpy, torch and the windows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from empirical.errors import InputError, boundary
from empirical.sources.queries import Queries
from empirical.sources.texts import Document, whole_characters
from empirical.sources.windows import LEAST_LENGTH, Windows, windows
from empirical.tap.tap import TappedLayer

ROUNDING: Final = 2.0**-8
"""Excess over 1 allowed in a row's sum: twice the rounding error 2⁻⁹ of bfloat16."""
WIDENED: Final = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2"})
"""Dtypes that NumPy knows only by name, from the package ml_dtypes."""


class LayerSizes(NamedTuple):
    """Lengths of a layer's arrays; equal in every layer."""

    queries: int
    heads: int
    positions: int
    kv_heads: int
    dimension: int

    def __str__(self) -> str:
        return (
            f"{self.queries} queries, {self.heads} heads, {self.kv_heads} kv_heads,"
            f" {self.positions} positions and dimension {self.dimension}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Weights, (query, head, position), and values, (kv_head, position, dimension), float32."""

    where: str
    alpha: Tensor
    values: Tensor

    @property
    def sizes(self) -> LayerSizes:
        """Lengths of its arrays."""
        return LayerSizes(*self.alpha.shape, *self.values.shape[::2])

    def refuse_faults(self, visible: Tensor) -> None:
        """Refuse numbers that are not finite, and weights that are no softmax rows over the
        positions that their queries see, (query, position) bool.
        """
        by_head = self.alpha.transpose(0, 1)
        for name, dim, tensor in (("alpha", "head", by_head), ("values", "kv_head", self.values)):
            finite = torch.isfinite(tensor).flatten(1).all(dim=1)
            if not bool(finite.all()):
                raise InputError(
                    f"{self.where}, {dim} {_first(~finite)}: {name} hold NaN or infinity, expected"
                    " finite numbers. Check the program that made them, or leave the document out."
                )
        sums = self.alpha.double().sum(dim=-1)
        faults = (
            (
                (self.alpha < 0).any(dim=-1),
                "hold a weight below 0, expected non-negative weights. Pass the weights after the"
                " softmax.",
            ),
            (
                sums > 1 + ROUNDING,
                f"sum to {float(sums.max()):.4g}, expected at most 1. Pass the weights after the"
                " softmax.",
            ),
            (sums == 0, "are all 0, expected a row of weights. Check the program that made them."),
            (
                (self.alpha * ~visible[:, None]).amax(dim=-1) > 0,
                "are positive at positions that the query does not see, expected 0 there. Check"
                " queries and visible.",
            ),
        )
        for faulty, fault in faults:  # of each row, (query, head) bool
            if bool(faulty.any()):
                head = _first(faulty.any(dim=0))
                raise InputError(f"{self.where}, head {head}: the weights alpha {fault}")


def layer_of(alpha: Any, values: Any, where: str) -> Layer:
    """Read one layer of one document; `where` names both in messages.

    alpha: (head, position), or for several queries (query, head, position). values: (kv_head,
    position, dimension). An InputError if they are no floating-point arrays, or do not fit.
    """
    weights, states = float32(alpha, f"{where}: alpha"), float32(values, f"{where}: values")
    if weights.ndim not in (2, 3) or states.ndim != 3:
        raise InputError(
            f"{where}: alpha of shape {tuple(weights.shape)} and values of shape"
            f" {tuple(states.shape)}, expected (head, position), or (query, head, position), and"
            " (kv_head, position, dimension). Reshape them."
        )
    rows = weights if weights.ndim == 3 else weights[None]
    result = Layer(where=where, alpha=rows, values=states)
    sizes = result.sizes
    if not (weights.numel() and states.numel()) or sizes.heads % sizes.kv_heads:
        raise InputError(
            f"{where}: {sizes}, expected at least one of each, and heads a multiple of kv_heads."
            " Check the order of the axes."
        )
    if states.shape[1] != sizes.positions:
        raise InputError(
            f"{where}: alpha has {sizes.positions} positions, values have {states.shape[1]},"
            " expected equally many. Check the order of the axes."
        )
    return result


def float32(array: Any, what: str) -> Tensor:
    """Return an array of any library as a new float32 tensor, on its device if it is a torch
    tensor; an InputError if it is no array of floating-point numbers.

    >>> float32(np.array([0.25, 0.75], dtype=np.float16), "alpha")
    tensor([0.2500, 0.7500])
    """
    tensor = array if isinstance(array, Tensor) else _tensor(array, what)
    if not tensor.is_floating_point() or tensor.is_meta or tensor.layout is not torch.strided:
        raise InputError(
            f"{what}: is a tensor of {str(tensor.dtype).removeprefix('torch.')} on {tensor.device},"
            " expected floating-point numbers in memory. Convert it first."
        )
    # A copy: the caller may write the next layer into the same memory.
    return tensor.detach().to(torch.float32, copy=True)


def dtype_of(array: Any) -> str:
    """Return the name of an array's dtype, such as "float32" or "bfloat16".

    >>> dtype_of([0.5, 0.5])
    'float64'
    """
    dtype = getattr(array, "dtype", None)
    return str(np.asarray(array).dtype if dtype is None else dtype).removeprefix("torch.")


def _tensor(array: Any, what: str) -> Tensor:
    """Convert an array that is no torch tensor, by DLPack or through NumPy."""
    if hasattr(array, "__dlpack__") and not isinstance(array, np.ndarray):
        try:
            return torch.from_dlpack(array)
        except (BufferError, RuntimeError, TypeError, ValueError):
            pass  # a device or dtype that DLPack does not support
    try:
        as_numpy = np.asarray(array)
    except Exception as error:  # depends on the array's library
        raise InputError(
            f"{what}: is no array ({type(array).__name__}), expected one of NumPy, torch or JAX."
            " Convert it first."
        ) from error
    if as_numpy.dtype.kind != "f" and as_numpy.dtype.name not in WIDENED:
        raise InputError(
            f"{what}: holds {as_numpy.dtype}, expected floating-point numbers. Convert it first."
        )
    with np.errstate(over="ignore"):  # overflow becomes infinity, which is refused later
        wide = as_numpy.astype(np.float32)
    return torch.from_numpy(np.ascontiguousarray(wide))


def _first(faulty: Tensor) -> int:
    return int(faulty.nonzero()[0])


Pair = tuple[Any, Any]
"""Weights and values of one layer of one document."""
END: Final = object()
ALPHA: Final = "(document, layer, head, position)"
VALUES: Final = "(document, layer, kv_head, position, dimension)"


@dataclass(slots=True, kw_only=True)
class Stream:
    """Documents as iterators of layers, and the numbers of documents and layers."""

    documents: Iterator[Iterator[Pair]]
    count: int
    layers: int
    first: Pair
    """The first layer of the first document; the stream yields it again."""


def stream(
    alpha: Any, values: Any = None, *, count: int | None = None, layers: int | None = None
) -> Stream:
    """Return documents as a stream, after reading the first layer of the first document.

    Args:
        alpha, values: attention weights and value states, arrays or iterables with one entry per
            document. Without `values`: an iterable of documents, each a tuple (weights, values), or
            an iterable of layers that are such pairs.
        count, layers: numbers of documents, and of layers per document; required if an iterable has
            no length.

    Raises:
        InputError: there are no documents or layers, or their number is unknown.
    """
    _refuse_shapes(alpha, values)
    what = "documents" if values is None else "alpha"
    known = _agreed(what, "count", count, length_of(alpha), length_of(values))
    entries = _entries(alpha, what) if values is None else _paired(alpha, values, "documents")
    first = next(entries, END)
    if first is END:
        raise InputError(f"{what}: holds no documents, expected at least one. Pass some.")
    pairs, several = _layers_of(first, "the first document")
    number = _agreed("the first document", "layers", layers, several)
    pair = next(pairs, None)
    if pair is None:
        raise InputError("the first document: holds no layers, expected at least one. Pass some.")

    def documents() -> Iterator[Iterator[Pair]]:
        yield chain([pair], pairs)
        for place, entry in enumerate(entries, start=1):
            yield _layers_of(entry, f"document {place}")[0]

    return Stream(documents=documents(), count=known, layers=number, first=pair)


def _refuse_shapes(alpha: Any, values: Any) -> None:
    """Refuse arrays with other dimensions, whose first axis would be mistaken for documents."""
    arrays = (("alpha", alpha, (4, 5), ALPHA), ("values", values, (5,), VALUES))
    for name, array, dims, expected in arrays:
        shape = getattr(array, "shape", None)
        if shape is not None and len(shape) not in dims:
            raise InputError(
                f"{name}: is an array of shape {tuple(shape)}, expected {expected}. Reshape it; one"
                " document has a first axis of 1."
            )
    if values is None and getattr(alpha, "shape", None) is not None:
        raise InputError("values: are missing, expected values with alpha. Pass both.")


def _layers_of(entry: Any, where: str) -> tuple[Iterator[Pair], int | None]:
    """Return the layers of one document, and their number; None if it is unknown."""
    if isinstance(entry, tuple) and len(entry) == 2:
        alpha, values = entry
        layer_counts = {length_of(alpha), length_of(values)} - {None}
        if len(layer_counts) > 1:
            raise InputError(
                f"{where}: alpha has {length_of(alpha)} layers, values have {length_of(values)},"
                " expected equally many. Check the order of the axes."
            )
        return _paired(alpha, values, f"{where}, layers"), next(iter(layer_counts), None)
    return _pairs(_entries(entry, where), where), length_of(entry)


def _pairs(layers: Iterator[Any], where: str) -> Iterator[Pair]:
    for index, layer in enumerate(layers):
        if not (isinstance(layer, tuple | list) and len(layer) == 2):
            raise InputError(
                f"{where}, layer {index}: is of type {type(layer).__name__}, expected a pair of"
                " alpha and values. Pass each layer as a pair."
            )
        yield layer[0], layer[1]


def _paired(alpha: Any, values: Any, what: str) -> Iterator[Pair]:
    """Iterate over weights and values together."""
    for pair in zip_longest(_entries(alpha, what), _entries(values, what), fillvalue=END):
        if pair[0] is END or pair[1] is END:
            raise InputError(
                f"{what}: alpha and values differ in length, expected equal lengths. Pass both for"
                " each."
            )
        yield pair


def _entries(source: Any, what: str) -> Iterator[Any]:
    try:
        return iter(source)
    except TypeError as error:
        raise InputError(
            f"{what}: is of type {type(source).__name__}, expected arrays, or an iterable. Pass"
            " one."
        ) from error


def length_of(source: Any) -> int | None:
    """Return the length of an array or sequence; None if it has none."""
    try:
        return len(source)
    except TypeError:
        return None


def _agreed(what: str, keyword: str, *lengths: int | None) -> int:
    """Return the number of documents or layers, from the keyword or from the tensors."""
    known = {length for length in lengths if length is not None}
    counted = "documents" if keyword == "count" else keyword
    if len(known) > 1:
        others = ", and count, names and token_ids" if keyword == "count" else ""
        raise InputError(
            f"{what}: {' and '.join(map(str, sorted(known)))} {counted} are given, expected one"
            f" number. Check the first axis of each array{others}."
        )
    if not known:
        raise InputError(
            f"{what}: its number of {counted} is unknown, as of an iterator. Pass {keyword}=."
        )
    return int(known.pop())


NAME: Final = "documents given as tensors"
"""Corpus name that a run stores."""
AS_GIVEN: Final = "as given"
"""Choice of special tokens that a run stores."""


def names_of(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """Return the names of the documents, by default their numbers."""
    if names is None:
        return tuple(f"document {place}" for place in range(count))
    known = labels_of(names, "names")
    if len(known) != count or len(set(known)) != count:
        raise InputError(
            f"names: {len(known)} names, {len(set(known))} of them different, expected a different"
            f" name for each of {count} documents. Pass one each."
        )
    return known


def ids_of(token_ids: Any, shape: tuple[int, int]) -> NDArray[np.int32]:
    """Read token ids, (document, position)."""
    with boundary(
        "token_ids: are no array (document, position) of integers",
        "expected equally many for each document. Pass such an array.",
    ):
        values = np.stack([plain(row) for row in token_ids])
    if values.shape != shape or values.dtype.kind not in "iu" or values.min() < 0:
        raise InputError(
            f"token_ids: are {values.dtype} of shape {values.shape}, expected non-negative integers"
            f" of shape {shape}, the documents and positions of alpha. Pass such an array."
        )
    if values.max() > np.iinfo(np.int32).max:
        raise InputError(
            f"token_ids: the largest is {values.max()}, expected 32-bit integers. Check them."
        )
    return values.astype(np.int32)


def known_windows(token_ids: NDArray[np.int32], names: tuple[str, ...]) -> Windows:
    """Return windows of known tokens; an InputError if two are equal or nearly equal."""
    first: dict[bytes, str] = {}
    for row, name in zip(token_ids, names, strict=True):
        first_name = first.setdefault(row.tobytes(), name)
        if first_name != name:
            raise InputError(
                f"{first_name} and {name}: hold the same token_ids, expected different documents."
                " Leave one out."
            )
    documents = [
        Document(name=name, text="", token_ids=tuple(row.tolist()))
        for row, name in zip(token_ids, names, strict=True)
    ]
    known = windows(documents, None, length=token_ids.shape[1], count=len(names))
    return replace(known, corpus=NAME, special_tokens=AS_GIVEN)


def visible_of(visible: Sequence[int] | None, layers: int, positions: int) -> tuple[int, ...]:
    """Return the number of visible tokens of each layer."""
    if visible is None:
        return (positions,) * layers
    with boundary("visible: is no row of integers", "expected one for each layer. Pass a list."):
        values = plain(visible)
    whole = values.shape == (layers,) and values.dtype.kind in "iu"
    if not whole or not ((values >= 1) & (values <= positions)).all():
        raise InputError(
            f"visible: {values.tolist()}, expected a number of tokens for each of {layers} layers,"
            f" from 1 to {positions}. Pass the number of positions that the last query sees."
        )
    return tuple(values.tolist())


def texts_of(tokens: Any, token_ids: NDArray[np.int32]) -> dict[int, str]:
    """Return the texts of the token ids that occur in the documents, by id in ascending order."""
    wanted = np.unique(token_ids).tolist()
    if isinstance(tokens, Mapping):
        remedy = "Pass a mapping of ids to texts."
        with boundary("tokens: has a key that is no token id", f"expected ids. {remedy}"):
            texts = {int(token_id): text for token_id, text in tokens.items()}
        known = [token_id for token_id in wanted if token_id in texts]
        return dict(zip(known, labels_of(map(texts.get, known), "tokens"), strict=True))
    with boundary(
        "tokens: are no texts",
        "expected a text for each token id. Pass such texts, or a mapping of ids to texts.",
    ):
        rows = [labels_of(row, "tokens") for row in tokens]
    if [len(row) for row in rows] != [token_ids.shape[1]] * len(token_ids):
        raise InputError(
            "tokens: differ in shape from token_ids, expected a text for each. Pass such texts, or"
            " a mapping of ids to texts."
        )
    read: dict[int, str] = {}
    for token_id, text in zip(token_ids.ravel().tolist(), chain(*rows), strict=True):
        if read.setdefault(token_id, text) != text:
            raise InputError(
                f"tokens: id {token_id} stands for {read[token_id]!r} and for {text!r}, expected"
                " one text. Check the program that made them."
            )
    return {token_id: read[token_id] for token_id in wanted}


def labels_of(labels: Iterable[Any], what: str) -> tuple[str, ...]:
    """Read labels as strings of whole characters; bytes (NumPy's type S) are decoded as UTF-8."""
    with boundary(f"{what}: are no texts", "expected a list of texts. Pass one."):
        if isinstance(labels, str):
            raise TypeError("one text alone")
        texts = [text.decode() if isinstance(text, bytes) else str(text) for text in labels]
    return tuple(whole_characters(text, what) for text in texts)


def plain(array: Any) -> NDArray[Any]:
    """Return an array or tensor as a NumPy array."""
    return array.detach().cpu().numpy() if isinstance(array, Tensor) else np.asarray(array)


MODEL: Final = "tensors from elsewhere"


@dataclass(slots=True)
class GivenTensors:
    """Layers that another program made, as a source for a capture."""

    stream: Stream
    shape: LayerSizes
    windows: Windows
    queries: Queries
    visible: tuple[int, ...]
    """Number of tokens that the last query sees, by layer."""
    model: str
    dtype: str
    device: str = "cpu"
    """Type of the device of the first layer; all layers are moved there."""
    texts: dict[int, str] = field(default_factory=dict)
    """Text of each token id."""
    _digest: Any = field(default_factory=hashlib.sha256)
    _seen: dict[str, str] = field(default_factory=dict)
    """Names of the documents read so far, by the digest of their tensors."""

    @property
    def sizes(self) -> Mapping[str, Any]:
        """Numbers of layers, heads and kv_heads, and the dimension."""
        names = ("heads", "kv_heads", "dimension")
        return {"layers": self.stream.layers} | {name: getattr(self.shape, name) for name in names}

    @property
    def devices(self) -> tuple[str, ...]:
        """The single device that each layer is moved to."""
        return (self.device,)

    def provenance(self) -> dict[str, Any]:
        """Return the model's name, its sizes and the type of its values."""
        return {"id": self.model, "source": "tensors", "dtype": self.dtype, **self.sizes}

    def check(self, token_ids: NDArray[np.int32], queries: Tensor) -> dict[str, Any]:
        """Return the record that nothing was compared, because there is no model."""
        return {"checked": False}

    def resume(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Read the documents that a run already holds, and refuse others by their digests."""
        for document, row in enumerate(records):
            for _ in self._layers(document):
                pass
            if row.get("tensors_sha256") != self.digest():
                raise InputError(
                    f"document {self.windows.names[document]!r}: its tensors differ from those of"
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
        for index, layer in enumerate(self._layers(document)):
            visible = self._visible(index, queries[0])
            layer.refuse_faults(visible.to(layer.alpha.device))
            on_layer(
                TappedLayer(
                    index=index,
                    alpha=layer.alpha.to(self.device)[None],
                    values=layer.values.to(self.device)[None],
                    visible=visible[None],
                    first=[visible.to(torch.int8).argmax(dim=-1).tolist()],
                )
            )

    def digest(self) -> str:
        """Return the sha256 of the current document's tensors, of the layers read so far."""
        return str(self._digest.hexdigest())

    def row(self, document: int) -> dict[str, Any]:
        """Return the digest of the tensors; it identifies a document of unknown tokens."""
        digest = self.digest()
        known = bool(self.windows.sha256[document])
        return {"tensors_sha256": digest} | ({} if known else {"sha256": digest})

    def _layers(self, document: int) -> Iterator[Layer]:
        """Read the next document and update its digest; refuse one that was read before."""
        name, count = self.windows.names[document], self.stream.layers
        pairs: Iterator[Pair] | None = next(self.stream.documents, None)
        if pairs is None:
            raise InputError(
                f"{document} documents were read, expected {self.stream.count}. Pass as many as"
                " stated."
            )
        self._digest = hashlib.sha256()
        read = 0
        for alpha, values in pairs:
            where = f"document {name!r}, layer {read}"
            if read == count:
                raise InputError(
                    f"{where}: is one too many, expected {count} layers. Pass equally many for each"
                    " document."
                )
            layer = layer_of(alpha, values, where)
            if layer.sizes != self.shape:
                raise InputError(
                    f"{where}: has {layer.sizes}, expected the sizes of the very first layer,"
                    f" {self.shape}. Pass arrays of one shape."
                )
            for tensor in (layer.alpha, layer.values):
                self._digest.update(f"{tuple(tensor.shape)}\n".encode())
                numbers = tensor.cpu().contiguous().numpy()
                self._digest.update(numbers.astype("<f4", copy=False).data)
            yield layer
            read += 1
        if read < count:
            raise InputError(
                f"document {name!r}: has {read} layers, expected {count}. Pass every layer."
            )
        first_name = self._seen.setdefault(self.digest(), name)
        if first_name != name:
            raise InputError(
                f"{first_name} and {name}: hold the same tensors, expected different documents."
                " Leave one out."
            )

    def _visible(self, index: int, rows: Tensor) -> Tensor:
        """Return which positions the queries at `rows` see, (query, position) bool: as many as the
        last query in a layer with a window, else all up to their position.
        """
        positions = torch.arange(self.shape.positions)
        start = rows + 1 - self.visible[index]
        return (positions >= start[:, None]) & (positions <= rows[:, None])


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
    """Return documents as tensors, with their labels.

    Args:
        names: names of the documents.
        token_ids: (document, position) integers.
        tokens: texts of the tokens: {id: text}, or texts in the shape of `token_ids`.
        visible: number of tokens that the last query sees, by layer; by default all. The weights
            cannot show this, because they may round to 0.
        queries: the queries that the rows of weights belong to, such as last:4 or every:64; by
            default the last ones.
        model: description of what made the tensors.

    Raises:
        InputError: these do not fit the documents, or two documents are equal.
    """
    first = layer_of(*stream.first, "the first document, layer 0")
    sizes = first.sizes
    if sizes.positions < LEAST_LENGTH:
        raise InputError(
            f"alpha: has {sizes.positions} positions, expected at least {LEAST_LENGTH}. Pass longer"
            " documents."
        )
    labels = names_of(names, stream.count)
    if token_ids is None and tokens is not None:
        raise InputError("tokens: are given without token_ids, expected both. Pass both.")
    shape = (stream.count, sizes.positions)
    if token_ids is not None:
        windows = known_windows(ids_of(token_ids, shape), labels)
    else:
        nothing = ("",) * stream.count
        windows = Windows(
            token_ids=np.full(shape, -1, np.int32),
            names=labels,
            sha256=nothing,
            text_sha256=nothing,
            skipped=0,
            corpus=NAME,
            special_tokens=AS_GIVEN,
        )
    if not str(model).strip():
        raise InputError(
            "model: is empty, expected a description of what made the tensors. Pass one."
        )
    option = str(queries or f"last:{sizes.queries}")
    named_queries = Queries.read(option, sizes.positions)
    if named_queries.count != sizes.queries or named_queries.way == "spread":
        raise InputError(
            f"--queries {option}: names {named_queries.count} queries of a window, but alpha has"
            f" rows of {sizes.queries}, expected last, last:Q or every:K with as many. Name the"
            " queries of these rows."
        )
    return GivenTensors(
        stream=stream,
        shape=sizes,
        windows=windows,
        queries=named_queries,
        visible=visible_of(visible, stream.layers, sizes.positions),
        model=whole_characters(str(model), "model"),
        dtype=dtype_of(stream.first[1]),
        device=first.values.device.type,
        texts={} if tokens is None else texts_of(tokens, windows.token_ids),
    )
