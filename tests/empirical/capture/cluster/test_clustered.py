"""What is waited for on a cluster: a result, or one line that says why none comes."""

import sys
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.raising import refused
from support.runs import loaded, random_windows, small_run
from support.stores import PLAN, arrays, row

import geostat as gs
from empirical.capture.cluster import tasks
from empirical.capture.cluster.clustered import Clustered
from empirical.capture.cluster.tasks import Awaited, connected, place
from empirical.capture.layer_view import RunShape
from empirical.capture.measuring import Batch, Measuring
from empirical.capture.observers import Geometry
from empirical.capture.versions import MEASURING, versions
from empirical.errors import InputError
from empirical.measure.selection import Convention
from empirical.sources.queries import LAST
from empirical.store.journal import place_beside
from empirical.store.store import Store

distributed = pytest.importorskip("distributed")
plugins = pytest.importorskip("empirical.capture.cluster.plugins")
worker = pytest.importorskip("empirical.capture.cluster.worker")

HERE: Any = SimpleNamespace(address="here")


class Future:
    """A future with these answers, one a call; the last is repeated."""

    def __init__(self, *answers: Any, done: bool = False) -> None:
        self.answers, self.finished = list(answers), done

    def done(self) -> bool:
        return self.finished

    def result(self, timeout: float | None = None) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def awaited(future: Future, workers: int = 1) -> Any:
    client: Any = SimpleNamespace(nthreads=lambda: dict.fromkeys(range(workers), 1))
    return Awaited(client, future, "document 'a'").result()  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(tasks, "PATIENCE", 0.0)
    monkeypatch.setattr(plugins, "PAUSE", 0.0)


@pytest.mark.parametrize(("waits", "done"), [(1, True), (9, False)])
def test_a_result_is_awaited_while_workers_exist(waits, done):
    assert awaited(Future(*[TimeoutError()] * waits, 5, done=done)) == 5


def test_a_failed_task_raises_at_once():
    with pytest.raises(TimeoutError, match="its own"):
        awaited(Future(TimeoutError("its own"), done=True))


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (TimeoutError(), "document 'a': the cluster has had no worker for 0 s"),
        (CancelledError(), r"has lost its scheduler\. Complete documents are kept"),
    ],
)
def test_a_cluster_without_workers_or_scheduler_is_reported(answer, line):
    with refused(line):
        awaited(Future(answer), workers=0)


def test_a_document_that_kills_workers_is_named():
    with refused("document 'a': 4 workers died while they measured it"):
        awaited(Future(distributed.KilledWorker("task", None, 3)))


def test_a_worker_writes_to_a_shared_disk(tmp_path, monkeypatch):
    measurer = worker.Measurer(lambda: loaded("llama"), versions(MEASURING), threads=None)
    measurer.setup(HERE)
    here = SimpleNamespace(plugins={"it": measurer})
    monkeypatch.setattr(plugins, "get_worker", lambda: here)
    source, n = measurer.loaded(), np.array([1, 4])
    options = {"n": n, "convention": Convention.PAPER, "seed": 0, "queries": LAST}
    shape = RunShape(**source.sizes, positions=20, **options)
    measuring = Measuring(observers=[Geometry()], shape=shape, where="cpu")
    made = small_run(tmp_path / "run.zarr", documents=1, length=20, n=n, observers=[Geometry()])
    batch = Batch.of(random_windows(1, 20), range(1))
    with place_beside(made.path) as own:
        for where, shared in ((own, True), (replace(own, sign="of another disk"), False)):
            packed = measurer.measure(measuring, batch, source.provenance(), where)
            assert [isinstance(entry.data, Path) for entry in packed.contents] == [shared]
            assert packed.contents[0].row["name"] == "document 0"
            drafts = plugins.call("it", "draft", where, made.path, range(1), slice(0))
            assert drafts == ([] if shared else None)
    measurer.teardown(HERE)


@pytest.mark.parametrize("shared", [True, False])
def test_shards_are_written_locally_without_workers_or_a_shared_disk(tmp_path, shared):
    requests: list[bool] = []

    def gone():
        requests.append(True)
        raise OSError("Timed out trying to connect")

    made = Store.create(tmp_path / "run.zarr", provenance={}, plan=PLAN, documents=1)
    made.append(row("a document"), arrays(0))
    source: Any = Clustered.__new__(Clustered)
    source._client, source._shared = SimpleNamespace(nthreads=gone), shared
    with place_beside(made.path) as beside:
        drafts = source.drafted(beside, made.path, range(1))
    assert len(requests) == shared
    assert len(drafts) == 4  # three variables and the names
    assert all(draft.file.exists() for draft in drafts)


class Losing:
    """A client that loses a worker in each of so many registrations of a plugin."""

    def __init__(self, times: int) -> None:
        self.times, self.calls = times, list[str]()

    def register_plugin(self, plugin: Any, name: str) -> None:
        self.calls.append(f"registered {name}")
        if len(self.calls) <= self.times:
            raise distributed.comm.CommClosedError("Stream is closed")

    def unregister_worker_plugin(self, name: str) -> None:
        self.calls.append(f"removed {name}")


def test_a_worker_lost_during_plugin_registration_is_no_error():
    client, gone = Losing(2), Losing(plugins.TIMES)
    with plugins.installed(client, None, "work"):
        assert client.calls == ["registered work"] * 3
    assert client.calls[3:] == ["removed work"]
    line = r"a worker or the scheduler was lost\. Complete documents"
    with refused(line), plugins.installed(gone, None, "work"):
        pass
    assert gone.calls == ["registered work"] * plugins.TIMES + ["removed work"]


def test_a_late_worker_with_another_version_measures_nothing(monkeypatch):
    plugin = worker.Measurer(loaded, versions(MEASURING) | {"torch": "1.0"}, threads=None)
    with refused("worker here: has torch"):
        plugin.setup(HERE)
    here = SimpleNamespace(plugins={"name": plugin})
    monkeypatch.setattr(plugins, "get_worker", lambda: here)
    with refused(r"worker here: has torch .*, this run has 1\.0"):
        plugins.call("name", "describe")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("local:0", "0 processes, expected 1 to"),
        ("local:999", "999 processes, expected 1 to"),
        *((text, "expected local:K") for text in ("local:x", "local:1\n", "foo", "", "tcp://node")),
        *((text, "expected local:K") for text in ("tcp://node:0", "tcp://node:65536")),
    ],
)
def test_an_invalid_cluster_address_is_refused(text, line):
    with pytest.raises(InputError, match=line):
        place(text)


@pytest.mark.parametrize(
    ("client", "line"),
    [
        ("local:1", "^--cluster needs the library distributed, .*: pip install distributed$"),
        (3, "client=int: expected a Client of Dask distributed"),
    ],
)
def test_an_invalid_client_or_no_distributed_is_refused(monkeypatch, client, line):
    if isinstance(client, str):
        monkeypatch.setitem(sys.modules, "distributed", None)
    with refused(line), connected(client):
        pass


def test_a_model_in_memory_is_refused(tmp_path):
    run = {"documents": [[5, 6, 7, 8, 9, 10]], "length": 6, "out": tmp_path}
    with pytest.raises(gs.InputError, match="client: its workers load the model by name"):
        gs.capture(loaded("llama").model, client="local:1", **run)
