"""Parallel tasks in threads and on a cluster: order of results, laziness, errors, versions."""

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from empirical.capture.cluster import tasks
from empirical.capture.versions import DERIVING, versions
from geostat.datasets.overlap import AT_ONCE, overlapped, spread_over


def same(task: Any) -> Any:
    return task


def test_results_come_in_task_order():
    second = threading.Event()

    def work(task: int) -> int:
        if task == 0:
            assert second.wait(600)  # set by the task that runs in parallel
        elif task == 1:
            second.set()
        return task * task

    assert list(overlapped(work, range(5))) == [0, 1, 4, 9, 16]


def test_a_task_is_taken_when_an_earlier_one_has_ended():
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for task in range(6):
            taken.append(task)
            yield task

    answers = overlapped(same, tasks())
    for ended in range(3):
        assert next(answers) == ended
        assert len(taken) == ended + AT_ONCE


def test_an_exception_in_a_task_is_raised():
    with pytest.raises(ZeroDivisionError):
        list(overlapped(lambda task: 1 / task, [1, 0, 2]))


def test_one_at_a_time_runs_in_the_calling_thread():
    thread = threading.current_thread()
    answers = overlapped(lambda task: (task, threading.current_thread()), [1, 2], at_once=1)
    assert list(answers) == [(1, thread), (2, thread)]


def test_tasks_run_on_the_cluster_inside_the_block_only(monkeypatch: pytest.MonkeyPatch):
    clusters: list[object] = []

    def map_pickled(work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for task in tasks:  # pickled as for a worker
            yield pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(task)))))

    @contextmanager
    def mapping(cluster: object) -> Iterator[Callable[..., Iterator[Any]]]:
        clusters.append(cluster)
        yield map_pickled

    monkeypatch.setattr(tasks, "mapping", mapping)
    task = [3]
    with spread_over("local:2"):
        [answer] = overlapped(same, [task])
        assert answer == task
        assert answer is not task
    with pytest.raises(ZeroDivisionError), spread_over("local:2"):
        list(overlapped(lambda item: 1 / item, [0]))
    assert next(overlapped(same, [task])) is task
    assert clusters == ["local:2"] * 2
    with spread_over(None):
        assert next(overlapped(same, [task])) is task


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blas_has_one_thread_inside_the_block_and_in_workers(monkeypatch: pytest.MonkeyPatch):
    plugins = pytest.importorskip("empirical.capture.cluster.plugins")
    plugin = plugins.FunctionPlugin(lambda task: blas_threads(), versions(DERIVING), threads=None)
    monkeypatch.setattr(plugins, "get_worker", lambda: SimpleNamespace(plugins={"name": plugin}))
    with threadpool_limits(2, user_api="blas"):
        assert blas_threads() == {2}
        with spread_over(None):
            assert blas_threads() == {1}
        assert plugins.call("name", "run", 0) == {1}
        assert blas_threads() == {2}
