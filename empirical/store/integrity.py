"""Integrity of a run: every file compared with its digest, a damaged chunk found by its own
checksum.

Imports the manifest, and google_crc32c for the checksum that ends every chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import google_crc32c

from empirical.errors import StoreError
from empirical.store.disk import digest, reading
from empirical.store.manifest import (
    FIT_AGAIN,
    MEASURE_AGAIN,
    chunked_folders,
    chunks_of,
    digests,
    files_below,
)

CHECKSUM_BYTES: Final = 4
"""CRC-32C, little-endian, at the end of every chunk."""


def check(path: Path, attributes: Mapping[str, Any], *, results: bool = True) -> None:
    """Compare every file of the run at `path`, with `results` of its result groups too, with its
    digest in the manifest; a StoreError names the first that is missing or is not what was written,
    an InputError one that may not be read.
    """
    manifest = attributes["manifest"]
    _check_each(path, manifest["layout"], MEASURE_AGAIN)
    chunks = chunks_of(path, manifest["layout"])
    chunked = chunked_folders(path, manifest["layout"])
    for group in manifest["captured"]:  # chunks of a document that was not completed may be there
        _refuse_strangers(
            path / group, {path / name for name in manifest["layout"]}, chunked, MEASURE_AGAIN
        )
    for index, row in enumerate(manifest["documents"]):
        files = chunks(index)
        with _present(path, lambda: _unsound(files), MEASURE_AGAIN):  # noqa: B023
            same = digest(files, path) == row["digest"]
        if not same:
            raise StoreError(
                f"{_unsound(files) or path}: damaged, for document {row['name']!r} is not what was"
                f" written. {MEASURE_AGAIN}"
            )
    for group, written in manifest["results"].items() if results else ():
        _check_each(path, written, FIT_AGAIN.format(path=path))
        _refuse_strangers(
            path / group, {path / name for name in written}, set(), FIT_AGAIN.format(path=path)
        )


def _refuse_strangers(group: Path, known: Set[Path], chunked: Set[Path], remedy: str) -> None:
    """Refuse a file of a group that nobody wrote there: it would be read as if it were measured."""
    with _present(
        group, lambda: group, remedy
    ):  # another process may move the group while it is listed
        files = files_below(group)
    for file in files:
        if file not in known and chunked.isdisjoint(file.parents):
            raise StoreError(
                f"{file}: damaged, for this file does not belong to the run. Remove it."
            )


def _check_each(path: Path, written: Mapping[str, str], remedy: str) -> None:
    for name, wanted in written.items():
        with _present(path, lambda: path / name, remedy):  # noqa: B023
            same = digests([path / name], path)[name] == wanted
        if not same:
            raise StoreError(f"{path / name}: damaged, for it is not what was written. {remedy}")


@contextmanager
def _present(path: Path, which: Callable[[], Path | None], remedy: str) -> Iterator[None]:
    """Turn a file that is not there into a line that names it."""
    try:
        with reading(path):
            yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise StoreError(f"{which() or path}: damaged, for it is missing. {remedy}") from error


def _unsound(chunks: Iterable[Path]) -> Path | None:
    """Return the first chunk that is missing or does not end in its own checksum."""
    for file in chunks:
        try:
            data = file.read_bytes()
        except OSError:
            return file
        if not data or google_crc32c.value(data[:-CHECKSUM_BYTES]) != int.from_bytes(
            data[-CHECKSUM_BYTES:], "little"
        ):
            return file
    return None
