"""Fixtures of the tests and of the examples in docstrings: runs that many share are made once a
session.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
from collections.abc import Collection, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import settings
from support.comparisons import shorter
from support.families import letters, tiny, tokens
from support.runs import small_run
from support.shared import once, shared_folder
from support.spine import LENGTH, Finished, Said, capturing, geostat, measured

import geostat as gs
from empirical.store.store import Store
from geostat.runs import pipeline, stages
from geostat.runs.groups import CONFRONTED
from geostat.runs.options import CaptureOptions
from geostat.topics.records import Tolerance
from reports.figures.style import STYLE
from reports.page import page
from reports.topics.listed import FIGURES

# without a deadline: how long an example takes depends on the machine and on what else it does
settings.register_profile("default", deadline=None)
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("repeatable")  # `make test-all` draws new examples each time, twice as many


def pytest_collection_finish() -> None:
    """What the modules hold stays to the end: it is not looked through for garbage any more."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First what takes longest: a file that compiles what measures, and beside it one that compiles
    the theory; then those that make the runs that several files share. Last the files that find
    the finished run made.
    """
    needing = {
        item.path
        for item in items
        if is_of_the_face(item) or "finished" in getattr(item, "fixturenames", ())
    }
    first = (
        "test_truth.py",
        "test_predict.py",
        "test_overall.py",
        "studies/test_audit.py",
    )

    def place(item: pytest.Item) -> int:
        path = item.path.as_posix()
        early = [index for index, name in enumerate(first) if path.endswith(f"/{name}")]
        return early[0] if early else len(first) + (item.path in needing)

    items.sort(key=place)


def is_of_the_face(item: pytest.Item) -> bool:
    """Whether an item is an example of geostat's functions that reads the finished run."""
    names = (fnmatch(item.name, f"geostat.{pattern}") for pattern in FACE)
    return isinstance(item, pytest.DoctestItem) and any(names)


FACE = (
    "api.*",
    "experiments.*.options.*",
    "runs.accessor.*",
    "runs.answers.*",
    "runs.planning.*",
    "runs.plot*",
    "runs.selection.*",
    "runs.tensors.*",
)


@pytest.fixture(autouse=True, scope="session")
def quick_fonts() -> Iterator[None]:
    """PDF files draw their letters (Type 3), in half the time; a test of figures asks for the
    fonts that users get.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STYLE, "pdf.fonttype", 3)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_power_cut() -> Iterator[None]:
    """The disk is not waited for in this process; commands in processes of their own still do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Llama with a tokenizer of letters, saved as a user would save one."""
    folder = shared_folder(tmp_path_factory, "model")

    def save() -> None:
        tiny("llama").save_pretrained(folder)
        letters(bos=True).save_pretrained(folder)

    once(folder, save)
    return folder


@pytest.fixture(scope="session")
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five texts of 60 letters."""
    folder = shared_folder(tmp_path_factory, "texts")

    def write() -> None:
        chance = random.Random(0)
        for index in range(5):
            text = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=60))
            (folder / f"text {index}.txt").write_text(text, encoding="utf-8")

    once(folder, write)
    return folder


@pytest.fixture(scope="session")
def finished(
    tmp_path_factory: pytest.TempPathFactory, model_folder: Path, text_folder: Path
) -> Finished:
    """The main job on three documents, through the command, with the first two figures of its page.
    Read only.
    """
    out = shared_folder(tmp_path_factory, "finished") / "report"
    words = ("run", model_folder, "--text", text_folder, "--documents", 3, "--length", LENGTH)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "plans", lambda tree: FIGURES[:2])
        said = once(out.parent, lambda: geostat(*words, "--out", out))
    assert said.code == 0, said.stderr
    return Finished(said=said, out=out, tree=Store.open(out / "run.zarr").tree())


@pytest.fixture(scope="session")
def captured(
    tmp_path_factory: pytest.TempPathFactory, model_folder: Path, text_folder: Path
) -> Path:
    """The store of a capture of two documents with `capture_options`; not to be changed."""
    out = shared_folder(tmp_path_factory, "captured") / "run"
    words = capturing(model_folder, text_folder, out)
    assert once(out.parent, lambda: geostat(*words, "--quiet")) == Said(0, "", "")
    return out / "run.zarr"


@pytest.fixture
def two_documents(captured: Path, tmp_path: Path) -> Store:
    """A copy of `captured` in `tmp_path`, to be changed."""
    shutil.copytree(captured.parent, tmp_path, dirs_exist_ok=True)
    return Store.open(tmp_path / "run.zarr")


@pytest.fixture(scope="session")
def windowed(tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    """A confronted run whose layers see 24 and 40 tokens in turn (Gemma 3). Read only."""
    path = shared_folder(tmp_path_factory, "windowed") / "run.zarr"
    n = np.array([1, 2, 4, 8, 16, 23, 24, 30, 40])

    def make() -> None:
        store = small_run(path, family="gemma3", length=LENGTH, n=n)
        pipeline.fit(store)
        pipeline.confront(store)

    once(path.parent, make)
    return Store.open(path).tree()


@pytest.fixture(scope="session")
def followup(
    tmp_path_factory: pytest.TempPathFactory, capture_options: CaptureOptions
) -> xr.DataTree:
    """A confronted run of one document in the follow-up's convention, without baselines, with sharp
    bounds alone and a tolerance of its own. Read only.
    """
    out = shared_folder(tmp_path_factory, "followup") / "run"

    def make() -> None:
        differing = {"convention": "followup", "null": False, "documents": 1, "n": "default"}
        store = measured(capture_options, **differing, out=out)
        pipeline.fit(store)
        lax = {"norms.cv": Tolerance(value=0.2, source="test")}
        pipeline.confront(store, editions=("sharp",), swap=False, tolerances=lax)

    once(out.parent, make)
    return Store.open(out / "run.zarr").tree()


@pytest.fixture(scope="session")
def with_regimes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A confronted run of four windows of 80 tokens, `tokens(4, 80)`; copy it before use."""
    out = shared_folder(tmp_path_factory, "with regimes") / "run"

    def make() -> list[int]:
        documents = list(tokens(4, 80).numpy())
        gs.capture(tiny("llama"), documents=documents, length=80, null=False, out=out)
        return [geostat(stage, out).code for stage in ("fit", "confront")]

    assert once(out.parent, make) == [0, 0]
    return out


READ: dict[tuple[bytes, frozenset[str] | None], xr.DataTree] = {}
"""Runs that were read, by their manifest, which has a digest of every chunk."""


@pytest.fixture
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was read before is not read again, nor is a copy of it: for tests of what is made
    of runs that nothing has damaged.
    """
    read = Store._tree

    def remembered(self: Store, only: Collection[str] | None, known: Any) -> xr.DataTree:
        key = ((self.path / "zarr.json").read_bytes(), None if only is None else frozenset(only))
        if known or key not in READ:
            READ[key] = read(self, only, known)
        return READ[key].copy()

    monkeypatch.setattr(Store, "_tree", remembered)


@pytest.fixture
def one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages hold their first figure alone: for tests that look at none."""
    monkeypatch.setattr(page, "plans", lambda tree: FIGURES[:1])


@pytest.fixture
def same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """A confrontation gives what the run holds already: for tests of what it leaves behind."""
    monkeypatch.setattr(
        stages,
        "confronted",
        lambda tree, **options: {
            name: tree[name].to_dataset() for name in CONFRONTED if name in tree.children
        },
    )


@pytest.fixture
def no_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits are empty: for tests of what happens around them."""
    for name in ("fit_norms", "fit_similarity", "fit_weights", "fit_pooled"):
        monkeypatch.setattr(
            stages,
            name,
            lambda captured, progress=None: xr.Dataset(
                attrs={"documents": captured.sizes["document"]}
            ),
        )


@pytest.fixture(scope="session")
def capture_options(model_folder: Path, text_folder: Path) -> CaptureOptions:
    """Options of a measurement of two documents."""
    return CaptureOptions(
        model=str(model_folder), text=(text_folder,), documents=2, length=LENGTH, n="1,2,9"
    )


@pytest.fixture(autouse=True)
def examples_of_the_face(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of geostat's functions run where a user would: beside two runs, a model and a
    folder of texts.
    """
    if not is_of_the_face(request.node):
        return
    tmp_path, finished = request.getfixturevalue("tmp_path"), request.getfixturevalue("finished")
    model, texts = request.getfixturevalue("model_folder"), request.getfixturevalue("text_folder")
    request.getfixturevalue("one_figure")
    request.getfixturevalue("read_once")
    places = {"report": finished.out, "model": model, "notes": texts}
    if request.node.name.endswith(".compare"):
        places["other"] = shorter(finished.store, model, texts).parent
    for name, place in places.items():
        (tmp_path / name).symlink_to(place)
    monkeypatch.chdir(tmp_path)
