"""Many heads on a few threads: from the first thread alone, as others have threads beside them."""

import threading
from concurrent.futures import ThreadPoolExecutor

from theory.editions.sharp.many_heads import in_threads


def doing(task: int) -> tuple[int, threading.Thread]:
    return task, threading.current_thread()


def test_the_first_thread_hands_work_to_others_and_keeps_its_order():
    done = in_threads(doing, range(5))
    assert [task for task, _ in done] == list(range(5))
    assert threading.current_thread() not in {thread for _, thread in done}


def test_another_thread_does_its_work_itself():
    with ThreadPoolExecutor(1) as pool:
        own, done = pool.submit(
            lambda: (threading.current_thread(), in_threads(doing, range(3)))
        ).result()
    assert done == [(task, own) for task in range(3)]
