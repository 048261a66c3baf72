"""Rows of documents: what is appended is read back; a line changed, cut or moved is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.damage import flipped

from empirical.errors import StoreError
from empirical.store.rows import FILE, append_rows, no_rows, read_rows

ROWS = [
    {"name": f"n{index}, “{index}”\n", "sha256": "ab" * 32, "digest": f"{index:064d}"}
    for index in range(12)
]


@pytest.fixture
def head(tmp_path: Path) -> dict[str, Any]:
    """Twelve rows, written in three goes."""
    head = append_rows(tmp_path, no_rows(""), ROWS[:5])
    head = append_rows(tmp_path, head, ROWS[5:6])
    return append_rows(tmp_path, head, ROWS[6:])


def test_what_is_appended_is_read_back(tmp_path: Path, head: dict[str, Any]) -> None:
    assert read_rows(tmp_path, head, more=False) == ROWS
    assert head["bytes"] == (tmp_path / FILE).stat().st_size
    text = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).unlink()
    assert append_rows(tmp_path, no_rows(""), ROWS) == head
    assert (tmp_path / FILE).read_bytes() == text


def test_every_byte_counts_and_its_line_is_named(tmp_path: Path, head: dict[str, Any]) -> None:
    file = tmp_path / FILE
    whole = file.read_bytes()
    for at in range(0, len(whole), 7):
        flipped(file, at=(at + 0.5) / (len(whole) - 1))
        line = whole[:at].count(b"\n") + 1
        with pytest.raises(StoreError, match=f"{FILE}: damaged, for line {line} is not what was"):
            read_rows(tmp_path, head, more=False)
        file.write_bytes(whole)


def test_lines_that_are_cut_moved_or_added_are_found(tmp_path: Path, head: dict[str, Any]) -> None:
    file = tmp_path / FILE
    lines = file.read_bytes().splitlines(keepends=True)
    for spoilt, seen in (
        ([], "it has 0 of 12 lines"),
        (lines[:-1], "it has 11 of 12 lines"),
        ([*lines[:3], lines[4], lines[3], *lines[5:]], "line 4 is not"),
        ([*lines[:3], *lines[4:]], "line 4 is not"),
        ([*lines, lines[-1]], "there is more in it than was written"),
    ):
        file.write_bytes(b"".join(spoilt))
        with pytest.raises(StoreError, match=seen):
            read_rows(tmp_path, head, more=False)
    assert read_rows(tmp_path, head, more=True) == ROWS
    file.unlink()
    with pytest.raises(StoreError, match="it has 0 of 12 lines"):
        read_rows(tmp_path, head, more=False)
    assert read_rows(tmp_path, no_rows(""), more=False) == []


def test_what_a_killed_process_left_behind_the_rows_is_written_over(tmp_path: Path) -> None:
    head = append_rows(tmp_path, no_rows(""), ROWS[:5])
    append_rows(tmp_path, head, ROWS[:7])
    head = append_rows(tmp_path, head, ROWS[5:6])
    assert read_rows(tmp_path, head, more=False) == ROWS[:6]


@pytest.mark.parametrize("told", [10**12, 2**63, 10**40])
def test_more_bytes_than_any_file_has_are_told_as_damage(
    tmp_path: Path, head: dict[str, Any], told: int
) -> None:
    with pytest.raises(StoreError, match="lines"):
        read_rows(tmp_path, head | {"bytes": told}, more=False)
