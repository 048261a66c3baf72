"""Compilation of kernels is told while it happens, and what a capture's rate leaves out."""

from itertools import count
from types import SimpleNamespace

import numba
import numpy as np

from empirical.measure.compilation import compilation


def kernels():
    """Two kernels that no process has compiled yet, the second calling the first."""

    @numba.njit
    def inner(x):
        return x + 1

    @numba.njit
    def outer(x):
        return inner(x) * 2

    return outer


def test_the_first_kernel_is_told_and_only_what_is_compiled_takes_time(monkeypatch):
    told, outer, looks = [], kernels(), count()
    clock = SimpleNamespace(perf_counter=lambda: float(next(looks)))
    monkeypatch.setattr("empirical.measure.compilation.time", clock)
    with compilation(lambda: told.append("compile")) as watched:
        outer(1.0)
        assert watched.seconds == 1  # two looks at the clock: the kernel inside counts once
        outer(2.0)
        assert watched.seconds == 1
    assert told == ["compile"]
    outer(1)
    assert watched.seconds == 1


def test_a_kernel_read_from_the_disk_is_not_told(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def source(x):
        return np.sqrt(x) + 3

    told = []
    with compilation(lambda: told.append("compile")):
        for _ in range(2):  # the second reads what the first kept
            numba.njit(cache=True)(source)(2.0)
    assert told == ["compile"]
    assert len(list(tmp_path.rglob("*.nbc"))) == 1
