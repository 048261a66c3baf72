"""Fuzzing of every command's options: no traceback, no hang, one line, nothing written beside."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from matplotlib.figure import Figure
from support.fuzz import Case, call, command_lines, judged, outs
from support.spine import Finished

from empirical.sources import builtin, builtin_texts, folders, models, texts
from empirical.store import stored_run
from empirical.store.rows import read_rows
from empirical.store.store import Store
from geostat.display.tree import with_display
from geostat.runs import measurement, render
from geostat.runs.effective import session
from geostat.runs.normaliser import normaliser
from geostat.runs.settings import Settings
from geostat.what_if import answer
from reports.figures import every
from reports.page import page
from reports.tables import every as every_table
from theory.audit import document
from theory.audit import summary as audit
from theory.paper_tables import table_1

FUZZING: dict[str, Any] = {
    "database": None,
    "suppress_health_check": list(HealthCheck),
}


@pytest.fixture(scope="module")
def here(finished: Finished, model_folder: Path, text_folder: Path, tmp_path_factory) -> Path:
    """A folder with a finished run, a model, texts and files of every odd kind."""
    folder = tmp_path_factory.mktemp("fuzz")
    shutil.copytree(finished.out, folder / "done")
    shutil.copytree(model_folder, folder / "model")
    shutil.copytree(text_folder, folder / "notes")
    (folder / "empty").mkdir()
    (folder / "empty.txt").write_bytes(b"")
    (folder / "bytes.txt").write_bytes(bytes(range(256)))
    (folder / "bad.jsonl").write_text('{"text": 1}\n', encoding="utf-8")
    (folder / "good.toml").write_text("[norms.cv]\nat_most = 0.1\n", encoding="utf-8")
    (folder / "bad.toml").write_text("[norms.cv\n", encoding="utf-8")
    (folder / "bad.gguf").write_bytes(b"GGUF\x03\0\0\0")
    (folder / "x.csv").write_text("1,0.5\n0.5,1\n", encoding="utf-8")
    (folder / "x.npy").write_bytes(b"\x93NUMPY")
    (folder / "link").symlink_to(folder / "nowhere")
    return folder


PLACES = ("done", "done/run.zarr", "model", "notes", "empty", "empty.txt", "bytes.txt", "bad.jsonl")
PLACES += ("good.toml", "bad.toml", "bad.gguf", "x.csv", "x.npy", "link", "new", "new/run.zarr")


@pytest.fixture(scope="module")
def shown(finished: Finished) -> xr.DataTree:
    """The finished run as it is rendered."""
    return with_display(finished.tree)


@pytest.fixture
def quick(
    here: Path,
    shown: xr.DataTree,
    monkeypatch: pytest.MonkeyPatch,
    read_once: None,
    one_figure: None,
    same_results: None,
    no_fits: None,
) -> Path:
    """Nothing is computed: fits, bounds, figures, simulations and captures are done already."""

    @contextmanager
    def lent(self: object) -> Any:
        yield None

    def ended() -> Any:
        raise SystemExit(0)

    def found(asked: Settings) -> SimpleNamespace:
        """A model with which a command ends where it would be run, again and again."""
        return SimpleNamespace(heads=measurement.find_model(asked).heads, lent=ended)

    def captured(*given: object, **asked: object) -> Store:
        return Store.open(here / "done" / "run.zarr")

    def rows(path: Path, attributes: dict[str, Any], **how: object) -> list[dict[str, Any]]:
        manifest = attributes["manifest"]
        return read_rows(path, manifest["rows"], more=True, run=manifest["run"])

    monkeypatch.setattr(builtin, "conversion_notice", lambda: None)
    monkeypatch.setattr(folders, "converted", lambda *given: here / "model")
    monkeypatch.setattr(folders, "file_sha256", lambda path: "0" * 64)
    monkeypatch.setattr(models.FoundModel, "lent", lent)
    for module in (session, normaliser):
        monkeypatch.setattr(module, "find_model", found)
    monkeypatch.setattr(measurement, "capture", captured)
    monkeypatch.setattr(answer, "write", lambda *given, **how: [])
    monkeypatch.setattr(Store, "put", lambda self, groups, drops=(): None)
    monkeypatch.setattr(measurement, "_note_texts", lambda *given: None)
    monkeypatch.setattr(stored_run, "check", rows)
    monkeypatch.setattr(every, "draw", lambda *given, **how: Figure())
    monkeypatch.setattr(every, "write_figure", lambda *given, **how: [])
    monkeypatch.setattr(every, "write_caption", lambda *given, **how: [])
    monkeypatch.setattr(every_table, "write_table", lambda *given, **how: [])
    monkeypatch.setattr(render, "with_display", lambda tree: shown)
    monkeypatch.setattr(builtin_texts, "named", lambda name: texts.from_paths([here / "notes"]))
    monkeypatch.setattr(page, "write_page", lambda tree, out, **how: Path(out) / "report.html")
    monkeypatch.setattr(table_1, "effects", lambda *given, **how: {})
    monkeypatch.setattr(table_1, "markdown", lambda *given: "table 1")
    monkeypatch.setattr(audit, "all_samples", lambda *given, **how: [])
    monkeypatch.setattr(document, "document", lambda *given, **how: "audited")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(here / "home"))
    return here


def checked(words: tuple[str, ...], here: Path) -> Case:
    case = call(*words)
    judged(case, (*outs(words, here), here / "done"))
    return case


@pytest.mark.parametrize(
    "cases", [60, pytest.param(20_000, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_no_command_line_ends_in_a_traceback(quick: Path, cases: int):
    @settings(max_examples=cases, **FUZZING)
    @given(command_lines(PLACES))
    def hold(words: tuple[str, ...]) -> None:
        checked(words, quick)

    hold()
