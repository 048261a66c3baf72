"""Stages on one store: checks of options, reproducible runs, and nothing lost on failure."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.places import contents
from support.runs import small_run
from support.spine import Finished, measured

from empirical.errors import InputError as MeasurementError
from empirical.errors import StoreError
from empirical.sources import models
from empirical.store import manifest
from empirical.store.journal import no_rows
from empirical.store.store import Store
from geostat.errors import InputError
from geostat.runs import pipeline, render, stages
from geostat.runs.console import Console
from geostat.runs.files import store_path
from geostat.runs.groups import CONFRONTED
from geostat.runs.options import CaptureOptions, FiguresOptions, TablesOptions

REFUSALS = (InputError, MeasurementError)


def failing(message: str) -> Callable[..., None]:
    return lambda *args, **options: pytest.fail(message)


def test_a_store_is_named_by_its_folder_or_its_path():
    assert store_path(Path("a/b")) == Path("a/b/run.zarr")
    assert store_path(Path("a/b.zarr")) == Path("a/b.zarr")


@pytest.mark.parametrize(
    "change",
    [{"model": "no/such/model"}, {"length": 1000}, {"n": "0"}, {"heads": ((9, 0),)}],
    ids=lambda change: next(iter(change)),
)
def test_a_refused_fresh_measurement_keeps_the_run(
    two_documents: Store, tmp_path: Path, capture_options: CaptureOptions, change: dict
):
    before = contents(tmp_path)
    with pytest.raises(REFUSALS):
        measured(capture_options, **change, out=tmp_path, fresh=True)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "zarr_json", [None, '{"zarr_format": 3, "node_type": "group", "attributes": {}}', "{"]
)
def test_fresh_does_not_delete_files_that_are_not_a_run(
    tmp_path: Path, capture_options: CaptureOptions, zarr_json: str | None
):
    (tmp_path / "run.zarr").mkdir()
    (tmp_path / "run.zarr" / "thesis.txt").write_text("years of work")
    if zarr_json is not None:
        (tmp_path / "run.zarr" / "zarr.json").write_text(zarr_json)
    before = contents(tmp_path)
    refusal = r"is not a run of geostat\. Name|the manifest is damaged\. Restore"
    console = Console(stage=failing("a model was loaded for it"))
    with pytest.raises((MeasurementError, StoreError), match=refusal):
        measured(capture_options, console, out=tmp_path, fresh=True)
    assert contents(tmp_path) == before


LETTERS = "abcdefghijklmnopqrstuvwxyz" * 3
FILES = {"one.txt": LETTERS, "near.txt": f"zyx{LETTERS[3:]}", "body.jsonl": '{"body": "abc"}'}


def of_texts(*names: str) -> dict[str, Any]:
    return {"text": tuple(map(Path, names)), "documents": len(names)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": "41"}, "--n 41: 41 is above"),
        ({"length": 100}, "the longest document has 61 tokens, but --length is 100"),
        ({"documents": 6}, "5 of 5 documents have 40 tokens or more, but --documents is 6"),
        ({"heads": ((4, 0),)}, "L4H0: no such head; layers run 0 to 3, heads 0 to 3"),
        ({"length": 600}, "llama: reads at most 512 tokens, but a window has 600"),
        ({"device": "mps"}, "--device is mps, but PyTorch finds no such device"),
        (of_texts("one.txt", "near.txt"), "of their runs of 5 tokens"),
        (of_texts("builtin", "one.txt"), "expected a built-in text alone"),
        (of_texts("body.jsonl"), "has no field 'text', only body"),
        ({"out": Path("other")}, "was measured with corpus.name = random tokens"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals_that_need_no_weights_come_before_reading_them(
    tmp_path: Path,
    capture_options: CaptureOptions,
    monkeypatch: pytest.MonkeyPatch,
    change,
    message,
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(models, "load_weights", failing("weights were read"))
    for name, text in FILES.items():
        Path(name).write_text(text)
    if "out" in change:
        small_run(Path("other/run.zarr"), documents=1)
    with pytest.raises(REFUSALS, match=re.escape(message)) as caught:
        measured(capture_options, **{"out": Path("new")} | change)
    assert "\n" not in str(caught.value)
    assert not Path("new/run.zarr").exists()


def test_missing_text_is_refused_before_the_model_is_searched(
    tmp_path: Path, capture_options: CaptureOptions, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(models, "find", failing("a model was looked for"))
    with pytest.raises(MeasurementError, match=r"absent.txt: no such file"):
        measured(capture_options, text=(Path("absent.txt"),), out=tmp_path / "out")


def test_equal_captures_are_equal_byte_by_byte(
    tmp_path: Path, capture_options: CaptureOptions, captured: Path
):
    assert contents(measured(capture_options, out=tmp_path).path) == contents(captured)


@pytest.fixture
def confronted(finished: Finished, tmp_path: Path) -> Store:
    shutil.copytree(finished.store, tmp_path / "run.zarr")
    return Store.open(tmp_path / "run.zarr")


@pytest.mark.slow
def test_results_are_kept_when_an_equal_run_is_captured_again(
    confronted: Store, capture_options: CaptureOptions
):
    """`test_damage` tests that recomputed fits and bounds are equal byte for byte."""
    before, results = contents(confronted.path), confronted.results
    assert {"norms", "envelope", "verdicts", "summary"} <= set(results)
    again = measured(capture_options, documents=3, n="default", out=confronted.path.parent)
    assert again.results == results
    assert contents(confronted.path) == before


@pytest.mark.slow
def test_new_fits_delete_results_of_the_old_ones(confronted: Store, tmp_path: Path):
    for name in ("ingredients", "predictive", "sensitivity"):
        confronted.put({name: confronted.read("sink")})  # with any content
    assert set(confronted.results) >= set(CONFRONTED)
    pipeline.fit(confronted)
    assert not set(confronted.results) & set(CONFRONTED)
    with pytest.raises(InputError, match="has not been confronted with the theory yet"):
        render.write_report(confronted, tmp_path / "out")


def interrupt(*args: object, **options: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("no_fits")
@pytest.mark.parametrize(
    ("run", "step"),
    [
        (pipeline.fit, "fit_pooled"),
        pytest.param(
            lambda store: pipeline.confront(store, points=3), "analyses", marks=pytest.mark.slow
        ),
    ],
    ids=["fit", "confront"],
)
def test_an_interrupted_stage_keeps_the_earlier_results(
    confronted: Store, monkeypatch: pytest.MonkeyPatch, run: Callable[[Store], object], step: str
):
    before = contents(confronted.path.parent)
    monkeypatch.setattr(stages, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(confronted)
    assert contents(confronted.path.parent) == before
    assert {"norms", "verdicts", "summary"} <= set(Store.open(confronted.path).results)


def test_stages_out_of_order_are_refused(two_documents: Store, tmp_path: Path):
    store = two_documents
    missing = r"has no fits yet \(norms, similarity, weights missing\). Run `geostat fit"
    with pytest.raises(InputError, match=missing):
        pipeline.confront(store)
    kwargs = {"run": store.path, "out": tmp_path / "out"}
    for write in (
        lambda: render.write_report(store, tmp_path / "out"),
        lambda: render.write_tables(store, TablesOptions(**kwargs)),
        lambda: render.write_figures(store, FiguresOptions(**kwargs)),
    ):
        with pytest.raises(InputError, match="has not been confronted with the theory yet"):
            write()
    assert not (tmp_path / "out").exists()


def test_a_run_without_a_complete_document_cannot_be_fitted(two_documents: Store):
    path = two_documents.path
    attributes = manifest.read_root(path)
    attributes["manifest"]["rows"] = no_rows(attributes["manifest"]["run"])
    manifest.save(path, attributes)
    (path / "capture/document/documents.jsonl").unlink()
    for name, _ in manifest.by_document(path, attributes["manifest"]["layout"]):
        shutil.rmtree(path / name / "c")
    with pytest.raises(InputError, match="holds no complete document"):
        pipeline.fit(Store.open(path))


def test_damage_raises_store_error_and_fresh_measures_again(
    two_documents: Store, tmp_path: Path, capture_options: CaptureOptions
):
    chunks = (two_documents.path / "capture" / "attention_weight" / "c" / "0").rglob("*")
    next(file for file in chunks if file.is_file()).unlink()
    message = r"attention_weight/c/0/0/0/0: damaged, because it is missing.*--fresh"
    with pytest.raises(StoreError, match=message):
        measured(capture_options, out=tmp_path)
    assert len(measured(capture_options, out=tmp_path, fresh=True).documents) == 2


def test_a_run_records_the_text_of_its_tokens(finished: Finished):
    texts = finished.tree.attrs["token_texts"]
    assert texts["id"] == np.unique(finished.tree["capture"]["token_id"].values).tolist()
    assert len(texts["text"]) == len(texts["id"])
    assert all(texts["text"])
