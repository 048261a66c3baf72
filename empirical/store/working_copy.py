"""Working copy of a run that stands at a URL: found in a folder of this machine, and brought up to
date: fetched beside it, then put into its place as a whole. Imports fsspec on first use.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from empirical.errors import InputError
from empirical.store.disk import writing
from empirical.store.lock import locked
from empirical.store.manifest import beside
from empirical.store.remote.address import ROOT, STAMP, WRITER, Remote, busy, is_file
from empirical.store.remote.origin import UNDER_WAY, Origin, files_of, origin_of

PATIENCE: Final = 20.0
"""Seconds for which a reader waits until nobody sends, or fetches here."""
BETWEEN_LOOKS: Final = 0.2


def working_copy(url: str, folder: Path) -> Path:
    """Return the working copy in `folder` of the run at `url`, brought up to date; where no run
    stands there, the place for one that is to be sent there.

    Raises:
        InputError: if the URL cannot be reached, another machine is sending, or the copy and what
            stands there were both changed.
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
    """Refuse by an InputError a URL that cannot be reached, before its working copy is made at
    `path`.
    """
    with Remote.of(url, path) as remote:
        remote.read(STAMP)


def _up_to_date(path: Path, *, last: bool) -> bool:
    """Fetch what differs, unless somebody sends or fetches; say whether the copy is up to date. At
    the `last` try who is in the way is told.
    """
    origin = origin_of(path)
    assert origin is not None
    with Remote.of(origin.url, path) as remote:
        stamp, writer = remote.read(STAMP), remote.read(WRITER) or ""
        if stamp is None and remote.read(ROOT) is not None:
            raise InputError(
                f"{origin.url}: holds a run without {STAMP}, by which its states are told apart."
                " Copy it to a folder to read it, or name another URL."
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
    if last and not done:  # every time another one sent meanwhile
        raise busy(origin.url, writer, stamp)
    return done


def _fetched(path: Path, stamp: str | None) -> bool:
    """Fetch the state of this stamp, holding the lock; say whether that stands there still."""
    origin = origin_of(path)  # another process of this machine may have fetched or sent meanwhile
    assert origin is not None
    there = (path / ROOT).exists()
    if origin.ours(stamp) and there:
        return True
    here = _counting(files_of(path))
    if origin.fetched and here == _counting(origin.fetched["files"]):
        _take_over(origin, path)  # a fetch was stopped after its last step but this one
        return origin.ours(stamp)
    if stamp is None and there:
        raise InputError(
            f"{origin.url}: no run stands there any more, but its working copy {path} does. Copy it"
            f" from there to keep it; remove the folder {path.parent} to begin anew."
        )
    if stamp is None:
        Origin(origin.url, token=origin.token).save(path)  # as if there had been none
        return True
    if there and (here != _counting(origin.files) or origin.sending is not None):
        raise InputError(
            f"{origin.url}: was changed from elsewhere, and its working copy {path} was"
            f" changed, too. Remove the folder {path.parent} to take what stands there; what is in"
            " it is lost then, unless you copy it before."
        )
    ready = beside(path, "fetched")
    shutil.rmtree(ready, ignore_errors=True)
    try:
        with Remote.of(origin.url, path) as remote:
            keys = _fetch(path, origin, remote, ready)
            if remote.read(STAMP) != stamp:  # sent meanwhile: nothing of it is used
                return False
        origin.fetched = {"stamp": stamp, "files": files_of(ready / "run"), "keys": keys}
        origin.save(path)
        _put_in_place(path, ready)
    finally:
        shutil.rmtree(ready, ignore_errors=True)
    _take_over(origin, path)
    return True


def _counting(files: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """Leave out the record of a run, into which who reads writes, too."""
    return {name: mark for name, mark in files.items() if not name.startswith("../")}


def _take_over(origin: Origin, path: Path) -> None:
    """Note that the copy is what was fetched."""
    origin.stamp, origin.keys = origin.fetched["stamp"], origin.fetched["keys"]
    origin.files, origin.sending, origin.fetched = files_of(path), None, {}
    origin.save(path)


def _fetch(path: Path, origin: Origin, remote: Remote, ready: Path) -> dict[str, str]:
    """Lay what stands there into the folder `ready`: files that are known to be the same as here by
    a second name, others from there. Return what the file system tells of each.
    """
    system, record = remote.system, f"../{path.with_suffix('.json').name}"
    keys = {name: _key(info) for name, info in remote.names().items()}
    if system.exists(remote.at(record)) and is_file(info := system.info(remote.at(record))):
        keys[record] = _key(info)
    here, wanted = files_of(path), []
    for name, key in keys.items():
        place = _place(ready, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        if origin.keys.get(name) == key and name in here and here[name] == origin.files.get(name):
            _name_again(path / name, place)
        else:
            wanted.append(name)
    places = [str(_place(ready, name)) for name in wanted]
    system.get([remote.at(name) for name in wanted], places)
    return keys


def _place(ready: Path, name: str) -> Path:
    """Where a file is laid: those of the store in a folder, the record beside it in another."""
    return ready / "record" / name[3:] if name.startswith("../") else ready / "run" / name


def _name_again(file: Path, place: Path) -> None:
    try:
        os.link(file, place)
    except OSError:  # a disk without links
        shutil.copy2(file, place)


def _put_in_place(path: Path, ready: Path) -> None:
    """Let what was fetched take the place of the working copy, which is set aside until it has;
    `lock.recover` puts that back where this is killed.
    """
    aside = beside(path, "old")
    shutil.rmtree(aside, ignore_errors=True)
    if path.exists():
        os.replace(path, aside)
    os.replace(ready / "run", path)
    for file in (ready / "record").glob("*"):
        os.replace(file, path.parent / file.name)
    shutil.rmtree(aside, ignore_errors=True)


def _key(info: Mapping[str, Any]) -> str:
    """Return what a file system tells of a file, which is another once the file is."""
    told = sorted((str(name), str(value)) for name, value in info.items())
    return hashlib.sha256(repr(told).encode()).hexdigest()
