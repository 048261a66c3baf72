"""Fuzzing of every command's options: no traceback, no hang, one line, no stray files."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from matplotlib.figure import Figure
from support.fuzz import call, command_lines, held, judged, numbers, outs
from support.spine import Finished

from empirical.sources import builtin, checkpoints, models, texts
from empirical.store import stored_run
from empirical.store.journal import read_rows
from empirical.store.store import Store
from geostat.experiments import session
from geostat.runs import measurement
from geostat.runs.options import CaptureOptions
from geostat.what_if import answer
from reports.page import page
from reports.topics import listed


@pytest.fixture(scope="module")
def here(finished: Finished, model_folder: Path, text_folder: Path, tmp_path_factory) -> Path:
    """Return a folder with a finished run, a model, texts and malformed files."""
    folder = tmp_path_factory.mktemp("fuzz")
    shutil.copytree(finished.out, folder / "done")
    shutil.copytree(model_folder, folder / "model")
    shutil.copytree(text_folder, folder / "notes")
    (folder / "empty").mkdir()
    (folder / "link").symlink_to(folder / "nowhere")
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


FILES = {
    "empty.txt": b"",
    "bytes.txt": bytes(range(256)),
    "bad.jsonl": b'{"text": 1}\n',
    "good.toml": b"[norms.cv]\nat_most = 0.1\n",
    "bad.toml": b"[norms.cv\n",
    "bad.gguf": b"GGUF\x03\0\0\0",
    "x.csv": b"1,0.5\n0.5,1\n",
    "x.npy": b"\x93NUMPY",
}
PLACES = ("done", "done/run.zarr", "model", "notes", "empty", "link", "new", "new/run.zarr", *FILES)


@pytest.fixture
def quick(here: Path, monkeypatch, displayed, read_once, one_figure, same_results, no_fits) -> Path:
    """Replace fits, bounds, figures, simulations and captures by cached results."""

    @contextmanager
    def loaded(self: object) -> Any:
        yield None

    def ended() -> Any:
        raise SystemExit(0)

    def found(settings: CaptureOptions) -> SimpleNamespace:
        """Return a model that ends a command at its first forward pass."""
        return SimpleNamespace(heads=measurement.find_model(settings).heads, loaded=ended)

    def captured(*given: object, **settings: object) -> Store:
        return Store.open(here / "done" / "run.zarr")

    def rows(path: Path, attributes: dict[str, Any], **how: object) -> list[dict[str, Any]]:
        manifest = attributes["manifest"]
        return read_rows(path, manifest["rows"], more=True, run=manifest["run"])

    monkeypatch.setattr(builtin, "conversion_notice", lambda: None)
    monkeypatch.setattr(checkpoints, "converted", lambda *given: here / "model")
    monkeypatch.setattr(checkpoints, "file_sha256", lambda path: "0" * 64)
    monkeypatch.setattr(models.FoundModel, "loaded", loaded)
    monkeypatch.setattr(session, "find_model", found)
    monkeypatch.setattr(measurement, "capture", captured)
    monkeypatch.setattr(answer, "write", lambda *given, **how: [])
    monkeypatch.setattr(Store, "put", lambda self, groups, drops=(): None)
    monkeypatch.setattr(measurement, "_record_texts", lambda *given: None)
    monkeypatch.setattr(stored_run, "check", rows)
    monkeypatch.setattr(listed, "draw", lambda *given, **how: Figure())
    for name in ("write_figure", "write_caption", "write_table"):
        monkeypatch.setattr(listed, name, lambda *given, **how: [])
    monkeypatch.setattr(builtin, "named", lambda name: texts.from_paths([here / "notes"]))
    monkeypatch.setattr(page, "write_page", lambda tree, out, **how: Path(out) / "report.html")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(here / "home"))
    return here


@numbers(12, 20_000)
def test_no_command_line_ends_in_a_traceback(quick: Path, number: int):
    def check(words: tuple[str, ...]) -> None:
        judged(call(*words), (*outs(words, quick), quick / "done"))

    held(command_lines(PLACES), check, number)
