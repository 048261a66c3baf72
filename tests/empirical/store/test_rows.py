"""Rows of documents: what is appended is read back; a line changed, cut or moved is found."""

from pathlib import Path
from typing import Any

import pytest
from support.damage import flipped

from empirical.errors import StoreError
from empirical.store.journal import FILE, append_rows, no_rows, read_rows

ROWS = [
    {"name": f"n{index}, “{index}”\n", "sha256": "ab" * 32, "digest": f"{index:064d}"}
    for index in range(12)
]


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / FILE


@pytest.fixture
def head(tmp_path) -> dict[str, Any]:
    """Twelve rows, written in three goes."""
    head = append_rows(tmp_path, no_rows(""), ROWS[:5])
    head = append_rows(tmp_path, head, ROWS[5:6])
    return append_rows(tmp_path, head, ROWS[6:])


def test_appended_rows_are_read_back(tmp_path, head, file):
    assert read_rows(tmp_path, head, more=False) == ROWS
    text = file.read_bytes()
    assert head["bytes"] == len(text)
    file.unlink()
    assert append_rows(tmp_path, no_rows(""), ROWS) == head
    assert file.read_bytes() == text


def test_every_byte_counts_and_its_line_is_named(tmp_path, head, file):
    whole = file.read_bytes()
    for index in range(0, len(whole), 7):
        flipped(file, at=(index + 0.5) / (len(whole) - 1))
        line = whole[:index].count(b"\n") + 1
        with pytest.raises(StoreError, match=f"{FILE}: damaged, because line {line} is not what"):
            read_rows(tmp_path, head, more=False)
        file.write_bytes(whole)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "it has 0 of 12 lines"),
        ([*range(11)], "it has 11 of 12 lines"),
        ([0, 1, 2, 4, 3, *range(5, 12)], "line 4 is not"),
        ([0, 1, 2, *range(4, 12)], "line 4 is not"),
        ([*range(12), 11], "there is more in it than was written"),
    ],
)
def test_truncated_moved_or_added_lines_are_found(tmp_path, head, file, lines, why):
    written = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(written[line] for line in lines))
    with pytest.raises(StoreError, match=why):
        read_rows(tmp_path, head, more=False)


def test_a_missing_file_has_no_rows(tmp_path, head, file):
    file.unlink()
    with pytest.raises(StoreError, match="it has 0 of 12 lines"):
        read_rows(tmp_path, head, more=False)
    assert read_rows(tmp_path, no_rows(""), more=False) == []


def test_leftovers_after_the_rows_are_read_over_and_overwritten(tmp_path):
    head = append_rows(tmp_path, no_rows(""), ROWS[:5])
    append_rows(tmp_path, head, ROWS[:7])
    assert read_rows(tmp_path, head, more=True) == ROWS[:5]
    head = append_rows(tmp_path, head, ROWS[5:6])
    assert read_rows(tmp_path, head, more=False) == ROWS[:6]


@pytest.mark.parametrize("size", [10**12, 2**63, 10**40])
def test_an_impossible_size_is_reported_as_damage(tmp_path, head, size):
    with pytest.raises(StoreError, match="lines"):
        read_rows(tmp_path, head | {"bytes": size}, more=False)
