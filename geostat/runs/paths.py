"""Where a run lies, and whether it can be written there."""

from __future__ import annotations

import os
from pathlib import Path

from geostat.errors import InputError

STORE_NAME = "run.zarr"


def store_path(out: Path) -> Path:
    """Where a run lies: `out` itself when it names a store, else run.zarr inside it.

    >>> str(store_path(Path("report")))
    'report/run.zarr'
    """
    return out if out.suffix == ".zarr" else out / STORE_NAME


def refuse_unwritable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written, before long work is done for it."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise InputError(f"{there}: is a file, expected a folder to write in. Choose another folder with --out.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{there}: cannot be written. Choose another folder with --out.")
