"""Mirror of a run at a URL: what changed of its working copy on this machine is sent there.

An object store has no rename, no flush and no lock, on which a run's safety rests. So a run is
written on a disk, and its files follow once they are whole, the root's metadata last. A file beside
the working copy, its `origin`, tells where it belongs and what was sent. `lock.alone` sends what a
process changed as it ends, a capture what it kept, document by document.
Source: fsspec's file systems. Imports fsspec on first use.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from platform import node
from typing import TYPE_CHECKING, Final

from empirical.errors import InputError
from empirical.store.disk import DRAFT, reading, replace, writing
from empirical.store.manifest import below, beside, files_below

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.+)")
"""A protocol of two letters or more (one is a drive's), of whose slashes a path keeps one."""
ON_DISK: Final = frozenset({"file", "local"})
"""Protocols whose addresses begin at the root of a disk."""
ROOT: Final = "zarr.json"
SENDING: Final = ".sending"
"""What stands at the URL while files are sent: it names the working copy that they come from."""


def url_of(path: str | Path) -> str | None:
    """Return the URL that a path was given as; None of a path.

    >>> url_of(Path("s3://bucket/run.zarr")), url_of("runs/a.zarr")
    ('s3://bucket/run.zarr', None)
    """
    match = URL.fullmatch(str(path))
    if match is None or os.path.exists(path):
        return None
    protocol, rest = match.groups()
    return f"{protocol}://{'/' if protocol in ON_DISK else ''}{rest}"


def called(path: Path) -> str:
    """Return what users call a run: its URL, where it is the working copy of one, else its path."""
    origin = origin_of(path)
    return str(path) if origin is None else origin.url


@dataclass(slots=True)
class Origin:
    """Where a working copy belongs, and what both held when they were last alike.

    root: sha256 of the root's metadata there, None where none stood; files: when each file here was
    written, in ns, and its bytes; keys: what the file system told of each file that came from
    there; token: names this copy.
    """

    url: str
    root: str | None = None
    files: dict[str, list[int]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def save(self, path: Path) -> None:
        """Write it beside the working copy at `path`."""
        with writing(path):
            replace(beside(path, "origin"), json.dumps(asdict(self)))


def origin_of(path: Path) -> Origin | None:
    """Read where the run at `path` belongs; None where it is no working copy.

    Raises:
        InputError: if what tells that is damaged.
    """
    file = beside(path, "origin")
    if not os.path.exists(file):  # nor where no file can be
        return None
    try:
        with reading(file):
            return Origin(**json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{file}: is damaged, expected where the run beside it belongs."
            f" Remove the folder {path.parent}: the run is fetched anew."
        ) from error


def files_of(path: Path) -> dict[str, list[int]]:
    """Return every whole file of a run and its record beside it: when written, in ns, and bytes."""
    record = path.with_suffix(".json")
    named = {below(file, path): file for file in files_below(path) if not file.name.endswith(DRAFT)}
    if record.exists():
        named[f"../{record.name}"] = record
    return {
        name: [status.st_mtime_ns, status.st_size]
        for name, status in ((name, file.stat()) for name, file in named.items())
    }


def send(path: Path) -> None:
    """Send what changed of the run at `path` to where it belongs; nothing where it is no working
    copy, or no run stands there yet. For the one process that writes to it.

    Raises:
        InputError: if the URL cannot be reached, or another machine wrote there.
    """
    origin = origin_of(path)
    if origin is None or not (path / ROOT).exists():
        return
    here = files_of(path)
    changed = [name for name, mark in here.items() if origin.files.get(name) != mark]
    gone = [name for name in origin.files if name not in here]
    if not changed and not gone:
        return
    with Remote.of(origin.url, path) as remote:
        sender = remote.sender()
        if sender is not None and origin.token not in sender:
            raise busy(origin.url, sender)
        if sender is None and remote.root() != origin.root:
            raise both_changed(path, origin.url)
        remote.system.pipe_file(remote.at(SENDING), f"{node()}:{path} {origin.token}".encode())
        # the root last: it names what has arrived; files that go, such as those of documents that
        # were settled, after it
        for names in (sorted({*changed} - {ROOT}), sorted({*changed} & {ROOT})):
            if names:
                there = [remote.at(name) for name in names]
                remote.system.put([str(path / name) for name in names], there)
        for name in gone:
            with suppress(FileNotFoundError):
                remote.system.rm_file(remote.at(name))
        origin.files, origin.root = here, digest((path / ROOT).read_bytes())
        for name in (*changed, *gone):
            origin.keys.pop(name, None)
        origin.save(path)
        remote.done()


@dataclass(frozen=True, slots=True)
class Remote:
    """A run at a URL: a file system, and the run's address in it."""

    system: AbstractFileSystem
    base: str

    @classmethod
    @contextmanager
    def of(cls, url: str, path: Path) -> Iterator[Remote]:
        """Give the run at `url`, of which `path` is the working copy; one line where it refuses."""
        try:
            from fsspec.core import url_to_fs

            system, base = url_to_fs(url)
            system.invalidate_cache()  # another machine may have written since
            if hasattr(system, "auto_mkdir"):
                system.auto_mkdir = True  # of a disk: its folders are made as they are needed
            yield cls(system, str(base).rstrip("/"))
        except InputError:
            raise
        except ImportError as error:
            raise InputError(
                f"{url}: cannot be reached without another package. {_first_line(error)}."
            ) from error
        except ValueError as error:
            raise InputError(
                f"{url}: is no address of a run ({_first_line(error)}), expected a folder, or a URL"
                " such as s3://BUCKET/run.zarr. Check it."
            ) from error
        except Exception as error:  # each file system has errors of its own
            raise InputError(
                f"{url}: failed ({_first_line(error)}). Check the address, the network and your"
                f" credentials, then run the same again: what is complete is kept in {path}."
            ) from error

    def at(self, name: str) -> str:
        """Return the address of a file, which may be the record beside the run."""
        if name.startswith("../"):
            return f"{self.base.rpartition('/')[0]}/{name[3:]}"
        return f"{self.base}/{name}"

    def root(self) -> str | None:
        """Return the digest of the root's metadata; None where none stands."""
        data = self._read(ROOT)
        return None if data is None else digest(data)

    def sender(self) -> str | None:
        """Return what names the working copy that is being sent; None where none is."""
        data = self._read(SENDING)
        return None if data is None else data.decode(errors="replace")

    def done(self) -> None:
        """Say that nothing is being sent."""
        with suppress(FileNotFoundError):
            self.system.rm_file(self.at(SENDING))

    def _read(self, name: str) -> bytes | None:
        try:
            return bytes(self.system.cat_file(self.at(name)))
        except FileNotFoundError:
            return None


def digest(data: bytes) -> str:
    """Return the sha256 of a file."""
    return hashlib.sha256(data).hexdigest()


def busy(url: str, sender: str) -> InputError:
    """Another machine is sending, or was stopped while it did."""
    where = sender.rpartition(" ")[0] or "one that does not tell its name"
    return InputError(
        f"{url}: is being written from {where}, or that was stopped half-way. Wait, or run the last"
        f" command again there; where that is gone for good, remove {url}/{SENDING}."
    )


def both_changed(path: Path, url: str) -> InputError:
    """The working copy and the run at its URL were changed apart."""
    return InputError(
        f"{url}: was changed or removed by others since it was last alike with the working copy"
        f" {path}. Remove the folder {path.parent} to take what stands there; to keep the copy,"
        " move it elsewhere first."
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "").rstrip(".") or type(error).__name__
