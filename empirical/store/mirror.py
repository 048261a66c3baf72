"""Mirror of a run at a URL: what changed of its working copy on this machine is sent there.

An object store has no rename, no flush and no lock, on which a run's safety rests. So a run is
written on a disk, and its files follow once they are whole. A file beside the working copy, its
`origin`, tells where it belongs and what was sent. At the URL `.writer` names the working copy that
is written to, from the first step of a command to its last, and `.stamp` names what stands there:
another one after each send. Source: fsspec's file systems. Imports fsspec on first use.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from platform import node
from typing import TYPE_CHECKING, Any, Final

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
STAMP: Final = ".stamp"
"""What names the state of the run at the URL; while files are sent, `UNDER_WAY` and the sender."""
WRITER: Final = ".writer"
"""What names the working copy that is written to."""
UNDER_WAY: Final = "sending "
MARKS: Final = frozenset({STAMP, WRITER})


def url_of(path: str | Path) -> str | None:
    """Return the URL that a path was given as; None of a path.

    >>> url_of(Path("s3://bucket/run.zarr")), url_of("runs/a.zarr")
    ('s3://bucket/run.zarr', None)
    """
    match = URL.fullmatch(str(path))
    if match is None or os.path.exists(path):
        return None
    protocol, rest = match[1].lower(), match[2]
    return f"{protocol}://{'/' if protocol in ON_DISK else ''}{rest}"


def called(path: Path) -> str:
    """Return what users call a run: its URL, where it is the working copy of one, else its path."""
    origin = origin_of(path)
    return str(path) if origin is None else origin.url


@dataclass(slots=True)
class Origin:
    """Where a working copy belongs, and the state of both when they were last equal.

    token: names this copy; stamp: of the state that stood there, None where nothing did; sending:
    the stamp that a send which was begun will leave; files: when each file here was written, in ns,
    and its bytes; keys: what the file system told of each file that came from there; fetched:
    stamp, files and keys of a state that was about to take the place of this copy.
    """

    url: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    stamp: str | None = None
    sending: str | None = None
    files: dict[str, list[int]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    fetched: dict[str, Any] = field(default_factory=dict)

    def ours(self, stamp: str | None) -> bool:
        """Whether what stands there came from this copy, in a send that may not have ended."""
        known = {self.stamp, self.sending, f"{UNDER_WAY}{self.token}"} - {None}
        return stamp in known or stamp is self.stamp is None

    def save(self, path: Path) -> None:
        """Write it beside the working copy at `path`."""
        draft = beside(path, f"origin.{uuid.uuid4().hex}")  # another reader may write one, too
        with writing(path):
            replace(draft, json.dumps(asdict(self)))
            os.replace(draft, beside(path, "origin"))


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


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Be the one machine that writes to the run at the URL where `path` belongs, and send what
    changed at the end; nothing where `path` is no working copy.

    After an error nothing is sent: what counts was sent before, and what is wrong here shall not
    get there.

    Raises:
        InputError: if the URL cannot be reached, another machine writes there, or did since this
            copy was fetched.
    """
    origin = origin_of(path)
    if origin is None:
        yield
        return
    with Remote.of(origin.url, path) as remote:
        remote.take(origin, path)
    try:
        yield
        send(path)
    finally:
        with suppress(InputError), Remote.of(origin.url, path) as remote:
            if origin.token in (remote.read(WRITER) or ""):
                remote.remove(WRITER)


def send(path: Path) -> None:
    """Send what changed of the run at `path` to where it belongs; nothing where it is no working
    copy, or no run stands there yet. For the one that holds it (`held`).

    Raises:
        InputError: if the URL cannot be reached.
    """
    origin = origin_of(path)
    if origin is None or not (path / ROOT).exists():
        return
    here = files_of(path)
    changed = [name for name, mark in here.items() if origin.files.get(name) != mark]
    gone = [name for name in origin.files if name not in here]
    if not changed and not gone and origin.sending is None:
        return
    origin.sending = uuid.uuid4().hex
    origin.files |= {name: [0, 0] for name in changed}  # where this breaks off they may be there
    origin.save(path)
    with Remote.of(origin.url, path) as remote:
        writer = remote.read(WRITER) or ""
        if origin.token not in writer or not origin.ours(remote.read(STAMP)):
            raise busy(origin.url, writer)  # while this one slept, say
        remote.write(STAMP, f"{UNDER_WAY}{origin.token}")
        # the root last: it names what has arrived; files that go, such as those of documents that
        # were settled, after it
        for names in (sorted({*changed} - {ROOT}), sorted({*changed} & {ROOT})):
            if names:
                there = [remote.at(name) for name in names]
                remote.system.put([str(path / name) for name in names], there)
        for name in gone:
            remote.remove(name)
        remote.write(STAMP, origin.sending)
    origin.files, origin.stamp, origin.sending = here, origin.sending, None
    for name in (*changed, *gone):
        origin.keys.pop(name, None)
    origin.save(path)


def send_all_next(path: Path) -> None:
    """Have the next send send every file, whatever was sent before."""
    origin = origin_of(path)
    if origin is not None:
        origin.files, origin.keys = {name: [0, 0] for name in origin.files}, {}
        origin.save(path)


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

    def take(self, origin: Origin, path: Path) -> None:
        """Say that the working copy at `path` is written to; refuse where another one is, or what
        stands there is not what was fetched.
        """
        writer = self.read(WRITER)
        if writer is None or origin.token in writer:
            self.write(WRITER, f"{node()}:{path} {origin.token}")
            writer = self.read(WRITER)  # another one's, if it began in the same moment
        if writer is None or origin.token not in writer:
            raise busy(origin.url, writer or "")
        if not origin.ours(self.read(STAMP)):
            self.remove(WRITER)
            raise InputError(
                f"{origin.url}: was changed from elsewhere just now. Run the same command again."
            )

    def read(self, name: str) -> str | None:
        """Return the text of a small file; None where there is none."""
        try:
            return bytes(self.system.cat_file(self.at(name))).decode(errors="replace")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        """Write a small file."""
        self.system.pipe_file(self.at(name), text.encode())

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            self.system.rm_file(self.at(name))


def busy(url: str, writer: str) -> InputError:
    """Another machine writes, or was stopped while it did."""
    where = writer.rpartition(" ")[0] or "another machine"
    return InputError(
        f"{url}: is being written from {where}, expected no other. Wait until it ends, or run its"
        f" last command again there; where it is gone for good, remove {url}/{WRITER}."
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "").rstrip(".") or type(error).__name__
