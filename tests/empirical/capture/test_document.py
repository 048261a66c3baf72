"""A document under way: layers measured where they live, numbers that come to the host together,
and what is done in a thread beside.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from support.dispatched import Operations
from support.families import tiny
from support.places import contents
from support.runs import loaded, random_windows, small_run

from empirical.capture import document, waiting
from empirical.capture import source as source_module
from empirical.capture.capture import capture
from empirical.capture.identity import execution
from empirical.capture.layer_view import LayerView, RunShape
from empirical.capture.observers import Baselines, Buffers, Geometry, QueryMeans, Sinks
from empirical.capture.source import Tapped
from empirical.capture.waiting import Later, Waiting, to_host
from empirical.errors import InputError
from empirical.schema import Variable
from empirical.sources.queries import Queries
from empirical.store.layout import GroupPlan
from empirical.tap import interface
from empirical.tap.parity import Parity
from empirical.tap.tap import tap

EVERY = [Geometry(named=((1, 2), (3, 0))), Sinks(), QueryMeans()]
FOUR = {"queries": Queries.read("last:4", 40)}


class OnHost:
    """An observer that knows nothing of devices."""

    group = "mine"

    def __init__(self) -> None:
        self.threads: set[str] = set()

    def plan(self, shape: RunShape) -> GroupPlan:
        words = {"long_name": "weight", "units": "1", "symbol": "", "equation": ""}
        variables = {"last_weight": Variable(dims=("layer", "head"), **words)}
        return GroupPlan(variables=variables, coordinates=shape.coordinates("layer", "head"))

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        assert not view.on_device
        self.threads.add(threading.current_thread().name)
        return {"last_weight": view.alpha[:, -1].numpy()}


@pytest.mark.parametrize("family", ["gemma2", "gpt_oss"])
def test_a_run_measured_on_the_device_has_the_numbers_of_one_measured_by_loops(
    tmp_path: Path, family: str
) -> None:
    runs = {
        how: small_run(
            tmp_path / how, family=family, documents=1, observers=EVERY, measure=how, **FOUR
        )
        for how in ("cpu", "device")
    }
    for group in ("capture", "queries", "sinks"):
        one, other = (runs[how].read(group) for how in ("cpu", "device"))
        for name in one.data_vars:
            np.testing.assert_allclose(
                other[name].values, one[name].values, rtol=1e-5, atol=1e-5, err_msg=name
            )
    assert [run.attributes["measure"] for run in runs.values()] == ["cpu", "device"]


@pytest.mark.slow
def test_equal_runs_on_the_device_are_equal_bit_for_bit(tmp_path: Path) -> None:
    observers = [*EVERY, Baselines()]
    for name in ("a", "b"):
        small_run(tmp_path / name, documents=1, observers=observers, measure="device", **FOUR)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("together", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_layers_measured_together_have_the_numbers_of_each_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    observers = [*EVERY, Baselines()]
    asked = {"observers": observers, "measure": "device", "documents": 1, **FOUR}
    one = small_run(tmp_path / "one", **asked)
    monkeypatch.setattr(document, "LAYERS", together)
    other = small_run(tmp_path / "other", **asked)
    for group in ("capture", "null", "queries", "sinks"):
        xr.testing.assert_allclose(one.read(group), other.read(group), rtol=1e-5, atol=1e-6)


def test_what_is_measured_on_a_device_multiplies_in_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    whole = document.Document.whole

    def told(self: document.Document) -> Buffers:
        found.append(torch.get_float32_matmul_precision())
        return whole(self)

    monkeypatch.setattr(document.Document, "whole", told)
    torch.set_float32_matmul_precision("medium")
    try:
        small_run(tmp_path / "run", documents=2, measure="device")
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert found == ["highest"] * 2


def test_a_run_is_not_gone_on_with_elsewhere(tmp_path: Path) -> None:
    small_run(tmp_path / "run", documents=1, measure="auto")
    assert small_run(tmp_path / "run", documents=2, measure="cpu").attributes["measure"] == "cpu"
    with pytest.raises(InputError, match="was measured with measure = cpu, this run has device"):
        small_run(tmp_path / "run", documents=3, measure="device")


def test_where_a_model_is_measured_is_told_by_where_it_lives() -> None:
    model = loaded("llama")
    source = Tapped(model)
    assert execution(source.devices, "auto") == "cpu"
    assert execution(source.devices, "device") == "device"
    model.model.get_decoder().layers[1].to("meta")
    assert execution(source.devices, "auto") == "auto"
    model.model.to("meta")
    assert execution(source.devices, "auto") == "device"


@pytest.mark.parametrize("family", ["llama", pytest.param("mistral", marks=pytest.mark.slow)])
def test_a_document_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    asked, copies, measuring = Operations(), [], Operations()

    def attend(*args, **keywords):
        with asked:  # the layer's own attention and its rows of weights
            return _attend(*args, **keywords)

    def measure(self) -> None:
        with measuring:
            _measure(self)

    def copied(data: torch.Tensor) -> torch.Tensor:
        copies.append(data.numel())
        return _copied(data)

    _attend, _copied = interface._attend, waiting._copied
    _measure = document.Document._measure_gathered
    observers = [*EVERY, Baselines()]
    asked_for = {"family": family, "observers": observers, "measure": "device", **FOUR}
    small_run(tmp_path / "laid out", documents=1, **asked_for)
    exact = Parity(weights=0.0, log_weights=0.0, hidden=0.0, invisible=0.0, layer=0)
    monkeypatch.setattr(source_module, "parity", lambda *_, **__: exact)  # once a run, it may wait
    monkeypatch.setattr(interface, "_attend", attend)
    monkeypatch.setattr(document.Document, "_measure_gathered", measure)
    monkeypatch.setattr(waiting, "_copied", copied)
    small_run(tmp_path / "run", documents=2, **asked_for)
    assert len(copies) == 2  # documents
    assert len(asked.names) > 300
    assert len(measuring.names) > 1000
    assert asked.waiting == measuring.waiting == []


def test_what_a_query_sees_is_read_once_for_each_kind_of_mask() -> None:
    firsts: list = []
    ids = torch.as_tensor(random_windows(1, 40).token_ids.astype(np.int64))
    tap(tiny("gemma2"), ids, lambda layer: firsts.append(layer.first))
    assert firsts == [[[16]], [[0]]] * 2
    assert firsts[0] is firsts[2]


def test_an_observer_that_knows_no_device_gets_the_cpu_in_a_thread_beside(tmp_path: Path) -> None:
    beside, here = OnHost(), OnHost()
    one = small_run(tmp_path / "one", observers=[Geometry(), beside], measure="device")
    other = small_run(tmp_path / "other", observers=[Geometry(), here], measure="cpu")
    xr.testing.assert_identical(one.read("mine"), other.read("mine"))
    assert [name.startswith("geostat-beside") for name in beside.threads] == [True]
    assert here.threads == {threading.current_thread().name}


class Beside(OnHost):
    """An observer that asks for the thread beside."""

    beside = True


@pytest.fixture
def cores(request: pytest.FixtureRequest) -> Iterator[int]:
    """So many threads for the model."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("cores", [1, 2], indirect=True)
def test_an_observer_that_asks_for_the_thread_beside_gets_it_where_the_model_has_several(
    tmp_path: Path, cores: int
) -> None:
    beside, here = Beside(), OnHost()
    one = small_run(tmp_path / "one", observers=[Geometry(), beside], measure="cpu")
    other = small_run(tmp_path / "other", observers=[Geometry(), here], measure="cpu")
    xr.testing.assert_identical(one.read("mine"), other.read("mine"))
    assert np.isfinite(one.read("mine").last_weight).all()
    assert [name.startswith("geostat-beside") for name in beside.threads] == [cores > 1]


@pytest.mark.parametrize("cores", [2], indirect=True)
@pytest.mark.usefixtures("cores")
def test_the_model_goes_on_while_layers_are_measured_beside_but_not_further_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = [threading.Event() for _ in range(4)]
    ahead: list[int] = []

    class Slow(Beside):
        def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
            if view.layer < 3:
                assert begun[view.layer + 1].wait(600)  # the model goes on
            time.sleep(0.02)  # and would go further
            ahead.append(sum(one.is_set() for one in begun) - 1 - view.layer)
            return super().__call__(view)

    class Now(OnHost):
        group = "now"

        def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
            begun[view.layer].set()
            return super().__call__(view)

    monkeypatch.setattr(document, "AHEAD", 1)
    small_run(tmp_path / "run", documents=1, observers=[Slow(), Now()], measure="cpu")
    assert ahead == [1, 1, 1, 0]


@pytest.mark.parametrize("cores", [2], indirect=True)
@pytest.mark.parametrize("measure", ["cpu", "device"])
@pytest.mark.usefixtures("cores")
def test_what_goes_wrong_beside_is_passed_on(tmp_path: Path, measure: str) -> None:
    class Broken(Beside):
        def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
            raise InputError("cannot measure this.")

    with pytest.raises(InputError, match=r"cannot measure this\."):
        small_run(tmp_path / "run", observers=[Geometry(), Broken()], measure=measure)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("observers", [[Geometry()], [Geometry(), Sinks()]])
def test_what_is_not_finite_is_refused_as_on_the_cpu(
    tmp_path: Path, observers: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded("llama")
    observe = document.Document.observe

    def spoiled(self, view: LayerView) -> None:
        if view.layer == 2:
            view.every[1, 5, 0] = torch.inf
        observe(self, view)

    monkeypatch.setattr(document.Document, "observe", spoiled)
    said = []
    for how in ("cpu", "device"):
        with pytest.raises(InputError) as caught:
            capture(
                model,
                random_windows(1, 40),
                tmp_path / how,
                observers=observers,
                n=np.arange(1, 41),
                measure=how,
            )
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "document 'document 0', layer 2, kv_head 1: NaN or infinity" in said[0]


def test_arrays_come_to_the_host_as_they_were_and_in_one_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies = []
    monkeypatch.setattr(waiting, "_copied", lambda data: copies.append(1) or data.cpu())
    tensors = [
        torch.tensor(True),
        torch.arange(6, dtype=torch.int32).view(2, 3).T,
        torch.empty(0, 4),
        torch.tensor([1.5, torch.nan], dtype=torch.float64),
        torch.tensor([[2.5]]),
    ]
    for one, array in zip(tensors, to_host(tensors), strict=True):
        assert array.dtype == one.numpy().dtype
        np.testing.assert_array_equal(array, one.numpy())
    assert copies == [1]
    held: Waiting[str] = Waiting()
    held.add("sum", Later((torch.tensor([1.0]), torch.tensor([2.0])), lambda a, b: a + b))
    held.add("one", torch.tensor([3.0]))
    assert held.fetch() == {"sum": 3.0, "one": 3.0}
    assert held.held == {}
