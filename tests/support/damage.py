"""Damage done to a file of a store, one kind at a time: a byte flipped, the end cut off, the
file gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def flipped(file: Path, *, at: float = 0.5) -> None:
    """Change one byte, so many parts of the way through."""
    data = bytearray(file.read_bytes())
    data[int(at * (len(data) - 1))] ^= 4
    file.write_bytes(bytes(data))


def cut(file: Path) -> None:
    """Leave half of a file."""
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def emptied(file: Path) -> None:
    """Leave nothing in a file."""
    file.write_bytes(b"")


KINDS: tuple[Callable[[Path], None], ...] = (flipped, cut, emptied, Path.unlink)


@contextmanager
def damaged(file: Path, kind: Callable[[Path], None]) -> Iterator[None]:
    """Damage a file for a while."""
    whole = file.read_bytes()
    kind(file)
    assert not file.exists() or file.read_bytes() != whole, file
    try:
        yield
    finally:
        file.write_bytes(whole)


def files(store: Path) -> list[Path]:
    """Every file of a store."""
    return sorted(file for file in store.rglob("*") if file.is_file())
