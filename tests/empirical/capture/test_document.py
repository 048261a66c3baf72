"""A document under way: layers measured where they live, numbers that come to the host together,
and what is done in a thread beside.
"""

import threading
import time
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support.dispatched import Operations
from support.families import tiny
from support.places import contents
from support.raising import refused
from support.runs import LastWeight, loaded, random_windows, small_run

from empirical.capture import layer_view as view_module
from empirical.capture import measuring as measuring_module
from empirical.capture import source as source_module
from empirical.capture.identity import execution
from empirical.capture.layer_view import Later, fetched, to_host
from empirical.capture.measuring import Document
from empirical.capture.observers import Baselines, Geometry, QueryMeans, Ranks, Sinks
from empirical.capture.source import Tapped
from empirical.errors import InputError
from empirical.sources.queries import Queries
from empirical.store.store import Store
from empirical.tap import interface
from empirical.tap.parity import Parity
from empirical.tap.tap import tap

EVERY = [Geometry(named=((1, 2), (3, 0))), Sinks(), Ranks(), QueryMeans()]
LITTLE: dict[str, Any] = {"documents": 1, "observers": [Geometry()], "n": np.array([1, 2])}
ON_DEVICE = {
    **{"family": "gpt_oss", "documents": 1, "queries": Queries.read("last:4", 40)},
    **{"measure": "device", "observers": [*EVERY, Baselines()]},
}


@pytest.fixture(scope="module")
def on_device(tmp_path_factory) -> Store:
    """A run on a device, with windows of 24 tokens in every second layer. Read only."""
    return small_run(tmp_path_factory.mktemp("on_device") / "run", **ON_DEVICE)


def test_device_and_compiled_measurements_agree(tmp_path, on_device):
    here = small_run(tmp_path / "run", **ON_DEVICE | {"measure": "cpu", "observers": EVERY})
    for group in ("capture", "queries", "sinks", "ranks"):
        one, other = here.read(group), on_device.read(group)
        for name in one.data_vars:
            np.testing.assert_allclose(other[name], one[name], rtol=1e-5, atol=1e-5, err_msg=name)
    assert [run.attributes["measure"] for run in (here, on_device)] == ["cpu", "device"]


@pytest.mark.slow
def test_equal_device_runs_are_equal_bit_for_bit(tmp_path, on_device):
    assert contents(small_run(tmp_path / "run", **ON_DEVICE).path) == contents(on_device.path)


@pytest.mark.parametrize("together", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_layers_measured_together_equal_layers_measured_alone(
    tmp_path, monkeypatch, on_device, together
):
    monkeypatch.setattr(measuring_module, "LAYERS", together)
    other = small_run(tmp_path / "other", **ON_DEVICE)
    for group in ("capture", "null", "queries", "sinks"):
        xr.testing.assert_allclose(on_device.read(group), other.read(group), rtol=1e-5, atol=1e-6)


def test_device_measurements_multiply_in_float32(tmp_path, monkeypatch):
    found: list[str] = []
    whole = Document.whole

    def note(self):
        found.append(torch.get_float32_matmul_precision())
        return whole(self)

    monkeypatch.setattr(Document, "whole", note)
    torch.set_float32_matmul_precision("medium")
    try:
        small_run(tmp_path / "run", measure="device", **LITTLE)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert found == ["highest"]


def test_the_execution_follows_the_devices_of_the_model():
    model = loaded("llama")
    source = Tapped(model)
    assert execution(source.devices, "auto") == "cpu"
    assert execution(source.devices, "device") == "device"
    model.model.get_decoder().layers[1].to("meta")
    assert execution(source.devices, "auto") == "auto"
    model.model.to("meta")
    assert execution(source.devices, "auto") == "device"


@pytest.mark.usefixtures("on_device")  # what a layer needs is laid out once
def test_a_document_synchronises_once(tmp_path, monkeypatch):
    attending, measuring, copies = Operations(), Operations(), []
    attend_, copied_ = interface._attend, view_module._copied
    measure_ = Document._measure_gathered

    def attend(*arguments, **keywords):
        with attending:  # the layer's own attention and its rows of weights
            return attend_(*arguments, **keywords)

    def measure(self):
        with measuring:
            measure_(self)

    def copied(data):
        copies.append(data.numel())
        return copied_(data)

    exact = Parity(weights=0.0, log_weights=0.0, hidden=0.0, invisible=0.0, layer=0)
    monkeypatch.setattr(source_module, "parity", lambda *_, **__: exact)  # once a run, it may wait
    monkeypatch.setattr(interface, "_attend", attend)
    monkeypatch.setattr(Document, "_measure_gathered", measure)
    monkeypatch.setattr(view_module, "_copied", copied)
    small_run(tmp_path / "run", **ON_DEVICE | {"documents": 2})
    assert len(copies) == 2  # documents
    assert len(attending.names) > 300
    assert len(measuring.names) > 1000
    assert attending.waiting == measuring.waiting == []


def test_visibility_is_read_once_per_kind_of_mask():
    firsts: list = []
    ids = torch.as_tensor(random_windows(1, 40).token_ids.astype(np.int64))
    tap(tiny("gemma2"), ids, lambda layer: firsts.append(layer.first))
    assert firsts == [[[16]], [[0]]] * 2
    assert firsts[0] is firsts[2]


class InBackground(LastWeight):
    """An observer that runs in the background thread."""

    in_background = True


@pytest.fixture
def two_cores(monkeypatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)


@pytest.mark.parametrize(
    ("observer", "measure", "cores", "in_background"),
    [
        (LastWeight, "cpu", 2, False),
        (LastWeight, "device", 2, True),
        (InBackground, "cpu", 1, False),
        (InBackground, "cpu", 2, True),
    ],
)
def test_observers_of_a_user_run_in_the_background_on_a_device_and_on_several_cores(
    tmp_path, monkeypatch, observer, measure, cores, in_background
):
    monkeypatch.setattr(torch, "get_num_threads", lambda: cores)
    own, here = observer(), threading.current_thread().name
    more: Any = LITTLE | {"observers": [Geometry(), own]}
    run = small_run(tmp_path / "run", measure=measure, **more)
    weights = run.read("capture")["attention_weight"][..., -1]
    np.testing.assert_allclose(run.read("mine")["last_weight"], weights, rtol=1e-6)
    (thread,) = own.threads
    assert thread.startswith("geostat-background") if in_background else thread == here


@pytest.mark.usefixtures("two_cores")
def test_the_model_runs_ahead_of_background_measurements_up_to_a_limit(tmp_path, monkeypatch):
    begun = [threading.Event() for _ in range(4)]
    ahead: list[int] = []

    class Slow(InBackground):
        def __call__(self, view):
            if view.layer < 3:
                assert begun[view.layer + 1].wait(600)  # the model goes on
            time.sleep(0.02)  # and would go further
            ahead.append(sum(event.is_set() for event in begun) - 1 - view.layer)
            return super().__call__(view)

    class Now(LastWeight):
        group = "now"

        def __call__(self, view):
            begun[view.layer].set()
            return super().__call__(view)

    monkeypatch.setattr(measuring_module, "AHEAD", 1)
    small_run(tmp_path / "run", measure="cpu", **LITTLE | {"observers": [Slow(), Now()]})
    assert ahead == [1, 1, 1, 0]


@pytest.mark.parametrize("measure", ["cpu", "device"])
@pytest.mark.usefixtures("two_cores")
def test_background_errors_are_raised(tmp_path, measure):
    class Broken(InBackground):
        def __call__(self, view):
            raise InputError("cannot measure this.")

    with refused(r"cannot measure this\."):
        small_run(tmp_path / "run", observers=[Geometry(), Broken()], measure=measure)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("observers", [[Geometry()], [Geometry(), Sinks()]])
def test_non_finite_rows_are_refused_as_on_the_cpu(tmp_path, observers, monkeypatch):
    observe = Document.observe

    def spoiled(self, view):
        if view.layer == 2:
            view.every[1, 5, 0] = torch.inf
        observe(self, view)

    monkeypatch.setattr(Document, "observe", spoiled)
    lines = []
    for measure in ("cpu", "device"):
        with refused("document 'document 0', layer 2, kv_head 1: NaN or infinity") as caught:
            small_run(tmp_path / measure, measure=measure, **LITTLE | {"observers": observers})
        lines.append(str(caught.value))
    assert lines[0] == lines[1]


def test_arrays_reach_the_host_unchanged_in_one_copy(monkeypatch):
    copies = []
    monkeypatch.setattr(view_module, "_copied", lambda data: copies.append(1) or data.cpu())
    tensors = [
        torch.tensor(True),
        torch.arange(6, dtype=torch.int32).view(2, 3).T,
        torch.empty(0, 4),
        torch.tensor([1.5, torch.nan], dtype=torch.float64),
        torch.tensor([[2.5]]),
    ]
    for tensor, array in zip(tensors, to_host(tensors), strict=True):
        assert array.dtype == tensor.numpy().dtype
        np.testing.assert_array_equal(array, tensor.numpy())
    assert copies == [1]
    total = Later((torch.tensor([1.0]), torch.tensor([2.0])), lambda a, b: a + b)
    assert fetched({"sum": total, "one": torch.tensor([3.0])}) == {"sum": 3.0, "one": 3.0}
