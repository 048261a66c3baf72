"""Many heads on a few threads: from the first thread alone, as others have threads beside them; and
their bounds by a compiled kernel.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from theory.editions.sharp.bound_kernels import bounds_of_sums
from theory.editions.sharp.many_heads import in_threads
from theory.editions.sharp.sharp_law import PairSums, best_bounds
from theory.head.results import QUANTITIES


def doing(task: int) -> tuple[int, threading.Thread]:
    return task, threading.current_thread()


def test_the_first_thread_hands_work_to_others_and_keeps_its_order():
    done = in_threads(doing, range(5))
    assert [task for task, _ in done] == list(range(5))
    assert threading.current_thread() not in {thread for _, thread in done}


def test_a_single_task_is_done_in_the_thread_that_asks():
    assert in_threads(doing, range(1)) == [(0, threading.current_thread())]


def test_another_thread_does_its_work_itself():
    with ThreadPoolExecutor(1) as pool:
        own, done = pool.submit(
            lambda: (threading.current_thread(), in_threads(doing, range(3)))
        ).result()
    assert done == [(task, own) for task in range(3)]


def drawn_sums(kind: str, n: int, outside: int, chance: np.random.Generator) -> PairSums:
    law = {
        "drawn": lambda: chance.uniform(size=(n, outside)) ** 4,
        "none in the ball": lambda: np.zeros((n, outside)),
        "all in the ball": lambda: np.ones((n, outside)),
        "whole counts": lambda: np.eye(n, outside),
    }[kind]()
    return PairSums(
        column_total=law.sum(axis=0),
        column_largest=law.max(axis=0),
        row_total=law.sum(axis=1),
        row_largest=law.max(axis=1),
    )


@pytest.mark.parametrize("followup", [False, True])
@pytest.mark.parametrize("kind", ["drawn", "none in the ball", "all in the ball", "whole counts"])
def test_compiled_bounds_are_those_of_the_law(kind: str, followup: bool) -> None:
    chance = np.random.default_rng(3)
    for n, outside in ((1, 1), (1, 9), (9, 1), (4, 7), (40, 60)):
        sums = drawn_sums(kind, n, outside, chance)
        expected = best_bounds(sums, followup=followup)
        columns = np.stack([sums.column_total, sums.column_largest])
        found = np.empty(8)
        bounds_of_sums(columns, np.stack([sums.row_total, sums.row_largest]), followup, found)
        for at, quantity in enumerate(QUANTITIES):
            np.testing.assert_allclose(
                found[2 * at : 2 * at + 2], getattr(expected, quantity), rtol=1e-13, atol=1e-15
            )
