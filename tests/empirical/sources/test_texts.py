"""Documents from every source, and the one-line errors."""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.families import letters
from support.raising import raising
from support.raising import refused as one_line

from empirical.sources.texts import Corpus, from_hub, from_paths
from empirical.sources.windows import Windows, windows


def cut(documents: Corpus, **options: Any) -> Windows:
    return windows(documents, letters(), **options)


def read(*paths: Path, **options: Any) -> dict[str, str]:
    return {document.name: document.text for document in from_paths(paths, **options)}


def test_files_and_folders_are_read_in_order_once_and_hidden_ones_not(tmp_path: Path):
    for name in ("b/z.md", "b/a.txt", "a.txt", ".hidden/a.txt", "b/.a.txt", "image.png", "c.TXT"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "d.jsonl").write_text('{"text": "from a record"}\n')
    names = ["a.txt", "b/a.txt", "b/z.md", "c.TXT", "d.jsonl:1"]
    expected = [f"{tmp_path}/{name}" for name in names]
    assert list(read(tmp_path)) == expected
    twice = list(read(tmp_path / "c.TXT", tmp_path, tmp_path / "a.txt"))
    assert twice == [expected[3], *expected[:3], expected[4]]
    assert read(tmp_path / "image.png") == {f"{tmp_path}/image.png": "image.png"}


def test_a_corpus_is_named_by_its_paths(tmp_path: Path):
    files = [tmp_path / f"{number}.txt" for number in range(5)]
    for file in files:
        file.write_text("text")
    assert from_paths(files[:2]).name == f"{files[0]}, {files[1]}"
    assert from_paths(files).name == f"{files[0]} and 4 more"


def test_records_are_named_by_their_line_and_blank_lines_are_not_records(tmp_path: Path):
    file = tmp_path / "notes.jsonl"
    file.write_bytes(
        b'\xef\xbb\xbf{"text": "one", "body": "uno"}\r\n\n{"text": "tw\xc3\xb6", "body": "due"}'
    )
    assert read(file) == {f"{file}:1": "one", f"{file}:3": "twö"}
    assert read(file, field="body") == {f"{file}:1": "uno", f"{file}:3": "due"}


def test_a_byte_order_mark_is_no_text(tmp_path: Path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfabc")
    assert list(read(tmp_path).values()) == ["abc"]


def refused(said: str, *paths: Path, **options: Any) -> None:
    with one_line(said):
        read(*paths, **options)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"abc\xe9", "a.txt: byte 3 is not UTF-8. Convert the file to UTF-8"),
        ("a.txt", b"abc\0\x01", "a.txt: byte 3 is NUL, expected text in UTF-8. Convert the file"),
        ("a.txt", b" \n", "a.txt: holds no text"),
        ("a.jsonl", b'{"text": "abc"}\n{"text": "\xe9"}\n', "a.jsonl: byte 26 is not UTF-8"),
        ("a.jsonl", b'{"text": "abc"}\n\0\n', "a.jsonl: byte 16 is NUL"),
        ("a.jsonl", b"\n\n", "a.jsonl: holds no records"),
        (
            "a.jsonl",
            b'{"text": "a"}\n{"text": \n',
            "a.jsonl:2: is not JSON .* Write one object per",
        ),
        ("a.jsonl", b'{"text": ' + b"[" * 100_000, "a.jsonl:1: is not JSON .nested too deep.. W"),
        ("a.jsonl", b"[1]\n", "a.jsonl:1: is a JSON list, expected an object with a field 'text'"),
        ("a.jsonl", b'{"body": "a", "title": "b"}', "1: has no field 'text', only body, title. Us"),
        ("a.jsonl", b'{"text": 3}\n', "a.jsonl:1: field 'text' is of type int, expected text"),
        ("a.jsonl", b'{"text": "a\\ud800b"}', r"field 'text': character 1 is half of one \(\\ud8"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_text_that_cannot_be_read_is_refused(tmp_path: Path, name: str, content: bytes, said: str):
    (tmp_path / name).write_bytes(content)
    refused(said, tmp_path / name)


def test_paths_that_hold_no_text_are_refused(tmp_path: Path):
    refused(r"holds no text files \(\.adoc, .*\.jsonl\)", tmp_path)
    refused("absent.txt: no such file or folder. Check --text", tmp_path / "absent.txt")
    refused("No text was named")
    refused("a name of 300 characters is too long for the disk. Check the path", Path("a" * 300))
    refused("holds a NUL character, expected a path", Path("a\0b"))
    refused("~nobody-of-that-name/x: no such file or folder", Path("~nobody-of-that-name/x"))


def test_pipes_and_devices_are_refused_and_in_a_folder_passed_over(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "a.txt").write_text("abcd")
    (tmp_path / "zero.txt").symlink_to("/dev/zero")
    for name in ("pipe.txt", "zero.txt"):
        refused(f"{name}: is a pipe, a device or a socket, expected a fi", tmp_path / name)
    assert read(tmp_path) == {f"{tmp_path}/a.txt": "abcd"}


def test_a_file_name_that_is_not_utf8_is_shown_and_told_from_others(tmp_path: Path):
    odd, plain = os.fsencode(tmp_path) + b"/\xff\\.txt", tmp_path / "\\xff\\.txt"
    Path(os.fsdecode(odd)).write_text("abcdef")
    plain.write_text("ghijkl")
    found = cut(from_paths([Path(os.fsdecode(odd)), plain]), length=4, count=2)
    assert found.names == (f"{tmp_path}/\\xff\\\\.txt", str(plain))
    assert found.corpus == ", ".join(found.names)
    json.dumps([found.row(0), found.corpus], ensure_ascii=False).encode()


def test_a_file_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("a.txt", "a.jsonl"):
        (tmp_path / name).write_text("{}")
    monkeypatch.setattr(os, "open", raising(PermissionError(13, os.strerror(13))))
    for name in ("a.txt", "a.jsonl"):
        refused(rf"{name}: cannot be read \(Permission denied\)", tmp_path / name)


def test_an_empty_file_in_a_folder_counts_as_too_short(tmp_path: Path):
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "b.txt").write_text("abcd")
    found = cut(from_paths([tmp_path]), length=4, count=1)
    assert found.names == (f"{tmp_path}/b.txt",)
    assert found.skipped == 1


DAY = datetime.date(2020, 1, 1)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A stand-in for the hub and the library datasets; what was request of them is kept."""
    state: dict[str, Any] = {
        "records": [{"text": "abcdef", "when": DAY}, {"text": "gh"}, {"text": "ijklmn"}],
        "error": None,
    }

    def load_dataset(name: str, configuration: str | None, **options: Any) -> Any:
        state["request"] = (name, configuration, options)
        if state["error"]:
            raise state["error"]
        return state["records"]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.setattr(
        "huggingface_hub.HfApi.dataset_info",
        lambda self, name, timeout: SimpleNamespace(sha="c0ffee"),
    )
    return state


def test_a_hub_data_set_is_streamed_at_a_commit(hub: dict[str, Any]):
    found = cut(from_hub("someone/notes", split="test"), length=4, count=2)
    options = {"split": "test", "streaming": True, "revision": "c0ffee"}
    assert hub["request"] == ("someone/notes", None, options)
    assert found.names == ("someone/notes:0", "someone/notes:2")
    assert found.corpus == "someone/notes@c0ffee test"
    from_hub("someone/notes:large")
    assert hub["request"][:2] == ("someone/notes", "large")


def test_hub_data_that_cannot_be_read_is_refused(hub: dict[str, Any]):
    with one_line("^someone/notes:0: has no field 'body', only text, when. Use --field.$"):
        list(from_hub("someone/notes", field="body"))

    def breaking() -> Iterator[dict[str, str]]:
        yield {"text": "abc"}
        raise ConnectionError("reset\nby peer")

    hub["records"] = breaking()
    with one_line(r"^someone/notes: record 1 cannot be read \(reset by peer\), expected a record"):
        list(from_hub("someone/notes"))
    hub["error"] = ValueError("Unknown split\n'test'.")
    with one_line(r"^someone/notes: cannot be opened \(Unknown split 'test'\), expected"):
        from_hub("someone/notes")


def test_the_absent_library_is_named_with_the_command_that_gets_it(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with one_line("--dataset needs the library datasets, .* Get it with: pip install datasets"):
        from_hub("someone/notes")
