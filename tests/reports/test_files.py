"""A file is the old one or the whole new one, whoever else writes it; no draft stays."""

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
def test_a_draft_goes_whatever_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: BaseException, call: str
):
    def broken(*_: object) -> None:
        raise raised

    monkeypatch.setattr(os, call, broken)
    expected = InputError if isinstance(raised, OSError) else type(raised)
    with pytest.raises(expected):
        replaced(tmp_path / "report.html", "x")
    assert list(tmp_path.iterdir()) == []


def test_two_that_write_at_once_share_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The second writes its whole file while the first has written its draft, and not moved it."""
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
        whole = ["x" * size for size in range(100_000, 100_064)]
        list(pool.map(lambda text: replaced(path, text), whole))
    assert path.read_text() in whole
    assert list(tmp_path.iterdir()) == [path]


def test_drafts_of_killed_processes_go_and_those_being_written_stay(tmp_path: Path):
    path, outside = tmp_path / "report.html", tmp_path / "kept"
    outside.write_text("kept")
    written, left, link = (
        tmp_path / f".report.html.{name}.draft" for name in ("written", "left", "link")
    )
    left.write_text("x")
    link.symlink_to(outside)
    with open(written, "xb") as file:
        flock(file, LOCK_EX)
        replaced(path, "new")
    assert {one.name for one in tmp_path.iterdir()} == {
        *("report.html", "kept"),
        *(written.name, link.name),
    }
    replaced(path, "newer")
    assert not written.exists()
    assert outside.read_text() == "kept"


def test_a_draft_that_another_process_took_for_left_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def late(file: BufferedWriter, how: int) -> None:
        monkeypatch.setattr(files, "flock", flock)
        os.unlink(file.name)

    monkeypatch.setattr(files, "flock", late)
    assert replaced(tmp_path / "report.html", "x").read_text() == "x"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_disks_without_locks_are_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    def none(*_: object) -> None:
        raise OSError(number, "no locks")

    monkeypatch.setattr(files, "flock", none)
    (tmp_path / ".report.html.a.draft").write_text("of whoever")
    assert replaced(tmp_path / "report.html", "x").read_text() == "x"
    assert (tmp_path / ".report.html.a.draft").exists()


def test_half_a_character_is_written_as_its_code(tmp_path: Path):
    assert replaced(tmp_path / "a.json", '"\ud83d"').read_text(encoding="utf-8") == '"\\ud83d"'


def test_a_link_in_a_file_s_place_is_replaced_and_not_followed(tmp_path: Path):
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "report.html").symlink_to(tmp_path / "kept")
    replaced(tmp_path / "report.html", "new")
    assert (tmp_path / "kept").read_text() == "kept"
    assert (tmp_path / "report.html").read_text() == "new"
