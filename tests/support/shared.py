"""Folders shared by the test processes: the first that needs one makes it, the others wait for
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
    """Return a folder of this name next to those of the single processes."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def once(folder: Path, make: Callable[[], Made]) -> Made:
    """Return the result of `make` from its first call; calls it if there is none yet or it was
    interrupted.
    """
    made = folder.with_name(f"{folder.name}.made")
    with FileLock(f"{folder}.lock"):
        if not made.exists():
            made.write_bytes(pickle.dumps(make()))
        return pickle.loads(made.read_bytes())
