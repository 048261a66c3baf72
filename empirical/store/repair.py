"""Repair of what was measured: what is damaged is measured again and put back, every byte as the
digests of the manifest tell it.

Nothing but damaged files is replaced, each in one step by one that is what was written. So a repair
that is interrupted leaves less damage than it found, never more. Imports the journal and the
manifest; how documents are measured again it is told.
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
from empirical.store.bundle import clear_away
from empirical.store.disk import flush_all, reading, writing
from empirical.store.integrity import (
    STRANGE,
    arrays_of,
    at_the_root,
    damages,
    strange,
    strangers,
    unlike,
)
from empirical.store.journal import (
    FOLDER,
    NAME,
    chain_of,
    chunk_digest,
    damaged_entries,
    enter,
    entry_of,
    name_of,
    take_in,
)
from empirical.store.manifest import (
    FRESH,
    MEASURE_AGAIN,
    UNFINISHED,
    beside,
    digest,
    files_below,
    give_up,
    read_root,
)
from empirical.store.rows import FILE, append_rows, link, no_rows, read_rows
from empirical.store.settling import settle
from empirical.store.shards import (
    DOCUMENTS,
    chunk_at,
    lengths,
    parts,
    shard_key,
    shards_of,
    sound_chunks,
    within,
)

OTHER: Final = (
    "{what}: measured again, it is not what was written. Another processor, another number of"
    f" threads or other libraries compute other bits: restore it from a copy, or measure the run"
    f" again with {FRESH}."
)


class Again(Protocol):
    """Who measures documents again, by their places."""

    def rows(self) -> list[dict[str, Any]]:
        """What a run records of every document, but its digest."""

    def measured(self, documents: Sequence[int]) -> Measured:
        """Measure at least these."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Documents that were measured again, settled in a store of their own."""

    path: Path
    rows: Sequence[dict[str, Any]]
    places: Mapping[int, int]
    """Where each stands there, by its place in the run."""

    def row(self, document: int) -> dict[str, Any]:
        """Return what a run records of a document."""
        return self.rows[self.places[document]]

    def chunk(self, name: str, dims: int, document: int) -> bytes:
        """Return a document's chunk of an array."""
        shard, slot = divmod(self.places[document], DOCUMENTS)
        return chunk_at(self.path, shard_key(name, dims, shard), slot)


NOTHING: Final = Measured(Path(), (), {})
"""Where nothing had to be measured."""


@dataclass(slots=True)
class Repair:
    """The repair of the run at `path`, by who holds its lock; `mended` tells what was done."""

    path: Path
    again: Again
    attributes: dict[str, Any] = field(init=False)
    mended: list[str] = field(default_factory=list)

    def captured(self) -> list[str]:
        """Put back what was measured; returns what was done.

        Raises:
            StoreError: if the manifest is damaged, or what is measured again is not what was
                written.
            InputError: if the disk is full or refuses, or the documents cannot be measured.
        """
        if give_up(self.path):
            self.mended.append(
                f"{self.path}: results that a stopped command put in place: given up"
            )
        self.attributes = read_root(self.path)
        with writing(self.path):
            self._set_aside_what_is_none()
            self._layout()
            waiting, entered = damaged_entries(self.path, self._manifest["rows"])
            self._set_aside(self._settled + len(waiting))
            self._documents(entered, waiting)
            settle(self.path)
        self.attributes = read_root(self.path)
        rows = read_rows(self.path, self._manifest["rows"], more=False, run=self._run)
        for damage in damages(self.path, self.attributes, rows, 0, results=False):
            raise StoreError(str(damage))
        return self.mended

    @property
    def _manifest(self) -> dict[str, Any]:
        return self.attributes["manifest"]

    @property
    def _run(self) -> str:
        return str(self._manifest.get("run", ""))

    @property
    def _settled(self) -> int:
        return int(self._manifest["rows"]["count"])

    def _layout(self) -> None:
        """Put back metadata and coordinates, as they are laid out for any document."""
        written = self._manifest["layout"]
        names = [
            damage.file.relative_to(self.path).as_posix()
            for damage in unlike(self.path, written, MEASURE_AGAIN)
        ]
        if not names:
            return
        fresh = self.again.measured([0])
        for name in names:
            source = fresh.path / name
            if not source.is_file() or digest(fresh.path, name) != written[name]:
                raise StoreError(OTHER.format(what=self.path / name))
        self._put(names, lambda name, draft: shutil.copyfile(fresh.path / name, draft))

    def _documents(self, entered: Sequence[int], names: Sequence[str]) -> None:
        """Measure damaged documents again, `entered` ones of the journal, and put shards, rows and
        journal right. names: of the journal's files, "" of one that is missing.
        """
        arrays = arrays_of(self.path, self._manifest["layout"])
        try:
            rows = read_rows(self.path, self._manifest["rows"], more=True, run=self._run)
        except StoreError:
            rows = None
        whole = self._sound(arrays)
        bad = [
            document
            for document in range(self._settled)
            if document not in whole or (rows and rows[document]["digest"] != whole[document])
        ]
        fresh = self.again.measured([*bad, *entered]) if bad or entered else NOTHING
        for document in bad:
            row = fresh.row(document)
            whole[document] = row["digest"]
            if rows and rows[document]["digest"] != row["digest"]:
                raise StoreError(OTHER.format(what=f"{self.path}: document {row['name']!r}"))
        if rows is None:
            self._rows(whole)
        for shard in shards_of(range(self._settled)):
            self._shards(arrays, shard, fresh, set(bad))
        chain = self._manifest["rows"]["chain"]
        for index, name in enumerate(names, start=self._settled):
            if index in entered:
                chunks = {name: fresh.chunk(name, dims, index) for name, dims in arrays}
                entry = entry_of(fresh.row(index), chunks)
                held = name_of(index, link(chain, entry.row))
                if name and name != held:
                    raise StoreError(
                        OTHER.format(what=f"{self.path}: document {entry.row['name']!r}")
                    )
                self._make_room(self.path / FOLDER / held)
                enter(self.path, index, chain, entry)
                name = held
            chain = chain_of(name)
        for document in (*bad, *entered):
            self.mended.append(f"document {fresh.row(document)['name']!r}: measured again")

    def _sound(self, arrays: Sequence[tuple[str, int]]) -> dict[int, str]:
        """Digest every document of the shards all of whose chunks end in their checksums."""
        found: dict[int, str] = {}
        for shard in shards_of(range(self._settled)):
            documents = within(range(self._settled), shard)
            totals = {document: hashlib.sha256() for document in documents}
            for name, dims in arrays:
                key = shard_key(name, dims, shard)
                with reading(self.path / key):
                    chunks = sound_chunks(self.path, key, len(documents))
                    for document, chunk in zip(documents, chunks, strict=True):
                        if chunk is None:
                            totals.pop(document, None)
                        elif document in totals:
                            take_in(totals[document], name, chunk_digest(chunk))
            found |= {document: total.hexdigest() for document, total in totals.items()}
        return found

    def _rows(self, whole: Mapping[int, str]) -> None:
        """Write the rows of the documents again, from the text and the chunks."""
        told = self.again.rows()[: self._settled]
        rows = [row | {"digest": whole[at]} for at, row in enumerate(told)]
        ready = beside(self.path, "ready")
        clear_away(ready)
        try:
            if append_rows(ready, no_rows(self._run), rows) != (self._manifest["rows"]):
                raise StoreError(OTHER.format(what=self.path / FILE))
            self._put([FILE], lambda name, draft: shutil.copyfile(ready / name, draft))
        finally:
            clear_away(ready)

    def _shards(
        self, arrays: Sequence[tuple[str, int]], shard: int, fresh: Measured, bad: set[int]
    ) -> None:
        """Write those shards of one number again that are not what was written."""
        documents = within(range(self._settled), shard)
        named = {shard_key(name, dims, shard): (name, dims) for name, dims in arrays}

        def is_sound(key: str) -> bool:
            try:
                held = len(lengths(self.path, key))
                return held >= len(documents) and all(
                    chunk_at(self.path, key, document % DOCUMENTS)
                    == fresh.chunk(*named[key], document)
                    for document in documents
                    if document in bad
                )
            except (StoreError, OSError):
                return False

        def write(key: str, draft: Path) -> None:
            old = sound_chunks(self.path, key, len(documents))
            chunks = (
                fresh.chunk(*named[key], document) if document in bad else chunk
                for document, chunk in zip(documents, old, strict=True)
            )
            with open(draft, "wb") as file:
                file.writelines(parts(chunk for chunk in chunks if chunk is not None))

        self._put([key for key in named if not is_sound(key)], write)

    def _put(self, names: Sequence[str], write: Callable[[str, Path], object]) -> None:
        """Write files beside their places, then move all."""
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
        self.mended += [f"{target}: put back" for _, target in ready]

    def _make_room(self, target: Path) -> None:
        """Set aside what stands where a file or its folders belong and is none."""
        for folder in reversed(target.relative_to(self.path).parents[:-1]):
            there = self.path / folder
            if there.is_symlink() or there.is_file():
                self._move_aside(there)
        if target.is_dir():
            self._move_aside(target)
        target.parent.mkdir(parents=True, exist_ok=True)

    def _set_aside_what_is_none(self) -> None:
        """Set aside links, pipes and the like, and what stands at the root or in the journal and
        is nothing of the run.
        """
        for file in files_below(self.path):
            if not stat.S_ISREG(file.lstat().st_mode):
                self._move_aside(file)
        for damage in at_the_root(self.path, self._manifest):
            self._move_aside(damage.file)
        journal = self.path / FOLDER
        if os.path.lexists(journal) and not journal.is_dir():
            self._move_aside(journal)
        there: set[str] = set()
        for file in sorted(journal.iterdir() if journal.is_dir() else ()):
            match = NAME.fullmatch(file.name)
            if match is None or not file.is_file() or match[1] in there:
                self._move_aside(file)
            else:
                there.add(match[1])

    def _set_aside(self, documents: int) -> None:
        """Set aside the files of captured and of result groups that do not belong there."""
        results = {
            damage.file: damage
            for group, files in self._manifest["results"].items()
            if (self.path / group).is_dir()
            for damage in strangers(
                self.path / group, {(self.path / name).as_posix() for name in files}, ""
            )
        }
        for damage in (*strange(self.path, self._manifest, documents), *results.values()):
            if damage.why == STRANGE:
                self._move_aside(damage.file)

    def _move_aside(self, what: Path) -> None:
        """Move a file or folder into a folder beside the run."""
        place = self.path.with_name(f"{self.path.name}.aside") / what.relative_to(self.path)
        while os.path.lexists(place):
            place = place.with_name(f"{place.name}.again")
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(what, place)
        self.mended.append(f"{what}: does not belong to the run, so it lies in {place.parent} now")
