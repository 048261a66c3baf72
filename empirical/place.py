"""The place of a run on disk: what stands there, what a killed process left, and who may write to it. Imports the standard library.

A run has one writer at a time. The lock is a file beside the store that goes with the process, however that ends.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from empirical.disk import reading, writing
from empirical.errors import InputError, StoreError

__all__ = ["alone", "beside", "put_back", "stored"]


def stored(path: Path) -> dict[str, Any]:
    """Read the provenance and manifest of the run at `path`.

    Raises:
        InputError: if nothing stands there, something that is no run of geostat, or what may not be read.
        StoreError: if the manifest is damaged.
    """
    if not path.exists():
        raise InputError(f"{path}: no such run. Make one with `geostat run --out {path.parent}`.")
    try:
        with reading(path):
            root = json.loads((path / "zarr.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        root = {"zarr_format": None}
    except (json.JSONDecodeError, UnicodeDecodeError):
        root = None
    attributes = root.get("attributes") if isinstance(root, dict) else None
    manifest = attributes.get("manifest") if isinstance(attributes, dict) else None
    if isinstance(manifest, dict) and {"documents", "captured", "results"} <= manifest.keys():
        assert isinstance(attributes, dict)
        return attributes
    if isinstance(root, dict) and "zarr_format" in root and manifest is None:
        raise InputError(f"{path}: stands there but is not a run of geostat. Name a run, or choose another --out.")
    raise StoreError(f"{path}: the manifest is damaged. Restore it from a copy, or remove what stands there and measure again.")


def beside(path: Path, what: str) -> Path:
    """A hidden file or folder that belongs to the store at `path` and lies beside it."""
    return path.with_name(f".{path.name}.{what}")


def put_back(path: Path) -> None:
    """Finish what a killed process left when a new run took the place of the one at `path`."""
    aside = beside(path, "old")
    if not aside.exists():
        return
    with writing(path):
        if path.exists():
            shutil.rmtree(aside)
        else:
            os.replace(aside, path)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Be the one process that writes to the run at `path`, or where it will be. Without file locks (Windows) nothing is held.

    A link is followed, so that a run has one lock under all its names.

    Raises:
        InputError: if another process writes there.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    place = path.resolve()
    made = [folder for folder in place.parents if not folder.exists()]
    lock = beside(place, "lock")
    held = -1
    try:
        while not _is(held, lock):  # who held the lock before may have removed the file between our two steps
            if held >= 0:
                os.close(held)
            with writing(path):
                place.parent.mkdir(parents=True, exist_ok=True)
                held = os.open(lock, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(
                    f"{path}: another geostat command is writing there, expected no other. Wait until it ends, or use another run or --out."
                ) from error
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            with suppress(OSError):  # a run that was refused leaves no empty folder
                for folder in made:
                    folder.rmdir()
    finally:
        if held >= 0:
            os.close(held)


def _is(descriptor: int, path: Path) -> bool:
    """Whether an open file is the one that stands at `path`."""
    if descriptor < 0:
        return False
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)
