"""Folders that the test processes share: the first that asks makes one, the others wait and find
it.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from filelock import FileLock

Made = TypeVar("Made")


def shared_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder of this name beside those of the single processes."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def once(folder: Path, make: Callable[[], Made]) -> Made:
    """What `make` gave where it was called first; called where it was not yet, or was not ended."""
    made = folder.with_name(f"{folder.name}.made")
    with FileLock(f"{folder}.lock"):
        if not made.exists():
            made.write_bytes(pickle.dumps(make()))
        return pickle.loads(made.read_bytes())
