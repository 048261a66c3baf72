"""Compilation of kernels is messages while it happens, and what a capture's rate leaves out."""

from itertools import count
from types import SimpleNamespace

import numba
import numpy as np

from empirical.measure.compiled import compilation


def kernels():
    """Two kernels that no process has compiled yet, the second calling the first."""

    @numba.njit
    def inner(x):
        return x + 1

    @numba.njit
    def outer(x):
        return inner(x) * 2

    return outer


def test_the_first_compilation_is_reported_and_timed(monkeypatch):
    messages, outer, looks = [], kernels(), count()
    clock = SimpleNamespace(perf_counter=lambda: float(next(looks)))
    monkeypatch.setattr("empirical.measure.compiled.time", clock)
    with compilation(lambda: messages.append("compile")) as watched:
        outer(1.0)
        assert watched.seconds == 1  # two looks at the clock: the kernel inside counts once
        outer(2.0)
        assert watched.seconds == 1
    assert messages == ["compile"]
    outer(1)
    assert watched.seconds == 1


def test_a_cached_kernel_is_not_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_LOCATOR_CLASSES", "")  # `make test` sets others

    def source(x):
        return np.sqrt(x) + 3

    messages = []
    with compilation(lambda: messages.append("compile")):
        for _ in range(2):  # the second reads what the first kept
            numba.njit(cache=True)(source)(2.0)
    assert messages == ["compile"]
    assert len(list(tmp_path.rglob("*.nbc"))) == 1
