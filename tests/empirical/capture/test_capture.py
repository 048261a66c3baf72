"""The driver: what observers see, what is stored, how a run is interrupted and resumed."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pytest
import torch
import xarray as xr
import zarr
from support.families import WINDOW
from support.places import contents
from support.runs import loaded, random_windows, small_run

from empirical.capture import source
from empirical.capture.capture import capture
from empirical.capture.layer_view import LayerView, RunShape
from empirical.capture.observers import Baselines, Buffers, Geometry, Progress, QueryMeans
from empirical.errors import InputError, StoreError
from empirical.measure.query_records import BY_QUERY
from empirical.measure.selection import separability
from empirical.schema import CAPTURE, NULLS, Variable
from empirical.sources.queries import Queries
from empirical.store.integrity import check
from empirical.store.layout import GroupPlan
from empirical.store.store import Store
from empirical.tap.parity import Parity
from empirical.tap.tap import tap

WORDS = {"long_name": "weight of the last token", "units": "1", "symbol": "", "equation": ""}


class LastWeight:
    """An observer of a user's own."""

    group = "mine"

    def plan(self, shape: RunShape) -> GroupPlan:
        variables = {"last_weight": Variable(dims=("layer", "head"), **WORDS)}
        return GroupPlan(variables=variables, coordinates=shape.coordinates("layer", "head"))

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        return {"last_weight": view.alpha[:, -1].numpy()}


def test_every_variable_of_the_contract_is_measured_and_labelled(tmp_path: Path) -> None:
    tree = small_run(tmp_path / "run.zarr").tree()
    found = tree["capture"].to_dataset()
    assert set(found.data_vars) == set(CAPTURE) | {"f_outer", "f_inner"}
    for name, variable in found.data_vars.items():
        assert variable.attrs["long_name"], name
        assert variable.attrs["units"], name
        finite = np.isfinite(variable.values)
        assert finite.any(), name
    assert found.sizes["document"] == 3
    assert list(found["kv_head_of_head"].values) == [0, 0, 1, 1]
    assert list(tree["null"]["null"].values) == list(NULLS)
    assert tree.attrs["skipped"] == 2
    assert tree.attrs["parity"]["weights"] < 1e-5
    assert tree.attrs["manifest"]["documents"][0]["sha256"] == random_windows(1, 40).sha256[0]


def test_stored_curves_are_those_of_the_tapped_tensors(tmp_path: Path) -> None:
    found = small_run(tmp_path / "run.zarr", documents=1).read("capture")
    layers: list[tuple[torch.Tensor, torch.Tensor]] = []
    ids = torch.as_tensor(random_windows(1, 40).token_ids.astype(np.int64))
    tap(
        loaded("llama").model,
        ids,
        lambda layer: layers.append((layer.alpha[0, 0], layer.values[0])),
    )
    for index, (weights, values) in enumerate(layers):
        np.testing.assert_array_equal(found["attention_weight"][0, index].values, weights.numpy())
        np.testing.assert_allclose(
            found["value_norm"][0, index].values, values.norm(dim=-1).numpy(), rtol=1e-6
        )
        expected = separability(weights, values, found["n"].values)
        np.testing.assert_allclose(
            found["precision"][0, index].values, expected["precision"], rtol=1e-6
        )


def test_only_visible_positions_are_tokens_of_a_head(tmp_path: Path) -> None:
    found = (
        small_run(tmp_path / "run.zarr", family="gemma2", documents=1, length=60)
        .read("capture")
        .isel(document=0)
    )
    assert list(found["tokens"].values) == [WINDOW, 60, WINDOW, 60]
    assert list(found["sink_visible"].values) == [False, True, False, True]
    windowed = found.isel(layer=0)
    assert np.all(windowed["attention_weight"].values[:, :-WINDOW] == 0)
    assert np.all(np.isnan(windowed["value_norm"].values[:, :-WINDOW]))
    assert np.all(np.isfinite(windowed["value_norm"].values[:, -WINDOW:]))
    assert np.all(np.isnan(windowed["precision"].sel(n=slice(WINDOW + 1, None)).values))
    assert np.all(windowed["precision"].sel(n=WINDOW).values == 1)
    assert np.all(np.isnan(windowed["sink_cosine"].values))
    assert np.all(np.isfinite(windowed["cosine_mean"].sel(lag=slice(1, WINDOW - 1)).values))
    assert np.all(np.isnan(windowed["cosine_mean"].sel(lag=slice(WINDOW, None)).values))
    assert np.all(np.isfinite(found.isel(layer=1)["cosine_mean"].values))


def test_a_users_observer_fills_a_group_of_its_own(tmp_path: Path) -> None:
    store = small_run(tmp_path / "run.zarr", observers=[Geometry(), LastWeight()])
    tree = store.tree()
    np.testing.assert_array_equal(
        tree["mine"]["last_weight"].values, tree["capture"]["attention_weight"].values[..., -1]
    )


def test_named_heads_keep_their_principal_components(tmp_path: Path) -> None:
    found = small_run(
        tmp_path / "run.zarr", observers=[Geometry(named=((1, 2), (3, 0)))], documents=1
    ).read("capture")
    assert list(found["named_head"].values) == ["L1H2", "L3H0"]
    components = found["principal_components"].values[0]
    assert np.all(np.isfinite(components))
    assert np.all(components.std(axis=1)[:, 0] >= components.std(axis=1)[:, 1])
    with pytest.raises(InputError, match=r"L9H0: no such head; layers run 0 to 3"):
        small_run(tmp_path / "other.zarr", observers=[Geometry(named=((9, 0),))])


def test_equal_runs_give_equal_stores_bit_for_bit(tmp_path: Path) -> None:
    first = small_run(tmp_path / "a.zarr")
    second = small_run(tmp_path / "b.zarr")
    assert contents(first.path) == contents(second.path)


@pytest.mark.parametrize("layer", [0, 3])
def test_a_run_that_was_interrupted_and_resumed_equals_one_that_was_not(
    tmp_path: Path, layer: int
) -> None:
    whole = small_run(tmp_path / "whole.zarr")

    def stop(progress: Progress) -> None:
        if progress.documents == 2 and progress.layer == layer:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small_run(tmp_path / "cut.zarr", on_progress=stop)
    kept = Store.open(tmp_path / "cut.zarr")
    assert len(kept.documents) == 2
    check(kept.path, kept.attributes)
    resumed = small_run(tmp_path / "cut.zarr")
    assert contents(resumed.path) == contents(whole.path)


def test_more_documents_extend_a_run(tmp_path: Path) -> None:
    small_run(tmp_path / "grown.zarr", documents=2)
    grown = small_run(tmp_path / "grown.zarr", documents=4)
    assert contents(grown.path) == contents(small_run(tmp_path / "whole.zarr", documents=4).path)


def test_batches_measure_the_same(tmp_path: Path) -> None:
    one = small_run(tmp_path / "one.zarr").read("capture")
    two = small_run(tmp_path / "two.zarr", batch=2).read("capture")
    assert two.sizes["document"] == 3
    np.testing.assert_allclose(one["attention_weight"], two["attention_weight"], atol=1e-5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 1}, "seed = 0, this run has 1"),
        ({"length": 41}, "length = 40, this run has 41"),
        ({"family": "qwen3"}, "model.family = llama"),
        ({"observers": [Baselines()]}, "groups"),
    ],
)
def test_a_store_of_other_settings_is_refused(tmp_path: Path, change: dict, said: str) -> None:
    def settings(observers: list) -> dict:
        return {"groups": [observer.group for observer in observers]}

    start = {"observers": [Geometry()]}
    small_run(tmp_path / "run.zarr", **start, settings=settings(start["observers"]))
    other = start | change
    with pytest.raises(InputError, match=said):
        small_run(tmp_path / "run.zarr", **other, settings=settings(other["observers"]))


def test_other_text_under_the_same_settings_is_refused(tmp_path: Path) -> None:
    small_run(tmp_path / "run.zarr", documents=1)
    with pytest.raises(InputError, match="other tokens"):
        capture(
            loaded("llama"),
            random_windows(1, 40, seed=5),
            tmp_path / "run.zarr",
            observers=[Geometry(), Baselines()],
            n=np.arange(1, 41),
        )


@pytest.mark.parametrize(("weight", "where"), [("v_proj", "kv_head 1"), ("q_proj", "head 2")])
def test_a_captured_row_with_nan_is_refused_by_name(
    tmp_path: Path, weight: str, where: str
) -> None:
    model = loaded("llama")
    with torch.no_grad():
        getattr(model.model.model.layers[2].self_attn, weight).weight[
            2 * 16 if weight == "q_proj" else 16
        ] = float("nan")
    with pytest.raises(InputError, match=f"document 'document 0', layer 2, {where}: NaN"):
        capture(
            model,
            random_windows(2, 40),
            tmp_path / "run.zarr",
            observers=[Geometry()],
            n=np.array([1, 2]),
        )
    assert not (tmp_path / "run.zarr").exists()


@pytest.mark.parametrize("measure", ["cpu", "device"])
@pytest.mark.parametrize("scale", [1e19, 1e25, 3e-21, 1e-35])
def test_values_that_float32_cannot_square_are_refused_by_name(
    tmp_path: Path, scale: float, measure: str
) -> None:
    model = loaded("llama")
    attention = model.model.model.layers[2].self_attn
    with torch.no_grad():
        attention.v_proj.weight[16:] *= scale
        attention.o_proj.weight[:, 32:] /= scale
    asked = {"observers": [Geometry()], "n": np.array([1, 2]), "measure": measure}
    with pytest.raises(
        InputError, match="document 'document 0', layer 2, kv_head 1: its largest value state"
    ):
        capture(model, random_windows(2, 40), tmp_path / "run.zarr", **asked)
    assert not (tmp_path / "run.zarr").exists()


def test_progress_counts_documents_layers_and_tokens(tmp_path: Path) -> None:
    seen: list[Progress] = []
    small_run(tmp_path / "run.zarr", on_progress=seen.append)
    assert (seen[0].documents, seen[-1].documents, seen[-1].tokens, seen[-1].tokens_left) == (
        0,
        3,
        120,
        0,
    )
    assert {progress.layer for progress in seen} == {0, 1, 2, 3, 4}


def test_the_machine_is_not_part_of_the_store(tmp_path: Path) -> None:
    text = (small_run(tmp_path / "run.zarr", documents=1).path / "zarr.json").read_text()
    assert "seconds" not in text
    assert "torch_threads" not in text
    assert "host" not in text


def test_fewer_documents_than_the_store_holds_are_refused(tmp_path: Path) -> None:
    small_run(tmp_path / "run.zarr", documents=3)
    with pytest.raises(
        InputError, match=r"holds 3 documents, this run asks for 2\. Use --documents 3"
    ):
        small_run(tmp_path / "run.zarr", documents=2)


def test_two_captures_do_not_write_to_one_store(tmp_path: Path) -> None:
    def second(progress: Progress) -> None:
        with pytest.raises(InputError, match="another geostat command is writing there"):
            small_run(tmp_path / "run.zarr", documents=1)

    small_run(tmp_path / "run.zarr", documents=1, on_progress=second)
    assert [file.name for file in tmp_path.iterdir()] == ["run.zarr"]


def test_a_tap_that_reads_other_weights_than_eager_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Parity(weights=0.01, log_weights=1.0, hidden=0.0, invisible=0.0, layer=2)
    monkeypatch.setattr(source, "parity", lambda *_, **__: found)
    with pytest.raises(
        InputError, match=r"layer 2: tapped weights differ from eager attention by up to 0\.01"
    ):
        small_run(tmp_path / "run.zarr", documents=1)
    assert not (tmp_path / "run.zarr").exists()


@pytest.mark.parametrize("wrong", [pytest.param("head", marks=pytest.mark.slow), "nan", "ctrl-c"])
def test_fresh_keeps_the_old_run_until_the_first_new_document_is_complete(
    tmp_path: Path, wrong: str
) -> None:
    path = small_run(tmp_path / "run.zarr", documents=2).path
    before = contents(tmp_path)
    model, observers, on_progress = loaded("llama"), [Geometry()], None
    if wrong == "head":
        observers = [Geometry(named=((9, 0),))]
    elif wrong == "nan":
        with torch.no_grad():
            model.model.model.layers[2].self_attn.v_proj.weight[16] = float("nan")
    else:

        def on_progress(progress: Progress) -> None:
            if progress.layer == 3:
                raise KeyboardInterrupt

    with pytest.raises((InputError, KeyboardInterrupt)) as caught:
        capture(
            model,
            random_windows(3, 40),
            path,
            observers=observers,
            n=np.array([1, 2]),
            fresh=True,
            on_progress=on_progress,
        )
    assert str(caught.value).startswith(
        {
            "head": "L9H0: no such head",
            "nan": "document 'document 0', layer 2, kv_head 1: NaN",
            "ctrl-c": (
                "interrupted before the first of 3 documents was complete: the run that stood at"
                f" {path} is kept."
            ),
        }[wrong]
    )
    assert contents(tmp_path) == before
    fresh = small_run(path, documents=1, observers=[Geometry()], fresh=True)
    assert len(Store.open(path).documents) == 1
    assert contents(path) == contents(
        small_run(tmp_path / "other.zarr", documents=1, observers=[Geometry()]).path
    )
    assert fresh.path == path


def test_what_an_observer_refuses_is_refused_before_the_model_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "parity", lambda *_: pytest.fail("the model ran"))
    with pytest.raises(InputError, match="L9H0: no such head"):
        small_run(tmp_path / "run.zarr", observers=[Geometry(named=((9, 0),))])


def test_a_fresh_run_that_is_interrupted_says_how_to_go_on(tmp_path: Path) -> None:
    small_run(tmp_path / "run.zarr", documents=1)

    def stop(progress: Progress) -> None:
        if progress.documents == 2 and progress.layer == 1:
            raise KeyboardInterrupt

    with pytest.raises(
        KeyboardInterrupt, match=r"2 of 3 documents are kept .* with --resume in place of --fresh"
    ):
        small_run(tmp_path / "run.zarr", seed=3, fresh=True, on_progress=stop)
    assert len(small_run(tmp_path / "run.zarr", seed=3).documents) == 3


def test_fresh_does_not_remove_what_is_no_run(tmp_path: Path) -> None:
    zarr.create_group(store=tmp_path / "run.zarr", zarr_format=3)
    before = contents(tmp_path)
    with pytest.raises(InputError, match="is not a run of geostat"):
        small_run(tmp_path / "run.zarr", documents=1, fresh=True)
    assert contents(tmp_path) == before


def test_a_run_behind_a_link_is_measured_where_the_link_leads(tmp_path: Path) -> None:
    small_run(tmp_path / "there" / "run.zarr", documents=1)
    (tmp_path / "run.zarr").symlink_to(tmp_path / "there" / "run.zarr")
    small_run(tmp_path / "run.zarr", documents=2, seed=1, fresh=True)
    assert (tmp_path / "run.zarr").is_symlink()
    assert len(Store.open(tmp_path / "there" / "run.zarr").documents) == 2


def test_each_document_is_told_once_it_is_safe(tmp_path: Path) -> None:
    kept: list[int] = []

    def check(documents: int) -> None:
        assert len(Store.open(tmp_path / "run.zarr").documents) == documents
        kept.append(documents)

    small_run(tmp_path / "run.zarr", documents=2, on_kept=check)
    small_run(tmp_path / "run.zarr", documents=3, on_kept=check)
    assert kept == [1, 2, 3]


@pytest.mark.parametrize(("invisible", "stands"), [(None, np.nan), (0.0, 0.0)])
def test_what_stands_outside_the_visible_suffix_is_the_variables_to_say(
    invisible: float | None, stands: float
) -> None:
    variable = Variable(dims=("layer", "position"), invisible=invisible, **WORDS)
    buffers = Buffers(
        {
            "mine": GroupPlan(
                variables={"x": variable}, coordinates={}, sizes={"layer": 2, "position": 3}
            )
        }
    )
    buffers.put("mine", 1, {"x": np.array([5.0, 6.0])})
    np.testing.assert_array_equal(buffers.arrays["mine"]["x"], [[np.nan] * 3, [stands, 5, 6]])


def test_a_damaged_store_is_not_resumed(tmp_path: Path) -> None:
    store = small_run(tmp_path / "run.zarr", documents=1)
    chunk = next(
        file
        for file in (store.path / "capture" / "recall" / "c" / "0").rglob("*")
        if file.is_file()
    )
    chunk.write_bytes(chunk.read_bytes()[::-1])
    with pytest.raises(StoreError, match="is not what was written"):
        small_run(tmp_path / "run.zarr", documents=2)


QUERIES_TOO: Final = [Geometry(), Baselines(), QueryMeans()]


@pytest.mark.parametrize("family", [pytest.param("llama", marks=pytest.mark.slow), "gemma3"])
def test_a_documents_queries_are_measured_as_the_last_of_shorter_windows(
    tmp_path: Path, family: str
) -> None:
    several = small_run(
        tmp_path / "several.zarr",
        family=family,
        documents=2,
        length=60,
        observers=QUERIES_TOO,
        queries=Queries("last", 3),
    ).tree()
    means, whole = several["queries"].to_dataset(), random_windows(2, 60)
    assert means["query_position"].values.tolist() == [[57, 58, 59]] * 2
    each = []
    for length in (58, 59, 60):
        ids = whole.token_ids[:, :length]
        shorter = dataclasses.replace(whole, token_ids=ids)
        each.append(
            capture(
                loaded(family),
                shorter,
                tmp_path / f"{length}.zarr",
                observers=[Geometry()],
                n=np.arange(1, 59),
            ).read("capture")
        )
    for name in ("precision", "recall", "f_outer", "f_inner"):
        stacked = np.stack([one[name].sel(n=slice(None, 58)).values for one in each])
        found = means[name].sel(n=slice(None, 58)).values
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(stacked).any(axis=0))
        known = np.isfinite(stacked).all(axis=0)
        # A shorter forward may round otherwise, and then order two tokens the other way.
        assert np.median(np.abs(found - stacked.mean(axis=0))[known]) < 1e-6
        assert np.abs(found - stacked.mean(axis=0))[known].mean() < 2e-3
        if name in BY_QUERY:
            own = np.moveaxis(means[f"{name}_by_query"].sel(n=slice(None, 58)).values, 3, 0)
            counted = np.isfinite(own)  # not of queries that see the sink where the last does not
            assert (counted[-1] == np.isfinite(stacked[-1])).all()
            np.testing.assert_allclose(np.nanmean(own[:, known], axis=0), found[known], atol=1e-6)
            assert np.median(np.abs(own - stacked)[counted]) < 1e-6
            assert np.abs(own - stacked)[counted].mean() < 2e-3
    sinks = [one["attention_weight"].values[..., 0] for one in each]
    seen = several["capture"]["sink_visible"].values
    np.testing.assert_allclose(
        means["attention_weight"].values[..., 0][:, seen],
        np.mean(sinks, axis=0)[:, seen],
        atol=1e-6,
    )


def test_several_queries_leave_the_last_querys_measurements_as_they_are(tmp_path: Path) -> None:
    alone = small_run(tmp_path / "one.zarr").read("capture")
    beside = small_run(
        tmp_path / "more.zarr", observers=QUERIES_TOO, queries=Queries("spread", 4)
    ).read("capture")
    xr.testing.assert_identical(alone, beside)


def test_a_run_of_other_queries_is_not_resumed(tmp_path: Path) -> None:
    path = tmp_path / "run.zarr"
    small_run(path, observers=QUERIES_TOO, queries=Queries("last", 3))
    with pytest.raises(InputError, match=r"queries = last:3, this run has last:4"):
        small_run(path, observers=QUERIES_TOO, queries=Queries("last", 4))
