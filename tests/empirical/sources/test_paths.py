"""Paths: files are opened without waiting and read up to a limit, pipes that end are read, and
folders of any depth are searched.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.raising import refused

from empirical.sources import paths
from empirical.sources.paths import files_below, opened, read_whole, shown
from empirical.sources.texts import from_paths

NO_FILE = "is a pipe, a device or a socket, expected a file"


def endless(folder: Path) -> Path:
    (folder / "endless").symlink_to("/dev/zero")
    return folder / "endless"


def sparse(folder: Path) -> Path:
    (folder / "sparse").touch()
    os.truncate(folder / "sparse", 2**40)
    return folder / "sparse"


def terminal(folder: Path) -> Path:
    return Path(os.ttyname(os.openpty()[1]))


@pytest.mark.parametrize(
    ("make", "said"),
    [(endless, NO_FILE), (terminal, NO_FILE), (sparse, "holds 1099511627776 bytes, expected at m")],
)
def test_what_has_no_end_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], Path], said: str
):
    file = make(tmp_path)
    with refused(said):
        read_whole(file)
    with refused(said), opened(file):
        pass


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(paths, "WAIT", 0.1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with refused("pipe: is a pipe that gave nothing for 0.1 s"):
        read_whole(pipe)
    with refused(NO_FILE), opened(pipe):
        pass


def test_a_socket_and_a_folder_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
        for name in ("socket", "."):
            with pytest.raises(OSError, match=r"No such device|Is a directory"):
                read_whole(Path(name))


@pytest.fixture
def substituted() -> Iterator[Callable[[list[bytes]], Path]]:
    """Paths such as a shell gives a command for <(another)."""
    ends: list[int] = []

    def make(parts: list[bytes]) -> Path:
        end, start = os.pipe()
        ends.append(end)

        def write() -> None:
            with suppress(BrokenPipeError), os.fdopen(start, "wb", buffering=0) as file:
                for part in parts:
                    file.write(part)

        threading.Thread(target=write, daemon=True).start()
        return Path(f"/dev/fd/{end}")

    yield make
    for end in ends:
        os.close(end)


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="no paths of open files here")
def test_a_pipe_that_ends_is_read_and_one_that_does_not_up_to_the_limit(
    substituted: Callable[[list[bytes]], Path],
):
    parts = [b"one ", b"x" * 200_000, b" end"]
    assert read_whole(substituted(parts)) == b"".join(parts)
    with refused("holds more than 100000 bytes, expected at most 100000"):
        read_whole(substituted([b"x" * 65536] * 1000), most=100_000)


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Callable[[int, str], Path]]:
    """Folders in one another, removed by what does not recurse."""
    before = os.getcwd()

    def make(depth: int, name: str) -> Path:
        os.chdir(tmp_path)
        for _ in range(depth):
            os.mkdir(name)
            os.chdir(name)
        Path("deep.txt").write_text("a text")
        os.chdir(before)
        return tmp_path

    yield make
    os.chdir(before)
    subprocess.run(["rm", "-rf", tmp_path], check=True)


def test_a_folder_of_any_depth_is_searched(deep: Callable[[int, str], Path]):
    root = deep(1500, "d")
    (root / "d" / "a.txt").write_text("another")
    (root / "linked").symlink_to(root / "d")
    found = list(files_below(root))
    assert {file.name for file in found} == {"deep.txt", "a.txt"}
    assert [path.text for path in from_paths([root])] == ["another", "a text"]


def test_a_folder_too_deep_for_a_path_is_refused_in_one_line(deep: Callable[[int, str], Path]):
    root = deep(30, "d" * 200)
    with refused(r"cannot be read \(File name too long\)"):
        list(from_paths([root]))


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("r\udce9sum\udce9.txt", r"r\xe9sum\xe9.txt"),
        ("a\ud800b.txt", r"a\ud800b.txt"),
        ("\\\udce9", r"\\\xe9"),
    ],
)
def test_any_name_can_be_printed(name: str, seen: str):
    assert shown(name) == seen
    with refused("no such file or folder"):
        from_paths([f"absent/{name}"])
