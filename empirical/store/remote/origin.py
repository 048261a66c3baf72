"""Origin of a working copy: the URL where a run belongs, and the state in which both were last
equal. It lies in a file beside the copy, in geostat's own cache: beside a run anywhere else such a
file means nothing.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from empirical.caches import place_in_cache
from empirical.errors import InputError
from empirical.store import bundle
from empirical.store.disk import DRAFT, reading, replace, writing
from empirical.store.manifest import below, beside, files_below

URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.+)")
"""A protocol of two letters or more (one is a drive's), of whose slashes a path keeps one."""
ON_DISK: Final = frozenset({"file", "local"})
"""Protocols whose addresses begin at the root of a disk."""
UNDER_WAY: Final = "sending "
"""What a stamp begins with while files are sent; the token of their working copy follows."""


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
    and its bytes; keys: what the file system told of each file that came from there; whole: whether
    the next send is to send every file; fetched: stamp, files and keys of a state that was about to
    take the place of this copy.
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
        """Whether what stands there came from this copy, in a send that may not have ended."""
        known = {self.stamp, self.sending, f"{UNDER_WAY}{self.token}"} - {None}
        return stamp in known or stamp is self.stamp is None

    def save(self, path: Path) -> None:
        """Write it beside the working copy at `path`."""
        draft = beside(path, f"origin.{uuid.uuid4().hex}")  # another reader may write one, too
        with writing(path):
            replace(draft, json.dumps(asdict(self)))
            os.replace(draft, beside(path, "origin"))


def copies() -> Path:
    """Return the folder of all working copies on this machine."""
    return place_in_cache("runs")


def origin_of(path: Path) -> Origin | None:
    """Read where the run at `path` belongs; None where it is no working copy.

    Raises:
        InputError: if what tells that is damaged.
    """
    file = beside(path, "origin")
    if not os.path.exists(file) or not path.resolve().is_relative_to(copies().resolve()):
        return None
    try:
        with reading(file):
            return Origin(**bundle.parsed(bundle.content(file.parent, file.name)))
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
        for name, status in ((name, file.lstat()) for name, file in named.items())
    }
