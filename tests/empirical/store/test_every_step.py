"""A disk that fails at any step of a store's life: one line, and a repetition loses nothing."""

import errno
import json
import os
import subprocess
import sys

import pytest
from support.places import ROOT


@pytest.mark.parametrize(
    ("stride", "error", "options"),
    [
        pytest.param(141, errno.ENOSPC, ["lasting"], id="sampled, full, lasting"),
        pytest.param(1, errno.EIO, [], id="broken", marks=pytest.mark.slow),
        pytest.param(1, errno.ENOSPC, [], id="full", marks=pytest.mark.slow),
        pytest.param(1, errno.ENOSPC, ["lasting"], id="full, lasting", marks=pytest.mark.slow),
    ],
)
def test_any_failing_step_loses_nothing(tmp_path, stride, error, options):
    done = subprocess.run(
        [sys.executable, "-m", "support.life", str(tmp_path), str(error), str(stride), *options],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{ROOT}"},
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)  # `pytest -rP` shows it
    seen = json.loads(done.stdout)
    failed = -(-seen["steps"] // stride)
    assert seen["steps"] > 400
    assert sum(seen["codes"].values()) == failed
    assert seen["codes"]["2"] > 0.9 * failed - 1, "few steps can be done without"
    assert seen["unlike"] == {}
