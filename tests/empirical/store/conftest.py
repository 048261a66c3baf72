"""Stores shared by the tests of this folder."""

import shutil
from pathlib import Path

import pytest
from support.stores import MANY, small_store, store_of

from empirical.store.store import Store


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two documents of three, settled; not to be changed."""
    return small_store(tmp_path_factory.mktemp("small") / "run.zarr").path


@pytest.fixture
def store(small: Path, tmp_path: Path) -> Store:
    """A copy of `small`."""
    return Store.open(shutil.copytree(small, tmp_path / "run.zarr"))


@pytest.fixture(scope="session")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """More documents than a shard holds, some in the journal; not to be changed."""
    return store_of(tmp_path_factory.mktemp("waiting") / "run.zarr", range(MANY))


@pytest.fixture(scope="session")
def many(waiting: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, settled; not to be changed."""
    path = shutil.copytree(waiting.path, tmp_path_factory.mktemp("many") / "run.zarr")
    Store.open(path).settle()
    return path
