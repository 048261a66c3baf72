"""What is waited for on a cluster: a result, or one line that says why none comes."""

import sys
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.runs import loaded, random_windows, small_run
from support.spine import capturing, geostat, refused
from support.stores import PLAN, arrays, row

import geostat as gs
from empirical.capture.cluster import awaited as awaiting
from empirical.capture.cluster.awaited import Awaited
from empirical.capture.cluster.clustered import Clustered
from empirical.capture.cluster.places import place
from empirical.capture.layer_view import RunShape
from empirical.capture.measuring import Batch, Measuring
from empirical.capture.observers import Geometry
from empirical.errors import InputError
from empirical.measure.convention import Convention
from empirical.sources.queries import LAST
from empirical.store.handed import place_beside
from empirical.store.store import Store


class Client:
    """A client that has so many workers."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def nthreads(self) -> dict[int, int]:
        return dict.fromkeys(range(self.workers), 1)


class Future:
    """A future that answers as told, one answer a call."""

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
    pytest.importorskip("distributed")
    return Awaited(Client(workers), future, "document 'a'").result()  # type: ignore[arg-type]


def test_a_result_that_comes_as_the_wait_ends_is_taken() -> None:
    assert awaited(Future(TimeoutError(), 5, done=True)) == 5


def test_a_task_that_raises_is_not_waited_for() -> None:
    with pytest.raises(TimeoutError, match="its own"):
        awaited(Future(TimeoutError("its own"), done=True))


def test_a_result_is_waited_for_while_there_are_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaiting, "PATIENCE", 0.0)
    assert awaited(Future(*[TimeoutError()] * 9, 5)) == 5


def test_where_no_workers_are_left_that_is_said_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(awaiting, "PATIENCE", 0.0)
    with pytest.raises(InputError, match="document 'a': the cluster has had no worker for 0 s"):
        awaited(Future(TimeoutError()), workers=0)


def test_a_scheduler_that_is_gone_is_one_line() -> None:
    with pytest.raises(InputError, match=r"has lost its scheduler\. What was complete is kept"):
        awaited(Future(CancelledError()))


def test_a_document_of_which_workers_die_is_named() -> None:
    killed = pytest.importorskip("distributed").KilledWorker
    with pytest.raises(InputError, match="document 'a': 4 workers died while they were at it"):
        awaited(Future(killed("task", None, 3)))


@pytest.mark.parametrize("shared", [True, False])
def test_a_worker_writes_onto_the_disk_that_it_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    pytest.importorskip("distributed")
    from empirical.capture.cluster import held, worker

    measurer = worker.Measurer(lambda: loaded("llama"), worker.versions(), threads=None)
    measurer.setup(SimpleNamespace(address="here"))  # type: ignore[arg-type]
    source = measurer.loaded()
    shape = RunShape(
        **source.sizes,
        positions=20,
        n=np.array([1, 4]),
        convention=Convention.PAPER,
        seed=0,
        queries=LAST,
    )
    measuring = Measuring(observers=[Geometry()], shape=shape, where="cpu")
    made = small_run(tmp_path / "run.zarr", documents=1, length=20, n=shape.n)
    with place_beside(made.path) as own:
        where = own if shared else replace(own, sign="of another disk")
        batch = Batch.of(random_windows(1, 20), range(1))
        packed = measurer.measure(measuring, batch, source.provenance(), where)
        assert [isinstance(entry.data, Path) for entry in packed.entries] == [shared]
        assert packed.entries[0].row["name"] == "document 0"
        monkeypatch.setattr(held, "get_worker", lambda: SimpleNamespace(plugins={"it": measurer}))
        drafts = worker.draft("it", where, made.path, range(1), slice(0))
        assert drafts == ([] if shared else None)
    measurer.teardown(SimpleNamespace())  # type: ignore[arg-type]


class Gone:
    """A client whose scheduler has gone, which says how often it was asked."""

    asked = 0

    def nthreads(self) -> dict[int, int]:
        self.asked += 1
        raise OSError("Timed out trying to connect")


@pytest.mark.parametrize("shared", [True, False])
def test_shards_are_written_here_where_no_worker_can(tmp_path: Path, shared: bool) -> None:
    made = Store.create(tmp_path / "run.zarr", provenance={}, plan=PLAN, documents=1)
    made.append(row("a document"), arrays(0))
    source, client = Clustered.__new__(Clustered), Gone()
    source._client, source._shared = client, shared  # type: ignore[assignment]
    with place_beside(made.path) as place:
        drafts = source.drafted(place, made.path, range(1))
    assert client.asked == shared
    assert len(drafts) == 4  # three variables and the names
    assert all(draft.file.exists() for draft in drafts)


class Told:
    """A client of whose workers one goes away as it is told something, so many times."""

    def __init__(self, times: int) -> None:
        self.times, self.calls = times, list[str]()

    def register_plugin(self, plugin: Any, name: str) -> None:
        self.calls.append(f"given {name}")
        if len(self.calls) <= self.times:
            raise pytest.importorskip("distributed").comm.CommClosedError("Stream is closed")

    def unregister_worker_plugin(self, name: str) -> None:
        self.calls.append(f"taken {name}")


def test_a_worker_that_dies_as_it_is_told_what_to_do_is_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("distributed")
    from empirical.capture.cluster import held

    monkeypatch.setattr(held, "PAUSE", 0.0)
    client = Told(2)
    with held.given(client, None, "work"):  # type: ignore[arg-type]
        assert client.calls == ["given work"] * 3
    assert client.calls[3:] == ["taken work"]
    gone = Told(held.TIMES)
    with (
        pytest.raises(InputError, match=r"a worker or its scheduler went away\. What was complete"),
        held.given(gone, None, "work"),  # type: ignore[arg-type]
    ):
        pass
    assert gone.calls == ["given work"] * held.TIMES + ["taken work"]  # from those that know it


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("local:0", "0 processes, expected 1 to"),
        ("local:999", "999 processes, expected 1 to"),
        ("local:x", "expected local:K"),
        ("local:1\n", "expected local:K"),
        ("foo", "expected local:K"),
        ("", "expected local:K"),
        ("tcp://node:0", "expected local:K"),
        ("tcp://node:65536", "expected local:K"),
        ("tcp://node", "expected local:K"),
    ],
)
def test_a_place_that_is_none_is_refused(text: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        place(text)


def test_a_command_without_the_library_says_how_to_get_it(
    model_folder: Path, text_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    words = [*capturing(model_folder, text_folder, tmp_path), "--cluster", "local:1"]
    said = refused(geostat(*words))
    assert said.startswith("--cluster needs the library distributed, which is not installed.")
    assert said.endswith("pip install distributed")
    assert not (tmp_path / "run.zarr").exists()


def test_a_client_that_is_none_and_a_model_in_memory_are_refused(
    model_folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    texts = ["some letters of a text", "and those of one more text"]
    with pytest.raises(gs.InputError, match="client=int: expected a Client of Dask distributed"):
        gs.capture(str(model_folder), documents=texts, length=12, client=3, out=tmp_path)
    held = {"documents": [[5, 6, 7, 8, 9, 10]], "length": 6, "client": "local:1", "out": tmp_path}
    with pytest.raises(gs.InputError, match="client: its workers load a model themselves"):
        gs.capture(loaded("llama").model, **held)


def test_a_late_worker_of_another_version_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    from empirical.capture.cluster import held, worker

    plugin = worker.Measurer(loaded, worker.versions() | {"torch": "1.0"}, threads=None)
    with pytest.raises(InputError, match="worker here: has torch"):
        plugin.setup(SimpleNamespace(address="here"))  # type: ignore[arg-type]
    monkeypatch.setattr(held, "get_worker", lambda: SimpleNamespace(plugins={"name": plugin}))
    with pytest.raises(InputError, match=r"worker here: has torch .*, this run has 1\.0"):
        worker.describe("name")
