"""Damage done to a file of a store, one kind at a time: a byte flipped, the end cut off, the
file gone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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


def restated(run: Path, **parts: Any) -> None:
    """Write the root of a run anew, so that it states the digests of its files as they are and its
    own, with other `parts` of the manifest.
    """
    root = json.loads((run / "zarr.json").read_text(encoding="utf-8"))
    root.pop("consolidated_metadata", None)
    manifest = root["attributes"]["manifest"]

    def stated(names: Iterable[str]) -> dict[str, str]:
        files = {name: run / name for name in names if (run / name).is_file()}
        return {name: digest_of(file.read_bytes())[:16] for name, file in files.items()}

    manifest["layout"] = stated(manifest["layout"])
    manifest["results"] = {
        group: stated(str(file.relative_to(run)) for file in (run / group).rglob("*"))
        for group in manifest["results"]
    }
    manifest |= parts
    manifest["own_sha256"] = ""
    text = json.dumps(root)
    written = text.replace('"own_sha256": ""', f'"own_sha256": "{digest_of(text.encode())}"')
    (run / "zarr.json").write_text(written, encoding="utf-8")


def digest_of(data: bytes) -> str:
    """The sha256 of bytes, as text."""
    return hashlib.sha256(data).hexdigest()
