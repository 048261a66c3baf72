"""The windows cut from documents, and the one-line errors."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.families import builtin_model, letters
from tokenizers import processors
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging

from empirical.errors import InputError
from empirical.sources.builtin_texts import topics
from empirical.sources.texts import Corpus, Document
from empirical.sources.tokens import tokens_of
from empirical.sources.windows import LEAST_LENGTH, Windows, nearly_the_same, windows

# The first topics of Python's language reference with 1,025 SmolLM2 tokens or more, and the sha256
# of their text in Python 3.11.7.
TOPICS = {
    "assignment": "e26d33938b3b9b2d993d5c537c9a3795c4b843c7917228361fdea8efd544a77e",
    "async": "bf77fa5f6c3e3d76fa17d722ea2518cc2f847036e9cb7b51b6f40a343c3ef3bc",
    "attribute-access": "528d5fdad91597cd77e21e98ec1723d8bfaf537a1a17ca2b87f6559236ef6033",
    "calls": "40343c78c4b8acf19d17f8556355ab53845240c09d4c6b26c9c1c374dfa64c0e",
    "comparisons": "28c5bc9ce8aa19eb91be0ecaef7d5b5382446f1b6c98343ea4186f96e910e7be",
    "compound": "e83a43bdc52fde4f3c521eb1b6b02fa550163642a9c71f9a3a1e45a6758f7d02",
}


def named(**given: str) -> Corpus:
    """A corpus of the given texts."""
    return Corpus(
        name="notes", read=lambda: (Document(name=name, text=text) for name, text in given.items())
    )


def cut(documents: Corpus | list[Document], *, bos: bool = False, **options: Any) -> Windows:
    return windows(documents, letters(bos=bos), **options)


@pytest.mark.builtin
def test_the_built_in_text_gives_the_six_topics() -> None:
    found = windows(topics(), builtin_model().tokenizer, length=1025, count=6)
    if found.corpus != "pydoc_data.topics of Python 3.11.7":
        pytest.skip("another Python has another text")
    assert dict(zip(found.names, found.text_sha256, strict=True)) == TOPICS
    assert found.names == tuple(TOPICS)
    assert found.token_ids.shape == (6, 1025)
    assert found.token_ids.dtype == np.int32
    assert found.skipped == 16
    # 26 topics exceed 1,025 tokens.
    with pytest.raises(
        InputError,
        match=(
            r"26 of 78 documents have 1025 tokens or more, but --documents is 27. Use --documents"
            r" 26, --length \d+, or"
        ),
    ):
        windows(topics(), builtin_model().tokenizer, length=1025, count=27)


def test_a_window_is_the_first_tokens_of_a_document_and_short_ones_are_counted() -> None:
    found = cut(named(one="abcdef", two="ab", three="fedcba", four="zzzz"), length=4, count=2)
    assert found.token_ids.tolist() == [[3, 4, 5, 6], [8, 7, 6, 5]]
    assert found.token_ids.dtype == np.int32
    assert found.names == ("one", "three")
    assert (found.skipped, found.corpus, found.special_tokens) == (1, "notes", "default")
    assert found.sha256[0] == hashlib.sha256(struct.pack("<4i", 3, 4, 5, 6)).hexdigest()
    assert found.text_sha256[1] == hashlib.sha256(b"fedcba").hexdigest()


def test_a_row_is_plain_and_provenance_does_not_grow_with_documents() -> None:
    texts_ = named(one="abcdef", two="ghijkl")
    one, two = cut(texts_, length=4, count=1), cut(texts_, length=4, count=2)
    assert one.corpus == two.corpus == "notes"
    assert json.loads(json.dumps(two.row(1))) == {
        "name": "two",
        "sha256": two.sha256[1],
        "text_sha256": hashlib.sha256(b"ghijkl").hexdigest(),
    }


def test_the_sha256_covers_the_whole_text_in_utf8() -> None:
    found = cut(named(one="abcé"), length=4, count=1)
    assert found.text_sha256 == (hashlib.sha256("abcé".encode()).hexdigest(),)


def test_reading_stops_when_enough_documents_are_found() -> None:
    def stream() -> Iterator[Document]:
        yield Document(name="one", text="abcdef")
        pytest.fail("read on")

    assert cut(Corpus(name="stream", read=stream), length=4, count=1).names == ("one",)


@given(
    st.lists(st.text(alphabet="abc", max_size=12), min_size=1, max_size=6),
    st.integers(LEAST_LENGTH, 10),
    st.integers(1, 6),
    st.booleans(),
)
def test_windows_are_the_starts_of_the_first_long_texts_or_the_remedy_that_is_named_gives_windows(
    lines: list[str], length: int, count: int, bos: bool
) -> None:
    lines = [
        line and chr(ord("d") + number) + line for number, line in enumerate(lines)
    ]  # none begins like another
    rows = [
        ([1] if bos else []) + [3 + ord(letter) - ord("a") for letter in line] for line in lines
    ]
    long = [(str(number), row[:length]) for number, row in enumerate(rows) if len(row) >= length]
    documents = [Document(name=str(number), text=line) for number, line in enumerate(lines)]
    if len(long) >= count:
        found = cut(documents, bos=bos, length=length, count=count)
        assert list(zip(found.names, found.token_ids.tolist(), strict=True)) == long[:count]
        return
    with pytest.raises(InputError) as caught:
        cut(documents, bos=bos, length=length, count=count)
    said = str(caught.value).partition(" Use ")[2]
    asked = [
        (option, int(value)) for option, value in re.findall(r"--(length|documents) (\d+)", said)
    ]
    names = {"length": "length", "documents": "count"}
    together = f"--length {dict(asked).get('length')} --documents" in said
    for remedy in [dict(asked)] if together else [dict([one]) for one in asked]:
        cut(
            documents,
            bos=bos,
            **{"length": length, "count": count}
            | {names[option]: value for option, value in remedy.items()},
        )
    if any(len(row) >= LEAST_LENGTH for row in rows):
        assert asked
    assert said.endswith(" texts.")


@pytest.mark.parametrize(
    ("given_texts", "said"),
    [
        (
            {"one": "abcdef", "two": "ghijkl", "three": "abcdef"},
            (
                "one and three: hold the same text, expected different documents. Leave one out, or"
                " use --documents 2."
            ),
        ),
        (
            {"one": "abcdef", "two": "abcdeg"},
            (
                "one and two: begin with the same 4 tokens, expected different documents. Leave one"
                " out, use a longer --length, or use --documents 1."
            ),
        ),
    ],
)
def test_two_documents_that_are_one_are_refused_by_name(
    given_texts: dict[str, str], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        cut(named(**given_texts), length=4, count=len(given_texts))
    assert str(caught.value) == said


def test_only_documents_that_count_must_differ() -> None:
    found = cut(
        named(one="abc", two="abc", three="abcdef", four="defghi", five="abcdef"), length=4, count=2
    )
    assert found.names == ("three", "four")
    assert found.skipped == 2
    assert cut(named(one="abcdef", two="abcdeg"), length=6, count=2).names == ("one", "two")


LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def changed(text: str, every: int) -> str:
    """The text with each so-many-th letter another one."""
    return "".join(
        chr(ord("a") + (ord(letter) - ord("a") + 1) % 26) if place % every == every - 1 else letter
        for place, letter in enumerate(text)
    )


def prose(seed: int, length: int = 400) -> str:
    return "".join(np.random.default_rng(seed).choice(LETTERS, length))


@pytest.mark.parametrize(
    ("other", "share"),
    # Of 396 runs 7 changed letters take 5 each and the last one 1: 360/432. A stretch takes 40.
    [(changed(prose(0), 50), "83%"), (prose(0)[40:] + prose(1, 40), "82%")],
)
def test_nearly_the_same_documents_are_refused_by_name(other: str, share: str) -> None:
    with pytest.raises(InputError) as caught:
        cut(named(one=prose(2), two=prose(0), three=other), length=400, count=3)
    assert str(caught.value) == (
        f"two and three: share {share} of their runs of 5 tokens in a window, expected different"
        " documents. Leave one out."
    )


@pytest.mark.parametrize("other", [changed(prose(0), 40), prose(0)[50:] + prose(1, 50)])
def test_documents_that_differ_more_are_let_through(other: str) -> None:
    assert len(cut(named(one=prose(0), two=other), length=400, count=2).names) == 2


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=9, max_size=9), min_size=2, max_size=8),
    st.integers(0, 3),
)
def test_the_pairs_found_by_their_rarest_runs_are_those_that_all_comparisons_find(
    rows: list[list[int]], repeats: int
) -> None:
    ids = np.array([*rows, rows[0][repeats:] + rows[0][:repeats]], dtype=np.int32)
    runs = [{tuple(row[at : at + 5]) for at in range(5)} for row in ids.tolist()]
    expected = {
        (first, second): len(runs[first] & runs[second]) / len(runs[first] | runs[second])
        for first in range(len(runs))
        for second in range(first + 1, len(runs))
    }
    found = {(first, second): alike for first, second, alike in nearly_the_same(ids)}
    assert found == {pair: alike for pair, alike in expected.items() if alike >= 0.8}


def kinds(*texts: tuple[str, list[str]]) -> Corpus:
    """A corpus whose kinds take turns."""
    strata = tuple(
        Corpus(
            name=kind,
            read=lambda kind=kind, lines=lines: (
                Document(name=f"{kind}{number}", text=line, kind=kind)
                for number, line in enumerate(lines)
            ),
        )
        for kind, lines in texts
    )
    return Corpus(name="mixed", read=lambda: iter(()), strata=strata, population="two kinds")


def test_kinds_take_turns_and_a_document_that_is_too_short_costs_its_kind_no_turn() -> None:
    mixed = kinds(("a", ["abcd", "ab", "dcba", "bdac"]), ("b", ["ef", "efgh"]))
    found = cut(mixed, length=4, count=4)
    assert found.names == ("a0", "b1", "a2", "a3")
    assert found.kinds == ("a", "b", "a", "a")
    assert (found.skipped, found.population) == (2, "two kinds")
    assert found.row(1)["kind"] == "b"
    with pytest.raises(InputError, match="mixed: 4 of 6 documents have 4 tokens or more"):
        cut(mixed, length=4, count=5)


def test_a_long_text_is_not_cut_into_tokens_as_a_whole() -> None:
    tokenizer, read = letters(bos=True), []
    cut_into_tokens = tokenizer._encode_plus

    def watched(text: str, **options: Any) -> Any:
        read.append(len(text))
        return cut_into_tokens(text, **options)

    tokenizer._encode_plus = watched
    found = windows([Document(name="long", text="abc" * 1_000_000)], tokenizer, length=8, count=1)
    assert found.token_ids.tolist() == [[1, 3, 4, 5, 3, 4, 5, 3]]
    assert found.text_sha256 == (hashlib.sha256(b"abc" * 1_000_000).hexdigest(),)
    assert 0 < sum(read) < 2_000


PIECES = st.one_of(
    st.text(alphabet="ab c", max_size=9),
    st.text(max_size=9),
    st.sampled_from(
        [
            " " * 300,
            "a" * 700,
            "\n" * 90,
            "=" * 400,
            "<|im_end|>",
            "é" * 50,
            "的" * 80,
            "0123456789" * 40,
            "\t \n",
            "👩‍👩‍👧",
            "don't ",
        ]
    ),
)


@pytest.mark.builtin
@given(
    st.lists(PIECES, max_size=40).map("".join),
    st.integers(LEAST_LENGTH, 12),
    st.sampled_from(["default", "none"]),
)
def test_the_start_of_a_text_gives_the_tokens_of_the_whole(
    text: str, length: int, special_tokens: str
) -> None:
    for tokenizer in (builtin_model().tokenizer, letters(bos=True), closed_letters()):
        whole = list(
            tokenizer(text, add_special_tokens=special_tokens == "default", verbose=False)[
                "input_ids"
            ]
        )
        found = tokens_of(
            tokenizer, Document(name="a", text=text), special_tokens=special_tokens, length=length
        )
        assert found[:length] == whole[:length]
        assert found == whole or len(found) > length


def closed_letters() -> PreTrainedTokenizerFast:
    """One token a letter, and token 2 behind each text."""
    tokenizer = letters()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]
    )
    return tokenizer


def test_a_token_that_closes_a_text_closes_it_at_its_end_alone() -> None:
    long = "abcdefghij" * 100
    assert cut_closed(long, length=4) == [3, 4, 5, 6]
    assert cut_closed("abc", length=4) == [3, 4, 5, 2]
    assert cut_closed(long, length=1001)[-1] == 2


def cut_closed(text: str, *, length: int) -> list[int]:
    return (
        windows([Document(name="one", text=text)], closed_letters(), length=length, count=1)
        .token_ids[0]
        .tolist()
    )


def test_special_tokens_are_the_tokenizers_or_none() -> None:
    text = named(one="abcdef")
    assert cut(text, bos=True, length=4, count=1).token_ids.tolist() == [[1, 3, 4, 5]]
    assert cut(text, bos=True, length=4, count=1, special_tokens="none").token_ids.tolist() == [
        [3, 4, 5, 6]
    ]
    assert cut(text, bos=True, length=7, count=1).token_ids.shape == (1, 7)


def test_long_texts_raise_no_notice(capfd: pytest.CaptureFixture[str]) -> None:
    tokenizer = letters()
    assert tokenizer.model_max_length == 4
    verbosity = logging.get_verbosity()
    logging.set_verbosity_warning()
    try:
        windows(named(one="abcdefgh"), tokenizer, length=6, count=1)
        assert capfd.readouterr() == ("", "")
    finally:
        logging.set_verbosity(verbosity)


@pytest.mark.parametrize(
    ("given_texts", "options", "said"),
    [
        (
            {"one": "abc", "two": "abcd"},
            {"length": 9, "count": 1},
            (
                r"^notes: the longest document has 4 tokens, but --length is 9. Use --length 4, or"
                r" longer texts.$"
            ),
        ),
        (
            {"one": "abcdefgh", "two": "abcde", "three": "ab"},
            {"length": 9, "count": 2},
            (
                r"^notes: the longest document has 8 tokens, but --length is 9. Use --length 5, or"
                r" longer texts.$"
            ),
        ),
        (
            {"one": "abcdefgh", "two": "abcde", "three": "ab"},
            {"length": 9, "count": 3},
            (
                r"^notes: the longest document has 8 tokens, but --length is 9. Use --length 5"
                r" --documents 2, or longer texts.$"
            ),
        ),
        (
            {"one": "abc", "two": "ab"},
            {"length": 9, "count": 1},
            r"^notes: the longest document has 3 tokens, but --length is 9. Use longer texts.$",
        ),
        (
            {"one": "abc", "two": "abcd"},
            {"length": 4, "count": 3},
            (
                r"^notes: 1 of 2 documents have 4 tokens or more, but --documents is 3. Use"
                r" --documents 1, or more texts.$"
            ),
        ),
        (
            {"one": "abcdef", "two": "abcd"},
            {"length": 5, "count": 2},
            (
                r"^notes: 1 of 2 documents have 5 tokens or more, but --documents is 2. Use"
                r" --documents 1, --length 4, or more texts.$"
            ),
        ),
        ({}, {"length": 4, "count": 3}, r"^notes: holds no documents. Name other texts.$"),
        (
            {"one": "abc"},
            {"length": 3, "count": 1},
            r"^--length 3: expected at least 4. Use --length 4 or more.$",
        ),
        (
            {"one": "abc"},
            {"length": 4, "count": 0},
            r"^--documents 0: expected at least 1. Use --documents 1 or more.$",
        ),
        (
            {"one": "abc"},
            {"length": 4, "count": 1, "special_tokens": "all"},
            r"^--special-tokens all: expected one of default, none. Use one of those.$",
        ),
    ],
)
def test_windows_that_cannot_be_cut_are_refused_in_one_line(
    given_texts: dict[str, str], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        cut(named(**given_texts), **options)
