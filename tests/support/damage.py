"""Damage to a file of a store: a flipped byte, a truncated end, an emptied or a missing file."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from empirical.store.shards import lengths


def flipped(file: Path, *, at: float = 0.5) -> None:
    """Flip one byte at a fraction of the file."""
    data = bytearray(file.read_bytes())
    data[int(at * (len(data) - 1))] ^= 4
    file.write_bytes(bytes(data))


def cut(file: Path) -> None:
    """Truncate a file to one half."""
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def emptied(file: Path) -> None:
    """Truncate a file to zero bytes."""
    file.write_bytes(b"")


KINDS: tuple[Callable[[Path], None], ...] = (flipped, cut, emptied, Path.unlink)


def no_space() -> OSError:
    """Return the error of a full disk."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def damaged(file: Path, kind: Callable[[Path], None]) -> Iterator[None]:
    """Damage a file within the block."""
    whole = file.read_bytes()
    kind(file)
    assert not file.exists() or file.read_bytes() != whole, file
    try:
        yield
    finally:
        file.write_bytes(whole)


def first_file(folder: Path) -> Path:
    """Return the first file below a folder, such as the first shard of an array."""
    return next(file for file in sorted(folder.rglob("*")) if file.is_file())


def second_flipped(shard: Path) -> None:
    """Damage the second document of a shard."""
    flipped(shard, at=(lengths(shard.parent, shard.name)[0] + 5) / shard.stat().st_size)


def files(store: Path) -> list[Path]:
    """Return every file of a store."""
    return sorted(file for file in store.rglob("*") if file.is_file())


def restated(run: Path, **parts: Any) -> None:
    """Rewrite the root of a run so that it states the current digests of its files and of itself,
    with other `parts` of the manifest.
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
    """Return the sha256 of bytes, as text."""
    return hashlib.sha256(data).hexdigest()
