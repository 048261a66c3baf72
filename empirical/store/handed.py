"""Hand-over: documents that other processes wrote beside a run, to be taken into its journal.

On a disk that they share with the process that writes the run, a document is a file there, and the
run gets it by its name alone. A folder with a sign in it, beside the run, tells who shares it.
Imports the disk and the journal.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from empirical.store.disk import writing
from empirical.store.journal import Entry
from empirical.store.manifest import beside

FOLDER = "handed"
"""What the folder beside the run is called."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder where other processes may write, if they share the disk."""

    folder: Path
    sign: str

    def shared(self) -> bool:
        """Whether this process sees the folder, and may write there as the user whose it is: the
        run's files have one owner.
        """
        try:
            owner = (self.folder / self.sign).stat().st_uid
        except OSError:
            return False
        mine = not hasattr(os, "geteuid") or owner == os.geteuid()
        return mine and os.access(self.folder, os.W_OK)

    def hand_over(self, entry: Entry) -> Entry:
        """Write a document there, flushed, and return it as the run is to take it: by its file. It
        is returned as it is where the disk is not shared.

        Raises:
            InputError: if the disk is full, or refuses.
        """
        if isinstance(entry.data, Path) or not self.shared():
            return entry
        # Of a name that nobody else writes, should the same work be done twice.
        file = self.folder / f"{uuid.uuid4()}.zip"
        try:
            with writing(self.folder), open(file, "xb") as opened:
                opened.write(entry.data)
                opened.flush()
                os.fsync(opened.fileno())
        except BaseException:
            file.unlink(missing_ok=True)
            raise
        return Entry(entry.row, file)


@contextmanager
def place_beside(path: Path) -> Iterator[Place]:
    """Give the place for documents of the run at `path`, which goes with what nobody took."""
    place = Place(beside(path, FOLDER).absolute(), str(uuid.uuid4()))
    with writing(path):
        shutil.rmtree(place.folder, ignore_errors=True)
        place.folder.mkdir(parents=True)
        (place.folder / place.sign).touch()
    try:
        yield place
    finally:
        shutil.rmtree(place.folder, ignore_errors=True)
