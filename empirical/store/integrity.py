"""Integrity of a run: every file compared with its digest, a damaged chunk found by its own
checksum.

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
from empirical.store.journal import FOLDER as JOURNAL
from empirical.store.journal import journal_rows, take_in
from empirical.store.manifest import (
    FIT_AGAIN,
    MEASURE_AGAIN,
    ROOT,
    by_document,
    digest,
    files_below,
)
from empirical.store.rows import FILE as ROWS
from empirical.store.rows import FILE_BEFORE as ROWS_BEFORE
from empirical.store.rows import read_rows
from empirical.store.shards import (
    lengths,
    shard_key,
    shards_of,
    sums_in,
    within,
)

MISSING, CHANGED = "it is missing", "it is not what was written"
STRANGE = "this file does not belong to the run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One file that is not what was written."""

    file: Path
    why: str
    remedy: str
    documents: tuple[int, ...] = ()
    """Places of the documents of which it holds something, where it holds any."""

    def __str__(self) -> str:
        return f"{self.file}: damaged, for {self.why}. {self.remedy}"


Which = bool | Collection[str]
"""Result groups that are looked at: all, none, or some by name."""


def looked_at(manifest: Mapping[str, Any], which: Which) -> dict[str, Any]:
    """Return those of a manifest's result groups that are looked at, with their files."""
    some = which if isinstance(which, Collection) else manifest["results"] if which else ()
    return {name: files for name, files in manifest["results"].items() if name in some}


def check(
    path: Path, attributes: Mapping[str, Any], *, results: Which = True
) -> list[dict[str, Any]]:
    """Compare every file of the run at `path`, of its result groups those that are looked at, with
    what the manifest says; returns the rows of its complete documents.

    A StoreError names the first file that is missing or is not what was written, and tells how many
    more faults there are; an InputError names one that may not be read.
    """
    head = attributes["manifest"]["rows"]
    waiting = journal_rows(path, head)
    settled = read_rows(path, head, more=bool(waiting), run=attributes["manifest"].get("run", ""))
    found = list(damages(path, attributes, settled, len(waiting), results=results))
    if found:
        more = f" Faults beside it: {len(found) - 1}." if len(found) > 1 else ""
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
    """Yield all damage to files of metadata, of captured and of result groups.

    settled: rows of the documents that lie in shards. waiting: how many stand in the journal.
    """
    manifest = attributes["manifest"]
    yield from at_the_root(path, manifest)
    written = list(unlike(path, manifest["layout"], MEASURE_AGAIN))
    yield from written
    if not written:
        yield from _of_documents(path, manifest, settled, waiting)
    for group, files in looked_at(manifest, results).items():
        remedy = FIT_AGAIN.format(path=path)
        yield from unlike(path, files, remedy)
        yield from strangers(path / group, {(path / name).as_posix() for name in files}, remedy)


def at_the_root(path: Path, manifest: Mapping[str, Any]) -> Iterator[Damage]:
    """Yield what stands in the run's own folder and does not belong there; hidden files, such as
    systems leave, may.
    """
    groups = (*manifest["captured"], *manifest["results"])
    known = {ROOT, ROWS_BEFORE, *(name.partition("/")[0] for name in groups)}
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
    """Return the arrays that have a shard for documents: name, and dimensions."""
    return [(name, len(shape)) for name, shape in by_document(path, layout) if all(shape[1:])]


def _of_documents(
    path: Path, manifest: Mapping[str, Any], settled: list[dict[str, Any]], waiting: int
) -> Iterator[Damage]:
    """Yield damage to shards, and files that no shard is."""
    arrays = arrays_of(path, manifest["layout"])
    for shard in shards_of(range(len(settled))):
        yield from _of_shards(path, arrays, shard, settled, waiting)
    yield from strange(path, manifest, len(settled) + waiting)


def strange(path: Path, manifest: Mapping[str, Any], documents: int) -> Iterator[Damage]:
    """Yield the files of captured groups that nobody wrote there."""
    known = {(path / name).as_posix() for name in (*manifest["layout"], ROWS)} | {
        (path / shard_key(name, dims, shard)).as_posix()
        for name, dims in arrays_of(path, manifest["layout"])
        for shard in shards_of(range(documents))
    }
    for group in manifest["captured"]:  # what stands in the journal, it tells itself
        yield from strangers(path / group, known, MEASURE_AGAIN, apart=(path / JOURNAL,))


def _of_shards(
    path: Path,
    arrays: list[tuple[str, int]],
    shard: int,
    settled: list[dict[str, Any]],
    waiting: int,
) -> Iterator[Damage]:
    """Yield damage to the shards of one number: of every array, for the same documents."""
    totals = {document: hashlib.sha256() for document in within(range(len(settled)), shard)}
    told: set[int] = set()
    for name, dims in arrays:
        key = shard_key(name, dims, shard)
        unsound, why = _unsound(path, key, name, totals, more=waiting > 0)
        if unsound:
            yield _damage(path / key, why or _of(settled[unsound[0]]), unsound)
            told.update(unsound)
    for document, total in totals.items():
        if document not in told and total.hexdigest() != settled[document]["digest"]:
            yield _damage(path, _of(settled[document]), [document])


def _unsound(
    path: Path, key: str, name: str, totals: Mapping[int, Any], *, more: bool
) -> tuple[list[int], str]:
    """Take the chunks of a shard into the digests of its documents; returns those whose chunk is
    damaged, and why, where all of them are. `more` documents may be in it.
    """
    unsound = []
    try:
        with reading(path / key):
            if len(lengths(path, key)) > len(totals) and not more:
                return [*totals], CHANGED
            sums = sums_in(path, key, len(totals))
            for (document, total), (found, sound) in zip(totals.items(), sums, strict=True):
                take_in(total, name, found)
                if not sound:
                    unsound.append(document)
    except StoreError:
        return [*totals], CHANGED
    except FileNotFoundError:
        return [*totals], MISSING
    return unsound, ""


def _of(row: Mapping[str, Any]) -> str:
    return f"document {row['name']!r} is not what was written"


def _damage(file: Path, why: str, documents: list[int]) -> Damage:
    return Damage(file=file, why=why, remedy=MEASURE_AGAIN, documents=tuple(documents))


def strangers(
    group: Path, known: Set[str], remedy: str, *, apart: Collection[Path] = ()
) -> Iterator[Damage]:
    """Yield the files of a group that nobody wrote there: they would be read as if they were
    measured. Hidden files, such as systems leave, are not read and may stand there.
    """
    try:
        with reading(group):
            files = files_below(group)
            if group.is_symlink():
                yield Damage(file=group, why=STRANGE, remedy=remedy)
    except FileNotFoundError:  # another process may move the group while it is listed
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
