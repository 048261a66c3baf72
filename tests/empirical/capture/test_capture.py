"""The driver: what observers see, what is stored, how a run is interrupted and resumed."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
import xarray as xr
import zarr
from support.families import WINDOW
from support.places import contents
from support.raising import refused
from support.runs import loaded, random_windows, small_run
from support.stores import WORDS

from empirical.capture import source
from empirical.capture.capture import capture
from empirical.capture.observers import Baselines, Buffers, Geometry, Progress, QueryMeans
from empirical.errors import InputError, StoreError
from empirical.measure.selection import separability
from empirical.schema import BY_QUERY, CAPTURE, NULLS, Quantity
from empirical.sources.queries import Queries
from empirical.store.integrity import check
from empirical.store.layout import GroupPlan
from empirical.store.store import Store
from empirical.tap.parity import Parity
from empirical.tap.tap import TappedLayer, tap

LITTLE: Final = {"observers": [Geometry()], "n": np.array([1, 2])}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Store:
    """Three documents, measured without an interruption; not to be changed."""
    return small_run(tmp_path_factory.mktemp("whole") / "run.zarr")


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "run.zarr"


@pytest.fixture
def copied(whole, path) -> Path:
    return shutil.copytree(whole.path, path)


def interrupted_at(documents: int, layer: int) -> Any:
    """Return an `on_progress` that interrupts there."""

    def stop(progress: Progress) -> None:
        if (progress.documents, progress.layer) == (documents, layer):
            raise KeyboardInterrupt

    return stop


def test_every_variable_of_the_contract_is_measured_and_labelled(whole):
    tree = whole.tree()
    found = tree["capture"].to_dataset()
    assert set(found.data_vars) == set(CAPTURE) | {"f_outer", "f_inner"}
    for name, variable in found.data_vars.items():
        assert variable.attrs["long_name"], name
        assert variable.attrs["units"], name
        assert np.isfinite(variable.values).any(), name
    assert found.sizes["document"] == 3
    assert list(found["kv_head_of_head"].values) == [0, 0, 1, 1]
    assert list(tree["null"]["null"].values) == list(NULLS)
    assert tree.attrs["skipped"] == 2
    assert tree.attrs["parity"]["weights"] < 1e-5
    assert tree.attrs["manifest"]["documents"][0]["sha256"] == random_windows(1, 40).sha256[0]


def test_stored_curves_match_the_tapped_tensors(whole):
    found = whole.read("capture").isel(document=0)
    tapped: list[TappedLayer] = []
    ids = torch.as_tensor(random_windows(1, 40).token_ids.astype(np.int64))
    tap(loaded("llama").model, ids, tapped.append)
    for index, own in enumerate(tapped):
        layer, weights, values = found.isel(layer=index), own.alpha[0, 0], own.values[0]
        precision = separability(weights, values, found["n"].values)["precision"]
        np.testing.assert_array_equal(layer["attention_weight"], weights.numpy())
        np.testing.assert_allclose(layer["value_norm"], values.norm(dim=-1).numpy(), rtol=1e-6)
        np.testing.assert_allclose(layer["precision"], precision, rtol=1e-6)


def test_only_visible_positions_are_tokens_of_a_head(path):
    run = small_run(path, family="gemma2", documents=1, length=60).read("capture")
    found = run.isel(document=0)
    assert list(found["tokens"].values) == [WINDOW, 60, WINDOW, 60]
    assert list(found["sink_visible"].values) == [False, True, False, True]
    windowed, cosines = found.isel(layer=0), found["cosine_mean"]
    assert (windowed["attention_weight"][:, :-WINDOW] == 0).all()
    assert windowed["value_norm"][:, :-WINDOW].isnull().all()
    assert windowed["value_norm"][:, -WINDOW:].notnull().all()
    assert windowed["precision"].sel(n=slice(WINDOW + 1, None)).isnull().all()
    assert (windowed["precision"].sel(n=WINDOW) == 1).all()
    assert windowed["sink_cosine"].isnull().all()
    assert cosines[0].sel(lag=slice(1, WINDOW - 1)).notnull().all()
    assert cosines[0].sel(lag=slice(WINDOW, None)).isnull().all()
    assert cosines[1].notnull().all()


def test_named_heads_keep_their_principal_components(path):
    little: Any = LITTLE | {"observers": [Geometry(named=((1, 2), (3, 0)))]}
    found = small_run(path, documents=1, **little).read("capture")
    assert list(found["named_head"].values) == ["L1H2", "L3H0"]
    components = found["principal_components"].values[0]
    assert np.all(np.isfinite(components))
    assert np.all(components.std(axis=1)[:, 0] >= components.std(axis=1)[:, 1])


def test_more_documents_extend_a_run_and_a_resumed_one_equals_an_uninterrupted_one(path, whole):
    numbers: list[int] = []

    def kept(documents):
        assert len(Store.open(path).documents) == documents
        numbers.append(documents)

    small_run(path, documents=1, on_kept=kept)
    with pytest.raises(KeyboardInterrupt):
        small_run(path, on_progress=interrupted_at(2, 3), on_kept=kept)
    run = Store.open(path)
    assert len(run.documents) == 2
    check(run.path, run.attributes)
    small_run(path, on_kept=kept)
    assert numbers == [1, 2, 3]
    assert contents(path) == contents(whole.path)


def test_the_batch_size_does_not_change_measurements(path, whole):
    found = small_run(path, batch=2, **LITTLE).read("capture")["attention_weight"]
    np.testing.assert_allclose(found, whole.read("capture")["attention_weight"], atol=1e-5)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"seed": 1}, "seed = 0, this run has 1"),
        ({"length": 41}, "length = 40, this run has 41"),
        ({"family": "qwen3"}, "model.family = llama"),
        ({"settings": {"groups": ["null"]}}, "settings.groups = None"),
        ({"queries": Queries("last", 4)}, "queries = last, this run has last:4"),
        ({"measure": "device"}, "measured with measure = cpu, this run has device"),
        ({"documents": 2}, "holds 3 documents, this run has 2. Use --documents 3"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_run_of_other_settings_is_not_resumed(copied, change, line):
    with refused(line):
        small_run(copied, **change)


def test_a_run_of_other_text_is_not_resumed(copied):
    windows, sizes = random_windows(3, 40, seed=5), np.arange(1, 41)
    with refused("other tokens"):
        capture(loaded("llama"), windows, copied, observers=[Geometry(), Baselines()], n=sizes)


def test_a_damaged_store_is_not_resumed(copied):
    chunk = next(file for file in (copied / "capture/recall/c/0").rglob("*") if file.is_file())
    chunk.write_bytes(chunk.read_bytes()[::-1])
    with pytest.raises(StoreError, match="is not what was written"):
        small_run(copied, documents=4)


def expect_refused(model: Any, path: Path, line: str, *, measure: str = "cpu") -> None:
    """Expect that the first document of the model is refused, and that no run is left."""
    windows, n = random_windows(2, 40), np.array([1, 2])
    with refused(f"document 'document 0', layer 2, {line}"):
        capture(model, windows, path, observers=[Geometry()], n=n, measure=measure)
    assert not path.exists()


@pytest.mark.parametrize(("weight", "where"), [("v_proj", "kv_head 1"), ("q_proj", "head 2")])
def test_a_captured_row_with_nan_is_refused_by_name(path, weight, where):
    model = loaded("llama")
    with torch.no_grad():
        projection = getattr(model.model.model.layers[2].self_attn, weight)
        projection.weight[2 * 16 if weight == "q_proj" else 16] = float("nan")
    expect_refused(model, path, f"{where}: NaN")


@pytest.mark.parametrize(("measure", "scale"), [("cpu", 1e19), ("device", 3e-21)])
def test_values_that_float32_cannot_square_are_refused_by_name(path, scale, measure):
    model = loaded("llama")
    attention = model.model.model.layers[2].self_attn
    with torch.no_grad():
        attention.v_proj.weight[16:] *= scale
        attention.o_proj.weight[:, 32:] /= scale
    expect_refused(model, path, "kv_head 1: its largest value state", measure=measure)


def test_progress_counts_documents_layers_and_tokens(path):
    seen: list[Progress] = []
    small_run(path, documents=2, on_progress=seen.append, **LITTLE)
    last = seen[-1]
    assert (seen[0].documents, last.documents, last.tokens, last.tokens_left) == (0, 2, 80, 0)
    assert {progress.layer for progress in seen} == {0, 1, 2, 3, 4}


def test_the_machine_is_not_part_of_the_store(whole):
    text = (whole.path / "zarr.json").read_text()
    for word in ("seconds", "torch_threads", "host"):
        assert word not in text


def test_weights_that_differ_from_eager_are_refused(path, monkeypatch):
    found = Parity(weights=0.01, log_weights=1.0, hidden=0.0, invisible=0.0, layer=2)
    monkeypatch.setattr(source, "parity", lambda *_, **__: found)
    with refused(r"layer 2: tapped weights differ from eager attention by up to 0\.01"):
        small_run(path, documents=1)
    assert not path.exists()


@pytest.mark.parametrize("wrong", ["nan", "ctrl-c"])
def test_fresh_keeps_the_old_run_until_the_first_new_document_is_complete(tmp_path, copied, wrong):
    before, model, stop = contents(tmp_path), loaded("llama"), None
    line = "document 'document 0', layer 2, kv_head 1: NaN"
    if wrong == "nan":
        with torch.no_grad():
            model.model.model.layers[2].self_attn.v_proj.weight[16] = float("nan")
    else:
        stop = interrupted_at(0, 3)
        line = f"interrupted before the first of 3 documents .*: the run that stood at {copied} is"
    windows = random_windows(3, 40)
    with pytest.raises((InputError, KeyboardInterrupt), match=line):
        capture(model, windows, copied, on_progress=stop, fresh=True, **LITTLE)
    assert contents(tmp_path) == before


def test_an_interrupted_fresh_run_replaces_the_old_one_and_says_how_to_resume(tmp_path, copied):
    line = r"1 of 2 documents are kept .* with --resume in place of --fresh"
    anew: Any = LITTLE | {"documents": 2}
    with pytest.raises(KeyboardInterrupt, match=line):
        small_run(copied, fresh=True, on_progress=interrupted_at(1, 1), **anew)
    wanted = small_run(tmp_path / "other.zarr", **anew)
    assert contents(small_run(copied, **anew).path) == contents(wanted.path)


def test_fresh_removes_nothing_but_a_run(tmp_path, path):
    zarr.create_group(store=path, zarr_format=3)
    before = contents(tmp_path)
    with refused("is not a run of geostat"):
        small_run(path, documents=1, fresh=True)
    assert contents(tmp_path) == before


def test_a_linked_run_is_written_to_the_link_target(copied):
    link = copied.with_name("link.zarr")
    link.symlink_to(copied)
    small_run(link, documents=1, seed=1, fresh=True, **LITTLE)
    assert link.is_symlink()
    assert len(Store.open(copied).documents) == 1


@pytest.mark.parametrize(("invisible", "stands"), [(None, np.nan), (0.0, 0.0)])
def test_invisible_positions_have_the_variables_fill_value(invisible, stands):
    variable = Quantity("weight", dims=("layer", "position"), invisible=invisible, **WORDS)
    plan = GroupPlan(variables={"x": variable}, coordinates={}, sizes={"layer": 2, "position": 3})
    buffers = Buffers({"mine": plan})
    buffers.put("mine", 1, {"x": np.array([5.0, 6.0])})
    np.testing.assert_array_equal(buffers.arrays["mine"]["x"], [[np.nan] * 3, [stands, 5, 6]])


@pytest.mark.parametrize("family", [pytest.param("llama", marks=pytest.mark.slow), "gemma3"])
def test_each_query_equals_the_last_query_of_a_shorter_window(tmp_path, family):
    observers = [Geometry(), QueryMeans()]
    options: Any = {"family": family, "documents": 2, "length": 60, "observers": observers}
    several = small_run(tmp_path / "several.zarr", queries=Queries("last", 2), **options).tree()
    means, windows = several["queries"].to_dataset(), random_windows(2, 60)
    assert means["query_position"].values.tolist() == [[58, 59]] * 2
    runs = []
    for length in (59, 60):
        shorter = dataclasses.replace(windows, token_ids=windows.token_ids[:, :length])
        path, sizes = tmp_path / f"{length}.zarr", np.arange(1, 60)
        run = capture(loaded(family), shorter, path, observers=[Geometry()], n=sizes)
        runs.append(run.read("capture"))

    def expect_close(found, expected):
        # A shorter forward may round otherwise, and then order two tokens the other way.
        apart = np.abs(found - expected)
        assert np.median(apart) < 1e-6
        assert apart.mean() < 2e-3

    for name in ("precision", "recall", "f_outer", "f_inner"):
        stacked = np.stack([run[name].sel(n=slice(None, 59)).values for run in runs])
        found = means[name].sel(n=slice(None, 59)).values
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(stacked).any(axis=0))
        known = np.isfinite(stacked).all(axis=0)
        expect_close(found[known], stacked.mean(axis=0)[known])
        if name in BY_QUERY:
            own = np.moveaxis(means[f"{name}_by_query"].sel(n=slice(None, 59)).values, 3, 0)
            counted = np.isfinite(own)  # not of queries that see the sink where the last does not
            assert (counted[-1] == np.isfinite(stacked[-1])).all()
            np.testing.assert_allclose(np.nanmean(own[:, known], axis=0), found[known], atol=1e-6)
            expect_close(own[counted], stacked[counted])
    seen = several["capture"]["sink_visible"].values
    sinks = np.mean([run["attention_weight"].values[..., 0] for run in runs], axis=0)
    found = means["attention_weight"].values[..., 0]
    np.testing.assert_allclose(found[:, seen], sinks[:, seen], atol=1e-6)


def test_further_queries_do_not_change_measurements_of_the_last(path, whole):
    more: Any = {"observers": [Geometry(), QueryMeans()], "queries": Queries("spread", 4)}
    found = small_run(path, documents=1, **more).read("capture")
    xr.testing.assert_identical(found, whole.read("capture").isel(document=[0]))
