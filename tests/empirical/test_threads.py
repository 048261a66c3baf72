"""What `import empirical` tells the threads of torch and of OpenBLAS."""

import os
import subprocess
import sys

import pytest

NAMES = ("GOMP_SPINCOUNT", "OPENBLAS_THREAD_TIMEOUT")
TOLD = f"; import os; print(*(os.environ.get(name) for name in {NAMES!r}))"


@pytest.mark.parametrize(
    ("first", "given", "expected"),
    [
        ("import empirical", {}, "10000 16"),
        ("import geostat", {}, "10000 16"),
        ("import empirical", dict.fromkeys(NAMES, "7"), "7 7"),
        ("import numpy, empirical", {}, "10000 None"),
    ],
)
def test_threads_spin_briefly_unless_configured_or_loaded(first, given, expected):
    kept = {name: value for name, value in os.environ.items() if name not in NAMES}
    done = subprocess.run(
        [sys.executable, "-c", first + TOLD],
        env=kept | given,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == expected.split()
