"""Integrity checks of a run: every file against its digest, and every chunk against its checksum.

Imports the journal.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
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
    by_document,
    damaged,
    digest,
    files_below,
)
from empirical.store.shards import lengths, shard_key, shards_of, sums_in, within

MISSING, CHANGED = "it is missing", "it is not what was written"
NOT_WRITTEN = "document {!r} is not what was written"
STRANGE = "this file does not belong to the run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A damaged or foreign file."""

    file: Path
    why: str
    remedy: str
    documents: tuple[int, ...] = ()
    """Indices of the documents whose chunks it holds."""

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
    yield from at_the_root(path, manifest)
    written = list(unlike(path, manifest["layout"], MEASURE_AGAIN))
    yield from written
    if not written:
        arrays = arrays_of(path, manifest["layout"])
        for shard in shards_of(range(len(settled))):
            yield from _of_shards(path, arrays, shard, settled, more=waiting > 0)
        yield from strange(path, manifest, len(settled) + waiting)
    for group, files in looked_at(manifest, results).items():
        remedy = FIT_AGAIN.format(path=path)
        yield from unlike(path, files, remedy)
        yield from strangers(path / group, {(path / name).as_posix() for name in files}, remedy)


def at_the_root(path: Path, manifest: Mapping[str, Any]) -> Iterator[Damage]:
    """Yield foreign entries in the run's root folder; hidden files of the system are allowed."""
    groups = (*manifest["captured"], *manifest["results"])
    known = {ROOT, FILE_BEFORE, *(name.partition("/")[0] for name in groups)}
    with reading(path), os.scandir(path) as entries:
        odd = [
            entry.name
            for entry in entries
            if entry.name not in known
            and not (entry.name.startswith(".") and entry.is_file(follow_symlinks=False))
        ]
    for name in sorted(odd):
        yield Damage(file=path / name, why=STRANGE, remedy="Remove it.")


def arrays_of(path: Path, layout: Iterable[str]) -> list[tuple[str, int]]:
    """Return name and number of dimensions of the arrays that have shards."""
    return [(name, len(shape)) for name, shape in by_document(path, layout) if all(shape[1:])]


def strange(path: Path, manifest: Mapping[str, Any], documents: int) -> Iterator[Damage]:
    """Yield foreign files in captured groups."""
    known = {(path / name).as_posix() for name in (*manifest["layout"], FILE)} | {
        (path / shard_key(name, dims, shard)).as_posix()
        for name, dims in arrays_of(path, manifest["layout"])
        for shard in shards_of(range(documents))
    }
    for group in manifest["captured"]:  # the journal checks its own files
        yield from strangers(path / group, known, MEASURE_AGAIN, apart=(path / FOLDER,))


def _of_shards(
    path: Path,
    arrays: list[tuple[str, int]],
    shard: int,
    settled: list[dict[str, Any]],
    *,
    more: bool,
) -> Iterator[Damage]:
    """Yield damage to the shards of one number; with `more` they may hold further documents."""
    totals = {document: hashlib.sha256() for document in within(range(len(settled)), shard)}
    reported: set[int] = set()
    for name, dims in arrays:
        key = shard_key(name, dims, shard)
        unsound, why = _unsound(path, key, name, totals, more=more)
        if unsound:
            why = why or NOT_WRITTEN.format(settled[unsound[0]]["name"])
            documents = tuple(unsound)
            yield Damage(file=path / key, why=why, remedy=MEASURE_AGAIN, documents=documents)
            reported.update(unsound)
    for document, total in totals.items():
        if document not in reported and total.hexdigest() != settled[document]["digest"]:
            why = NOT_WRITTEN.format(settled[document]["name"])
            yield Damage(file=path, why=why, remedy=MEASURE_AGAIN, documents=(document,))


def _unsound(
    path: Path, key: str, name: str, totals: Mapping[int, Any], *, more: bool
) -> tuple[list[int], str]:
    """Add the chunks of a shard to the digests of its documents. Return the documents with a
    damaged chunk, and the reason if the whole file is damaged.
    """
    try:
        with reading(path / key):
            held = lengths(path, key)
            if len(held) < len(totals) or (len(held) > len(totals) and not more):
                return [*totals], CHANGED
            sums = list(sums_in(path, key, held[: len(totals)]))
    except StoreError:
        return [*totals], CHANGED
    except FileNotFoundError:
        return [*totals], MISSING
    for total, (digest_of_chunk, _) in zip(totals.values(), sums, strict=True):
        total.update(name.encode() + digest_of_chunk)
    return [document for document, (_, sound) in zip(totals, sums, strict=True) if not sound], ""


def strangers(
    group: Path, known: Set[str], remedy: str, *, apart: Collection[Path] = ()
) -> Iterator[Damage]:
    """Yield foreign files in a group, which would be read as if they were measured. Hidden files of
    the system are not read and are allowed.
    """
    try:
        with reading(group):
            files = files_below(group)
            if group.is_symlink():
                yield Damage(file=group, why=STRANGE, remedy=remedy)
    except FileNotFoundError:  # another process may be moving the group
        yield Damage(file=group, why=MISSING, remedy=remedy)
        return
    for file in files:
        known_there = file.as_posix() in known or file.parent in apart
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
