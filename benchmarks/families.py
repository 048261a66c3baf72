"""Differences between captures on the CPU and on a GPU, for tiny random models of the tests'
families: weights, Precision and Recall.

    PYTHONPATH=tests .venv/bin/python -m benchmarks.families [--device cuda] [--dtype float32]

Each family reads 4 documents of 200 tokens, with the last 16 queries. The script prints the largest
difference of a weight. For Precision and Recall it prints the share of cells (head × document × N,
and means over queries) that differ by more than 10⁻⁶, and the largest difference.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
from pathlib import Path

import empirical  # noqa: F401  # isort: skip - before torch, as the command does

import numpy as np
import torch
import xarray as xr
from support.families import FAMILIES, OTHERS, tiny, tokens
from transformers import PreTrainedModel

import geostat as gs

DOCUMENTS, TOKENS, QUERIES = 4, 200, 16
SAME = 1e-6


def captured(model: PreTrainedModel, device: str, out: Path) -> xr.DataTree:
    """Return a capture of a copy of the model on a device, in memory."""
    ids = list(tokens(DOCUMENTS, TOKENS))
    return gs.capture(
        copy.deepcopy(model).to(device),
        documents=ids,
        length=TOKENS,
        queries=f"last:{QUERIES}",
        null=False,
        out=out / device,
    )


def of(run: xr.DataTree, group: str, name: str) -> np.ndarray:
    """Return a variable of a run."""
    return run.children[group].dataset[name].values


def compared(first: xr.DataTree, second: xr.DataTree) -> str:
    """Print the differences of two captures."""
    weights = np.abs(
        of(first, "capture", "attention_weight") - of(second, "capture", "attention_weight")
    )
    cells = differ = 0
    most = 0.0
    for group in ("capture", "queries"):
        for name in ("precision", "recall"):
            apart = np.abs(of(first, group, name) - of(second, group, name))
            there = np.isfinite(apart)
            cells += int(there.sum())
            differ += int((apart[there] > SAME).sum())
            most = max(most, float(apart[there].max()))
    return f"{float(weights.max()):10.1e}{cells:10,}{differ:8,}{most:9.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    options = parser.parse_args()
    card = torch.cuda.get_device_name() if options.device == "cuda" else options.device
    print(f"{card} against the CPU, {options.dtype}, torch {torch.__version__}")
    print(f"{'family':<14}{'weights':>10}{'P, R':>10}{'differ':>8}{'by':>9}")
    for family in (*FAMILIES, *OTHERS):
        model = tiny(family).to(getattr(torch, options.dtype))
        with tempfile.TemporaryDirectory() as folder:
            try:
                runs = [captured(model, device, Path(folder)) for device in ("cpu", options.device)]
                print(f"{family:<14}{compared(*runs)}", flush=True)
            except gs.InputError as error:
                print(f"{family:<14} {error}", flush=True)


if __name__ == "__main__":
    main()
