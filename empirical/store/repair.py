"""Repair of measurements: damaged documents are measured again and restored, verified byte by byte
against the digests of the manifest.

Only damaged files are replaced, each atomically by the original content. An interrupted repair
therefore leaves less damage than before, never more. Imports the journal and the manifest; the
caller provides the measurement.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from empirical.errors import StoreError
from empirical.store import integrity, journal, shards
from empirical.store.disk import flush_all, writing
from empirical.store.manifest import (
    FRESH,
    MEASURE_AGAIN,
    UNFINISHED,
    below,
    files_below,
    give_up,
    read_root,
)
from empirical.store.shards import settle

OTHER: Final = (
    f"{{what}}: measured again, it differs from what was written. Another processor, another number"
    " of threads or other libraries compute other bits: restore it from a copy, or measure the run"
    f" again with {FRESH}."
)


class Again(Protocol):
    """Measures documents again, by their indices."""

    def rows(self) -> list[dict[str, Any]]:
        """Return the row of every document; its digest, if any, is replaced."""

    def measured(self, documents: Sequence[int]) -> Measured:
        """Measure at least these documents."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Documents that were measured again, settled in a separate store."""

    path: Path
    rows: Sequence[dict[str, Any]]
    places: Mapping[int, int]
    """Index of each document in that store, by its index in the run."""

    def row(self, document: int) -> dict[str, Any]:
        """Return a run's record of a document."""
        return self.rows[self.places[document]]

    def chunk(self, name: str, dims: int, document: int) -> bytes:
        """Return a document's chunk of an array."""
        shard, slot = divmod(self.places[document], shards.DOCUMENTS)
        key = shards.shard_key(name, dims, shard)
        return shards.chunk_at(self.path, key, shards.lengths(self.path, key), slot)


@dataclass(slots=True)
class Repair:
    """Repair of the run at `path`, by the holder of its lock; `mended` lists the repairs."""

    path: Path
    again: Again
    manifest: dict[str, Any] = field(init=False)
    mended: list[str] = field(default_factory=list)

    def captured(self) -> list[str]:
        """Restore the measurements; return the list of repairs.

        Raises:
            StoreError: the manifest is damaged, or a new measurement differs from what was written.
            InputError: the disk is full or fails, or the documents cannot be measured.
        """
        if give_up(self.path):
            self.mended.append(f"{self.path}: unfinished results of a stopped command: discarded")
        self.manifest = read_root(self.path)["manifest"]
        with writing(self.path):
            self._set_aside_irregular()
            self._layout()
            waiting = list(journal.entries(self.path, self.manifest["rows"]))
            documents = self.manifest["rows"]["count"] + len(waiting)
            for damage in integrity.strange(self.path, self.manifest, documents, results=True):
                self._set_aside(damage.file)
            self._documents(waiting)
            settle(self.path)
        integrity.check(self.path, read_root(self.path), results=False)
        return self.mended

    def _layout(self) -> None:
        """Restore metadata and coordinates, from the layout of any document."""
        written = self.manifest["layout"]
        names = [
            below(damage.file, self.path)
            for damage in integrity.unlike(self.path, written, MEASURE_AGAIN)
        ]
        if not names:
            return
        fresh = self.again.measured([0])
        wanted = {name: written[name] for name in names}
        for damage in integrity.unlike(fresh.path, wanted, ""):
            raise StoreError(OTHER.format(what=self.path / below(damage.file, fresh.path)))
        for name in names:
            self._put(name, [(fresh.path / name).read_bytes()])

    def _documents(self, waiting: Sequence[tuple[str, Any]]) -> None:
        """Restore shards, rows and journal; waiting: `journal.entries`."""
        head = self.manifest["rows"]
        settled = range(head["count"])
        try:
            run = self.manifest.get("run", "")
            rows = journal.read_rows(self.path, head, more=True, run=run)
        except StoreError:
            rows = None
        whole: dict[int, str] = {}
        found = integrity.of_shards(self.path, self.manifest, settled, whole, more=bool(waiting))
        damaged = {damage.file for damage in found}
        bad = [
            document
            for document in settled
            if document not in whole or (rows and rows[document]["digest"] != whole[document])
        ]
        entered = [
            index
            for index, (_, row) in enumerate(waiting, settled.stop)
            if isinstance(row, StoreError)
        ]
        fresh = Measured(Path(), (), {})
        if bad or entered:
            fresh = self.again.measured([*bad, *entered])
        for document in bad:
            row = fresh.row(document)
            whole[document] = row["digest"]
            if rows and rows[document]["digest"] != row["digest"]:
                raise self._other_document(row)
        if rows is None:
            self._rows(whole)
        arrays = integrity.arrays_of(self.path, self.manifest)
        for shard in shards.shards_of(settled):
            for name, dims in arrays:
                sound = self.path / shards.shard_key(name, dims, shard) not in damaged
                documents = shards.within(settled, shard)
                self._shard(name, dims, documents, fresh, {*bad}, sound=sound)
        chain = head["chain"]
        for index, (name, _) in enumerate(waiting, settled.stop):
            if index in entered:
                chunks = {name: fresh.chunk(name, dims, index) for name, dims in arrays}
                entry = journal.entry_of(fresh.row(index), chunks)
                held = journal.name_of(index, journal.link(chain, entry.row))
                if name and name != held:
                    raise self._other_document(entry.row)
                self._make_room(self.path / journal.FOLDER / held)
                journal.enter(self.path, index, chain, entry)
                name = held
            chain = journal.chain_of(name)
        for document in (*bad, *entered):
            self.mended.append(f"document {fresh.row(document)['name']!r}: measured again")

    def _other_document(self, row: Mapping[str, Any]) -> StoreError:
        return StoreError(OTHER.format(what=f"{self.path}: document {row['name']!r}"))

    def _rows(self, whole: Mapping[int, str]) -> None:
        """Write the rows of the documents again, from texts and chunks."""
        rows = [
            row | {"digest": whole[document]}
            for document, row in enumerate(self.again.rows()[: self.manifest["rows"]["count"]])
        ]
        lines, head = journal.lines_of(journal.no_rows(self.manifest.get("run", "")), rows)
        if head != self.manifest["rows"]:
            raise StoreError(OTHER.format(what=self.path / journal.FILE))
        self._put(journal.FILE, [lines])

    def _shard(
        self, name: str, dims: int, documents: range, fresh: Measured, bad: set[int], *, sound: bool
    ) -> None:
        """Write a shard of these documents, with fresh chunks of the bad ones, unless it is `sound`
        and holds these chunks.
        """
        key = shards.shard_key(name, dims, documents.start // shards.DOCUMENTS)
        held = shards.found_lengths(self.path, key, len(documents))

        def stored(document: int) -> bytes:
            return shards.chunk_at(self.path, key, held, document - documents.start)

        def chunk(document: int) -> bytes:
            return fresh.chunk(name, dims, document) if document in bad else stored(document)

        hit = bad.intersection(documents)
        if not sound or any(stored(document) != chunk(document) for document in hit):
            self._put(key, shards.parts(map(chunk, documents)))

    def _put(self, name: str, content: Iterable[bytes]) -> None:
        """Write a file next to its place, then move it there."""
        target = self.path / name
        self._make_room(target)
        draft = target.with_name(f"{target.name}{UNFINISHED}")
        with open(draft, "wb") as file:
            file.writelines(content)
        flush_all([draft], self.path)
        os.replace(draft, target)
        flush_all([target], self.path)
        self.mended.append(f"{target}: restored")

    def _make_room(self, target: Path) -> None:
        """Set aside entries of the wrong type at the place of a file or its folders."""
        for folder in reversed(target.relative_to(self.path).parents[:-1]):
            there = self.path / folder
            if there.is_symlink() or there.is_file():
                self._set_aside(there)
        if target.is_dir():
            self._set_aside(target)
        target.parent.mkdir(parents=True, exist_ok=True)

    def _set_aside_irregular(self) -> None:
        """Set aside links, pipes and devices, and what does not belong to the journal."""
        for file in files_below(self.path):
            if not stat.S_ISREG(file.lstat().st_mode):
                self._set_aside(file)
        folder = self.path / journal.FOLDER
        if os.path.lexists(folder) and not folder.is_dir():
            self._set_aside(folder)
        for name in journal.listed(self.path)[1]:
            self._set_aside(folder / name)

    def _set_aside(self, what: Path) -> None:
        """Move a file or folder into a folder next to the run."""
        place = self.path.with_name(f"{self.path.name}.aside") / what.relative_to(self.path)
        while os.path.lexists(place):
            place = place.with_name(f"{place.name}.again")
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(what, place)
        self.mended.append(f"{what}: does not belong to the run, moved to {place.parent}")
