"""A run at a URL for tests: a disk as the file system of the URL, machines as folders."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest
from support.stores import arrays, row

from empirical.store.manifest import files_below
from empirical.store.remote.address import MARKS
from empirical.store.store import Store

CHANGING = ("pipe_file", "put_file", "rm_file")
"""Calls of a file system that change something there."""


def same(one: Path, other: Path) -> bool:
    """Whether two runs are equal, but for what marks the state of one at a URL."""
    found = [
        {file.relative_to(run): file.read_bytes() for file in files_below(run)}
        for run in (one, other)
    ]
    for run in found:
        for mark in MARKS:
            run.pop(Path(mark), None)
    return found[0] == found[1] != {}


def add(path: Path) -> None:
    """A third document."""
    store = Store.open(path)
    with store.alone():
        store.append(row("three"), arrays(3))
        store.settle()


def note(path: Path, text: str) -> None:
    store = Store.open(path)
    with store.alone():
        store.note(told=text)


class Broken:
    """A file system that answers `kept` calls of some kinds, then fails."""

    def __init__(self, kept: int, names: tuple[str, ...], patch: pytest.MonkeyPatch) -> None:
        self.left = kept
        for name in names:
            self._break(name, patch)

    def _break(self, name: str, patch: pytest.MonkeyPatch) -> None:
        local = type(fsspec.filesystem("file"))
        whole = getattr(local, name)

        def call(system: object, *arguments: object, **named: object) -> object:
            self.left -= 1
            if self.left < 0:
                raise OSError("the network is gone")
            return whole(system, *arguments, **named)

        patch.setattr(local, name, call)
