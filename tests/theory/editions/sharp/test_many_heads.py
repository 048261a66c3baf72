"""Many heads on threads started by the main thread only, and bounds by a compiled kernel."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from theory.editions.sharp.sharp_kernels import bounds_of_sums
from theory.editions.sharp.sharp_law import PairwiseLaw, in_threads, pairwise_bounds


def threads_of(tasks: int) -> list[threading.Thread]:
    """Threads that did the tasks, which come in their order."""
    done = in_threads(lambda task: (task, threading.current_thread()), range(tasks))
    assert [task for task, _ in done] == list(range(tasks))
    return [thread for _, thread in done]


def test_only_the_main_thread_with_several_tasks_starts_threads():
    assert threading.current_thread() not in threads_of(5)
    assert threads_of(1) == [threading.current_thread()]
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(threading.current_thread).result()
        assert pool.submit(threads_of, 3).result() == [other] * 3


LAWS = {
    "drawn": lambda *shape: np.random.default_rng(3).uniform(size=shape) ** 4,
    "none in the ball": lambda *shape: np.zeros(shape),
    "all in the ball": lambda *shape: np.ones(shape),
    "whole counts": np.eye,
}


@pytest.mark.parametrize("followup", [False, True])
@pytest.mark.parametrize("kind", sorted(LAWS))
def test_compiled_bounds_are_those_of_the_law(kind: str, followup: bool) -> None:
    for n, outside in ((1, 1), (1, 9), (9, 1), (4, 7), (40, 60)):
        law, found = LAWS[kind](n, outside), np.empty(8)
        columns, rows = (np.stack([law.sum(axis=k), law.max(axis=k)]) for k in (0, 1))
        bounds_of_sums(columns, rows, followup, found)
        expected = pairwise_bounds(PairwiseLaw(closed=law, strict=law), followup=followup)
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)
