"""Documents from every source, the windows cut from them, and the one-line errors."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from families import builtin_model, letters
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils import logging

from empirical.corpus import LEAST_LENGTH, Corpus, Document, Windows, builtin, from_hub, from_paths, windows
from empirical.errors import InputError

# The first topics of Python's language reference with 1,025 SmolLM2 tokens or more, and the sha256 of their text in Python 3.11.7.
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
    return Corpus(name="notes", read=lambda: (Document(name=name, text=text) for name, text in given.items()))


def cut(documents: Corpus | list[Document], *, bos: bool = False, **options: Any) -> Windows:
    return windows(documents, letters(bos=bos), **options)


def read(*paths: Path, **options: Any) -> dict[str, str]:
    return {document.name: document.text for document in from_paths(paths, **options)}


@pytest.mark.builtin
def test_the_built_in_text_gives_the_six_topics() -> None:
    found = windows(builtin(), builtin_model().tokenizer, length=1025, count=6)
    if found.corpus != "pydoc_data.topics of Python 3.11.7":
        pytest.skip("another Python has another text")
    assert dict(zip(found.names, found.text_sha256, strict=True)) == TOPICS
    assert found.names == tuple(TOPICS)
    assert found.token_ids.shape == (6, 1025)
    assert found.token_ids.dtype == np.int32
    assert found.skipped == 16
    # 26 topics exceed 1,025 tokens.
    with pytest.raises(
        InputError, match=r"26 of 79 documents have 1025 tokens or more, but --documents is 27. Use --documents 26, --length \d+, or"
    ):
        windows(builtin(), builtin_model().tokenizer, length=1025, count=27)


def test_the_built_in_text_is_sorted_and_can_be_read_again() -> None:
    names = [document.name for document in builtin()]
    assert names == sorted(names) == [document.name for document in builtin()]
    assert len(names) > 50


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
    assert one.provenance() == two.provenance() == {"name": "notes"}
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
    rows = [([1] if bos else []) + [3 + ord(letter) - ord("a") for letter in line] for line in lines]
    long = [(str(number), row[:length]) for number, row in enumerate(rows) if len(row) >= length]
    documents = [Document(name=str(number), text=line) for number, line in enumerate(lines)]
    if len(long) >= count:
        found = cut(documents, bos=bos, length=length, count=count)
        assert list(zip(found.names, found.token_ids.tolist(), strict=True)) == long[:count]
        return
    with pytest.raises(InputError) as caught:
        cut(documents, bos=bos, length=length, count=count)
    said = str(caught.value).partition(" Use ")[2]
    asked = [(option, int(value)) for option, value in re.findall(r"--(length|documents) (\d+)", said)]
    names = {"length": "length", "documents": "count"}
    together = f"--length {dict(asked).get('length')} --documents" in said
    for remedy in [dict(asked)] if together else [dict([one]) for one in asked]:
        cut(documents, bos=bos, **{"length": length, "count": count} | {names[option]: value for option, value in remedy.items()})
    if any(len(row) >= LEAST_LENGTH for row in rows):
        assert asked
    assert said.endswith(" texts.")


def test_special_tokens_are_the_tokenizers_or_none() -> None:
    text = named(one="abcdef")
    assert cut(text, bos=True, length=4, count=1).token_ids.tolist() == [[1, 3, 4, 5]]
    assert cut(text, bos=True, length=4, count=1, special_tokens="none").token_ids.tolist() == [[3, 4, 5, 6]]
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
        ({"one": "abc", "two": "abcd"}, {"length": 9, "count": 1},
         r"^notes: the longest document has 4 tokens, but --length is 9. Use --length 4, or longer texts.$"),
        ({"one": "abcdefgh", "two": "abcde", "three": "ab"}, {"length": 9, "count": 2},
         r"^notes: the longest document has 8 tokens, but --length is 9. Use --length 5, or longer texts.$"),
        ({"one": "abcdefgh", "two": "abcde", "three": "ab"}, {"length": 9, "count": 3},
         r"^notes: the longest document has 8 tokens, but --length is 9. Use --length 5 --documents 2, or longer texts.$"),
        ({"one": "abc", "two": "ab"}, {"length": 9, "count": 1},
         r"^notes: the longest document has 3 tokens, but --length is 9. Use longer texts.$"),
        ({"one": "abc", "two": "abcd"}, {"length": 4, "count": 3},
         r"^notes: 1 of 2 documents have 4 tokens or more, but --documents is 3. Use --documents 1, or more texts.$"),
        ({"one": "abcdef", "two": "abcd"}, {"length": 5, "count": 2},
         r"^notes: 1 of 2 documents have 5 tokens or more, but --documents is 2. Use --documents 1, --length 4, or more texts.$"),
        ({}, {"length": 4, "count": 3}, r"^notes: holds no documents. Name other texts.$"),
        ({"one": "abc"}, {"length": 3, "count": 1}, r"^--length 3: expected at least 4. Use --length 4 or more.$"),
        ({"one": "abc"}, {"length": 4, "count": 0}, r"^--documents 0: expected at least 1. Use --documents 1 or more.$"),
        ({"one": "abc"}, {"length": 4, "count": 1, "special_tokens": "all"},
         r"^--special-tokens all: expected one of default, none. Use one of those.$"),
    ],
)  # fmt: skip
def test_windows_that_cannot_be_cut_are_refused_in_one_line(given_texts: dict[str, str], options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        cut(named(**given_texts), **options)


def test_files_and_folders_are_read_in_order_once_and_hidden_ones_not(tmp_path: Path) -> None:
    for name in ("b/z.md", "b/a.txt", "a.txt", ".hidden/a.txt", "b/.a.txt", "image.png", "c.TXT"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "d.jsonl").write_text('{"text": "from a record"}\n')
    expected = [f"{tmp_path}/{name}" for name in ("a.txt", "b/a.txt", "b/z.md", "c.TXT", "d.jsonl:1")]
    assert list(read(tmp_path)) == expected
    twice = [document.name for document in from_paths([tmp_path / "c.TXT", tmp_path, tmp_path / "a.txt"])]
    assert twice == [expected[3], *expected[:3], expected[4]]
    assert read(tmp_path / "image.png") == {f"{tmp_path}/image.png": "image.png"}


def test_a_corpus_is_named_by_its_paths(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.txt" for number in range(5)]
    for file in files:
        file.write_text("text")
    assert from_paths(files[:2]).name == f"{files[0]}, {files[1]}"
    assert from_paths(files).name == f"{files[0]} and 4 more"


def test_records_are_named_by_their_line_and_blank_lines_are_not_records(tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"text": "one", "body": "uno"}\r\n\n{"text": "tw\xc3\xb6", "body": "due"}')
    assert read(file) == {f"{file}:1": "one", f"{file}:3": "twö"}
    assert read(file, field="body") == {f"{file}:1": "uno", f"{file}:3": "due"}


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfabc")
    assert list(read(tmp_path).values()) == ["abc"]


def refused(said: str, *paths: Path, **options: Any) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read(*paths, **options)
    assert "\n" not in str(caught.value)


def test_text_that_cannot_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    files = {
        "latin.txt": b"abc\xe9",
        "latin.jsonl": b'{"text": "abc"}\n{"text": "\xe9"}\n',
        "empty.txt": b" \n",
        "empty.jsonl": b"\n\n",
        "broken.jsonl": b'{"text": "abc"}\n{"text": \n',
        "list.jsonl": b"[1]\n",
        "fields.jsonl": b'{"body": "abc", "title": "a"}\n',
        "number.jsonl": b'{"text": 3}\n',
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    refused("latin.txt: byte 3 is not UTF-8. Convert the file to UTF-8", tmp_path / "latin.txt")
    refused("latin.jsonl: byte 26 is not UTF-8", tmp_path / "latin.jsonl")
    refused("empty.txt: holds no text", tmp_path / "empty.txt")
    refused("empty.jsonl: holds no records", tmp_path / "empty.jsonl")
    refused("broken.jsonl:2: is not JSON .* Write one object a line", tmp_path / "broken.jsonl")
    refused("list.jsonl:1: is a JSON list, expected an object with a field 'text'", tmp_path / "list.jsonl")
    refused("fields.jsonl:1: has no field 'text', only body, title. Use --field", tmp_path / "fields.jsonl")
    refused("number.jsonl:1: field 'text' is of type int, expected text", tmp_path / "number.jsonl")
    refused(r"folder: holds no text files \(\.adoc, .*\.jsonl\)", tmp_path / "folder")
    refused("absent.txt: no such file or folder. Check --text", tmp_path / "absent.txt")
    refused("No text was named")


def test_a_file_without_permission_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*args: Any) -> Any:
        raise PermissionError(13, os.strerror(13))

    for name in ("a.txt", "a.jsonl"):
        (tmp_path / name).write_text("{}")
    monkeypatch.setattr(Path, "read_bytes", denied)
    monkeypatch.setattr(Path, "open", denied)
    refused(r"a.txt: cannot be read \(Permission denied\)", tmp_path / "a.txt")
    refused(r"a.jsonl: cannot be read \(Permission denied\)", tmp_path / "a.jsonl")


def test_an_empty_file_in_a_folder_counts_as_too_short(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "b.txt").write_text("abcd")
    found = cut(from_paths([tmp_path]), length=4, count=1)
    assert found.names == (f"{tmp_path}/b.txt",)
    assert found.skipped == 1


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A stand-in for the hub and the library datasets; what was asked of them is kept."""
    state: dict[str, Any] = {
        "records": [{"text": "abcdef", "when": datetime.date(2020, 1, 1)}, {"text": "gh"}, {"text": "ijklmn"}],
        "error": None,
    }

    def load_dataset(name: str, configuration: str | None, **options: Any) -> Any:
        state["asked"] = (name, configuration, options)
        if state["error"]:
            raise state["error"]
        return state["records"]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda self, name, timeout: SimpleNamespace(sha="c0ffee"))
    return state


def test_a_hub_data_set_is_streamed_at_a_commit(hub: dict[str, Any]) -> None:
    found = cut(from_hub("someone/notes", split="test"), length=4, count=2)
    assert hub["asked"] == ("someone/notes", None, {"split": "test", "streaming": True, "revision": "c0ffee"})
    assert found.names == ("someone/notes:0", "someone/notes:2")
    assert found.corpus == "someone/notes@c0ffee test"
    from_hub("someone/notes:large")
    assert hub["asked"][:2] == ("someone/notes", "large")


def test_hub_data_that_cannot_be_read_is_refused_in_one_line(hub: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^someone/notes:0: has no field 'body', only text, when. Use --field.$"):
        list(from_hub("someone/notes", field="body"))

    def breaking() -> Iterator[dict[str, str]]:
        yield {"text": "abc"}
        raise ConnectionError("reset\nby peer")

    hub["records"] = breaking()
    with pytest.raises(InputError, match=r"^someone/notes: record 1 cannot be read: ConnectionError: reset. Check the connection.$"):
        list(from_hub("someone/notes"))
    hub["error"] = ValueError("Unknown split\n'test'.")
    with pytest.raises(InputError, match=r"^someone/notes: cannot be opened: ValueError: Unknown split. Check --dataset"):
        from_hub("someone/notes")


def test_the_absent_library_is_named_with_the_command_that_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        InputError, match=r"--dataset needs the library datasets, which is not installed. Get it with: pip install datasets"
    ):
        from_hub("someone/notes")
