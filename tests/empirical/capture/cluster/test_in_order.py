"""Results are taken in order, once each, a few tasks at a time, whatever workers do; a run that was
measured elsewhere is the one that was measured here, bit for bit.
"""

import random
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.places import contents
from support.raising import refused
from support.runs import loaded, random_windows, small_run

from empirical.capture import source
from empirical.capture.capture import capture
from empirical.capture.cluster.tasks import in_order
from empirical.capture.measuring import Batch, Measured, Measuring
from empirical.capture.observers import Baselines, Geometry
from empirical.capture.source import Tapped
from empirical.store.journal import Place, entry_of
from empirical.store.layout import Encoder
from empirical.store.shards import Drafts, drafted
from empirical.store.store import Store


class Workers:
    """Workers that finish tasks in any order, when a result is waited for; some run twice."""

    def __init__(self, seed: int = 0) -> None:
        self.chance = random.Random(seed)
        self.waiting: list[Fake] = []
        self.most = 0
        self.ran: list[Any] = []
        self.cancelled: list[Any] = []

    def submit(self, act: Callable[[], Any], name: Any) -> "Fake":
        task = Fake(self, act, name)
        self.waiting.append(task)
        self.most = max(self.most, len(self.waiting))
        return task

    def work(self) -> None:
        """Run one of the tasks that wait; one in three is lost then, and runs again."""
        task = self.chance.choice([task for task in self.waiting if task.done is None])
        for _ in range(1 + (self.chance.random() < 1 / 3)):
            self.ran.append(task.name)
            task.done = task.act()


class Fake:
    def __init__(self, workers: Workers, act: Callable[[], Any], name: Any) -> None:
        self.workers, self.act, self.name, self.done = workers, act, name, None

    def result(self) -> Any:
        while self.done is None:
            self.workers.work()
        self.workers.waiting.remove(self)
        return self.done

    def cancel(self) -> None:
        self.workers.cancelled.append(self.name)


def squares(workers: Workers, items: Iterable[int], ahead: int) -> Generator[int, None, None]:
    return in_order(lambda item: workers.submit(lambda: item**2, item), items, lambda: ahead)


@pytest.mark.parametrize("seed", range(3))
def test_results_come_in_order_exactly_once(seed):
    workers = Workers(seed)
    assert list(squares(workers, range(1, 30), 6)) == [item**2 for item in range(1, 30)]
    assert workers.ran != sorted(workers.ran)
    assert len(workers.ran) > 29


def test_the_number_of_tasks_in_progress_is_bounded():
    workers, read = Workers(), []
    results = squares(workers, (read.append(item) or item for item in range(1, 30)), 4)
    for taken in range(1, 4):
        assert next(results) == taken**2
        assert len(read) == 4 + taken
    assert list(results)
    assert workers.most == 4


def test_tasks_are_cancelled_when_the_consumer_stops():
    workers = Workers()
    results = squares(workers, range(1, 30), 4)
    next(results)
    results.close()
    assert workers.cancelled == [2, 3, 4]


class RemoteWorkers(Tapped):
    """A model whose documents are measured by such workers, packed."""

    def __init__(self, workers: Workers, stop: int | None = None, shared: bool = True) -> None:
        super().__init__(loaded("llama"))
        for name, value in {"workers": workers, "stop": stop, "shared": shared}.items():
            object.__setattr__(self, name, value)

    def measured(
        self, measuring: Measuring, batches: Iterable[Batch], place: Place
    ) -> Generator[Measured, None, None]:
        encoder = Encoder.planned(measuring.plans())
        own = place if self.shared else replace(place, sign="of another disk")

        def pack(batch: Batch) -> Measured:
            if batch.documents.start == self.stop:
                raise KeyboardInterrupt
            done = measuring.batch(self, batch, None)
            entries = [
                own.hand_over(entry_of(row, encoder.chunks(row["name"], content.arrays)))
                for row, content in zip(done.rows, done.contents, strict=True)
            ]
            assert all(isinstance(entry.data, Path) == self.shared for entry in entries)
            return replace(done, contents=entries, prepared=1e6)

        def submit(batch: Batch) -> Fake:
            return self.workers.submit(lambda: pack(batch), batch.documents)

        return in_order(submit, batches, lambda: 3)

    def drafted(self, place: Place, folder: Path, documents: range) -> Drafts:
        return drafted(folder, documents)


FEW: dict[str, Any] = {"n": np.array([1, 2, 40])}


def run(
    path: Path, workers: Workers, *, stop: int | None = None, shared: bool = True, **options: Any
) -> Store:
    model = RemoteWorkers(workers, stop, shared)
    options = FEW | {"observers": [Geometry(), Baselines()]} | options
    return capture(model, random_windows(5, 40), path, **options)


def test_batches_on_workers_without_the_shared_disk_equal_those_of_a_local_run(tmp_path):
    here = small_run(tmp_path / "here.zarr", documents=5, batch=2, **FEW)
    made = run(tmp_path / "there.zarr", Workers(1), batch=2, shared=False)
    assert contents(made.path) == contents(here.path)


def test_an_interrupted_run_resumed_on_workers_equals_a_local_run_bit_for_bit(tmp_path):
    path, workers = tmp_path / "there.zarr", Workers(2)
    small_run(path, documents=1, **FEW)
    with pytest.raises(KeyboardInterrupt, match="of 5 documents are kept"):
        run(path, Workers(1), stop=3)
    kept = len(Store.open(path).documents)
    assert 1 <= kept <= 3
    run(path, workers)
    assert contents(path) == contents(small_run(tmp_path / "here.zarr", documents=5, **FEW).path)
    assert not list(tmp_path.glob(".there.zarr.handed*"))
    assert min(documents.start for documents in workers.ran) == kept
    assert len(workers.ran) > 5 - kept  # some ran twice


def test_loading_time_of_workers_is_excluded_from_the_rate(tmp_path):
    seconds: list[float] = []
    more = {"on_progress": lambda progress: seconds.append(progress.seconds)}
    run(tmp_path / "run.zarr", Workers(), observers=[Geometry()], **more)
    assert seconds[0] >= 0
    assert all(second < 0 for second in seconds[1:])  # the fake says a million


def test_an_observer_refuses_before_any_task_and_before_the_model_runs(tmp_path, monkeypatch):
    workers = Workers()
    monkeypatch.setattr(source, "parity", lambda *_: pytest.fail("the model ran"))
    with refused("L9H0: no such head; layers run 0 to 3"):
        run(tmp_path / "run.zarr", workers, observers=[Geometry(named=((9, 0),))])
    assert workers.ran == []
