"""Integrity checks of a run: every file against its digest, and every chunk against its checksum.

Imports the journal.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from empirical.errors import StoreError
from empirical.store.disk import reading
from empirical.store.journal import FILE, FILE_BEFORE, FOLDER, journal_rows, read_rows
from empirical.store.manifest import (
    FIT_AGAIN,
    MEASURE_AGAIN,
    ROOT,
    below,
    by_document,
    damaged,
    digest,
    files_below,
)
from empirical.store.shards import found_lengths, lengths, shard_key, shards_of, sums_in, within

MISSING, CHANGED = "it is missing", "it is not what was written"
NOT_WRITTEN = "document {!r} is not what was written"
STRANGE = "this file does not belong to the run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A damaged or foreign file."""

    file: Path
    why: str
    remedy: str

    def __str__(self) -> str:
        return str(damaged(self.file, self.why, self.remedy))


Which = bool | Collection[str]
"""Result groups to verify: all, none, or those of some names."""


def looked_at(manifest: Mapping[str, Any], which: Which) -> dict[str, Any]:
    """Return the files of the result groups to verify, by group."""
    names = which if isinstance(which, Collection) else manifest["results"] if which else ()
    return {name: files for name, files in manifest["results"].items() if name in names}


def check(
    path: Path, attributes: Mapping[str, Any], *, results: Which = True
) -> list[dict[str, Any]]:
    """Verify every file of the run at `path`, with the selected result groups, against the
    manifest. Return the rows of its complete documents.

    Raises:
        StoreError: names the first file that is missing or changed, and counts further faults.
        InputError: names a file that may not be read.
    """
    head = attributes["manifest"]["rows"]
    waiting = journal_rows(path, head)
    settled = read_rows(path, head, more=bool(waiting), run=attributes["manifest"].get("run", ""))
    found = list(damages(path, attributes, settled, len(waiting), results=results))
    if found:
        more = f" Further faults: {len(found) - 1}." if len(found) > 1 else ""
        raise StoreError(f"{found[0]}{more}")
    return settled + waiting


def damages(
    path: Path,
    attributes: Mapping[str, Any],
    settled: list[dict[str, Any]],
    waiting: int,
    *,
    results: Which,
) -> Iterator[Damage]:
    """Yield all damage to metadata, captured groups and selected result groups.

    settled: rows of the documents in shards; waiting: number of documents in the journal.
    """
    manifest = attributes["manifest"]
    written = list(unlike(path, manifest["layout"], MEASURE_AGAIN))
    yield from written
    if not written:
        sound: dict[int, str] = {}
        names = [row["name"] for row in settled]
        yield from of_shards(path, manifest, names, sound, more=waiting > 0)
        for document, digest_of_chunks in sound.items():
            if digest_of_chunks != settled[document]["digest"]:
                why = NOT_WRITTEN.format(settled[document]["name"])
                yield Damage(file=path, why=why, remedy=MEASURE_AGAIN)
    for files in looked_at(manifest, results).values():
        yield from unlike(path, files, FIT_AGAIN.format(path=path))
    if not written:
        yield from strange(path, manifest, len(settled) + waiting, results=results)


def arrays_of(path: Path, manifest: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return name and number of dimensions of the arrays that have shards."""
    return [
        (name, len(shape))
        for name, shape in by_document(path, manifest["layout"])
        if all(shape[1:])
    ]


def of_shards(
    path: Path,
    manifest: Mapping[str, Any],
    names: Sequence[object],
    sound: dict[int, str],
    *,
    more: bool,
) -> Iterator[Damage]:
    """Yield the damaged shards; with `more` they may hold further documents.

    names: of the documents in shards; sound: receives the digest of each document whose chunks all
    match their checksums.
    """
    arrays = arrays_of(path, manifest)
    for shard in shards_of(range(len(names))):
        documents = within(range(len(names)), shard)
        totals = {document: hashlib.sha256() for document in documents}
        for name, dims in arrays:
            key = shard_key(name, dims, shard)
            why, sums = _sums(path, key, len(documents), more=more)
            unsound = [
                document
                for document, (_, intact) in zip(documents, sums, strict=True)
                if not intact
            ]
            if why or unsound:
                why = why or NOT_WRITTEN.format(names[unsound[0]])
                yield Damage(file=path / key, why=why, remedy=MEASURE_AGAIN)
            for document, (digest_of_chunk, intact) in zip(documents, sums, strict=True):
                if not intact:
                    totals.pop(document, None)
                elif document in totals:
                    totals[document].update(name.encode() + digest_of_chunk)
        sound |= {document: total.hexdigest() for document, total in totals.items()}


def _sums(
    path: Path, key: str, documents: int, *, more: bool
) -> tuple[str, list[tuple[bytes, bool]]]:
    """Return why a whole shard is damaged ("" if not), and digest and soundness of its chunks."""
    sums = [(b"", False)] * documents
    try:
        with reading(path / key):
            sums = list(sums_in(path, key, found_lengths(path, key, documents)))
            held = len(lengths(path, key))
    except StoreError:
        return CHANGED, sums
    except FileNotFoundError:
        return MISSING, sums
    return ("" if held == documents or (held > documents and more) else CHANGED), sums


def strange(
    path: Path, manifest: Mapping[str, Any], documents: int, *, results: Which
) -> Iterator[Damage]:
    """Yield foreign files at the root, in captured groups and in selected result groups, which
    would be read as if geostat had written them. Hidden files of the system are not read and are
    allowed.
    """
    captured, groups = manifest["captured"], looked_at(manifest, results)
    tops = {name.partition("/")[0] for name in (*captured, *manifest["results"])}
    known = {ROOT, FILE_BEFORE, FILE, *tops, *manifest["layout"]}
    known.update(name for files in groups.values() for name in files)
    known.update(
        shard_key(name, dims, shard)
        for name, dims in arrays_of(path, manifest)
        for shard in shards_of(range(documents))
    )
    with reading(path):
        found = sorted(path.iterdir())
    for group in (*captured, *groups):
        try:
            with reading(path):
                found += files_below(path / group)
        except FileNotFoundError:  # another process may be moving the group
            yield Damage(file=path / group, why=MISSING, remedy=MEASURE_AGAIN)
    for file in found:
        known_there = below(file, path) in known or file.parent == path / FOLDER
        if not known_there and not (
            file.name.startswith(".") and stat.S_ISREG(file.lstat().st_mode)
        ):
            yield Damage(file=file, why=STRANGE, remedy="Remove it.")


def unlike(path: Path, written: Mapping[str, str], remedy: str) -> Iterator[Damage]:
    """Yield the files that differ from their digests, by name below `path`."""
    for name, wanted in written.items():
        why = CHANGED
        try:
            with reading(path):
                if digest(path, name) == wanted:
                    continue
        except StoreError:
            pass
        except FileNotFoundError:
            why = MISSING
        yield Damage(file=path / name, why=why, remedy=remedy)
