"""Windows and tokens of documents, padding, and the one-line errors."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import struct
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.families import builtin_model, letters
from support.raising import RAISED, raising, refused
from tokenizers import AddedToken, processors
from transformers import PreTrainedConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.utils import logging

from empirical.errors import InputError
from empirical.sources.builtin import topics
from empirical.sources.texts import Corpus, Document
from empirical.sources.windows import (
    LEAST_LENGTH,
    Windows,
    nearly_the_same,
    texts_of_tokens,
    tokens_of,
    windows,
)

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


def named(**texts: str) -> Corpus:
    """A corpus of the given texts."""
    return Corpus(
        name="notes", read=lambda: (Document(name=name, text=text) for name, text in texts.items())
    )


def cut(documents: Corpus | list[Document], *, bos: bool = False, **options: Any) -> Windows:
    return windows(documents, letters(bos=bos), **options)


@pytest.mark.builtin
def test_the_built_in_text_gives_the_six_topics():
    found = windows(topics(), builtin_model().tokenizer, length=1025, count=6)
    if found.corpus != "pydoc_data.topics of Python 3.11.7":
        pytest.skip("another Python has another text")
    assert dict(zip(found.names, found.text_sha256, strict=True)) == TOPICS
    assert found.names == tuple(TOPICS)
    assert found.token_ids.shape == (6, 1025)
    assert found.token_ids.dtype == np.int32
    assert found.skipped == 16
    # 26 topics exceed 1,025 tokens.
    with refused("26 of 78 documents have 1025 tokens or more, but --documents is 27. Use --doc"):
        windows(topics(), builtin_model().tokenizer, length=1025, count=27)


def test_a_window_is_the_first_tokens_of_a_document_and_short_ones_are_counted():
    found = cut(named(one="abcdef", two="ab", three="fedcbé", four="zzzz"), length=4, count=2)
    assert found.token_ids.tolist() == [[3, 4, 5, 6], [8, 7, 6, 5]]
    assert found.token_ids.dtype == np.int32
    assert found.names == ("one", "three")
    assert (found.skipped, found.corpus, found.special_tokens) == (1, "notes", "default")
    assert found.sha256[0] == hashlib.sha256(struct.pack("<4i", 3, 4, 5, 6)).hexdigest()
    text_sha256 = hashlib.sha256("fedcbé".encode()).hexdigest()  # of the whole text
    row = {"name": "three", "sha256": found.sha256[1], "text_sha256": text_sha256}
    assert json.loads(json.dumps(found.row(1))) == row


def test_reading_stops_when_enough_documents_are_found():
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
):
    # none begins like another
    lines = [line and chr(ord("d") + number) + line for number, line in enumerate(lines)]
    rows = [[1] * bos + [3 + ord(letter) - ord("a") for letter in line] for line in lines]
    long = [(str(number), row[:length]) for number, row in enumerate(rows) if len(row) >= length]
    documents = [Document(name=str(number), text=line) for number, line in enumerate(lines)]
    if len(long) >= count:
        found = cut(documents, bos=bos, length=length, count=count)
        assert list(zip(found.names, found.token_ids.tolist(), strict=True)) == long[:count]
        return
    with pytest.raises(InputError) as caught:
        cut(documents, bos=bos, length=length, count=count)
    said = str(caught.value).partition(" Use ")[2].replace("--documents", "--count")
    remedies = [(name, int(value)) for name, value in re.findall(r"--(length|count) (\d+)", said)]
    together = re.search(r"--length \d+ --count", said)
    for remedy in [remedies] if together else [[option] for option in remedies]:
        cut(documents, bos=bos, **({"length": length, "count": count} | dict(remedy)))
    if any(len(row) >= LEAST_LENGTH for row in rows):
        assert remedies
    assert said.endswith(" texts.")


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (
            {"one": "abcdef", "two": "ghijkl", "three": "abcdef"},
            "one and three: hold the same text, expected different documents. Leave one out, or"
            " use --documents 2.",
        ),
        (
            {"one": "abcdef", "two": "abcdeg"},
            "one and two: begin with the same 4 tokens, expected different documents. Leave one"
            " out, use a longer --length, or use --documents 1.",
        ),
    ],
)
def test_two_documents_that_are_one_are_refused_by_name(texts: dict[str, str], said: str):
    with refused(f"^{said}$"):
        cut(named(**texts), length=4, count=len(texts))


def test_only_documents_that_count_must_differ():
    texts = named(one="abc", two="abc", three="abcdef", four="defghi", five="abcdef")
    found = cut(texts, length=4, count=2)
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
def test_nearly_the_same_documents_are_refused_by_name(other: str, share: str):
    with refused(f"^two and three: share {share} of their runs of 5 tokens in a window, expected"):
        cut(named(one=prose(2), two=prose(0), three=other), length=400, count=3)


@pytest.mark.parametrize("other", [changed(prose(0), 40), prose(0)[50:] + prose(1, 50)])
def test_documents_that_differ_more_are_let_through(other: str):
    assert len(cut(named(one=prose(0), two=other), length=400, count=2).names) == 2


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=9, max_size=9), min_size=2, max_size=8),
    st.integers(0, 3),
)
def test_the_pairs_found_are_those_that_all_comparisons_find(rows: list[list[int]], repeats: int):
    ids = np.array([*rows, rows[0][repeats:] + rows[0][:repeats]], dtype=np.int32)
    runs = [{tuple(row[index : index + 5]) for index in range(5)} for row in ids.tolist()]
    expected = {
        (first, second): len(runs[first] & runs[second]) / len(runs[first] | runs[second])
        for first in range(len(runs))
        for second in range(first + 1, len(runs))
    }
    found = {(first, second): alike for first, second, alike in nearly_the_same(ids)}
    assert found == {pair: alike for pair, alike in expected.items() if alike >= 0.8}


def test_kinds_take_turns_and_a_document_that_is_too_short_costs_its_kind_no_turn():
    def stratum(kind: str, *texts: str) -> Corpus:
        documents = [Document(name=kind + text, text=text, kind=kind) for text in texts]
        return Corpus(name=kind, read=lambda: iter(documents))

    strata = stratum("1", "abcd", "ab", "dcba", "bdac"), stratum("2", "ef", "efgh")
    mixed = Corpus(name="mixed", read=lambda: iter(()), strata=strata, population="two kinds")
    found = cut(mixed, length=4, count=4)
    assert found.names == ("1abcd", "2efgh", "1dcba", "1bdac")
    assert found.kinds == ("1", "2", "1", "1")
    assert (found.skipped, found.population) == (2, "two kinds")
    assert found.row(1)["kind"] == "2"
    with refused("mixed: 4 of 6 documents have 4 tokens or more"):
        cut(mixed, length=4, count=5)


def test_a_long_text_is_not_cut_into_tokens_as_a_whole():
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
    st.sampled_from([" " * 300, "a" * 700, "\n" * 90, "=" * 400, "0123456789" * 40]),
    st.sampled_from(["<|im_end|>", "é" * 50, "的" * 80, "\t \n", "👩‍👩‍👧", "don't "]),
)


@pytest.mark.builtin
@given(
    st.lists(PIECES, max_size=40).map("".join),
    st.integers(LEAST_LENGTH, 12),
    st.sampled_from(["default", "none"]),
)
def test_the_start_of_a_text_gives_the_tokens_of_the_whole(
    text: str, length: int, special_tokens: str
):
    special = special_tokens == "default"
    for tokenizer in (builtin_model().tokenizer, letters(bos=True), letters(single="$A </s>")):
        whole = tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"]
        found = ids_of(tokenizer, text, special_tokens=special_tokens, length=length)
        assert found[:length] == whole[:length]
        assert found == whole or len(found) > length


def test_a_token_that_closes_a_text_closes_it_at_its_end_alone():
    def closed(text: str, length: int) -> list[int]:
        tokenizer = letters(single="$A </s>")
        found = windows(named(one=text), tokenizer, length=length, count=1)
        return found.token_ids[0].tolist()

    long = "abcdefghij" * 100
    assert closed(long, 4) == [3, 4, 5, 6]
    assert closed("abc", 4) == [3, 4, 5, 2]
    assert closed(long, 1001)[-1] == 2


def test_long_texts_raise_no_notice(capfd: pytest.CaptureFixture[str]):
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
    ("texts", "length", "count", "said"),
    [
        ("abc abcd", 9, 1, "has 4 tokens, but --length is 9. Use --length 4, or longer texts."),
        ("abc ab", 9, 1, "has 3 tokens, but --length is 9. Use longer texts."),
        ("abcdefgh abcde ab", 9, 2, "has 8 tokens, but --length is 9. Use --length 5, or lo.*"),
        ("abcdefgh abcde ab", 9, 3, "is 9. Use --length 5 --documents 2, or longer texts."),
        ("abc abcd", 4, 3, "1 of 2 .* --documents is 3. Use --documents 1, or more texts."),
        ("abcdef abcd", 5, 2, "is 2. Use --documents 1, --length 4, or more texts."),
        ("", 4, 3, "^notes: holds no documents. Name other texts."),
        ("abc", 3, 1, "^--length 3: expected at least 4. Use --length 4 or more."),
        ("abc", 4, 0, "^--documents 0: expected at least 1. Use --documents 1 or more."),
    ],
)
def test_windows_that_cannot_be_cut_are_refused(texts: str, length: int, count: int, said: str):
    with refused(f"{said}$"):
        cut(named(**{text: text for text in texts.split()}), length=length, count=count)


def test_unknown_special_tokens_are_refused():
    with refused("^--special-tokens all: expected one of default, none. Use one of those.$"):
        cut(named(one="abcd"), length=4, count=1, special_tokens="all")


def ids_of(tokenizer: Any, text: str, *, special_tokens: str = "default", length: int = 4) -> Any:
    document = Document(name="a.txt", text=text)
    return list(tokens_of(tokenizer, document, special_tokens=special_tokens, length=length))


CANNOT_CUT = "^a.txt: the tokenizer cannot cut it into tokens"


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_a_tokenizer_raises_is_one_line(error: BaseException):
    with refused(f"{CANNOT_CUT} .*files again"):
        ids_of(raising(error), "a text")
    tokenizer = letters()
    tokenizer.decode = raising(error)
    with refused("^token 3: the tokenizer cannot decode it"):
        texts_of_tokens(tokenizer, [3])


def test_a_tokenizer_panic_is_one_line(capfd: pytest.CaptureFixture[str]):
    """The library in Rust tells its own lines besides."""
    whole = letters(bos=True).backend_tokenizer
    text = re.sub(r'"special_tokens":\{"<s>".*?\}\}', '"special_tokens":{}', whole.to_str())
    broken = PreTrainedTokenizerFast(tokenizer_object=type(whole).from_str(text))
    with refused(rf"{CANNOT_CUT} \(no"):
        ids_of(broken, "a text")
    capfd.readouterr()


@pytest.mark.parametrize(
    "returned", [[2**31], [-1], [2**70], [1.5], ["a"], [[1], [2, 3]], [[1]], None, 3, "ids", [None]]
)
def test_invalid_token_ids_are_refused(returned: object):
    for output in ({"input_ids": returned}, returned):
        with refused(CANNOT_CUT):
            ids_of(lambda text, output=output, **options: output, "a text")


def with_start(*tokens: str) -> PreTrainedTokenizerBase:
    """A tokenizer that puts some tokens before a text, and one behind it."""
    tokenizer = letters()
    tokenizer.add_tokens([AddedToken(name, special=True) for name in ("[g]", "[h]", "[e]")])
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{' '.join(tokens)} $A [e]",
        special_tokens=[(name, tokenizer.convert_tokens_to_ids(name)) for name in (*tokens, "[e]")],
    )
    return tokenizer


@pytest.mark.parametrize("tokens", [["<s>"], ["[g]", "[h]"], ["[g]", "[h]", "<s>"]])
@pytest.mark.parametrize("length", [4, 1000])
def test_special_tokens_at_the_start_appear_once(tokens: list[str], length: int):
    tokenizer, start = with_start(*tokens), "".join(tokens)
    put = tokenizer.convert_tokens_to_ids(tokens)
    for text in (start + "abc" * 200, "abc" * 200):
        assert ids_of(tokenizer, text, length=length)[: len(put) + 3] == [*put, 3, 4, 5]
    plain = ids_of(tokenizer, start + "abc", special_tokens="none", length=length)
    assert plain == [*put, 3, 4, 5]


@pytest.mark.parametrize("text", ["aabc", "abab", "<s><s>abc", "abcabcabc"])
def test_repeats_within_a_text_stay(text: str):
    ids = letters()(text)["input_ids"]
    assert ids_of(letters(), text) == ids
    assert ids_of(letters(bos=True), text)[1:] == ids or text.startswith("<s>")


def of_ids(*ids: int) -> Document:
    return Document(name="row", text="", token_ids=ids)


@pytest.mark.parametrize(
    ("pad", "ids", "end"),
    [
        ("?", (0, 0, 5, 6), "2 pad tokens .id 0. at its start"),
        ("?", (5, 6, 0), "a pad token .id 0. at its end"),
        ("?", (0, 0, 0), "3 pad tokens .id 0. at its start"),
        ("</s>", (5, 2, 2), "2 pad tokens .id 2. at its end"),
        ("<s>", (1, 1, 1, 5), "3 pad tokens .id 1. at its start"),
        ("</s>", (5, 6, 2), None),
        ("?", (5, 6, 7, 0), None),  # beyond the window
        ("<s>", (1, 5, 6), None),
        ("?", (5, 0, 0, 6), None),
        (None, (0, 0, 5, 6), None),
    ],
)
def test_padding_is_refused(pad: str | None, ids: tuple[int, ...], end: str | None):
    tokenizer = letters()
    tokenizer.pad_token = pad
    names = ("pad_token_id", "bos_token_id", "eos_token_id")
    config = PreTrainedConfig(**{name: getattr(tokenizer, name) for name in names})
    for source in ((tokenizer, None), (None, config)):
        cut_ids = partial(
            tokens_of, source[0], special_tokens="default", length=3, config=source[1]
        )
        if end is None:
            assert cut_ids(of_ids(*ids)) == ids
        else:
            with refused(f"^row: {end}, expected the tokens of the text only"):
                cut_ids(of_ids(*ids))
        assert cut_ids(dataclasses.replace(of_ids(*ids), masked=True)) == ids
    assert tokens_of(None, of_ids(*ids), special_tokens="default", length=3) == ids


def test_a_pad_token_that_is_an_eos_token_may_end_a_text():
    config = PreTrainedConfig(pad_token_id=2, eos_token_id=[7, 2])
    cut_ids = partial(tokens_of, None, special_tokens="default", length=9, config=config)
    assert cut_ids(of_ids(5, 6, 2)) == (5, 6, 2)
    with refused("^row: 2 pad tokens"):
        cut_ids(of_ids(5, 2, 2))


def test_padding_added_by_a_tokenizer_is_removed():
    tokenizer = letters(bos=True)
    tokenizer.pad_token = "?"
    plain = ids_of(tokenizer, "abc", length=9)

    class Padding:
        def __call__(self, text: str, **options: Any) -> Any:
            return tokenizer(text, padding="max_length", max_length=16, **options)

    assert ids_of(Padding(), "abc", length=9) == plain


def test_half_characters_appear_as_their_code():
    class Odd:
        def decode(self, ids: list[int], **options: Any) -> str:
            return {3: "a", 4: "\ud800"}[ids[0]]

    tokenizer: Any = Odd()
    assert texts_of_tokens(tokenizer, [3, 4]) == {3: "a", 4: "\\ud800"}
