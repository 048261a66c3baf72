"""Repair of measurements: damaged documents are measured again and restored, verified byte by byte
against the digests of the manifest.

Only damaged files are replaced, each atomically by the original content. An interrupted repair
therefore leaves less damage than before, never more. Imports the journal and the manifest; the
caller provides the measurement.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from empirical.errors import StoreError
from empirical.store import integrity, journal, shards
from empirical.store.disk import flush_all, reading, writing
from empirical.store.manifest import (
    FRESH,
    MEASURE_AGAIN,
    UNFINISHED,
    digest,
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
        """Return the row of every document, without its digest."""

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


NOTHING: Final = Measured(Path(), (), {})
"""The result if nothing had to be measured."""


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
            self._set_aside_what_is_none()
            self._layout()
            waiting = list(journal.entries(self.path, self.manifest["rows"]))
            self._set_aside(self._settled.stop + len(waiting))
            self._documents(waiting)
            settle(self.path)
        attributes = read_root(self.path)
        rows = self._rows_of(attributes["manifest"]["rows"], more=False)
        for damage in integrity.damages(self.path, attributes, rows, 0, results=False):
            raise StoreError(str(damage))
        return self.mended

    @property
    def _settled(self) -> range:
        """Documents in shards."""
        return range(self.manifest["rows"]["count"])

    def _rows_of(self, head: Mapping[str, Any], *, more: bool) -> list[dict[str, Any]]:
        return journal.read_rows(self.path, head, more=more, run=self.manifest.get("run", ""))

    def _layout(self) -> None:
        """Restore metadata and coordinates, from the layout of any document."""
        written = self.manifest["layout"]
        names = [
            damage.file.relative_to(self.path).as_posix()
            for damage in integrity.unlike(self.path, written, MEASURE_AGAIN)
        ]
        if not names:
            return
        fresh = self.again.measured([0])
        for name in names:
            source = fresh.path / name
            if not source.is_file() or digest(fresh.path, name) != written[name]:
                raise StoreError(OTHER.format(what=self.path / name))
        self._put(names, lambda name, draft: shutil.copyfile(fresh.path / name, draft))

    def _documents(self, waiting: Sequence[tuple[str, Any]]) -> None:
        """Restore shards, rows and journal; waiting: `journal.entries`."""
        arrays = integrity.arrays_of(self.path, self.manifest["layout"])
        try:
            rows = self._rows_of(self.manifest["rows"], more=True)
        except StoreError:
            rows = None
        whole = self._sound(arrays)
        bad = [
            document
            for document in self._settled
            if document not in whole or (rows and rows[document]["digest"] != whole[document])
        ]
        entered = [
            index
            for index, (_, row) in enumerate(waiting, self._settled.stop)
            if isinstance(row, StoreError)
        ]
        fresh = self.again.measured([*bad, *entered]) if bad or entered else NOTHING
        for document in bad:
            row = fresh.row(document)
            whole[document] = row["digest"]
            if rows and rows[document]["digest"] != row["digest"]:
                raise self._other_document(row)
        if rows is None:
            self._rows(whole)
        for shard in shards.shards_of(self._settled):
            self._shards(arrays, shard, fresh, set(bad))
        chain = self.manifest["rows"]["chain"]
        for index, (name, _) in enumerate(waiting, self._settled.stop):
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

    def _sound(self, arrays: Sequence[tuple[str, int]]) -> dict[int, str]:
        """Return the digest of every document whose chunks all match their checksums."""
        found: dict[int, str] = {}
        for shard in shards.shards_of(self._settled):
            documents = shards.within(self._settled, shard)
            totals = {document: hashlib.sha256() for document in documents}
            for name, dims in arrays:
                key = shards.shard_key(name, dims, shard)
                with reading(self.path / key):
                    try:
                        held = shards.found_lengths(self.path, key, len(documents))
                        sums = list(shards.sums_in(self.path, key, held))
                    except (StoreError, FileNotFoundError):
                        totals.clear()
                        break
                for document, (digest_of_chunk, sound) in zip(documents, sums, strict=True):
                    if not sound:
                        totals.pop(document, None)
                    elif document in totals:
                        totals[document].update(name.encode() + digest_of_chunk)
            found |= {document: total.hexdigest() for document, total in totals.items()}
        return found

    def _rows(self, whole: Mapping[int, str]) -> None:
        """Write the rows of the documents again, from texts and chunks."""
        rows = [
            row | {"digest": whole[document]}
            for document, row in enumerate(self.again.rows()[: self._settled.stop])
        ]
        lines, head = journal.lines_of(journal.no_rows(self.manifest.get("run", "")), rows)
        if head != self.manifest["rows"]:
            raise StoreError(OTHER.format(what=self.path / journal.FILE))
        self._put([journal.FILE], lambda name, draft: draft.write_bytes(lines))

    def _shards(
        self, arrays: Sequence[tuple[str, int]], shard: int, fresh: Measured, bad: set[int]
    ) -> None:
        """Write the damaged shards of one number again."""
        documents = shards.within(self._settled, shard)
        named = {shards.shard_key(name, dims, shard): (name, dims) for name, dims in arrays}

        def is_sound(key: str) -> bool:
            try:
                held = shards.lengths(self.path, key)
                return len(held) >= len(documents) and all(
                    shards.chunk_at(self.path, key, held, document - documents.start)
                    == fresh.chunk(*named[key], document)
                    for document in bad.intersection(documents)
                )
            except (StoreError, OSError):
                return False

        def write(key: str, draft: Path) -> None:
            held = shards.found_lengths(self.path, key, len(documents))
            chunks = (
                fresh.chunk(*named[key], document)
                if document in bad
                else shards.chunk_at(self.path, key, held, slot)
                for slot, document in enumerate(documents)
            )
            with open(draft, "wb") as file:
                file.writelines(shards.parts(chunks))

        self._put([key for key in named if not is_sound(key)], write)

    def _put(self, names: Sequence[str], write: Callable[[str, Path], object]) -> None:
        """Write files next to their places, then move all into place."""
        ready: list[tuple[Path, Path]] = []
        for name in names:
            target = self.path / name
            self._make_room(target)
            draft = target.with_name(f"{target.name}{UNFINISHED}")
            write(name, draft)
            ready.append((draft, target))
        flush_all([draft for draft, _ in ready], self.path)
        for draft, target in ready:
            os.replace(draft, target)
        flush_all([target for _, target in ready], self.path)
        self.mended += [f"{target}: restored" for _, target in ready]

    def _make_room(self, target: Path) -> None:
        """Set aside entries of the wrong type at the place of a file or its folders."""
        for folder in reversed(target.relative_to(self.path).parents[:-1]):
            there = self.path / folder
            if there.is_symlink() or there.is_file():
                self._move_aside(there)
        if target.is_dir():
            self._move_aside(target)
        target.parent.mkdir(parents=True, exist_ok=True)

    def _set_aside_what_is_none(self) -> None:
        """Set aside irregular entries, and foreign ones at the root or in the journal."""
        for file in files_below(self.path):
            if not stat.S_ISREG(file.lstat().st_mode):
                self._move_aside(file)
        for damage in integrity.at_the_root(self.path, self.manifest):
            self._move_aside(damage.file)
        folder = self.path / journal.FOLDER
        if os.path.lexists(folder) and not folder.is_dir():
            self._move_aside(folder)
        there: set[str] = set()
        for file in sorted(folder.iterdir() if folder.is_dir() else ()):
            match = journal.NAME.fullmatch(file.name)
            if match is None or not file.is_file() or match[1] in there:
                self._move_aside(file)
            else:
                there.add(match[1])

    def _set_aside(self, documents: int) -> None:
        """Set aside foreign files in captured and result groups."""
        found = list(integrity.strange(self.path, self.manifest, documents))
        for group, files in self.manifest["results"].items():
            if (self.path / group).is_dir():
                known = {(self.path / name).as_posix() for name in files}
                found += integrity.strangers(self.path / group, known, "")
        for damage in found:
            if damage.why == integrity.STRANGE:
                self._move_aside(damage.file)

    def _move_aside(self, what: Path) -> None:
        """Move a file or folder into a folder next to the run."""
        place = self.path.with_name(f"{self.path.name}.aside") / what.relative_to(self.path)
        while os.path.lexists(place):
            place = place.with_name(f"{place.name}.again")
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(what, place)
        self.mended.append(f"{what}: does not belong to the run, moved to {place.parent}")
