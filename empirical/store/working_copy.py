"""Working copy of a run that stands at a URL: found in a folder of this machine, and brought up to
date. Imports fsspec on first use.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from empirical.store.disk import writing
from empirical.store.lock import alone
from empirical.store.manifest import beside
from empirical.store.mirror import (
    ROOT,
    SENDING,
    Origin,
    Remote,
    both_changed,
    busy,
    digest,
    files_of,
    origin_of,
)

PATIENCE: Final = 10.0
"""Seconds for which a reader waits until another machine has sent what it is sending."""
BETWEEN_LOOKS: Final = 0.2


def working_copy(url: str, folder: Path, *, anew: bool = False) -> Path:
    """Return the working copy in `folder` of the run at `url`, brought up to date; where no run
    stands there, the place for one that is to be sent there.

    anew: fetch every file, for who asks whether what stands there is sound.

    Raises:
        InputError: if the URL cannot be reached, another machine is sending, or the copy and what
            stands there were changed apart.
    """
    path = folder / url.rstrip("/").rpartition("/")[2]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    origin = origin_of(path)
    if origin is None:
        origin = Origin(url)
        origin.save(path)
    _update(path, origin, anew=anew)
    return path


def _update(path: Path, origin: Origin, *, anew: bool) -> None:
    """Fetch what differs, once nobody is sending."""
    until = time.monotonic() + PATIENCE
    with Remote.of(origin.url, path) as remote:
        while True:
            root, sender = remote.root(), remote.sender()
            if sender is not None and origin.token in sender:
                return  # this copy was being sent, and is ahead: its next writer goes on
            if sender is None:
                ahead = files_of(path) != origin.files
                if root == origin.root and (root is None or ahead or not anew):
                    return
                if root is None or ahead:
                    raise both_changed(path, origin.url)
                _fetch(path, origin, remote, anew=anew)
                if remote.sender() is None and remote.root() == origin.root:
                    return
            elif time.monotonic() > until:
                raise busy(origin.url, sender)
            time.sleep(BETWEEN_LOOKS)


def _fetch(path: Path, origin: Origin, remote: Remote, *, anew: bool) -> None:
    """Put every file that differs there into its place, the root's metadata last."""
    system, record = remote.system, f"../{path.with_suffix('.json').name}"
    told = system.find(remote.base, detail=True)
    keys = {name[len(remote.base) + 1 :]: _key(info) for name, info in told.items()}
    keys.pop(SENDING, None)
    if system.exists(remote.at(record)):
        keys[record] = _key(system.info(remote.at(record)))
    wanted = {name for name, key in keys.items() if anew or origin.keys.get(name) != key}
    names = [*sorted(wanted - {ROOT}), ROOT]
    ready = beside(path, "fetched")
    places = {name: ready / name.replace("../", "beside/") for name in names}
    with writing(path), alone(path, sends=False):
        shutil.rmtree(ready, ignore_errors=True)
        try:
            for place in places.values():
                place.parent.mkdir(parents=True, exist_ok=True)
            system.get([remote.at(name) for name in names], [str(places[name]) for name in names])
            for name, place in places.items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(place, path / name)
        finally:
            shutil.rmtree(ready, ignore_errors=True)
        for name in origin.files.keys() - keys.keys():
            (path / name).unlink(missing_ok=True)
        origin.files, origin.keys = files_of(path), keys
        origin.root = digest((path / ROOT).read_bytes())
        origin.save(path)


def _key(info: Mapping[str, Any]) -> str:
    """Return what a file system tells of a file, which is another once the file is."""
    told = sorted((str(name), str(value)) for name, value in info.items())
    return digest(repr(told).encode())
