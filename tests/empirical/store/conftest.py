"""Stores shared by the tests of this folder."""

from pathlib import Path

import pytest
from support.stores import MANY, small_store, store_of

from empirical.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two documents of three, settled."""
    return small_store(tmp_path / "run.zarr")


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More documents than a shard holds, settled; not to be changed."""
    made = store_of(tmp_path_factory.mktemp("many") / "run.zarr", range(MANY))
    made.settle()
    return made.path
