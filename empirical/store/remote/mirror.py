"""Mirror of a run at a URL: what changed of its working copy on this machine is sent there.

An object store has no rename, no flush and no lock, on which a run's safety rests. So a run is
written on a disk, and its files follow once they are whole, the root's metadata last. One machine
at a time holds the run.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from empirical.errors import InputError
from empirical.store.remote.address import ROOT, STAMP, WRITER, Remote, busy
from empirical.store.remote.origin import UNDER_WAY, files_of, origin_of


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
            remote.let_go(origin)


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
    changed = [name for name in here if origin.whole or origin.files.get(name) != here[name]]
    gone = [name for name in origin.files if name not in here]
    if not changed and not gone and origin.sending is None:
        return
    with Remote.of(origin.url, path) as remote:
        stamp, writer = remote.read(STAMP), remote.read(WRITER) or ""
        if origin.token not in writer or not origin.ours(stamp):
            raise busy(origin.url, writer, stamp)  # another one took the run while this one slept
        if origin.whole:
            gone += [name for name in remote.names() if name not in here and name not in gone]
        if stamp is not None and stamp == origin.sending:  # that send ended, but for its last note
            origin.stamp = stamp
        origin.sending = uuid.uuid4().hex
        # where this breaks off they may be there
        origin.files |= {name: [0, 0] for name in changed}
        origin.save(path)
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
    origin.files, origin.stamp, origin.sending, origin.whole = here, origin.sending, None, False
    for name in (*changed, *gone):
        origin.keys.pop(name, None)
    origin.save(path)


def send_all_next(path: Path) -> None:
    """Have the next send send every file of a working copy, and take away what is none of them."""
    origin = origin_of(path)
    if origin is not None:
        origin.whole = True
        origin.save(path)
