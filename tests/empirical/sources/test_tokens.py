"""Tokens: what a tokenizer raises or returns, the tokens that it puts before a text, padding, and
what tokens stand for.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import pytest
from support.families import letters
from support.raising import RAISED, raising
from tokenizers import AddedToken, processors
from transformers import PreTrainedConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from empirical.errors import InputError
from empirical.sources.texts import Document
from empirical.sources.tokens import texts_of_tokens, tokens_of


def cut(tokenizer: Any, text: str, *, special_tokens: str = "default", length: int = 4) -> Any:
    document = Document(name="a.txt", text=text)
    return list(tokens_of(tokenizer, document, special_tokens=special_tokens, length=length))


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_a_tokenizer_raises_is_one_line(error: BaseException):
    with pytest.raises(InputError, match=r"^a.txt: the tokenizer cannot cut it .*files again"):
        cut(raising(error), "a text")
    tokenizer = letters()
    tokenizer.decode = raising(error)
    with pytest.raises(InputError, match=r"^token 3: the tokenizer cannot tell what it stands"):
        texts_of_tokens(tokenizer, [3])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(2)])
def test_what_stops_the_process_is_no_fault_of_a_tokenizer(error: BaseException):
    with pytest.raises(type(error)):
        cut(raising(error), "a text")


def test_a_panic_of_a_tokenizer_is_one_line(capfd: pytest.CaptureFixture[str]):
    """The library in Rust tells its own lines besides."""
    tokenizer = letters()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    text = tokenizer.backend_tokenizer.to_str().replace(
        '"special_tokens":{"<s>":{"id":"<s>","ids":[1],"tokens":["<s>"]}}', '"special_tokens":{}'
    )
    broken = PreTrainedTokenizerFast(
        tokenizer_object=type(tokenizer.backend_tokenizer).from_str(text)
    )
    with pytest.raises(InputError, match=r"^a.txt: the tokenizer cannot cut it into tokens \(no"):
        cut(broken, "a text")
    capfd.readouterr()


@pytest.mark.parametrize(
    "returned",
    [[2**31], [-1], [2**70], [1.5], ["a"], [[1], [2, 3]], [[1]], None, 3, "ids", [None]],
)
def test_what_is_no_token_ids_is_refused(returned: object):
    with pytest.raises(InputError, match=r"^a.txt: the tokenizer cannot cut it into tokens"):
        cut(lambda text, **asked: {"input_ids": returned}, "a text")
    with pytest.raises(InputError, match=r"^a.txt: the tokenizer cannot cut it into tokens"):
        cut(lambda text, **asked: returned, "a text")


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
def test_what_a_tokenizer_puts_before_a_text_is_put_once(tokens: list[str], length: int):
    tokenizer, start = with_start(*tokens), "".join(tokens)
    put = tokenizer.convert_tokens_to_ids(tokens)
    for text in (start + "abc" * 200, "abc" * 200):
        assert cut(tokenizer, text, length=length)[: len(put) + 3] == [*put, 3, 4, 5]
    plain = cut(tokenizer, start + "abc", special_tokens="none", length=length)
    assert plain == [*put, 3, 4, 5]


@pytest.mark.parametrize("text", ["aabc", "abab", "<s><s>abc", "abcabcabc"])
def test_what_a_text_holds_twice_itself_stays(text: str):
    ids = letters()(text)["input_ids"]
    assert cut(letters(), text) == ids
    assert cut(letters(bos=True), text)[1:] == ids or text.startswith("<s>")


def given(*ids: int) -> Document:
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
def test_padding_is_no_text(pad: str | None, ids: tuple[int, ...], end: str | None):
    tokenizer = letters()
    tokenizer.pad_token = pad
    names = ("pad_token_id", "bos_token_id", "eos_token_id")
    config = PreTrainedConfig(**{name: getattr(tokenizer, name) for name in names})
    for told in ((tokenizer, None), (None, config)):
        cut_ids = partial(tokens_of, told[0], special_tokens="default", length=3, config=told[1])
        if end is None:
            assert cut_ids(given(*ids)) == ids
        else:
            with pytest.raises(InputError, match=f"^row: {end}, expected those of the text alone"):
                cut_ids(given(*ids))
        assert cut_ids(dataclasses.replace(given(*ids), masked=True)) == ids
    assert tokens_of(None, given(*ids), special_tokens="default", length=3) == ids


def test_a_pad_that_is_one_of_several_ends_may_end_a_text():
    config = PreTrainedConfig(pad_token_id=2, eos_token_id=[7, 2])
    cut_ids = partial(tokens_of, None, special_tokens="default", length=9, config=config)
    assert cut_ids(given(5, 6, 2)) == (5, 6, 2)
    with pytest.raises(InputError, match=r"^row: 2 pad tokens"):
        cut_ids(given(5, 2, 2))


def test_what_a_tokenizer_pads_by_itself_is_no_text():
    tokenizer = letters(bos=True)
    tokenizer.pad_token = "?"
    plain = cut(tokenizer, "abc", length=9)

    class Padding:
        def __call__(self, text: str, **asked: Any) -> Any:
            return tokenizer(text, padding="max_length", max_length=16, **asked)

    assert cut(Padding(), "abc", length=9) == plain


def test_half_characters_are_told_by_their_code():
    class Odd:
        def decode(self, ids: list[int], **asked: Any) -> str:
            return {3: "a", 4: "\ud800"}[ids[0]]

    tokenizer: Any = Odd()
    assert texts_of_tokens(tokenizer, [3, 4]) == {3: "a", 4: "\\ud800"}
