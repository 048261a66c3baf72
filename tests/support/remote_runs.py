"""Runs at URLs: a disk as the file system of the URL, folders as machines."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import fsspec
import pytest
from support.stores import arrays, row

from empirical.store.manifest import files_below
from empirical.store.remote import MARKS
from empirical.store.store import Store

CHANGING = ("pipe_file", "put_file", "rm_file")
"""Calls of a file system that change something there."""
LOCAL = type(fsspec.filesystem("file"))


def held(run: Path) -> dict[Path, bytes]:
    """Return the files of a run, without the marks of the state at a URL."""
    files = {file.relative_to(run): file.read_bytes() for file in files_below(run)}
    return {name: data for name, data in files.items() if str(name) not in MARKS}


def same(one: Path, other: Path) -> bool:
    """Return whether two runs are equal."""
    return held(one) == held(other) != {}


def add(path: Path) -> None:
    """Add a third document."""
    store = Store.open(path)
    with store.alone():
        store.append(row("three"), arrays(3))
        store.settle()


def note(path: Path, text: str) -> None:
    store = Store.open(path)
    with store.alone():
        store.note(text=text)


def noted(path: Path) -> str:
    return Store.open(path).attributes["text"]


def before_each(name: str, act: Callable[..., object], patch: pytest.MonkeyPatch) -> None:
    """Do something before each call of this name of the file system."""
    whole = getattr(LOCAL, name)

    def call(system: object, *arguments: object, **named: object) -> object:
        act(*arguments)
        return whole(system, *arguments, **named)

    patch.setattr(LOCAL, name, call)


def broken_after(calls: int, names: tuple[str, ...], patch: pytest.MonkeyPatch) -> None:
    """Let the file system fail after so many calls of these names."""
    number = count()

    def fail(*arguments: object) -> None:
        if next(number) >= calls:
            raise OSError("the network is gone")

    for name in names:
        before_each(name, fail, patch)
