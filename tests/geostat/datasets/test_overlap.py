"""Overlap of work: answers in order, two at a time, and no more tasks taken than that; the same
work on a cluster for as long as it is asked for.
"""

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from empirical.capture.cluster import mapped
from empirical.errors import InputError
from geostat.datasets.overlap import AT_ONCE, overlapped, spread_over


def test_answers_come_in_the_order_of_tasks_whichever_ends_first():
    second = threading.Event()

    def work(task: int) -> int:
        if task == 0:
            assert second.wait(600)  # only a task beside it sets this
        elif task == 1:
            second.set()
        return task * task

    assert list(overlapped(work, range(5))) == [0, 1, 4, 9, 16]


def test_a_task_is_taken_when_one_before_it_has_ended():
    taken: list[int] = []

    def tasks():
        for task in range(6):
            taken.append(task)
            yield task

    answers = overlapped(lambda task: task, tasks())
    for ended in range(3):
        assert next(answers) == ended
        assert len(taken) == ended + AT_ONCE


def test_what_a_task_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        list(overlapped(lambda task: 1 / task, [1, 0, 2]))


def test_one_at_a_time_is_done_here_task_by_task():
    here = threading.current_thread()
    answers = overlapped(lambda task: (task, threading.current_thread()), [1, 2], at_once=1)
    assert list(answers) == [(1, here), (2, here)]


def test_work_goes_to_a_cluster_inside_the_block_alone(monkeypatch: pytest.MonkeyPatch):
    asked: list[object] = []

    @contextmanager
    def mapping(cluster: object) -> Iterator[Callable[..., Iterator[Any]]]:
        def there(work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
            for task in tasks:  # as they travel
                yield pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(task)))))

        asked.append(cluster)
        yield there

    monkeypatch.setattr(mapped, "mapping", mapping)
    task = [3]
    with spread_over("local:2"):
        [answer] = overlapped(lambda one: one, [task])
        assert answer == task
        assert answer is not task
    with pytest.raises(ZeroDivisionError), spread_over("local:2"):
        list(overlapped(lambda one: 1 / one, [0]))
    [answer] = overlapped(lambda one: one, [task])
    assert answer is task
    assert asked == ["local:2"] * 2
    with spread_over(None):
        assert next(overlapped(lambda one: one, [task])) is task


def test_what_is_no_place_is_refused():
    with pytest.raises(InputError, match="expected local:K"), spread_over("here"):
        pass


def blas_threads() -> set[int]:
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_blas_has_one_thread_inside_the_block_and_in_workers(monkeypatch: pytest.MonkeyPatch):
    held = pytest.importorskip("empirical.capture.cluster.held")
    plugin = held.Held(lambda task: blas_threads(), held.versions(), threads=None)
    worker = SimpleNamespace(plugins={"name": plugin})
    monkeypatch.setattr(held, "get_worker", lambda: worker)
    with threadpool_limits(2, user_api="blas"):
        assert blas_threads() == {2}
        with spread_over(None):
            assert blas_threads() == {1}
        assert held.call("name", 0) == {1}
        assert blas_threads() == {2}


def test_a_worker_with_another_version_is_refused(monkeypatch: pytest.MonkeyPatch):
    held = pytest.importorskip("empirical.capture.cluster.held")
    other = held.versions() | {"scipy": "0.1"}
    plugin = held.Held(abs, other, threads=None)
    line = r"worker here: has scipy .*, this run has 0\.1\. Install"
    with pytest.raises(InputError, match=line):
        plugin.setup(SimpleNamespace(address="here"))
    monkeypatch.setattr(held, "get_worker", lambda: SimpleNamespace(plugins={"name": plugin}))
    with pytest.raises(InputError, match=line):  # Dask gives one that came late tasks all the same
        held.call("name", -1)
    held.Held(abs, held.versions(), threads=None).setup(SimpleNamespace(address="here"))
