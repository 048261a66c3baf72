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
from support.runs import loaded, random_windows, small_run

from empirical.capture.capture import capture
from empirical.capture.cluster.in_order import in_order
from empirical.capture.measuring import Batch, Measuring, Packed
from empirical.capture.observers import Baselines, Geometry
from empirical.capture.source import Tapped
from empirical.errors import InputError
from empirical.store.handed import Place
from empirical.store.journal import entry_of
from empirical.store.layout import Encoder
from empirical.store.settling import Drafts, drafted
from empirical.store.store import Store


class Workers:
    """Workers that finish tasks in any order, some of them twice; each has a deadline, as a task
    that is asked for when its result is not made yet.
    """

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
        task = self.chance.choice([one for one in self.waiting if one.done is None])
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


@pytest.mark.parametrize("seed", range(5))
def test_results_come_in_order_once_each_whatever_order_they_are_made_in(seed: int) -> None:
    workers = Workers(seed)
    assert list(squares(workers, range(1, 30), 6)) == [item**2 for item in range(1, 30)]
    assert workers.ran != sorted(workers.ran)
    assert len(workers.ran) > 29


def test_no_more_tasks_are_under_way_than_asked_for_and_items_are_read_as_there_is_room() -> None:
    workers, read = Workers(), []
    results = squares(workers, (read.append(item) or item for item in range(1, 30)), 4)
    for taken in range(1, 4):
        assert next(results) == taken**2
        assert len(read) == 4 + taken
    assert list(results)
    assert workers.most == 4


def test_what_is_under_way_is_given_up_when_results_are_no_longer_taken() -> None:
    workers = Workers()
    results = squares(workers, range(1, 30), 4)
    next(results)
    results.close()
    assert workers.cancelled == [2, 3, 4]


class Elsewhere(Tapped):
    """A model whose documents are measured by such workers, packed."""

    def __init__(self, workers: Workers, stop: int | None = None, shared: bool = True) -> None:
        super().__init__(loaded("llama"))
        object.__setattr__(self, "shared", shared)
        object.__setattr__(self, "workers", workers)
        object.__setattr__(self, "stop", stop)

    def measured(
        self, measuring: Measuring, batches: Iterable[Batch], place: Place
    ) -> Generator[Packed, None, None]:
        encoder = Encoder.planned(measuring.plans())
        own = place if self.shared else replace(place, sign="of another disk")

        def pack(batch: Batch) -> Packed:
            if batch.documents.start == self.stop:
                raise KeyboardInterrupt
            done = measuring.batch(self, batch, None)
            pairs = zip(done.rows, done.buffers, strict=True)
            entries = [
                own.hand_over(entry_of(row, encoder.chunks(row["name"], each.arrays)))
                for row, each in pairs
            ]
            assert all(isinstance(entry.data, Path) == self.shared for entry in entries)
            return Packed(entries=entries, visible=done.visible, prepared=1e6)

        def submit(batch: Batch) -> Fake:
            return self.workers.submit(lambda: pack(batch), batch.documents)

        return in_order(submit, batches, lambda: 3)

    def drafted(self, place: Place, folder: Path, documents: range) -> Drafts:
        return drafted(folder, documents)


def run(
    path: Path, workers: Workers, *, stop: int | None = None, shared: bool = True, **more: Any
) -> Store:
    return capture(
        Elsewhere(workers, stop, shared),
        random_windows(5, 40),
        path,
        observers=[Geometry(), Baselines()],
        n=np.arange(1, 41),
        **more,
    )


@pytest.mark.parametrize(("batch", "shared"), [(1, True), (2, False)])
def test_a_run_measured_elsewhere_equals_one_measured_here_bit_for_bit(
    tmp_path: Path, batch: int, shared: bool
) -> None:
    here = small_run(tmp_path / "here.zarr", documents=5, batch=batch)
    workers = Workers(1)
    made = run(tmp_path / "there.zarr", workers, batch=batch, shared=shared)
    assert contents(made.path) == contents(here.path)
    assert not list(tmp_path.glob(".there.zarr.handed*"))
    assert len(workers.ran) > len(range(0, 5, batch))  # some ran twice


def test_a_run_elsewhere_goes_on_where_it_or_another_stopped(tmp_path: Path) -> None:
    here = small_run(tmp_path / "here.zarr", documents=5)
    path = tmp_path / "there.zarr"
    small_run(path, documents=1)
    with pytest.raises(KeyboardInterrupt, match=r"of 5 documents are kept"):
        run(path, Workers(2), stop=3)
    kept = len(Store.open(path).documents)
    assert 1 <= kept <= 3
    workers = Workers(3)
    run(path, workers)
    assert contents(path) == contents(here.path)
    assert min(one.start for one in workers.ran) == kept


def test_the_time_that_workers_take_to_load_is_not_counted_into_the_rate(tmp_path: Path) -> None:
    seconds = []
    run(tmp_path / "run.zarr", Workers(), on_progress=lambda one: seconds.append(one.seconds))
    assert seconds[0] >= 0
    assert all(one < 0 for one in seconds[1:])  # the fake says a million


def test_an_observer_that_refuses_does_so_before_any_task(tmp_path: Path) -> None:
    workers = Workers()
    with pytest.raises(InputError, match="L9H0"):
        capture(
            Elsewhere(workers),
            random_windows(2, 40),
            tmp_path / "run.zarr",
            observers=[Geometry(named=((9, 0),))],
            n=np.array([1, 2]),
        )
    assert workers.ran == []
