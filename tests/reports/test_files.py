"""Atomic replacement: a file has the old or the complete new content, and no draft remains."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from fcntl import LOCK_EX, flock
from io import BufferedWriter
from pathlib import Path

import pytest

from reports import files
from reports.errors import InputError
from reports.files import replaced


@pytest.mark.parametrize(
    "raised", [OSError(28, "No space left"), ValueError("x"), KeyboardInterrupt()]
)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_draft_is_removed_after_any_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: BaseException, call: str
):
    def broken(*_: object) -> None:
        raise raised

    monkeypatch.setattr(os, call, broken)
    refused = (InputError, r"cannot be written.*Choose another folder")
    expected, words = refused if isinstance(raised, OSError) else (type(raised), None)
    with pytest.raises(expected, match=words):
        replaced(tmp_path / "report.html", "x")
    assert list(tmp_path.iterdir()) == []


def test_concurrent_writers_share_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The second writer finishes between the first writer's draft and its move."""
    moved, path = os.replace, tmp_path / "report.html"

    def second_first(*names: Path) -> None:
        monkeypatch.setattr(os, "replace", moved)
        replaced(path, "second")
        assert path.read_text() == "second"
        moved(*names)

    monkeypatch.setattr(os, "replace", second_first)
    replaced(path, "first")
    assert path.read_text() == "first"
    with ThreadPoolExecutor(8) as pool:
        texts = ["x" * size for size in range(100_000, 100_064)]
        list(pool.map(lambda text: replaced(path, text), texts))
    assert path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]


def test_drafts_of_killed_processes_go_and_those_being_written_stay(tmp_path: Path):
    path, outside = tmp_path / "report.html", tmp_path / "kept"
    outside.write_text("kept")
    names = ("written", "stale", "link")
    written, stale, link = (tmp_path / f".report.html.{name}.draft" for name in names)
    stale.write_text("x")
    link.symlink_to(outside)
    with open(written, "xb") as file:
        flock(file, LOCK_EX)
        replaced(path, "new")
    assert {*tmp_path.iterdir()} == {path, outside, written, link}
    replaced(path, "newer")
    assert not written.exists()
    assert outside.read_text() == "kept"


def test_a_draft_removed_as_stale_by_another_process_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def late(file: BufferedWriter, operation: int) -> None:
        monkeypatch.setattr(files, "flock", flock)
        os.unlink(file.name)

    monkeypatch.setattr(files, "flock", late)
    assert replaced(tmp_path / "report.html", "x").read_text() == "x"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_disks_without_locks_are_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    def none(*_: object) -> None:
        raise OSError(number, "no locks")

    monkeypatch.setattr(files, "flock", none)
    foreign = tmp_path / ".report.html.a.draft"
    foreign.write_text("foreign")
    assert replaced(tmp_path / "report.html", "x").read_text() == "x"
    assert foreign.exists()


def test_a_lone_surrogate_is_written_as_an_escape(tmp_path: Path):
    assert replaced(tmp_path / "a.json", '"\ud83d"').read_text(encoding="utf-8") == '"\\ud83d"'


def test_a_symbolic_link_is_replaced_and_not_followed(tmp_path: Path):
    path, outside = tmp_path / "report.html", tmp_path / "kept"
    outside.write_text("kept")
    path.symlink_to(outside)
    replaced(path, "new")
    assert (outside.read_text(), path.read_text()) == ("kept", "new")
