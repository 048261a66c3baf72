"""Layers given as tensors: arrays of any library, streams of documents, labels, and refusals."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from support.raising import refused
from support.tensors import DIMENSION, DOCUMENTS, HEADS, KV_HEADS, LAYERS, POSITIONS, arrays, read
from torch.utils import dlpack

from empirical.sources.tensors import (
    ROUNDING,
    GivenTensors,
    dtype_of,
    float32,
    given_tensors,
    layer_of,
    stream,
)

ALPHA, VALUES = arrays()
PAIRS = list(zip(ALPHA, VALUES, strict=True))
IDS = np.random.default_rng(1).integers(0, 99, (DOCUMENTS, POSITIONS))


def given(alpha: Any = ALPHA, values: Any = VALUES, **keywords: Any) -> GivenTensors:
    how = {name: keywords.pop(name) for name in ("count", "layers") if name in keywords}
    return given_tensors(stream(alpha, values, **how), **keywords)


def layers_of(document: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield from zip(ALPHA[document], VALUES[document], strict=True)


COUNTED = {"count": DOCUMENTS}
FORMS: dict[str, tuple[Any, Any, dict[str, int]]] = {
    "arrays": (ALPHA, VALUES, {}),
    "tensors": (torch.tensor(ALPHA), torch.tensor(VALUES), {}),
    "lists of arrays": (list(ALPHA), list(VALUES), {}),
    "iterators of arrays": (iter(ALPHA), iter(VALUES), COUNTED),
    "pairs": (PAIRS, None, {}),
    "pairs of lists": ([(list(alpha), list(values)) for alpha, values in PAIRS], None, {}),
    "generator of pairs": ((pair for pair in PAIRS), None, COUNTED),
    "lists of layers": ([list(layers_of(place)) for place in range(DOCUMENTS)], None, {}),
    "iterators of layers": (map(layers_of, range(DOCUMENTS)), None, COUNTED | {"layers": LAYERS}),
}
"""The same documents in every form, with what an iterator must be keywords."""


@pytest.mark.parametrize(("alpha", "values", "how"), FORMS.values(), ids=FORMS)
def test_every_form_gives_the_same_layers(alpha: Any, values: Any, how: dict[str, int]):
    source, expected = given(alpha, values, **how), given()
    assert source.sizes == {"layers": 2, "heads": 4, "kv_heads": 2, "dimension": 3}
    for document in range(DOCUMENTS):
        layers = read(source, document)
        assert [layer.index for layer in layers] == [0, 1]
        for index, layer in enumerate(layers):
            np.testing.assert_array_equal(layer.alpha[0, 0].numpy(), ALPHA[document, index])
            np.testing.assert_array_equal(layer.values[0].numpy(), VALUES[document, index])
            assert bool(layer.visible.all())
        read(expected, document)
        assert source.digest() == expected.digest()
    assert source.row(2)["sha256"] == source.row(2)["tensors_sha256"]


def test_an_iterator_is_read_a_layer_at_a_time_and_never_ahead():
    calls: list[tuple[int, int]] = []

    def layers(document: int) -> Iterator[Any]:
        for index, pair in enumerate(layers_of(document)):
            calls.append((document, index))
            yield pair

    source = given(map(layers, range(DOCUMENTS)), None, count=DOCUMENTS, layers=LAYERS)
    assert calls == [(0, 0)]  # for its shape
    seen: list[list[tuple[int, int]]] = []
    for document in range(DOCUMENTS):
        source.hand_over(
            range(document, document + 1),
            np.empty((1, 0), np.int32),
            torch.tensor([[POSITIONS - 1]]),
            lambda layer: seen.append(list(calls)),
        )
    every = [(document, index) for document in range(DOCUMENTS) for index in range(LAYERS)]
    assert seen == [every[: place + 1] for place in range(len(every))]


def test_documents_are_told_by_their_tokens_or_else_by_their_tensors():
    known = given(token_ids=IDS, tokens={number: f"<{number}>" for number in range(99)})
    read(known, 0)
    row = known.windows.row(0) | known.row(0)
    assert row["sha256"] == known.windows.sha256[0] != row["tensors_sha256"]
    assert known.texts == {number: f"<{number}>" for number in np.unique(IDS).tolist()}
    laid_out = [[f"<{number}>" for number in row] for row in IDS]
    assert given(token_ids=IDS, tokens=laid_out).texts == known.texts
    unknown = given()
    assert not unknown.windows.known
    read(unknown, 0)
    assert unknown.windows.row(0) == {"name": "document 0"}
    assert unknown.row(0)["sha256"] == row["tensors_sha256"]


def test_several_queries_see_their_own_positions_of_a_window():
    alpha, values = arrays(1)
    rows = np.repeat(alpha[:, :, None], 3, axis=2)
    for query, last in enumerate((17, 18, 19)):
        rows[:, :, query, :, last + 1 :] = 0
        rows[:, 0, query, :, : last + 1 - 5] = 0
    source = given(rows, values, visible=[5, POSITIONS])
    assert str(source.queries) == "last:3"
    windowed, whole = (layer.visible[0] for layer in read(source, 0))
    assert windowed.sum(dim=1).tolist() == [5, 5, 5]
    assert windowed.int().argmax(dim=1).tolist() == [13, 14, 15]
    assert whole.sum(dim=1).tolist() == [18, 19, 20]
    with refused("are positive at positions that the query does not see"):
        read(given(np.repeat(alpha[:, :, None], 3, axis=2), values), 0)
    every = given(rows[:, :, [0, 2]], values, queries="every:4")
    assert every.queries.positions(POSITIONS, [""]).tolist() == [[15, 19]]


@pytest.mark.parametrize(
    ("alpha", "values", "said"),
    [
        (ALPHA, None, "values: are missing"),
        ([], [], "alpha: holds no documents"),
        ([([], [])], None, "the first document: holds no layers"),
        (ALPHA[0], VALUES[0], "alpha: is an array of shape (2, 4,"),
        (ALPHA, VALUES[0], "values: is an array of shape"),
        (ALPHA[:2], VALUES, "alpha: 2 and 3 documents are given"),
        (ALPHA, VALUES[:, :1], "alpha has 2 layers, values have 1"),
        (iter(ALPHA), iter(VALUES), "its number of documents is unknown"),
        (7, 8, "alpha: its number of documents is unknown"),
        ([layers_of(0)], None, "Pass layers="),
        ([[ALPHA[0, 0]]], None, "expected a pair of alpha and values"),
        ([3], None, "is of type int, expected arrays"),
        (ALPHA[..., :3], VALUES[..., :3, :], "has 3 positions, expected at least 4"),
    ],
)
def test_documents_that_do_not_fit_are_refused(alpha: Any, values: Any, said: str):
    with refused(re.escape(said)):
        given(alpha, values)


EQUAL, NEAR = IDS.copy(), np.repeat(np.arange(POSITIONS)[None], 3, axis=0)
EQUAL[2] = EQUAL[0]
NEAR[1] += 50
NEAR[2, -1] = 150
DIFFERENT = np.arange(DOCUMENTS * POSITIONS).reshape(DOCUMENTS, POSITIONS).astype(str)
KNOWN = {"token_ids": IDS}


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"names": ["a", "b", "a"]}, "2 of them different"),
        ({"names": ["a", "b", "\ud800"]}, "character 0 is half of"),
        ({"names": "abc"}, "names: are no texts"),
        ({"names": 3}, "names: are no texts"),
        ({"names": np.full(3, 2**31 - 1, np.uint32).view("U1")}, "names: are no texts"),
        ({"token_ids": IDS[:, 1:]}, "token_ids: are int64 of"),
        ({"token_ids": IDS * 1.0}, "token_ids: are float64"),
        ({"token_ids": [[2**70] * 20] * 3}, "token_ids: are object"),
        ({"token_ids": IDS - 50}, "expected non-negative integers"),
        ({"token_ids": IDS + 2**40}, "expected 32-bit"),
        ({"token_ids": [[1], [1, 2], [3]]}, "token_ids: are no array"),
        ({"token_ids": 7}, "token_ids: are no array"),
        ({"token_ids": torch.tensor(IDS).bfloat16()}, "token_ids: are no array"),
        ({"token_ids": torch.tensor(IDS).to("meta")}, "token_ids: are no array"),
        ({"token_ids": EQUAL}, "hold the same token_ids"),
        ({"token_ids": NEAR}, "runs of 5 tokens"),
        ({"tokens": {1: "a"}}, "tokens: are given without"),
        ({"tokens": [["a"]] * 3, **KNOWN}, "tokens: differ in shape"),
        ({"tokens": DIFFERENT, **KNOWN}, "expected one text"),
        ({"tokens": {int(IDS[0, 0]): "\udfff"}, **KNOWN}, "tokens: character 0 is half of"),
        ({"tokens": {"a": "b"}, **KNOWN}, "tokens: has a key that is no token id"),
        ({"tokens": 3, **KNOWN}, "tokens: are no texts"),
        ({"visible": [5]}, "a number of tokens for each of 2"),
        ({"visible": [[1], [1, 2]]}, "visible: is no row"),
        ({"visible": [0, 5]}, "visible: [0, 5]"),
        ({"queries": "last:2"}, "alpha has rows of 1"),
        ({"queries": "spread:1"}, "expected last, last:Q"),
        ({"model": " "}, "model: is empty"),
        ({"model": "a\ud800"}, "model: character 1 is half of"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: dict[str, Any], said: str):
    with refused(re.escape(said)):
        given(**labels)


TWICE = tuple(np.concatenate([array[1]] * 2) for array in (ALPHA, VALUES))
WIDE = np.concatenate([VALUES[1], VALUES[1]], axis=-1)


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([PAIRS[0], PAIRS[0]], "document 0 and document 1: hold the same tensors"),
        ([PAIRS[0], (ALPHA[1], WIDE)], "document 'document 1', layer 0: has 1 queries"),
        ([PAIRS[0], (ALPHA[1, :1], VALUES[1, :1])], "has 1 layers, expected 2"),
        ([PAIRS[0], TWICE], "is one too many, expected 2 layers"),
        ([PAIRS[0], (ALPHA[1], iter(VALUES[1, :1]))], "differ in length"),
        (iter(PAIRS[:1]), "1 documents were read, expected 2"),
    ],
)
def test_a_later_document_that_does_not_fit_is_refused_by_its_name(documents: Any, said: str):
    source = given(documents, None, count=2)
    read(source, 0)
    with refused(re.escape(said)):
        read(source, 1)


class OfAnother:
    """An array of a library that knows DLPack alone."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **_: object) -> object:
        return dlpack.to_dlpack(self.tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


NUMPY_KINDS = [np.float16, np.float32, np.float64]
TORCH_KINDS = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


@pytest.mark.parametrize("kind", [*NUMPY_KINDS, *TORCH_KINDS])
def test_floating_point_is_widened_or_rounded_to_float32_and_keeps_its_numbers(kind: Any):
    numbers = np.array([[0.5, -0.25], [3.0, 1e-4]])
    array = torch.tensor(numbers).to(kind) if kind in TORCH_KINDS else numbers.astype(kind)
    found = float32(array, "values")
    assert found.dtype == torch.float32
    expected = array.double().numpy() if isinstance(array, torch.Tensor) else array
    np.testing.assert_array_equal(found.numpy(), expected.astype(np.float32))


def test_arrays_of_other_libraries_lists_and_views_are_read():
    numbers = np.arange(6.0).reshape(2, 3)
    for array in (OfAnother(torch.tensor(numbers)), numbers.tolist(), numbers[::-1][::-1]):
        np.testing.assert_array_equal(float32(array, "values").numpy(), numbers)
    locked = numbers.astype(np.float32)
    locked.flags.writeable = False  # torch warns of such
    np.testing.assert_array_equal(float32(locked, "values").numpy(), locked)
    assert not float32(torch.ones(2, requires_grad=True), "values").requires_grad


def test_bfloat16_of_numpy_is_read():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([0.5, 0.25]).astype(ml_dtypes.bfloat16)
    assert float32(array, "values").tolist() == [0.5, 0.25]
    assert dtype_of(array) == "bfloat16"


NO_FLOATS = [
    *(np.array([1, 2]), np.array([True]), np.array(["a"]), np.array([None, {}])),
    *(
        torch.tensor([1]),
        torch.tensor([1j]),
        torch.ones(2, device="meta"),
        torch.eye(2).to_sparse(),
    ),
    *(object(), [[1.0], [1.0, 2.0]], None, "text"),
]


@pytest.mark.parametrize("array", NO_FLOATS, ids=lambda array: type(array).__name__)
def test_what_is_no_floating_point_in_memory_is_refused(array: object):
    with refused(r"^alpha: .*Convert it first"):
        float32(array, "alpha")


QUERIES = 2


@pytest.mark.parametrize(
    ("alpha", "values"),
    [
        ((HEADS, POSITIONS), (KV_HEADS, POSITIONS)),
        ((POSITIONS,), (KV_HEADS, POSITIONS, DIMENSION)),
        ((1, QUERIES, HEADS, POSITIONS), (KV_HEADS, POSITIONS, DIMENSION)),
        ((3, POSITIONS), (KV_HEADS, POSITIONS, DIMENSION)),
        ((HEADS, POSITIONS), (KV_HEADS, POSITIONS + 1, DIMENSION)),
        ((HEADS, POSITIONS), (8, POSITIONS, DIMENSION)),
        ((HEADS, 0), (KV_HEADS, 0, DIMENSION)),
        ((HEADS, POSITIONS), (0, POSITIONS, DIMENSION)),
        ((HEADS, POSITIONS), (KV_HEADS, POSITIONS, 0)),
    ],
)
def test_layers_that_do_not_fit_are_refused(alpha: tuple[int, ...], values: tuple[int, ...]):
    with refused(r"^here: .*expected"):
        layer_of(np.ones(alpha), np.ones(values), "here")


def a_layer() -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    """Weights of two queries, values, and the positions that the queries see: the first one, all
    but the last.
    """
    alpha = np.random.default_rng(0).dirichlet(np.ones(POSITIONS), size=(QUERIES, HEADS))
    visible = torch.ones(QUERIES, POSITIONS, dtype=torch.bool)
    alpha[0, :, -1], visible[0, -1] = 0, False
    return alpha, VALUES[0, 0].copy(), visible


@pytest.mark.parametrize(
    ("name", "place", "number", "said"),
    [
        ("values", (1, 2, 0), np.inf, "here, kv_head 1: values hold NaN or infinity"),
        ("alpha", (1, 2, 0), np.nan, "head 2: alpha hold NaN or infinity"),
        ("alpha", (0, 2, 3), -1e-6, "head 2: the weights alpha hold a weight below 0"),
        ("alpha", (1, 2), 1.01 / POSITIONS, "head 2: the weights alpha sum to 1.01, expected at m"),
        ("alpha", (0, 2), 0.0, "head 2: the weights alpha are all 0"),
        ("alpha", (0, 2, -1), 1e-6, "head 2: the weights alpha are positive at positions that the"),
    ],
)
def test_what_are_no_weights_is_refused_by_its_head(
    name: str, place: tuple[int, ...], number: float, said: str
):
    alpha, values, visible = a_layer()
    {"alpha": alpha, "values": values}[name][place] = number
    with refused(said):
        layer_of(alpha, values, "here").refuse_faults(visible)


def test_rows_may_sum_below_1_and_above_by_rounding():
    alpha, values, visible = a_layer()
    for factor in (0.3, 1 + 0.9 * ROUNDING):
        layer_of(factor * alpha, values, "here").refuse_faults(visible)
    with refused("sum to"):
        layer_of((1 + 1.1 * ROUNDING) * alpha, values, "here").refuse_faults(visible)


def test_a_softmax_that_is_rounded_to_bfloat16_is_taken():
    chance = torch.Generator().manual_seed(0)
    rows = torch.softmax(4 * torch.randn(500, 300, generator=chance), dim=-1).bfloat16()
    assert float(rows.double().sum(dim=-1).max()) > 1.0005
    values = torch.ones(1, 300, 2)
    layer_of(rows, values, "here").refuse_faults(torch.ones(1, 300, dtype=torch.bool))


@pytest.mark.parametrize("array", [np.ones(3, np.float32), torch.ones(3)], ids=["numpy", "torch"])
def test_an_array_that_its_owner_reuses_is_copied(array):
    copied = float32(array, "alpha")
    array[:] = 0
    assert copied.tolist() == [1, 1, 1]
