"""Documents as tensors: how they are read, what is told of them, what is refused."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from empirical.errors import InputError
from empirical.sources.tensors.given import GivenTensors, given_tensors
from empirical.sources.tensors.stream import stream
from empirical.tap.tap import TappedLayer

DOCUMENTS, LAYERS, HEADS, KV_HEADS, POSITIONS, DIMENSION = 3, 2, 4, 2, 20, 3


def arrays(documents: int = DOCUMENTS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    alpha = chance.dirichlet(np.ones(POSITIONS), size=(documents, LAYERS, HEADS))
    values = chance.normal(size=(documents, LAYERS, KV_HEADS, POSITIONS, DIMENSION))
    return alpha.astype(np.float32), values.astype(np.float32)


def ids(documents: int = DOCUMENTS) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 99, (documents, POSITIONS))


def given(alpha: Any, values: Any = None, **told: Any) -> GivenTensors:
    how = {name: told.pop(name) for name in ("count", "layers") if name in told}
    return given_tensors(stream(alpha, values, **how), **told)


def read(source: GivenTensors, document: int) -> list[TappedLayer]:
    layers: list[TappedLayer] = []
    rows = source.queries.positions(POSITIONS, [""])
    source.hand_over(
        range(document, document + 1),
        np.empty((1, 0), np.int32),
        torch.as_tensor(rows),
        layers.append,
    )
    return layers


def forms() -> dict[str, Any]:
    """The same documents in every form that is taken, with what an iterator must be told."""
    alpha, values = arrays()
    places = range(DOCUMENTS)

    def lazily(document: int) -> Iterator[Any]:
        yield from zip(alpha[document], values[document], strict=True)

    return {
        "arrays": ((alpha, values), {}),
        "tensors": ((torch.tensor(alpha), torch.tensor(values)), {}),
        "lists of arrays": ((list(alpha), list(values)), {}),
        "iterators of arrays": ((iter(alpha), iter(values)), {"count": DOCUMENTS}),
        "pairs": (([(alpha[one], values[one]) for one in places],), {}),
        "pairs of lists": (([(list(alpha[one]), list(values[one])) for one in places],), {}),
        "generator of pairs": (
            (((alpha[one], values[one]) for one in places),),
            {"count": DOCUMENTS},
        ),
        "lists of layers": (([list(lazily(one)) for one in places],), {}),
        "iterators of layers": (
            ((lazily(one) for one in places),),
            {"count": DOCUMENTS, "layers": LAYERS},
        ),
    }


@pytest.mark.parametrize("form", forms())
def test_every_form_gives_the_same_layers(form: str):
    what, how = forms()[form]
    alpha, values = arrays()
    source = given(*what, **how)
    assert source.sizes == {"layers": 2, "heads": 4, "kv_heads": 2, "dimension": 3}
    for document in range(DOCUMENTS):
        layers = read(source, document)
        assert [one.index for one in layers] == [0, 1]
        for index, one in enumerate(layers):
            np.testing.assert_array_equal(one.alpha[0, 0].numpy(), alpha[document, index])
            np.testing.assert_array_equal(one.values[0].numpy(), values[document, index])
            assert bool(one.visible.all())
    assert source.row(2)["sha256"] == source.row(2)["tensors_sha256"]
    expected = given(*arrays())
    for document in range(DOCUMENTS):
        read(expected, document)
    assert source.digest() == expected.digest()


def test_an_iterator_is_read_a_layer_at_a_time_and_never_ahead():
    alpha, values = arrays()
    asked: list[tuple[int, int]] = []

    def layers(document: int) -> Iterator[Any]:
        for index in range(LAYERS):
            asked.append((document, index))
            yield alpha[document, index], values[document, index]

    source = given((layers(one) for one in range(DOCUMENTS)), count=DOCUMENTS, layers=LAYERS)
    assert asked == [(0, 0)]  # for its shape
    seen: list[list[tuple[int, int]]] = []
    rows = torch.tensor([[POSITIONS - 1]])
    for document in range(DOCUMENTS):
        source.hand_over(
            range(document, document + 1),
            np.empty((1, 0), np.int32),
            rows,
            lambda layer: seen.append(list(asked)),
        )
    every = [(document, index) for document in range(DOCUMENTS) for index in range(LAYERS)]
    assert seen == [every[: place + 1] for place in range(len(every))]


def test_documents_are_told_by_their_tokens_or_else_by_their_tensors():
    tokens = ids()
    known = given(*arrays(), token_ids=tokens, tokens={int(one): f"<{one}>" for one in range(99)})
    read(known, 0)
    row = known.windows.row(0) | known.row(0)
    assert row["sha256"] == known.windows.sha256[0] != row["tensors_sha256"]
    assert known.texts[int(tokens[0, 0])] == f"<{tokens[0, 0]}>"
    assert set(known.texts) == set(np.unique(tokens).tolist())
    laid_out = [[f"<{one}>" for one in row] for row in tokens]
    assert given(*arrays(), token_ids=tokens, tokens=laid_out).texts == known.texts
    unknown = given(*arrays())
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
    windowed, whole = (one.visible[0] for one in read(source, 0))
    assert windowed.sum(dim=1).tolist() == [5, 5, 5]
    assert windowed.int().argmax(dim=1).tolist() == [13, 14, 15]
    assert whole.sum(dim=1).tolist() == [18, 19, 20]
    with pytest.raises(InputError, match="lie on positions that the query does not see"):
        read(given(np.repeat(alpha[:, :, None], 3, axis=2), values), 0)
    every = given(rows[:, :, [0, 2]], values, queries="every:4")
    assert every.queries.positions(POSITIONS, [""]).tolist() == [[15, 19]]


def refusals() -> list[tuple[str, Any, str]]:
    alpha, values = arrays()
    tokens = ids()
    twice = tokens.copy()
    twice[2] = twice[0]
    near = np.repeat(np.arange(200)[None, :POSITIONS], 3, axis=0)
    near[1] += 50
    near[2, -1] = 150
    short = alpha[..., :3], values[..., :3, :]
    return [
        ("no values", lambda: given(alpha), "values: are missing"),
        ("no documents", lambda: given([], []), "alpha: holds no documents"),
        ("no layers", lambda: given([([], [])]), "the first document: holds no layers"),
        ("one document", lambda: given(alpha[0], values[0]), "alpha: is an array of shape (2, 4,"),
        ("values of one", lambda: given(alpha, values[0]), "values: is an array of shape"),
        ("other documents", lambda: given(alpha[:2], values), "alpha: 2 and 3 documents are told"),
        ("other layers", lambda: given(alpha, values[:, :1]), "alpha has 2 layers, values have 1"),
        ("no length", lambda: given(iter(alpha), iter(values)), "cannot tell how many documents"),
        ("no arrays", lambda: given(7, 8), "alpha: cannot tell how many documents"),
        ("no depth", lambda: given([iter([(alpha[0, 0], values[0, 0])])]), "Give layers="),
        ("no pair", lambda: given([[alpha[0, 0]]]), "expected a pair of alpha and values"),
        ("no document", lambda: given([3], count=1), "is of type int, expected arrays"),
        ("short", lambda: given(*short), "has 3 positions, expected at least 4"),
        ("names", lambda: given(alpha, values, names=["a", "b", "a"]), "2 of them different"),
        ("ids", lambda: given(alpha, values, token_ids=tokens[:, 1:]), "token_ids: are int64 of"),
        ("ragged", lambda: given(alpha, values, token_ids=[[1], [1, 2], [3]]), "token_ids: are no"),
        ("below", lambda: given(alpha, values, token_ids=tokens - 50), "whole numbers from 0"),
        ("large", lambda: given(alpha, values, token_ids=tokens + 2**40), "expected 32-bit"),
        ("real", lambda: given(alpha, values, token_ids=tokens * 1.0), "token_ids: are float64"),
        ("twice", lambda: given(alpha, values, token_ids=twice), "hold the same token_ids"),
        ("near", lambda: given(alpha, values, token_ids=near), "runs of 5 tokens"),
        ("no ids", lambda: given(alpha, values, tokens={1: "a"}), "tokens: are given without"),
        (
            "texts",
            lambda: given(alpha, values, token_ids=tokens, tokens=[["a"]] * 3),
            "tokens: are laid out otherwise",
        ),
        (
            "two texts",
            lambda: given(
                alpha,
                values,
                token_ids=tokens,
                tokens=np.arange(DOCUMENTS * POSITIONS).reshape(DOCUMENTS, -1).astype(str),
            ),
            "expected one text",
        ),
        ("visible", lambda: given(alpha, values, visible=[5]), "a number of tokens for each of 2"),
        (
            "ragged visible",
            lambda: given(alpha, values, visible=[[1], [1, 2]]),
            "visible: is no row",
        ),
        (
            "bfloat16 ids",
            lambda: given(alpha, values, token_ids=torch.tensor(tokens).bfloat16()),
            "token_ids: are no array",
        ),
        (
            "ids elsewhere",
            lambda: given(alpha, values, token_ids=torch.tensor(tokens).to("meta")),
            "token_ids: are no array",
        ),
        ("one id", lambda: given(alpha, values, token_ids=7), "token_ids: are no array"),
        (
            "vast",
            lambda: given(alpha, values, token_ids=[[2**70] * 20] * 3),
            "token_ids: are object",
        ),
        (
            "half",
            lambda: given(alpha, values, names=["a", "b", "\ud800"]),
            "character 0 is half of",
        ),
        ("one name", lambda: given(alpha, values, names="abc"), "names: are no texts"),
        ("count as name", lambda: given(alpha, values, names=3), "names: are no texts"),
        ("model", lambda: given(alpha, values, model="a\ud800"), "model: character 1 is half of"),
        (
            "half a text",
            lambda: given(alpha, values, token_ids=tokens, tokens={int(tokens[0, 0]): "\udfff"}),
            "tokens: character 0 is half of",
        ),
        (
            "word as id",
            lambda: given(alpha, values, token_ids=tokens, tokens={"a": "b"}),
            "tokens: has a key that is no token id",
        ),
        (
            "number as texts",
            lambda: given(alpha, values, token_ids=tokens, tokens=3),
            "tokens: are no texts",
        ),
        (
            "beyond Unicode",
            lambda: given(alpha, values, names=np.full(3, 2**31 - 1, np.uint32).view("U1")),
            "names: are no texts",
        ),
        ("unseen", lambda: given(alpha, values, visible=[0, 5]), "visible: [0, 5]"),
        ("queries", lambda: given(alpha, values, queries="last:2"), "alpha has rows of 1"),
        ("drawn", lambda: given(alpha, values, queries="spread:1"), "expected last, last:Q"),
        ("name", lambda: given(alpha, values, model=" "), "model: is empty"),
    ]


@pytest.mark.parametrize(
    ("make", "said"), [one[1:] for one in refusals()], ids=[r[0] for r in refusals()]
)
def test_what_does_not_fit_is_refused_in_a_line(make, said: str):
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        make()
    assert "\n" not in str(caught.value)


def later() -> list[tuple[str, Any, str]]:
    """Faults behind the first document."""
    alpha, values = arrays()
    wide = np.concatenate([values, values], axis=-1)
    pairs = list(zip(alpha, values, strict=True))
    return [
        ("same", [pairs[0], pairs[0]], "document 0 and document 1: hold the same tensors"),
        ("shape", [pairs[0], (alpha[1], wide[1])], "document 'document 1', layer 0: has 1 queries"),
        ("few", [pairs[0], (alpha[1, :1], values[1, :1])], "has 1 layers, expected 2"),
        (
            "many",
            [pairs[0], (np.concatenate([alpha[1]] * 2), np.concatenate([values[1]] * 2))],
            "is one too many, expected 2 layers",
        ),
        ("uneven", [pairs[0], (alpha[1], iter(values[1, :1]))], "differ in how many there are"),
        ("end", iter(pairs[:1]), "1 documents were read, expected 2"),
    ]


@pytest.mark.parametrize(
    ("documents", "said"), [one[1:] for one in later()], ids=[r[0] for r in later()]
)
def test_a_later_document_that_does_not_fit_is_refused_by_its_name(documents, said: str):
    source = given(documents, count=2)
    read(source, 0)
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        read(source, 1)
    assert "\n" not in str(caught.value)
