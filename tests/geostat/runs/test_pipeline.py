"""The stages on one store: options read and refused, equal runs equal bit for bit, nothing lost
when something goes wrong.
"""

import dataclasses
import errno
import os
import re
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from support.families import letters, tiny
from support.places import contents
from support.runs import small_run
from support.spine import LENGTH, Finished, run_tree

from empirical.errors import InputError as MeasurementError
from empirical.errors import StoreError
from empirical.sources import models
from empirical.sources.windows import LEAST_LENGTH
from empirical.store import journal, manifest
from empirical.store import store as module
from empirical.store.integrity import check
from empirical.store.lock import alone
from empirical.store.rows import no_rows
from empirical.store.store import Store
from geostat.errors import InputError
from geostat.runs import measurement, pipeline, render, stages
from geostat.runs.console import Console
from geostat.runs.files import store_path
from geostat.runs.groups import CONFRONTED
from geostat.runs.settings import Settings


def test_a_store_lies_in_the_folder_or_is_named_itself():
    assert store_path(Path("a/b")) == Path("a/b/run.zarr")
    assert store_path(Path("a/b.zarr")) == Path("a/b.zarr")


@pytest.mark.parametrize(
    "change",
    [
        {"n": "0"},
        {"n": "41"},
        {"text": (Path("absent.txt"),)},
        {"model": "no/such/model"},
        {"heads": ((9, 0),)},
        {"revision": "a"},
    ],
)
def test_what_is_refused_leaves_nothing_behind(tmp_path: Path, asked: Settings, change: dict):
    with pytest.raises((InputError, MeasurementError)) as caught:
        measurement.measure(dataclasses.replace(asked, **change), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"model": "no/such/model"},
        pytest.param({"text": (Path("absent.txt"),)}, marks=pytest.mark.slow),
        {"length": 1000},
        pytest.param({"n": "0"}, marks=pytest.mark.slow),
        pytest.param({"heads": ((9, 0),)}, marks=pytest.mark.slow),
    ],
)
def test_fresh_throws_the_old_run_away_only_for_a_new_one(
    tmp_path: Path, asked: Settings, change: dict
):
    small_run(tmp_path / "run.zarr", documents=1)
    (tmp_path / "run.json").write_text('{"seconds": {"capture": 5.0}}')
    before = contents(tmp_path)
    with pytest.raises((InputError, MeasurementError)):
        measurement.measure(dataclasses.replace(asked, **change), tmp_path, fresh=True)
    assert contents(tmp_path) == before
    with pytest.raises(MeasurementError, match="was measured with"):
        measurement.measure(asked, tmp_path)
    store = measurement.measure(asked, tmp_path, fresh=True)
    assert [row["name"].rpartition("/")[2] for row in store.documents] == [
        "text 0.txt",
        "text 1.txt",
    ]


def test_text_options_and_the_run_that_stands_there_are_checked_before_weights_are_read(
    tmp_path: Path, asked: Settings, monkeypatch: pytest.MonkeyPatch
):
    def load(found: models.FoundModel) -> None:
        pytest.fail("the weights were read")

    monkeypatch.setattr(models.FoundModel, "load", load)
    text = "abcdefghijklmnopqrstuvwxyz" * 3
    for name, content in {"one": text, "same": text, "near": "zyx" + text[3:]}.items():
        (tmp_path / f"{name}.txt").write_text(content)
    one, same, near = (tmp_path / f"{name}.txt" for name in ("one", "same", "near"))
    small_run(tmp_path / "other" / "run.zarr", documents=1)
    refusals: list[tuple[dict, str, str]] = [
        ({"text": (one, same), "documents": 2}, "new", "hold the same text"),
        ({"text": (one, near), "documents": 2}, "new", "of their runs of 5 tokens"),
        ({"documents": 9}, "new", "--documents is 9"),
        ({"length": 100}, "new", "--length is 100"),
        ({"heads": ((9, 0),)}, "new", "L9H0"),
        ({"text": (Path("builtin"), one)}, "new", "expected a built-in text alone"),
        ({"text": (Path("builtin:poems"),)}, "new", "no such built-in text"),
        ({}, "other", "was measured with corpus.name = random tokens"),
    ]
    for change, out, said in refusals:
        with pytest.raises((InputError, MeasurementError)) as caught:
            measurement.measure(dataclasses.replace(asked, **change), tmp_path / out)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "new" / "run.zarr").exists()


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(
    "zarr_json", [None, '{"zarr_format": 3, "node_type": "group", "attributes": {}}', "{"]
)
def test_fresh_does_not_throw_away_what_is_no_run(
    tmp_path: Path, asked: Settings, zarr_json: str | None, fresh: bool
):
    (tmp_path / "run.zarr").mkdir()
    (tmp_path / "run.zarr" / "thesis.txt").write_text("years of work")
    if zarr_json is not None:
        (tmp_path / "run.zarr" / "zarr.json").write_text(zarr_json)
    before = contents(tmp_path)
    with pytest.raises(
        (MeasurementError, StoreError),
        match=r"is not a run of geostat\. Name|the manifest is damaged\. Restore",
    ):
        measurement.measure(
            asked,
            tmp_path,
            fresh=fresh,
            console=Console(stage=lambda stage: pytest.fail("a model was loaded for it")),
        )
    assert contents(tmp_path) == before


BEFORE_THE_WEIGHTS = {
    "n": ({"n": "41"}, "--n 41: 41 is above"),
    "absent text": ({"text": (Path("absent.txt"),)}, "absent.txt: no such file"),
    "too short": ({"length": 100}, "the longest document has 61 tokens, but --length is 100"),
    "too few": ({"documents": 6}, "5 of 5 documents have 40 tokens or more, but --documents is 6"),
    "no such head": ({"heads": ((4, 0),)}, "L4H0: no such head; layers run 0 to 3, heads 0 to 3"),
    "too long": ({"length": 600}, "llama: reads at most 512 tokens, but a window has 600"),
    "no such device": ({"device": "mps"}, "--device is mps, but PyTorch finds no such device"),
}


@pytest.mark.parametrize("name", BEFORE_THE_WEIGHTS)
def test_what_needs_no_weights_is_refused_before_they_are_read(
    tmp_path: Path, asked: Settings, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(
        models, "load_weights", lambda *args, **options: pytest.fail("weights were read")
    )
    change, said = BEFORE_THE_WEIGHTS[name]
    with pytest.raises((InputError, MeasurementError), match=re.escape(said)):
        measurement.measure(dataclasses.replace(asked, **change), tmp_path / "out")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"body": "abc"}', "has no field 'text', only body"),
        ('{"text": 3}', "field 'text' is of type int"),
        ('{"text"', "is not JSON"),
        ("\n", "holds no records"),
    ],
)
def test_records_are_read_before_the_weights(
    tmp_path: Path, asked: Settings, monkeypatch: pytest.MonkeyPatch, content: str, said: str
):
    monkeypatch.setattr(
        models, "load_weights", lambda *args, **options: pytest.fail("weights were read")
    )
    (tmp_path / "notes.jsonl").write_text(content)
    with pytest.raises(MeasurementError, match=said):
        measurement.measure(
            dataclasses.replace(asked, text=(tmp_path / "notes.jsonl",)), tmp_path / "out"
        )


def test_text_that_is_not_there_is_refused_before_a_model_is_looked_for(
    tmp_path: Path, asked: Settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        models, "find", lambda *args, **options: pytest.fail("a model was looked for")
    )
    with pytest.raises(MeasurementError, match=r"absent.txt: no such file"):
        measurement.measure(
            dataclasses.replace(asked, text=(Path("absent.txt"),)), tmp_path / "out"
        )


@pytest.mark.slow
def test_a_full_disk_keeps_the_documents_before_it(
    tmp_path: Path, asked: Settings, monkeypatch: pytest.MonkeyPatch
):
    whole = measurement.measure(asked, tmp_path / "whole")
    replace = journal.replace

    def full(path: Path, content: bytes) -> None:
        if path.name.startswith("1-"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(path, content)

    monkeypatch.setattr(journal, "replace", full)
    with pytest.raises(
        MeasurementError, match=r"no space left.*What was complete is kept.*run the same again"
    ):
        measurement.measure(asked, tmp_path / "full")
    monkeypatch.undo()
    kept = Store.open(tmp_path / "full" / "run.zarr")
    assert [row["name"] for row in kept.documents] == [whole.documents[0]["name"]]
    check(kept.path, kept.attributes)
    measurement.measure(asked, tmp_path / "full")
    assert contents(kept.path) == contents(whole.path)


@pytest.mark.parametrize(("weight", "where"), [("v_proj", "kv_head 1"), ("q_proj", "head 2")])
def test_a_captured_row_with_nan_names_document_layer_and_head(
    tmp_path: Path, asked: Settings, weight: str, where: str
):
    model = tiny("llama")
    with torch.no_grad():
        getattr(model.model.layers[2].self_attn, weight).weight[
            32 if weight == "q_proj" else 16
        ] = float("nan")
    model.save_pretrained(tmp_path / "model")
    letters(bos=True).save_pretrained(tmp_path / "model")
    with pytest.raises(
        MeasurementError,
        match=rf"text 0.txt', layer 2, {where}: NaN or infinity in the captured row",
    ):
        measurement.measure(
            dataclasses.replace(asked, model=str(tmp_path / "model")), tmp_path / "out"
        )
    assert not (tmp_path / "out").exists()


def test_equal_captures_are_equal_byte_by_byte(tmp_path: Path, asked: Settings):
    one, two = (measurement.measure(asked, tmp_path / name) for name in ("one", "two"))
    assert contents(one.path) == contents(two.path)


@pytest.mark.slow
def test_results_stay_where_an_equal_run_is_measured_again(
    confronted: Store, model_folder: Path, text_folder: Path
):
    """That fits and bounds made anew are equal byte by byte stands in `test_damage`."""
    before = contents(confronted.path)
    same = Settings(model=str(model_folder), text=(text_folder,), documents=3, length=LENGTH)
    again = measurement.measure(same, confronted.path.parent)
    assert again.results == [
        "envelope",
        "heads",
        "ingredients",
        "norms",
        "pooled",
        "sensitivity",
        "separable",
        "similarity",
        "sink",
        "sinks_found",
        "summary",
        "verdicts",
        "weights",
    ]
    assert contents(confronted.path) == before


@pytest.fixture
def confronted(finished: Finished, tmp_path: Path) -> Store:
    shutil.copytree(finished.store, tmp_path / "run.zarr")
    return Store.open(tmp_path / "run.zarr")


@pytest.mark.slow
def test_new_fits_take_away_what_rested_on_the_old_ones(confronted: Store, tmp_path: Path):
    store = confronted
    for name in ("ingredients", "predictive", "sensitivity"):
        store.put({name: store.read("sink")})  # whatever it holds
    assert set(store.results) >= set(CONFRONTED)
    pipeline.fit(store)
    assert not set(store.results) & set(CONFRONTED)
    with pytest.raises(InputError, match="has not been confronted with the theory yet"):
        render.write_report(store, tmp_path / "out")


@pytest.mark.parametrize("stage", ["fit", pytest.param("confront", marks=pytest.mark.slow)])
def test_a_stage_stopped_half_way_leaves_the_earlier_results_whole(
    confronted: Store, monkeypatch: pytest.MonkeyPatch, stage: str
):
    before = contents(confronted.path.parent)

    def stop(*args, **keywords) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "fit_pooled" if stage == "fit" else "experiments", stop)
    for name in ("fit_norms", "fit_similarity", "fit_weights"):
        monkeypatch.setattr(stages, name, lambda captured, progress=None: xr.Dataset())
    with pytest.raises(KeyboardInterrupt):
        pipeline.fit(confronted) if stage == "fit" else pipeline.confront(confronted, points=3)
    assert contents(confronted.path.parent) == before
    assert {"norms", "verdicts", "summary"} <= set(Store.open(confronted.path).results)


@pytest.mark.usefixtures("no_fits")
def test_more_documents_drop_the_results_of_fewer(tmp_path: Path, asked: Settings):
    store = measurement.measure(asked, tmp_path)
    pipeline.fit(store)
    grown = measurement.measure(dataclasses.replace(asked, documents=3), tmp_path)
    assert len(grown.documents) == 3
    assert grown.results == []
    with pytest.raises(
        InputError,
        match=r"has no fits yet \(norms, similarity, weights missing\). Run `geostat fit",
    ):
        pipeline.confront(grown)


def test_stages_out_of_order_are_refused(tmp_path: Path):
    store = Store.open(small_run(tmp_path / "run.zarr", documents=1).path)
    with pytest.raises(InputError, match="has no fits yet"):
        pipeline.confront(store)
    for write in (
        render.write_report,
        partial(render.write_part, "tables"),
        partial(render.write_part, "figures"),
    ):
        with pytest.raises(InputError, match="has not been confronted with the theory yet"):
            write(store, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stage", [pipeline.fit, pipeline.confront])
def test_a_stage_that_writes_is_the_only_one_that_does(tmp_path: Path, stage):
    store = small_run(tmp_path / "run.zarr", documents=1)
    before = contents(tmp_path)
    with (
        alone(store.path),
        pytest.raises(
            MeasurementError, match="another geostat command is writing there, expected no other"
        ),
    ):
        stage(store)
    assert contents(tmp_path) == before


def test_a_run_without_a_complete_document_cannot_be_fitted(tmp_path: Path):
    made = small_run(tmp_path / "run.zarr", documents=1)
    attributes = manifest.read_root(made.path)
    attributes["manifest"]["rows"] = no_rows(attributes["manifest"]["run"])
    manifest.save(made.path, attributes)
    (made.path / "capture/document/documents.jsonl").unlink()
    for name, _ in manifest.by_document(made.path, attributes["manifest"]["layout"]):
        shutil.rmtree(made.path / name / "c")
    with pytest.raises(InputError, match="holds no complete document"):
        pipeline.fit(Store.open(made.path))


@pytest.mark.slow
def test_documents_kept_from_an_interrupted_run_can_be_fitted(tmp_path: Path, asked: Settings):
    def stop(progress) -> None:
        if progress.documents == 1 and progress.layer == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"1 of 2 documents are kept in .*--resume"):
        measurement.measure(asked, tmp_path, console=Console(captured=stop))
    store = Store.open(tmp_path / "run.zarr")
    assert (pipeline.fit(store)["norms"]["documents"] == 1).all()


@pytest.mark.slow
def test_results_interrupted_while_they_are_written_do_not_count(
    tmp_path: Path, asked: Settings, monkeypatch: pytest.MonkeyPatch
):
    store = measurement.measure(asked, tmp_path)
    before = contents(tmp_path)
    write, seen = module.write_group, []

    def stop(dataset: xr.Dataset, folder: Path) -> None:
        seen.append(folder.name)
        if folder.name == "similarity":
            raise KeyboardInterrupt
        write(dataset, folder)

    monkeypatch.setattr(module, "write_group", stop)
    with pytest.raises(KeyboardInterrupt):
        pipeline.fit(store)
    assert seen == ["norms", "similarity"]
    assert contents(tmp_path) == before


def test_damage_is_told_apart_from_bad_input(tmp_path: Path, asked: Settings):
    store = measurement.measure(asked, tmp_path)
    chunk = next(
        file
        for file in (store.path / "capture" / "attention_weight" / "c" / "0").rglob("*")
        if file.is_file()
    )
    chunk.unlink()
    with pytest.raises(
        StoreError, match=r"attention_weight/c/0/0/0/0: damaged, for it is missing.*--fresh"
    ):
        measurement.measure(asked, tmp_path)
    assert len(measurement.measure(asked, tmp_path, fresh=True).documents) == 2


@pytest.mark.slow
def test_a_console_hears_every_stage_and_how_far_it_is(tmp_path: Path, asked: Settings):
    stages: list[str] = []
    far: dict[str, float] = {}
    console = Console(
        stage=stages.append, fraction=lambda stage, fraction: far.update({stage: fraction})
    )
    one = dataclasses.replace(asked, documents=1)
    store = measurement.measure(one, tmp_path, null=False, console=console)
    pipeline.fit(store, console=console)
    pipeline.confront(store, editions=("sharp",), points=2, console=console)
    assert stages == [
        "read the text",
        "load the model",
        "capture",
        "fit norms",
        "fit similarity",
        "fit weights",
        "fit pooled heads",
        "confront",
        "cost of assumptions",
        "sensitivity of the bounds",
        "experiments",
    ]
    fits = {"fit norms": 1, "fit similarity": 1, "fit weights": 1}
    assert far == fits | {
        stage: 1 for stage in ("confront", "cost of assumptions", "sensitivity of the bounds")
    }
    assert "null" not in store.tree().children


@pytest.mark.slow
def test_the_shortest_window_goes_the_whole_way(tmp_path: Path):
    run_tree(tmp_path / "run.zarr", documents=2, length=LEAST_LENGTH)
    store = Store.open(tmp_path / "run.zarr")
    pipeline.fit(store)
    confronted = pipeline.confront(store, editions=("sharp",))
    assert len(confronted["summary"].attrs["sentences"]) == 5


def test_a_run_tells_what_its_tokens_stand_for(finished: Finished):
    told = finished.tree.attrs["token_texts"]
    assert told["id"] == np.unique(finished.tree["capture"]["token_id"].values).tolist()
    assert len(told["text"]) == len(told["id"])
    assert all(told["text"])
