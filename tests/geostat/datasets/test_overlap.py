"""Overlap of work: answers in order, two at a time, and no more tasks taken than that."""

import threading

import pytest

from geostat.datasets.overlap import AT_ONCE, overlapped


def test_answers_come_in_the_order_of_tasks_whichever_ends_first():
    second = threading.Event()

    def work(task: int) -> int:
        if task == 0:
            assert second.wait(10)  # only a task beside it sets this
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
