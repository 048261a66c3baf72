"""A run with cuts of heads, made once for the tests of this folder, which leave it as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import xarray as xr
from support.spine import LENGTH, geostat

from empirical.store.store import Store


@pytest.fixture(scope="session")
def words(model_folder: Path, text_folder: Path) -> list[Any]:
    size = ["--documents", 2, "--length", LENGTH, "--n", "1,4,9,16", "--no-null"]
    asked = ["--sizes", "1,4,16", "--budgets", "4,9", "--draws", 3, "--mode", "both"]
    return ["ablate", model_folder, "--text", text_folder, *size, *asked]


@pytest.fixture(scope="session")
def run(words: list[Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ablation")
    said = geostat(*words, "--out", out)
    assert said.code == 0, said
    (out / "said").write_text(said.stdout)
    return out


@pytest.fixture(scope="session")
def data(run: Path) -> xr.Dataset:
    return Store.open(run / "run.zarr").read("ablation")


@pytest.fixture(scope="session")
def ids(run: Path) -> torch.Tensor:
    token_ids = Store.open(run / "run.zarr").tree()["capture"]["token_id"].values
    return torch.as_tensor(token_ids, dtype=torch.long)
