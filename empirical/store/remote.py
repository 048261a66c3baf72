"""Runs at URLs: a run is written into a working copy on this machine, and changes are sent. The
copy is updated by fetching next to it and replacing it as a whole.

Object stores lack the rename, flush and lock that a run's safety needs. Complete files are
therefore sent afterwards, the root's metadata last. `Origin` lies next to a working copy in
geostat's cache (elsewhere such a file is ignored): the URL, and the state in which both were last
equal. Two small marker files lie at the URL. `.writer` names the working copy being written, from
the first to the last step of a command. `.stamp` identifies the state of the run, and changes with
each send. Imports fsspec on first use.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from platform import node
from typing import TYPE_CHECKING, Any, Final

from empirical.caches import place_in_cache
from empirical.errors import InputError
from empirical.store import bundle
from empirical.store.disk import DRAFT, locked, reading, replace, sidecar_path, writing
from empirical.store.manifest import ROOT, below, files_below

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.+)")
"""A protocol of two letters or more (one letter is a drive); a path keeps one of its slashes."""
ON_DISK: Final = frozenset({"file", "local"})
"""Protocols with addresses from the root of a disk."""
UNDER_WAY: Final = "sending "
"""Start of a stamp while files are sent; the token of the working copy follows."""
STAMP: Final = ".stamp"
"""File that identifies the state of the run at the URL; during a send, `UNDER_WAY` and the sender.
"""
WRITER: Final = ".writer"
"""File that names the working copy being written."""
MARKS: Final = frozenset({STAMP, WRITER})
PATIENCE: Final = 20.0
"""Seconds that a reader waits while others send, or fetch here."""
BETWEEN_LOOKS: Final = 0.2


def url_of(path: str | Path) -> str | None:
    """Return the URL in a path; None if it is a plain path.

    >>> url_of(Path("s3://bucket/run.zarr")), url_of("runs/a.zarr")
    ('s3://bucket/run.zarr', None)
    """
    match = URL.fullmatch(str(path))
    if match is None or os.path.exists(path):
        return None
    protocol, rest = match[1].lower(), match[2]
    return f"{protocol}://{'/' if protocol in ON_DISK else ''}{rest}"


def called(path: Path) -> str:
    """Return the name of a run for messages: the URL of a working copy, else its path."""
    origin = origin_of(path)
    return str(path) if origin is None else origin.url


@dataclass(slots=True)
class Origin:
    """URL of a working copy, and the state of both when they were last equal.

    token: identifies this copy; stamp: of the state at the URL, None if there was none; sending:
    stamp that a started send will leave; files: modification time in ns and size of each local
    file; keys: the file system's description of each fetched file; whole: whether the next send
    must send every file; fetched: stamp, files and keys of a state that was about to replace this
    copy.
    """

    url: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    stamp: str | None = None
    sending: str | None = None
    files: dict[str, list[int]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    whole: bool = False
    fetched: dict[str, Any] = field(default_factory=dict)

    def ours(self, stamp: str | None) -> bool:
        """Return whether the state at the URL came from this copy, perhaps in part."""
        known = {self.stamp, self.sending, f"{UNDER_WAY}{self.token}"} - {None}
        return stamp in known or stamp is self.stamp is None

    def save(self, path: Path) -> None:
        """Write it next to the working copy at `path`."""
        with writing(path):
            replace(sidecar_path(path, "origin"), json.dumps(asdict(self)))


def copies() -> Path:
    """Return the folder of all working copies on this machine."""
    return place_in_cache("runs")


def origin_of(path: Path) -> Origin | None:
    """Return the origin of a working copy, None for other runs; an InputError if it is damaged."""
    file = sidecar_path(path, "origin")
    if not os.path.exists(file) or not path.resolve().is_relative_to(copies().resolve()):
        return None
    try:
        with reading(file):
            return Origin(**bundle.parsed(bundle.content(file.parent, file.name)))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{file}: is damaged, expected the origin of the run next to it. Remove the folder"
            f" {path.parent}: the run is fetched again."
        ) from error


def files_of(path: Path) -> dict[str, list[int]]:
    """Return modification time (ns) and size of every complete file of a run and of its record."""
    record = path.with_suffix(".json")
    named = {below(file, path): file for file in files_below(path) if not file.name.endswith(DRAFT)}
    if record.exists():
        named[f"../{record.name}"] = record
    found = {name: file.lstat() for name, file in named.items()}
    return {name: [status.st_mtime_ns, status.st_size] for name, status in found.items()}


@dataclass(frozen=True, slots=True)
class Remote:
    """A run at a URL: a file system, and the run's address in it."""

    system: AbstractFileSystem
    base: str

    @classmethod
    @contextmanager
    def of(cls, url: str, path: Path) -> Iterator[Remote]:
        """Yield the run at `url`, with working copy `path`; errors become one line."""
        try:
            from fsspec.core import url_to_fs

            system, base = url_to_fs(url)
            system.invalidate_cache()  # another machine may have written since
            if hasattr(system, "auto_mkdir"):
                system.auto_mkdir = True  # on a disk: create folders on demand
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
        except Exception as error:  # each file system raises different errors
            raise InputError(
                f"{url}: failed ({_first_line(error)}). Check the address, the network and your"
                f" credentials, then run the same command again: completed work is kept in {path}."
            ) from error

    def at(self, name: str) -> str:
        """Return the address of a file, which may be the record next to the run."""
        if name.startswith("../"):
            return f"{self.base.rpartition('/')[0]}/{name[3:]}"
        return f"{self.base}/{name}"

    def take(self, origin: Origin, path: Path) -> None:
        """Mark the working copy at `path` as being written; refuse if another copy is, or if the
        state at the URL is not the fetched one.
        """
        stamp, writer = self.read(STAMP), self.read(WRITER)
        if writer is None or origin.token in writer:
            if stamp is None and self.names():
                raise InputError(
                    f"{origin.url}: holds files that are no run of geostat, expected an empty"
                    " place. Name another URL."
                )
            self.write(WRITER, f"{node()}:{path} {origin.token}")
            writer = self.read(WRITER)  # may name another copy that began at the same moment
        if writer is None or origin.token not in writer:
            raise busy(origin.url, writer or "", stamp)
        if not origin.ours(self.read(STAMP)):
            self.remove(WRITER)
            raise InputError(
                f"{origin.url}: was just changed from elsewhere. Run the same command again."
            )

    def let_go(self, origin: Origin) -> None:
        """Unmark the working copy; after an incomplete send the mark shows who must continue."""
        broken = (self.read(STAMP) or "").startswith(UNDER_WAY)
        if not broken and origin.token in (self.read(WRITER) or ""):
            self.remove(WRITER)

    def names(self) -> dict[str, Mapping[str, Any]]:
        """Return every file of the run, with its description, except its record and marks; an
        InputError for a name that could not exist in a local folder.
        """
        found = {
            name[len(self.base) + 1 :]: info
            for name, info in self.system.find(self.base, detail=True).items()
        }
        for name, info in found.items():
            if {"", ".", ".."} & {*name.split("/")}:
                raise InputError(
                    f"{self.base}: holds a file named {name!r}, expected files of a run. Remove it."
                )
            if not is_file(info):
                raise InputError(
                    f"{self.base}: holds {name!r}, which is a link or no file, expected files of a"
                    " run. Remove it."
                )
        return {name: info for name, info in found.items() if name not in MARKS}

    def read(self, name: str) -> str | None:
        """Return the text of a small file; None if it is missing."""
        try:
            return bytes(self.system.cat_file(self.at(name))).decode(errors="replace")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        """Write a small file."""
        self.system.pipe_file(self.at(name), text.encode())

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        with suppress(FileNotFoundError):
            self.system.rm_file(self.at(name))


def is_file(info: Mapping[str, Any]) -> bool:
    """Return whether a file system describes a regular file, not a link, pipe or device."""
    return info.get("type", "file") == "file" and not info.get("islink")


def busy(url: str, writer: str, stamp: str | None) -> InputError:
    """Return the error that another machine writes, or was stopped while writing."""
    where = writer.rpartition(" ")[0] or "another machine"
    remedy = (
        "the run there is a mixture of two states: remove it and measure again"
        if (stamp or "").startswith(UNDER_WAY)
        else f"remove {url}/{WRITER}"
    )
    return InputError(
        f"{url}: is being written from {where}, expected no other. Wait until it ends, or"
        " run its last command again"
        f" there; if it no longer exists, {remedy}."
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "").rstrip(".") or type(error).__name__


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the run at the URL of the working copy `path` against other machines, and send changes
    at the end; does nothing for other paths.

    Nothing is sent after an error: complete documents were already sent, and faults must not be.

    Raises:
        InputError: the URL cannot be reached, or another machine writes there, or did since this
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
            remote.let_go(origin)


def send(path: Path) -> None:
    """Send the changes of the working copy `path`, for its holder (`held`); does nothing for other
    paths or without a run.
    """
    origin = origin_of(path)
    if origin is None or not (path / ROOT).exists():
        return
    here = files_of(path)
    changed = [name for name in here if origin.whole or origin.files.get(name) != here[name]]
    gone = [name for name in origin.files if name not in here]
    if not changed and not gone and origin.sending is None:
        return
    with Remote.of(origin.url, path) as remote:
        stamp, writer = remote.read(STAMP), remote.read(WRITER) or ""
        if origin.token not in writer or not origin.ours(stamp):
            raise busy(origin.url, writer, stamp)  # another machine took over while this one slept
        if origin.whole:
            gone += [name for name in remote.names() if name not in here and name not in gone]
        if stamp is not None and stamp == origin.sending:
            origin.stamp = stamp  # that send ended except for its final record
        origin.sending = uuid.uuid4().hex
        # after an interruption they may exist there
        origin.files |= {name: [0, 0] for name in changed}
        origin.save(path)
        remote.write(STAMP, f"{UNDER_WAY}{origin.token}")
        # the root last, once its files have arrived; removals, as of settled documents, after it
        for names in (sorted({*changed} - {ROOT}), sorted({*changed} & {ROOT})):
            if names:
                there = [remote.at(name) for name in names]
                remote.system.put([str(path / name) for name in names], there)
        for name in gone:
            remote.remove(name)
        remote.write(STAMP, origin.sending)
    origin.files, origin.stamp, origin.sending, origin.whole = here, origin.sending, None, False
    for name in (*changed, *gone):
        origin.keys.pop(name, None)
    origin.save(path)


def send_all_next(path: Path) -> None:
    """Make the next send send every file of a working copy, and remove all others."""
    origin = origin_of(path)
    if origin is not None:
        origin.whole = True
        origin.save(path)


def working_copy(url: str, folder: Path) -> Path:
    """Return the updated working copy in `folder` of the run at `url`; without a run there, the
    path for a new one.

    Raises:
        InputError: the URL cannot be reached, another machine is sending, or both the copy and the
            run at the URL changed.
    """
    path = folder / url.rstrip("/").rpartition("/")[2]
    if origin_of(path) is None:
        refuse_unreachable(url, path)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        Origin(url).save(path)
    until = time.monotonic() + PATIENCE
    while not _up_to_date(path, last=time.monotonic() > until):
        time.sleep(BETWEEN_LOOKS)
    return path


def refuse_unreachable(url: str, path: Path) -> None:
    """Refuse by an InputError an unreachable URL, before its working copy is created at `path`."""
    with Remote.of(url, path) as remote:
        remote.read(STAMP)


def _up_to_date(path: Path, *, last: bool) -> bool:
    """Fetch the differences unless somebody sends or fetches; return whether the copy is up to
    date. The `last` attempt raises an error that names the other process.
    """
    origin = origin_of(path)
    assert origin is not None
    with Remote.of(origin.url, path) as remote:
        stamp, writer = remote.read(STAMP), remote.read(WRITER) or ""
        if stamp is None and remote.read(ROOT) is not None:
            raise InputError(
                f"{origin.url}: holds a run without {STAMP}, which identifies its state. Copy it to"
                " a folder to read it, or name another URL."
            )
    there = (path / ROOT).exists()
    if origin.ours(stamp) and (there or stamp is None):
        return True
    if stamp is not None and stamp.startswith(UNDER_WAY):
        if last:
            raise busy(origin.url, writer, stamp)
        return False
    try:
        with writing(path), locked(path):
            done = _fetched(path, stamp)
    except InputError as error:
        if last or not isinstance(error.__cause__, BlockingIOError):
            raise
        return False
    if last and not done:  # another machine sent during every attempt
        raise busy(origin.url, writer, stamp)
    return done


def _fetched(path: Path, stamp: str | None) -> bool:
    """Fetch the state of this stamp, holding the lock; return whether it is still current."""
    origin = origin_of(path)  # another local process may have fetched or sent meanwhile
    assert origin is not None
    there = (path / ROOT).exists()
    if origin.ours(stamp) and there:
        return True
    here = _counting(files_of(path))
    if origin.fetched and here == _counting(origin.fetched["files"]):
        _take_over(origin, path)  # a fetch was stopped before this last step
        return origin.ours(stamp)
    if stamp is None and there:
        raise InputError(
            f"{origin.url}: no longer holds a run, but its working copy {path} exists. Copy it"
            f" elsewhere to keep it; remove the folder {path.parent} to start again."
        )
    if stamp is None:
        Origin(origin.url, token=origin.token).save(path)  # as if there had never been one
        return True
    if there and (here != _counting(origin.files) or origin.sending is not None):
        raise InputError(
            f"{origin.url}: was changed from elsewhere, and its working copy {path} was changed as"
            f" well. Remove the folder {path.parent} to fetch the run at the URL; copy the folder"
            " first to keep its content."
        )
    ready = sidecar_path(path, "fetched")
    shutil.rmtree(ready, ignore_errors=True)
    try:
        with Remote.of(origin.url, path) as remote:
            keys = _fetch(path, origin, remote, ready)
            if remote.read(STAMP) != stamp:  # changed meanwhile: discard the fetch
                return False
        origin.fetched = {"stamp": stamp, "files": files_of(ready / "run"), "keys": keys}
        origin.save(path)
        aside = sidecar_path(path, "old")  # `lock.recover` restores it after a kill
        shutil.rmtree(aside, ignore_errors=True)
        if path.exists():
            os.replace(path, aside)
        os.replace(ready / "run", path)
        for record in ready.glob("*.json"):
            os.replace(record, path.parent / record.name)
        shutil.rmtree(aside, ignore_errors=True)
    finally:
        shutil.rmtree(ready, ignore_errors=True)
    _take_over(origin, path)
    return True


def _counting(files: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """Return the files without the run's record, which readers also write."""
    return {name: mark for name, mark in files.items() if not name.startswith("../")}


def _take_over(origin: Origin, path: Path) -> None:
    """Record that the copy is the fetched state."""
    origin.stamp, origin.keys = origin.fetched["stamp"], origin.fetched["keys"]
    origin.files, origin.sending, origin.fetched = files_of(path), None, {}
    origin.save(path)


def _fetch(path: Path, origin: Origin, remote: Remote, ready: Path) -> dict[str, str]:
    """Assemble the remote state in `ready`, the run in run/ and its record next to it: unchanged
    files as links to local ones, others by download. Return the description of each.
    """
    system, record = remote.system, f"../{path.with_suffix('.json').name}"
    keys = {name: _key(info) for name, info in remote.names().items()}
    if system.exists(remote.at(record)) and is_file(info := system.info(remote.at(record))):
        keys[record] = _key(info)
    here, wanted = files_of(path), []
    places = {name: ready / "run" / name for name in keys}
    for name, key in keys.items():
        place = places[name]
        place.parent.mkdir(parents=True, exist_ok=True)
        if origin.keys.get(name) == key and name in here and here[name] == origin.files.get(name):
            try:
                os.link(path / name, place)
            except OSError:  # a disk without links
                shutil.copy2(path / name, place)
        else:
            wanted.append(name)
    system.get([remote.at(name) for name in wanted], [str(places[name]) for name in wanted])
    return keys


def _key(info: Mapping[str, Any]) -> str:
    """Return a digest of the file system's description, which changes with the file."""
    described = sorted((str(name), str(value)) for name, value in info.items())
    return hashlib.sha256(repr(described).encode()).hexdigest()
