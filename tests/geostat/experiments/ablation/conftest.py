"""Fixtures of the ablation tests: one run with /ablation, shared and read-only."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import xarray as xr
from support.shared import once, shared_folder
from support.spine import LENGTH, Finished, Said, geostat

from empirical.store.store import Store


@pytest.fixture(scope="session")
def words(model_folder: Path, text_folder: Path) -> list[Any]:
    size = ["--documents", 3, "--length", LENGTH]
    arguments = ["--sizes", "1,4,16", "--budgets", "4,9", "--draws", 3, "--mode", "both"]
    return ["ablate", model_folder, "--text", text_folder, *size, *arguments]


@pytest.fixture(scope="session")
def run(words: list[Any], finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = shared_folder(tmp_path_factory, "cut") / "run"

    def make() -> Said:
        shutil.copytree(finished.store, out / "run.zarr")
        return geostat(*words, "--out", out)

    said = once(out.parent, make)
    assert said.code == 0, said
    (out / "said").write_text(said.stdout)
    return out


@pytest.fixture(scope="session")
def data(run: Path) -> xr.Dataset:
    return Store.open(run / "run.zarr").read("ablation")


@pytest.fixture(scope="session")
def ids(run: Path) -> torch.Tensor:
    token_ids = Store.open(run / "run.zarr").read("capture")["token_id"].values
    return torch.as_tensor(token_ids, dtype=torch.long)
